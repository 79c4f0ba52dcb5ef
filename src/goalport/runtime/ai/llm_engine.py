"""The engine that asks real models. It knows the order of the steps, each of which is a module of its own.

The steps are: `output_type`, `toolbox` and the system prompt make the request, `guards` check the input, `tool_loop`
and `structured_output` get the answer, and `guards` check the output. Above: `process` makes an engine for each action,
`platform` one for everything outside of processes.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final, cast

import anyio

from goalport.base.errors import GoalportError, ModelNotReady, Signal, ToolError
from goalport.base.observe.spans import embeddings_span
from goalport.base.words import type_name
from goalport.knowledge.references import LlmReference, NamedReferences, QuestionAware, Refreshing
from goalport.knowledge.references.reference import described
from goalport.models.llm import (
    LanguageModel,
    LlmOperations,
    LlmOptions,
    Message,
    Models,
    OutputSpec,
    SystemMessage,
    TokenUsage,
    UserMessage,
    Vectors,
    check_vector_count,
)
from goalport.models.prompts import KnowledgeCutoffDate, Templates, contribution_of
from goalport.runtime.ai.engine import Interaction, Operation, Pieces, Request
from goalport.runtime.ai.guards import Guard, GuardChain
from goalport.runtime.ai.output_type import OutputType, Services, output_type
from goalport.runtime.ai.structured_output import JSON_LINES, create_value, stream_objects, stream_text
from goalport.runtime.ai.tool_loop import ToolLoop
from goalport.runtime.ai.toolbox import ToolOffers, missing_in_words, toolbox
from goalport.tools import Tool, ToolGroupRequirement, ToolGroupResolver

_log = logging.getLogger(__name__)
_SECONDS: Final = 5.0
"""The most seconds that a request waits for its references; a slower one is read by its tools."""
_MAYBE: Final = (
    "You may not have enough information to give what is asked for. Then make nothing up: "
    "leave the result null, and say in `failure` what information is missing."
)
"""The instruction to a model that may decline, unless the settings name a template for it."""


def _no_subagent(agent: object, /) -> Tool:
    raise GoalportError(f"Expected the `Ai` of a platform, whose actions can run {agent!r}, but it has none.")


@dataclass(frozen=True, slots=True)
class LlmEngine:
    """Carries out the requests of an `Ai` with real models, as part of an operation."""

    models: Models
    groups: Callable[[], ToolGroupResolver]
    """Gives the tool groups as they are now; called at each request."""
    settings: LlmOperations = field(default_factory=LlmOperations)
    operation: Operation = field(default_factory=Operation)
    guards: Sequence[Guard] = ()
    """The guards of all calls; they check before the guards of a single call."""
    templates: Templates = field(default_factory=Templates)
    services: Services | None = None
    """The services for validators of the types that are asked for."""
    references: Callable[[], NamedReferences] = NamedReferences
    """Gives the current references and contributors, by name."""
    ended: Callable[[str, float, bool], None] = lambda _model, _seconds, _failed: None
    """Called after each request of a model."""
    subagent: Callable[[object], Tool] = _no_subagent
    """Makes the tool that runs an agent. Raises `DeclarationError` if it is unclear what the agent takes or gives."""

    async def run(self, request: Request, /) -> object:
        """The text or the object that was asked for; None when the model declined.

        Raises the kind of `ModelError` that fits, and `DeclarationError`, before any call, for a type that JSON cannot
        express and for two tools of one name.
        """
        output, guards, request = await self._ready(request)
        form: list[str] = []
        if output and output.may_decline:
            template = self.settings.maybe_prompt_template
            form.append(self.templates.render(template, {"type": output.name}) if template else _MAYBE)
        wanted = request.interaction.generate_examples
        if output and output.example and (self.settings.generate_examples_by_default if wanted is None else wanted):
            form.append(f"The form of the answer, with made-up values:\n{output.example}")
        loop = self._loop(request, output and output.spec, form)
        if output is None:
            text = (await loop.run()).text
            value: object = text
        else:
            value, text = await create_value(loop, output)
        await guards.check_output(text)
        return value

    async def stream(self, request: Request, /) -> Pieces:
        """The same piece by piece; `structured_output` says how objects are corrected and guards are asked."""
        output, guards, request = await self._ready(request)
        loop = self._loop(request, None, [JSON_LINES.format(json.dumps(output.spec.schema))] if output else [])
        async with aclosing(stream_objects(loop, output, guards) if output else stream_text(loop, guards)) as pieces:
            async for piece in pieces:
                yield piece

    async def embed(self, interaction: Interaction, texts: Sequence[str], /) -> list[list[float]]:
        """One vector for each text, by the interaction's embedding service. It counts as a request to a model.

        Raises the kind of `ModelError` that fits, also when there are not as many vectors as texts.
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

    async def _ready(self, request: Request) -> tuple[OutputType | None, GuardChain, Request]:
        """Check the input; returns the output type, the guards, and the request with up-to-date references.

        Waits until people have signed in for the tools of its groups.
        """
        output, interaction = None, request.interaction
        if request.output is not None:
            output = output_type(request.output, may_decline=request.may_decline, properties=request.properties)
            output = replace(output, services=self.services) if self.services else output
        guards = GuardChain((*self.guards, *interaction.guards), self.operation.place, self.operation.emit)
        await guards.check_input(request.messages)
        for role in interaction.tool_groups:
            await self.groups().obtain(ToolGroupRequirement(role))
        if interaction.references:
            references = await ready_references(interaction.references, request.messages)
            request = replace(request, interaction=replace(interaction, references=references))
        return output, guards, request

    def _loop(self, request: Request, output: OutputSpec | None, form: Sequence[str]) -> ToolLoop:
        interaction, operation, groups = request.interaction, self.operation, self.groups()
        candidates = self._candidates(interaction)
        model, options = next(candidates)
        tools = toolbox(interaction, groups)
        missing = {role: why for role in interaction.tool_groups if (why := groups.lacking(role))}
        for role, why in missing.items():
            operation.note_missing(role, why)
        if request.needs_tools and not tools.tools:
            roles = ", ".join(map(repr, interaction.tool_groups))
            raise ToolError(f"There are no tools to work with{f' in the groups {roles}' if roles else ''}.")
        card, persona = model.card, options.persona
        texts = [interaction.system_prompt]
        if persona:
            texts.append(f"Your persona: {persona}" if isinstance(persona, str) else persona.contribution())
        texts += (*card.contributors, *map(contribution_of, interaction.contributors))
        texts += map(described, interaction.references)
        if card.knowledge_cutoff:
            texts.append(KnowledgeCutoffDate(card.knowledge_cutoff).contribution())
        text = "\n\n".join(filter(None, map(str.strip, (*texts, *form))))
        if (notice := missing_in_words(missing, groups)) and text:
            notice = f"\n\n{notice}"
        messages: list[Message] = [SystemMessage(f"{text}{notice}", notice)] if text or notice else []
        messages += request.messages
        if images := interaction.images:  # in the newest user message
            users = (n for n in reversed(range(len(messages))) if isinstance(messages[n], UserMessage))
            place = next(users, len(messages))
            newest = cast("list[UserMessage]", messages[place : place + 1] or [UserMessage("")])[0]
            messages[place : place + 1] = [UserMessage(newest.content, (*newest.images, *images))]
        wanted = "text" if request.output is None else type_name(request.output)
        return ToolLoop(
            request=request,
            name=interaction.id or f"{operation.place[1] or request.verb}-{wanted}",
            messages=messages,
            offers=ToolOffers(tools, interaction, self.settings.tool_result_characters),
            model=model,
            options=options,
            fallbacks=candidates,
            operation=operation,
            settings=self.settings,
            engine=self,
            ended=self.ended,
            output=output,
        )

    def _candidates(self, interaction: Interaction) -> Iterator[tuple[LanguageModel, LlmOptions]]:
        """The model that is asked, then its fallbacks. Raises `ModelNotReady` when none of them can be asked."""
        unready: ModelNotReady | None = None
        found = False
        first = self.models.complete(interaction.llm)
        for llm in (first, *interaction.fallbacks, *self.models.fallbacks(interaction.llm)):
            options = self.models.complete(llm) if isinstance(llm, LlmOptions) else first.but(model=llm)
            try:
                model = self.models.choose(options)
            except ModelNotReady as error:
                unready = unready or error
                continue
            found = True
            yield model, options
        if unready is not None and not found:
            raise unready


