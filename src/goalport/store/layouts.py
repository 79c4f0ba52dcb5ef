"""Layouts: what is written of an object of a class with fields, and how one is made of it again.

Dataclasses, pydantic models, named tuples and enums have a layout, which is worked out once for each class. Objects are
taken apart and made as `copy` does it: their constructors and validators do not run. What a class has got since an
object was written is filled with defaults; everything else that does not fit is an error that names the field. Below:
`type_names`. Above: the codec, which writes and reads the values of the fields.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum, Flag
from functools import cached_property, lru_cache, reduce
from types import MemberDescriptorType
from typing import Any, Final, Protocol, TypeVar, cast, get_args

from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from goalport.agents.blackboard import field_kinds, is_alias, taken_apart
from goalport.agents.domain import SomeOf
from goalport.agents.domain.signature import part_names
from goalport.base.errors import Unreadable, Unstorable
from goalport.store.refusals import holds_more
from goalport.store.type_names import TypeNames, Upcast, persistent_mark

_ORIGIN: Final = "__orig_class__"
"""Where an object of a generic dataclass has its type with its arguments."""
T = TypeVar("T")
_Default = Callable[[dict[str, Any]], object]
"""Takes the values of the other fields."""


@dataclass(slots=True)
class Notes:
    """What is to be said of an object beside its fields, which most objects do not need."""

    unset: Sequence[str] = ()
    """The fields that have no value."""
    given: Sequence[str] | None = None
    """The fields of a model that were set, if they are not just all of them."""
    extra: Mapping[str, object] | None = None
    """The fields of a model that its class does not know."""
    more: Mapping[str, object] | None = None
    """The attributes that are no fields."""
    kind: Any = None
    """The type with its arguments, where only the object knows them."""


class StoredClass:
    """A class by the name and the version under which its objects are stored, and the names that it has in them."""

    def __init__(self, cls: type, names: TypeNames, known: Iterable[str]) -> None:
        origin, arguments = cast("tuple[type, tuple[object, ...]]", taken_apart(cls))
        mark = persistent_mark(origin)
        self.cls = cls
        self.arguments = arguments
        """The arguments of a generic model, whose class knows them."""
        self.name = names.name_of(origin)
        self.version = 1 if mark is None else mark.version
        self.upcast: Upcast | None = None if mark is None else mark.upcast
        self.tag = self.name if self.version == 1 else f"{self.name}@{self.version}"
        self.all = frozenset(known)
        """The names that may be stored: those of fields or of members."""

    def upcasted(self, version: int, stored: dict[str, Any]) -> dict[str, Any]:
        """What was stored by an earlier version, as today's class calls it. Raises `Unreadable` if that fails."""
        if version > self.version:
            raise Unreadable(
                self.name,
                f"it was written by version {version} of the class, and this program has version {self.version}.",
                "Deploy the newer program again.",
            )
        if version == self.version or self.upcast is None:
            return stored
        upcast = self.upcast
        return self.called(
            lambda: dict(upcast(version, stored)),
            f"upcast failed for version {version}",
            "Correct the function that @persistent names.",
        )

    def called(self, function: Callable[[], T], problem: str, fix: str, *, field: str = "") -> T:
        """The result of a function of the author's. Raises `Unreadable` for whatever it raises."""
        try:
            return function()
        except (Exception, SystemExit) as error:
            what = f"{problem} ({type(error).__name__}: {error})."
            raise Unreadable(self.name, what, fix, field=field) from error

    def unfit(self, name: str, problem: str, does: str) -> Unreadable:
        """The error for a name that does not fit today's class."""
        written = f'@persistent("{self.name}", version={self.version + 1}, upcast=…)'
        return Unreadable(self.name, problem, f"Write {written} with a function that {does} {name!r}.", field=name)


