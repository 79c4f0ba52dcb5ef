"""Agents whose processes outlive a program, and programs that run them.

`python -c "…; bakers.main()" ENGINE URL AGENT FILE` starts a process, prints its id, and runs what falls to it until it
is killed.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from goalport.agents.domain import Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.dbos_engine import DbosEngine
from goalport.runtime.process import ActionContext, run_subagent
from goalport.store.postgres.process_store import PostgresProcessStore

LEASE = 2.0


@dataclass(frozen=True)
class Dough:
    file: str


@dataclass(frozen=True)
class Topping:
    name: str


@dataclass(frozen=True)
class Cake:
    topping: str


@dataclass(frozen=True)
class Feast:
    cake: Cake


@dataclass(frozen=True)
class Parcel:
    text: str


def note(file: str, step: str) -> None:
    with Path(file).open("a") as done:
        done.write(f"{step}\n")


def noted(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@agent(description="Bakes a cake with what people want on it")
class Baker:
    @action
    async def mix(self, user_input: UserInput) -> Dough:
        note(user_input.content, "mix")
        return Dough(user_input.content)

    @action
    async def ask(self, dough: Dough) -> WaitFor[Topping]:
        note(dough.file, "ask")
        return WaitFor.form_submission("What do you want on it?", Topping)

    @achieves_goal(description="A cake")
    @action
    async def bake(self, dough: Dough, topping: Topping) -> Cake:
        note(dough.file, "bake")
        return Cake(topping.name)


@agent(description="Has a cake baked")
class Caterer:
    @achieves_goal(description="A feast", export=Export(durable=True))
    @action
    async def cater(self, user_input: UserInput) -> Feast:
        return Feast(await run_subagent(Baker(), Cake, user_input))


@agent(description="Asks, and does not wait for long")
class Hasty:
    @action
    async def ask(self, user_input: UserInput) -> WaitFor[Topping]:
        note(user_input.content, "ask")
        return WaitFor.form_submission("What do you want on it?", Topping, expires_in=0.3)

    @achieves_goal(description="A cake")
    @action
    async def bake(self, topping: Topping) -> Cake:
        return Cake(topping.name)


@agent(description="Takes as long as the file is not open")
class Courier:
    @action
    async def load(self, user_input: UserInput) -> Dough:
        note(user_input.content, "load")
        return Dough(user_input.content)

    @achieves_goal(description="A parcel", export=Export(long=True))
    @action
    async def drive(self, dough: Dough, context: ActionContext) -> Parcel:
        note(dough.file, f"drive {context.key}")
        while not Path(dough.file).with_suffix(".open").exists():
            await asyncio.sleep(0.02)
        note(dough.file, "arrive")
        return Parcel("there")


@asynccontextmanager
async def opened(engine: str, url: str, *, total_concurrency: int = 0) -> AsyncGenerator[AgentPlatform]:
    """A platform on a database, with an engine."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(PostgresProcessStore(url))
        delivering = DbosEngine(url, total_concurrency=total_concurrency) if engine == "dbos" else None
        agents = [Baker(), Caterer(), Hasty(), Courier()]
        yield await stack.enter_async_context(
            AgentPlatform(agents, store=store, engine=delivering, lease_seconds=LEASE)
        )


async def run(engine: str, url: str, name: str, file: str) -> None:
    async with opened(engine, url) as platform:
        sys.stdout.write(f"{platform.start(name, UserInput(file)).id}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    asyncio.run(run(*sys.argv[1:]))