async def ready_references(
    references: Sequence[LlmReference], messages: Sequence[Message], seconds: float = _SECONDS
) -> tuple[LlmReference, ...]:
    """The references for one request, all made ready at the same time, within some seconds.

    One that fails or takes longer is used as it was, with a warning. Raises the `Signal` that a reference raises.
    """
    ready, waited_for, signals = list(references), set[str](), list[Signal]()
    question = next((each.content for each in reversed(messages) if isinstance(each, UserMessage)), "")

    async def prepare(place: int, reference: LlmReference) -> None:
        waited_for.add(reference.name)
        try:
            if isinstance(reference, Refreshing):
                await reference.refresh()
            if isinstance(reference, QuestionAware) and question.strip():
                ready[place] = await reference.for_question(question)
        except Signal as signal:
            signals.append(signal)
        except Exception as error:
            _log.warning("The reference %r is used as it was: %r", reference.name, error)
        waited_for.discard(reference.name)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as group:
            for place, reference in enumerate(references):
                if isinstance(reference, Refreshing | QuestionAware):
                    group.start_soon(prepare, place, reference)
    if signals:
        raise signals[0]
    for name in sorted(waited_for):
        _log.warning("The reference %r was not ready within %g seconds and is used as it was.", name, seconds)
    return tuple(ready)