class Layout(StoredClass, ABC):
    """The layout of a class with fields. Subclasses say where its objects keep their values."""

    def __init__(
        self,
        cls: type,
        names: TypeNames,
        defaults: Mapping[str, _Default | None],
        left_out: Iterable[str] = (),
        secret: Iterable[str] = (),
    ) -> None:
        self.defaults = defaults
        """All fields in order, each with what makes its default, or None."""
        self.left_out = frozenset(left_out)
        """The fields and cached values that are not written."""
        self.names = tuple(sorted(each for each in defaults if each not in self.left_out))
        """The fields that are written, in an order that no database changes."""
        self.secret = frozenset(secret)
        """The fields that are marked as secret: they are sealed."""
        super().__init__(cls, names, self.names)

    @abstractmethod
    def take_apart(self, value: Any) -> tuple[Mapping[str, Any], Notes | None]:
        """The values of the fields, and notes where there is more to say."""

    def make(self) -> Any:
        """An object without values, or None where the class cannot have one."""
        return object.__new__(cast("type[object]", self.cls))

    @abstractmethod
    def fill(self, made: Any, values: dict[str, Any], notes: Notes) -> Any:
        """The object with its values."""

    def completed(self, stored: dict[str, Any], unset: Sequence[str]) -> dict[str, Any]:
        """Fields with the defaults of those that are missing. Raises `Unreadable` for those that do not fit."""
        if unknown := stored.keys() - self.all:
            raise self.unfit(min(unknown), "the class has no such field.", "renames or drops")
        return {name: value for name in self.defaults if (value := self._value(name, stored, unset)) is not MISSING}

    def _value(self, name: str, stored: dict[str, Any], unset: Sequence[str]) -> object:
        if name in stored:
            return stored[name]
        default = self.defaults[name]
        if name in unset:
            return MISSING
        if default is None:
            raise self.unfit(name, "it was stored without this field, which has no default.", "fills in")
        fix = "Correct what makes the default: it was stored without this field."
        return self.called(lambda: default(stored), "its default failed", fix, field=name)

    def _notes(self, state: Mapping[str, Any]) -> Notes:
        return Notes(
            unset=[name for name in self.names if name not in state],
            more={
                name: value
                for name, value in state.items()
                if name not in self.all and name not in self.left_out and name != _ORIGIN
            },
            kind=state.get(_ORIGIN),
        )


class _DataclassLayout(Layout):
    def __init__(self, cls: type, names: TypeNames) -> None:
        declared = fields(cast("Any", cls))
        unstored = [each.name for each in declared if each.metadata.get("stored") is False]
        defaults = {each.name: _default_of(each) for each in declared}
        secret = [each.name for each in declared if each.metadata.get("secret") is True]
        super().__init__(cls, names, defaults, [*unstored, *_cached_in(cls)], [*secret, *_secrets_in(cls)])
        for name in unstored:
            if defaults[name] is None:
                raise Unstorable(cls.__name__, f"its field {name} is marked as not stored. Give it a default.")
        self._slots = _slots_of(cls)

    def take_apart(self, value: Any) -> tuple[Mapping[str, Any], Notes | None]:
        state = self._slot_values(value) if self._slots or not hasattr(value, "__dict__") else value.__dict__
        return state, None if state.keys() == self.all else self._notes(state)

    def _slot_values(self, value: Any) -> dict[str, Any]:
        state: dict[str, Any] = {**getattr(value, "__dict__", {})}
        for name, slot in self._slots.items():
            try:
                state[name] = slot.__get__(value)
            except AttributeError:  # a field without a value
                continue
        return state

    def fill(self, made: Any, values: dict[str, Any], notes: Notes) -> Any:
        state = {**values, **notes.more} if notes.more else values
        if notes.kind is not None:
            state[_ORIGIN] = notes.kind
        for name in self._slots.keys() & state.keys():
            self._slots[name].__set__(made, state.pop(name))
        if state:
            self._attributes(made).update(state)
        return made

    def _attributes(self, made: Any) -> dict[str, Any]:
        try:
            return made.__dict__
        except AttributeError:
            raise Unreadable(
                self.name, "it has __slots__ now, and had other attributes.", "Remove slots=True."
            ) from None


