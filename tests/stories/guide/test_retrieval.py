"""Documents that a model searches (section 3.12) and contributors of one's own (3.10.3), as the guide shows them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from goalport import ActionContext, AgentPlatform, UserInput, achieves_goal, action, agent
from goalport.knowledge import (
    Chunk,
    Chunker,
    ChunkerConfig,
    ContentRoot,
    DocumentIngestion,
    Equal,
    ExpansionMethod,
    LeafSection,
    RefreshPolicy,
    ResultsEvent,
    SimilarityResult,
    SqliteDocumentStore,
    TextSimilaritySearchRequest,
    ToolishRag,
    TryHyDE,
    VectorSearch,
)
from goalport.models import PromptContributor, SystemMessage, Templates, UserMessage
from goalport.testing import ScriptedModel, calls_tool
from tests.rooms.rag.toy_documents import Hashing

LAMP: Final = """\
---
language: en
---
# The lamp

It turns all night.

## Care

Clean the glass every day with vinegar. An alarm is written ERR-4711.

## Oil

Whale oil burns without smoke.
"""
LAMPE: Final = "---\nlanguage: de\n---\n# Die Lampe\n\nThe glass is called Glas.\n"


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "lamp.md").write_text(LAMP)
    (folder / "lampe.md").write_text(LAMPE)
    return folder


async def library(documents: Path, *, embeddings: bool = False) -> SqliteDocumentStore:
    store = SqliteDocumentStore(embeddings=Hashing() if embeddings else None)
    async with DocumentIngestion(store) as ingestion:
        await ingestion.ingest(documents)
    return store


def tool_names(rag: ToolishRag) -> list[str]:
    return [each.name for each in rag.tools()]


def system_prompt(model: ScriptedModel) -> str:
    first = model.calls[0].messages[0]
    assert isinstance(first, SystemMessage)
    return first.content


class MyVectorOnlyStore:
    """Section 3.12.9; and of 3.12.8 the adapter, which asks a database of vectors that somebody else has."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float, int]] = []

    async def vector_search(
        self, request: TextSimilaritySearchRequest, kind: type[Chunk], /
    ) -> Sequence[SimilarityResult[Chunk]]:
        self.asked.append((request.query, request.similarity_threshold, request.top_k))
        return [SimilarityResult(replace(CHUNK, text="Vinegar cleans glass."), 0.8)]


class MyFullTextStore(MyVectorOnlyStore):
    lucene_syntax_notes = "Full Lucene syntax supported"

    async def text_search(
        self, request: TextSimilaritySearchRequest, kind: type[Chunk], /
    ) -> Sequence[SimilarityResult[Chunk]]:
        return []


CHUNK: Final = Chunk(
    id="1", text="", urtext="", parent_id="2", root_id="3", uri="urn:vectors", path=(), number=0, start=0, end=0
)


@agent(description="Answers from sources")
@dataclass
class ChatActions:
    """Section 3.12.6: a `ToolishRag` that is made once and used in each call, with a template as the system prompt."""

    toolish_rag: ToolishRag

    @achieves_goal(description="The question is answered")
    @action
    async def respond(self, question: UserInput, context: ActionContext) -> str:
        ai = context.ai.with_references(self.toolish_rag).with_template("ragbot")
        reply = await ai.respond_with_system_prompt([UserMessage(question.content)], {"voice": "a sailor"})
        return reply.content


async def test_an_action_answers_from_what_its_model_searches(documents: Path, tmp_path: Path) -> None:
    (tmp_path / "ragbot.jinja").write_text("You speak as {{ voice }}.")
    heard: list[ResultsEvent] = []

    class Collecting:
        def on_results(self, event: ResultsEvent, /) -> None:
            heard.append(event)

    model = ScriptedModel([
        calls_tool("sources_textSearch", query="cleaning glass", topK=3),
        calls_tool("sources_textSearch", query="+vinegar -smoke", topK=1),
        "Every day, with vinegar.",
    ])  # fmt: skip
    rag = ToolishRag("sources", "Sources for answering user questions", await library(documents), listener=Collecting())
    platform = AgentPlatform([ChatActions(rag)], models=model, templates=Templates(tmp_path))
    process = await platform.run("ChatActions", UserInput("How is the glass cleaned?"))
    assert process.result_of_type(str) == "Every day, with vinegar."
    assert [(each.tool, each.query, len(each.passages)) for each in heard] == [
        ("textSearch", "cleaning glass", 2),
        ("textSearch", "+vinegar -smoke", 1),
    ]
    assert heard[1].passages[0].path == ("The lamp", "Care")
    assert "You speak as a sailor." in system_prompt(model)
    assert "Sources for answering user questions" in system_prompt(model)


async def test_the_facade_offers_only_what_a_store_of_ones_own_can_do() -> None:
    vectors = MyVectorOnlyStore()
    rag = ToolishRag("vectors", "Vectors", vectors)
    assert tool_names(rag) == ["vectorSearch"]
    shown = await rag.tools()[0].call({"query": "glass", "topK": 4, "threshold": 0.5})
    assert "Vinegar cleans glass." in shown.text
    assert vectors.asked == [("glass", 0.5, 4)]
    both = ToolishRag("texts", "Texts", MyFullTextStore())
    assert tool_names(both) == ["vectorSearch", "textSearch"]
    assert "Full Lucene syntax supported" in both.tools()[1].description


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("+glass -vinegar", [("Die Lampe",)]),
        ('"whale oil"', [("The lamp", "Oil")]),
        ("vineg*", [("The lamp", "Care")]),
        ("smoek~", [("The lamp", "Oil")]),
    ],
)
async def test_a_query_has_the_syntax_of_the_guide(documents: Path, query: str, found: list[tuple[str, ...]]) -> None:
    store = await library(documents)
    results = await store.text_search(TextSimilaritySearchRequest(query=query), Chunk)
    assert [each.match.path for each in results] == found


