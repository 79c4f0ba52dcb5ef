"""The meaning of a method's signature: which parameters are inputs, which are services, and what it returns.

Only annotations are read; nothing is called. The service types are passed in, as they are defined in higher rooms. Also
here are the classes that users write in signatures: the input of a user, results of several parts, states. A state is a
stage of an agent: a class whose methods are actions that apply only while its object is on the blackboard.
"""

import inspect
import types
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    Protocol,
    Self,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from goalport.agents.blackboard import (
    DEFAULT_BINDING,
    NOMINAL,
    alternatives,
    field_kinds,
    is_alias,
    matcher,
    origin_and_arguments,
)
from goalport.agents.domain.wait_for import WaitFor, promised, waits
from goalport.base.introspection import Origin
from goalport.base.type_expressions import open_in, parameters_of
from goalport.base.words import type_name

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
"""Returns the platform's service of a type while an action runs; returns None elsewhere."""


@dataclass(frozen=True, slots=True)
class Named:
    """`Annotated[T, Named("x")]`: the object bound as `x`, not just the newest of its type.

    Without a name, it is the object bound to the parameter's own name. (User guide, section 3.2.4.)
    """

    name: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name.strip()):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f'Expected the name of a binding, but got {self.name!r}. Write Named("author"), or Named alone to'
                " mean the parameter's own name."
            )


class Provided:
    """`Annotated[T, Provided]`: filled with the enclosing agent or component, or with a service of the platform.

    Such a parameter is never a precondition. In a tool function it is filled with a service.
    """

    @staticmethod
    def __goalport_provided__(kind: type) -> object | None:
        """The platform's service of a type in the running action, or None."""
        return SERVICES.get()(kind)


def inject(kind: C) -> C:
    """Mark a class as a service: tools with a parameter of it get the platform's object, and models do not see it."""
    kind.__goalport_current__ = classmethod(Provided.__goalport_provided__)
    return kind


@dataclass_transform(frozen_default=True)
class SomeOf:
    """The base of a result of several optional parts: the result and each part that is not None go on the blackboard.

    A plain subclass becomes a frozen dataclass, whose fields are all `T | None`; a dataclass or pydantic model can be a
    subclass too. (User guide, section 3.6.7.)
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in reversed(cls.__mro__[1:]):
            _complete(base)

    def __new__(cls, *_: Any, **__: Any) -> Self:
        # Not in `__init_subclass__`: a decorator above the class would find it to be a dataclass already.
        _complete(cls)
        return super().__new__(cls)


def _complete(cls: type) -> None:
    """Make a plain subclass of `SomeOf` a frozen dataclass; not `Aggregation`, which may have models below it."""
    if (
        SomeOf in cls.__mro__[1:]
        and cls is not Aggregation
        and "__dataclass_fields__" not in vars(cls)
        and not hasattr(cls, "model_fields")
    ):
        dataclass(frozen=True)(cls)


@dataclass_transform(frozen_default=True)
class Aggregation(SomeOf):
    """The base of an object composed of others: `class Household(Aggregation): person: Person; home: Home`.

    A parameter of such a type is composed of the newest object of each field's type, each time it is filled. A field
    with a default, or that may be None, is optional. As a result, or as an input of a process, it is a `SomeOf`: its
    parts go on the blackboard too. (User guide, section 3.2.4.)
    """


def part_names(kind: type[SomeOf]) -> tuple[str, ...]:
    """The field names of a result of several parts; empty if it has no fields."""
    _complete(kind)
    if is_dataclass(kind):
        return tuple(each.name for each in fields(kind))
    return tuple(cast("Mapping[str, object]", getattr(kind, "model_fields", {})))


def parts_of(value: object) -> Iterator[tuple[object, object]]:
    """The parts of a `SomeOf` that are not None, each with the declared type of its field; of other values, none."""
    if isinstance(value, SomeOf):
        declared = field_kinds(type(value))
        for name in part_names(type(value)):
            part = getattr(value, name)
            if part is not None:
                yield part, declared.get(name)


@dataclass_transform(frozen_default=True)
class State:
    """The base of an agent's states: a plain subclass becomes a frozen dataclass.

    Write `class Stage(State): ...`, and one subclass of it for each stage: its fields are the data of the stage, its
    `@action` methods what can be done there. It needs no `@dataclass`. A subclass that is a pydantic model stays one.
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