class _ModelLayout(Layout):
    def __init__(self, cls: type[BaseModel], names: TypeNames) -> None:
        declared, private = cls.model_fields, cls.__private_attributes__
        defaults = {name: _model_default(each) for name, each in {**declared, **private}.items()}
        super().__init__(cls, names, defaults, _cached_in(cls), _secrets_in(cls))
        self._order = tuple(declared)
        self._fields = frozenset(declared)
        self._private = frozenset(private)
        self._optional = {name for name in private if defaults[name] is None}
        """Private attributes without a default may always be unset."""

    def take_apart(self, value: Any) -> tuple[Mapping[str, Any], Notes | None]:
        state: dict[str, Any] = value.__dict__
        private, extra, given = value.__pydantic_private__, value.__pydantic_extra__, value.__pydantic_fields_set__
        if private:
            state = {**state, **private}
        if state.keys() == self.all and given == self._fields and not extra:
            return state, None
        notes = Notes() if state.keys() == self.all else self._notes(state)
        notes.extra = extra
        if given != (self._fields.union(extra) if extra else self._fields):
            notes.given = sorted(given)
        return state, notes

    def fill(self, made: Any, values: dict[str, Any], notes: Notes) -> Any:
        private = {name: value for name, value in values.items() if name in self._private}
        state = {name: values[name] for name in self._order if name in values}
        allows_extra = self.cls.model_config.get("extra") == "allow"  # type: ignore[attr-defined]
        if notes.extra and not allows_extra:
            raise self.unfit(min(notes.extra), "the class allows no extra fields now.", "renames or drops")
        object.__setattr__(made, "__dict__", {**state, **(notes.more or {})})
        object.__setattr__(made, "__pydantic_extra__", dict(notes.extra or {}) if allows_extra else None)
        known = state.keys() | (notes.extra or {}).keys()
        given = set(known) if notes.given is None else known & set(notes.given)
        object.__setattr__(made, "__pydantic_fields_set__", given)
        object.__setattr__(made, "__pydantic_private__", private if self._private else None)
        return made

    def _value(self, name: str, stored: dict[str, Any], unset: Sequence[str]) -> object:
        if name in self._optional and name not in stored:
            return MISSING
        return super()._value(name, stored, unset)


class _NamedTupleLayout(Layout):
    def __init__(self, cls: type, names: TypeNames) -> None:
        given: Mapping[str, object] = getattr(cls, "_field_defaults", {})
        tuple_fields = cast("tuple[str, ...]", getattr(cls, "_fields", ()))
        super().__init__(cls, names, {name: _constant(given[name]) if name in given else None for name in tuple_fields})

    def take_apart(self, value: Any) -> tuple[Mapping[str, Any], Notes | None]:
        if getattr(value, "__dict__", None):
            raise Unstorable(self.cls.__name__, "it is a named tuple with other attributes. Use a dataclass.")
        return dict(zip(self.defaults, value, strict=True)), None

    def make(self) -> Any:
        return None

    def fill(self, made: Any, values: dict[str, Any], notes: Notes) -> Any:
        return cast("Any", tuple).__new__(self.cls, [values[name] for name in self.defaults])


