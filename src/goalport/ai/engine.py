"""The seams of the room: who carries out what an `Ai` is asked for, and what that is part of."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from goalport.ai.interaction import Interaction
from goalport.events import Event
from goalport.llm import Message, ModelCall, ModelReply, TextDelta, ThinkingDelta, TokenUsage

__all__ = ["Engine", "Operation", "Outside", "Record", "Request", "StreamedObject", "Unrecorded"]

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One thing that is asked of an `Ai`."""

    interaction: Interaction
    messages: tuple[Message, ...]
    """What was said so far, the newest last; what the interaction adds to it is not in it."""
    output: object = None
    """The type of the object that is wanted, as one writes it in an annotation; None: text."""
    may_decline: bool = False
    """Whether the model may say that it knows too little; the answer is None then."""
    verb: str = ""
    """The method of `Ai` that was called, for those who record calls."""
    properties: Callable[[str], bool] | None = None
    """Which fields of the object the model is asked for, by their names; None: all."""
    needs_tools: bool = False
    """Whether a model is asked in vain that has no tools; a `ToolError` says so then."""
    on_reply: Callable[[ModelReply], None] | None = None
    """Told of the reply by which it ended."""
    on_artifact: Callable[[object], None] | None = None
    """Told of each object that a tool gave behind its text."""


@dataclass(frozen=True, slots=True)
class StreamedObject(Generic[T_co]):
    """One object of a stream of them."""

    value: T_co


class Engine(Protocol):
    """Carries out requests. The real one is `LlmEngine`; `goalport.testing` has one that answers what it was told."""

    async def run(self, request: Request, /) -> object:
        """The text or the object that was asked for; None: the model declined. Raises `ModelError`, by its kind."""
        ...

    def stream(self, request: Request, /) -> AsyncGenerator[TextDelta | ThinkingDelta | StreamedObject[object]]:
        """The same piece by piece: text as it comes, or one whole object after another, each valid.

        Closing the generator ends the request of the model.
        """
        ...

    async def embed(self, interaction: Interaction, texts: Sequence[str], /) -> list[list[float]]:
        """A vector for each text, by the interaction's embedding service."""
        ...

    def render(self, template: str, variables: Mapping[str, object], /) -> str:
        """The text that a template gives; `Ai` asks for it before it makes a request of it."""
        ...


class Record(Protocol):
    """The place for one reply of a model in the journal of an action, which may begin again."""

    @property
    def reply(self) -> ModelReply | None:
        """What the model replied when the action had begun before; None: it is to be asked."""
        ...

    def keep(self, reply: ModelReply, /) -> None:
        """Write down what it replied now."""
        ...


class Operation(Protocol):
    """What a model's work is part of: an action of a process. `process` makes one for each action."""

    @property
    def place(self) -> tuple[str, str]:
        """The id of the process and the name of the action; both empty outside of one."""
        ...

    def record(self, model: str, call: ModelCall, /) -> Record:
        """Where the reply to a request is written down, or stands already. Called once for each request, in order."""
        ...

    def emit(self, event: Event, /) -> None:
        """Tell those who listen to the process."""
        ...

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Count one request of a model towards the process."""
        ...

    def decline(self, reason: str, /) -> None:
        """Take down why the model would not make what it was asked for, in its own words."""
        ...

    async def before_turn(self, tool: str, /) -> None:
        """Called before each request of a model (`tool` is empty) and each call of a tool.

        It waits as long as the run's delays want, and raises a `Signal` when the budget is spent or the process ends.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """A record where nothing is written down."""

    reply: ModelReply | None = None

    def keep(self, reply: ModelReply, /) -> None:
        """Nothing begins again."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What a model's work is part of where there is no process."""

    place: tuple[str, str] = ("", "")

    def record(self, model: str, call: ModelCall, /) -> Record:
        """Nothing begins again."""
        return Unrecorded()

    def emit(self, event: Event, /) -> None:
        """Nobody listens."""

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Nobody counts."""

    def decline(self, reason: str, /) -> None:
        """Nobody asks why."""

    async def before_turn(self, tool: str, /) -> None:
        """Nothing stands in the way."""