_UNUSABLE: tuple[object, ...] = (Any, object, inspect.Parameter.empty)


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter that is filled from the blackboard; a required one is a precondition."""

    name: str
    type: object
    binding: str = DEFAULT_BINDING
    required: bool = True
    default: object = None
    parts: "tuple[Input, ...]" = ()
    """The inputs of an aggregation, one per field; the default of optional ones is `Parameter.empty`."""

    @property
    def leaves(self) -> "tuple[Input, ...]":
        """The inputs that are looked up on the blackboard: the parts or, without parts, this input."""
        return tuple(replace(each, required=each.required and self.required) for each in self.parts) or (self,)


@dataclass(frozen=True, slots=True)
class Injected:
    """A parameter that is filled with a service of the framework."""

    name: str
    type: type


@dataclass(frozen=True, slots=True)
class ProvidedInput:
    """A parameter that is filled with the enclosing object or a service of the platform."""

    name: str
    type: type
    required: bool = True
    default: object = None


class Resolver(Protocol):
    """Fills the parameters that it supports; the process calls it."""

    def supports(self, parameter: inspect.Parameter, /) -> bool:
        """Whether it fills this parameter, whose annotation is already resolved."""
        ...


@dataclass(frozen=True, slots=True)
class Resolved:
    """A parameter that a resolver fills."""

    name: str
    parameter: inspect.Parameter
    resolver: Resolver


Parameter = Input | Injected | ProvidedInput | Resolved


@dataclass(frozen=True, slots=True)
class Outputs:
    """The possible results of a method: an exit for each member of a union, with the types that it adds."""

    exits: tuple[tuple[object, ...], ...]
    type: object = None
    """The declared type without None; None if the method returns nothing."""
    may_decline: bool = False
    may_wait: bool = False
    """Whether the method may return a question instead, whose answer is the output."""


def inputs_among(parameters: Iterable[Parameter]) -> tuple[Input, ...]:
    """The inputs among parameters that are looked up on the blackboard."""
    return tuple(leaf for each in parameters if isinstance(each, Input) for leaf in each.leaves)


def read_parameters(
    origin: Origin, services: frozenset[type], subject: type | None = None, resolvers: Sequence[Resolver] = ()
) -> tuple[Parameter, ...]:
    """The parameters of a bound method or function, in order.

    `subject` is the class of an unbound method: its first parameter is an input of that type. A parameter that several
    `resolvers` support is filled by the first of them, whatever its type.
    """
    hints = origin.hints()
    signature = inspect.signature(origin.function)
    if subject is not None and signature.parameters:
        hints[next(iter(signature.parameters))] = subject
    found: list[Parameter] = []
    for each in (each for each in signature.parameters.values() if each.name not in origin.filled):
        typed = each.replace(annotation=hints.get(each.name, each.empty))
        if (resolver := next((one for one in resolvers if one.supports(typed)), None)) is not None:
            found.append(Resolved(each.name, typed, resolver))
        else:
            found.append(_read_parameter(origin, each, hints, services))
    for one, other in combinations([each for each in found if isinstance(each, Input)], 2):
        if one.type == other.type and (one.binding == other.binding or DEFAULT_BINDING in {one.binding, other.binding}):
            raise origin.error(
                expected="to know which object goes to which parameter",
                came=f"{one.name!r} and {other.name!r} are both {type_name(one.type)}",
                fix='Mark both with a name: `Annotated[T, Named("first")]`, `Annotated[T, Named("second")]`.',
            )
    return tuple(found)


def read_outputs(origin: Origin) -> Outputs:
    """The outputs by the return annotation. Raises `DeclarationError` if the planner cannot use the annotation."""
    hints = origin.hints()
    if "return" not in hints:
        raise origin.error(
            expected="a return annotation, which tells the planner what the method gives",
            came="there is none",
            fix="Add one: a type of your own, `T | None`, a union, or None.",
        )
    declared, _ = _unwrapped(hints["return"])
    awaitable = get_origin(declared)
    if isinstance(awaitable, type) and hasattr(awaitable, "__await__"):
        declared, _ = _unwrapped(get_args(declared)[-1])
    members = alternatives(types.NoneType if declared is None else declared)
    given = [member for member in members if member is not types.NoneType]
    found = list(dict.fromkeys(promised(member) or member for member in given))
    for member in found:
        if waits(member):
            raise origin.error(
                expected="the type that an answer comes to",
                came=f"it is {member.__name__} alone",
                fix="Write `WaitFor[T]`." if member is WaitFor else f"Declare `class {member.__name__}(WaitFor[T])`.",
            )
        _check_type(origin, member, "as return type")
        _refuse_without_parts(origin, member)
    _refuse_yielding(origin, found)
    may_decline = bool(found) and len(given) < len(members)
    may_wait = any(promised(member) is not None for member in given)
    exits: list[tuple[object, ...]] = []
    for member in found:
        parts: list[object] = []
        if _is_some_of(member):
            of_fields = {**origin.hints(member), **field_kinds(member)}
            parts = [part for name in part_names(member) for part in alternatives(_unwrapped(of_fields[name])[0])]
        exits.append((member, *(part for part in parts if part is not types.NoneType)))
    return Outputs(tuple(exits), _joined(found), may_decline, may_wait)


def _read_parameter(
    origin: Origin, parameter: inspect.Parameter, hints: Mapping[str, object], services: frozenset[type]
) -> Parameter:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise origin.error(
            expected="parameters that are named one by one", came=f"there is {parameter}", fix="Name each input."
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise origin.error(
            expected="parameters that can be given by name",
            came=f"{name!r} can only be given by position",
            fix="Drop the `/`.",
        )
    if name not in hints:
        raise origin.error(
            expected=f"a type for the parameter {name!r}", came="there is none", fix=f"Write `{name}: SomeType`."
        )
    kind, markers = _unwrapped(hints[name])
    members = [member for member in alternatives(kind) if member is not types.NoneType]
    default = None if parameter.default is parameter.empty else parameter.default
    optional = len(members) < len(alternatives(kind)) or parameter.default is not parameter.empty
    if any(marker is Provided or isinstance(marker, Provided) for marker in markers):
        if len(members) == 1 and isinstance(members[0], type):
            return ProvidedInput(name, members[0], required=not optional, default=default)
        raise origin.error(
            expected=f"a class for the provided parameter {name!r}",
            came=f"it is {' | '.join(map(type_name, members))}",
            fix="Annotate it with the class of the service: `Annotated[Service, Provided]`.",
        )
    if len(members) == 1 and isinstance(members[0], type) and members[0] in services:
        return Injected(name, members[0])
    found = _read_input(origin, name, members, markers)
    parts = _parts(origin, name, found.type) if found.binding == DEFAULT_BINDING else ()
    return Input(name, found.type, found.binding, not optional, default, tuple(parts))


def _read_input(origin: Origin, name: str, members: list[object], markers: tuple[object, ...]) -> Input:
    if len(members) != 1:
        raise origin.error(
            expected=f"one type for the parameter {name!r}",
            came=f"it is a union of {len(members)}",
            fix="Give the alternatives a common base class, or write an action for each.",
        )
    wanted = promised(members[0])
    if wanted is not None:
        raise origin.error(
            expected=f"an object for the parameter {name!r}",
            came=f"it is a question, {type_name(members[0])}",
            fix=f"Take what the answer comes to: `{name}: {type_name(wanted)}`.",
        )
    _check_type(origin, members[0], f"for the parameter {name!r}")
    named = [
        each if isinstance(each, Named) else Named() for each in markers if isinstance(each, Named) or each is Named
    ]
    return Input(name, members[0], named[0].name or name if named else DEFAULT_BINDING)


def _parts(origin: Origin, name: str, kind: object) -> Iterator[Input]:
    """The inputs of an aggregation. A part that is an aggregation itself is looked up as a whole."""
    whole, arguments = origin_and_arguments(kind)
    if not (isinstance(whole, type) and issubclass(whole, Aggregation)):
        return
    _refuse_without_parts(origin, whole)
    hints = {**origin.hints(whole), **(field_kinds(kind) if arguments else {})}
    signature = inspect.signature(whole).parameters
    for part in part_names(whole):
        declared, markers = _unwrapped(hints[part])
        members = [member for member in alternatives(declared) if member is not types.NoneType]
        found = _read_input(origin, f"{name}.{part}", members, markers)
        default = None if signature[part].default is inspect.Parameter.empty else inspect.Parameter.empty
        optional = default is not None or len(members) < len(alternatives(declared))
        yield Input(part, found.type, found.binding, required=not optional, default=default)


def _refuse_without_parts(origin: Origin, member: object) -> None:
    if _is_some_of(member) and not part_names(member):
        raise origin.error(
            expected="a result of several parts to have fields",
            came=f"{member.__name__} has no fields",
            fix=f"Give {member.__name__} a field `part: T | None = None` for each part.",
        )


def _refuse_yielding(origin: Origin, found: Sequence[object]) -> None:
    if not (inspect.isgeneratorfunction(origin.function) or inspect.isasyncgenfunction(origin.function)):
        return
    classes = [get_origin(member) or member for member in found]
    if not any(isinstance(each, type) and issubclass(each, (Iterable, AsyncIterable)) for each in classes):
        declared = type_name(_joined(list(found)))
        raise origin.error(
            expected=f"a method that returns {declared}",
            came="it has a `yield`, so it returns a generator",
            fix=f"Return the object; collect several in a `list[{declared}]`, and tell how far it is by"
            " `context.progress`.",
        )


def _is_some_of(member: object) -> TypeGuard[type[SomeOf]]:
    return isinstance(member, type) and issubclass(member, SomeOf)


def _check_type(origin: Origin, kind: object, where: str) -> None:
    for parameter in open_in(kind):
        bases = (origin.owner or object).__mro__
        base = next((each.__name__ for each in bases if parameter in parameters_of(each)), "")
        raise origin.error(
            expected=f"a type {where} that is known",
            came=f"it is {type_name(kind)}, and nothing says what {parameter.__name__} is",
            fix=f"Derive the class that you deploy from `{base}[…]`, with a type of your own as {parameter.__name__}."
            if base
            else f"Write a type of your own in place of {parameter.__name__}.",
        )
    if kind in _UNUSABLE or get_origin(kind) is Literal:
        raise origin.error(
            expected=f"a type of your own {where}",
            came=f"it is {type_name(kind)}, which any object would match" if kind in _UNUSABLE else f"it is {kind}",
            fix="Define a class for it: the planner tells objects apart by their types.",
        )
    try:
        matcher(kind)(None)
    except TypeError as error:
        raise origin.error(
            expected=f"a type {where} that objects can be tested against",
            came=f"it is {type_name(kind)}" if str(error).startswith("Expected") else str(error).rstrip("."),
            fix="Use a class, a @runtime_checkable protocol, or a collection such as list[T].",
        ) from error


def _unwrapped(hint: object) -> tuple[object, tuple[object, ...]]:
    """An annotation without `Annotated` and aliases, and the markers that it had, also inside `… | None`.

    A NewType counts as its supertype, since at run time its values look like those of the supertype.
    """
    if isinstance(hint, NewType) or is_alias(hint):
        return _unwrapped(cast("Any", hint).__supertype__ if isinstance(hint, NewType) else hint.__value__)
    if get_origin(hint) is Annotated:
        kind, markers = _unwrapped(get_args(hint)[0])
        return kind, (*markers, *get_args(hint)[1:])
    if get_origin(hint) in (Union, types.UnionType):
        parts = [_unwrapped(part) for part in get_args(hint)]
        return _joined([part for part, _ in parts]), tuple(marker for _, markers in parts for marker in markers)
    return hint, ()


def _joined(members: list[object]) -> object:
    """The union of types; None if there are none."""
    if not members:
        return None
    return members[0] if len(members) == 1 else Union[tuple(members)]  # noqa: UP007 - built at run time
