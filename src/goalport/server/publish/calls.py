"""The calls that a server's doors answer: how many are open, and what is logged when one has ended.

A door sets who calls what, and how the call ended; each call is one line of the log. Doors and the site also report
what else callers did to the audit log, if there is one. `publisher` is above.
The traceback of a bug in a call is logged; the client gets one sentence.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextvars import Token
from dataclasses import dataclass
from random import Random
from secrets import token_hex
from time import perf_counter
from types import TracebackType
from typing import Final, Self

from goalport.base.caller import Caller
from goalport.base.errors import GoalportError, HandedOver, StoreError, Unreadable
from goalport.base.observe import REQUEST_ID
from goalport.base.observe.audit import Audit
from goalport.base.observe.log_lines import FIELDS
from goalport.base.secrecy import hide
from goalport.base.words import first_line
from goalport.runtime.process import AgentProcess, Failed, Question
from goalport.server.publish.forms import form_of
from goalport.tools.schemas import UNREADABLE

_log: Final = logging.getLogger("goalport.calls")
_errors: Final = logging.getLogger(__name__)
_random: Final = Random()  # noqa: S311 - the id of a request is no secret
"""Not the generator of the `random` module, which an agent may seed: ids would then repeat."""


@dataclass(slots=True, eq=False)
class Call:
    """One call: who called what through which door, and how it ended. It is open while its context is entered.

    If there is no request with an id, as over stdio, the call sets a new `REQUEST_ID`.
    """

    _calls: "OpenCalls"
    door: str
    name: str
    """The tool or the goal; over plain HTTP the method and the path."""
    caller: Caller
    known: bool = False
    """Whether the server has something of that name; if not, the log hides secrets in it."""
    arguments: tuple[str, ...] = ()
    """The names of its arguments."""
    process: AgentProcess | None = None
    """The process that the call started, or that it is about."""
    status: str = ""
    """How the call ended, such as `completed`. If empty at its end, it is set from the exception or the process."""
    seconds: float = 0.0
    """How long it took, once it has ended."""
    level: int = logging.INFO
    """The level of its line in the log."""
    _began: float = 0.0
    _token: Token[str] | None = None

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
        if not self.status:
            outcome = None if self.process is None else self.process.outcome
            if kind is not None:
                self.status = "refused" if issubclass(kind, Exception) else "cancelled"
            elif isinstance(outcome, Failed) and outcome.not_begun:
                self.status = "unavailable"
            else:
                self.status = "completed" if self.process is None else str(self.process.status)
        for each in self._calls.observers:
            each(self)
        if self._token is not None:
            REQUEST_ID.reset(self._token)


class OpenCalls:
    """The calls that the doors of one server are answering; a shutdown waits for them."""

    def __init__(self) -> None:
        self.number = 0
        self.closing = asyncio.Event()
        """Set when a shutdown waits for the calls; they then stop waiting for a person."""
        self.observers: list[Callable[[Call], None]] = [log_call]
        """Called with each call that has ended, whether or not it was answered."""
        self.refusals: list[Callable[[str], None]] = []
        """Called for each call that a limit refuses, with the name of the limit's setting."""
        self._none = asyncio.Event()
        self._none.set()

    def of(self, door: str, name: str, caller: Caller) -> Call:
        """A new call, which is open while its context is entered."""
        return Call(self, door, name, caller)

    def opened(self, more: int) -> None:
        """Add `more` to the number of open calls; it may be negative."""
        self.number += more
        if self.number:
            self._none.clear()
        else:
            self._none.set()

    def refused(self, limit: str) -> None:
        """Report that a limit has refused a call; `limit` is the name of its setting."""
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
    who = f"{caller.id} of {caller.issuer}" if caller.issuer else caller.id
    fields: dict[str, object] = {"door": call.door, "call": name, "caller": caller.id}
    fields |= {"issuer": caller.issuer} if caller.issuer else {}
    fields |= {"status": call.status, "seconds": round(call.seconds, 6)}
    if process is not None:
        spent = process.turn_usage
        fields |= {"process_id": process.id, "cost": spent.cost}
        about = f"process {process.id}, {spent.cost:.4f} USD"
        if spent.tokens:
            fields |= {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
            about += f", {spent.input_tokens:,} tokens in, {spent.output_tokens:,} out"
        about = f" ({about})"
    message = f"{name} {call.status} after {call.seconds:.3f} s over {call.door} for {who}{about}"
    _log.log(call.level, message, extra={FIELDS: fields})


def new_request_id() -> str:
    """A new id for a request that has none."""
    return f"{_random.getrandbits(64):016x}"


_MOST_NAMES: Final = 50
_LONGEST_NAME: Final = 100
_MOST_DENIALS: Final = 60
_DENIAL_SECONDS: Final = 60.0
"""At most `_MOST_DENIALS` denials are written per `_DENIAL_SECONDS`, so that a flood of them hides nothing else."""


class AuditTrail:
    """Writes what callers do on one server to the audit log, if there is one."""

    def __init__(self, audit: Audit | None) -> None:
        self._audit = audit
        self._since = 0.0
        self._denials = 0

    @property
    def lost(self) -> int:
        """How many entries could not be written."""
        return 0 if self._audit is None else self._audit.lost

    def _note(self, deed: str, caller: Caller, **facts: object) -> None:
        if self._audit is not None:
            self._audit.record(deed, caller, facts)

    def on_call(self, call: Call, /) -> None:
        """Note a call that has ended, unless it only reads."""
        if self._audit is not None and call.level >= logging.INFO:
            names = [each[:_LONGEST_NAME] for each in call.arguments[:_MOST_NAMES]]
            facts = {"door": call.door, "call": call.name, "arguments": names, "status": call.status}
            process = "" if call.process is None else call.process.id
            self._note("called", call.caller, **facts, process_id=process, seconds=round(call.seconds, 3))

    def answered(self, caller: Caller, question: Question, response: object = None, *, declined: bool = False) -> None:
        """Note that a question was answered: a yes or no as approved or declined, any other without the answer."""
        deed = "declined" if declined or response is False else "approved" if response is True else "answered"
        try:
            kind = form_of(question).kind
        except UNREADABLE:
            kind = ""
        self._note(deed, caller, process_id=question.process_id, question_id=question.id, kind=kind)

    def ended(self, caller: Caller, process_id: str) -> None:
        """Note that a process was ended by a caller."""
        self._note("ended", caller, process_id=process_id)

    def erased(self, caller: Caller, whose: Caller | None, facts: Mapping[str, object]) -> None:
        """Note that the data of the caller `whose`, or one process, was erased; `facts` are counts or an id."""
        of = {} if whose is None else {"of_caller": whose.id, "of_issuer": whose.issuer}
        self._note("erased", caller, **of, **facts)

    def denied(self, caller: Caller, status: int, path: str) -> None:
        """Note that a request was denied. Of a flood of them, note the first ones, then how many more there were."""
        now = time.monotonic()
        if now - self._since >= _DENIAL_SECONDS:
            unwritten, self._since, self._denials = self._denials - _MOST_DENIALS, now, 0
            if unwritten > 0:
                self._note("denied", caller, unwritten=unwritten)
        self._denials += 1
        if self._denials <= _MOST_DENIALS:
            self._note("denied", caller, http_status=status, path=path[:_LONGEST_NAME])

    def close(self) -> None:
        """Wait some seconds at most until all entries are written."""
        if self._audit is not None:
            self._audit.close()


def logged(what: str, bug: BaseException, *, tells_errors: bool) -> str:
    """Log the traceback of a bug, and return a sentence for the client with the error id of the log line.

    The sentence quotes the exception's message if `tells_errors`, or if it is an error of goalport.
    """
    error_id = token_hex(4)
    _errors.error("%s broke (error %s).", what, error_id, exc_info=bug)
    name, text = type(bug).__name__, first_line(hide(str(bug).strip()))
    quoted = f": {text}" if text and (tells_errors or isinstance(bug, GoalportError)) else ""
    return f"{what} failed: {name}{quoted.rstrip('.')}. The server's log has it as error {error_id}."


def unavailable_words(trouble: HandedOver | StoreError | Unreadable) -> str:
    """The message to a client about something unavailable. Which store cannot be reached is only logged."""
    if not isinstance(trouble, StoreError):
        return str(trouble)
    _errors.warning("A request was refused: %s", trouble)
    return f"Try again later. {trouble.client_message}"
