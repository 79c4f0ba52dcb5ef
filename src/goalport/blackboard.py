"""The blackboard: what a process knows so far.

An ordered record of typed objects, a name for some of them, and a few named conditions. Objects are treated as
immutable: a new version is added, never changed in place. The blackboard plans nothing and runs nothing; the process
above reads facts off it. Floor 1. (User guide, sections 3.2.3 and 3.2.4.)
"""

import types
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    Protocol,
    Self,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    overload,
)

__all__ = ["DEFAULT_BINDING", "Blackboard", "is_alias", "matcher"]

_KEY_AND_VALUE = 2

DEFAULT_BINDING = "it"
"""The name under which an object is bound when nobody names it."""

T = TypeVar("T")
Matcher = Callable[[object], bool]


class Blackboard:
    """Objects in the order in which they came, the newest of a type first to be found.

    Parameters: `on_bound` is told the name and the object whenever one is put on the board.
    """

    def __init__(self, on_bound: Callable[[str, object], None] | None = None) -> None:
        self._entries: list[object] = []
        self._hidden: set[int] = set()
        self._names: dict[str, object] = {}
        self.conditions: dict[str, bool] = {}
        """The named conditions that somebody stated; one that is not here was never stated."""
        self.stated: set[str] = set()
        """The names of the conditions that were stated since the process last emptied this, for each action anew."""
        self.last_result: object = None
        """What came last; None when the last action gave nothing, so that no trigger fires for what came before."""
        self._on_bound = on_bound

    def add(self, value: object) -> None:
        """Add an object under no name of its own."""
        self.bind(DEFAULT_BINDING, value)

    def bind(self, name: str, value: object) -> None:
        """Add an object and let `name` stand for it from now on."""
        if value is None:
            raise ValueError(
                f"Expected an object to bind as {name!r}, but got None. Hide or replace the old object instead."
            )
        self._hidden.discard(id(value))
        self._entries.append(value)
        self._names[name] = value
        self.last_result = value
        if self._on_bound is not None:
            self._on_bound(name, value)

    def __setitem__(self, name: str, value: object) -> None:
        self.bind(name, value)

    def __iadd__(self, value: object) -> Self:
        self.add(value)
        return self

    @overload
    def get(self, name: str) -> object | None: ...
    @overload
    def get(self, name: str, kind: type[T]) -> T | None: ...
    def get(self, name: str, kind: Any = None) -> Any:
        """The object bound as `name`, if it is visible and, where `kind` is given, of that type; else None."""
        value = self._names.get(name)
        if value is None or id(value) in self._hidden:
            return None
        return value if kind is None or matcher(kind)(value) else None

    @overload
    def last(self, kind: type[T]) -> T | None: ...
    @overload
    def last(self, kind: object) -> Any: ...
    def last(self, kind: object) -> Any:
        """The newest visible object of a type (a class, or an expression such as `list[Story]`), or None."""
        matches = matcher(kind)
        return next((value for value in reversed(self.objects) if matches(value)), None)

    def all(self, kind: type[T]) -> list[T]:
        """Every visible object of a type, oldest first."""
        matches = matcher(kind)
        return [cast("T", value) for value in self.objects if matches(value)]

    @property
    def objects(self) -> list[object]:
        """Every visible object, oldest first."""
        return [value for value in self._entries if id(value) not in self._hidden]

    @property
    def history(self) -> list[object]:
        """Every object that was ever added since the last `clear`, hidden ones too."""
        return list(self._entries)

    def set_condition(self, name: str, value: bool) -> None:  # noqa: FBT001 - the value is what is being set
        """State that a named condition holds or does not."""
        self.conditions[name] = value
        self.stated.add(name)

    def get_condition(self, name: str) -> bool | None:
        """What was stated of a named condition; None when nothing was."""
        return self.conditions.get(name)

    def hide(self, value: object) -> None:
        """Take an object out of planning and of every look-up; it stays in `history`."""
        self._hidden.add(id(value))
        if self.last_result is value:
            self.last_result = None

    def spawn(self, on_bound: Callable[[str, object], None] | None = None) -> "Blackboard":
        """A copy that goes its own way; what is hidden here is hidden there."""
        copy = Blackboard(on_bound)
        copy._entries, copy._hidden = list(self._entries), set(self._hidden)
        copy._names, copy.conditions = dict(self._names), dict(self.conditions)
        copy.last_result = self.last_result
        return copy

    def clear(self) -> None:
        """Forget all objects, names and conditions."""
        self._entries.clear()
        self._hidden.clear()
        self._names.clear()
        self.conditions.clear()
        self.last_result = None


@lru_cache(maxsize=4096)
def matcher(kind: object) -> Matcher:
    """The test whether a value is of a type: classes by `isinstance`, collections by their elements too."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return lambda _: True
    if isinstance(kind, type) and origin is None:
        return lambda value: isinstance(value, kind)
    if origin is Annotated:
        return matcher(arguments[0])
    if origin in (Union, types.UnionType):
        options = [matcher(option) for option in arguments]
        return lambda value: any(option(value) for option in options)
    if origin is Literal:
        return lambda value: value in arguments
    if isinstance(origin, type):
        return _generic_matcher(origin, arguments)
    if isinstance(kind, NewType):
        return matcher(cast("Any", kind).__supertype__)
    if is_alias(kind):
        return matcher(kind.__value__)
    raise TypeError(f"Expected a class or a collection of classes, but got {kind!r}. Name a class of your own instead.")


class Alias(Protocol):
    """What `type Name = …` makes, and `TypeAliasType` of typing_extensions before Python 3.12."""

    @property
    def __value__(self) -> object:
        """What the name stands for."""
        ...


def is_alias(kind: object) -> TypeGuard[Alias]:
    """Whether a type expression is a name for another one."""
    return not isinstance(kind, type) and hasattr(kind, "__value__")


def _generic_matcher(origin: type, arguments: tuple[object, ...]) -> Matcher:
    if issubclass(origin, Mapping) and len(arguments) == _KEY_AND_VALUE:
        key, item = (matcher(argument) for argument in arguments)
        return lambda value: (
            isinstance(value, origin) and all(key(k) and item(v) for k, v in cast("Any", value).items())
        )
    if issubclass(origin, tuple) and arguments[-1:] != (Ellipsis,):
        each = [matcher(argument) for argument in arguments]
        return lambda value: (
            isinstance(value, origin)
            and len(cast("Any", value)) == len(each)
            and all(test(element) for test, element in zip(each, cast("Any", value), strict=True))
        )
    if not issubclass(origin, (list, set, frozenset, tuple)) and not hasattr(cast("object", origin), "__iter__"):
        return lambda value: isinstance(value, origin)
    element = matcher(arguments[0])
    return lambda value: (
        isinstance(value, origin)
        and not isinstance(value, str)
        # An iterator is used up by looking into it.
        and (isinstance(value, Iterator) or all(map(element, cast("Any", value))))
    )
