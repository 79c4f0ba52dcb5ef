"""`Ai`: what an action, or any other code, asks a model through. User guide, sections 2.4 and 3.8.2.

Immutable: each `with_*` gives a copy, so that one can be kept and used again, by several tasks at once. It only makes
requests; an `Engine` carries them out. Some methods have a second name, in the singular, since the guide uses both.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypedDict, TypeVar, cast, overload

from typing_extensions import TypeForm, Unpack

from goalport.ai.around import around
from goalport.ai.conditions import evaluate
from goalport.ai.creating import Creation
from goalport.ai.engine import Engine, Request
from goalport.ai.given import conversation, each
from goalport.ai.guards import Guard
from goalport.ai.interaction import Interaction
from goalport.ai.streaming import Streaming
from goalport.errors import GoalportError
from goalport.llm import AssistantMessage, Image, LlmOptions, Message, ModelReply, Thinking, UserMessage
from goalport.prompts import PromptContributor
from goalport.references import LlmReference
from goalport.tools import Tool, tools_of

__all__ = ["Ai", "LlmChanges", "changed_llm"]

T = TypeVar("T")


class LlmChanges(TypedDict, total=False):
    """What `with_llm` may change by name; `LlmOptions` says what each means."""

    model: str | None
    role: str | None
    auto: bool
    first_of: tuple[str, ...]
    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_tokens: int | None
    frequency_penalty: float | None
    presence_penalty: float | None
    timeout: float | None
    thinking: Thinking | bool | None


def changed_llm(before: LlmOptions, llm: str | LlmOptions | None, changes: LlmChanges) -> LlmOptions:
    """The options that `with_llm` leads to."""
    if not isinstance(cast("object", llm), str | LlmOptions | None):
        raise TypeError(f"Expected a model's name or LlmOptions, but came {llm!r}.")
    options = llm if isinstance(llm, LlmOptions) else before
    named: LlmChanges = {"model": llm} if isinstance(llm, str) else {}
    return options.but(**{**named, **changes})


@dataclass(frozen=True, slots=True)
class Ai:
    """A way to a model: `await ai.with_llm(role="best").create_object("Make up a story", Story)`."""

    engine: Engine = field(repr=False)
    interaction: Interaction = field(default_factory=Interaction)
    """What everything is asked with."""

    @classmethod
    def __goalport_current__(cls) -> "Ai":
        """What a tool gets that takes an `Ai`: a way to the models of whatever called it."""
        engine = around().engine
        if engine is None:
            raise GoalportError("Expected to be called by a model or in an action, but no model can be asked here.")
        return Ai(engine())

    def with_llm(self, llm: str | LlmOptions | None = None, /, **changes: Unpack[LlmChanges]) -> Self:
        """Ask this model, and so: `with_llm("gpt-4.1")`, `with_llm(role="best", temperature=0.9)`, `with_llm(options)`.

        Options replace all that was said before; a name and single changes keep the rest.
        """
        return self._but(llm=changed_llm(self.interaction.llm, llm, changes))

    def with_default_llm(self) -> Self:
        """Ask the model that the settings call the default one."""
        return self.with_llm(model=None)

    def with_auto_llm(self) -> Self:
        """Let the platform choose the model."""
        return self.with_llm(auto=True)

    def with_llm_by_role(self, role: str) -> Self:
        """Ask the model that the settings give this role, as `with_llm(role=…)` does."""
        return self.with_llm(role=role)

    def with_first_available_llm_of(self, *names: str) -> Self:
        """Ask the first of these models that can be asked."""
        if not names:
            raise TypeError("Expected at least one name of a model, but came none.")
        return self.with_llm(first_of=names)

    def with_fallback(self, *llms: str | LlmOptions) -> Self:
        """Ask these, one after another, when a model cannot be asked or gives no answer after all its attempts.

        A name keeps the temperature and all else that is said; options replace it.
        """
        given = each(llms, (str, LlmOptions), "names of models or LlmOptions")
        return self._but(fallbacks=(*self.interaction.fallbacks, *given))

    def with_tool_groups(self, *roles: str) -> Self:
        """Offer the tools of whichever groups play these roles when the model is asked."""
        given = each(roles, str, "roles of tool groups, one by one")
        return self._but(tool_groups=tuple(dict.fromkeys((*self.interaction.tool_groups, *given))))

    with_tool_group = with_tool_groups

    def with_tools(self, *tools: Tool | Callable[..., Any]) -> Self:
        """Offer these tools; a function is one, marked with `@tool` or not."""
        return self._but(tools=(*self.interaction.tools, *tools_of(*tools)))

    def with_tool_objects(self, *objects: object) -> Self:
        """Offer the `@tool` methods of these objects. A domain object's tools are offered in no other way."""
        return self._but(tools=(*self.interaction.tools, *tools_of(*objects)))

    with_tool_object = with_tool_objects

    def with_references(self, *references: LlmReference) -> Self:
        """Tell of these references, and offer their tools under their names as prefixes."""
        given = each(references, LlmReference, "references, like Reference(name, description, text)")
        return self._but(references=(*self.interaction.references, *given))

    with_reference = with_references

    def with_prompt_contributors(self, *contributors: PromptContributor) -> Self:
        """Add to the system prompt what these say when the model is asked."""
        given = each(contributors, PromptContributor, "what has a method contribution, like Text('…')")
        return self._but(contributors=(*self.interaction.contributors, *given))

    with_prompt_contributor = with_prompt_contributors

    def with_system_prompt(self, text: str) -> Self:
        """Begin the system prompt with this text."""
        (given,) = each((text,), str, "a text")
        return self._but(system_prompt=given)

    def with_images(self, *images: Image) -> Self:
        """Show the model these images with the prompt."""
        given = each(images, Image, "images, like Image.from_path('map.png')")
        return self._but(images=(*self.interaction.images, *given))

    def with_generate_examples(self, generate: bool = True) -> Self:  # noqa: FBT001, FBT002 - reads as a sentence
        """Whether a prompt for an object shows a made-up example of one."""
        return self._but(generate_examples=generate)

    def with_template(self, name: str) -> Self:
        """Make prompts of this template: the verbs then take its variables where they otherwise take the prompt."""
        return self._but(template=name)

    def with_guard(self, *guards: Guard) -> Self:
        """Let these look at what goes in and comes out, beside the guards of the platform."""
        given = each(guards, Guard, "guards, with check_input and check_output")
        return self._but(guards=(*self.interaction.guards, *given))

    def with_id(self, name: str) -> Self:
        """Name the prompt, for events, spans and tests."""
        return self._but(id=name)

    def with_embedding_service(self, name: str) -> Self:
        """Embed texts with this service."""
        return self._but(embedding_service=name)

    @overload
    async def create_object(self, prompt: str, kind: TypeForm[T], /) -> T: ...
    @overload
    async def create_object(self, kind: TypeForm[T], variables: Mapping[str, object], /) -> T: ...
    async def create_object(self, first: Any, second: Any, /) -> Any:
        """An object of a type: `create_object("Make up a story", Story)`, and with a template `(Story, {…})`.

        The type may be whatever JSON can express: pydantic models, dataclasses, TypedDicts, lists, enums, unions,
        numbers. Raises `InvalidModelOutput` when the model gave none even after it was told what is wrong, other
        `ModelError`s when it could not be asked, and `DeclarationError`, before any call, for a type that no model
        can give.
        """
        prompt, kind = self._prompt_and_kind(first, second)
        return await self._ask("create_object", prompt, kind)

    @overload
    async def create_object_if_possible(self, prompt: str, kind: TypeForm[T], /) -> T | None: ...
    @overload
    async def create_object_if_possible(self, kind: TypeForm[T], variables: Mapping[str, object], /) -> T | None: ...
    async def create_object_if_possible(self, first: Any, second: Any, /) -> Any:
        """As `create_object`, and None when the model says that it knows too little to make one."""
        prompt, kind = self._prompt_and_kind(first, second)
        return await self._ask("create_object_if_possible", prompt, kind, may_decline=True)

    async def generate_text(self, prompt: str | Mapping[str, object], /) -> str:
        """What the model says to a prompt, or to the template's text when variables are given."""
        return cast("str", await self._ask("generate_text", self._prompt(prompt)))

    async def respond(self, messages: Iterable[Message], /) -> AssistantMessage:
        """What the model says next in a conversation, and why it ended there."""
        request = Request(interaction=self.interaction, messages=conversation(messages), verb="respond")
        return await self._respond(request)

    async def respond_with_system_prompt(
        self, messages: Iterable[Message], system_prompt: str | Mapping[str, object], /
    ) -> AssistantMessage:
        """As `respond`, under a system prompt: its text, or the variables of the template that makes it."""
        interaction = replace(self.interaction, system_prompt=self._prompt(system_prompt))
        request = Request(interaction=interaction, messages=conversation(messages), verb="respond_with_system_prompt")
        return await self._respond(request)

    async def evaluate_condition(self, condition: str, context: str, confidence_threshold: float = 0.8) -> bool:
        """Whether the model holds a condition to be true of a context, with at least that confidence (0 to 1)."""
        return await evaluate(self.engine, self.interaction, condition, context, confidence_threshold)

    def creating(self, kind: TypeForm[T], /) -> Creation[T]:
        """Make an object with more ado: examples, fewer properties, messages or a template instead of a prompt."""
        return Creation(self.engine, self.interaction, kind)

    def streaming(self) -> Streaming:
        """Get text or objects as they come."""
        return Streaming(self.engine, self.interaction)

    async def embed(self, *texts: str) -> list[list[float]]:
        """A vector for each text."""
        return await self.engine.embed(self.interaction, texts)

    async def _ask(self, verb: str, prompt: str, kind: object = None, *, may_decline: bool = False) -> object:
        messages = (UserMessage(prompt),)
        return await self.engine.run(
            Request(interaction=self.interaction, messages=messages, output=kind, may_decline=may_decline, verb=verb)
        )

    async def _respond(self, request: Request) -> AssistantMessage:
        replies = list[ModelReply]()
        said = cast("str", await self.engine.run(replace(request, on_reply=replies.append)))
        return AssistantMessage(said, finish=replies[-1].finish if replies else "stop")

    def _prompt_and_kind(self, first: object, second: object) -> tuple[str, object]:
        if isinstance(second, Mapping):
            return self._prompt(cast("Mapping[str, object]", second)), first
        if isinstance(first, str) and second is not None:
            return self._prompt(first), second
        raise TypeError(f"Expected a prompt and a type, or a type and the template's variables, but came {first!r}.")

    def _prompt(self, given: str | Mapping[str, object]) -> str:
        template = self.interaction.template
        if isinstance(given, str) and not template:
            return given
        if not isinstance(given, str) and template:
            return self.engine.render(template, given)
        wanted = "the template's variables, as a mapping" if template else "a prompt; `with_template` names a template"
        raise TypeError(f"Expected {wanted}, but came {given!r}.")

    def _but(self, **changes: Any) -> Self:
        return replace(self, interaction=replace(self.interaction, **changes))
