"""How programs that use the same store of processes work together.

Each program sends heartbeats, and takes over processes that another one left behind or that are due to wake. It
carries out commands of other programs for processes that it runs, and follows processes that they run. If an engine
decides who runs a process, families are submitted to it, and those that it delivers run here. Below: the repository.
Above: `processes`, which runs, answers and ends processes.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from logging import getLogger
from typing import Final, Protocol, cast

from goalport.base.errors import (
    AlreadyAnswered,
    BadInput,
    GoalportError,
    LeaseLost,
    SettingsError,
    StoreError,
    Unreadable,
)
from goalport.runtime.process import AgentProcess, AgentProcessRepository, ProcessStatus
from goalport.store import Json, Lease, ProgramMessage

Command = Mapping[str, Json]
Drive = Callable[[str], Awaitable[bool]]
"""Runs a process, by its id, until it rests. Returns False at once if another program runs it."""
_log = getLogger(__name__)
_BATCH: Final = 8
"""The most families that are taken over at a time, so that other programs get some too."""
_PAUSE: Final = 0.5
"""The most seconds between two looks at the store, and the seconds of the pause after an error."""
_EVENTS_WAIT: Final = 1.0
"""Seconds until events are stored, if their process is not saved before."""
_LATER: Final = 300.0
"""Seconds until a family that could not go on here is tried again."""


class ProcessEngine(Protocol):
    """Distributes processes among the programs that share a store."""

    async def start(self, drive: Drive, /) -> None:
        """Call `drive` from now on with each process for this program. Nothing happens if it has started already."""
        ...

    async def submit(self, process_id: str, version: int, /) -> None:
        """Deliver a process that nobody runs: soon one program, perhaps this one, calls `drive` with it, once.

        It is called once for a version of the process, however often that is submitted. An earlier submission that is
        not delivered yet keeps its place in the queue. A process is delivered again if the program that got it died.
        Raises `StoreError`.
        """
        ...

    async def stop(self) -> None:
        """Call `drive` no more, and cancel the calls that run."""
        ...


class Replicas:
    """This program as one of several that share a store.

    Parameters: `go_on` continues the family of a root that nobody ran. `handle` carries out a command of another
    program, or raises the error that refuses it. After `lease_seconds` without a heartbeat, other programs take over;
    after the same time, a process that an engine has not delivered is submitted again. Raises `SettingsError` for an
    engine with a store that is not shared.
    """

    def __init__(
        self,
        repository: AgentProcessRepository,
        go_on: Callable[[AgentProcess], Awaitable[None]],
        handle: Callable[[str, Command], Awaitable[None]],
        lease_seconds: float,
        engine: ProcessEngine | None,
    ) -> None:
        if engine is not None and not repository.store.durable:
            raise SettingsError("An engine needs a store that programs share, and this one is in the memory of one.")
        self._repository, self._store, self._engine = repository, repository.store, engine
        self._go_on, self._handle = go_on, handle
        self._seconds = lease_seconds
        repository.announce = self._announce if repository.store.durable else None
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        """Set after each look at the store, and then replaced."""
        self._handling: dict[int, asyncio.Task[None]] = {}
        """The commands of others that are being carried out, by the numbers of their messages."""
        self.taken_over = 0
        """How many families go on here whose program had ended in the middle of their work."""
        self._takes_over = True
        """Whether it goes on with families that nobody runs."""
        self._taken: deque[Lease] = deque()
        """The leases of families that are to go on here."""
        self._orphans: Mapping[str, Lease] = {}
        """The leases of this program in the store, by root, that it did not know when it looked last."""
        self.retry_at: dict[str, float] = {}
        """The roots of families that cannot go on here, but perhaps elsewhere; each with the time of its next try."""
        self._delivered: set[str] = set()
        """The roots of the families that the engine delivered here and that do not rest."""
        self._closed = False

    async def open(self) -> None:
        """Begin, and run from now on what an engine delivers. Raises `StoreError` and `SettingsError`."""
        self._closed = False
        self.start()
        if self._engine is not None:
            await self._engine.start(self._deliver)

    def start(self) -> None:
        """Begin, unless it has begun on this event loop, or the store ends with the program."""
        loop = asyncio.get_running_loop()
        if self._store.durable and (self._task is None or self._task.done() or self._task.get_loop() is not loop):
            self._task = loop.create_task(self._live(), name="goalport-replicas")

    def disable_takeover(self) -> None:
        """Take nothing over, and use no engine: this program runs only processes that it begins, and at once."""
        self._takes_over, self._engine = False, None

    async def stop(self) -> None:
        """Stop working; processes go on. Other programs notice when the store is closed, or the lease has run out."""
        self._closed = True
        if self._engine is not None:
            await self._engine.stop()
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def send(self, process: AgentProcess, command: Command) -> bool:
        """Send a command to the program that runs a family. Returns False if none does: then this one has its lease.

        Raises the error that the other program refuses it with.
        """
        try:
            executed = await self.send_to(process.id, command, partial(self._repository.claim, process))
        except AlreadyAnswered:  # our copy may lack that answer: its next reader would ask again
            await self._repository.refresh(process)
            raise
        if executed:
            await self._repository.refresh(process)
        return executed

    async def send_to(self, process_id: str, command: Command, claim: Callable[[], Awaitable[bool]]) -> bool:
        """Send a command to the program that runs a family, until `claim` succeeds. Returns whether it was executed.

        Raises the error that the other program refuses it with.
        """
        number = await self._store.send(process_id, command)
        try:
            while (reply := await self._store.replied(number)) is None:
                if await claim():
                    return False
                self.start()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._looked.wait(), _PAUSE)
        finally:
            await self._store.withdraw(number)
        match cast("Mapping[str, Json]", reply):
            case {"answered": [str(question), str(status)]}:
                raise AlreadyAnswered(question, status)
            case {"refused": str(why)}:
                raise BadInput(why)
            case _:
                return True

    async def _announce(self) -> None:
        await self._store.heartbeat(self._seconds)
        self._repository.announce = None

    async def _live(self) -> None:
        last_heartbeat, away = -self._seconds, False
        while True:
            try:
                if time.monotonic() - last_heartbeat >= self._seconds / 3:
                    await self._announce()
                    await self._repository.check_leases()
                    if self._takes_over:  # families whose leases this program has, but has not known for some time
                        before, self._orphans = self._orphans, await self._repository.orphans()
                        known = {each.root for each in self._taken}
                        again = (each for root, each in self._orphans.items() if before.get(root) == each)
                        self._taken += [each for each in again if each.root not in known]
                    last_heartbeat = time.monotonic()
                await self._look()
                await self._repository.store_events(_EVENTS_WAIT)
                looked, self._looked = self._looked, asyncio.Event()
                looked.set()
                await self._store.wait_for_changes(min(_PAUSE, self._seconds / 6))
                away = False
            except StoreError as error:
                if not away:
                    _log.warning("The store cannot be reached; it is tried again: %s", error)
                away = True
                await asyncio.sleep(_PAUSE)
            except Exception:
                _log.exception("Processes of other programs were not looked after; it is tried again.")
                await asyncio.sleep(_PAUSE)

    async def _look(self) -> None:
        """Take over processes that nobody runs, begin to carry out commands, and follow processes of other programs."""
        if self._takes_over:
            self.retry_at = {root: until for root, until in self.retry_at.items() if until > time.monotonic()}
            self._taken += await self._store.due(_BATCH, without=self.retry_at)
        while self._taken:
            lease = self._taken[0]
            try:
                found = await self._repository.take_over(lease)
                if found is not None:
                    self.taken_over += found.status is ProcessStatus.RUNNING
                    await self._go_on(found)
            except StoreError:
                raise
            except Exception as error:
                trace = None if isinstance(error, Unreadable) else error
                _log.error("Process %s cannot go on here: %s", lease.root, error, exc_info=trace)
                self.retry_at[lease.root] = time.monotonic() + _LATER
                await self._repository.give_back(lease)
            self._taken.popleft()
        for message in await self._store.inbox():
            if message.number not in self._handling:
                task = self._handling[message.number] = asyncio.create_task(self._reply(message))
                task.add_done_callback(lambda _, number=message.number: self._handling.pop(number))
        await self._repository.refresh_watched()

    async def _reply(self, message: ProgramMessage) -> None:
        reply: Mapping[str, Json] = {"done": True}
        try:
            await self._handle(message.process, cast("Command", message.value))
        except AlreadyAnswered as error:
            reply = {"answered": [error.question_id, error.status]}
        except GoalportError as error:
            reply = {"refused": str(error)}
        try:
            await self._store.reply(message.number, reply)
        except StoreError as error:
            _log.warning(
                "The sender of a command for process %s is not told that it is done: %s", message.process, error
            )

    def engine_decides(self, process: AgentProcess) -> bool:
        """Whether the engine decides who runs a process: it is stored at each step, and none of its family runs."""
        if self._engine is None or self._closed or process.stepped or not process.durable:
            return False
        family = process.family
        return family[0].id not in self._delivered and all(each.cancel_scope is None for each in family)

    async def hand_over(self, process: AgentProcess) -> None:
        """Submit the family of a stored process to the engine; this program follows it from now on."""
        assert self._engine is not None
        root = process.root
        try:
            version = await self._repository.hand_over(process, datetime.now(UTC) + timedelta(seconds=self._seconds))
            if version is not None:
                await self._engine.start(self._deliver)
                await self._engine.submit(root.id, version)
        except LeaseLost:
            return
        except StoreError as error:
            _log.warning("Process %s is submitted again in %g s: %s", root.id, self._seconds, error)

    async def _deliver(self, process_id: str) -> bool:
        try:
            process = None if self._closed else await self._repository.find(process_id)
            if process is None or process.root.id in self._delivered:
                return True
            root = process.root
            if not await self._repository.claim(root):
                return False
        except (StoreError, Unreadable) as error:  # the store reports it as due later
            _log.warning("Process %s cannot go on here now: %s", process_id, error)
            return False
        self._delivered.add(root.id)
        try:
            await self._go_on(root)
            await root.rest()
        finally:
            self._delivered.discard(root.id)
        return True
