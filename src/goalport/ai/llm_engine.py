"""The engine that asks models: it puts a request together, and has it guarded, asked, looped and bound.

Each of these is a module of its own; this one knows their order. Above: `process` makes an engine for each action,
`platform` one for all that runs outside of processes.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from time import monotonic

from goalport.ai.asking import Asking
from goalport.ai.binding import bind
from goalport.ai.calling import ToolCalls
from goalport.ai.engine import Operation, Outside, Request, StreamedObject
from goalport.ai.guarding import Guarding
from goalport.ai.guards import Guard
from goalport.ai.interaction import Interaction
from goalport.ai.loop import ToolLoop
from goalport.ai.operations import LlmOperations
from goalport.ai.shapes import OutputShape, output_shape
from goalport.ai.streams import form_of, stream_objects, stream_text
from goalport.ai.system_prompt import MAYBE, all_messages
from goalport.ai.toolbox import toolbox
from goalport.ai.validating import Services
from goalport.errors import ModelNotReady, ToolError
from goalport.llm import (
    LanguageModel,
    LlmOptions,
    Models,
    OutputSpec,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    Vectors,
    check_vector_count,
)
from goalport.observe.spans import embeddings_span
from goalport.prompts import Templates
from goalport.tools import ToolGroupResolver
from goalport.words import type_name

__all__ = ["LlmEngine"]


@dataclass(frozen=True, slots=True)
class LlmEngine:
    """Carries out what an `Ai` is asked for, with real models, as part of an operation."""

    models: Models
    groups: Callable[[], ToolGroupResolver]
    """The tool groups as they are now; asked at each request."""
    settings: LlmOperations = field(default_factory=LlmOperations)
    operation: Operation = field(default_factory=Outside)
    guards: Sequence[Guard] = ()
    """Of every call, before those that a call brings."""
    templates: Templates = field(default_factory=Templates)
    services: Services | None = None
    """For the validators of the types that are asked for."""

    async def run(self, request: Request, /) -> object:
        """The text or the object that was asked for; None: the model declined. Raises `ModelError`, by its kind.

        A type that JSON cannot express and two tools of one name are `DeclarationError`s, before any call.
        """
        shape = self._shape(request)
        loop = self._loop(request, shape and shape.spec, self._form(request, shape))
        guarding = self._guarding(request)
        await guarding.check_input(request.messages)
        if shape is None:
            text = (await loop.run()).text
            value: object = text
        else:
            value, text = await bind(loop, shape, self.settings)
        await guarding.check_output(text)
        return value

    async def stream(self, request: Request, /) -> AsyncGenerator[TextDelta | ThinkingDelta | StreamedObject[object]]:
        """The same piece by piece; see `streams` for repairs and guards."""
        shape = self._shape(request)
        loop = self._loop(request, None, (form_of(shape),) if shape else ())
        guarding = self._guarding(request)
        await guarding.check_input(request.messages)
        given = stream_objects(loop, shape, self.settings, guarding) if shape else stream_text(loop, guarding)
        async with aclosing(given) as pieces:
            async for piece in pieces:
                yield piece

    async def embed(self, interaction: Interaction, texts: Sequence[str], /) -> list[list[float]]:
        """A vector for each text, by the interaction's embedding service; it counts as a request of a model does.

        Raises `ModelError`, by its kind, also when there are not as many vectors as texts.
        """
        if not texts:
            return []
        service = self.models.embedding(interaction.embedding_service)
        await self.operation.before_turn("")
        started = monotonic()
        with embeddings_span(service.name):
            vectors = await service.embed(texts)
        usage = vectors.usage if isinstance(vectors, Vectors) else TokenUsage()
        self.operation.spend(service.name, usage, monotonic() - started)
        check_vector_count(service.name, texts, vectors)
        return [*vectors]

    def render(self, template: str, variables: Mapping[str, object], /) -> str:
        """The text that a template gives. Raises `UnknownName` and `TemplateError`."""
        return self.templates.render(template, variables)

    def _loop(self, request: Request, output: OutputSpec | None, form: Sequence[str]) -> ToolLoop:
        interaction = request.interaction
        candidates = self._candidates(interaction)
        model, options = next(candidates)
        tools = toolbox(interaction, self.groups())
        if request.needs_tools and not tools.tools:
            roles = ", ".join(map(repr, interaction.tool_groups))
            raise ToolError(f"There are no tools to work with{f' in the groups {roles}' if roles else ''}.")
        seconds = self.settings.default_timeout
        return ToolLoop(
            Asking(
                model, self.operation, self._name(request), request, seconds, tools.specs, output, candidates, options
            ),
            ToolCalls(tools, self.operation, self.settings, self),
            all_messages(request.messages, interaction, model.card, form),
        )

    def _candidates(self, interaction: Interaction) -> Iterator[tuple[LanguageModel, LlmOptions]]:
        """The model that is asked, and those that are when it fails. Raises `ModelNotReady` when none can be asked."""
        unready: ModelNotReady | None = None
        found = False
        for llm in (interaction.llm, *interaction.fallbacks):
            options = llm if isinstance(llm, LlmOptions) else interaction.llm.but(model=llm)
            try:
                model = self.models.choose(options)
            except ModelNotReady as error:
                unready = unready or error
                continue
            found = True
            yield model, options
        if unready is not None and not found:
            raise unready

    def _form(self, request: Request, shape: OutputShape | None) -> list[str]:
        """What the system prompt says of the form of the answer, beside the schema."""
        if shape is None:
            return []
        wanted = request.interaction.generate_examples
        shown = self.settings.generate_examples_by_default if wanted is None else wanted
        example = shape.example if shown else ""
        return [
            *([self._maybe(shape)] if shape.may_decline else []),
            *([f"The form of the answer, with made-up values:\n{example}"] if example else []),
        ]

    def _maybe(self, shape: OutputShape) -> str:
        template = self.settings.maybe_prompt_template
        return self.render(template, {"type": shape.name}) if template else MAYBE

    def _name(self, request: Request) -> str:
        _, action = self.operation.place
        wanted = "text" if request.output is None else type_name(request.output)
        return request.interaction.id or f"{action or request.verb}-{wanted}"

    def _guarding(self, request: Request) -> Guarding:
        return Guarding((*self.guards, *request.interaction.guards), self.operation)

    def _shape(self, request: Request) -> OutputShape | None:
        if request.output is None:
            return None
        shape = output_shape(request.output, may_decline=request.may_decline, properties=request.properties)
        return replace(shape, services=self.services) if self.services else shape
