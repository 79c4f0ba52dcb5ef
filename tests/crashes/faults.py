"""Programs that end by SIGKILL at a point of their work that is chosen by its number.

A point is a boundary of a transaction (before it, before each of its statements, before and after its commit), an
event of a process, or an effect. Programs are forked from one that has imported everything and has one thread.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

from goalport import AgentPlatform, AgentProcess, UserInput
from goalport.base.errors import AlreadyAnswered, UnknownName
from goalport.base.events import Event
from goalport.runtime.process import Completed, Outcome, Waiting
from goalport.store.database import DatabaseProcessStore
from goalport.store.operations import Database, Operation
from goalport.store.postgres.process_store import PostgresProcessStore
from goalport.store.sqlite import SqliteProcessStore
from tests.crashes.crews import Effects, studio
from tests.forks import FORKS

__all__ = ["Crew", "Points", "forked", "opened", "run_program"]

T = TypeVar("T")

_WATCHED: Final = {"save", "claim", "release", "due"}
"""The transactions that count; how often the others are made depends on the time."""
_ANSWERS: Final = {"How much": 7, "Which music": {"text": "slow"}}
_SECONDS: Final = 20
_STARTING: Final = Lock()
"""Starting a program asks for the exit codes of the others; of two threads that ask for one at once, one gets 255."""


def opened(place: str) -> DatabaseProcessStore:
    """The store at a path or a URL."""
    if place.startswith("postgresql:"):
        url, _, schema = place.partition("#")
        return PostgresProcessStore(url, schema=schema or "goalport")
    return SqliteProcessStore(Path(place), synchronous="normal", busy_seconds=20)


class Points:
    """Counts the points of a program, and ends it at one of them; 0: at none."""

    def __init__(self, last: int, names: Path) -> None:
        self._last, self._names = last, names
        self._count, self._lock = 0, Lock()

    def reach(self, name: str) -> None:
        with self._lock:
            self._count += 1
            if self._count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
            if not self._last:
                with self._names.open("a") as names:
                    names.write(f"{name}\n")

    def on_event(self, event: Event, /) -> None:
        self.reach(f"event {type(event).__name__}")


class PointedEffects(Effects):
    """Effects with a point before and after each."""

    def __init__(self, file: Path, points: Points) -> None:
        super().__init__(file)
        self._points = points

    def add(self, *words: object) -> None:
        name = " ".join(map(str, words[:2]))
        self._points.reach(f"before {name}")
        super().add(*words)
        self._points.reach(f"after {name}")


class PointedDatabase:
    """A database with points at the boundaries of its transactions."""

    def __init__(self, inner: Database, points: Points) -> None:
        self._inner, self._points = inner, points

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        return await self._inner.read(begin)

    async def write(self, begin: Callable[[], Operation[T]], /, *, patient: bool = False) -> T:
        made: Any = getattr(begin, "func", begin)
        name = made.__name__.removeprefix("_")
        if name not in _WATCHED:
            return await self._inner.write(begin, patient=patient)
        self._points.reach(f"{name}: before the transaction")
        result = await self._inner.write(lambda: self._steps(name, begin()), patient=patient)
        self._points.reach(f"{name}: after the commit")
        return result

    def _steps(self, name: str, operation: Operation[T]) -> Operation[T]:
        rows: Any = None
        number = 0
        while True:
            try:
                step = operation.send(rows)
            except StopIteration as end:
                self._points.reach(f"{name}: before the commit")
                return end.value
            number += 1
            self._points.reach(f"{name}: before statement {number}")
            rows = yield step

    async def wait_for_changes(self, seconds: float, /) -> None:
        await self._inner.wait_for_changes(seconds)

    @property
    def free_bytes(self) -> int | None:
        return self._inner.free_bytes

    async def trim(self) -> None:
        await self._inner.trim()

    async def close(self) -> None:
        await self._inner.close()


class PointedStore(DatabaseProcessStore):
    """A store with points at the boundaries of its transactions."""

    def __init__(self, inner: DatabaseProcessStore, points: Points) -> None:
        super().__init__(PointedDatabase(inner.database, points))


@dataclass(frozen=True)
class Crew:
    """Where a crew works."""

    folder: Path
    place: str

    @property
    def effects(self) -> Effects:
        return Effects(self.folder / "effects")

    @property
    def result(self) -> str:
        """How the process ended; empty: it has not."""
        file = self.folder / "result"
        return file.read_text() if file.exists() else ""

    @property
    def points(self) -> Sequence[str]:
        return (self.folder / "points").read_text().splitlines()

    @property
    def process_id(self) -> str:
        file = self.folder / "process"
        return file.read_text() if file.exists() else ""


def run_program(crew: Crew, last: int) -> None:
    """Start a process, or go on with the one that was started, and answer what it asks; end at a point."""
    asyncio.run(_run(crew, last))


async def _run(crew: Crew, last: int) -> None:
    async with asyncio.timeout(_SECONDS):
        if crew.process_id:
            outcome = await _gone_on_with(crew, opened(crew.place))
        else:
            points = Points(last, crew.folder / "points")
            store, effects = PointedStore(opened(crew.place), points), PointedEffects(crew.effects.file, points)
            outcome = await _started(crew, store, effects, points)
        (crew.folder / "result").write_text(outcome)


async def _started(crew: Crew, store: DatabaseProcessStore, effects: Effects, points: Points) -> str:
    async with studio(store, effects) as platform:
        platform.subscribe(points)
        process = platform.create_agent_process("Director", UserInput("Noir"))
        (crew.folder / "process").write_text(process.id)
        platform.processes.begin(process)
        said = _told(process, await _answered(platform, process))
    await store.close()
    return said


async def _gone_on_with(crew: Crew, store: DatabaseProcessStore) -> str:
    async with studio(store, crew.effects) as platform:
        try:
            process = await platform.process(crew.process_id)
        except UnknownName:
            return "unknown"
        said = _told(process, await _answered(platform, process))
    await store.close()
    return said


async def _answered(platform: AgentPlatform, process: AgentProcess) -> Outcome:
    while isinstance(outcome := await process.wait(), Waiting):
        await asyncio.sleep(0.01)
        for each in process.open_questions:
            response = next(answer for start, answer in _ANSWERS.items() if each.message.startswith(start))
            with suppress(AlreadyAnswered):
                await platform.answer(process.id, each.id, response)
    return outcome


def _told(process: AgentProcess, outcome: Outcome) -> str:
    end = outcome.value if isinstance(outcome, Completed) else outcome
    return f"{end} {process.usage.cost:.3f} {[(each.action, each.status) for each in process.history]}"


def forked(work: Callable[..., None], *arguments: object) -> int | None:
    """Do something in a program of its own, and return its exit code."""
    program = FORKS.Process(target=work, args=arguments)
    with _STARTING:
        program.start()
    wait([program.sentinel], _SECONDS)
    with _STARTING:
        if program.is_alive():
            program.kill()
            program.join()
        return program.exitcode
