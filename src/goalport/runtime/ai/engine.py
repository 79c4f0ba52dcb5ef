"""The interfaces of the room: a `Request`, the `Engine` that carries it out, and the `Operation` that it belongs to.

The settings of a call are data (`Interaction`), which `Ai` copies with changes. `ToolContext` is how a tool that asks
models itself finds the engine of whatever called it. The real engine is `LlmEngine`; `goalport.testing` has one for
tests, and `process` makes an operation for each action. Nothing here asks a model.
"""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from logging import getLogger
from typing import Any, Final, Generic, NamedTuple, ParamSpec, Protocol, Self, TypeVar, cast

from goalport.base.events import Event
from goalport.base.words import counted
from goalport.knowledge.references import LlmReference, NamedReferences
from goalport.models.llm import (
    AssistantMessage,
    Image,
    LlmOptions,
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
from goalport.models.prompts import PromptContributor, Templates
from goalport.runtime.ai.guards import Guard
from goalport.tools import Tool, ToolGroup, ToolResult, tools_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Options = ParamSpec("Options")
_log = getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool in a conversation with a model, and its result."""

    tool: str
    """The tool's own name."""
    result: ToolResult


@dataclass(frozen=True, slots=True)
class ToolChaining:
    """Offers the model the `@tool` methods of each object of one type that a tool returns, from then on."""

    kind: type
    select: Callable[[Any, Tool], bool] | None = None
    """Decides by the object and the tool whether it is offered; None: all are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interaction:
    """The settings of one call. Immutable, like the `Ai` that holds it."""

    id: str = ""
    """The name of the prompt in events, spans and tests; empty: made of the action and of what is asked for."""
    llm: LlmOptions = field(default_factory=LlmOptions)
    fallbacks: tuple[str | LlmOptions, ...] = ()
    """The models that are asked, one after another, when the model of `llm` fails."""
    tool_groups: tuple[str, ...] = ()
    """Roles of tool groups; the groups that have them are looked up at each call."""
    tools: tuple[Tool, ...] = ()
    """Further tools, in addition to those of the groups; tools of tool objects are among them."""
    withholds: Callable[[Sequence[ToolUse]], Collection[str]] | None = None
    """Returns the names of the tools to withhold after the calls so far; None: all tools are offered."""
    chaining: tuple[ToolChaining, ...] = ()
    """The types of objects whose tools are offered once a tool has returned one; the first that fits counts."""
    references: tuple[LlmReference, ...] = ()
    contributors: tuple[PromptContributor, ...] = ()
    system_prompt: str = ""
    """The beginning of the system prompt, before the texts of contributors and references."""
    images: tuple[Image, ...] = ()
    generate_examples: bool | None = None
    """Whether the prompt for an object shows a made-up example of one; None: as the settings say."""
    template: str = ""
    """The template from which `Ai` renders prompts, before an engine gets the request."""
    guards: tuple[Guard, ...] = ()
    """Further guards, in addition to those of the platform."""
    embedding_service: str = ""
    """The name of the embedding service; empty: the default one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request to an `Ai`."""

    interaction: Interaction
    messages: tuple[Message, ...]
    """The conversation so far, the newest message last, without what the interaction adds to it."""
    output: object = None
    """The type of the object that is wanted, as it is written in an annotation; None: text."""
    may_decline: bool = False
    """Whether the model may say that it knows too little; the answer is None then."""
    verb: str = ""
    """The method of `Ai` that was called, for code that records calls."""
    properties: Callable[[str], bool] | None = None
    """Decides by name which fields of the object the model is asked for; None: all."""
    needs_tools: bool = False
    """Whether the request makes no sense without tools; a `ToolError` is raised when there are none."""
    on_reply: Callable[[ModelReply], None] | None = None
    """Called with the reply that ended the request."""
    on_artifact: Callable[[object], None] | None = None
    """Called with each object that a tool returned in addition to its text."""


@dataclass(frozen=True, slots=True)
class StreamedObject(Generic[T_co]):
    """One object of a stream of objects."""

    value: T_co


Pieces = AsyncGenerator[TextDelta | ThinkingDelta | StreamedObject[object]]
"""The pieces of an answer that is streamed."""


class Engine(Protocol):
    """Carries out requests."""

    async def run(self, request: Request, /) -> object:
        """The text or the object that was asked for; None when the model declined.

        Raises the kind of `ModelError` that fits.
        """
        ...

    def stream(self, request: Request, /) -> Pieces:
        """The same piece by piece: text as it comes, or one whole and valid object after another.

        Closing the generator ends the request to the model.
        """
        ...

    async def embed(self, interaction: Interaction, texts: Sequence[str], /) -> list[list[float]]:
        """One vector for each text, by the interaction's embedding service."""
        ...

    def subagent(self, agent: object, /) -> Tool:
        """The tool by which a model runs an agent."""
        ...

    def references(self) -> NamedReferences:
        """The current references and contributors, by name."""
        ...

    @property
    def templates(self) -> Templates:
        """The templates of prompts; `Ai` renders a prompt before it makes a request."""
        ...


class _BoundWithLlm(Protocol[Options, T_co]):
    def __call__(
        self, llm: str | LlmOptions | None = None, /, *unused: Options.args, **changes: Options.kwargs
    ) -> T_co:
        """Choose the model by name, or its options as `LlmOptions` or one by one."""
        ...


class _WithLlm(Protocol[Options]):
    def __get__(self, instance: T, owner: type[T], /) -> _BoundWithLlm[Options, T]: ...


def takes_options_of(
    options: Callable[Options, LlmOptions],  # noqa: ARG001 - read by type checkers
) -> Callable[[Callable[..., object]], _WithLlm[Options]]:
    """Type a method `with_llm(self, llm=None, /, **changes)` so that its changes are the parameters of `LlmOptions`.

    Type checkers read them there, so that an option is declared in one place only. At run time nothing changes.
    """
    return lambda method: cast("_WithLlm[Options]", method)


def checked(values: tuple[T, ...], kind: type[object] | tuple[type[object], ...], wanted: str) -> tuple[T, ...]:
    """The values. Raises `TypeError` where one is not of the kind, which may be a protocol.

    It is raised where the mistake is written; at the call of the model nobody would see where the value came from.
    """
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"Expected {wanted}, but came {value!r}.")
    return values


