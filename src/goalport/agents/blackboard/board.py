"""The blackboard: what a process knows so far.

An ordered list of objects with their declared types, names for some of them, and a few named conditions. Objects are
treated as immutable: a new version is added, never changed in place. The blackboard does not plan or run anything; the
process derives facts from it. (User guide, sections 3.2.3 and 3.2.4.)
"""

import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, Literal, NamedTuple, Self, TypeVar, Union, cast, overload

from goalport.base.errors import UnknownName
from goalport.base.type_expressions import (
    Arguments,
    all_fit,
    alternatives,
    arguments_of,
    field_kinds,
    fits,
    is_nominal_protocol,
    open_in,
    origin_and_arguments,
    parameters_of,
    plain,
)

DEFAULT_BINDING = "it"
"""The name under which an object is bound when no other name is given."""

_MANY = 32
"""With more objects than this, look-ups use an index by class."""

T = TypeVar("T")
BindingListener = Callable[[str, object], None]
TypeInference = Callable[[str, object], object]


@dataclass(frozen=True, slots=True)
class Typed:
    """An object with an explicit type, where the object itself does not show its type: `Typed([], list[Story])`.

    Results of actions and inputs of clients have their declared types already; `Typed` is for objects that your code
    passes in. It is accepted wherever a process, a blackboard or a context takes an object, and the object itself is
    stored. Raises `TypeError` when the object is not of the type.
    """

    value: object
    kind: object

    def __post_init__(self) -> None:
        if self.value is None or not matcher(self.kind)(self.value):
            raise TypeError(f"Expected an object of the type {self.kind}, but got {self.value!r}. Correct one of them.")

    @staticmethod
    def value_of(value: object) -> object:
        """The object itself, if the value is a `Typed`; else the value."""
        return value.value if isinstance(value, Typed) else value


class Entry:
    """An object on a blackboard, with its declared type; None: only its class at run time is known."""

    __slots__ = ("kind", "value")

    def __init__(self, value: object, kind: object = None) -> None:
        self.value = value
        self.kind = kind

    def is_of(self, kind: object) -> bool:
        """Whether the object is of a type."""
        return is_of(self.value, self.kind, kind)


class BoardState(NamedTuple):
    """What is on a blackboard at one moment."""

    entries: Sequence[Entry]
    names: Mapping[str, Entry]
    """The entry of each name."""
    hidden: Sequence[int]
    """The indexes in `entries` of the hidden ones."""
    protected: AbstractSet[str]
    """The names whose objects `clear` keeps."""
    conditions: Mapping[str, bool]
    last_entry: Entry | None


