"""What a provider of models was paid for is not paid again when the server is killed in the middle of a tool loop."""

import signal
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp_types import CallToolResult

from tests.providers import Providers
from tests.stories.servers import Running, running

ARCHIVISTS = """
import asyncio
from pathlib import Path

from pydantic import BaseModel
from goalport import Ai, Export, achieves_goal, action, agent, run_subagent, tool
from goalport.tools import Tool, with_confirmation

HERE = Path(__file__).parent

class Wish(BaseModel):
    content: str

class Notes(BaseModel):
    content: str

class Report(BaseModel):
    content: str

def note(words):
    with (HERE / "done.txt").open("a") as done:
        done.write(words + "\\n")

async def search(shelf: str) -> str:
    "Search a shelf."
    note(f"search {shelf}")
    while shelf == "cellar" and not (HERE / "open").exists():
        await asyncio.sleep(0.02)
    return f"Something lies in {shelf}."

async def burn(shelf: str) -> str:
    "Burn what lies in a shelf."
    note(f"burn {shelf}")
    return f"{shelf} is empty."

@agent(description="Searches an archive")
class Searcher:
    @achieves_goal(description="Notes")
    async def look(self, wish: Wish, ai: Ai) -> Notes:
        tools = [search, with_confirmation(Tool.of(burn), lambda given: f"May I burn {given['shelf']}?")]
        return Notes(content=await ai.with_tools(*tools).generate_text(f"Search for {wish.content}"))

@agent(description="Writes about an archive")
class Archivist:
    def __init__(self):
        self.searcher = Searcher()

    @achieves_goal(description="A report", export=Export(remote=True, name="report", wait_budget=0.3))
    async def report(self, wish: Wish, ai: Ai) -> Report:
        title = await ai.generate_text(f"Give a title to {wish.content}")
        notes = await run_subagent(self.searcher, Notes, wish)
        return Report(content=f"{title}: {notes.content}")

searcher = Searcher()
"""


async def call(client: Client, tool: str, **arguments: object) -> CallToolResult:
    with anyio.fail_after(60):
        return await client.call_tool(tool, arguments)


async def until_done(folder: Path, words: str) -> None:
    file = folder / "agents/done.txt"
    with anyio.fail_after(60):
        while not file.exists() or words not in file.read_text().splitlines():
            await anyio.sleep(0.02)


async def killed(server: Running) -> None:
    server.process.send_signal(signal.SIGKILL)
    await server.process.wait()


def asks_for(aimock: Providers, turn: int, tool: str, **arguments: str) -> None:
    at = {"userMessage": "Search for gold", "turnIndex": turn}
    aimock.answer(at, toolCalls=[{"name": tool, "arguments": arguments}])


async def test_a_provider_is_paid_once_for_each_reply_whenever_the_server_is_killed(
    aimock: Providers, tmp_path: Path
) -> None:
    aimock.answer("Give a title", content="Gold")
    asks_for(aimock, 0, "search", shelf="maps")
    asks_for(aimock, 1, "burn", shelf="letters")
    asks_for(aimock, 2, "search", shelf="cellar")
    aimock.answer({"userMessage": "Search for gold", "turnIndex": 3}, content="all is found")
    settings: dict[str, Any] = {"store": "sqlite"}
    keys = "".join(f"{name}={value}\n" for name, value in aimock.environment.items())
    model = '[models]\ndefault_llm = "openai:gpt-4.1-mini"\n'
    files = {"agents/archivists.py": ARCHIVISTS, ".env": keys, "server/settings.toml": model}
    async with running(tmp_path, files, **settings) as first, first.client("http", "legacy") as client:
        handle = (await call(client, "report", content="gold")).structured_content
        assert handle is not None
        process = {"processId": handle["processId"]}
        status = await call(client, "process_status", **process, waitSeconds=20)
        assert "burn" in str(status.content), status
        assert len(aimock.requests()) == 3
        await killed(first)
    async with running(tmp_path, {}, **settings) as second, second.client("http", "auto") as client:
        await call(client, "process_answer", **process, answer=True)
        await until_done(tmp_path, "search cellar")
        assert len(aimock.requests()) == 4
        await killed(second)
    (tmp_path / "agents/open").touch()
    async with running(tmp_path, {}, **settings) as third, third.client("http", "auto") as client:
        result = await call(client, "process_status", **process, waitSeconds=25)
    assert result.structured_content == {"content": "Gold: all is found"}
    assert len(aimock.requests()) == 5
    done = (tmp_path / "agents/done.txt").read_text().splitlines()
    assert done == ["search maps", "burn letters", "search cellar", "search cellar"]
