"""Exported tools that ask models, people and other agents: each call is a process, as that of a goal is."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitRequestParams, ElicitResult, TextContent

from tests.programs import ran
from tests.stories.servers import Running, running, workspace

TOOLS = """
import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from goalport import ActionContext, AgentPlatform, Ai, OperationContext, Provided, run_subagent, tool
from goalport.runtime import AgenticTool
from goalport.runtime import agent_tool
from goalport.workspace.settings import Settings
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import McpToolExport, Parameter, Tool, with_confirmation
from goalport_workspace.agents.poets import Poem, Poet, Theme

DONE = Path(__file__).with_name("done.txt")


def says(call):
    asked = call.messages[-1].content
    if any("weather" in str(each.content) for each in call.messages):
        return asked if asked.startswith("rain") else calls_tool("look_up", city="Oslo")
    return f"In short: {asked}"


model = ScriptedModel([says] * 50)


@dataclass
class Summary:
    text: str
    words: int


@tool(export=True, read_only=True)
async def summarize(text: str, ai: Ai, context: ActionContext, words: int = 3) -> Summary:
    '''Sum up a text.

    Args:
        text: What is to be summed up.
    '''
    context.progress("reading the text")
    return Summary(await ai.generate_text(text), words)


@tool(export=True)
async def pay(amount: int, context: ActionContext) -> str | None:
    '''Pay an amount, if a person agrees.'''
    return "paid" if await context.ask(f"Pay {amount}?", bool) else None


@tool(export=True)
def served_by(platform: AgentPlatform, settings: Annotated[Settings, Provided]) -> dict[str, str]:
    '''Say who serves this.'''
    return {"name": settings.name, "agents": ", ".join(each.name for each in platform.agents)}


async def write(topic: str) -> Poem:
    return await run_subagent(Poet(), Poem, Theme(topic))


@tool(export=True)
async def rhyme(topic: str) -> Poem:
    '''Write a poem.'''
    return await write(topic)


@tool(export=True)
async def copy(times: int, context: OperationContext) -> str:
    '''Copy what is asked for.'''
    return "copied " * times


@tool(export=True)
async def squander(context: ActionContext, ai: Ai) -> str:
    '''Spend all that there is.'''
    context.spend(cost=5.0)
    return await ai.generate_text("more")


@tool(export=True)
async def fail(ai: Ai) -> str:
    '''Fail.'''
    raise ValueError("the secret plans are gone")


@tool(export=True)
async def forge(name: str, ai: Ai, context: ActionContext) -> str:
    '''Make a sword.'''
    words = await ai.generate_text(name)
    with DONE.open("a") as done:
        done.write(f"forge {context.key}\\n")
    while not DONE.with_name("hot").exists():
        await asyncio.sleep(0.02)
    return words


@tool
def look_up(city: str) -> str:
    '''The weather in a city.'''
    return f"rain in {city}"


@tool
def burn(what: str) -> str:
    '''Burn something.'''
    return f"{what} is ash"


weather = McpToolExport.from_tool_objects(
    [
        AgenticTool("forecast", "Tells the weather").with_parameters(Parameter("question")).with_tools(look_up),
        agent_tool(Poet()),
        with_confirmation(Tool.of(burn), lambda given: f"Burn {given['what']}?"),
    ]
)
"""
POETS = """
from dataclasses import dataclass

from goalport import achieves_goal, action, agent


@dataclass(frozen=True)
class Theme:
    topic: str


@dataclass(frozen=True)
class Poem:
    content: str


@agent(description="Writes poems")
class Poet:
    @achieves_goal(description="A poem")
    @action
    async def write(self, theme: Theme) -> Poem:
        return Poem(f"O {theme.topic}!")
"""
LEDGERS = """
from goalport import Ai, McpToolExport, tool


class Book:
    @tool(export=True)
    def entries(self) -> int:
        '''Count the entries.'''
        raise NotImplementedError


class Ledger(Book):
    def __init__(self, year: int) -> None:
        self.year = year

    def entries(self) -> int:
        '''Count the entries of a year.'''
        return self.year

    @tool(export=True)
    async def audit(self, ai: Ai) -> str:
        '''Audit a year.'''
        return await ai.generate_text(str(self.year))

    @tool
    def shred(self) -> str:
        '''Not for clients.'''
        return "ash"


