"""What a method's signature says: which parameters are inputs, which are services, and what comes out.

Reads annotations only; it neither calls the method nor knows who will. The set of service types is handed in, because
they live on higher floors.
"""

import inspect
import sys
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    Protocol,
    TypeGuard,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from goalport.blackboard import DEFAULT_BINDING, is_alias, matcher
from goalport.domain.values import Named, Provided, SomeOf, part_names
from goalport.domain.waiting import WaitFor, promised
from goalport.errors import DeclarationError

__all__ = [
    "Injected",
    "Input",
    "Origin",
    "Outputs",
    "Parameter",
    "ProvidedInput",
    "Resolved",
    "Resolver",
    "class_place",
    "read_outputs",
    "read_parameters",
    "type_name",
]

_UNUSABLE: tuple[object, ...] = (Any, object, inspect.Parameter.empty)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a declaration stands, for messages."""

    function: Callable[..., object]
    owner: type | None = None

    @property
    def written(self) -> Callable[..., object]:
        """The function as it was written: beneath decorators, partials and callable objects."""
        return _written(self.function)

    @property
    def filled(self) -> Collection[str]:
        """The parameters that a partial fills."""
        function: Any = self.function
        return function.keywords if isinstance(function, partial) else ()

    def __str__(self) -> str:
        written = self.written
        code = getattr(written, "__code__", None)
        name = f"{self.owner.__name__}.{written.__name__}" if self.owner else written.__qualname__
        return f"{written.__module__}: {name}" + (
            f" ({_short(code.co_filename)}:{code.co_firstlineno})" if code else ""
        )

    def error(self, *, expected: str, came: str, fix: str) -> DeclarationError:
        """A mistake at this place."""
        return DeclarationError(str(self), expected=expected, came=came, fix=fix)


def _written(function: Any) -> Callable[..., object]:
    if isinstance(function, partial):
        return _written(cast("partial[object]", function).func)
    return inspect.unwrap(function if hasattr(function, "__qualname__") else type(function).__call__)


def class_place(cls: type) -> str:
    """Where a class is declared, for messages; without the line where its source cannot be read."""
    name = f"{cls.__module__}: {cls.__qualname__}"
    try:
        file, line = inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return name
    return f"{name} ({_short(file)}:{line})" if file else name


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter that is filled from the blackboard; a required one is a precondition."""

    name: str
    type: object
    binding: str = DEFAULT_BINDING
    required: bool = True
    default: object = None


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
    """Whoever fills parameters of its own choice; how, the process knows."""

    def supports(self, parameter: inspect.Parameter, /) -> bool:
        """Whether it fills this parameter, whose annotation has been looked up."""
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
    """What a method may give: an exit for each member of a union, with the types that it puts on the blackboard."""

    exits: tuple[tuple[object, ...], ...]
    type: object = None
    """The declared type without None; None when nothing comes out."""
    may_decline: bool = False
    may_wait: bool = False
    """Whether the method may return a question instead, whose answer is the output."""


def read_parameters(
    origin: Origin, services: frozenset[type], subject: type | None = None, resolvers: Sequence[Resolver] = ()
) -> tuple[Parameter, ...]:
    """The parameters of a bound method or function, in order.

    `subject` is the class of a method that is not bound: its first parameter is an input of that type. The first of
    the `resolvers` that supports a parameter has it, before anything else is thought of.
    """
    hints = _hints(origin)
    signature = inspect.signature(origin.function)
    if subject is not None and signature.parameters:
        hints[next(iter(signature.parameters))] = subject
    open_ = [each for each in signature.parameters.values() if each.name not in origin.filled]
    parameters = tuple(
        _claimed(each, hints, resolvers) or _read_parameter(origin, each, hints, services) for each in open_
    )
    _refuse_ambiguous(origin, parameters)
    return parameters


def _claimed(
    parameter: inspect.Parameter, hints: Mapping[str, object], resolvers: Sequence[Resolver]
) -> Resolved | None:
    typed = parameter.replace(annotation=hints.get(parameter.name, parameter.empty))
    found = next((each for each in resolvers if each.supports(typed)), None)
    return None if found is None else Resolved(parameter.name, typed, found)


def read_outputs(origin: Origin) -> Outputs:
    """What the return annotation promises."""
    hints = _hints(origin)
    if "return" not in hints:
        raise origin.error(
            expected="a return annotation, which tells the planner what the method gives",
            came="there is none",
            fix="Add one: a type of your own, `T | None`, a union, or None.",
        )
    declared = _without_awaitable(hints["return"])
    members = _members(declared)
    given = [member for member in members if member is not types.NoneType]
    found = list(dict.fromkeys(promised(member) or member for member in given))
    for member in found:
        _check_type(origin, member, "as return type")
        _refuse_without_parts(origin, member)
        _refuse_open_question(origin, member)
    may_decline = bool(found) and len(given) < len(members)
    may_wait = any(promised(member) is not None for member in given)
    return Outputs(tuple(_exit_of(member) for member in found), _joined(found), may_decline, may_wait)


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
    kind, markers = _unwrap(hints[name])
    members = [member for member in _members(kind) if member is not types.NoneType]
    default = None if parameter.default is parameter.empty else parameter.default
    optional = len(members) < len(_members(kind)) or parameter.default is not parameter.empty
    if any(marker is Provided or isinstance(marker, Provided) for marker in markers):
        return ProvidedInput(name, _single_class(origin, name, members), required=not optional, default=default)
    if len(members) == 1 and isinstance(members[0], type) and members[0] in services:
        return Injected(name, members[0])
    return replace(_read_input(origin, name, members, markers), required=not optional, default=default)


