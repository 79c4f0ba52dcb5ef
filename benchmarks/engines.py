"""What delivering processes by DBOS costs against running them at once, and a step of DBOS beside a commit of ours.

The server is the one of the tests, on this machine, and waits for the disk. All figures are measured in one run.
"""

import asyncio
import time
from dataclasses import dataclass
from statistics import median
from typing import Final

from dbos import DBOS

from benchmarks.durability import OBJECT, RunningProcess
from benchmarks.report import Table
from goalport.agents.domain import Export, UserInput, achieves_goal, action, agent
from goalport.runtime.platform import AgentPlatform, DbosEngine
from goalport.store.postgres.process_store import PostgresProcessStore
from tests.postgres import postgres_files, postgres_server

__all__ = ["engines"]

_STEPS: Final = 40


@dataclass(frozen=True)
class Half:
    text: str


@dataclass(frozen=True)
class Whole:
    text: str


@agent(description="Does nothing, twice")
class Idler:
    @action
    async def begin(self, user_input: UserInput) -> Half:
        return Half(user_input.content)

    @achieves_goal(description="Nothing", export=Export(durable=True))
    @action
    async def end(self, half: Half) -> Whole:
        return Whole(half.text)


def engines(*, quick: bool = False) -> Table:
    """The table of what a process and a step cost with each engine."""
    alone, together = (5, 20) if quick else (20, 200)
    with postgres_files() as files, postgres_server(files, fsync="on", autovacuum="on") as server:
        commit = asyncio.run(_commits(server.database()))
        step = _steps_of_dbos(server.database())
        local = asyncio.run(_processes(server.database(), None, alone, together))
        url = server.database()
        delivered = asyncio.run(_processes(url, DbosEngine(url), alone, together))
    rows = [
        ("`local`", _ms(local[0]), f"{local[1]:.0f}", _ms(commit)),
        ("`dbos`", _ms(delivered[0]), f"{delivered[1]:.0f}", _ms(step)),
    ]
    columns = ("", "one process", f"{together} together, per second", "a commit of an action; a step of DBOS")
    note = "A process of two actions that do nothing, from its start to its result; a result of 1.5 kB. Medians."
    return Table("engines", "Processes delivered by DBOS", columns, rows, [note])


async def _processes(url: str, engine: DbosEngine | None, alone: int, together: int) -> tuple[float, float]:
    async with (
        PostgresProcessStore(url) as store,
        AgentPlatform([Idler()], store=store, engine=engine) as platform,
    ):
        await platform.run("Idler", UserInput("first"))
        taken = [await _timed(platform) for _ in range(alone)]
        began = time.perf_counter()
        await asyncio.gather(*(_timed(platform) for _ in range(together)))
        return median(taken), together / (time.perf_counter() - began)


async def _timed(platform: AgentPlatform) -> float:
    began = time.perf_counter()
    await platform.run("Idler", UserInput("again"))
    return time.perf_counter() - began


async def _commits(url: str) -> float:
    async with PostgresProcessStore(url) as store:
        process = RunningProcess(store, "alone")
        return median([await process.commit(number) for number in range(_STEPS)][1:])


def _steps_of_dbos(url: str) -> float:
    async def step() -> object:
        return OBJECT

    async def workflow() -> list[float]:
        taken: list[float] = []
        for _ in range(_STEPS):
            began = time.perf_counter()
            await DBOS.run_step_async(None, step)
            taken.append(time.perf_counter() - began)
        return taken

    async def run() -> list[float]:
        handle = await DBOS.start_workflow_async(started)
        return await handle.get_result()

    address = url.replace("postgresql://", "postgresql+psycopg://")
    DBOS(config={"name": "benchmark", "system_database_url": address, "log_level": "ERROR"})
    started = DBOS.workflow(name="benchmark")(workflow)
    DBOS.launch()
    try:
        return median(asyncio.run(run())[1:])
    finally:
        DBOS.destroy(destroy_registry=True)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


if __name__ == "__main__":
    print(engines().markdown)
