"""`Ai`: the object through which an action, or any other code, asks a model. User guide, sections 2.4 and 3.8.2.

It is immutable: each `with_*` gives a copy, which can be kept and used by several tasks at once. `Creation` makes one
object step by step, `Streaming` gives text and objects while the model writes them (section 3.22). All three only make
requests; an `Engine` carries them out. Some methods have a second name, in the singular, because the guide uses both.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Annotated, Any, Final, Generic, NoReturn, ParamSpec, Self, TypeVar, cast, overload

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeForm

from goalport.base.errors import GoalportError, NonRetryable
from goalport.knowledge.references import LlmReference
from goalport.models.llm import (
    AssistantMessage,
    Image,
    LlmOptions,
    Message,
    ModelReply,
    SystemMessage,
    TextDelta,
    ThinkingDelta,
    ToolReply,
    UserMessage,
)
from goalport.models.prompts import Example, PromptContributor
from goalport.runtime.ai.engine import (
    Engine,
    Interaction,
    Request,
    StreamedObject,
    WithInteraction,
    checked,
    tool_context,
)
from goalport.runtime.ai.guards import Guard
from goalport.tools import Tool, tools_of

T = TypeVar("T")
P = ParamSpec("P")
Prompt = str | Mapping[str, object]
"""A prompt, or the variables of the template that makes it."""
_MESSAGES: Final = (SystemMessage, UserMessage, AssistantMessage, ToolReply)


def to_be_awaited(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same async function; a result that is used without `await` raises an error that says so."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return _Unawaited(function(*args, **kwargs), function.__name__)

    return call


class _Unawaited(Coroutine[Any, Any, T]):
    """A coroutine that raises when it is used as if it were its result."""

    __slots__ = ("_coroutine", "_name")

    def __init__(self, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        self._coroutine, self._name = coroutine, name

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: object, /) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __bool__(self) -> NoReturn:
        raise NonRetryable(self._refuse())

    __str__ = __iter__ = __bool__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith(("_", "cr_", "gi_")):  # asyncio looks whether a coroutine has some of these
            raise AttributeError(name)
        raise AttributeError(self._refuse())

    def _refuse(self) -> str:
        self.close()  # otherwise Python warns of it a second time, later and elsewhere
        return f"The result of {self._name}(…) was not awaited. Write `await` before it, in an `async def`."


class Determination(BaseModel):
    """What you found about the condition."""

    model_config = ConfigDict(frozen=True)

    result: Annotated[bool, Field(description="Whether the condition holds for the context")]
    confidence: Annotated[float, Field(ge=0, le=1, description="How sure you are of the result; 1 is certain")]
    explanation: Annotated[str, Field(description="Why, in a sentence or two")]


@dataclass(frozen=True, slots=True)
class _Requester:
    """The common part of `Ai`, `Creation` and `Streaming`: makes requests for an engine."""

    engine: Engine = field(repr=False)
    interaction: Interaction
    """The settings of every request."""

    def _text(self, prompt: Prompt) -> str:
        """The prompt itself, or the text of the template for these variables.

        Raises `TypeError` for a text where variables are expected, and the other way round.
        """
        template = self.interaction.template
        if isinstance(prompt, str) and not template:
            return prompt
        if isinstance(prompt, Mapping) and template:
            return self.engine.templates.render(template, prompt)
        wanted = "the template's variables, as a mapping" if template else "a prompt; `with_template` names a template"
        raise TypeError(f"Expected {wanted}, but came {prompt!r}.")

    def _as_messages(self, prompt: Prompt) -> tuple[UserMessage]:
        return (UserMessage(self._text(prompt)),)

    def _request(self, verb: str, messages: Iterable[Message], **more: Any) -> Request:
        """A request with messages, which may be none when images go with them. Raises `TypeError` for anything else."""
        said = tuple(cast("Iterable[Any]", messages))
        if not all(isinstance(each, _MESSAGES) for each in said):
            raise TypeError(f"Expected messages, like UserMessage('…'), but came {messages!r}.")
        more.setdefault("interaction", self.interaction)
        return Request(messages=said, verb=verb, **more)


@dataclass(frozen=True, slots=True)
class Creation(_Requester, Generic[T]):
    """One object, made step by step: with examples, of some fields only, from messages or a template. Immutable.

    `await ai.creating(Story).with_example("A short one", Story("Once …")).from_prompt("A story about a fox")`.
    """

    kind: TypeForm[T]
    """The type of the object."""
    examples: tuple[tuple[str, T], ...] = ()
    properties: Callable[[str], bool] | None = None
    """Decides by name which fields the model is asked for; None: all."""

    def with_example(self, description: str, value: T) -> Self:
        """Show the model a good object: it is added to the system prompt as JSON, below its description."""
        return replace(self, examples=(*self.examples, (description, value)))

    def with_property_filter(self, wanted: Callable[[str], bool] | Iterable[str]) -> Self:
        """Ask for some fields only: those with these names, or those for whose names a function returns True.

        The others keep their defaults, whatever the model says, and examples do not show them. A field must pass all
        filters. Raises `TypeError` for a single string.
        """
        if isinstance(wanted, str):
            raise TypeError(f"Expected names of fields, or a function, but came one string; write [{wanted!r}].")
        before, chosen = self.properties, wanted if callable(wanted) else frozenset(wanted).__contains__

        def both(name: str) -> bool:
            return (before is None or before(name)) and chosen(name)

        return replace(self, properties=both)

    @to_be_awaited
    async def from_prompt(self, prompt: str) -> T:
        """Make the object from a prompt. Raises what `Ai.create_object` raises."""
        return await self.from_messages((UserMessage(prompt),))

    @to_be_awaited
    async def from_template(self, name: str, /, **variables: object) -> T:
        """Make the object from a template's text for these variables; see `goalport.models.Templates`.

        Raises `UnknownName` and `TemplateError` besides what `Ai.create_object` raises.
        """
        return await self.from_prompt(self.engine.templates.render(name, variables))

    @to_be_awaited
    async def from_messages(self, messages: Iterable[Message]) -> T:
        """Make the object from a conversation, the newest message last. Raises what `Ai.create_object` raises."""
        kind = cast("Any", self.kind)
        shown = (Example.of(description, kind, value, self.properties) for description, value in self.examples)
        interaction = replace(self.interaction, contributors=(*self.interaction.contributors, *shown))
        more = {"interaction": interaction, "output": self.kind, "properties": self.properties}
        return cast("T", await self.engine.run(self._request("creating", messages, **more)))


@dataclass(frozen=True, slots=True)
class Streaming(_Requester):
    """Text and objects while a model writes them.

    `async for month in ai.streaming().objects("The two hottest months in Florida", Month): …`. If the `Ai` has a
    template, pass its variables in place of the prompt. The iterators are generators: `contextlib.aclosing` around
    one, or its `aclose`, ends the request to the model at once.
    """

    async def text(self, prompt: Prompt) -> AsyncGenerator[str]:
        """The model's text, piece by piece. Raises what `Ai.generate_text` raises."""
        async with aclosing(self.engine.stream(self._request("streaming", self._as_messages(prompt)))) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextDelta):
                    yield piece.text

    async def respond(self, messages: Iterable[Message], /) -> AsyncGenerator[TextDelta | ThinkingDelta]:
        """The model's next message in a conversation, and the thoughts that it shows, piece by piece.

        Raises what `Ai.respond` raises.
        """
        async with aclosing(self.engine.stream(self._request("streaming", messages))) as pieces:
            async for piece in pieces:
                if not isinstance(piece, StreamedObject):
                    yield piece

    def respond_with_system_prompt(
        self, messages: Iterable[Message], system_prompt: Prompt, /
    ) -> AsyncGenerator[TextDelta | ThinkingDelta]:
        """As `respond`, with a system prompt: its text, or the variables of the template for it."""
        interaction = replace(self.interaction, system_prompt=self._text(system_prompt))
        return Streaming(self.engine, interaction).respond(messages)

    async def objects(self, prompt: Prompt, kind: TypeForm[T]) -> AsyncGenerator[T]:
        """One object after another, each as soon as it is whole and valid.

        Raises `InvalidModelOutput` for an object that is not valid, after the objects before it were yielded.
        """
        async with aclosing(self.objects_with_thinking(prompt, kind)) as pieces:
            async for piece in pieces:
                if isinstance(piece, StreamedObject):
                    yield piece.value

    async def objects_with_thinking(
        self, prompt: Prompt, kind: TypeForm[T]
    ) -> AsyncGenerator[StreamedObject[T] | ThinkingDelta]:
        """As `objects`, with the thoughts that the model shows between them."""
        async with aclosing(
            self.engine.stream(self._request("streaming", self._as_messages(prompt), output=kind))
        ) as pieces:
            async for piece in pieces:
                if not isinstance(piece, TextDelta):
                    yield cast("StreamedObject[T] | ThinkingDelta", piece)


