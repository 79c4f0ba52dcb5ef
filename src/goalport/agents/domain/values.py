"""Classes that users build types and signatures with: the input of a user, markers, results of several parts, states.

They have no behaviour of their own; the reader gives them their meaning. A state is a stage of an agent: a class whose
methods are actions that count only while its object is there. Hiding earlier states when one is entered is done by the
process; what that means to the planner, by `encoding`. (States guide, "The @State Annotation".)
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeVar, cast, dataclass_transform

from goalport.agents.blackboard import NOMINAL, field_kinds

C = TypeVar("C", bound=type)

FRAMEWORK_FIELDS: Final = frozenset({"timestamp"})
"""Fields of `UserInput` that goalport fills; clients neither see nor send them."""


@dataclass(frozen=True, slots=True)
class UserInput:
    """What a user said, in the user's words."""

    content: str
    """The text."""
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)
    """When it was said."""


SERVICES: Final[ContextVar[Callable[[type], object | None]]] = ContextVar("goalport_services", default=lambda _: None)
"""The services of the platform by type, where an action runs; None for each elsewhere."""


@dataclass(frozen=True, slots=True)
class Named:
    """`Annotated[T, Named("x")]`: the object bound as `x`, not just the newest of its type.

    Without a name, the parameter's own name is meant. (User guide, section 3.2.4.)
    """

    name: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name.strip()):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f'Expected the name of a binding, but got {self.name!r}. Write Named("author"), or Named alone to'
                " mean the parameter's own name."
            )


def inject(kind: C) -> C:
    """Have tools that take an object of the class be given the service of the platform, and not ask for one."""

    def current(cls: type) -> object | None:
        return SERVICES.get()(cls)

    kind.__goalport_current__ = classmethod(current)
    return kind


class Provided:
    """`Annotated[T, Provided]`: filled with the enclosing agent or component, or with a service of the platform.

    Such a parameter is never a precondition. In a function that is a tool it is filled with a service.
    """

    @staticmethod
    def __goalport_provided__(kind: type) -> object | None:
        """The service of a type where the calling code runs, or None."""
        return SERVICES.get()(kind)


@dataclass_transform(frozen_default=True)
class SomeOf:
    """The base of a result of several optional parts: it goes on the blackboard, and each field that is not None too.

    A plain subclass becomes a frozen dataclass, whose fields are all `T | None`; a dataclass or pydantic model can be
    one as well. (User guide, section 3.6.7.)
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in reversed(cls.__mro__[1:]):
            _complete(base)

    def __new__(cls, *_: Any, **__: Any) -> Self:
        # Not when the class is made: there may be a decorator above it, which would find the dataclass made already.
        _complete(cls)
        return super().__new__(cls)


def _complete(cls: type) -> None:
    """Make a plain subclass of `SomeOf` a frozen dataclass; `Aggregation` has no fields, and may have models below."""
    if (
        SomeOf in cls.__mro__[1:]
        and cls is not Aggregation
        and "__dataclass_fields__" not in vars(cls)
        and not hasattr(cls, "model_fields")
    ):
        dataclass(frozen=True)(cls)


@dataclass_transform(frozen_default=True)
class Aggregation(SomeOf):
    """The base of an object that is made of several: `class Household(Aggregation): person: Person; home: Home`.

    A parameter of such a type is made of the newest object of each field's type, each time when it is filled. A field
    that has a default, or may be None, need not be there. As a result, or given to a process, it is a `SomeOf`: its
    parts go on the blackboard too. (User guide, section 3.2.4.)
    """


def part_names(kind: type[SomeOf]) -> tuple[str, ...]:
    """The fields of a result of several parts, by their names; none where it has none."""
    _complete(kind)
    if is_dataclass(kind):
        return tuple(each.name for each in fields(kind))
    return tuple(cast("Mapping[str, object]", getattr(kind, "model_fields", {})))


def parts_of(value: object) -> Iterator[tuple[object, object]]:
    """The parts that a result of several parts has, each with the type that its field declares; else nothing."""
    if isinstance(value, SomeOf):
        declared = field_kinds(type(value))
        for name in part_names(type(value)):
            part = getattr(value, name)
            if part is not None:
                yield part, declared.get(name)


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
            dataclass(frozen=True)(cls)


def state(cls: C) -> C:
    """Mark a dataclass or pydantic model of your own as a state; its subclasses are states too."""
    setattr(cls, NOMINAL, True)
    return cls


def is_state(kind: object) -> bool:
    """Whether a type is a state, by itself or by inheritance."""
    return isinstance(kind, type) and bool(getattr(kind, NOMINAL, False))
