"""Runs: the processes that calls started, the calls that wait for each, and the calls that join an existing one.

A run is a process with the calls that wait for it. It knows nothing of the protocol; `calls` and
`progress_notifications` are above.
"""

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from weakref import WeakValueDictionary

from goalport.caller import Caller
from goalport.errors import BadInput
from goalport.process import AgentProcess, Killed

__all__ = ["IdempotentCall", "Run", "Runs", "Watch"]

_LONGEST_KEY: Final = 256
_WINDOW: Final = 1_000


@dataclass(slots=True, weakref_slot=True, eq=False)
class Run:
    """A process and the calls that wait for it."""

    process: AgentProcess
    detached: bool
    digest: bytes = b""
    watches: "set[Watch]" = field(default_factory=set["Watch"])


class Watch:
    """One call that waits for a run. When the last one leaves, a process that is not detached is killed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        run.watches.add(self)

    def end(self) -> None:
        """Stop watching, as the call has its answer."""
        self._run.watches.discard(self)

    def leave(self) -> None:
        """Stop watching, as the call was cancelled or its client disconnected; a process that waits is not killed."""
        run = self._run
        if self in run.watches:
            run.watches.discard(self)
            if not run.watches and not run.detached and run.process.outcome is None:
                run.process.kill("Its caller cancelled the call or went away.")


@dataclass(frozen=True, slots=True)
class IdempotentCall:
    """The caller, tool, idempotency key and arguments of a call, by which a repeated call joins the first one's run."""

    caller: Caller
    tool: str
    key: str
    digest: bytes

    @classmethod
    def of(cls, caller: Caller, tool: str, key: object, arguments: object) -> "IdempotentCall":
        """The identity of a call; `key` is from its `_meta`. Raises `BadInput` for a key that is not valid."""
        if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
            raise BadInput(
                f"goalport/idempotencyKey must be a text of 1 to {_LONGEST_KEY} characters, not {key!r:.80}."
            )
        written = json.dumps(arguments, sort_keys=True).encode()
        return cls(caller, tool, key, sha256(written).digest())


class Runs:
    """The newest `window` runs that can be joined."""

    def __init__(self, window: int = _WINDOW) -> None:
        self._window = window
        self._known: OrderedDict[tuple[str, str, str, str], Run] = OrderedDict()
        self._watched: WeakValueDictionary[str, Run] = WeakValueDictionary()

    def of(self, process: AgentProcess, *, detached: bool) -> Run:
        """The run of a process; all calls that watch the process at one time share it."""
        known = self._watched.get(process.id)
        if known is None:
            known = self._watched[process.id] = Run(process, detached)
        return known

    def join(self, call: IdempotentCall, start: Callable[[], Run]) -> Run:
        """The run of this call, or one that `start` makes. Raises `BadInput` for a known key with other arguments.

        A run that was killed cannot be joined: it has no result, so a repeated call starts another.
        """
        key = (call.caller.issuer, call.caller.id, call.tool, call.key)
        known = self._known.get(key)
        if known is not None and known.digest != call.digest:
            raise BadInput(
                f"The idempotency key {call.key!r} was used for a call of {call.tool} with other arguments."
                " Repeat those arguments to join that call, or use another key."
            )
        if known is not None and not isinstance(known.process.outcome, Killed) and known.process.end_requested is None:
            return known
        new = self._known[key] = start()
        new.digest = call.digest
        while len(self._known) > self._window:
            ended = next((key for key, run in self._known.items() if run.process.outcome is not None), None)
            self._known.pop(next(iter(self._known)) if ended is None else ended)
        return new