class Blackboard:
    """Objects in the order in which they were added; look-ups return the newest object of a type.

    An object is of its class and of the class's bases. For generic types (`list[Story]`, `Page[Raw]`), its declared
    type decides, which comes from the action that returned it or from `Typed`; without a declared type, its elements
    decide.

    Parameters: `on_bound` is called with the name and the object when an object is put on the blackboard.
    """

    def __init__(self, on_bound: BindingListener | None = None) -> None:
        self._entries: list[Entry] = []
        self._hidden: set[int] = set()
        self._names: dict[str, Entry] = {}
        self._protected: frozenset[str] = frozenset()
        self._conditions: dict[str, bool] = {}
        self._stated: set[str] = set()
        self._last_entry: Entry | None = None
        self._on_bound = on_bound
        self._infer_type: TypeInference | None = None
        self._by_class: dict[type, list[Entry]] | None = None
        """The visible entries by class, the class of the newest last; None: it is built at the next look-up."""
        self._indexing = Lock()
        """Locks entries and index, since threads add objects and look them up at the same time."""

    def add(self, value: object) -> None:
        """Add an object under the default name."""
        self.bind(DEFAULT_BINDING, value)

    def bind(self, name: str, value: object) -> None:
        """Add an object and bind it to `name`."""
        if isinstance(value, Typed):
            self.declare(name, value.value, value.kind)
            return
        if value is None:
            raise ValueError(
                f"Expected an object to bind as {name!r}, but got None. Hide or replace the old object instead."
            )
        self.declare(name, value, None)

    def bind_protected(self, name: str, value: object) -> None:
        """Like `bind`, but `clear` keeps the objects that are bound to the name from now on."""
        self._protected |= {name}
        self.bind(name, value)

    def declare(self, name: str, value: object, kind: object) -> None:
        """Bind an object with a declared type, unchecked; of a union, the member that the object matches.

        If `kind` is None, the function set by `infer_types_by` decides.
        """
        if kind is not None and not isinstance(kind, type) and len(options := alternatives(kind)) > 1:
            kind = next((each for each in options if matcher(each)(value)), None)
        if kind is None and self._infer_type is not None:
            kind = self._infer_type(name, value)
        with self._indexing:
            if id(value) in self._hidden:
                self._hidden.discard(id(value))
                self._by_class = None
            entry = self._names[name] = self._last_entry = Entry(value, kind)
            self._entries.append(entry)
            if self._by_class is not None:
                _put_last(self._by_class, entry)
        if self._on_bound is not None:
            self._on_bound(name, value)

    def __setitem__(self, name: str, value: object) -> None:
        self.bind(name, value)

    def __getitem__(self, name: str) -> Any:
        """The object bound to `name`. Raises `UnknownName` if `get` returns None."""
        found = self.get(name)
        if found is None:
            bound = (each for each, entry in self._names.items() if id(entry.value) not in self._hidden)
            raise UnknownName("name on the blackboard", name, bound)
        return found

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    __iter__ = None
    """Not iterable: Python would call `__getitem__` with 0, 1, …; iterate over `objects` or `entries`."""

    def __iadd__(self, value: object) -> Self:
        self.add(value)
        return self

    @overload
    def get(self, name: str) -> object | None: ...
    @overload
    def get(self, name: str, kind: type[T]) -> T | None: ...
    def get(self, name: str, kind: Any = None) -> Any:
        """The object bound to `name`, if it is visible and of the type `kind` (if not None); else None."""
        entry = self._names.get(name)
        if entry is None or id(entry.value) in self._hidden:
            return None
        return entry.value if kind is None or entry.is_of(kind) else None

    @overload
    def last(self, kind: type[T]) -> T | None: ...
    @overload
    def last(self, kind: object) -> Any: ...
    def last(self, kind: object) -> Any:
        """The newest visible object of a type (a class, or an expression such as `list[Story]`), or None."""
        # An object's class alone does not tell whether it is of a generic type or a protocol.
        is_plain = isinstance(kind, type) and not getattr(kind, "_is_protocol", False)
        if is_plain and len(self._entries) > _MANY and not origin_and_arguments(kind)[1]:
            newest = (found[-1] for _, found in reversed(self._visible_by_class()))
            return next((each.value for each in newest if each.is_of(kind)), None)
        for each in reversed(self._entries):
            if each.is_of(kind) and id(each.value) not in self._hidden:
                return each.value
        return None

    def all(self, kind: type[T]) -> list[T]:
        """Every visible object of a type, oldest first."""
        return [cast("T", each.value) for each in self.entries if each.is_of(kind)]

    @property
    def entries(self) -> list[Entry]:
        """Every visible object with its declared type, oldest first."""
        hidden = self._hidden
        return [each for each in self._entries if id(each.value) not in hidden] if hidden else self._entries.copy()

    @property
    def samples(self) -> Sequence[Entry]:
        """Visible entries, at least one of each class."""
        if len(self._entries) <= _MANY:
            return self.entries
        return [found[-1] for _, found in self._visible_by_class()]

    def of_classes(self, wanted: Callable[[type], bool]) -> list[object]:
        """Every visible object of the classes that `wanted` accepts."""
        if len(self._entries) <= _MANY:
            return [each.value for each in self.entries if wanted(type(each.value))]
        return [each.value for kind, found in self._visible_by_class() if wanted(kind) for each in found]

    def _visible_by_class(self) -> Sequence[tuple[type, Sequence[Entry]]]:
        """The classes with their visible entries, as they are now; the class of the newest is the last."""
        with self._indexing:
            if self._by_class is None:
                self._by_class = {}
                for each in self.entries:
                    _put_last(self._by_class, each)
            return tuple(self._by_class.items())

    @property
    def objects(self) -> list[object]:
        """Every visible object, oldest first."""
        return [each.value for each in self.entries]

    @property
    def history(self) -> list[object]:
        """Every object that was ever added since the last `clear`, hidden ones too."""
        return [each.value for each in self._entries]

    @property
    def last_entry(self) -> Entry | None:
        """The newest entry; None when the last action returned nothing, so that no trigger fires for older ones."""
        return self._last_entry

    @property
    def last_result(self) -> object:
        """The newest object; None when the last action returned nothing."""
        return None if self._last_entry is None else self._last_entry.value

    def renew(self, entry: Entry) -> None:
        """Make an object the newest again, also of its type, so that an action reacts to it once more."""
        if self.last(type(entry.value)) is entry.value:
            self._last_entry = entry
        else:
            self.declare(DEFAULT_BINDING, entry.value, entry.kind)

    def clear_last_result(self) -> None:
        """Record that the last action returned nothing."""
        self._last_entry = None

    @property
    def conditions(self) -> Mapping[str, bool]:
        """The named conditions that were stated; a condition that is not here was never stated."""
        return self._conditions

    @property
    def stated(self) -> AbstractSet[str]:
        """The names of the conditions that were set since `forget_stated`, which is called when an action begins."""
        return self._stated

    def forget_stated(self) -> None:
        """Empty the set of `stated` conditions, because an action begins; their values are kept."""
        self._stated.clear()

    def set_condition(self, name: str, value: bool) -> None:  # noqa: FBT001 - the value is what is being set
        """State whether a named condition holds."""
        self._conditions[name] = value
        self._stated.add(name)

    def unset_condition(self, name: str) -> None:
        """Treat a named condition as never stated."""
        self._conditions.pop(name, None)

    def get_condition(self, name: str) -> bool | None:
        """The stated value of a named condition; None when it was never stated."""
        return self._conditions.get(name)

    def hide(self, value: object) -> None:
        """Exclude an object from planning and from every look-up; it stays in `history`."""
        with self._indexing:
            self._hidden.add(id(value))
            same_class = () if self._by_class is None else self._by_class.pop(type(value), ())
            if any(each.value is not value for each in same_class):
                self._by_class = None  # its class has an older newest object now, so the order of classes may change
        if self._last_entry is not None and self._last_entry.value is value:
            self._last_entry = None

    def spawn(self, on_bound: BindingListener | None = None) -> "Blackboard":
        """An independent copy; objects that are hidden here are hidden there too."""
        copy = Blackboard(on_bound)
        copy._entries, copy._hidden = list(self._entries), set(self._hidden)
        copy._names, copy._conditions = dict(self._names), dict(self._conditions)
        copy._protected = self._protected
        copy._last_entry = self._last_entry
        return copy

    @property
    def state(self) -> BoardState:
        """The content of the blackboard, for `restore` of another one."""
        hidden = self._hidden
        places = [place for place, each in enumerate(self._entries) if id(each.value) in hidden] if hidden else ()
        entries, names = tuple(self._entries), dict(self._names)
        return BoardState(entries, names, places, self._protected, dict(self._conditions), self._last_entry)

    def restore(self, state: BoardState) -> None:
        """Replace the content with `state`; `on_bound` is not called."""
        self._entries, self._names, self._by_class = list(state.entries), dict(state.names), None
        self._hidden = {id(state.entries[place].value) for place in state.hidden}
        self._protected = frozenset(state.protected)
        self._conditions = dict(state.conditions)
        self._last_entry = state.last_entry

    def begin_with(self, earlier: "Blackboard") -> None:
        """Add the objects of another blackboard as older than those here; names that are bound here stay bound."""
        before, self._by_class = earlier.state, None
        self._entries[:0] = before.entries
        self._names = {**before.names, **self._names}
        self._last_entry = self._last_entry or before.last_entry

    def infer_types_by(self, infer_type: TypeInference) -> None:
        """Set the function that returns, for a name and an object without a declared type, its type or None.

        It is applied to the objects that are here already and to those that are added later.
        """
        self._infer_type, self._by_class = infer_type, None
        if not self._entries:
            return
        names = {id(each): name for name, each in self._names.items()}
        for place, each in enumerate(self._entries):
            name = names.get(id(each), DEFAULT_BINDING)
            kind = infer_type(name, each.value) if each.kind is None else None
            if kind is not None:
                self._entries[place] = entry = Entry(each.value, kind)
                if self._names.get(name) is each:
                    self._names[name] = entry
                if self._last_entry is each:
                    self._last_entry = entry

    def hide_all(self, kind: object) -> None:
        """Hide every object of a type."""
        for each in self.entries:
            if each.is_of(kind):
                self.hide(each.value)

    @property
    def protects(self) -> bool:
        """Whether `clear` would keep anything."""
        return bool(self._protected) and any(name in self._protected for name in self._names)

    def clear(self) -> None:
        """Forget all objects, names and conditions except what is bound to protected names."""
        kept = {name: each for name, each in self._names.items() if name in self._protected}
        protected = {id(each) for each in kept.values()}
        self._entries = [each for each in self._entries if id(each) in protected]
        self._hidden &= {id(each.value) for each in self._entries}
        self._names, self._by_class = kept, None
        self._conditions.clear()
        self._last_entry = None


