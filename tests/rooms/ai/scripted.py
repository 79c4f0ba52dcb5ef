"""An `Ai` whose model says what a test wrote down, and an operation that remembers what it was told."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from goalport.base.errors import Signal
from goalport.base.events import Event
from goalport.models.llm import EmbeddingService, LanguageModel, Models, TokenUsage
from goalport.models.prompts import Templates
from goalport.runtime.ai import (
    Ai,
    LlmEngine,
    LlmOperations,
    Operation,
    SentPrompts,
)
from goalport.testing import ScriptedModel
from goalport.tools import ToolGroup, ToolGroupResolver

E = TypeVar("E")


@dataclass
class Watched(Operation):
    """An operation that remembers; it ends what it is part of before the call that `ends_before` counts to."""

    place: tuple[str, str] = ("process-1", "write_up")
    events: list[Event] = field(default_factory=list[Event])
    spent: list[tuple[str, TokenUsage]] = field(default_factory=list[tuple[str, TokenUsage]])
    turns: list[str] = field(default_factory=list[str])
    declined: list[str] = field(default_factory=list[str])
    missing: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    ends_before: int | None = None
    signal: Signal | None = None
    prompts: SentPrompts | None = field(default_factory=SentPrompts)

    def emit(self, event: Event, /) -> None:
        self.events.append(event)

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        assert seconds >= 0
        self.spent.append((model, usage))

    def decline(self, reason: str, /) -> None:
        self.declined.append(reason)

    def note_missing(self, role: str, why: str, /) -> None:
        self.missing.append((role, why))

    async def before_turn(self, tool: str, /) -> None:
        if self.signal and len(self.turns) == self.ends_before:
            raise self.signal
        self.turns.append(tool)

    def told(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def ai_with(
    model: LanguageModel,
    *,
    groups: Sequence[ToolGroup] = (),
    operation: Operation | None = None,
    settings: LlmOperations | None = None,
    templates: Path | None = None,
    embeddings: Iterable[EmbeddingService] = (),
) -> Ai:
    """An `Ai` over one model."""
    return Ai(
        LlmEngine(
            Models(models=[model], embeddings=embeddings, environment={}),
            lambda: ToolGroupResolver(groups),
            settings or LlmOperations(data_binding_fixed_backoff_millis=0, generate_examples_by_default=False),
            operation or Operation(),
            templates=Templates(*([templates] if templates else [])),
        )
    )


def scripted(*replies: object) -> tuple[Ai, ScriptedModel]:
    """An `Ai` and its model, which gives these replies."""
    model = ScriptedModel(replies)
    return ai_with(model), model
