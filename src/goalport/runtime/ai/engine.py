"""The seams of the room: who carries requests out (`Engine`), and the work that they belong to (`Operation`).

Beside them stands `ToolContext`, by which a tool that asks models itself finds the engine of whatever called it. The
real engine is `LlmEngine`; `goalport.testing` has one for tests, and `process` makes an operation for each action.
"""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from logging import getLogger
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from goalport.base.events import Event
from goalport.base.words import counted
from goalport.knowledge.references import NamedReferences
from goalport.models.llm import (
    AssistantMessage,
    Message,
    ModelCall,
    ModelReply,
    SystemMessage,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolReply,
    UserMessage,
)
from goalport.runtime.ai.interaction import Interaction, Request
from goalport.tools import ContextValue, Tool


class SentPrompts:
    """What the requests of a process have sent so far, by interaction."""

    def __init__(self) -> None:
        self._heads: dict[str, dict[str, str]] = {}
        self._conversations: dict[str, set[int]] = defaultdict(set)
        """For each message that was sent, the hash of the conversation up to it."""

    def text(self, interaction: str, call: ModelCall) -> str:
        """Everything that the call sends: system prompt, tools, the schema of the answer, and the conversation.

        Where an earlier call of the interaction sent the same, a line says so. The last message is always there.
        """
        system = [each.content for each in call.messages[:1] if isinstance(each, SystemMessage)]
        messages = [*map(_message, call.messages[len(system) :])]
        head, before = _head(call, "".join(system)), self._heads.get(interaction, {})
        self._heads[interaction] = head
        same = [title for title, text in head.items() if text and text == before.get(title)]
        known = self._known(interaction, messages)
        if known:
            same.append(counted(known, "message"))
        return "\n\n".join(
            [
                *([f"(as before: {', '.join(same)})"] if same else []),
                *(f"{title}:\n{text or '(none)'}" for title, text in head.items() if text != before.get(title, "")),
                *messages[known:],
            ]
        )

    def _known(self, interaction: str, messages: list[str]) -> int:
        """How many messages an earlier conversation began with too, without the last one."""
        seen, so_far, known = self._conversations[interaction], 0, 0
        for message in messages:
            so_far = hash((so_far, message))
            known += so_far in seen
            seen.add(so_far)
        return min(known, max(len(messages) - 1, 0))


def _head(call: ModelCall, system: str) -> dict[str, str]:
    tools = [f"{each.name}: {each.description}\n{json.dumps(each.input_schema)}" for each in call.tools]
    answer = f"{call.output.name}\n{json.dumps(call.output.schema)}" if call.output else ""
    return {"system prompt": system, "tools": "\n".join(tools), "form of the answer": answer}


def _message(message: Message) -> str:
    match message:
        case SystemMessage(content):
            return f"system:\n{content}"
        case UserMessage(content, images):
            return "\n".join([f"user:\n{content}", *(f"(an image, {each.media_type})" for each in images)])
        case AssistantMessage(content, calls):
            return "\n".join([f"assistant:\n{content}", *(f"calls {each.name} {each.arguments}" for each in calls)])
        case ToolReply():
            shown = (f"(an image, {each.media_type})" for each in message.images)
            return "\n".join([f"result of {message.name}:\n{message.content}", *shown])


T_co = TypeVar("T_co", covariant=True)
_log = getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamedObject(Generic[T_co]):
    """One object of a stream of objects."""

    value: T_co


class Engine(Protocol):
    """Carries out requests."""

    async def run(self, request: Request, /) -> object:
        """The text or the object that was asked for; None when the model declined.

        Raises the kind of `ModelError` that fits.
        """
        ...

    def stream(self, request: Request, /) -> AsyncGenerator[TextDelta | ThinkingDelta | StreamedObject[object]]:
        """The same piece by piece: text as it comes, or one whole and valid object after another.

        Closing the generator ends the request to the model.
        """
        ...

    async def embed(self, interaction: Interaction, texts: Sequence[str], /) -> list[list[float]]:
        """One vector for each text, by the interaction's embedding service."""
        ...

    def render(self, template: str, variables: Mapping[str, object], /) -> str:
        """The text of a template; `Ai` renders the prompt before it makes a request."""
        ...

    def subagent(self, agent: object, /) -> Tool:
        """The tool by which a model runs an agent."""
        ...

    @property
    def references(self) -> NamedReferences:
        """The references and contributors that are there by name."""
        ...


