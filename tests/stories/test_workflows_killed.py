"""Workflows against a provider over HTTP: one path of each shape, and what was paid is not paid again after kill -9."""

import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult

from tests.providers import Providers
from tests.stories.servers import Running, running

FLOWS = """
import asyncio
from pathlib import Path

from pydantic import BaseModel
from goalport import ActionContext, Ai, Export, achieves_goal, agent
from goalport.workflow import (
    ConsensusBuilder, Feedback, RepeatUntil, RepeatUntilAcceptable, ScatterGatherBuilder, SimpleAgentBuilder,
)

HERE = Path(__file__).parent

class Wish(BaseModel):
    content: str

class Part(BaseModel):
    text: str

class Report(BaseModel):
    content: str

class Verdict(BaseModel):
    content: str

class Draft(BaseModel):
    content: str

class Essay(BaseModel):
    content: str

class Note(BaseModel):
    content: str

def published(name):
    return Export(remote=True, name=name, wait_budget=0.3)

def searching(shelf):
    async def search(wish: Wish, ai: Ai) -> Part:
        found = await ai.generate_text(f"Search {shelf} for {wish.content}")
        (HERE / f"searched-{shelf}").touch()
        while shelf == "cellar" and not (HERE / "open").exists():
            await asyncio.sleep(0.02)
        return Part(text=found)
    return search

async def merge(parts: list[Part], ai: Ai) -> Report:
    return Report(content=await ai.generate_text("Merge " + ", ".join(each.text for each in parts)))

async def merge_slowly(parts: list[Part], ai: Ai) -> Report:
    report = await merge(parts, ai)
    (HERE / "merged").touch()
    while not (HERE / "open").exists():
        await asyncio.sleep(0.02)
    return report

scatter = (
    ScatterGatherBuilder.returning(Report).from_elements(Part)
    .generated_by([searching(shelf) for shelf in ("maps", "letters", "cellar")]).consolidated_by(merge)
)
slow = (
    ScatterGatherBuilder.returning(Report).from_elements(Part)
    .generated_by([searching(shelf) for shelf in ("maps", "letters", "attic")]).consolidated_by(merge_slowly)
    .build_agent("Slow", "Searches shelves", export=published("slow"))
)
archive = scatter.build_agent("Archive", "Searches shelves", export=published("deployed"))

@agent(description="Searches shelves in an action")
class Archivist:
    @achieves_goal(description="A report", export=published("inside"))
    async def report(self, wish: Wish, ai: Ai, context: ActionContext) -> Report:
        await ai.generate_text(f"Give a title to {wish.content}")
        report = await scatter.as_sub_process(context)
        return Report(content=report.content)

async def judge(wish: Wish, ai: Ai) -> Verdict:
    return Verdict(content=await ai.generate_text(f"Judge {wish.content}"))

court = (
    ConsensusBuilder.returning(Verdict).sourced_from([judge, judge, judge])
    .with_consensus_by(lambda said: said[0])
    .build_agent("Court", "Judges", export=published("judge"))
)

async def draft(wish: Wish, ai: Ai) -> Draft:
    return Draft(content=await ai.generate_text(f"Draft {wish.content}"))

drafts = (
    RepeatUntil.returning(Draft).repeating(draft).until(lambda draft: "good" in draft.content)
    .build_agent("Drafts", "Drafts", export=published("draft"))
)

async def write(wish: Wish, feedback: Feedback | None, ai: Ai) -> Essay:
    return Essay(content=await ai.generate_text(f"Write on {wish.content}: {feedback.text if feedback else 'begin'}"))

async def evaluate(essay: Essay, ai: Ai) -> Feedback:
    return await ai.create_object(f"Evaluate {essay.content}", Feedback)

essays = (
    RepeatUntilAcceptable.returning(Essay).repeating(write).with_evaluator(evaluate)
    .build_agent("Essays", "Writes essays", export=published("essay"))
)

async def jot(wish: Wish, ai: Ai) -> Note:
    return Note(content=await ai.generate_text(f"Note {wish.content}"))

notes = SimpleAgentBuilder.returning(Note).running(jot).build_agent("Notes", "Notes", export=published("note"))
"""


