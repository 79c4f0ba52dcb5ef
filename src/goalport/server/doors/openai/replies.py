"""What is answered, piece by piece, wherever it comes from: a turn of a chatbot, a process of a goal, or a ready text.

A reply knows no wire format. Above: `completions` and `responses`, which write it; beside it: `goal_replies`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol, final

from goalport.base.events import MessageDelta, MessageSent, ProgressUpdated
from goalport.models.llm import AssistantMessage, TokenUsage
from goalport.runtime.chat import ChatbotMark, Turn, TurnResult
from goalport.runtime.chat.messages import REPLY_SEPARATOR
from goalport.server.doors.openai.questions import in_words
from goalport.server.publish.turns import reader_left


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
