"""Several servers on one store behind a proxy that sends each request to the next of them. No test is in here."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client

from tests.proxies import RoundRobin, round_robin
from tests.stories.servers import Running, running
from tests.web_servers import WebServer

__all__ = ["FILES", "KEYS", "Fleet", "fleet"]

SMITHY = """
import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from goalport import ActionContext, Export, UserInput, WaitFor, achieves_goal, action, agent

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Iron:
    name: str


@dataclass(frozen=True)
class Sword:
    name: str


@dataclass(frozen=True)
class Gem:
    colour: str


@dataclass(frozen=True)
class Crown:
    content: str


def note(words):
    with (FOLDER / "done.txt").open("a") as done:
        done.write(words + "\\n")


@agent(description="Makes swords")
class Smith:
    @action
    async def melt(self, user_input: UserInput, context: ActionContext) -> Iron:
        note(f"melt {user_input.content}")
        return Iron(user_input.content)

    @achieves_goal(description="A sword", export=Export(remote=True, name="forge", long=True, wait_budget=0.2))
    @action
    async def forge(self, iron: Iron, context: ActionContext) -> Sword:
        note(f"forge {iron.name}")
        context.progress("the iron is hot")
        try:
            while not (FOLDER / "hot").exists():
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            note(f"stop {iron.name}")
            raise
        return Sword(iron.name)


@agent(description="Makes swords while somebody waits")
class PatientSmith(Smith):
    @achieves_goal(description="A sword", export=Export(remote=True, name="forge_patiently", long=True))
    @action
    async def forge(self, iron: Iron, context: ActionContext) -> Sword:
        return await super().forge(iron, context)


@agent(description="Makes swords whether anybody waits or not")
class FreeSmith(Smith):
    @achieves_goal(
        description="A sword", export=Export(remote=True, name="forge_anyway", long=True, on_disconnect="detach")
    )
    @action
    async def forge(self, iron: Iron, context: ActionContext) -> Sword:
        return await super().forge(iron, context)


@agent(description="Makes crowns")
class Jeweller:
    @action
    async def choose(self, user_input: UserInput) -> WaitFor[Gem]:
        return WaitFor.form_submission("Which gem?", Gem)

    @achieves_goal(description="A crown", export=Export(remote=True, name="crown"))
    @action
    async def mount(self, gem: Gem, user_input: UserInput) -> Crown:
        note(f"mount {gem.colour}")
        return Crown(f"{gem.colour} for {user_input.content}")
"""
FILES = {"agents/smithy.py": SMITHY}
KEYS = "k" * 32


@dataclass(frozen=True)
class Fleet:
    """The servers, and the proxy before them."""

    servers: list[Running]
    proxy: RoundRobin | WebServer
    folder: Path

    def client(self, era: str, **options: Any) -> AbstractAsyncContextManager[Client]:
        if isinstance(self.proxy, WebServer):
            return self.proxy.client(era, **options)
        return Client(f"{self.proxy.address}/mcp", mode=era, **options)

    async def done(self, words: str, seconds: float = 30) -> None:
        """Wait until the agents have written these words."""
        with anyio.fail_after(seconds):
            while words not in self.lines():
                await anyio.sleep(0.02)

    def lines(self) -> list[str]:
        """What the agents have written."""
        file = self.folder / "agents/done.txt"
        return file.read_text().splitlines() if file.exists() else []


@asynccontextmanager
async def fleet(root: Path, **given: str) -> AsyncGenerator[Fleet]:
    """Two servers that share their store and their key."""
    settings: dict[str, Any] = {"store": "sqlite", "state_keys": KEYS, **given}
    async with (
        running(root, FILES, **settings) as one,
        running(root, FILES, **settings) as other,
        round_robin([one.address, other.address]) as proxy,
    ):
        yield Fleet([one, other], proxy, root)
