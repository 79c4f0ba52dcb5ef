"""Which models check: those that were chosen, else those with a role in the settings, else one model twice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from goalport import LlmOptions
from goalport.errors import ModelNotReady
from goalport.models import Models

__all__ = ["Checker", "checkers"]

_TWICE: Final = (LlmOptions(auto=True, temperature=0.0), LlmOptions(auto=True, temperature=0.7))


@dataclass(frozen=True, slots=True)
class Checker:
    """A model with its options, and a name for people."""

    name: str
    llm: LlmOptions


def checkers(chosen: Sequence[LlmOptions], models: Models) -> list[Checker]:
    """The models that check; of those that nobody chose, only the ones that can be asked.

    Raises `ModelNotReady` when none can be asked; it says what to set.
    """
    ready = [] if chosen else list(_with_roles(models))
    found = chosen or (ready if len(ready) > 1 else _TWICE)
    if not any(_model(each, models) for each in found):
        models.choose(found[0])
    return [Checker(_name(each, models), each) for each in found]


def _with_roles(models: Models) -> Iterator[LlmOptions]:
    """Each model that has a role, once."""
    seen = set[str]()
    for role in models.roles:
        options = LlmOptions(role=role)
        name = _model(options, models)
        if name and name not in seen:
            seen.add(name)
            yield options


def _model(options: LlmOptions, models: Models) -> str:
    """The name of the model, or an empty text when it cannot be asked."""
    try:
        return models.choose(options).card.name
    except ModelNotReady:
        return ""


def _name(options: LlmOptions, models: Models) -> str:
    name = _model(options, models) or options.model or options.role or "a model"
    return name if options.temperature is None else f"{name} at temperature {options.temperature:g}"
