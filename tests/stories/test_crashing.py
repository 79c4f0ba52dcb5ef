"""A server is killed without warning in the middle of its work, and the next one goes on with it."""

from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp_types import CallToolResult

from tests.stories.servers import running

SMITH = """
import asyncio
from dataclasses import dataclass
from pathlib import Path

from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent

DONE = Path(__file__).with_name("done.txt")


@dataclass(frozen=True)
class Iron:
    name: str
    key: str


@dataclass(frozen=True)
class Sword:
    name: str


@agent(description="Makes swords")
class Smith:
    @action
    async def melt(self, user_input: UserInput, context: ActionContext) -> Iron:
        with DONE.open("a") as done:
            done.write(f"melt {context.key}\\n")
        return Iron(user_input.content, context.key)

    @achieves_goal(description="A sword", export=Export(remote=True, name="forge", long=True, wait_budget=0.2))
    @action
    async def forge(self, iron: Iron, context: ActionContext) -> Sword:
        with DONE.open("a") as done:
            done.write(f"forge {context.key}\\n")
        while not DONE.with_name("hot").exists():
            await asyncio.sleep(0.02)
        return Sword(iron.name)
"""


async def call(client: Client, tool: str, *, key: str = "", **arguments: Any) -> CallToolResult:
    meta: Any = {"goalport/idempotencyKey": key} if key else None
    with anyio.fail_after(60):
        return await client.call_tool(tool, arguments, meta=meta)


async def lines(path: Path, count: int) -> list[str]:
    """The lines of a file as soon as it has so many."""
    with anyio.fail_after(60):
        while len(found := _lines(path)) < count:
            await anyio.sleep(0.01)
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def test_an_action_that_was_interrupted_begins_again_and_a_finished_one_does_not(
    tmp_path: Path, place: dict[str, Any]
) -> None:
    era = "legacy" if place["store"].startswith("postgresql") else "auto"  # each with one of the databases
    folder = tmp_path / "agents"
    async with running(tmp_path, {"agents/smiths.py": SMITH}, **place) as first:
        async with first.client("http", era) as client:
            handle = (await call(client, "forge", content="Excalibur", key="k")).structured_content
        assert handle is not None
        melted, forged = await lines(folder / "done.txt", 2)
        first.process.kill()
        await first.process.wait()
    async with running(tmp_path, {}, **place) as second, second.client("http", era) as client:
        assert await lines(folder / "done.txt", 3) == [melted, forged, forged]
        again = await call(client, "forge", content="Excalibur", key="k")
        assert again.structured_content == handle
        (folder / "hot").touch()
        result = await call(client, "process_status", processId=handle["processId"], waitSeconds=25)
        assert result.structured_content == {"name": "Excalibur"}
        assert result.meta is not None
        assert result.meta["goalport/actions"] == 2
    assert await lines(folder / "done.txt", 3) == [melted, forged, forged]