def _put_last(by_class: dict[type, list[Entry]], entry: Entry) -> None:
    kind = type(entry.value)
    found = by_class.pop(kind, None) or []
    found.append(entry)
    by_class[kind] = found


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
    """A test whether a value may be of a type; a value without contradiction passes, such as an empty list.

    Raises `TypeError` for a type expression that objects cannot be tested against.
    """
    test = _test(kind, lenient=True)
    return lambda value: test(value, None)


@lru_cache(maxsize=_CACHED_TESTS)
def _test(kind: object, *, lenient: bool = False) -> _Test:
    kind = plain(kind)
    origin, arguments = origin_and_arguments(kind)
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
    if collection:  # raises TypeError at once for an argument that is no type
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
        by_parameter = _values_by_parameter(value, origin, arguments)
        wanted = [each for each in arguments if each is not Ellipsis]
        if by_parameter is None or len(by_parameter) != len(wanted):
            return False
        kinds = known[0] if known and len(known[0]) == len(arguments) else (None,) * len(wanted)
        return all(
            (unknown or bool(values)) and _all_of(values, declared_kind, kind, lenient=lenient)
            for values, declared_kind, kind in zip(by_parameter, kinds, wanted, strict=False)
        )

    return test


def _all_of(values: Collection[object], declared: object, wanted: object, *, lenient: bool) -> bool:
    test = _test(wanted, lenient=lenient)
    return all(test(each, declared) for each in values)


