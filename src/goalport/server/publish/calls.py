"""The calls that a server's doors answer: how many are open, and what is told of each when it has ended.

A door says who calls what, and what comes of it; one line of the log tells of each call. Doors and the site also say
what callers did besides, for the audit log; where there is none, nothing is written. `publisher` is above.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextvars import Token
from random import Random
from time import perf_counter
from types import TracebackType
from typing import Final, Self

from goalport.base.caller import Caller
from goalport.base.observe import REQUEST_ID
from goalport.base.observe.audit import Audit
from goalport.base.observe.log_lines import FIELDS
from goalport.base.secrecy import hide
from goalport.runtime.process import AgentProcess, Failed, Question
from goalport.server.publish.forms import form_of
from goalport.tools.schemas import UNREADABLE

_log: Final = logging.getLogger("goalport.calls")
_random: Final = Random()  # noqa: S311 - the id of a request is no secret
"""Not that of the program, which an agent may seed: its ids would come again."""


class Call:
    """One call: who called what through which door, and what came of it; it is open inside its context.

    Without a request that has an id, such as over stdio, the call is given one.
    """

    __slots__ = (
        "_began",
        "_calls",
        "_token",
        "arguments",
        "caller",
        "door",
        "known",
        "level",
        "name",
        "process",
        "seconds",
        "status",
    )

    def __init__(self, calls: "OpenCalls", door: str, name: str, caller: Caller) -> None:
        self.door = door
        self.name = name
        """The tool or the goal, or the method and the path."""
        self.caller = caller
        self.known = False
        """Whether the name is one that the server has, and not only what the client sent."""
        self.arguments: tuple[str, ...] = ()
        """The names of its arguments."""
        self.process: AgentProcess | None = None
        """The process that the call started, or that it is about."""
        self.status = ""
        """What came of the call; of one about a process, it is the status of the process unless something is set."""
        self.seconds = 0.0
        """How long it took, once it has ended."""
        self.level = logging.INFO
        """The level of its line in the log."""
        self._calls = calls
        self._began = 0.0
        self._token: Token[str] | None = None

    def __enter__(self) -> Self:
        self._began = perf_counter()
        self._token = None if REQUEST_ID.get() else REQUEST_ID.set(new_request_id())
        self._calls.opened(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.opened(-1)
        self.seconds = perf_counter() - self._began
        self.status = self.status or self._status(kind)
        for each in self._calls.observers:
            each(self)
        if self._token is not None:
            REQUEST_ID.reset(self._token)

    def _status(self, raised: type[BaseException] | None) -> str:
        if raised is not None:
            return "refused" if issubclass(raised, Exception) else "cancelled"
        if self.process is None:
            return "completed"
        outcome = self.process.outcome
        return "unavailable" if isinstance(outcome, Failed) and outcome.not_begun else str(self.process.status)


class OpenCalls:
    """The calls that the doors of one server are answering; a shutdown waits for them."""

    def __init__(self) -> None:
        self.number = 0
        self.closing = asyncio.Event()
        """Set once a shutdown waits for the calls, so that they wait for no person any more."""
        self.observers: list[Callable[[Call], None]] = [log_call]
        """They are told of each call that has ended, whether or not it was answered."""
        self.refusals: list[Callable[[str], None]] = []
        """They are told of each call that a limit refuses: the name of the limit's setting."""
        self._none = asyncio.Event()
        self._none.set()

    def of(self, door: str, name: str, caller: Caller) -> Call:
        """A call, which is open inside its context."""
        return Call(self, door, name, caller)

    def opened(self, more: int) -> None:
        """Note that so many calls more are open, or fewer."""
        self.number += more
        if self.number:
            self._none.clear()
        else:
            self._none.set()

    def refused(self, limit: str) -> None:
        """Tell that a limit has refused something; `limit` is the name of its setting."""
        for each in self.refusals:
            each(limit)

    async def ended(self) -> None:
        """Wait until no call is open, because the server shuts down."""
        self.closing.set()
        await self._none.wait()


def log_call(call: Call) -> None:
    """Write the line of the log for a call."""
    if not _log.isEnabledFor(call.level):
        return
    caller, process, about = call.caller, call.process, ""
    name = call.name if call.known else hide(call.name)
    fields: dict[str, object] = {"door": call.door, "call": name, "caller": caller.id}
    who = caller.id
    if caller.issuer:
        fields["issuer"] = caller.issuer
        who = f"{caller.id} of {caller.issuer}"
    fields["status"], fields["seconds"] = call.status, round(call.seconds, 6)
    if process is not None:
        spent = process.turn_usage
        fields["process_id"], fields["cost"] = process.id, spent.cost
        about = f"process {process.id}, {spent.cost:.4f} USD"
        if spent.tokens:
            fields["input_tokens"], fields["output_tokens"] = spent.input_tokens, spent.output_tokens
            about += f", {spent.input_tokens:,} tokens in, {spent.output_tokens:,} out"
        about = f" ({about})"
    message = f"{name} {call.status} after {call.seconds:.3f} s over {call.door} for {who}{about}"
    _log.log(call.level, message, extra={FIELDS: fields})


def new_request_id() -> str:
    """An id for a request that came with none."""
    return f"{_random.getrandbits(64):016x}"


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
