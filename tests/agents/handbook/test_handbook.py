"""Answers from docs through the official client: the files and the index are real, the models are scripted."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult

from agents.handbook.agent import Handbook
from agents.handbook.answers import DocsQuery
from goalport import UserInput
from goalport.events import Event, SourcesShown
from goalport.knowledge import (
    Chunk,
    DocumentIngestion,
    SqliteDocumentStore,
    TableEmbeddings,
    TextSimilaritySearchRequest,
)
from goalport.models import ModelCall, Models, ModelsSettings
from goalport.testing import McpClient, ScriptedModel, calls_tool, plan_of
from tests.providers import Providers

LAMP = "# The lamp\n\nIt turns all night.\n\n## Care\n\nClean the glass every day with vinegar.\n"
QUESTION = {"content": "How is the glass cleaned?"}
_ID = re.compile(r'<data source="[^"]*" id="(\w+)" section="([^"]*)"')


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "light house"
    (folder / "docs").mkdir(parents=True)
    (folder / "README.md").write_text("# Lighthouse\n\nThe docs are in docs.\n")
    (folder / "docs" / "lamp.md").write_text(LAMP)
    (folder / "notes.md").write_text("# Notes\n\nThe glass is dirty.\n")
    return folder


def structured(result: object) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content


async def called(mcp_client: McpClient, handbook: Handbook, tool: str, *calls: dict[str, Any], **setup: Any) -> Any:
    """The structured results of a tool that is called once after the other."""
    with anyio.fail_after(60):
        async with mcp_client(handbook, **setup) as client:
            return [structured(await client.call_tool(tool, each)) for each in calls]


def places(hits: dict[str, Any]) -> list[str]:
    return [each["document"] for each in hits["hits"]]


def shown_ids(call: ModelCall) -> dict[str, str]:
    """The ids of the passages that a model was shown, by the last title of their section."""
    text = "\n".join(str(each.content) for each in call.messages)
    return {section.rpartition(" > ")[2]: each for each, section in _ID.findall(text)}


def drafting(*statements: tuple[str, Sequence[str]], missing: str = "") -> Callable[[ModelCall], object]:
    """A reply whose statements cite sections that were shown, by their titles, or what is no section, as it is."""

    def reply(call: ModelCall) -> object:
        ids = shown_ids(call)
        said = [{"text": text, "passages": [ids.get(each, each) for each in cited]} for text, cited in statements]
        return {"statements": said, "missing": missing}

    return reply


async def test_the_docs_of_goalport_are_searched_without_a_model(mcp_client: McpClient) -> None:
    (found,) = await called(mcp_client, Handbook(), "search_docs", {"query": "coming from CrewAI", "limit": 3})
    assert len(found["hits"]) == 3
    best = found["hits"][0]
    assert (best["document"], best["section"]) == ("docs/migrating.md", ["Coming from another library", "CrewAI"])
    path = Path(__file__).parents[3] / best["document"]
    assert best["uri"] == path.as_uri()
    assert path.read_text(encoding="utf-8")[best["start"] : best["end"]] == best["excerpt"]
    assert found["content"].startswith("1. docs/migrating.md: Coming from another library > CrewAI (characters ")


async def test_what_changed_is_read_again_and_only_the_docs_are_searched(mcp_client: McpClient, root: Path) -> None:
    index = SqliteDocumentStore()
    async with DocumentIngestion(index) as ingestion:
        await ingestion.ingest(root / "notes.md")
    async with mcp_client(Handbook(root), documents=index) as client:

        async def search(query: str) -> list[str]:
            return places(structured(await client.call_tool("search_docs", {"query": query})))

        assert await search("glass") == ["docs/lamp.md"]
        (root / "docs" / "lamp.md").write_text("# The lamp\n\nIt burns oil.\n")
        (root / "docs" / "mirror.md").write_text("# The mirror\n\nIt is made of glass.\n")
        assert await search("glass") == ["docs/mirror.md"]
        (root / "docs" / "mirror.md").unlink()
        assert await search("glass") == []
        empty = structured(await client.call_tool("search_docs", {"query": "glass"}))
        assert empty["content"] == "Nothing was found in the docs. Try other words."
        assert await search("oil") == ["docs/lamp.md"]


async def test_calls_at_the_same_time_take_the_docs_in_once(mcp_client: McpClient, root: Path) -> None:
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with mcp_client(Handbook(root)) as client:

        async def search() -> None:
            result = await client.call_tool("search_docs", {"query": "glass"}, progress_callback=hear)
            assert places(structured(result)) == ["docs/lamp.md"]

        with anyio.fail_after(60):
            async with anyio.create_task_group() as both:
                both.start_soon(search)
                both.start_soon(search)
    assert [each for each in told if "Docs:" in each] == ["Docs: 2 added"]


async def test_with_vectors_passages_are_found_by_meaning_too(mcp_client: McpClient, root: Path) -> None:
    def vectors(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0] if re.search("vinegar|acid", each) else [0.0, 1.0] for each in texts]

    index = SqliteDocumentStore(embeddings=TableEmbeddings("acids", vectors))
    (found,) = await called(mcp_client, Handbook(root), "search_docs", {"query": "acid", "limit": 1}, documents=index)
    assert [each["section"][-1] for each in found["hits"]] == ["Care"]


async def test_an_answer_cites_what_the_model_was_shown(mcp_client: McpClient, root: Path) -> None:
    shown: list[SourcesShown] = []

    class Listening:
        def on_event(self, event: Event, /) -> None:
            if isinstance(event, SourcesShown):
                shown.append(event)

    model = ScriptedModel([
        calls_tool("docs_textSearch", query="turns night", topK=1),
        drafting(("Clean it with vinegar.", ["Care"]), ("It turns all night.", ["The lamp", "Care"])),
    ])  # fmt: skip
    (answer,) = await called(mcp_client, Handbook(root), "ask_docs", QUESTION, models=model, listeners=[Listening()])
    assert answer["answered"]
    assert (answer["missing"], answer["dropped"]) == ("", [])
    assert [each["text"] for each in answer["statements"]] == ["Clean it with vinegar.", "It turns all night."]
    (care,) = answer["statements"][0]["citations"]
    assert (care["document"], care["section"]) == ("docs/lamp.md", ["The lamp", "Care"])
    assert LAMP[care["start"] : care["end"]] == "Clean the glass every day with vinegar."
    assert [each.tool for each in shown] == ["eagerSearch", "textSearch"]
    ranges = {(each["uri"], each["start"], each["end"]) for event in shown for each in event.sources}
    cited = [each for statement in answer["statements"] for each in statement["citations"]]
    assert {(each["uri"], each["start"], each["end"]) for each in cited} <= ranges
    assert answer["content"] == (
        "Clean it with vinegar. [1]\n\nIt turns all night. [2][1]\n\nSources:\n\n"
        f"1. docs/lamp.md: The lamp > Care (characters {care['start']} to {care['end']})\n"
        "2. docs/lamp.md: The lamp (characters 12 to 31)"
    )


async def test_invented_citations_are_dropped_and_said(mcp_client: McpClient, root: Path) -> None:
    model = ScriptedModel([
        drafting(("Vinegar.", ["Care", "0123456789abcdef"]), ("Use *soap*.", ["docs/soap.md"]), ("Or sand.", []))
    ])  # fmt: skip
    (answer,) = await called(mcp_client, Handbook(root), "ask_docs", QUESTION, models=model)
    assert [each["text"] for each in answer["statements"]] == ["Vinegar."]
    assert answer["dropped"] == [
        "A citation of '0123456789abcdef': no such passage was shown.",
        "A citation of 'docs/soap.md': no such passage was shown.",
        "A statement without a source: Use *soap*.",
        "A statement without a source: Or sand.",
    ]
    assert answer["content"].endswith(
        "*Dropped:* A statement without a source: Use \\*soap\\*.\n\n*Dropped:* A statement without a source: Or sand."
    )


async def test_what_is_no_doc_is_neither_shown_nor_read(mcp_client: McpClient, root: Path) -> None:
    index = SqliteDocumentStore()
    async with DocumentIngestion(index) as ingestion:
        await ingestion.ingest(root / "notes.md")
    (notes,) = await index.text_search(TextSimilaritySearchRequest(query="dirty"), Chunk)
    model = ScriptedModel([
        calls_tool("docs_textSearch", query="dirty", topK=5),
        calls_tool("docs_broadenChunk", chunkId=notes.match.id),
        calls_tool("docs_readSection", id=notes.match.parent_id),
        drafting(missing="How dirty it is."),
    ])  # fmt: skip
    (answer,) = await called(mcp_client, Handbook(root), "ask_docs", QUESTION, models=model, documents=index)
    assert not any("is dirty" in str(each.content) for each in model.calls[-1].messages)
    assert not answer["answered"]


async def test_what_the_docs_do_not_say_is_an_answer(mcp_client: McpClient, root: Path) -> None:
    model = ScriptedModel([drafting(missing="Who built the [tower].")])
    (answer,) = await called(mcp_client, Handbook(root), "ask_docs", {"content": "Who built the tower?"}, models=model)
    assert not answer["answered"]
    assert answer["statements"] == []
    assert answer["content"] == "The docs do not say it.\n\n*Not in the docs:* Who built the \\[tower\\]."


async def test_a_provider_is_asked_over_http(mcp_client: McpClient, aimock: Providers, root: Path) -> None:
    index = SqliteDocumentStore()
    async with DocumentIngestion(index) as ingestion:
        await ingestion.ingest(root / "docs")
    (care,) = await index.text_search(TextSimilaritySearchRequest(query="vinegar"), Chunk)
    draft = {"statements": [{"text": "With vinegar.", "passages": [care.match.id]}], "missing": ""}
    search = {"name": "docs_textSearch", "arguments": {"query": "+vinegar", "topK": 3}}
    aimock.answer({"hasToolResult": True}, content=draft)
    aimock.answer(toolCalls=[search])
    models = Models(ModelsSettings(default_llm="openai:gpt-4.1-mini"), environment=aimock.environment)
    (answer,) = await called(mcp_client, Handbook(root), "ask_docs", QUESTION, models=models, documents=index)
    await models.aclose()
    assert answer["content"].startswith("With vinegar. [1]\n\nSources:\n\n1. docs/lamp.md: The lamp > Care")
    assert len(aimock.requests()) == 2


async def test_docs_that_are_not_there_are_said_to_be_missing(mcp_client: McpClient, tmp_path: Path) -> None:
    async with mcp_client(Handbook(tmp_path, ("docs",))) as client:
        result = await client.call_tool("search_docs", {"query": "glass"})
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert f"{tmp_path / 'docs'}" in str(result.content)


async def test_an_empty_question_asks_no_model(mcp_client: McpClient, root: Path) -> None:
    model = ScriptedModel([drafting()])
    async with mcp_client(Handbook(root), models=model) as client:
        result = await client.call_tool("ask_docs", {"content": " "})
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert "Ask a question about goalport" in str(result.content)
    assert model.calls == []


async def test_both_goals_are_published_as_reading_only(mcp_client: McpClient, root: Path) -> None:
    async with mcp_client(Handbook(root)) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        prompts = [each.name for each in (await client.list_prompts()).prompts]
    for name in ("search_docs", "ask_docs"):
        annotations = tools[name].annotations
        assert annotations is not None
        assert (annotations.read_only_hint, annotations.open_world_hint) == (True, False)
        assert tools[name].output_schema is not None
        assert any(each.endswith(name) for each in prompts)
    assert "checked" in (tools["ask_docs"].description or "")


def test_each_goal_takes_one_step() -> None:
    assert plan_of(Handbook(), given=[DocsQuery], goal="search_docs") == ["search_docs"]
    assert plan_of(Handbook(), given=[UserInput], goal="ask_docs") == ["ask_docs"]
