"""Type expressions: their parts, and whether an object declared as one type is an instance of another.

This module compares types only; `blackboard` checks objects against types, and `introspection` reads annotations.
"""

import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import product
from types import NoneType
from typing import (
    Annotated,
    Any,
    NewType,
    Protocol,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

Arguments = tuple[object, ...]

NOMINAL = "__goalport_state__"
"""The attribute that marks a protocol as nominal: only its explicit subclasses implement it."""
_CACHED_TYPES = 4096


def is_alias(kind: object) -> TypeGuard[Any]:
    """Whether a type expression is an alias (`type Name = …`, or a `TypeAliasType`), whose type is its `__value__`."""
    return not isinstance(kind, type) and hasattr(kind, "__value__")


def plain(kind: object) -> object:
    """A type expression without surrounding `Annotated`, aliases and NewTypes, which do not exist at run time."""
    if isinstance(kind, type):
        return kind
    if kind is None:
        return NoneType
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif isinstance(kind, NewType):
            kind = cast("Any", kind).__supertype__
        elif is_alias(kind):
            kind = kind.__value__
        else:
            return kind


def alternatives(kind: object) -> Arguments:
    """The members of a union; for any other type, the type alone."""
    if isinstance(kind, type):
        return (kind,)
    kind = plain(kind)
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def origin_and_arguments(kind: object) -> tuple[object, Arguments]:
    """The origin and the arguments of a generic type, such as `list[Story]`, a dataclass or a pydantic model."""
    if isinstance(kind, type):
        made = vars(kind).get("__pydantic_generic_metadata__")
        return (made["origin"], made["args"]) if made and made["origin"] else (kind, ())
    origin = get_origin(kind)
    return (kind, ()) if origin is None else (origin, get_args(kind))


def is_generic(kind: object) -> bool:
    """Whether the class of an object does not tell if the object is of the type, as for `list[int]`."""
    if any(origin_and_arguments(each)[1] for each in alternatives(kind)):
        return True
    return not all(isinstance(each, type) for each in alternatives(kind))


def related_by_bases_only(kind: object) -> TypeGuard[type]:
    """Whether only the bases of a class make it a subclass: an abstract class may override `__subclasscheck__`."""
    return isinstance(kind, type) and kind is not Any and type(kind).__subclasscheck__ is type.__subclasscheck__


@lru_cache(maxsize=_CACHED_TYPES)
def arguments_of(kind: object, base: type) -> Arguments | None:
    """The type arguments for the parameters of `base`, the class of `kind` or a base class of it; None if unknown."""
    found = _arguments_of(kind, base)
    return None if found is None or any(map(open_in, found)) else found


def _arguments_of(kind: object, base: type) -> Arguments | None:
    origin, arguments = origin_and_arguments(kind)
    if origin is base:
        return arguments or None
    if not isinstance(origin, type):
        return None
    known = dict(zip(parameters_of(origin), arguments, strict=False))
    for parent in cast("Arguments", vars(origin).get("__orig_bases__", origin.__bases__)):
        found = _arguments_of(parent, base)
        if found is not None:
            return tuple(_filled(each, known) for each in found)
    # `dict` and the classes of `collections.abc` are no real bases of the built-in collections.
    if not arguments or not (base is dict or base.__module__ == "collections.abc") or not issubclass(origin, base):
        return None
    if issubclass(base, Mapping):
        return (*arguments, int) if origin is Counter else arguments
    if origin is tuple:
        elements = [each for each in arguments if each is not Ellipsis]
        return (Union[tuple(elements)],)  # noqa: UP007 - built at run time
    return arguments[:1]


def parameters_of(origin: type) -> tuple[TypeVar, ...]:
    """The type parameters of a generic class, in order."""
    made = vars(origin).get("__pydantic_generic_metadata__")
    return made["parameters"] if made else getattr(origin, "__parameters__", ())


def open_in(kind: object) -> tuple[Any, ...]:
    """The type parameters in a type expression that have no arguments yet."""
    if isinstance(kind, TypeVar):
        return (kind,)
    if isinstance(kind, type):
        return parameters_of(kind) if origin_and_arguments(kind)[1] else ()
    return getattr(kind, "__parameters__", ())


def _filled(kind: Any, known: Mapping[Any, object]) -> object:
    """A type expression with its type parameters replaced by the known arguments."""
    if isinstance(kind, TypeVar):
        return known.get(kind, kind)
    open_ = open_in(kind)
    return kind[tuple(known.get(each, each) for each in open_)] if open_ and known else kind


def field_kinds(kind: object) -> Mapping[str, object]:
    """The declared types of a type's fields, by name, with type parameters replaced; empty if they cannot be read."""
    kind = plain(kind)
    origin, _ = origin_and_arguments(kind)
    if not isinstance(origin, type):
        return {}
    found: dict[str, object] = {}
    for name, declared in _fields(origin).items():
        # A field uses the type parameters of the class that declares it, which may be a base class.
        owner = next((each for each in origin.__mro__ if name in vars(each).get("__annotations__", ())), origin)
        found[name] = inherited(declared, owner, kind)
    return found


def inherited(declared: object, owner: type, kind: object) -> object:
    """A type declared in the generic class `owner`, with the type arguments of `kind`: `owner` or a subclass of it."""
    return _filled(declared, dict(zip(parameters_of(owner), _arguments_of(kind, owner) or (), strict=False)))


@lru_cache(maxsize=_CACHED_TYPES)
def _fields(cls: type) -> Mapping[str, object]:
    model: Mapping[str, Any] | None = getattr(cls, "model_fields", None)
    if model is not None:
        return {name: each.annotation for name, each in model.items()}
    try:
        return get_type_hints(cls, include_extras=True)
    except (AttributeError, NameError, TypeError):  # a class inside a function, whose local names are gone
        return {}


@lru_cache(maxsize=1 << 16)
def related(given: object, wanted: object) -> bool:
    """Whether an object declared as `given` may be a `wanted` at run time."""
    return any(_related(*pair) for pair in product(alternatives(given), alternatives(wanted)))


def _related(given: object, wanted: object) -> bool:
    if Any in (given, wanted):
        return True
    given_class, given_arguments = origin_and_arguments(given)
    wanted_class, wanted_arguments = origin_and_arguments(wanted)
    if not isinstance(given_class, type) or not isinstance(wanted_class, type):
        return given == wanted
    if _is_kind_of(given_class, wanted_class):
        pairs = side_by_side(arguments_of(given, wanted_class), wanted_arguments)
    elif _is_kind_of(wanted_class, given_class):
        pairs = side_by_side(arguments_of(wanted, given_class), given_arguments)
    else:
        return False
    return pairs is not None and all(_either(related, *each) for each in pairs)


@lru_cache(maxsize=1 << 16)
def fits(given: object, wanted: object) -> bool:
    """Whether every object declared as `given` is certainly a `wanted`."""
    return all(any(_fits(each, other) for other in alternatives(wanted)) for each in alternatives(given))


def _fits(given: object, wanted: object) -> bool:
    if given == wanted or wanted is object or wanted is Any or isinstance(wanted, TypeVar):
        return True
    given_class, _ = origin_and_arguments(given)
    wanted_class, wanted_arguments = origin_and_arguments(wanted)
    if not isinstance(given_class, type) or not isinstance(wanted_class, type):
        return False
    if not _is_kind_of(given_class, wanted_class):
        return False
    known = arguments_of(given, wanted_class)
    return not wanted_arguments or (known is not None and all_fit(known, wanted_arguments))


def all_fit(given: Arguments, wanted: Arguments) -> bool:
    """Whether arguments of a generic type fit the wanted arguments of the same generic type."""
    if given == wanted:
        return True
    if wanted[-1:] != (Ellipsis,) and given[-1:] == (Ellipsis,):
        return False  # a tuple of any length does not fit where a length is wanted
    pairs = side_by_side(given, wanted)
    return pairs is not None and all(_either(fits, *each) for each in pairs)


def side_by_side(given: Arguments | None, wanted: Arguments) -> list[tuple[object, object]] | None:
    """The type arguments of two types in pairs; empty if a type has no arguments; None if their numbers differ."""
    if not given or not wanted:
        return []
    if wanted[-1:] == (Ellipsis,):
        return [(each, wanted[0]) for each in given if each is not Ellipsis]
    if given[-1:] == (Ellipsis,):
        return [(given[0], each) for each in wanted]
    return list(zip(given, wanted, strict=True)) if len(given) == len(wanted) else None


def _either(relation: Callable[[object, object], bool], given: object, wanted: object) -> bool:
    """Whether two arguments are equal or related; the argument lists of a `Callable` are only compared for equality."""
    return given == wanted or (not isinstance(given, list) and not isinstance(wanted, list) and relation(given, wanted))


def is_nominal_protocol(kind: type) -> bool:
    """Whether only explicit subclasses implement a protocol; see `NOMINAL`."""
    return getattr(kind, "_is_protocol", False) and getattr(kind, NOMINAL, False)


def _is_kind_of(kind: type, wanted: type) -> bool:
    """Whether a class is a subclass, or has the members of a protocol; a nominal protocol must be among its bases."""
    if is_nominal_protocol(wanted):
        return wanted in kind.__mro__
    try:
        return issubclass(kind, wanted)
    except TypeError:  # for a protocol with data, Python supports only isinstance
        asked = (base for base in wanted.__mro__ if getattr(base, "_is_protocol", False) and base is not Protocol)
        return _members(asked) <= _members(kind.__mro__)


def _members(classes: Iterable[type]) -> set[str]:
    found: set[str] = set()
    for each in classes:
        found |= {name for name in vars(each) if not name.startswith("_")} | set(vars(each).get("__annotations__", ()))
    return found