ledger = Ledger(1999)
same = McpToolExport.from_tool_object(ledger, filter=lambda name: name == "entries")
"""
FILES = {"tools/helpful.py": TOOLS, "tools/ledgers.py": LEDGERS, "agents/poets.py": POETS}


async def agrees(_: ClientRequestContext, asked: ElicitRequestParams) -> ElicitResult:
    assert isinstance(asked, ElicitRequestFormParams)
    return ElicitResult(action="accept", content=dict.fromkeys(asked.requested_schema["properties"], True))


def text_of(result: CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    with anyio.fail_after(60):
        return await client.call_tool(tool, arguments)


async def test_a_tool_that_asks_a_model_tells_its_progress_and_its_cost(server: Running) -> None:
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or f"{progress} of {total}")

    async with server.client("http", "auto") as client:
        listed = next(each for each in (await client.list_tools()).tools if each.name == "summarize")
        result = await client.call_tool("summarize", {"text": "War and Peace"}, progress_callback=hear)
        refused = await call(client, "summarize", words="many")
    assert listed.input_schema["required"] == ["text"]
    assert listed.input_schema["properties"]["text"]["description"] == "What is to be summed up."
    assert set(listed.input_schema["properties"]) == {"text", "words"}
    assert listed.annotations is not None
    assert listed.annotations.read_only_hint
    assert result.structured_content == {"text": "In short: War and Peace", "words": 3}
    assert result.meta is not None
    assert result.meta["goalport/cost"]["modelCalls"] == 1
    assert any("reading the text" in each for each in heard)
    assert refused.is_error
    assert "text: required, but missing" in text_of(refused)


async def test_its_questions_are_asked_as_those_of_a_goal(server: Running) -> None:
    async with server.client("http", "auto", elicitation_callback=agrees) as client:
        assert (await call(client, "pay", amount=3)).structured_content == {"result": "paid"}
        assert text_of(await call(client, "burn", what="paper")) == "paper is ash"
    async with server.client("http", "legacy") as client:
        handle = (await call(client, "pay", amount=4)).structured_content
        assert handle is not None
        assert handle["questions"][0]["message"] == "Pay 4?"
        answered = await call(client, "process_answer", processId=handle["processId"], answer=False)
        assert answered.structured_content == {"result": None}


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("forecast", {"question": "How is the weather in Oslo?"}, "rain in Oslo"),
        ("poet", {"topic": "moon"}, '{"content":"O moon!"}'),
        ("rhyme", {"topic": "sun"}, '{"content":"O sun!"}'),
        ("served_by", {}, '{"name":"goalport","agents":"Poet"}'),
    ],
)
async def test_it_may_be_an_agentic_tool_run_an_agent_or_take_services(
    server: Running, tool: str, arguments: dict[str, Any], expected: str
) -> None:
    async with server.client("http", "auto") as client:
        result = await call(client, tool, **arguments)
    assert text_of(result) == expected
    assert not result.is_error
    assert result.meta is not None
    assert result.meta["goalport/actions"] == 1


async def test_a_large_result_is_read_in_pages(server: Running) -> None:
    async with server.client("http", "auto") as client:
        large = (await call(client, "copy", times=200_000)).structured_content
        assert large is not None
        page = text_of(await call(client, "process_result", processId=large["processId"]))
    assert large["pages"] > 1
    assert '"result": "copied copied ' in page


async def test_marked_methods_of_an_object_at_module_level_are_published(server: Running, tmp_path: Path) -> None:
    async with server.client("http", "auto") as client:
        tools = {each.name: each.description for each in (await client.list_tools()).tools}
        assert tools["entries"] == "Count the entries of a year."
        assert "shred" not in tools
        assert (await call(client, "entries")).structured_content == {"result": 1999}
        assert (await call(client, "audit")).structured_content == {"result": "In short: 1999"}
    twice = {"tools/ledgers.py": LEDGERS + "other = Ledger(2000)"}
    command = ["check", "--workspace", str(workspace(tmp_path, twice))]
    checked = await run_sync(ran, command, {"HOME": str(tmp_path)})
    assert "ledgers.py:20: several exported tools are called 'audit'" in checked.stdout


async def test_it_has_a_budget_and_its_failures_are_told_as_those_of_goals(server: Running) -> None:
    async with server.client("http", "auto") as client:
        spent, failed = await call(client, "squander"), await call(client, "fail")
    assert spent.is_error
    assert "ended before it was done" in text_of(spent)
    assert "2.00 USD" in text_of(spent)
    assert failed.is_error
    assert "ValueError" in text_of(failed)
    assert "secret plans" not in text_of(failed)


async def test_a_call_goes_on_after_a_crash_and_can_be_cancelled(tmp_path: Path) -> None:
    done = tmp_path / "tools" / "done.txt"
    keys: Any = {"goalport/idempotencyKey": "k"}
    async with running(tmp_path, FILES, store="sqlite") as first, anyio.create_task_group() as calls:
        calls.start_soon(_call_until_gone, first, keys)
        await _lines(done, 1)
        first.process.kill()
        await first.process.wait()
    async with running(tmp_path, {}, store="sqlite") as second, second.client("http", "auto") as client:
        assert len(set(await _lines(done, 2))) == 1
        (tmp_path / "tools" / "hot").touch()
        result = await client.call_tool("forge", {"name": "Excalibur"}, meta=keys)
        assert result.structured_content == {"result": "In short: Excalibur"}
        (tmp_path / "tools" / "hot").unlink()
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call_tool, "forge", {"name": "Durendal"})
            await _lines(done, 3)
            calls.cancel_scope.cancel()
        await second.heard.until("forge killed")


async def _call_until_gone(server: Running, meta: Any) -> None:
    with suppress(Exception):  # the server is killed meanwhile
        async with server.client("http", "auto") as client:
            await client.call_tool("forge", {"name": "Excalibur"}, meta=meta)


async def _lines(path: Path, count: int) -> list[str]:
    with anyio.fail_after(60):
        while len(found := _lines_of(path)) < count:
            await anyio.sleep(0.01)
    return found


def _lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def test_check_says_what_they_are_and_that_their_model_is_not_ready(tmp_path: Path) -> None:
    files = {**FILES, "tools/helpful.py": re.sub(r"(?m)^model = .*", "", TOOLS)}
    command = ["check", "--workspace", str(workspace(tmp_path, files))]
    said = (await run_sync(ran, command, {"PATH": "", "HOME": str(tmp_path)})).stdout
    assert "not ready" in said
    assert "tools.summarize" in said
    assert "tools.pay" not in said