def _is_collection(origin: type) -> bool:
    """Whether a class is a collection, whose type parameters are its elements' types; classes with fields are none."""
    with_fields = any(hasattr(origin, each) for each in ("model_fields", "_fields", "__dataclass_fields__"))
    return hasattr(origin, "__iter__") and not with_fields


def _values_by_parameter(value: Any, origin: type, arguments: Arguments) -> Sequence[Collection[object]] | None:
    """The values in an object for each type parameter of its type; None if the number of parameters differs."""
    if not _is_collection(origin):
        by_parameter: dict[object, list[object]] = {each: [] for each in parameters_of(origin)}
        for name, kind in field_kinds(origin).items():
            for parameter, each in _values_of_parameters(getattr(value, name, None), kind):
                by_parameter.setdefault(parameter, []).append(each)
        return [by_parameter[each] for each in parameters_of(origin)]
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
    """The type parameters in the declared type of a value, each with an object of that type in the value."""
    options = alternatives(kind)
    if not any(map(open_in, options)) or any(not open_in(each) and matcher(each)(value) for each in options):
        return
    for each in options:
        if isinstance(each, TypeVar):
            yield each, value
            continue
        inner, arguments = origin_and_arguments(each)
        if open_in(each) and isinstance(inner, type) and isinstance(value, inner):
            wanted = [argument for argument in arguments if argument is not Ellipsis]
            for values, argument in zip(_values_by_parameter(value, inner, arguments) or (), wanted, strict=False):
                for found in values:
                    yield from _values_of_parameters(found, argument)
