"""What a prompt is run with, as data: the settings of one call (`Interaction`), of all calls, and the request itself.

`Ai` copies an `Interaction` with changes and makes a `Request` of it. Nothing here asks a model. Above: `engine` is the
interface to whoever carries requests out.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, ParamSpec, Protocol, TypeVar, cast

from pydantic import Field

from goalport.knowledge.references import LlmReference
from goalport.models.llm import (
    AssistantMessage,
    Image,
    LlmOptions,
    Message,
    ModelReply,
    SystemMessage,
    ToolReply,
    UserMessage,
)
from goalport.models.prompts import PromptContributor
from goalport.runtime.ai.guards import Guard
from goalport.tools import Tool, ToolResult

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Options = ParamSpec("Options")
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
_MESSAGES: Final = (SystemMessage, UserMessage, AssistantMessage, ToolReply)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool in a conversation with a model, and its result."""

    tool: str
    """The tool's own name."""
    result: ToolResult


@dataclass(frozen=True, slots=True)
class ToolChaining:
    """Offers the `@tool` methods of objects that tools return, of one type, to the model from then on."""

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
    """The models that are asked, one after another, when that one fails."""
    tool_groups: tuple[str, ...] = ()
    """Roles of tool groups; the groups that play them are looked up at each call."""
    tools: tuple[Tool, ...] = ()
    """Tools beside those of the groups; those of tool objects are here too."""
    withholds: Callable[[Sequence[ToolUse]], Collection[str]] | None = None
    """Gives the names of tools that are not offered now, by the calls so far; None: all tools are offered."""
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
    """The template of which prompts are made. `Ai` has rendered it before an engine sees a request."""
    guards: tuple[Guard, ...] = ()
    """Guards beside those of the platform."""
    embedding_service: str = ""
    """The name of the embedding service; empty: the default one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One thing that is asked of an `Ai`."""

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
    """Called with each object that a tool gave besides its text."""


def changed_llm(before: LlmOptions, llm: str | LlmOptions | None, changes: Mapping[str, object]) -> LlmOptions:
    """The options after `with_llm(llm, **changes)`: options replace those before, a name and changes keep the rest.

    Raises `TypeError` for what is neither a name nor options, and pydantic's `ValidationError` for a bad change.
    """
    if not isinstance(cast("object", llm), str | LlmOptions | None):
        raise TypeError(f"Expected a model's name or LlmOptions, but came {llm!r}.")
    options = llm if isinstance(llm, LlmOptions) else before
    named = {"model": llm} if isinstance(llm, str) else {}
    return options.but(**{**named, **changes})


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


def checked_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages, which may be none when images go with them. Raises `TypeError` for anything else."""
    values = tuple(cast("Iterable[Any]", messages))
    if not all(isinstance(value, _MESSAGES) for value in values):
        raise TypeError(f"Expected messages, like UserMessage('…'), but came {messages!r}.")
    return values


def chained_from(kinds: tuple[type, ...], select: Callable[[Any, Tool], bool] | None) -> tuple[ToolChaining, ...]:
    """The chaining of tools from objects of these types. Raises `TypeError` for what is no class."""
    return tuple(ToolChaining(each, select) for each in checked(kinds, type, "classes whose objects have tools"))
