"""What is answered, piece by piece, wherever it comes from: a turn of a chatbot, a process of a goal, or a ready text.

A reply knows no wire format. Above: `completions` and `responses`, which write it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol, final

from goalport.base.errors import ToolError
from goalport.base.events import MessageDelta, MessageSent, ProgressUpdated
from goalport.models.llm import AssistantMessage, TokenUsage
from goalport.runtime.chat import ChatbotMark, Turn, TurnResult
from goalport.runtime.chat.conversation import REPLY_SEPARATOR
from goalport.runtime.platform.runs import Runs, Watch
from goalport.runtime.process import AgentProcess, Completed, Follower, Outcome, Rested, Waiting, follow
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


def response_of(process: AgentProcess) -> ResponseId:
    """The id of the response that tells how the process goes on now; with each answer of a person, it is another."""
    return ResponseId(process.id, str(sum(each.status != "open" for each in process.questions)))


@final
class GoalReply:
    """The result of a process as a reply; its progress comes as notes."""

    def __init__(self, process: AgentProcess, model: GoalModel, runs: Runs, follower: Follower | None = None) -> None:
        """`follower` was there when the process began."""
        self._process = process
        self._model = model
        self._items = follow(process) if follower is None else follower.follow(process)
        self._watch = Watch(runs.of(process, detached=model.tool.policy.detached))
        self._failure = ""

    async def pieces(self) -> AsyncGenerator[Piece]:
        """The progress, and then the result, or what a person has to answer."""
        async with aclosing(self._items) as items:
            async for each in items:
                match each:
                    case ProgressUpdated(message=message):
                        yield Note(message)
                    case Rested(outcome=outcome) if outcome is not None:
                        self._watch.end()
                        yield Text(self._text_of(outcome))
                    case _:
                        pass

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
