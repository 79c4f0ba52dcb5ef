"""Who calls for a process to be run, where that is not left to the program that begins it.

Without an engine, each program runs at once what it begins or continues. An engine decides when and by which of the
programs on a store a process is run that is stored at each step; whatever it does or forgets, the lease in the store
says who runs it. Above: `processes`, which has one, and engines such as `dbos_engine`.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

__all__ = ["Drive", "ProcessEngine"]

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
