"""Where a process stands, and the only ways in which that changes.

Each change has a name and asks first whether it may be: nothing can bring a process to where nobody drives it and
nobody ever will. Below: statuses and ends. Above: the process, which is such a life with something to do in it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

from goalport.errors import GoalportError
from goalport.process.outcome import Outcome, ProcessStatus

__all__ = ["Lifecycle"]


class Lifecycle:
    """A life from its beginning through rests to its end."""

    id: str

    def __init__(self) -> None:
        self._status = ProcessStatus.NOT_STARTED
        self._outcome: Outcome | None = None
        self._finished_at: datetime | None = None
        self._driven = False
        self._settled = asyncio.Event()
        self.end_requested: Outcome | None = None
        """How it is to end as soon as it can, if somebody has asked for that."""

    @property
    def status(self) -> ProcessStatus:
        """Where it stands."""
        return self._status

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, or what it waits for; None while something goes on."""
        return self._outcome

    @property
    def finished_at(self) -> datetime | None:
        """When it came to its outcome."""
        return self._finished_at

    @property
    def driven(self) -> bool:
        """Whether a task has it in hand. One that only waits for what it has started runs without one."""
        return self._driven

    @property
    def over(self) -> bool:
        """Whether it can never go on again."""
        return self._status.ended and self._status is not ProcessStatus.STUCK

    @property
    def idle(self) -> bool:
        """Whether it may be driven on: nobody does, and nothing forbids it."""
        return not (self._driven or self.over or self.end_requested)

    async def wait(self) -> Outcome:
        """How it ended, or what it waits for, as soon as nothing goes on. Cancelling the wait leaves it as it is."""
        while self._outcome is None:
            await self._settled.wait()
        return self._outcome

    def launch(self, drive: Callable[[Self], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Let `drive` bring it to its next outcome, in a task that begins with the event loop's next turn.

        Raises `GoalportError` unless it is idle.
        """
        if not self.idle:
            raise GoalportError(
                f"Expected a process that nobody drives and that may go on: {self.id} is {self._status}."
            )
        if self._status is not ProcessStatus.NOT_STARTED:
            self._reopen()
        self._driven = True
        return asyncio.get_running_loop().create_task(drive(self), name=self.id)

    def begin(self) -> None:
        """Note that whoever drives it has begun; what has an outcome stays as it is."""
        if self._outcome is None:
            self._status, self._driven = ProcessStatus.RUNNING, True

    @contextmanager
    def pausing(self) -> Generator[None]:
        """The time in which it only waits for a moment that is known."""
        self._status = ProcessStatus.PAUSED
        try:
            yield
        finally:
            if self._status is ProcessStatus.PAUSED:
                self._status = ProcessStatus.RUNNING

    def _reopen(self) -> None:
        self._outcome, self._finished_at = None, None
        self._status = ProcessStatus.RUNNING
        if self._settled.is_set():  # who waits already goes on waiting for the same one
            self._settled = asyncio.Event()

    def rest(self) -> None:
        """What drove it lets go of it in the middle: others have to go on, or it is driven step by step."""
        self._driven = False

    def _settle(self, outcome: Outcome) -> None:
        self._driven = False
        self._outcome, self._status, self._finished_at = outcome, outcome.status, datetime.now(UTC)

    def _tell_waiters(self) -> None:
        self._settled.set()