def prompt_text(engine: Engine, interaction: Interaction, prompt: str | Mapping[str, object]) -> str:
    """The prompt itself, or the text of the interaction's template for these variables.

    Raises `TypeError` for a text where variables are expected, and the other way round.
    """
    template = interaction.template
    if isinstance(prompt, str) and not template:
        return prompt
    if isinstance(prompt, Mapping) and template:
        return engine.render(template, prompt)
    wanted = "the template's variables, as a mapping" if template else "a prompt; `with_template` names a template"
    raise TypeError(f"Expected {wanted}, but came {prompt!r}.")


class ReplyRecord(Protocol):
    """The place for one reply of a model in the journal of an action. The action may be run again."""

    @property
    def reply(self) -> ModelReply | None:
        """What the model replied when the action ran before; None: the model has to be asked."""
        ...

    async def keep(self, reply: ModelReply, /) -> None:
        """Write down what the model replied now."""
        ...


class Operation(Protocol):
    """The work that requests belong to: an action of a process."""

    @property
    def place(self) -> tuple[str, str]:
        """The id of the process and the name of the action; both are empty outside of a process."""
        ...

    def record(self, model: str, call: ModelCall, /) -> ReplyRecord:
        """The place for the reply to a request. It is called once for each request, in order."""
        ...

    def emit(self, event: Event, /) -> None:
        """Send an event to the listeners of the process."""
        ...

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Count one request to a model, and the seconds that it took, towards the process."""
        ...

    def decline(self, reason: str, /) -> None:
        """Note the model's own words for why it did not make what it was asked for."""
        ...

    def note_missing(self, role: str, why: str, /) -> None:
        """Note what is missing of the tool group of a role, in sentences."""
        ...

    @property
    def prompts(self) -> SentPrompts:
        """What models were sent so far for this process."""
        ...

    async def before_turn(self, tool: str, /) -> None:
        """Called before each request to a model (`tool` is empty) and each call of a tool.

        It waits for as long as the delays of the run say. Raises a `Signal` when the budget is spent or the process
        is to end.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """A `ReplyRecord` that keeps nothing, where nothing is run again."""

    reply: ModelReply | None = None

    async def keep(self, reply: ModelReply, /) -> None:
        """Keep nothing."""


@dataclass(frozen=True, slots=True)
class NoOperation:
    """The `Operation` outside of a process: nobody listens and nobody counts."""

    place: tuple[str, str] = ("", "")

    def record(self, model: str, call: ModelCall, /) -> ReplyRecord:
        """A record that keeps nothing."""
        return Unrecorded()

    def emit(self, event: Event, /) -> None:
        """Send nothing."""

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Count nothing."""

    def decline(self, reason: str, /) -> None:
        """Note nothing."""

    def note_missing(self, role: str, why: str, /) -> None:
        """Log it."""
        _log.warning("%s", why)

    @property
    def prompts(self) -> SentPrompts:
        """Nothing was sent before."""
        return SentPrompts()

    async def before_turn(self, tool: str, /) -> None:
        """Go on at once."""


class ToolContext(NamedTuple):
    """What a running tool can reach: the process that it works for, and an engine to ask models."""

    process: object = None
    """The process that it works for, which belongs to a higher floor; None: there is none."""
    engine: Callable[[], Engine] | None = None
    """Gives the engine through which models are asked; None: no models can be asked here."""
    callers: tuple[str, ...] = ()
    """The names of the agentic tools that it is called from, the outermost first."""


_OUTSIDE: Final = ToolContext()
TOOL_CONTEXT: Final[ContextVar[ToolContext]] = ContextVar("goalport_tool_context", default=_OUTSIDE)
"""The context of the running code."""


def tool_context() -> ToolContext:
    """The context of the code that calls this."""
    return TOOL_CONTEXT.get()


def use_tool_context(context: ToolContext) -> ContextValue[ToolContext]:
    """A block in which this is the context of all code."""
    return ContextValue(TOOL_CONTEXT, context)


def use_engine(engine: Engine) -> ContextValue[ToolContext]:
    """A block in which tools that are called ask models through this engine."""
    return use_tool_context(tool_context()._replace(engine=lambda: engine))
