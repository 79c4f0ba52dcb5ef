"""A language model that says what a test wrote down for it, so that everything above a model runs for real.

It stands where a provider's model stands: below the tool loop, the binding of objects and the guards.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, cast

from pydantic_core import to_json

from goalport.llm import (
    AssistantMessage,
    ModelCall,
    ModelCard,
    ModelReply,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCall,
)

__all__ = ["Script", "ScriptedModel", "calls_tool"]

Script = object
"""One reply: a text; a `ToolCall` or a list of them; a whole `AssistantMessage` or `ModelReply`; an exception, which is
raised; a function from the `ModelCall` to any of these; anything else is an object, which the model writes as JSON."""

_USAGE: Final = TokenUsage(input_tokens=100, output_tokens=10, cost=0.001)
_WORD = re.compile(r"\S*\s*")


def calls_tool(name: str, /, **arguments: object) -> ToolCall:
    """The wish of a model that a tool be called; its id is made of the tool's name."""
    return ToolCall(f"call_{name}", name, to_json(arguments).decode())


@dataclass(slots=True)
class ScriptedModel:
    """`ScriptedModel(["Hello", calls_tool("add", a=1, b=2), Story("…")])`: the replies, in order, of one model."""

    replies: Iterable[Script] = ()
    card: ModelCard = field(default_factory=lambda: ModelCard(name="scripted", provider="test"))
    usage: TokenUsage = _USAGE
    """What each reply costs, unless it says so itself."""
    calls: list[ModelCall] = field(default_factory=list[ModelCall], init=False)
    """What it was asked, the newest last."""
    _left: list[Script] = field(default_factory=list[Script], init=False)

    def __post_init__(self) -> None:
        self._left = list(self.replies)

    @property
    def unused(self) -> int:
        """How many replies nobody asked for."""
        return len(self._left)

    async def reply(self, call: ModelCall, /) -> ModelReply:
        """The next reply. Raises `AssertionError` when there is none left."""
        self.calls.append(call)
        if not self._left:
            asked = call.messages[-1] if call.messages else None
            raise AssertionError(f"The model was asked once more than its script has replies; it was told {asked!r}.")
        return self._made(self._left.pop(0), call)

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The same word by word, its thoughts first."""
        reply = await self.reply(call)
        for word in _words(reply.message.thinking):
            yield ThinkingDelta(word)
        for word in _words(reply.message.content if reply.output is None else reply.output):
            yield TextDelta(word)
        yield reply

    def _made(self, said: Script, call: ModelCall) -> ModelReply:
        if isinstance(said, BaseException):
            raise said
        if callable(said) and not isinstance(said, type):
            return self._made(cast("Callable[[ModelCall], Script]", said)(call), call)
        reply = said if isinstance(said, ModelReply) else ModelReply(message=_message(said), usage=self.usage)
        reply = replace(reply, model=reply.model or self.card.name)
        if reply.message.calls:
            return replace(reply, finish="tool_call")
        if call.output is not None and reply.output is None and reply.message.content:
            return replace(reply, output=reply.message.content)
        return reply


def _message(said: Script) -> AssistantMessage:
    if isinstance(said, AssistantMessage):
        return said
    if isinstance(said, str):
        return AssistantMessage(said)
    several = cast("list[object]", said) if isinstance(said, list) else [said]
    calls = tuple(each for each in several if isinstance(each, ToolCall))
    return AssistantMessage(calls=calls) if calls else AssistantMessage(to_json(said, by_alias=True).decode())


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if word]
