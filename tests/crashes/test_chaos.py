"""Many processes on three programs that are killed, stopped and started at random, while their database goes and comes.

None is lost, and none does anything twice but what was interrupted. `GOALPORT_CRASHES=all` takes two minutes for it.
"""

import asyncio
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import anyio

from goalport import ActionContext, AgentPlatform, Export, UserInput, achieves_goal, action, agent
from goalport.base.errors import StoreError
from tests.crashes.crews import Effects
from tests.crashes.faults import Crew, opened
from tests.forks import FORKS
from tests.postgres import PostgresServer

ALL = os.environ.get("GOALPORT_CRASHES") == "all"
PROCESSES, SECONDS, STEP, PATIENCE = (200, 40, 4.0, 120) if ALL else (30, 4, 1.5, 60)
DRIVERS = 3


@dataclass(frozen=True)
class Cut:
    text: str


@dataclass(frozen=True)
class Sewn:
    text: str


@dataclass(frozen=True)
class Coat:
    text: str


@agent(description="Makes coats")
class Tailor:
    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    async def work(self, step: int, context: ActionContext) -> None:
        self.effects.add(step, os.getpid(), context.key)
        await asyncio.sleep(random.uniform(0, STEP))

    @action
    async def cut(self, user_input: UserInput, context: ActionContext) -> Cut:
        await self.work(1, context)
        return Cut(user_input.content)

    @action
    async def sew(self, cut: Cut, context: ActionContext) -> Sewn:
        await self.work(2, context)
        return Sewn(cut.text)

    @achieves_goal(description="A coat", export=Export(durable=True))
    async def iron(self, sewn: Sewn, context: ActionContext) -> Coat:
        await self.work(3, context)
        return Coat(sewn.text)


def drive(crew: Crew, starts: int) -> None:
    asyncio.run(_drive(crew, starts))


async def _drive(crew: Crew, starts: int) -> None:
    async with AgentPlatform([Tailor(crew.effects)], store=opened(crew.place), lease_seconds=1) as platform:
        for number in range(starts):
            platform.start("Tailor", UserInput(str(number)))
        await asyncio.Event().wait()


class Drivers:
    """Three programs on one store, one of which is struck now and then."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._programs = [self._started(PROCESSES if each == 0 else 0) for each in range(DRIVERS)]
        self.stopped: set[int] = set()
        """The process numbers of those that were stopped for a time."""

    def _started(self, starts: int = 0) -> BaseProcess:
        program = FORKS.Process(target=drive, args=(self._crew, starts))
        program.start()
        return program

    def kill(self, number: int) -> None:
        self._programs[number].kill()
        self._programs[number].join()
        self._programs[number] = self._started()

    async def stop_for(self, number: int, seconds: float) -> None:
        pid = self._programs[number].pid
        assert pid is not None
        self.stopped.add(pid)
        os.kill(pid, signal.SIGSTOP)
        await anyio.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        for each in self._programs:
            each.kill()
            each.join()


async def counts(crew: Crew) -> dict[str, int]:
    try:
        async with opened(crew.place) as store:
            return dict(await store.counts())
    except StoreError:
        return {}


async def until_all(crew: Crew, status: str | None) -> None:
    """Wait until as many processes as were started have a status."""
    with anyio.fail_after(PATIENCE):
        while True:
            found = await counts(crew)
            if (sum(found.values()) if status is None else found.get(status, 0)) == PROCESSES:
                return
            await anyio.sleep(0.1)


def lost_or_doubled(lines: list[str], stopped: set[int]) -> list[str]:
    """What is wrong with what was done outside: a step that is missing, has two keys, or came after a later one."""
    done: dict[str, dict[int, str]] = {}
    wrong: list[str] = []
    for line in lines:
        step, pid, key = line.split(" ")
        steps = done.setdefault(key.partition(":")[0], {})
        if steps.setdefault(int(step), key) != key:
            wrong.append(f"{line}: under another key than {steps[int(step)]}")
        if max(steps) > int(step) and int(pid) not in stopped:  # one that was stopped may just have begun
            wrong.append(f"{line}: after step {max(steps)}")
    wrong += [f"{process}: only {sorted(steps)}" for process, steps in done.items() if len(steps) < 3]
    if len(lines) <= 3 * PROCESSES:
        wrong.append("nothing was interrupted")
    return wrong if len(done) == PROCESSES else [*wrong, f"{len(done)} of {PROCESSES} processes"]


async def disturbed(crew: Crew, restart: Callable[[], None] | None) -> set[int]:
    """Strike programs and the database until the time is over, then wait for the last process."""
    chance, drivers = random.Random(11), Drivers(crew)
    try:
        await until_all(crew, None)
        end = anyio.current_time() + SECONDS
        while anyio.current_time() < end:
            struck = chance.randrange(DRIVERS)
            match chance.randrange(4):
                case 0:
                    await drivers.stop_for(struck, 1.5)
                case 1 if restart is not None:
                    await anyio.to_thread.run_sync(restart)
                case _:
                    drivers.kill(struck)
            await anyio.sleep(chance.uniform(0.1, 0.7))
        await until_all(crew, "completed")
    finally:
        drivers.end()
    return drivers.stopped


async def test_of_many_processes_in_a_file_none_is_lost_and_none_doubled(tmp_path: Path) -> None:
    crew = Crew(tmp_path, str(tmp_path / "processes.db"))
    stopped = await disturbed(crew, None)
    assert lost_or_doubled(crew.effects.lines, stopped) == []


async def test_of_many_processes_in_postgres_none_is_lost_and_none_doubled(
    tmp_path: Path, own_postgres: Callable[..., PostgresServer]
) -> None:
    server = own_postgres()
    crew = Crew(tmp_path, server.database())

    def restart() -> None:
        server.stop("immediate")
        server.start()

    stopped = await disturbed(crew, restart)
    assert lost_or_doubled(crew.effects.lines, stopped) == []
