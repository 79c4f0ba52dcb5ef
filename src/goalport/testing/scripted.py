"""A language model with the replies of a test, so that everything above a model runs for real.

It takes the place of a provider's model, below the tool loop, the structured output and the guards.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, cast

from pydantic_core import to_json

from goalport.models.llm import (
    AssistantMessage,
    LanguageModel,
    LlmOptions,
    ModelCall,
    ModelCard,
    ModelReply,
    Models,
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
"""The tokens and the cost of a reply that sets none itself."""

_WORD = re.compile(r"\s+|\S+\s*")


@dataclass(frozen=True, slots=True)
class Streamed:
    """A reply that is streamed in the pieces that a test has chosen; made by `streams`."""

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
    made: list[TextDelta | ThinkingDelta | BaseException] = []
    for each in pieces:
        if isinstance(each, TextDelta | ThinkingDelta | BaseException):
            made.append(each)
        else:
            made.append(TextDelta(each if isinstance(each, str) else f"{to_json(each, by_alias=True).decode()}\n"))
    return Streamed(tuple(made))


@dataclass(slots=True)
class ScriptedModel:
    """`ScriptedModel(["Hello", calls_tool("add", a=1, b=2), Story("…")])`: the replies, in order, of one model."""

    replies: Iterable[Script] = ()
    card: ModelCard = field(default_factory=lambda: ModelCard(name="scripted", provider="test"))
    usage: TokenUsage = USAGE
    """The tokens and the cost of each reply that sets none itself."""
    calls: list[ModelCall] = field(default_factory=list[ModelCall], init=False)
    """The requests, the newest last."""
    _left: list[Script] = field(default_factory=list[Script], init=False)

    def __post_init__(self) -> None:
        self._left = list(self.replies)

    @property
    def unused(self) -> int:
        """The number of replies that were not used."""
        return len(self._left)

    def script(self, call: ModelCall) -> Script:
        """The next reply. Raises `AssertionError` when there is none left."""
        self.calls.append(call)
        if not self._left:
            asked = call.messages[-1] if call.messages else None
            raise AssertionError(f"The model was asked once more than its script has replies; it was told {asked!r}.")
        return self._left.pop(0)

    async def reply(self, call: ModelCall, /) -> ModelReply:
        """The reply of the script."""
        return self._reply(_resolved(self.script(call), call), call)

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The reply word by word, its thoughts first, or in pieces if it was made by `streams`."""
        said = _resolved(self.script(call), call)
        if isinstance(said, Streamed):
            for piece in said.pieces:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
            yield self._reply(said, call)
            return
        reply = self._reply(said, call)
        for each in _WORD.findall(reply.message.thinking):
            yield ThinkingDelta(each)
        for each in _WORD.findall(reply.message.content if reply.output is None else reply.output):
            yield TextDelta(each)
        yield reply

    def _reply(self, said: Script, call: ModelCall) -> ModelReply:
        blank = ModelReply(message=AssistantMessage(), usage=self.usage, model=self.card.name)
        match said:
            case ModelReply() as reply:
                pass
            case AssistantMessage() as message:
                reply = replace(blank, message=message)
            case Streamed() as streamed:
                reply = replace(blank, message=streamed.message)
            case str(text):
                reply = replace(blank, message=AssistantMessage(text))
            case _:
                several = cast("list[object]", said) if isinstance(said, list) else [said]
                calls = tuple(each for each in several if isinstance(each, ToolCall))
                text = "" if calls else to_json(said, by_alias=True).decode()
                reply = replace(blank, message=AssistantMessage(text, calls=calls))
        reply = replace(reply, model=reply.model or blank.model)
        if reply.message.calls:
            return replace(reply, finish="tool_call" if reply.finish == "stop" else reply.finish)
        if call.output is not None and reply.output is None and reply.message.content:
            return replace(reply, output=reply.message.content)
        return reply


class _ModelOfAnyName(ScriptedModel):
    def __init__(self, card: ModelCard, script: Callable[[ModelCall], Script], usage: TokenUsage) -> None:
        super().__init__((), card, usage)
        self._script = script

    def script(self, call: ModelCall) -> Script:
        return self._script(call)


class ModelsOfAnyName(Models, ABC):
    """Has a model for every name and every role. `usage` is the tokens and the cost of each model request."""

    def __init__(self, usage: TokenUsage) -> None:
        super().__init__(environment={})
        self.usage = usage

    @abstractmethod
    def script(self, call: ModelCall) -> Script:
        """The script for a call of any model. Raises `AssertionError` when there is none."""

    def choose(self, options: LlmOptions) -> LanguageModel:
        """A model with the name or the role in the options."""
        name = options.model or options.role or next(iter(options.first_of), "scripted")
        provider, _, short = name.rpartition(":")
        return _ModelOfAnyName(ModelCard(name=short, provider=provider or "test"), self.script, self.usage)

    def why_not_ready(self, name: str) -> str:
        """The empty text: every model is ready."""
        return ""


def _resolved(script: Script, call: ModelCall) -> Script:
    while callable(script) and not isinstance(script, type):
        script = cast("Callable[[ModelCall], Script]", script)(call)
    if isinstance(script, BaseException):
        raise script
    return script
