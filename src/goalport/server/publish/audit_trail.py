"""What callers do, as the audit log has it: calls, answers, ends and denials.

Doors and the site say what was done; where there is no audit log, nothing is. `publisher` is above.
"""

import logging
import time
from collections.abc import Mapping
from typing import Final

from goalport.base.caller import Caller
from goalport.base.observe.audit import Audit
from goalport.runtime.process import Question
from goalport.server.publish.calls import Call
from goalport.server.publish.forms import form_of
from goalport.tools.schemas import UNREADABLE

_MOST_NAMES: Final = 50
_LONGEST_NAME: Final = 100
_MOST_DENIALS: Final = 60
_DENIAL_SECONDS: Final = 60.0
"""So many denials are written in so many seconds, so that a flood of them drives out nothing else."""


class AuditTrail:
    """Notes what callers do on one server."""

    def __init__(self, audit: Audit | None) -> None:
        self._audit = audit
        self._since = 0.0
        self._denials = 0

    @property
    def lost(self) -> int:
        """How many entries could not be written."""
        return 0 if self._audit is None else self._audit.lost

    def on_call(self, call: Call, /) -> None:
        """Note a call that has ended, unless it only reads."""
        if self._audit is not None and call.level >= logging.INFO:
            names = [each[:_LONGEST_NAME] for each in call.arguments[:_MOST_NAMES]]
            facts = {"door": call.door, "call": call.name, "arguments": names, "status": call.status}
            process = "" if call.process is None else call.process.id
            self._audit.note("called", call.caller, {**facts, "process_id": process, "seconds": round(call.seconds, 3)})

    def answered(self, caller: Caller, question: Question, response: object = None, *, declined: bool = False) -> None:
        """Note that a question was answered: approved or not where it was a yes or no, else without what was said."""
        if self._audit is not None:
            deed = "declined" if declined or response is False else "approved" if response is True else "answered"
            facts = {"process_id": question.process_id, "question_id": question.id, "kind": _kind(question)}
            self._audit.note(deed, caller, facts)

    def ended(self, caller: Caller, process_id: str) -> None:
        """Note that a process was ended by a caller."""
        if self._audit is not None:
            self._audit.note("ended", caller, {"process_id": process_id})

    def erased(self, caller: Caller, whose: Caller | None, facts: Mapping[str, object]) -> None:
        """Note that what a caller left was erased, or one process; `facts` say how much, and not what."""
        if self._audit is not None:
            of = {} if whose is None else {"of_caller": whose.id, "of_issuer": whose.issuer}
            self._audit.note("erased", caller, {**of, **facts})

    def denied(self, caller: Caller, status: int, path: str) -> None:
        """Note that a request was denied; of a flood of them, the first and how many there were."""
        if self._audit is None:
            return
        now = time.monotonic()
        if now - self._since >= _DENIAL_SECONDS:
            unwritten, self._since, self._denials = max(0, self._denials - _MOST_DENIALS), now, 0
            if unwritten:
                self._audit.note("denied", caller, {"unwritten": unwritten})
        self._denials += 1
        if self._denials <= _MOST_DENIALS:
            self._audit.note("denied", caller, {"http_status": status, "path": path[:_LONGEST_NAME]})

    def close(self) -> None:
        """Write what was noted."""
        if self._audit is not None:
            self._audit.close()


def _kind(question: Question) -> str:
    try:
        return form_of(question).kind
    except UNREADABLE:
        return ""
