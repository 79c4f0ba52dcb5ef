"""Runs: the processes that calls started, the calls that wait for each, and the identity of calls that are repeated.

A run is a process with the calls that wait for it. Nothing here knows a protocol. Above: the doors, which begin and
end their calls with these classes.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NoReturn, Self
from weakref import WeakValueDictionary

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, HandedOver, StoreError, UnknownName, Unreadable
from goalport.runtime.platform.agent_platform import AgentPlatform
from goalport.runtime.process import AgentProcess

IDEMPOTENCY_KEY: Final = "goalport/idempotencyKey"
"""The name of the idempotency key in the `_meta` of an MCP call."""
_LONGEST_KEY: Final = 256
CANCELLED: Final = "Its caller cancelled the call or went away."


@dataclass(slots=True, weakref_slot=True, eq=False)
class Run:
    """A process and the calls that wait for it."""

    platform: AgentPlatform
    process: AgentProcess
    detached: bool
    watches: "set[Watch]" = field(default_factory=set["Watch"])


def end_for_caller(platform: AgentPlatform, process: AgentProcess, reason: str) -> None:
    """End a process whose caller no longer wants its result; in a conversation, only the turn that runs."""
    if process.options.turns and process.outcome is None:
        process.in_background(platform.stop_turn(process.id, reason))
    else:
        process.kill(reason)


class Watch:
    """One call that waits for a run. When the last one leaves, a process that is not detached is ended.

    As a context manager it calls `end` after the block, or `leave` after a cancellation or an error other than
    `HandedOver` and `StoreError`.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.process, self.detached = run.process, run.detached
        run.watches.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, HandedOver | StoreError):
            self.end()
        else:
            self.leave()

    def end(self) -> None:
        """Stop watching, as the call has its answer."""
        self._run.watches.discard(self)

    def leave(self) -> None:
        """Stop watching, as the call was cancelled or its client disconnected; a process that waits is not killed."""
        run = self._run
        if self in run.watches:
            run.watches.discard(self)
            if not run.watches and not run.detached and run.process.outcome is None:
                end_for_caller(run.platform, run.process, CANCELLED)


class Disconnect:
    """Whether the client of one HTTP request has disconnected, and the callbacks to run when it does."""

    def __init__(self) -> None:
        self.gone = False
        self._callbacks: list[Callable[[], None]] = []

    def add_callback(self, do: Callable[[], None]) -> None:
        """Call `do` when the client disconnects, or at once if it has."""
        if self.gone:
            do()
        else:
            self._callbacks.append(do)

    def note(self) -> None:
        """Note that the client has disconnected, and run the callbacks once."""
        if not self.gone:
            self.gone = True
            for do in self._callbacks:
                do()


@dataclass(frozen=True, slots=True)
class IdempotentCall:
    """The identity of a call that is carried out once, however often it is sent: caller, tool and idempotency key."""

    tool: str
    key: str
    name: str
    """The hash of caller, tool and key, which is stored."""
    digest: str
    """The hash of caller, tool, key and arguments, which is stored."""

    @classmethod
    def of(cls, caller: Caller, tool: str, key: object, arguments: object) -> "IdempotentCall":
        """The identity of a call; `key` is what its caller says. Raises `BadInput` for a key that is not valid."""
        if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
            place = f"{IDEMPOTENCY_KEY}, or the header Idempotency-Key"
            text = f"a text of 1 to {_LONGEST_KEY} characters"
            raise BadInput(f"An idempotency key ({place}) must be {text}, not {key!r:.80}.")
        name = [*caller.identity, tool, key]
        return cls(tool, key, _hashed(name), _hashed([*name, arguments]))

    def refuse(self) -> NoReturn:
        """Raises `BadInput`, because the key was used with other arguments."""
        raise BadInput(
            f"The idempotency key {self.key!r} was used for a call of {self.tool} with other arguments."
            " Repeat those arguments to join that call, or use another key."
        )


async def process_of(platform: AgentPlatform, process_id: str, caller: Caller) -> AgentProcess | None:
    """A process that this caller may follow; None both if there is none and if it is another's.

    Raises `StoreError`, and `Unreadable` for a process that the caller may follow.
    """
    try:
        found = await platform.process(process_id)
    except UnknownName:
        return None
    except Unreadable:
        record = await platform.store.find(process_id)
        if record is None or not caller.may_follow(record.caller):
            return None
        raise
    return found if caller.may_follow(found.caller) else None


def _hashed(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class Runs:
    """The runs that calls wait for."""

    def __init__(self, platform: AgentPlatform) -> None:
        self._platform = platform
        self._watched: WeakValueDictionary[str, Run] = WeakValueDictionary()

    def of(self, process: AgentProcess, *, detached: bool) -> Run:
        """The run of a process; all calls that watch the process at one time share it."""
        known = self._watched.get(process.id)
        if known is None:
            known = self._watched[process.id] = Run(self._platform, process, detached)
        return known
