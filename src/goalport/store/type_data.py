"""Type expressions as JSON: classes, `list[Story]`, `Page[Raw]`, unions, `Annotated`, `Literal`, and back.

A class is its name, and anything else is an object with one key. What comes back is equal to what was written, and of
the same form: `Optional[Story]` and `Story | None` are kept apart. Values inside types (what `Annotated` adds, the
values of a `Literal`) are written by the codec. Below: `type_names`.
"""

import typing
from collections.abc import Callable, Sequence
from functools import reduce
from types import EllipsisType, GenericAlias, UnionType
from typing import Annotated, Any, Final, Literal, NewType, Union, cast, get_args, get_origin

from typing_extensions import TypeAliasType

from goalport.blackboard import taken_apart
from goalport.errors import Unreadable, Unstorable
from goalport.store.type_names import TypeNames
from goalport.words import type_name

__all__ = ["TYPE_FORMS", "Json", "TypeReader", "TypeWriter"]

Json = Any
"""None, bool, int, float, str, and lists and string-keyed dicts of these."""

_TYPING: Final = vars(typing)
_SPECIAL: Final = cast("type[object]", type(_TYPING["List"]))
"""The class of `typing.List` and its like."""
_ELLIPSIS: Final = "..."
_EXAMPLES: Final[Sequence[Any]] = (
    list[int],
    int | str,
    NewType("_", int),
    *(_TYPING[name] for name in ("List", "Tuple", "Union")),
    *(_TYPING[name][int] for name in ("List", "Type")),
    _TYPING["Union"][int, str],
    Annotated[int, 0],
    Literal[0],
)
TYPE_FORMS: Final = frozenset[type]({TypeAliasType, *map(type, _EXAMPLES)})
"""The classes of type expressions that are no classes themselves."""


class TypeWriter:
    """Writes type expressions; `write_value` writes the values in them."""

    def __init__(self, names: TypeNames, write_value: Callable[[object], Json]) -> None:
        self._names = names
        self._write_value = write_value

    def write(self, kind: Any) -> Json:
        """A type expression as JSON. Raises `Unstorable` for one that has no stable form."""
        if kind is None:
            return None
        if isinstance(kind, EllipsisType):
            return _ELLIPSIS
        if isinstance(kind, type) and not isinstance(kind, GenericAlias):
            origin, arguments = taken_apart(kind)
            return self._names.name_of(kind) if origin is kind else self._generic(origin, arguments)
        if isinstance(kind, NewType | TypeAliasType):
            return self._names.name_of(kind)
        return self._form(kind)

    def _form(self, kind: Any) -> Json:
        origin: Any = Annotated if hasattr(kind, "__metadata__") else get_origin(kind)
        arguments = get_args(kind)
        if origin is Annotated:
            return {"annotated": [self.write(arguments[0]), *map(self._write_value, kind.__metadata__)]}
        if origin is Literal:
            return {"literal": [self._write_value(each) for each in arguments]}
        if origin is UnionType:
            return {"union": [self.write(each) for each in arguments]}
        if origin is Union:
            return {"typing": ["Union", *map(self.write, arguments)]}
        if (name := _special_name(kind)) is not None:
            return {"typing": name if isinstance(kind, _SPECIAL) else [name, *map(self.write, arguments)]}
        if origin is not None and not any(isinstance(each, list) for each in arguments):
            return self._generic(origin, arguments)
        raise Unstorable(type_name(kind), "it is no type of which there are objects. Name a class.")

    def _generic(self, origin: Any, arguments: Sequence[Any]) -> Json:
        return {"of": [self.write(origin), *map(self.write, arguments)]}


class TypeReader:
    """Reads type expressions; `read_value` reads the values in them."""

    def __init__(self, names: TypeNames, read_value: Callable[[Json], object]) -> None:
        self._names = names
        self._read_value = read_value

    def read(self, data: Json) -> Any:
        """The type expression. Raises `Unreadable` for data that is none."""
        match data:
            case None:
                return None
            case str():
                return ... if data == _ELLIPSIS else self._names.find(data)
            case {"annotated": [kind, *added]}:
                return Annotated[(self.read(kind), *map(self._read_value, added))]
            case {"literal": [*values]}:
                return Literal[tuple(map(self._read_value, values))]
            case {"union": [*kinds]}:
                return reduce(_either, map(self.read, kinds))
            case {"typing": ["Union", *kinds]}:
                return Union[tuple(map(self.read, kinds))]  # noqa: UP007 - made at run time
            case {"typing": str() as name}:
                return _special(name)
            case {"typing": [str() as name, *arguments]}:
                return _special(name)[tuple(map(self.read, arguments))]
            case {"of": [origin, *arguments]}:
                return _subscripted(self.read(origin), tuple(map(self.read, arguments)))
            case _:
                raise _no_type(data)


def _special(name: str) -> Any:
    special = _TYPING.get(name)
    if not isinstance(special, _SPECIAL):
        raise _no_type(name)
    return special


def _special_name(kind: Any) -> str | None:
    """The name of `typing.List`, `typing.List[int]` and their like in `typing`."""
    name = getattr(kind, "_name", None)
    return name if isinstance(name, str) and isinstance(_TYPING.get(name), _SPECIAL) else None


def _either(one: Any, other: Any) -> Any:
    return one | other


def _subscripted(origin: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        return origin[arguments]
    except (TypeError, AttributeError) as error:
        raise Unreadable(
            type_name(origin), f"it takes no type arguments now ({error}).", "Make it generic again."
        ) from None


def _no_type(data: Json) -> Unreadable:
    return Unreadable(repr(data)[:80], "it is no type expression.", "The store was written by something else.")
