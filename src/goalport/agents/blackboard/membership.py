"""Which objects are of a type, by their class at run time and by their declared type.

The declared type decides where an object cannot: an empty list does not show its element type, nor does a generic
dataclass without values of its type parameter. Where no type was declared, the elements decide. Below:
`type_expressions`, which knows types alone; above: the blackboard, which keeps the declared types.
"""

import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, cast

from goalport.base.type_expressions import (
    Arguments,
    all_fit,
    alternatives,
    arguments_of,
    field_kinds,
    fits,
    is_nominal_protocol,
    open_in,
    parameters_of,
    plain,
    taken_apart,
)

_KEY_AND_VALUE = 2
_CACHED_TESTS = 4096

Matcher = Callable[[object], bool]
_Test = Callable[[object, object], bool]
"""Takes an object and its declared type, which may be None."""


def is_of(value: object, declared: object, wanted: object) -> bool:
    """Whether an object, with its declared type or None, is of the type `wanted`."""
    return _test(wanted)(value, declared)


@lru_cache(maxsize=_CACHED_TESTS)
def matcher(kind: object) -> Matcher:
    """A test whether a value may be of a type; a value passes unless something contradicts, so an empty list passes.

    Raises `TypeError` for a type expression that objects cannot be tested against.
    """
    test = _test(kind, lenient=True)
    return lambda value: test(value, None)


@lru_cache(maxsize=_CACHED_TESTS)
def _test(kind: object, *, lenient: bool = False) -> _Test:
    kind = plain(kind)
    origin, arguments = taken_apart(kind)
    if kind is Any or kind is object:
        return lambda _value, _declared: True
    if isinstance(kind, type) and not arguments:
        if is_nominal_protocol(kind):
            return lambda value, _: kind in type(value).__mro__
        return lambda value, _: isinstance(value, kind)
    if origin is Union or origin is types.UnionType:
        options = [_test(option, lenient=lenient) for option in arguments]
        return lambda value, declared: any(option(value, declared) for option in options)
    if origin is Literal:
        return lambda value, _: value in arguments
    if origin is type:
        return lambda value, _: isinstance(value, type) and fits(value, arguments[0])
    if isinstance(origin, type):
        return _generic_test(origin, arguments, lenient=lenient)
    raise TypeError(f"Expected a class or a collection of classes, but got {kind!r}. Name a class of your own instead.")


def _generic_test(origin: type, arguments: Arguments, *, lenient: bool) -> _Test:
    collection = _is_collection(origin)
    if collection:  # raises TypeError at once for what is no type
        _ = [_test(each, lenient=lenient) for each in arguments if each is not Ellipsis]
    elif all(isinstance(each, TypeVar) for each in arguments):
        return lambda value, _: isinstance(value, origin)

    def test(value: object, declared: object) -> bool:
        if not isinstance(value, origin) or (collection and isinstance(value, str)):
            return False
        sources = (declared, type(value), getattr(value, "__dict__", {}).get("__orig_class__"))
        known = [found for each in sources if each is not None and (found := arguments_of(each, origin)) is not None]
        if any(all_fit(each, arguments) for each in known):
            return True
        unknown = lenient and all(Any in each for each in known)
        if unknown and not collection:
            return True
        held = _values_by_parameter(value, origin, arguments)
        wanted = [each for each in arguments if each is not Ellipsis]
        if held is None or len(held) != len(wanted):
            return False
        kinds = known[0] if known and len(known[0]) == len(arguments) else (None,) * len(wanted)
        return all(
            (unknown or bool(values)) and _all_of(values, declared_kind, kind, lenient=lenient)
            for values, declared_kind, kind in zip(held, kinds, wanted, strict=False)
        )

    return test


def _all_of(values: Collection[object], declared: object, wanted: object, *, lenient: bool) -> bool:
    test = _test(wanted, lenient=lenient)
    return all(test(each, declared) for each in values)


def _is_collection(origin: type) -> bool:
    """Whether the type parameters are the types of its elements; what has fields may be iterated over anything."""
    with_fields = any(hasattr(origin, each) for each in ("model_fields", "_fields", "__dataclass_fields__"))
    return hasattr(origin, "__iter__") and not with_fields


def _values_by_parameter(value: Any, origin: type, arguments: Arguments) -> Sequence[Collection[object]] | None:
    """The values in an object for each type parameter of its type; None if the number of parameters differs."""
    if not _is_collection(origin):
        held: dict[object, list[object]] = {each: [] for each in parameters_of(origin)}
        for name, kind in field_kinds(origin).items():
            for parameter, each in _values_of_parameters(getattr(value, name, None), kind):
                held.setdefault(parameter, []).append(each)
        return [held[each] for each in parameters_of(origin)]
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        return [(each,) for each in value] if len(value) == len(arguments) else None
    if issubclass(origin, Mapping) and len(arguments) == _KEY_AND_VALUE:
        items = cast("Mapping[object, object]", value)
        return [items.keys(), items.values()]
    if isinstance(value, Iterator):
        return [()]  # iterating would consume it
    values = cast("Iterable[object]", value)
    return [values if isinstance(values, Collection) else tuple(values)]


def _values_of_parameters(value: object, kind: object) -> Iterator[tuple[TypeVar, object]]:
    """Each type parameter in the declared type of a value, with the object that stands in its place."""
    options = alternatives(kind)
    if not any(map(open_in, options)) or any(not open_in(each) and matcher(each)(value) for each in options):
        return
    for each in options:
        if isinstance(each, TypeVar):
            yield each, value
            continue
        inner, arguments = taken_apart(each)
        if open_in(each) and isinstance(inner, type) and isinstance(value, inner):
            wanted = [argument for argument in arguments if argument is not Ellipsis]
            for values, argument in zip(_values_by_parameter(value, inner, arguments) or (), wanted, strict=False):
                for found in values:
                    yield from _values_of_parameters(found, argument)
