"""What processes are told from outside: answers, messages, and what becomes of interrupted actions.

Where another program runs the process, it gets a command. What is told is stored before whoever told it goes on. Below:
the repository and the commands. Above: `processes`, whose processes they are.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from logging import getLogger
from typing import Final, Protocol
from uuid import uuid4
from weakref import WeakSet

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, GoalportError, StoreError
from goalport.runtime.platform.replicas import Replicas, answer_command, go_on_command, stop_command, tell_command
from goalport.runtime.process import (
    AgentProcess,
    AgentProcessRepository,
    ProcessStatus,
    Stuck,
    begin_turn,
    family_of,
    find_question,
    settle,
)
from goalport.store import Codec

_STORE_SECONDS: Final = 5.0
"""How long whoever tells a process something waits until that is stored."""
_NOT_STORED: Final = "What the process was told could not be stored within {:g} s."
_LOOK: Final = "It is kept in memory, and stored as soon as that works. Look at the process before you send it again."


class Runner(Protocol):
    """What lets processes go on."""

    @property
    def drives(self) -> bool:
        """Whether this program runs processes; otherwise it leaves them to others."""
        ...

    def begin(self, process: AgentProcess, /) -> object:
        """Run a process from now on."""
        ...

    def go_on_with(self, family: Sequence[AgentProcess], /) -> bool:
        """Go on with what a program left in the middle of its work."""
        ...

    def let_go_on(self, process: AgentProcess, /) -> None:
        """Continue a process that need not wait any more."""
        ...

    def expire(self, process: AgentProcess, /) -> None:
        """Decline the questions that have expired."""
        ...


class Steering:
    """Tells processes what people and programs want of them."""

    def __init__(self, runner: Runner, repository: AgentProcessRepository, replicas: Callable[[], Replicas]) -> None:
        self._runner, self._repository, self._replicas = runner, repository, replicas
        self._durable = repository.store.durable

    async def answer(self, process: AgentProcess, question_id: str | None, response: object, declined: str) -> None:
        """Settle a question of a process, or of one that it started, and continue what waited for it.

        `declined` is the reason why a person says no; empty: `response` is the answer. Once it returns, the answer is
        stored. Raises `UnknownName`, `BadInput` and `AlreadyAnswered`, as `AgentPlatform.answer` says; `StoreError`.
        """
        had = self._repository.has(process)
        if self._durable and not await self._repository.claim(process):
            command = answer_command(self._codec(process), question_id, response, declined)
            if await self._replicas().send(process, command):
                return
        if not had and self._runner.drives:
            self._runner.go_on_with(family_of(process))
        try:
            asker, question = find_question(process, question_id)
            if question.expired:
                self._runner.expire(asker)
            settle(asker, question, response, declined)
        except GoalportError:
            if self._durable:
                await self._repository.release(process)
            raise
        await self._stored_and_gone_on(asker)

    async def tell(
        self, process: AgentProcess, objects: Sequence[object], caller: Caller | None = None, token: str = ""
    ) -> None:
        """Begin a turn of a process with more objects, as soon as it rests; they are stored when this returns.

        `caller` is the party of its caller with the scopes of today. `token` identifies what is told: two programs may
        try to tell it, when one takes the process from the other. Raises `BadInput` if the process has ended for good,
        or an action of it was interrupted; `Unstorable` and `StoreError`.
        """
        token = token or uuid4().hex
        if process.status is ProcessStatus.NOT_STARTED and process.idle and not self._repository.is_stored(process):
            begin_turn(process, objects, caller, token)
            self._runner.begin(process)
            await self._repository.once_stored(process)
            return
        while True:
            had = self._repository.has(process)
            if self._durable and not await self._repository.claim(process):
                if await self._replicas().send(process, tell_command(self._codec(process), objects, caller, token)):
                    return
                had = False  # its program is gone, and this one has it now
            if not had and self._runner.drives and self._runner.go_on_with(family_of(process)):
                continue  # a program had ended in the middle of its turn
            if not process.active:
                break
            await process.rest()
        if refusal := _why_not_told(process):
            await self._repository.release(process)
            raise BadInput(refusal)
        if not begin_turn(process, objects, caller, token):
            await self._repository.release(process)
            return
        await self._stored_and_gone_on(process)

    async def _stored_and_gone_on(self, process: AgentProcess) -> None:
        """Let a process go on that was told something, once that is stored. Raises `StoreError` if that takes long."""
        if self._durable and self._repository.is_stored(process):
            # As long as something is expected of it, its family is not let go.
            go_on = process.expect(lambda: self._runner.let_go_on(process) if self._runner.drives else None)
            storing = process.beside(self._store_and_go_on(process, go_on))
            done, _ = await asyncio.wait([storing], timeout=_STORE_SECONDS)
            if not done:
                raise StoreError("of processes", _NOT_STORED.format(_STORE_SECONDS), _LOOK, unknown=True)
            await storing
        else:
            self._runner.let_go_on(process)

    async def _store_and_go_on(self, process: AgentProcess, go_on: Callable[[], None]) -> None:
        try:
            if process.idle:
                process.reopen()
            await self._repository.checkpoint(process)
        finally:
            go_on()
        if not self._runner.drives:
            await self._repository.release(process)

    async def recover(self, process: AgentProcess) -> None:
        """Go on with a process whose program ended in the middle of its work; not if another program runs it.

        Programs that take over what others left do so by themselves, after a while. Raises `StoreError`, `Unreadable`.
        """
        if self._repository.has(process) or not self._runner.drives:
            return
        if await self._repository.claim(process) and not self._runner.go_on_with(family_of(process)):
            await self._repository.release(process)

    async def go_on(self, process: AgentProcess, *, retry: bool) -> None:
        """Go on with a family in which actions were interrupted that may not be repeated.

        `retry`: they begin again; otherwise they are left out. Raises `BadInput` if none was interrupted.
        """
        held = await self._repository.claim(process)
        if not held and await self._replicas().send(process, go_on_command(retry=retry)):
            return
        ready = ready_after(family_of(process), retry=retry)
        if ready is None:
            await self._repository.release(process)
            raise BadInput(f"Process {process.id} is {process.status}: no action of it was interrupted.")
        for each in ready:
            self._runner.begin(each) if self._runner.drives else each.reopen()
        if not self._runner.drives:
            await self._repository.save(process)

    async def stop_turn(self, process: AgentProcess, reason: str) -> None:
        """Stop the turn of a process, whoever runs it; nothing happens if nobody does. Raises `StoreError`."""
        if process.driven or not self._durable or await self._repository.claim(process):
            process.stop_turn(reason)
            await self._repository.release(process)
        else:
            await self._replicas().send(process, stop_command(reason))

    def _codec(self, process: AgentProcess) -> Codec:
        return self._repository.records_of.codec(process.id)


def _why_not_told(process: AgentProcess) -> str:
    """Why a process at rest cannot be told anything, in words; empty: it can."""
    if process.over:
        return f"Process {process.id} has ended: {process.status}. Nothing more can be told."
    if process.progress.interrupted:
        return (
            f"Process {process.id} was interrupted in an action that may not be repeated. Look at what it has done,"
            f" then run `goalport resume {process.id}` with `--retry` or `--skip`."
        )
    return ""


_log = getLogger(__name__)
_MOST_SKEW: Final = 120.0
"""By how many seconds the clock of a database may be ahead."""


def update_ancestors(process: AgentProcess) -> None:
    """Update the processes above that wait for this one, as far as their status changes with its status."""
    above = process.parent
    while above is not None and above.follow_children():
        above = above.parent


def interrupted_in(family: Sequence[AgentProcess]) -> list[str]:
    """The actions, each with its process, in whose middle the program ended and which may not be repeated."""
    for process in family:
        if process.outcome is None and not process.driven:
            for action, journal in process.progress.journals.items():
                if journal.running and not process.scope.actions[action].settings.repeatable:
                    process.progress.interrupt(action)
    return [f"{action} of process {each.id}" for each in family for action in sorted(each.progress.interrupted)]


def ready_in(family: Sequence[AgentProcess]) -> list[AgentProcess]:
    """The processes of a family that nobody ran and that can go on by themselves."""
    for each in family:
        if each.parent is not None and each.status.ended:
            each.parent.progress.unpark(each)
    return [
        each for each in family if each.outcome is None and each.idle and not each.stepped and not each.progress.parked
    ]


def ready_after(family: Sequence[AgentProcess], *, retry: bool) -> "list[AgentProcess] | None":
    """The processes that can go on after it is decided about interrupted actions; None: there are no such actions."""
    if not any(each.driven for each in family):
        interrupted_in(family)  # no program may have looked since the one that ran it ended
    if not any(each.progress.interrupted for each in family):
        return None
    for each in family:
        each.progress.settle_interrupted(retry=retry)
    return [each for each in family if each.status is ProcessStatus.STUCK and each.idle] + ready_in(family)


def park(process: AgentProcess, interrupted: Sequence[str]) -> None:
    """End a process as stuck until somebody decides what becomes of actions that were interrupted."""
    _log.warning("Process %s is stuck: the program had ended in the middle of %s.", process.id, "; ".join(interrupted))
    process.settle(
        Stuck(
            f"The program ended in the middle of an action that may not be repeated: {'; '.join(interrupted)}. Look at"
            f" what it has done, then run `goalport resume {process.id}` with `--retry` or `--skip`."
        )
    )


class ExpiryTimers:
    """Calls `expire` with a process when one of its open questions expires.

    They serve where no store says when to wake, or where its clock is ahead of that of this program.
    """

    def __init__(self, expire: Callable[[AgentProcess], None]) -> None:
        self._expire = expire
        self._timed: WeakSet[AgentProcess] = WeakSet()

    def __contains__(self, process: AgentProcess) -> bool:
        return process in self._timed

    def set(self, process: AgentProcess) -> None:
        """Wait for the next of its questions that expires."""
        self._timed.add(process)
        if (left := _seconds_left(process)) is not None:
            asyncio.get_running_loop().call_later(max(left, 0), self._expire, process)

    def set_soon(self, family: Sequence[AgentProcess]) -> bool:
        """Set timers for a family that was woken too early by this program's clock. Returns False if it was not."""
        early = [each for each in family if (left := _seconds_left(each)) is not None and left < _MOST_SKEW]
        for each in early:
            self.set(each)
        return bool(early)


def _seconds_left(process: AgentProcess) -> float | None:
    times = [each.expires_at.timestamp() for each in process.questions.open if each.expires_at is not None]
    return min(times) - time.time() if times else None
