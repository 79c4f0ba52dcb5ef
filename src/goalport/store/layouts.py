"""Layouts: how an object of a class with fields is written, and created again.

Dataclasses, pydantic models, named tuples and enums have a layout, which is determined once for each class. Only their
fields are stored. Objects are copied in the way of the module `copy`: constructors and validators do not run. Fields
that were added to a class since an object was stored get their defaults; any other mismatch is an error that names the
field.

Records of goalport itself are `closed`: pydantic writes and reads them, by the types that their fields declare.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum, Flag
from functools import partial, reduce
from io import IOBase
from socket import socket
from threading import Event, Lock, RLock
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any, Final, Generic, TypeVar, cast, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, core_schema

from goalport.agents.blackboard import field_kinds, is_alias, origin_and_arguments
from goalport.agents.domain import SomeOf
from goalport.agents.domain.signature import part_names
from goalport.base.errors import Unreadable, Unstorable
from goalport.base.words import validation_problems
from goalport.store.type_names import Json, TypeNames, persistent_mark

T = TypeVar("T")
C = TypeVar("C", bound=type)
_Default = Callable[[dict[str, Any]], object]
"""Computes a default from the values of the other fields."""
_NO_NOTES: Final[Mapping[str, Any]] = {}
_CLOSED: Final = "__goalport_closed__"
_HEAP_TYPE: Final = 1 << 9
"""The flag of classes defined by a class statement; other classes have content outside of fields."""
_CODE: Final = (
    *(FunctionType, BuiltinFunctionType, MethodType, MethodDescriptorType),
    *(partial, staticmethod, classmethod, property),
)
_LIVE: Final[tuple[tuple[type, str], ...]] = (
    (ModuleType, "a module"),
    (IOBase, "an open file"),
    (Awaitable, "a task or coroutine"),
    (AsyncIterator, "an iterator"),
    (Iterator, "an iterator"),
    (type(Lock()), "a lock"),
    (type(RLock()), "a lock"),
    (Event, "an event"),
    (socket, "a connection"),
)


class StoredClass:
    """A class, with the name and version under which its objects are stored, and its known field or member names."""

    def __init__(self, cls: type, names: TypeNames, known: Iterable[str]) -> None:
        origin, self.arguments = cast("tuple[type, tuple[object, ...]]", origin_and_arguments(cls))
        mark = persistent_mark(origin)
        self.cls = cls
        self.name = names.name_of(origin)
        self.version = 1 if mark is None else mark.version
        self.upcast = None if mark is None else mark.upcast
        self.tag = self.name if self.version == 1 else f"{self.name}@{self.version}"
        self.known = frozenset(known)
        """The names that stored objects may contain: those of fields or of members."""

    def upcasted(self, version: int, stored: dict[str, Any]) -> dict[str, Any]:
        """Fields stored by an earlier version, as today's class names them. Raises `Unreadable` if that fails."""
        if version > self.version:
            problem = f"it was written by version {version} of the class, and this program has version {self.version}."
            raise Unreadable(self.name, problem, "Deploy the newer program again.")
        if version == self.version or self.upcast is None:
            return stored
        upcast, fix = self.upcast, "Correct the function that @persistent names."
        return self.called(lambda: dict(upcast(version, stored)), f"upcast failed for version {version}", fix)

    def called(self, function: Callable[[], T], problem: str, fix: str, *, field: str = "") -> T:
        """The result of a function of the class's author. Raises `Unreadable` for any exception."""
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

    optional = frozenset[str]()
    """Fields that may be missing without a default."""

    def __init__(
        self, cls: type, names: TypeNames, defaults: Mapping[str, _Default | None], not_stored: Iterable[str] = ()
    ) -> None:
        self.defaults = defaults
        """All fields in order, each with the function that computes its default, or None."""
        self.names = tuple(sorted(defaults.keys() - set(not_stored)))
        """The stored fields, sorted, so that no database changes their order."""
        self.secret = frozenset(_secrets_in(cls))
        """The fields that are marked as secret: they are encrypted."""
        super().__init__(cls, names, self.names)

    @abstractmethod
    def values(self, value: Any, /) -> Mapping[str, Any]:
        """The values of the fields that have one; it may contain other attributes too."""

    def notes(self, _: Any, /) -> Mapping[str, Any]:
        """Data besides the fields: the `$extra` fields of a model, and those that were set explicitly (`$given`)."""
        return _NO_NOTES

    def make(self) -> Any:
        """A new object without values, or None if the class cannot have one."""
        return object.__new__(cast("type[object]", self.cls))

    @abstractmethod
    def fill(self, made: Any, values: dict[str, Any], notes: Mapping[str, Any], /) -> Any:
        """The object with its values."""

    def completed(self, stored: dict[str, Any], unset: Sequence[str]) -> dict[str, Any]:
        """The fields, completed by defaults. Raises `Unreadable` for fields that do not fit the class."""
        if unknown := stored.keys() - self.defaults.keys():
            raise self.unfit(min(unknown), "the class has no such field.", "renames or drops")
        for name, default in self.defaults.items():
            if name in stored or name in unset or (default is None and name in self.optional):
                continue
            if default is None:
                raise self.unfit(name, "it was stored without this field, which has no default.", "fills in")
            fix = "Correct what makes the default: it was stored without this field."
            stored[name] = self.called(partial(default, stored), "its default failed", fix, field=name)
        return stored


