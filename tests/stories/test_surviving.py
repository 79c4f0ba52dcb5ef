"""The server is killed without warning: answers to its questions go to the next one, which knows what goals noted."""

from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp_types import CallToolResult

from tests.stories.servers import running
from tests.stories.test_waiting import BAKER

NOTED = """
from dataclasses import dataclass
from goalport import AgentPlatform, Export, ProcessOptions, UserInput, achieves_goal, agent
from goalport.runtime import Context

@dataclass(frozen=True)
class Wish:
    text: str

@dataclass(frozen=True)
class Wishes:
    content: str

@agent(description="Lists wishes")
class Reader:
    @achieves_goal(description="All wishes")
    async def read(self, wish: Wish, platform: AgentPlatform) -> Wishes:
        noted = await platform.contexts.find("wishes")
        return Wishes(", ".join(each.text for each in noted.objects))

@agent(description="Notes wishes")
class Noter:
    @achieves_goal(description="All wishes so far", export=Export(remote=True, name="note_wish"))
    async def note(self, wish: Wish, platform: AgentPlatform) -> Wishes:
        noted = await platform.contexts.find("wishes") or Context("wishes")
        noted.add(wish)
        await platform.contexts.save(noted)
        reader = await platform.run("Reader", options=ProcessOptions(context_id="wishes"))
        return reader.result_of_type(Wishes)
"""
COOK = """
from dataclasses import dataclass
from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent

@dataclass(frozen=True)
class Flour:
    grams: int

@dataclass(frozen=True)
class Filling:
    name: str

@dataclass(frozen=True)
class Cake:
    content: str

@agent(description="Bakes a filled cake")
class Cook:
    @action
    def weigh(self, user_input: UserInput) -> Flour:
        return Flour(500)

    @action
    def ask(self, flour: Flour) -> WaitFor[Filling]:
        return WaitFor.form_submission("Which filling?", Filling)

    @achieves_goal(description="A filled cake", export=Export(remote=True, name="fill_cake"))
    def fill(self, flour: Flour, filling: Filling) -> Cake:
        return Cake(f"{flour.grams} g with {filling.name}")
"""
FILES = {"agents/bakers.py": BAKER, "agents/noters.py": NOTED}


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    with anyio.fail_after(60):
        return await client.call_tool(tool, arguments)


async def test_a_waiting_goal_and_what_goals_remember_survive_a_server_that_is_killed(
    tmp_path: Path, place: dict[str, Any]
) -> None:
    era = "legacy" if place["store"].startswith("postgresql") else "auto"  # each with one of the databases
    async with running(tmp_path, FILES, **place) as first:
        async with first.client("http", era) as client:
            handle = (await call(client, "bake_cake", guests=3)).structured_content
            noted = await call(client, "note_wish", text="bread")
        assert handle is not None
        assert noted.structured_content == {"content": "bread"}
        first.process.kill()
        await first.process.wait()
    async with running(tmp_path, {}, **place) as second, second.client("http", era) as client:
        status = await call(client, "process_status", processId=handle["processId"])
        assert status.structured_content == handle
        answer = {"processId": handle["processId"], "answer": {"cake": "carrot"}}
        result = await call(client, "process_answer", **answer)
        assert result.structured_content == {"content": "carrot for 3"}
        assert "It is done" in str((await call(client, "process_answer", **answer)).content)
        noted = await call(client, "note_wish", text="cheese")
        assert noted.structured_content == {"content": "bread, cheese"}
    async with running(tmp_path, {}, **place) as third, third.client("http", era) as client:
        status = await call(client, "process_status", processId=handle["processId"])
        assert status.structured_content == {"content": "carrot for 3"}


async def test_a_step_that_has_run_and_is_called_otherwise_in_the_next_version_keeps_nobody_from_answering(
    tmp_path: Path, place: dict[str, Any]
) -> None:
    async with running(tmp_path, {"agents/cooks.py": COOK}, **place) as first, first.client("http", "auto") as client:
        handle = (await call(client, "fill_cake", content="a cake")).structured_content
        assert handle is not None
    renamed = {"agents/cooks.py": COOK.replace("def weigh", "def measure")}
    async with running(tmp_path, renamed, **place) as second, second.client("http", "auto") as client:
        result = await call(client, "process_answer", processId=handle["processId"], answer={"name": "plums"})
        assert result.structured_content == {"content": "500 g with plums"}