@dataclass(frozen=True, slots=True)
class Ai(_Requester, WithInteraction):
    """Asks models: `await ai.with_llm(role="best").create_object("Make up a story", Story)`.

    The `with_*` methods raise `TypeError` for an argument of a wrong type, where the mistake is written, and
    `DeclarationError` for an object without tools where tools are expected.
    """

    interaction: Interaction = field(default_factory=Interaction)

    @classmethod
    def __goalport_current__(cls) -> "Ai":
        """The `Ai` for a tool that takes one: it asks through the engine of whatever called the tool."""
        engine = tool_context().engine
        if engine is None:
            raise GoalportError("Expected to be called by a model or in an action, but no model can be asked here.")
        return Ai(engine())

    def with_default_llm(self) -> Self:
        """Ask the default model of the settings."""
        return self.with_llm(model=None)

    def with_auto_llm(self) -> Self:
        """Let the platform choose the model."""
        return self.with_llm(auto=True)

    def with_llm_by_role(self, role: str) -> Self:
        """Ask the model that has this role in the settings; the same as `with_llm(role=…)`."""
        return self.with_llm(role=role)

    def with_first_available_llm_of(self, *names: str) -> Self:
        """Ask the first of these models that is available. Raises `TypeError` without any name."""
        if not names:
            raise TypeError("Expected at least one name of a model, but came none.")
        return self.with_llm(first_of=names)

    def with_fallback(self, *llms: str | LlmOptions) -> Self:
        """Ask these models, one after another, when a model cannot be asked or does not answer after all attempts.

        A name keeps the temperature and all other options; `LlmOptions` replace them.
        """
        return self._plus(fallbacks=checked(llms, (str, LlmOptions), "names of models or LlmOptions"))

    def with_subagents(self, *agents: object) -> Self:
        """Offer these agents as tools: instances, `Agent` objects, or results of `agent_tool`.

        An agent that a model calls runs as a process of its own, on a copy of the blackboard of the action, and its
        result goes back to the model. Raises `DeclarationError` for an agent with several goals, or
        several ways to start it: choose one with `agent_tool`.
        """
        return self._plus(tools=(each if isinstance(each, Tool) else self.engine.subagent(each) for each in agents))

    with_subagent = with_subagents

    def with_tool_objects(self, *objects: object) -> Self:
        """Offer the `@tool` methods of these objects. The tools of domain objects are offered in no other way."""
        return self._plus(tools=tools_of(*objects))

    with_tool_object = with_tool_objects

    def with_references(self, *references: LlmReference | str) -> Self:
        """Describe these references in the system prompt, and offer their tools with their names as prefixes.

        A text is the name of a reference in the workspace's `references.yml`. Raises `UnknownName` for another one. A
        reference that is given twice is used once.
        """
        named = self.engine.references().reference
        found = tuple(named(each) if isinstance(each, str) else each for each in references)
        added = checked(found, LlmReference, "references, like Reference(name, description, text)")
        once = {id(each): each for each in (*self.interaction.references, *added)}
        return self._with(references=tuple(once.values()))

    with_reference = with_references

    def with_prompt_contributors(self, *contributors: PromptContributor | str) -> Self:
        """Add to the system prompt what these contribute at each call; a text names a persona of `references.yml`."""
        named = self.engine.references().contributor
        found = tuple(named(each) if isinstance(each, str) else each for each in contributors)
        return self._plus(
            contributors=checked(found, PromptContributor, "what has a method contribution, like Text('…')")
        )

    with_prompt_contributor = with_prompt_contributors

    def with_system_prompt(self, text: str) -> Self:
        """Begin the system prompt with this text."""
        checked((text,), str, "a text")
        return self._with(system_prompt=text)

    def with_images(self, *images: Image) -> Self:
        """Show the model these images with the prompt."""
        return self._plus(images=checked(images, Image, "images, like Image.from_path('map.png')"))

    with_image = with_images

    def with_generate_examples(self, generate: bool = True) -> Self:  # noqa: FBT001, FBT002 - reads as a sentence
        """Show a made-up example in the prompt for an object, or do not."""
        return self._with(generate_examples=generate)

    def with_template(self, name: str) -> Self:
        """Render the prompts from this template: methods then take its variables in place of the prompt."""
        return self._with(template=name)

    def with_guard(self, *guards: Guard) -> Self:
        """Check prompts and answers with these guards, in addition to those of the platform."""
        return self._plus(guards=checked(guards, Guard, "guards, with check_input and check_output"))

    def with_id(self, name: str) -> Self:
        """Give the prompt a name for events, spans and tests."""
        return self._with(id=name)

    def with_embedding_service(self, name: str) -> Self:
        """Embed texts with the service of this name."""
        return self._with(embedding_service=name)

    @overload
    async def create_object(self, prompt: str, kind: TypeForm[T], /) -> T: ...
    @overload
    async def create_object(self, kind: TypeForm[T], variables: Mapping[str, object], /) -> T: ...
    @to_be_awaited
    async def create_object(self, first: Any, second: Any, /) -> Any:
        """An object of a type: `create_object("Make up a story", Story)`, or with a template `(Story, variables)`.

        The type may be anything that JSON can express: pydantic models, dataclasses, TypedDicts, lists, enums,
        unions, numbers. Raises `InvalidModelOutput` when the model gave no valid object even after a request to correct
        it, another `ModelError` when it could not be asked, and `DeclarationError`, before any call, for a type
        that JSON cannot express.
        """
        return await self._create("create_object", first, second)

    @overload
    async def create_object_if_possible(self, prompt: str, kind: TypeForm[T], /) -> T | None: ...
    @overload
    async def create_object_if_possible(self, kind: TypeForm[T], variables: Mapping[str, object], /) -> T | None: ...
    @to_be_awaited
    async def create_object_if_possible(self, first: Any, second: Any, /) -> Any:
        """As `create_object`, but None when the model says that it knows too little."""
        return await self._create("create_object_if_possible", first, second, may_decline=True)

    @to_be_awaited
    async def generate_text(self, prompt: Prompt, /) -> str:
        """The answer to a prompt, or to the template's text for these variables. Raises `ModelError`."""
        return cast("str", await self.engine.run(self._request("generate_text", self._as_messages(prompt))))

    @to_be_awaited
    async def respond(self, messages: Iterable[Message], /) -> AssistantMessage:
        """The model's next message in a conversation; `finish` says why it ended. Raises `ModelError`."""
        return await self._respond("respond", messages)

    @to_be_awaited
    async def respond_with_system_prompt(
        self, messages: Iterable[Message], system_prompt: Prompt, /
    ) -> AssistantMessage:
        """As `respond`, with a system prompt: its text, or the variables of the template for it."""
        interaction = replace(self.interaction, system_prompt=self._text(system_prompt))
        return await self._respond("respond_with_system_prompt", messages, interaction=interaction)

    @to_be_awaited
    async def evaluate_condition(self, condition: str, context: str, confidence_threshold: float = 0.8) -> bool:
        """Whether the model says that a condition is true of a context, with at least this confidence (0 to 1).

        Raises `ValueError` for a threshold below 0 or above 1, and `ModelError`.
        """
        if not 0 <= confidence_threshold <= 1:
            raise ValueError(f"Expected a confidence threshold from 0 to 1, but came {confidence_threshold!r}.")
        prompt = (
            "Judge whether this condition holds for the context below. Go by the context alone.\n\n"
            f"# Condition\n{condition}\n\n# Context\n{context}"
        )
        request = self._request("evaluate_condition", [UserMessage(prompt)], output=Determination)
        found = cast("Determination", await self.engine.run(request))
        return found.result and found.confidence >= confidence_threshold

    def creating(self, kind: TypeForm[T], /) -> Creation[T]:
        """Make an object step by step: with examples, of some fields only, from messages or a template."""
        return Creation(self.engine, self.interaction, kind)

    def streaming(self) -> Streaming:
        """Get text or objects while the model writes them."""
        return Streaming(self.engine, self.interaction)

    @to_be_awaited
    async def embed(self, *texts: str) -> list[list[float]]:
        """One vector for each text. Raises `ModelError`."""
        return await self.engine.embed(self.interaction, texts)

    async def _create(self, verb: str, first: object, second: object, *, may_decline: bool = False) -> object:
        if isinstance(second, Mapping):
            prompt, kind = cast("Prompt", second), first
        elif isinstance(first, str) and second is not None:
            prompt, kind = first, second
        else:
            raise TypeError(
                f"Expected a prompt and a type, or a type and the template's variables, but came {first!r}."
            )
        return await self.engine.run(
            self._request(verb, self._as_messages(prompt), output=kind, may_decline=may_decline)
        )

    async def _respond(self, verb: str, messages: Iterable[Message], **more: Any) -> AssistantMessage:
        replies = list[ModelReply]()
        text = await self.engine.run(self._request(verb, messages, on_reply=replies.append, **more))
        return AssistantMessage(cast("str", text), finish=replies[-1].finish if replies else "stop")