async def test_patterns_and_what_is_around_a_result_are_found(documents: Path) -> None:
    store = await library(documents)
    (alarm,) = await store.regex_search(r"ERR-\d{4}", 5, Chunk)
    neighbours = await store.expand_result(alarm.match.id, ExpansionMethod.SEQUENCE, 1)
    assert [each.path[-1] for each in neighbours if isinstance(each, Chunk)] == ["The lamp", "Care", "Oil"]
    (section,) = await store.expand_result(alarm.match.id, ExpansionMethod.ZOOM_OUT, 1)
    assert isinstance(section, LeafSection)
    assert section.title == "Care"
    (document,) = await store.expand_result(section.id, ExpansionMethod.ZOOM_OUT, 1)
    assert isinstance(document, ContentRoot)
    assert document.title == "The lamp"


async def test_a_document_is_taken_in_unless_it_is_there(documents: Path, tmp_path: Path) -> None:
    """The shell method of section 3.12.7, with the chunks that its configuration asks for, in a file (3.12.8)."""
    chunker = Chunker(ChunkerConfig(max_chunk_size=800, overlap_size=100))
    async with SqliteDocumentStore(tmp_path / "index" / "docs.db", embeddings=Hashing()) as store:

        async def ingest(location: str) -> str:
            async with DocumentIngestion(store, chunker=chunker, refresh=RefreshPolicy.never()) as ingestion:
                ingested = await ingestion.ingest_uri_if_needed(location)
            if ingested is None:
                return "Document already exists, no ingestion performed."
            return f"Ingested document with ID: {ingested}"

        (documents / "long.md").write_text("The sea is wide. " * 100)
        place = str(documents / "long.md")
        assert (await ingest(place)).startswith("Ingested document with ID: ")
        assert await ingest(place) == "Document already exists, no ingestion performed."
        assert await ingest(Path(place).as_uri()) == "Document already exists, no ingestion performed."
        stored = await store.document(Path(place).as_uri())
        assert stored is not None
        assert stored.chunks == 3
        assert store.can(VectorSearch)


@dataclass
class WithLanguage:
    """A chunk transformer: what is searched begins with the language of the document."""

    seen: list[str] = field(default_factory=list[str])

    async def transform(self, chunk: Chunk, leaf: LeafSection) -> Chunk:
        self.seen.append(leaf.title)
        return replace(chunk, text=f"In {'German' if chunk.metadata['language'] == 'de' else 'English'}: {chunk.text}")


async def test_transformed_chunks_are_found_and_keep_what_the_document_says(documents: Path) -> None:
    transformer = WithLanguage()
    async with SqliteDocumentStore() as store:
        async with DocumentIngestion(store, chunker=Chunker(transformers=[transformer])) as ingestion:
            await ingestion.ingest(documents)
        (found,) = await store.text_search(TextSimilaritySearchRequest(query="German"), Chunk)
    assert found.match.text.startswith("In German: Die Lampe")
    assert found.match.urtext == "The glass is called Glas."
    assert sorted(transformer.seen) == ["Care", "Die Lampe", "Oil", "The lamp"]


async def test_metadata_limit_what_a_model_finds(documents: Path) -> None:
    rag = ToolishRag("german", "German sources", await library(documents), filter=Equal("language", "de"))
    (search,) = [each for each in rag.tools() if each.name == "textSearch"]
    found = (await search.call({"query": "glass", "topK": 10})).text
    assert "Glas." in found
    assert "vinegar" not in found


async def test_hints_ask_for_hypothetical_documents_where_there_are_vectors(documents: Path) -> None:
    hints = (TryHyDE(words=30),)
    with_vectors = ToolishRag("s", "S", await library(documents, embeddings=True), goal="Find the rule", hints=hints)
    assert "in about 30 words" in with_vectors.notes()
    assert "Goal: Find the rule" in with_vectors.notes()
    assert "in about 30 words" not in ToolishRag("s", "S", await library(documents), hints=hints).notes()


@dataclass
class CustomSystemPrompt:
    system_name: str

    def contribution(self) -> str:
        return f"System: {self.system_name}"


@dataclass
class ConditionalPrompt:
    condition: bool
    true_content: str
    false_content: str

    def contribution(self) -> str:
        return self.true_content if self.condition else self.false_content


async def test_contributors_of_ones_own_stand_in_the_system_prompt() -> None:
    closed = ConditionalPrompt(condition=True, true_content="We are closed.", false_content="We are open.")
    contributors: list[PromptContributor] = [CustomSystemPrompt("Lighthouse"), closed]
    model = ScriptedModel(["Come tomorrow.", "Come in."])
    ai = AgentPlatform(models=model).ai.with_prompt_contributors(*contributors)
    await ai.generate_text("May I come?")
    closed.condition = False
    await ai.generate_text("May I come?")
    said = [str(call.messages[0].content).splitlines() for call in model.calls]
    assert [[line for line in lines if line] for lines in said] == [
        ["System: Lighthouse", "We are closed."],
        ["System: Lighthouse", "We are open."],
    ]