def _read_input(origin: Origin, name: str, members: list[object], markers: tuple[object, ...]) -> Input:
    if len(members) != 1:
        raise origin.error(
            expected=f"one type for the parameter {name!r}",
            came=f"it is a union of {len(members)}",
            fix="Give the alternatives a common base class, or write an action for each.",
        )
    _check_type(origin, members[0], f"for the parameter {name!r}")
    named = [marker.name if isinstance(marker, Named) else "" for marker in markers if _is_name(marker)]
    return Input(name, members[0], named[0] or name if named else DEFAULT_BINDING)


def _is_name(marker: object) -> TypeGuard[Named | type[Named]]:
    return isinstance(marker, Named) or marker is Named


def _refuse_ambiguous(origin: Origin, parameters: tuple[Parameter, ...]) -> None:
    inputs = [each for each in parameters if isinstance(each, Input)]
    for one, other in combinations(inputs, 2):
        if one.type == other.type and (one.binding == other.binding or DEFAULT_BINDING in {one.binding, other.binding}):
            raise origin.error(
                expected="to know which object goes to which parameter",
                came=f"{one.name!r} and {other.name!r} are both {type_name(one.type)}",
                fix='Mark both with a name: `Annotated[T, Named("first")]`, `Annotated[T, Named("second")]`.',
            )


def type_name(kind: object) -> str:
    """A type as people write it."""
    if isinstance(kind, type) and get_origin(kind) is None:
        return kind.__name__
    if get_origin(kind) is not None:
        arguments = get_args(kind)
        if get_origin(kind) in (Union, types.UnionType):
            return " | ".join(map(type_name, arguments))
        return f"{type_name(get_origin(kind))}[{', '.join(map(type_name, arguments))}]"
    return getattr(kind, "__name__", str(kind))


def _hints(origin: Origin) -> dict[str, object]:
    try:
        return get_type_hints(origin.written, localns=_names_around(origin), include_extras=True)
    except NameError as error:
        raise origin.error(
            expected="every annotation to name something that can be looked up in its module or enclosing classes",
            came=f"{error.name!r} is not there",
            fix="Define or import it at module level, not inside a function and not under TYPE_CHECKING.",
        ) from error
    except (AttributeError, SyntaxError, TypeError) as error:
        raise origin.error(
            expected="an annotation that Python can read", came=str(error), fix="Correct the annotation."
        ) from error


def _names_around(origin: Origin) -> dict[str, object]:
    """The names of the classes around a method, the innermost last."""
    found: dict[str, object] = {}
    place: object = sys.modules.get(origin.written.__module__)
    for part in origin.written.__qualname__.split(".")[:-1]:
        place = getattr(place, part, None)
        found |= dict(vars(place)) if isinstance(place, type) else {}
    return found | (dict(vars(origin.owner)) | {origin.owner.__name__: origin.owner} if origin.owner else {})


def _unwrap(hint: object) -> tuple[object, tuple[object, ...]]:
    """An annotation without `Annotated` and aliases, and the markers that stood in it, also inside `… | None`.

    A NewType counts as what it is made of: when an agent runs, nothing tells its values apart from others.
    """
    if isinstance(hint, NewType) or is_alias(hint):
        return _unwrap(cast("Any", hint).__supertype__ if isinstance(hint, NewType) else hint.__value__)
    if get_origin(hint) is Annotated:
        kind, markers = _unwrap(get_args(hint)[0])
        return kind, (*markers, *get_args(hint)[1:])
    if get_origin(hint) in (Union, types.UnionType):
        parts = [_unwrap(part) for part in get_args(hint)]
        return _joined([part for part, _ in parts]), tuple(marker for _, markers in parts for marker in markers)
    return hint, ()


def _members(kind: object) -> tuple[object, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _joined(members: list[object]) -> object:
    if not members:
        return None
    return members[0] if len(members) == 1 else Union[tuple(members)]  # noqa: UP007 - built at run time


def _without_awaitable(kind: object) -> object:
    kind, _ = _unwrap(kind)
    origin = get_origin(kind)
    if isinstance(origin, type) and hasattr(origin, "__await__"):
        return _unwrap(get_args(kind)[-1])[0]
    return types.NoneType if kind is None else kind


def _exit_of(member: object) -> tuple[object, ...]:
    if not _is_some_of(member):
        return (member,)
    hints = get_type_hints(member)
    parts = [part for name in part_names(member) for part in _members(hints[name])]
    return (member, *(part for part in parts if part is not types.NoneType))


def _refuse_without_parts(origin: Origin, member: object) -> None:
    if _is_some_of(member) and not part_names(member):
        raise origin.error(
            expected="a result of several parts to be a dataclass or a pydantic model",
            came=f"{member.__name__} has no fields",
            fix=f"Put @dataclass(frozen=True) above {member.__name__}, with a field `T | None` for each part.",
        )


def _refuse_open_question(origin: Origin, member: object) -> None:
    if isinstance(member, type) and issubclass(member, WaitFor):
        raise origin.error(
            expected="the type that an answer comes to",
            came=f"it is {member.__name__} alone",
            fix="Write `WaitFor[T]`.",
        )


def _is_some_of(member: object) -> TypeGuard[type[SomeOf]]:
    return isinstance(member, type) and issubclass(member, SomeOf)


def _check_type(origin: Origin, kind: object, where: str) -> None:
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
            came=str(error),
            fix="Use a class, a @runtime_checkable protocol, or a collection such as list[T].",
        ) from error


def _single_class(origin: Origin, name: str, members: list[object]) -> type:
    if len(members) == 1 and isinstance(members[0], type):
        return members[0]
    raise origin.error(
        expected=f"a class for the provided parameter {name!r}",
        came=f"it is {' | '.join(map(type_name, members))}",
        fix="Annotate it with the class of the service: `Annotated[Service, Provided]`.",
    )


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
