"""The chatbot. Each message has one answer: that of the action that is worth most, by what the message asks for.

A question is answered by a model that searches the docs, and, where no model can be asked or the model fails, by the
passages themselves. The costs are computed for each message from its words, which takes no model.
"""

from pathlib import Path
from typing import Annotated, Final

from anyio import to_thread

from goalport import ActionContext, Ai, Provided, action, condition, cost
from goalport.chat import Conversation, chatbot
from goalport.errors import Declined, ModelNotReady
from goalport.knowledge import (
    Chunk,
    DocumentFolder,
    DocumentIndex,
    SearchLimits,
    ShownPassages,
    TextSimilaritySearchRequest,
    ToolishRag,
    find_chunks,
)
from goalport.models import LlmOptions, Models, Templates, UserMessage

from .notes import Notes
from .reading import Reading
from .requests import asks_for_help, asks_for_steps, proposed
from .sources import with_sources
from .wording import GREETING, MODEL_FAILED, WITHOUT_MODEL, found_in_docs

__all__ = ["Guide"]

_PROMPTS: Final = Templates(Path(__file__).with_name("prompts"))
_ROOT: Final = Path(__file__).parents[2]
_PLACES: Final = ("README.md", "docs")
_PASSAGES: Final = 4
_LONGEST_QUERY: Final = 1_000
_FITTING, _UNFITTING = 0.1, 1.0
"""The cost of an action whose words a message has, and of one whose words it lacks; answers stand between them."""


@chatbot(name="guide", description="Answers questions about goalport from its docs, and reads them with you")
class Guide:
    """Guides through the docs below a folder, with the manner and the aim of two templates."""

    def __init__(
        self,
        root: Path = _ROOT,
        places: tuple[str, ...] = _PLACES,
        *,
        notes: Path = _ROOT / ".goalport" / "notes",
        persona: str = "pilot",
        objective: str = "cited_answers",
    ) -> None:
        self.docs = DocumentFolder(root, places)
        self.notes = Notes(notes)
        self.personality = {"persona": persona, "objective": objective}

    @condition
    def model_ready(self, models: Annotated[Models, Provided]) -> bool:
        """Whether a model can be asked here."""
        return not _unready(models)

    @cost
    def of_help(self, message: UserMessage | None) -> float:
        """Little for a greeting."""
        return _FITTING if message is not None and asks_for_help(message.content) else _UNFITTING

    @cost
    def of_reading(self, message: UserMessage | None) -> float:
        """Little for who wants to go step by step."""
        return _FITTING if message is not None and asks_for_steps(message.content) else _UNFITTING

    @cost
    def of_notes(self, message: UserMessage | None) -> float:
        """Little for who proposes something."""
        return _FITTING if message is not None and proposed(message.content) else _UNFITTING

    @action(trigger=UserMessage, can_rerun=True, cost_method="of_help", read_only=True)
    async def greet(self, context: ActionContext) -> None:
        """Say what one can ask."""
        await context.send_message(GREETING)

    @action(trigger=UserMessage, can_rerun=True, pre=["model_ready"], cost=0.4, read_only=True)
    async def answer(
        self,
        message: UserMessage,
        conversation: Conversation,
        context: ActionContext,
        ai: Ai,
        index: Annotated[DocumentIndex, Provided],
    ) -> None:
        """Let a model search and answer, and list where the passages stand that it cites."""
        await self.docs.take_in(index, context.progress)
        shown = ShownPassages()
        rag = ToolishRag("docs", "The docs of goalport", index, listener=shown, filter=self.docs.filter)
        reference = await rag.with_eager_search_about(message.content[:_LONGEST_QUERY])
        streaming = ai.with_auto_llm().with_references(reference).streaming()
        pieces = streaming.respond_with_system_prompt(conversation, _PROMPTS.render("guide", self.personality))
        await context.send_message(with_sources(pieces, shown, self.docs.name_of))

    @action(trigger=UserMessage, can_rerun=True, cost=0.6, read_only=True)
    async def show_passages(
        self,
        message: UserMessage,
        context: ActionContext,
        index: Annotated[DocumentIndex, Provided],
        models: Annotated[Models, Provided],
    ) -> None:
        """Answer with the passages that fit best, where no model does."""
        found = await self._search(message.content, context, index)
        text = found_in_docs(found, self.docs.name_of)
        await context.send_message(f"{text}\n\n{WITHOUT_MODEL if _unready(models) else MODEL_FAILED}")

    @action(trigger=UserMessage, can_rerun=True, cost_method="of_reading", read_only=True)
    async def begin_reading(
        self, message: UserMessage, context: ActionContext, index: Annotated[DocumentIndex, Provided]
    ) -> Reading | None:
        """Show the section that fits best, and go on from there with the messages that follow."""
        found = await self._search(asks_for_steps(message.content), context, index)
        if not found:
            await context.send_message(found_in_docs(found, self.docs.name_of))
            return None
        best = found[0]
        readable = SearchLimits(caller=context.caller)
        sections = [each.id for each in await index.list_sections(best.uri, readable) if each.characters]
        from_here = tuple(sections[sections.index(best.parent_id) :])
        reading = Reading(document=self.docs.name_of(best.uri), sections=from_here)
        await context.send_message(await reading.text(context, index))
        return reading

    @action(trigger=UserMessage, can_rerun=True, cost_method="of_notes")
    async def propose_change(self, message: UserMessage, context: ActionContext) -> None:
        """Write down what somebody proposes, once a person has agreed to it."""
        text = proposed(message.content)
        try:
            agreed = await context.ask(f"Write this note for those who look after the docs? It says: {text}", bool)
        except Declined:
            agreed = False
        if not agreed:
            await context.send_message("I have not written it down.")
            return
        file = await to_thread.run_sync(self.notes.write, context.key, context.caller.id, text)
        await context.send_message(f"Your note is written: {file.name}. Thank you.")

    async def _search(self, query: str, context: ActionContext, index: DocumentIndex) -> list[Chunk]:
        await self.docs.take_in(index, context.progress)
        request = TextSimilaritySearchRequest(
            query=query[:_LONGEST_QUERY], top_k=_PASSAGES, filter=self.docs.filter, caller=context.caller
        )
        return [each.match for each in await find_chunks(index, request)]


def _unready(models: Models) -> str:
    """Why no model can be asked; empty: one can be."""
    try:
        models.choose(LlmOptions(auto=True))
    except ModelNotReady as error:
        return str(error)
    return ""
