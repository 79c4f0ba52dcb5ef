"""What is answered, piece by piece, wherever it comes from: a turn of a chatbot, a process of a goal, or a ready text.

A reply knows no wire format. Above: `completions` and `responses`, which write it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Protocol, final

from goalport.base.caller import Caller
from goalport.base.errors import HandedOver, StoreError, ToolError
from goalport.base.events import MessageDelta, MessageSent, ProgressUpdated
from goalport.models.llm import AssistantMessage, Message, TokenUsage, UserMessage
from goalport.runtime.chat import ChatbotMark, Turn, TurnResult
from goalport.runtime.chat.conversation import REPLY_SEPARATOR
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import Runs, Watch
from goalport.runtime.process import AgentProcess, Completed, Outcome, Waiting
from goalport.server.doors.openai.identity import ResponseId
from goalport.server.doors.openai.models import GoalModel
from goalport.server.publish.answers import reason_of, text_of
from goalport.server.publish.publisher import reader_left
from goalport.server.publish.questions_in_words import in_words


@dataclass(frozen=True, slots=True)
class Text:
    """The next piece of the text."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """The next piece of what the model thinks first."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """What is being done, while nothing is said."""

    text: str


Piece = Text | Thought | Note


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """How a reply has ended."""

    usage: TokenUsage = field(default_factory=TokenUsage)
    failure: str = ""
    """Why there is no reply, or only a part of one; empty: nothing has failed."""


class Reply(Protocol):
    """A reply that is being made."""

    def pieces(self) -> AsyncGenerator[Piece]:
        """What comes, from the beginning to the end. Raises `StoreError` and `HandedOver`."""
        ...

    async def end(self) -> ReplyEnd:
        """How it has ended, after the last piece."""
        ...

    def leave(self) -> None:
        """Note that nobody reads it any more."""
        ...


@dataclass(frozen=True, slots=True)
class ReplyText:
    """A whole reply."""

    text: str
    thought: str
    end: ReplyEnd


async def gathered(reply: Reply) -> ReplyText:
    """Wait for the whole reply."""
    texts: list[str] = []
    thoughts: list[str] = []
    async with aclosing(reply.pieces()) as pieces:
        async for each in pieces:
            match each:
                case Text(text):
                    texts.append(text)
                case Thought(text):
                    thoughts.append(text)
                case Note():
                    pass
    return ReplyText("".join(texts), "".join(thoughts), await reply.end())


@final
class WholeReply:
    """A text that is there already."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def pieces(self) -> AsyncGenerator[Piece]:
        """The text."""
        yield Text(self._text)

    async def end(self) -> ReplyEnd:
        """The end, which nothing was spent for."""
        return ReplyEnd()

    def leave(self) -> None:
        """Do nothing."""


@final
class TurnReply:
    """What a chatbot says in a turn; what it asks is said in words at the end.

    `ask` stores a question, as it is asked here. `note` is told how the turn ended. `then` is waited for at the end, if
    it is given.
    """

    def __init__(
        self,
        turn: Turn,
        mark: ChatbotMark,
        ask: Callable[[AssistantMessage], Awaitable[None]],
        note: Callable[[TurnResult], None],
        then: "asyncio.Future[None] | None" = None,
    ) -> None:
        self._turn = turn
        self._mark = mark
        self._ask = ask
        self._note = note
        self._then = then

    async def pieces(self) -> AsyncGenerator[Piece]:
        """Its messages, with an empty line between two of them."""
        said = _Said()
        async with aclosing(self._turn.events()) as events:
            async for each in events:
                match each:
                    case MessageDelta(message_id=message, text=text, thinking=True):
                        yield Thought(text)
                    case MessageDelta(message_id=message, text=text):
                        yield Text(said.more(message, text))
                    case MessageSent(message_id=message, text=text, role="assistant"):
                        if rest := said.rest(message, text):
                            yield Text(rest)
                    case ProgressUpdated(message=text):
                        yield Note(text)
                    case _:
                        pass
        questions = (await self._turn.result()).questions
        if questions:
            asked = REPLY_SEPARATOR.join(map(in_words, questions))
            await self._ask(AssistantMessage(asked))
            yield Text(said.more(questions[0].id, asked))

    async def end(self) -> ReplyEnd:
        """What the turn has cost, and whether it has failed."""
        result = await self._turn.result()
        self._note(result)
        if self._then is not None:
            await asyncio.shield(self._then)
        return ReplyEnd(result.usage, result.failure)

    def leave(self) -> None:
        """Stop the turn, if its chatbot wants that."""
        reader_left(self._turn, self._mark)


