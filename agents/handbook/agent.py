"""The agent: it searches the docs by code, and lets a model answer from them, with sources that code has checked."""

from pathlib import Path
from typing import Annotated, Final

from goalport import ActionContext, Ai, Export, Provided, UserInput, achieves_goal, action, agent
from goalport.errors import BadInput
from goalport.knowledge import (
    Chunk,
    DocumentFolder,
    DocumentIndex,
    Passage,
    ShownPassages,
    SimilarityResult,
    TextSimilaritySearchRequest,
    ToolishRag,
    TryHyDE,
    find_chunks,
)
from goalport.models import Templates

from .answers import DocsAnswer, DocsHits, DocsQuery, Draft, Hit, Source, Statement
from .citations import checked
from .wording import answer_in_markdown, hits_in_markdown

__all__ = ["Handbook"]

_PROMPTS: Final = Templates(Path(__file__).with_name("prompts"))
_ROOT: Final = Path(__file__).parents[2]
_PLACES: Final = ("README.md", "docs")
_SEARCH: Final = (
    "Search the docs of goalport, the Python server and library for typed agents over MCP: settings, commands,"
    " decorators, planning, waiting for people, models, stores. Returns passages, each with its document, section and"
    " range of characters. Needs no model. To get an answer in words, call ask_docs."
)
_ASK: Final = (
    "Ask how goalport works, how something is done with it, or what a setting does. A model answers from the docs"
    " alone. Each statement has its sources, which are checked; what the docs do not say is named. To read the"
    " passages yourself, call search_docs, which is faster and costs nothing."
)


@agent(description="Answers questions about goalport from its docs, with sources")
class Handbook:
    """Searches the docs below a folder, and asks a model that cites them."""

    def __init__(self, root: Path = _ROOT, places: tuple[str, ...] = _PLACES) -> None:
        self.docs = DocumentFolder(root, places)

    @achieves_goal(
        description="Search the docs of goalport",
        tags=["docs", "search"],
        examples=["Find what the docs say about retries."],
        export=Export(
            remote=True,
            name="search_docs",
            title="Search the docs",
            description=_SEARCH,
            starting_input_types=[DocsQuery],
            read_only=True,
            idempotent=True,
            open_world=False,
            long=False,
        ),
    )
    @action(read_only=True)
    async def search_docs(
        self, query: DocsQuery, context: ActionContext, index: Annotated[DocumentIndex, Provided]
    ) -> DocsHits:
        """Find the passages that fit best: by words and by meaning, or by words where there are no vectors."""
        await self.docs.take_in(index, context.progress)
        request = TextSimilaritySearchRequest(
            query=query.query, top_k=query.limit, filter=self.docs.filter, caller=context.caller
        )
        hits = [self._hit(each) for each in await find_chunks(index, request)]
        return DocsHits(content=hits_in_markdown(hits), query=query.query, hits=hits)

    @achieves_goal(
        description="Answer a question about goalport from its docs",
        tags=["docs", "questions"],
        examples=["How do I let a person approve a step?", "Which setting limits how many processes wait for people?"],
        export=Export(
            remote=True,
            name="ask_docs",
            title="Ask the docs",
            description=_ASK,
            starting_input_types=[UserInput],
            read_only=True,
            open_world=False,
        ),
    )
    @action(read_only=True)
    async def ask_docs(
        self, question: UserInput, context: ActionContext, ai: Ai, index: Annotated[DocumentIndex, Provided]
    ) -> DocsAnswer:
        """Let a model search and answer, and keep of its citations those that it was shown."""
        if not question.content.strip():
            raise BadInput("Ask a question about goalport: what came is empty.")
        await self.docs.take_in(index, context.progress)
        shown = ShownPassages()
        rag = ToolishRag(
            "docs", "The docs of goalport", index, hints=(TryHyDE(),), listener=shown, filter=self.docs.filter
        )
        reference = await rag.with_eager_search_about(question.content)
        prompt = _PROMPTS.render("ask", {"question": question.content})
        draft = await ai.with_auto_llm().with_references(reference).create_object(prompt, Draft)
        kept, dropped = checked(draft, shown)
        statements = [
            Statement(text=each.text, citations=[self._source(passage) for passage in passages])
            for each, passages in kept
        ]
        return DocsAnswer(
            content=answer_in_markdown(statements, draft.missing, dropped),
            question=question.content,
            answered=bool(statements),
            statements=statements,
            missing=draft.missing,
            dropped=dropped,
        )

    def _hit(self, result: SimilarityResult[Chunk]) -> Hit:
        chunk = result.match
        source = self._source(chunk)
        return Hit(**source.model_dump(), score=round(result.score, 4), excerpt=chunk.urtext)

    def _source(self, found: Chunk | Passage) -> Source:
        return Source(
            document=self.docs.name_of(found.uri),
            section=list(found.path),
            uri=found.uri,
            start=found.start,
            end=found.end,
        )