class WithInteraction:
    """The `with_*` methods of an object that asks models: each returns a copy with other settings."""

    __slots__ = ()
    interaction: Interaction

    def _changed(self, **changes: Any) -> Self:
        return replace(cast("Any", self), **changes)

    def _with(self, **changes: Any) -> Self:
        return self._changed(interaction=replace(self.interaction, **changes))

    def _plus(self, **added: Iterable[object]) -> Self:
        return self._with(**{name: (*getattr(self.interaction, name), *new) for name, new in added.items()})

    @takes_options_of(LlmOptions)
    def with_llm(self, llm: str | LlmOptions | None = None, /, **changes: Any) -> Self:
        """Choose the model and its options: `with_llm("gpt-4.1")`, `with_llm(role="best", temperature=0.9)`.

        A name and single changes keep all other options; `LlmOptions` replace them. Raises `TypeError` for what is
        neither a name nor options, and pydantic's `ValidationError` for an option that does not exist or is out of its
        range.
        """
        if not isinstance(cast("object", llm), str | LlmOptions | None):
            raise TypeError(f"Expected a model's name or LlmOptions, but came {llm!r}.")
        named = {"model": llm} if isinstance(llm, str) else {}
        options = llm if isinstance(llm, LlmOptions) else self.interaction.llm
        return self._with(llm=options.but(**{**named, **changes}))

    def with_tools(self, *tools: Tool | Callable[..., Any]) -> Self:
        """Offer these tools too. A function is a tool, with or without `@tool`."""
        return self._plus(tools=tools_of(*tools))

    with_tool = with_tools

    def with_tool_groups(self, *groups: str | ToolGroup) -> Self:
        """Offer the tools of these groups: `ToolGroup` objects, or roles, whose groups are looked up at each call."""
        added = checked(groups, (str, ToolGroup), "roles of tool groups, or tool groups, one by one")
        named = [each for each in added if isinstance(each, str)]
        own = [tool for each in added if isinstance(each, ToolGroup) for tool in each.tools]
        roles = tuple(dict.fromkeys((*self.interaction.tool_groups, *named)))
        return self._with(tool_groups=roles, tools=(*self.interaction.tools, *own))

    with_tool_group = with_tool_groups

    def with_tool_chaining_from(self, *kinds: type, select: Callable[[Any, Tool], bool] | None = None) -> Self:
        """Offer the `@tool` methods of each object of these types that a tool returns, from then on.

        Of each class, only the newest object counts. `select` decides by the object and the tool whether it is offered.
        The class `object` means every object. Raises `TypeError` for an argument that is no class.
        """
        added = checked(kinds, type, "classes whose objects have tools")
        return self._plus(chaining=(ToolChaining(each, select) for each in added))


