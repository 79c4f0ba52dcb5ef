"""Who calls for a process to be run, where that is not left to the program that begins it.

Without an engine, each program runs at once what it begins or continues. An engine decides when and by which of the
programs on a store a process is run that is stored at each step; whatever it does or forgets, the lease in the store
says who runs it. A family that begins, or goes on after an answer, is stored without a lease and submitted. Whichever
program gets it claims the lease, as it does with a family that was left behind. What is never delivered, and what a
dead program had, comes due in the store, and is submitted again by the program that finds it. Below: the repository.
Above: `processes`, and engines such as `dbos_engine`.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from goalport.base.errors import LeaseLost, SettingsError, StoreError, Unreadable
from goalport.runtime.process import AgentProcess, AgentProcessRepository, family_of

_log = logging.getLogger(__name__)
Drive = Callable[[str], Awaitable[bool]]
"""Runs a process, by its id, until it rests. Returns False at once if another program runs it."""


class ProcessEngine(Protocol):
    """Has processes run by the programs of a store."""

    async def start(self, drive: Drive, /) -> None:
        """Call `drive` from now on with what falls to this program. Nothing happens if it has started already."""
        ...

    async def submit(self, process_id: str, version: int, /) -> None:
        """Have some program call `drive` with a process that nobody runs, perhaps this one, soon and once.

        It is called once for a version, however often that is submitted. What was submitted earlier and is not
        delivered yet keeps its place; what was delivered to a program that has died is delivered again. Raises
        `StoreError`.
        """
        ...

    async def stop(self) -> None:
        """Call `drive` no more, and give up what it runs."""
        ...


class Deliveries:
    """Hands families over to an engine, and runs those that it delivers here.

    Parameters: `go_on` continues the family of a root whose lease this program has. What was not taken `lease_seconds`
    after it was submitted is submitted again. Raises `SettingsError` for an engine without a store that is shared.
    """

    def __init__(
        self,
        engine: ProcessEngine | None,
        repository: AgentProcessRepository,
        go_on: Callable[[AgentProcess], Awaitable[None]],
        lease_seconds: float,
    ) -> None:
        if engine is not None and not repository.store.durable:
            raise SettingsError("An engine needs a store that programs share, and this one is in the memory of one.")
        self._engine, self._repository, self._go_on = engine, repository, go_on
        self._again = timedelta(seconds=lease_seconds)
        self._delivered: set[str] = set()
        """The roots of the families that were delivered here and do not rest."""
        self._closed = False

    async def open(self) -> None:
        """Run from now on what is delivered to this program. Raises `StoreError` and `SettingsError`."""
        if self._engine is not None:
            await self._engine.start(self._deliver)

    def stand_aside(self) -> None:
        """Leave the engine to others: this program runs at once what it begins, and nothing else."""
        self._engine = None

    async def close(self) -> None:
        """Run nothing more that is delivered; what runs goes on until it is left."""
        self._closed = True
        if self._engine is not None:
            await self._engine.stop()

    def wanted(self, process: AgentProcess) -> bool:
        """Whether the engine decides who runs a process: it is stored at each step, and none of its family runs."""
        if self._engine is None or self._closed or process.stepped or not process.lasting:
            return False
        family = family_of(process)
        return family[0].id not in self._delivered and all(each.cancel_scope is None for each in family)

    async def hand_over(self, process: AgentProcess) -> None:
        """Give the family of a process that is stored to the engine; this program follows it from now on."""
        assert self._engine is not None
        root = process.root
        try:
            version = await self._repository.hand_over(process, datetime.now(UTC) + self._again)
            if version is None:
                return
            await self._engine.start(self._deliver)
            await self._engine.submit(root.id, version)
        except LeaseLost:
            return
        except StoreError as error:
            _log.warning("Process %s is submitted again in %g s: %s", root.id, self._again.total_seconds(), error)

    async def _deliver(self, process_id: str) -> bool:
        try:
            process = None if self._closed else await self._repository.find(process_id)
            if process is None:
                return True
            root = process.root
            if root.id in self._delivered:
                return True
            if not await self._repository.claim(root):
                return False
        except (StoreError, Unreadable) as error:  # it comes due in the store
            _log.warning("Process %s cannot go on here now: %s", process_id, error)
            return False
        self._delivered.add(root.id)
        try:
            await self._go_on(root)
            await root.rest()
        finally:
            self._delivered.discard(root.id)
        return True