async def call(client: Client, tool: str, **arguments: object) -> CallToolResult:
    with anyio.fail_after(60):
        return await client.call_tool(tool, arguments)


async def finished(client: Client, tool: str, **arguments: object) -> object:
    """The result of a goal, followed by its handle where it takes longer."""
    result = await call(client, tool, **arguments)
    if result.structured_content is not None and "processId" in result.structured_content:
        process_id = result.structured_content["processId"]
        result = await call(client, "process_status", processId=process_id, waitSeconds=25)
    return result.structured_content


def files(aimock: Providers) -> dict[str, str]:
    keys = "".join(f"{name}={value}\n" for name, value in aimock.environment.items())
    model = '[models]\ndefault_llm = "openai:gpt-4.1-mini"\n'
    return {"agents/flows.py": FLOWS, ".env": keys, "server/settings.toml": model}


async def killed(server: Running) -> None:
    server.process.send_signal(signal.SIGKILL)
    await server.process.wait()


async def until_there_are(folder: Path, pattern: str, files: int) -> None:
    with anyio.fail_after(60):
        while len(list(folder.glob(pattern))) < files:  # noqa: ASYNC240 - another program writes
            await anyio.sleep(0.02)


@pytest.mark.parametrize(
    ("goal", "until", "before", "after"),
    [("deployed", "searched-*", 3, 1), ("inside", "searched-*", 4, 1), ("slow", "merged", 4, 0)],
)
async def test_no_branch_is_paid_twice_when_the_server_is_killed(
    aimock: Providers, tmp_path: Path, goal: str, until: str, before: int, after: int
) -> None:
    aimock.answer("Give a title", content="Gold")
    for shelf in ("maps", "letters", "cellar", "attic"):
        aimock.answer(f"Search {shelf}", content=f"gold in {shelf}")
    aimock.answer("Merge gold in maps, gold in letters, gold in", content="all is found")
    settings: dict[str, Any] = {"store": "sqlite"}
    async with running(tmp_path, files(aimock), **settings) as first, first.client("http", "legacy") as client:
        handle = (await call(client, goal, content="gold")).structured_content
        assert handle is not None
        await until_there_are(tmp_path / "agents", until, 1 if until == "merged" else 3)
        assert len(aimock.requests()) == before
        await killed(first)
    (tmp_path / "agents/open").touch()
    async with running(tmp_path, {}, **settings) as second, second.client("http", "auto") as client:
        result = await call(client, "process_status", processId=handle["processId"], waitSeconds=25)
    assert result.structured_content == {"content": "all is found"}
    assert len(aimock.requests()) == before + after, "only the merging is asked for after the restart"


async def test_each_shape_reaches_its_goal_through_a_server_and_a_provider(aimock: Providers, tmp_path: Path) -> None:
    aimock.answer("Note gold", content="noted")
    aimock.answer("Judge gold", content="guilty")
    aimock.answer({"userMessage": "Draft gold", "sequenceIndex": 0}, content="bad")
    aimock.answer({"userMessage": "Draft gold", "sequenceIndex": 1}, content="a good one")
    aimock.answer("Write on gold: begin", content="thin")
    aimock.answer("Write on gold: Add sources", content="rich")
    aimock.answer("Evaluate thin", content={"score": 0.3, "text": "Add sources"})
    aimock.answer("Evaluate rich", content={"score": 0.95, "text": "Good"})
    wanted = {"note": "noted", "judge": "guilty", "draft": "a good one", "essay": "rich"}
    async with running(tmp_path, files(aimock)) as server, server.client("http", "auto") as client:
        for goal, content in wanted.items():
            assert await finished(client, goal, content="gold") == {"content": content}
    assert len(aimock.requests()) == 1 + 3 + 2 + 4
