"""A language model that gives the replies of a test, so that everything above a model runs for real.

It takes the place of a provider's model, below the tool loop, the structured output and the guards.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, cast

from pydantic_core import to_json

from goalport.models.llm import (
    AssistantMessage,
    ModelCall,
    ModelCard,
    ModelReply,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
)

Script = object | Callable[[ModelCall], object]
"""One reply: a text; a `ToolCall` or a list of them; what `streams` makes; a whole `AssistantMessage` or `ModelReply`;
an exception, which is raised; a function from the `ModelCall` to any of these; anything else is an object, which the
model writes as JSON."""

USAGE: Final = TokenUsage(input_tokens=100, output_tokens=10, cost=0.001)
"""The cost of a reply that does not say otherwise."""

_WORD = re.compile(r"\S*\s*")


@dataclass(frozen=True, slots=True)
class Streamed:
    """A reply that comes in the pieces that a test has chosen; made by `streams`."""

    pieces: tuple[TextDelta | ThinkingDelta | BaseException, ...]

    @property
    def message(self) -> AssistantMessage:
        """The whole reply, for a request that is not streamed. Raises the exception that breaks it off."""
        for each in self.pieces:
            if isinstance(each, BaseException):
                raise each
        said = "".join(each.text for each in self.pieces if isinstance(each, TextDelta))
        return AssistantMessage(said, thinking="".join(e.text for e in self.pieces if isinstance(e, ThinkingDelta)))


def calls_tool(name: str, /, **arguments: object) -> ToolCall:
    """A request of the model to call a tool; its id is derived from the tool's name."""
    return ToolCall(f"call_{name}", name, to_json(arguments).decode())


def streams(*pieces: object) -> Streamed:
    """A reply in exactly these pieces: texts, `ThinkingDelta`s, and objects, each of them a line of JSON.

    An exception among them is raised at its position, as when a connection breaks.
    """
    return Streamed(tuple(map(_piece, pieces)))


@dataclass(slots=True)
class ScriptedModel:
    """`ScriptedModel(["Hello", calls_tool("add", a=1, b=2), Story("…")])`: the replies, in order, of one model."""

    replies: Iterable[Script] = ()
    card: ModelCard = field(default_factory=lambda: ModelCard(name="scripted", provider="test"))
    usage: TokenUsage = USAGE
    """The cost of each reply that does not say otherwise."""
    calls: list[ModelCall] = field(default_factory=list[ModelCall], init=False)
    """The requests, the newest last."""
    _left: list[Script] = field(default_factory=list[Script], init=False)

    def __post_init__(self) -> None:
        self._left = list(self.replies)

    @property
    def unused(self) -> int:
        """The number of replies that were not used."""
        return len(self._left)

    async def reply(self, call: ModelCall, /) -> ModelReply:
        """The next reply. Raises `AssertionError` when there is none left."""
        return reply_of(self._next(call), call, ModelReply(message=_NOTHING, usage=self.usage, model=self.card.name))

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The next reply word by word, its thoughts first, or in pieces if it was made by `streams`."""
        blank = ModelReply(message=_NOTHING, usage=self.usage, model=self.card.name)
        for piece in pieces_of(self._next(call), call, blank):
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    def _next(self, call: ModelCall) -> Script:
        self.calls.append(call)
        if not self._left:
            asked = call.messages[-1] if call.messages else None
            raise AssertionError(f"The model was asked once more than its script has replies; it was told {asked!r}.")
        return self._left.pop(0)


_NOTHING: Final = AssistantMessage()


def reply_of(script: Script, call: ModelCall, blank: ModelReply) -> ModelReply:
    """The reply of a script to a call; `blank` supplies what it leaves open. Raises the exception that it is."""
    said = _resolved(script, call)
    reply = said if isinstance(said, ModelReply) else replace(blank, message=_message(said))
    reply = replace(reply, model=reply.model or blank.model)
    if reply.message.calls:
        return replace(reply, finish="tool_call" if reply.finish == "stop" else reply.finish)
    if call.output is not None and reply.output is None and reply.message.content:
        return replace(reply, output=reply.message.content)
    return reply


def pieces_of(
    script: Script, call: ModelCall, blank: ModelReply
) -> Iterable[TextDelta | ThinkingDelta | ModelReply | BaseException]:
    """The same reply piece by piece, the whole reply last; an exception among them is to be raised."""
    said = _resolved(script, call)
    if isinstance(said, Streamed):
        yield from said.pieces
        yield reply_of(said, call, blank)
        return
    reply = reply_of(said, call, blank)
    yield from map(ThinkingDelta, _words(reply.message.thinking))
    yield from map(TextDelta, _words(reply.message.content if reply.output is None else reply.output))
    yield reply


def _resolved(script: Script, call: ModelCall) -> Script:
    while callable(script) and not isinstance(script, type):
        script = cast("Callable[[ModelCall], Script]", script)(call)
    if isinstance(script, BaseException):
        raise script
    return script


def _message(said: Script) -> AssistantMessage:
    match said:
        case AssistantMessage():
            return said
        case Streamed():
            return said.message
        case str():
            return AssistantMessage(said)
        case _:
            several = cast("list[object]", said) if isinstance(said, list) else [said]
            calls = tuple(each for each in several if isinstance(each, ToolCall))
            return AssistantMessage(calls=calls) if calls else AssistantMessage(to_json(said, by_alias=True).decode())


def _piece(said: object) -> TextDelta | ThinkingDelta | BaseException:
    if isinstance(said, TextDelta | ThinkingDelta | BaseException):
        return said
    return TextDelta(said if isinstance(said, str) else f"{to_json(said, by_alias=True).decode()}\n")


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if word]
