"""Goals whose tools need a person, over real connections: one to agree to a call, one to answer an upstream server."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult

from tests.stories.servers import Running

ASKING = str(Path(__file__).parents[1] / "rooms" / "upstream" / "plain_server.py")
ASTROLOGER = """
from pydantic import BaseModel

from goalport import Ai, Export, achieves_goal, action, agent
from goalport.testing import ScriptedModel, calls_tool

SAYS = {1: calls_tool("burn", name="notes"), 3: calls_tool("stars_ask")}

def says(call):
    return SAYS.get(len(call.messages), call.messages[-1].content)

model = ScriptedModel([says] * 20)

class Wish(BaseModel):
    text: str

class Horoscope(BaseModel):
    content: str

@agent(description="Reads the stars")
class Astrologer:
    @achieves_goal(description="A horoscope", export=Export(remote=True, name="read_stars"))
    @action(tool_groups=["papers", "stars"])
    async def read(self, wish: Wish, ai: Ai) -> Horoscope:
        return Horoscope(content=await ai.generate_text(wish.text))
"""
CLEANERS = """
from pydantic import BaseModel

from goalport import ActionContext, Export, achieves_goal, action, agent

class Room(BaseModel):
    where: str

class Clean(BaseModel):
    content: str

@agent(description="Cleans")
class Cleaner:
    @achieves_goal(description="A clean room", export=Export(remote=True, name="clean_room"))
    @action(tool_groups=["papers"])
    async def clean(self, room: Room, context: ActionContext) -> Clean:
        return Clean(content=(await context.tool("burn").call({"name": room.where})).text)

class Dust(BaseModel):
    content: str

@agent(description="Asks without saying so")
class Unannounced:
    @achieves_goal(description="Dust", export=Export(remote=True, name="dust"))
    async def dust(self, room: Room, context: ActionContext) -> Dust:
        return Dust(content=await context.ask("Where?", str))
"""
PAPERS = """
import sys

from goalport import tool
from goalport.tools import ToolGroup

@tool
def burn(name: str) -> str:
    '''Burn papers.'''
    print(f"{name} burn", file=sys.stderr, flush=True)
    return "burnt"

papers = ToolGroup.of("papers", burn, approve="destructive")
"""
UPSTREAM = {
    "mcpServers": {"sky": {"command": sys.executable, "args": ["-S", "-E", ASKING]}},
    "toolGroups": {"stars": {"servers": ["sky"], "include": ["ask"], "naming": {"prefix": "stars_"}}},
}
FILES = {
    "agents/astrologer.py": ASTROLOGER,
    "agents/cleaners.py": CLEANERS,
    "tools/papers.py": PAPERS,
    "mcp_config.json": json.dumps(UPSTREAM),
    "server/settings.toml": '[models]\ndefault_llm = "scripted"\n',
}


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    with anyio.fail_after(60):
        result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


def question_of(handle: dict[str, Any]) -> dict[str, Any]:
    assert handle["status"] == "waiting"
    (question,) = handle["questions"]
    return question


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_person_agrees_to_a_tool_and_answers_an_upstream_server_in_one_call_of_a_goal(
    server: Running, era: str
) -> None:
    async with server.client("http", era) as client:
        handle = await call(client, "read_stars", text="What will come?")
        process = {"processId": handle["processId"]}
        burning = question_of(handle)
        assert burning["kind"] == "confirmation"
        assert burning["message"] == 'May the tool \'burn\' be called with {"name": "notes"}?'
        assert "notes burn" not in server.heard.text
        handle = await call(client, "process_answer", **process, answer=True)
        sign = question_of(handle)
        assert (sign["kind"], sign["message"]) == ("form", "sky asks: Which sign?")
        assert sign["schema"]["properties"]["sign"]["type"] == "string"
    async with server.client("http", era) as client:  # the answer may come over another connection
        end = await call(client, "process_answer", **process, answer={"sign": "Leo"})
    said = json.loads(end["content"])
    assert (said["action"], said["content"]) == ("accept", {"sign": "Leo"})
    assert server.heard.text.count("notes burn") == 1


async def test_a_refused_tool_is_not_called_and_the_goal_goes_on(server: Running) -> None:
    async with server.client("http", "auto") as client:
        process = {"processId": (await call(client, "read_stars", text="What will come?"))["processId"]}
        sign = question_of(await call(client, "process_answer", **process, answer=False))
        assert sign["message"] == "sky asks: Which sign?"
        await call(client, "process_cancel", **process)
        assert "notes burn" not in server.heard.text


async def test_a_goal_without_a_model_is_published_as_one_that_may_ask_when_its_tools_need_a_person(
    server: Running,
) -> None:
    async with server.client("http", "auto") as client:
        process = {"processId": (await call(client, "clean_room", where="the attic"))["processId"]}
        assert await call(client, "process_answer", **process, answer=True) == {"content": "burnt"}


async def test_a_goal_that_asks_in_an_action_and_never_said_so_is_told_how_to(server: Running) -> None:
    async with server.client("http", "auto") as client:
        with anyio.fail_after(60):
            result = await client.call_tool("dust", {"where": "the attic"})
        assert isinstance(result, CallToolResult)
        assert result.is_error
        assert "Export(long=True)" in str(result.content)