class _DataclassLayout(Layout):
    def __init__(self, cls: type, names: TypeNames) -> None:
        def default_of(declared: Any) -> _Default | None:
            if declared.default is not MISSING:
                return lambda _: declared.default
            return None if declared.default_factory is MISSING else lambda _: declared.default_factory()

        declared = fields(cast("Any", cls))
        not_stored = [each.name for each in declared if each.metadata.get("stored") is False]
        super().__init__(cls, names, {each.name: default_of(each) for each in declared}, not_stored)
        self._slotted = cls.__dictoffset__ == 0 or any(vars(each).get("__slots__") for each in cls.__mro__)
        for name in not_stored:
            if self.defaults[name] is None:
                raise Unstorable(cls.__name__, f"its field {name} is marked as not stored. Give it a default.")

    def values(self, value: Any) -> Mapping[str, Any]:
        if self._slotted:
            return {name: getattr(value, name) for name in self.names if hasattr(value, name)}
        return value.__dict__

    def fill(self, made: Any, values: dict[str, Any], _: Mapping[str, Any], /) -> Any:
        if self._slotted:
            for name, each in values.items():
                object.__setattr__(made, name, each)
        else:
            made.__dict__.update(values)
        return made


class _ModelLayout(Layout):
    def __init__(self, cls: type[BaseModel], names: TypeNames) -> None:
        def default_of(declared: Any) -> _Default | None:
            if declared.default is PydanticUndefined and declared.default_factory is None:
                return None
            return lambda values: declared.get_default(call_default_factory=True, validated_data=values)

        declared, private = cls.model_fields, cls.__private_attributes__
        super().__init__(cls, names, {name: default_of(each) for name, each in {**declared, **private}.items()})
        self._fields, self._private, self.optional = frozenset(declared), frozenset(private), frozenset(private)
        self._allows_extra = cls.model_config.get("extra") == "allow"

    def values(self, value: Any, /) -> Mapping[str, Any]:
        private = value.__pydantic_private__
        return {**value.__dict__, **private} if private else value.__dict__

    def notes(self, value: Any, /) -> Mapping[str, Any]:
        extra, given = value.__pydantic_extra__, value.__pydantic_fields_set__
        notes: dict[str, Any] = {"$extra": extra} if extra else {}
        if given != (self._fields.union(extra) if extra else self._fields):
            notes["$given"] = sorted(given)
        return notes

    def fill(self, made: Any, values: dict[str, Any], notes: Mapping[str, Any], /) -> Any:
        extra, given = notes.get("$extra", {}), notes.get("$given")
        if extra and not self._allows_extra:
            raise self.unfit(min(extra), "the class allows no extra fields now.", "renames or drops")
        state = {name: values[name] for name in self.defaults if name in values}
        private = {name: state.pop(name) for name in self._private if name in state}
        known = state.keys() | extra.keys()
        object.__setattr__(made, "__dict__", state)
        object.__setattr__(made, "__pydantic_extra__", extra if self._allows_extra else None)
        object.__setattr__(made, "__pydantic_fields_set__", set(known) if given is None else known & set(given))
        object.__setattr__(made, "__pydantic_private__", private if self._private else None)
        return made


class _NamedTupleLayout(Layout):
    def __init__(self, cls: type, names: TypeNames) -> None:
        given: Mapping[str, object] = getattr(cls, "_field_defaults", {})
        tuple_fields = cast("tuple[str, ...]", getattr(cls, "_fields", ()))

        def default_of(name: str) -> _Default | None:
            return (lambda _: given[name]) if name in given else None

        super().__init__(cls, names, {name: default_of(name) for name in tuple_fields})

    def values(self, value: Any) -> Mapping[str, Any]:
        return dict(zip(self.defaults, value, strict=True))

    def make(self) -> Any:
        return None

    def fill(self, _: Any, values: dict[str, Any], __: Mapping[str, Any], /) -> Any:
        return cast("Any", tuple).__new__(self.cls, [values[name] for name in self.defaults])


