"""A guard who watches a door until it opens, and programs that drive, stop and follow such processes."""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

from goalport import (
    ActionContext,
    AgentPlatform,
    Export,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
)
from goalport.base.errors import Retryable
from goalport.store import ProcessStore
from tests.crashes.crews import Effects
from tests.crashes.faults import Crew, opened
from tests.forks import FORKS

__all__ = ["Guard", "Report", "castle", "drives"]


@dataclass(frozen=True)
class Post:
    name: str


@dataclass(frozen=True)
class Password:
    word: str


@dataclass(frozen=True)
class Report:
    text: str


@agent(description="Watches a door")
class Guard:
    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    @action
    async def stand(self, user_input: UserInput, context: ActionContext) -> Post:
        self.effects.add("stand", os.getpid(), context.key)
        context.spend(cost=0.25)
        return Post(user_input.content)

    @achieves_goal(description="A report", export=Export(durable=True))
    async def watch(self, post: Post, context: ActionContext) -> Report:
        self.effects.add("watch", os.getpid(), context.key)
        context.progress("I watch.")
        door = self.effects.file.with_name("open")
        while not door.exists():
            self.effects.add("look", os.getpid(), context.key)
            await asyncio.sleep(0.02)
        self.effects.add("report", os.getpid(), context.key)
        return Report(post.name)


@agent(description="Does what must not be done twice")
class Gunner:
    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    @action(repeatable=False)
    async def fire(self, user_input: UserInput, context: ActionContext) -> Post:
        self.effects.add("fire", os.getpid(), context.key)
        while not self.effects.file.with_name("open").exists():
            await asyncio.sleep(0.02)
        return Post(user_input.content)

    @achieves_goal(description="A report", export=Export(durable=True))
    async def tell(self, post: Post) -> Report:
        return Report(post.name)


@agent(description="Knocks until somebody opens")
class Visitor:
    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    @achieves_goal(description="A report", export=Export(durable=True))
    async def knock(self, user_input: UserInput, context: ActionContext) -> Report:
        self.effects.add("knock", os.getpid(), context.key)
        context.spend(cost=0.25)
        if not self.effects.file.with_name("open").exists():
            raise Retryable("Nobody opens.")
        return Report(user_input.content)


@agent(description="Asks for the password, and not for long")
class Porter:
    @action
    async def ask(self, user_input: UserInput) -> WaitFor[Password]:
        return WaitFor.form_submission("The password?", Password, expires_in=float(user_input.content))

    @achieves_goal(description="A report")
    async def let_in(self, password: Password) -> Report:
        return Report(password.word)


def castle(store: ProcessStore, effects: Effects) -> AgentPlatform:
    return AgentPlatform([Guard(effects), Gunner(effects), Visitor(effects), Porter()], store=store, lease_seconds=2)


def _drive(crew: Crew, agent_name: str, given: str) -> None:
    asyncio.run(_driven(crew, agent_name, given))


async def _driven(crew: Crew, agent_name: str, given: str) -> None:
    async with castle(opened(crew.place), crew.effects) as platform:
        process = platform.start(agent_name, UserInput(given))
        (crew.folder / "process").write_text(process.id)
        await process.wait()
        await asyncio.Event().wait()


@contextmanager
def drives(crew: Crew, agent_name: str = "Guard", given: str = "gate") -> Generator[BaseProcess]:
    """Another program that starts a process and drives it until the block ends."""
    program = FORKS.Process(target=_drive, args=(crew, agent_name, given))
    program.start()
    try:
        yield program
    finally:
        program.kill()
        program.join()
