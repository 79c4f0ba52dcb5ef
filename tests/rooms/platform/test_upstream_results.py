"""What a model reads of the results of upstream servers."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import to_json

from goalport import AgentInvocation, AgentPlatform, Ai, UserInput, achieves_goal, action, agent
from goalport.models.llm import ToolReply
from goalport.runtime.platform import UpstreamServers
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools.upstream import GroupConfig, McpConfig
from tests.rooms.upstream.connected import QUICK, marked, nothing_left_behind, plain


@dataclass(frozen=True)
class Said:
    content: str


@agent(description="Asks a model that has tools of others")
class Asker:
    @achieves_goal(description="The answer")
    @action(tool_groups=["theirs"])
    async def ask(self, said: UserInput, ai: Ai) -> Said:
        return Said(await ai.generate_text(said.content))


@asynccontextmanager
async def asking(folder: Path, model: ScriptedModel) -> AsyncGenerator[AgentPlatform]:
    given = McpConfig({"plain": marked(plain("--odd-tools"))}, {"theirs": GroupConfig("theirs", ("plain",))})
    servers = UpstreamServers(given, folder, timing=QUICK, start_seconds=20)
    with nothing_left_behind():
        async with AgentPlatform([Asker], models=model, upstream=servers) as platform:
            yield platform


async def replies(folder: Path, *script: object) -> list[str]:
    """What the tools told a model that calls them as the script says."""
    model = ScriptedModel([*script, "done"])
    async with asking(folder, model) as platform:
        await AgentInvocation.on(platform).returning(Said).invoke(UserInput("Go"))
    return [each.content for each in model.calls[-1].messages if isinstance(each, ToolReply)]


async def test_a_result_that_is_data_alone_is_read_as_its_json(tmp_path: Path) -> None:
    (read,) = await replies(tmp_path, calls_tool("bare"))
    assert json.loads(read) == {"sum": 2, "of": ["one", "one"]}


async def test_nothing_that_people_cannot_see_is_in_a_result(tmp_path: Path) -> None:
    (read,) = await replies(tmp_path, calls_tool("coloured"))
    assert read == "Fine, red.\n\nFine, red.\n"


async def test_nothing_that_people_cannot_see_is_in_the_values_of_a_schema(tmp_path: Path) -> None:
    model = ScriptedModel(["done"])
    async with asking(tmp_path, model) as platform:
        await AgentInvocation.on(platform).returning(Said).invoke(UserInput("Go"))
    (spiked,) = (each for each in model.calls[0].tools if each.name == "spiked")
    assert '"which":{"enum":["one"],"default":"one"}' in to_json(spiked.input_schema).decode()


async def test_a_long_result_is_cut_and_read_on_with_a_tool(tmp_path: Path) -> None:
    first, second, third = await replies(
        tmp_path,
        calls_tool("huge", count=250_000),
        calls_tool("read_on", result=1, start=100_000),
        calls_tool("read_on", result=1, start=200_000),
    )
    assert first == (
        f"{'x' * 100_000}\n[These are the characters from 0 to 100,000 of 250,000. "
        'To read on, call read_on with {"result": 1, "start": 100000}.]'
    )
    assert second.endswith(
        "x\n[These are the characters from 100,000 to 200,000 of 250,000. "
        'To read on, call it again with {"result": 1, "start": 200000}.]'
    )
    assert third == "x" * 50_000