class EnumLayout(StoredClass):
    """Enum members are stored by name, so that their values may change; flags by the names of their parts."""

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
        """The member of that name, or the flags of several names. Raises `Unreadable` for an unknown name."""
        today: list[str] = []
        for each in [stored] if isinstance(stored, str) else stored:
            name = str(self.upcasted(version, {"name": each}).get("name"))
            if name not in self.known:
                raise self.unfit(name, "the enum has no such member.", "maps")
            today.append(name)
        return self._members[today[0]] if isinstance(stored, str) else self._joined(today)

    def _joined(self, parts: Sequence[str]) -> object:
        flags = cast("type[Flag]", self.cls)
        return reduce(lambda one, other: one | other, (flags[each] for each in parts), flags(0))


def closed(cls: C) -> C:
    """Mark a record class of goalport: its objects are of exactly this class, and field values of the declared types.

    pydantic writes them as a whole, without class names and without fields at their defaults. A field whose values may
    be of other classes is annotated with `OPEN`. Data of earlier versions is still read.
    """
    setattr(cls, _CLOSED, True)
    return cls


class _Open:
    """Marks a field of a closed class whose values are written with the names of their classes."""

    def __get_pydantic_core_schema__(self, _: object, __: object) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            lambda data, info: info.context(data),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value, info: info.context(value), info_arg=True
            ),
        )


OPEN: Final = _Open()


class ClosedLayout(_DataclassLayout):
    """The layout of a closed class. The first version of its objects was written field by field."""

    def __init__(self, cls: type, names: TypeNames) -> None:
        super().__init__(cls, names)
        self.version = 2
        self.tag = f"{self.name}@2"
        self._adapter = TypeAdapter[Any](cls)

    def written(self, value: object, write: Callable[[Any], Json]) -> Json:
        """The data of an object; `write` encodes the values of open fields."""
        return self._adapter.dump_python(value, mode="json", exclude_defaults=True, context=write, warnings="error")

    def read(self, data: Json, read: Callable[[Json], object]) -> object:
        """The object of data; `read` decodes the values of open fields. Raises `Unreadable`."""
        try:
            return self._adapter.validate_python(data, context=read)
        except ValidationError as error:
            problem = f"{'; '.join(validation_problems(error, data))}."
            raise Unreadable(self.name, problem, "Deploy the program that wrote it.") from error


def _secrets_in(cls: type) -> Iterator[str]:
    """The fields that are marked as secret, in a dataclass or by keywords of JSON Schema."""

    def markers(kind: object) -> Iterator[object]:
        """The metadata of `Annotated` on a type, and on the types inside it."""
        yield from getattr(kind, "__metadata__", ())
        for each in get_args(kind):
            yield from markers(each)

    declared_fields = cast("Mapping[str, Field[Any]]", getattr(cls, "__dataclass_fields__", {}))
    yield from (name for name, each in declared_fields.items() if each.metadata.get("secret") is True)
    known: Mapping[str, FieldInfo] = getattr(cls, "__pydantic_fields__", {})
    for name, kind in field_kinds(cls).items():
        declared = [known[name], *known[name].metadata] if name in known else []
        for each in (*declared, *markers(kind.__value__ if is_alias(kind) else kind)):
            extra = each.json_schema_extra if isinstance(each, FieldInfo) else None
            match each.json_schema if isinstance(each, WithJsonSchema) else extra:
                case {"writeOnly": True} | {"format": "password"}:
                    yield name
                case _:
                    pass


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
    for base in cls.__mro__[:-1]:
        if "__del__" in vars(base):
            why = "it has __del__, so it holds something that has to be given back. Store what is needed to get it."
            raise Unstorable(cls.__name__, why)
        if not base.__flags__ & _HEAP_TYPE and base.__name__ != Generic.__name__:
            why = f"it is a {base.__name__} too, whose content is in no field. Give it a field for that."
            raise Unstorable(cls.__name__, why)
    if issubclass(cls, BaseModel):
        return _ModelLayout(cls, names)
    return ClosedLayout(cls, names) if _CLOSED in vars(cls) else _DataclassLayout(cls, names)


def why_unknown(cls: type[Any]) -> str:
    """Why objects of a class without layout or standard form cannot be written, and what to do."""
    if issubclass(cls, _CODE):
        return "code is not stored. Keep what it works on, and choose the function where it is called."
    if issubclass(cls, BaseException):
        return "an exception holds the frames of its traceback. Keep its message."
    for kind, what in _LIVE:
        if issubclass(cls, kind):
            return f"{what} ends with the program. Keep what is needed to get a new one."
    content = (each for each in (str, bytes, int, float, list, dict, set, tuple) if issubclass(cls, each))
    if base := next(content, None):
        return f"it is a {base.__name__} of a class of its own. Make it a dataclass with a field for its content."
    return "it is neither a dataclass, a pydantic model, an enum nor a standard type. Make it one of these."