class EnumLayout(StoredClass):
    """The members of an enum by their names, so that their values may change; flags by the names of their parts."""

    def __init__(self, cls: type, names: TypeNames) -> None:
        self._members: Mapping[str, object] = vars(cls)["_member_map_"]
        super().__init__(cls, names, self._members)

    def written(self, value: Enum) -> str | list[str]:
        """The name of a member; of flags the names of all."""
        if not isinstance(value, Flag):
            return value.name
        parts = [str(each.name) for each in value]
        if self._joined(parts) != value:
            raise Unstorable(self.cls.__name__, "it has bits without a name. Declare a member for each bit.")
        return parts

    def member(self, version: int, stored: str | Sequence[str]) -> object:
        """The member of a name, or the flags of several. Raises `Unreadable` for a name that there is no longer."""
        if not isinstance(stored, str):
            return self._joined([self._today(version, each) for each in stored])
        return self._members[self._today(version, stored)]

    def _today(self, version: int, stored: str) -> str:
        name = str(self.upcasted(version, {"name": stored}).get("name"))
        if name not in self.all:
            raise self.unfit(name, "the enum has no such member.", "maps")
        return name

    def _joined(self, parts: Sequence[str]) -> object:
        flags = cast("type[Flag]", self.cls)
        return reduce(lambda one, other: one | other, (flags[each] for each in parts), flags(0))


class _Declared(Protocol):
    """A field or private attribute of a pydantic model."""

    def get_default(self, *, call_default_factory: bool, validated_data: dict[str, Any]) -> Any: ...


def _constant(value: object) -> _Default:
    return lambda _: value


def _default_of(declared: Any) -> _Default | None:
    if declared.default is not MISSING:
        return _constant(declared.default)
    if declared.default_factory is not MISSING:
        return lambda _: declared.default_factory()
    return None


def _model_default(declared: Any) -> _Default | None:
    if declared.default is PydanticUndefined and declared.default_factory is None:
        return None
    return lambda values: cast("_Declared", declared).get_default(call_default_factory=True, validated_data=values)


def _secrets_in(cls: type) -> Iterator[str]:
    """The fields that are marked as secret, by the words of JSON Schema: `writeOnly`, or the format `password`."""
    known: Mapping[str, FieldInfo] = getattr(cls, "__pydantic_fields__", {})
    for name, kind in field_kinds(cls).items():
        declared = [known[name], *known[name].metadata] if name in known else []
        if any(map(_says_secret, (*declared, *_markers(kind.__value__ if is_alias(kind) else kind)))):
            yield name


def _markers(kind: object) -> Iterator[object]:
    """What `Annotated` adds to a type, and to those inside it."""
    yield from getattr(kind, "__metadata__", ())
    for each in get_args(kind):
        yield from _markers(each)


def _says_secret(marker: object) -> bool:
    match marker:
        case FieldInfo(json_schema_extra={"writeOnly": True} | {"format": "password"}):
            return True
        case WithJsonSchema(json_schema={"writeOnly": True} | {"format": "password"}):
            return True
        case _:
            return False


def _slots_of(cls: type) -> dict[str, Any]:
    return {
        name: slot
        for each in reversed(cls.__mro__)
        for name, slot in vars(each).items()
        if isinstance(slot, MemberDescriptorType)
    }


def _cached_in(cls: type) -> Iterator[str]:
    return (name for each in cls.__mro__ for name in _cached_by(each))


@lru_cache(maxsize=64)
def _cached_by(cls: type) -> tuple[str, ...]:
    """The cached properties of a class itself: remembered for the bases that all models share, which are large."""
    return tuple(name for name, found in vars(cls).items() if isinstance(found, cached_property))


def layout_of(cls: type[Any], names: TypeNames) -> Layout | EnumLayout | None:
    """The layout of a class; None if it has no fields. Raises `Unstorable` if its objects can never be written."""
    if issubclass(cls, Enum):
        return EnumLayout(cls, names)
    if tuple in cls.__mro__ and hasattr(cls, "_fields"):
        return _NamedTupleLayout(cls, names)
    if issubclass(cls, SomeOf):
        part_names(cls)  # makes a plain subclass a dataclass, as making its first object does
    if not (is_dataclass(cls) or issubclass(cls, BaseModel)):
        return None
    if why := holds_more(cls):
        raise Unstorable(cls.__name__, why)
    return _ModelLayout(cls, names) if issubclass(cls, BaseModel) else _DataclassLayout(cls, names)