class _Said:
    """What a reader of several messages has received."""

    def __init__(self) -> None:
        self._last = ""
        self._texts: dict[str, str] = {}

    def more(self, message: str, text: str) -> str:
        """A piece of a message as it continues the text: after an empty line where another message begins."""
        between = REPLY_SEPARATOR if self._last not in {"", message} else ""
        self._last = message
        self._texts[message] = self._texts.get(message, "") + text
        return between + text

    def rest(self, message: str, text: str) -> str:
        """What is missing of a message that is complete now."""
        known = self._texts.get(message, "")
        return self.more(message, text.removeprefix(known)) if text != known and text.startswith(known) else ""


async def start(platform: AgentPlatform, model: GoalModel, said: Sequence[Message], caller: Caller) -> AgentProcess:
    """Start a process from the last message. Raises `BadInput` if that is no input of the goal, and `StoreError`."""
    last = said[-1]
    assert isinstance(last, UserMessage)
    objects = model.tool.arguments.begin({model.field: last.content})
    process = await platform.start_stored(model.tool.agent, *objects, goals=model.tool.goals, caller=caller)
    assert process is not None  # only a call that is made `once` gives none
    return process


def response_of(process: AgentProcess) -> ResponseId:
    """The id of the response that tells how the process goes on now; with each answer of a person, it is another."""
    return ResponseId(process.id, str(sum(each.status != "open" for each in process.questions)))


@final
class GoalReply:
    """The result of a process as a reply; its progress comes as notes."""

    def __init__(self, platform: AgentPlatform, process: AgentProcess, model: GoalModel, runs: Runs) -> None:
        self._platform = platform
        self._process = process
        self._model = model
        self._watch = Watch(runs.of(process, detached=model.tool.policy.detached))
        self._failure = ""

    async def pieces(self) -> AsyncGenerator[Piece]:
        """The progress, and then the result, or what a person has to answer."""
        news: asyncio.Queue[str | None] = asyncio.Queue()
        following, ending = asyncio.create_task(self._follow(news)), asyncio.create_task(self._process.wait())
        # A process that waits goes on telling of itself once it is answered, but this reply ends.
        ending.add_done_callback(lambda _: following.cancel() if self._process.open_questions else None)
        following.add_done_callback(lambda _: news.put_nowait(None))
        try:
            while (progress := await news.get()) is not None:
                yield Note(progress)
            outcome = await ending
            self._watch.end()
            yield Text(self._text_of(outcome))
        finally:
            following.cancel()
            ending.cancel()

    async def _follow(self, news: "asyncio.Queue[str | None]") -> None:
        with suppress(HandedOver, StoreError):  # waiting for the end tells of them too
            async with aclosing(self._platform.events(self._process.id)) as events:
                async for each in events:
                    if isinstance(each.event, ProgressUpdated):
                        news.put_nowait(each.event.message)

    async def end(self) -> ReplyEnd:
        """What the process has cost, and whether it has failed."""
        return ReplyEnd(self._process.usage, self._failure)

    def leave(self) -> None:
        """Stop the process if nobody else waits for it, unless its goal is detached."""
        self._watch.leave()

    def _text_of(self, outcome: Outcome) -> str:
        if isinstance(outcome, Waiting):
            return "\n\n".join(map(in_words, self._process.open_questions))
        if not isinstance(outcome, Completed):
            self._failure = reason_of(outcome, self._model.name) or ""
            return ""
        try:
            return text_of(self._model.tool.policy.output, self._model.name, outcome.value)
        except ToolError as error:
            self._failure = str(error)
            return ""