class ReplyRecord(Protocol):
    """The place for one reply of a model in the journal of an action. The action may be run again."""

    @property
    def reply(self) -> ModelReply | None:
        """What the model replied when the action ran before; None: the model has to be asked."""
        ...

    async def keep(self, reply: ModelReply, /) -> None:
        """Store the reply of the model."""
        ...


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
        messages = [*map(_in_words, call.messages[len(system) :])]
        tools = [f"{each.name}: {each.description}\n{json.dumps(each.input_schema)}" for each in call.tools]
        head = {
            "system prompt": "".join(system),
            "tools": "\n".join(tools),
            "form of the answer": f"{call.output.name}\n{json.dumps(call.output.schema)}" if call.output else "",
        }
        before, self._heads[interaction] = self._heads.get(interaction, {}), head
        same = [title for title, text in head.items() if text and text == before.get(title)]
        seen, so_far, known = self._conversations[interaction], 0, 0
        for message in messages:
            so_far = hash((so_far, message))
            known += so_far in seen
            seen.add(so_far)
        if known := min(known, max(len(messages) - 1, 0)):
            same.append(counted(known, "message"))
        return "\n\n".join(
            [
                *([f"(as before: {', '.join(same)})"] if same else []),
                *(f"{title}:\n{text or '(none)'}" for title, text in head.items() if text != before.get(title, "")),
                *messages[known:],
            ]
        )


def _in_words(message: Message) -> str:
    match message:
        case SystemMessage():
            said, more = "system", []
        case UserMessage():
            said, more = "user", []
        case AssistantMessage(calls=calls):
            said, more = "assistant", [f"calls {each.name} {each.arguments}" for each in calls]
        case ToolReply(name=name):
            said, more = f"result of {name}", []
    images = message.images if isinstance(message, UserMessage | ToolReply) else ()
    return "\n".join([f"{said}:\n{message.content}", *more, *(f"(an image, {each.media_type})" for each in images)])


class Operation:
    """The work that requests belong to: an action of a process; here none, so that events and costs are ignored."""

    place: tuple[str, str] = ("", "")
    """The id of the process and the name of the action; both are empty outside of a process."""
    prompts: SentPrompts | None = None
    """What models were sent so far for this process; None: nothing."""

    def record(self, model: str, call: ModelCall, /) -> ReplyRecord | None:
        """The place for the reply in a journal; None: there is no journal. Called once for each request, in order."""

    def emit(self, event: Event, /) -> None:
        """Send an event to the listeners of the process."""

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Count one request to a model, and the seconds that it took, towards the process."""

    def decline(self, reason: str, /) -> None:
        """Note the reason that the model gave for making no object."""

    def note_missing(self, role: str, why: str, /) -> None:
        """Note what is missing of the tool group of a role, in sentences."""
        _log.warning("%s", why)

    async def before_turn(self, tool: str, /) -> None:
        """Called before each request to a model (`tool` is empty) and each call of a tool.

        It waits for as long as the delays of the run say. Raises a `Signal` when the budget is spent or the process
        is to end.
        """


class ToolContext(NamedTuple):
    """What a running tool can reach: the process that it works for, and an engine to ask models."""

    process: object = None
    """The `AgentProcess` that the tool works for, whose class is on a higher floor; None: there is none."""
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
