import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel

from goalport import Export, UserInput, achieves_goal, action, agent
from goalport.server.site.startup import watch
from tests.rooms.serve.served import LoggedError, Served, logged_error, served, text_of

GREETER = """
import anyio
from pydantic import BaseModel
from goalport import Export, UserInput, achieves_goal, action, agent

class Greeting(BaseModel):
    content: str

gate = anyio.Event()

@agent(description="Greets")
class Greeter:
    @achieves_goal(description="A greeting", export=Export(remote=True, name="{name}"))
    @action
    async def greet(self, said: UserInput) -> Greeting:
        await gate.wait()
        return Greeting(content="{words} " + said.content)
"""
OPEN = "\ngate.set()\n"
BROKEN = "raise ValueError('half saved')"


def greeter(name: str, words: str) -> str:
    return GREETER.replace("{name}", name).replace("{words}", words)


@asynccontextmanager
async def watched(root: Path, text: str) -> AsyncGenerator[Served]:
    async with served(root, files={"agents/greeter.py": text}) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(watch, server.state.publisher, 0.02)
        await anyio.wait_all_tasks_blocked()
        yield server
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def reloaded(server: Served) -> AsyncGenerator[None]:
    """Something that ends in another publication, and the time until it is there."""
    announced = anyio.Event()

    def note(_: object) -> None:
        announced.set()

    unsubscribe = server.state.notifications.bus.subscribe(note)
    yield
    with anyio.fail_after(60):
        await announced.wait()
    unsubscribe()


@pytest.fixture
def refused() -> Generator[LoggedError]:
    """The line that says why a state is not served."""
    with logged_error("goalport.server.site.startup") as error:
        yield error


async def test_what_is_saved_is_served(tmp_path: Path) -> None:
    async with watched(tmp_path, greeter("greet", "Hello") + OPEN) as server:
        async with reloaded(server):
            (tmp_path / "agents/greeter.py").write_text(greeter("welcome", "Welcome") + OPEN)
        async with server.client() as client:
            assert "greet" not in [tool.name for tool in (await client.list_tools()).tools]
            assert text_of(await client.call_tool("welcome", {"content": "Ada"})) == "Welcome Ada"


async def test_a_module_that_does_not_load_changes_nothing_and_is_told(tmp_path: Path, refused: LoggedError) -> None:
    async with watched(tmp_path, greeter("greet", "Hello") + OPEN) as server:
        (tmp_path / "agents/greeter.py").write_text(BROKEN)
        with anyio.fail_after(60):
            await refused.told.wait()
        assert "greeter.py:1: ValueError: half saved" in refused.words
        (loaded,) = server.state.publisher.workspace.modules
        assert sys.modules["goalport_workspace.agents.greeter"] is loaded.module
        async with server.client() as client:
            assert text_of(await client.call_tool("greet", {"content": "Ada"})) == "Hello Ada"
        async with reloaded(server):
            (tmp_path / "agents/greeter.py").write_text(greeter("welcome", "Welcome") + OPEN)


async def test_references_that_are_wrong_are_told_when_their_file_is_saved(
    tmp_path: Path, refused: LoggedError
) -> None:
    async with watched(tmp_path, greeter("greet", "Hello") + OPEN):
        (tmp_path / "references.yml").write_text("- type: WebSite\n")
        with anyio.fail_after(60):
            await refused.told.wait()
        assert "references.yml:1: there is no type 'WebSite'" in refused.words


async def test_a_module_that_was_broken_before_keeps_nobody_else_from_changing(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/broken.py").write_text(BROKEN)
    async with watched(tmp_path, greeter("greet", "Hello") + OPEN) as server:
        async with reloaded(server):
            (tmp_path / "agents/greeter.py").write_text(greeter("welcome", "Welcome") + OPEN)
        assert "welcome" in server.state.publication.tools


async def test_a_call_that_is_open_ends_with_what_it_began_with(tmp_path: Path) -> None:
    results: list[str] = []
    async with watched(tmp_path, greeter("greet", "Hello")) as server, server.client() as client:

        async def call() -> None:
            results.append(text_of(await client.call_tool("greet", {"content": "Ada"})))

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            (old,) = server.state.publisher.workspace.modules
            async with reloaded(server):
                (tmp_path / "agents/greeter.py").write_text(greeter("greet", "Welcome") + OPEN)
            old.namespace["gate"].set()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        assert results == ["Hello Ada"]
        assert text_of(await client.call_tool("greet", {"content": "Ada"})) == "Welcome Ada"


class Greeting(BaseModel):
    content: str


@agent(description="Arrives later")
class Latecomer:
    @achieves_goal(description="A greeting", export=Export(remote=True, name="greet_late"))
    @action
    async def greet(self, said: UserInput) -> Greeting:
        return Greeting(content=said.content)


async def test_a_program_that_deploys_an_agent_publishes_it_by_saying_so(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.client() as client:
        server.platform.deploy(Latecomer())
        await server.state.publisher.republish("tools")
        assert "greet_late" in [tool.name for tool in (await client.list_tools()).tools]
