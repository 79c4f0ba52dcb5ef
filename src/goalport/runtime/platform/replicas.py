"""What a program does among others that use the same store of processes.

It sends heartbeats, takes over processes that a program left behind or whose time to wake has come, carries out the
commands of others for the processes that it runs, and follows those that others run. Below: the repository. Above:
`processes`, which runs, answers and ends them.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from logging import getLogger
from typing import Final, cast

from goalport.base.errors import AlreadyAnswered, BadInput, GoalportError, StoreError, Unreadable
from goalport.runtime.process import AgentProcess, AgentProcessRepository, ProcessStatus
from goalport.store import Json, Lease, Message

Command = Mapping[str, Json]
_Reply = Mapping[str, Json]
_log = getLogger(__name__)
_BATCH: Final = 8
"""The most families that are taken over at a time, so that other programs get some too."""
_PAUSE: Final = 0.5
"""The most seconds without a look at the store, and those after an error."""
_EVENTS_WAIT: Final = 1.0
"""Seconds after which events are stored, if their process is not saved before."""
_LATER: Final = 300.0
"""Seconds after which a family is tried again that cannot go on here."""


class Replicas:
    """This program among others.

    Parameters: `go_on` continues the family of a root that nobody ran. `handle` carries a command of another program
    out, and raises what it refuses. After `lease_seconds` without a sign of life others take over.
    """

    def __init__(
        self,
        repository: AgentProcessRepository,
        go_on: Callable[[AgentProcess], Awaitable[None]],
        handle: Callable[[str, Command], Awaitable[None]],
        lease_seconds: float,
    ) -> None:
        self._repository, self._store = repository, repository.store
        self._go_on, self._handle = go_on, handle
        self._seconds = lease_seconds
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        """Set after each look at the store, and then replaced."""
        self._away = False
        self._handling: dict[int, asyncio.Task[None]] = {}
        """The commands of others that are being carried out, by the numbers of their messages."""
        self.taken_over = 0
        """How many families go on here whose program had ended in the middle of their work."""
        self.takes_over = True
        """Whether it goes on with families that nobody runs."""
        self._taken: deque[Lease] = deque()
        """The leases of families that are to go on here."""
        self._orphans: Mapping[str, Lease] = {}
        """The leases, by root, of which this program did not know when it looked last."""
        self._unfit: dict[str, float] = {}
        """The roots of families that cannot go on here, and perhaps elsewhere; each until when it is not tried."""

    def start(self) -> None:
        """Begin, unless it has begun on this event loop, or the store ends with the program."""
        loop = asyncio.get_running_loop()
        if self._store.durable and (self._task is None or self._task.done() or self._task.get_loop() is not loop):
            self._task = loop.create_task(self._live(), name="goalport-replicas")

    async def stop(self) -> None:
        """End it. Other programs notice when the store is closed, or the lease has run out."""
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def renew(self) -> None:
        """Try families again that could not go on here, because a workspace was loaded again."""
        self._unfit.clear()

    async def send(self, process: AgentProcess, command: Command) -> bool:
        """Send a command to the program that runs a family. Returns False if none runs it now: then this one has it.

        Raises what the other program refuses it with.
        """
        try:
            executed = await self.send_to(process.id, command, partial(self._repository.claim, process))
        except AlreadyAnswered:  # our copy may not have that answer yet: who looks at it next would ask again
            await self._repository.refresh(process)
            raise
        if executed:
            await self._repository.refresh(process)
        return executed

    async def send_to(self, process_id: str, command: Command, claim: Callable[[], Awaitable[bool]]) -> bool:
        """Send a command to the program that runs a family, until `claim` succeeds. Returns whether it was executed.

        Raises what the other program refuses it with.
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
        match cast("_Reply", reply):
            case {"answered": [str(question), str(status)]}:
                raise AlreadyAnswered(question, status)
            case {"refused": str(why)}:
                raise BadInput(why)
            case _:
                return True

    async def _live(self) -> None:
        last_heartbeat = -self._seconds
        while True:
            try:
                if time.monotonic() - last_heartbeat >= self._seconds / 3:
                    await self._store.heartbeat(self._seconds)
                    await self._repository.check_leases()
                    await self._find_orphans()
                    last_heartbeat = time.monotonic()
                await self._look()
                await self._repository.store_events(_EVENTS_WAIT)
                self._tell()
                await self._store.wait_for_changes(min(_PAUSE, self._seconds / 6))
                self._away = False
            except StoreError as error:
                if not self._away:
                    _log.warning("The store cannot be reached; it is tried again: %s", error)
                self._away = True
                await asyncio.sleep(_PAUSE)
            except Exception:
                _log.exception("Processes of other programs were not looked after; it is tried again.")
                await asyncio.sleep(_PAUSE)

    async def _find_orphans(self) -> None:
        """Go on with families of which this program has the leases and does not know for some time."""
        if not self.takes_over:
            return
        before, self._orphans = self._orphans, await self._repository.orphans()
        known = {each.root for each in self._taken}
        self._taken += [each for root, each in self._orphans.items() if root not in known and before.get(root) == each]

    def _tell(self) -> None:
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    async def _look(self) -> None:
        if self.takes_over:
            self._unfit = {root: until for root, until in self._unfit.items() if until > time.monotonic()}
            self._taken += await self._store.due(_BATCH, without=self._unfit)
        while self._taken:
            await self._take_over(self._taken[0])
            self._taken.popleft()
        for message in await self._store.inbox():
            if message.number not in self._handling:
                task = self._handling[message.number] = asyncio.create_task(self._reply(message))
                task.add_done_callback(lambda _, number=message.number: self._handling.pop(number))
        await self._repository.follow()

    async def _take_over(self, lease: Lease) -> None:
        try:
            found = await self._repository.take_over(lease)
            if found is not None:
                self.taken_over += found.status is ProcessStatus.RUNNING
                await self._go_on(found)
        except StoreError:
            raise
        except Exception as error:
            expected = isinstance(error, Unreadable)
            _log.error("Process %s cannot go on here: %s", lease.root, error, exc_info=None if expected else error)
            self._unfit[lease.root] = time.monotonic() + _LATER
            await self._repository.give_back(lease)

    async def _reply(self, message: Message) -> None:
        reply: _Reply = {"done": True}
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
                "A command of another program for process %s is carried out; it is not told: %s", message.process, error
            )
