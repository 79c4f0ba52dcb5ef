"""States: stages of an agent, each a class whose methods are actions that count only while its object is there.

What a state is, and which states can be reached from a type. Hiding earlier states when one is entered is done by the
process; what that means to the planner, by `operators`. (States guide, "The @State Annotation".)
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, dataclass_transform

from goalport.blackboard import NOMINAL
from goalport.domain.annotations import class_place
from goalport.errors import DeclarationError

__all__ = ["State", "is_state", "reachable_states", "state"]

C = TypeVar("C", bound=type)
_MARK = NOMINAL


@dataclass_transform(frozen_default=True)
class State:
    """The base of an agent's states: a plain subclass becomes a frozen dataclass.

    `class Stage(State): ...` and below it one class for each stage, with fields for what the stage must know and
    `@action` methods for what can be done there, and no `@dataclass` above it. A subclass of a model is left as it is.
    """

    __goalport_state__ = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__dataclass_fields__" not in vars(cls) and not hasattr(cls, "model_fields"):
            dataclasses.dataclass(frozen=True)(cls)


def state(cls: C) -> C:
    """Mark a dataclass or pydantic model of your own as a state; its subclasses are states too."""
    setattr(cls, _MARK, True)
    return cls


def is_state(kind: object) -> bool:
    """Whether a type is a state, by itself or by inheritance."""
    return isinstance(kind, type) and bool(getattr(kind, _MARK, False))


def reachable_states(kinds: Iterable[object]) -> Iterator[type]:
    """The states that an object declared as one of these types may turn out to be, each once.

    Raises `DeclarationError` for a class that could not be found again when a stored process is resumed.
    """
    seen: dict[type, None] = {}
    waiting = [kind for kind in kinds if isinstance(kind, type)]
    while waiting:
        kind = waiting.pop(0)
        if kind not in seen and kind is not State:
            seen[kind] = None
            waiting.extend(_subclasses(kind) if is_state(kind) else [])
    for kind in seen:
        if is_state(kind):
            yield _importable(kind)


def _subclasses(kind: type) -> Iterable[type]:
    # `@dataclass(slots=True)` makes a class anew, and the first one lives on for a while.
    return {(each.__module__, each.__qualname__): each for each in kind.__subclasses__()}.values()


def _importable(kind: type) -> type:
    if "<locals>" in kind.__qualname__:
        raise DeclarationError(
            class_place(kind),
            expected="a state at module level or inside a class, which a stored process can be resumed in",
            came="it is defined inside a function",
            fix="Move it out of the function.",
        )
    return kind
