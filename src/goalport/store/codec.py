"""The codec: the objects of a process as JSON data, and back.

A codec belongs to one process and remembers its objects, so that an object that occurs again is written as a reference
and read as the same object. The data names classes; nothing in it is imported, called or evaluated. Of the classes,
only defaults of new fields and the upcasts of `@persistent` run.

None, bool, int, float, str and a list of values are written as themselves. Everything else is an object with one key,
its tag: `{"agents.star_news:Writeup": {"title": "Aries"}}` for an object with its fields, `{"$date": …}` for standard
types, `{"$type": …}` for types, and `{"$ref": [3, 0]}` for a value that was written before: the number of an object and
the place in it, or the place alone in the same object. Lists, objects with a tag and texts of 128 characters have a
place, in the order of writing. Fields are sorted, so that the order of keys in JSON does not matter.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import isabstract
from math import isfinite
from threading import Lock, RLock
from types import FunctionType, NoneType
from typing import Any, Final, Literal, NoReturn, Protocol, TypeVar, cast, get_origin

from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError, from_json, to_json
from typing_extensions import is_typeddict

from goalport.agents.blackboard import alternatives, field_kinds, origin_and_arguments, plain
from goalport.base.errors import SettingsError, Unreadable, Unstorable
from goalport.base.words import type_name
from goalport.store.layouts import ClosedLayout, EnumLayout, Layout, layout_of, why_unknown
from goalport.store.records import ObjectRecord, StoredProcess
from goalport.store.type_names import (
    BAD_DATA,
    STANDARD,
    STANDARD_TAGS,
    TYPE_FORMS,
    Json,
    TypeNames,
    read_type,
    written_type,
)

NO_KEY: Final = (
    "a secret is not written in clear, and there is no key that encrypts it. Keep its name, and look it up where it is"
    " used."
)
_LONG_TEXT: Final = 128
"""Texts of at least this length have a place, since data of earlier versions refers to them."""
_WIDE: Final = 1 << 63
"""Integers of at least this size are written as text: other JSON parsers read them as floats."""
_DEEPEST: Final = 90
"""The deepest nesting of values; each level is two levels of JSON, and pydantic's parser reads two hundred."""
_LONGEST_KEY: Final = 40
_FOREIGN: Final = "The store was changed by another program, or written by a newer one."
_PLAIN: Final = frozenset({NoneType, bool, int, float})
"""Types whose values are written as themselves."""


class Seal(Protocol):
    """Encrypts secrets for a store. Both methods raise `SettingsError`, with what to do, without the right key."""

    def seal(self, secret: bytes, /) -> str:
        """The encrypted secret, as text."""
        ...

    def unseal(self, sealed: str, /) -> bytes:
        """The secret. Raises `ValueError` for a text that was never sealed."""
        ...


class Seals(Protocol):
    """Returns a seal for each process and context: encrypted data cannot be read under the id of another."""

    def of(self, process_id: str, /) -> Seal:
        """The seal of a process."""
        ...


@dataclass(frozen=True, slots=True)
class Sealed:
    """A value that is always encrypted, such as an answer that is not validated yet.

    It is read as the value itself. Without a key it cannot be written.
    """

    value: object


class StoredTypes:
    """The classes whose objects can be written and read, each analysed once.

    Create a new one when a workspace is loaded again, since its classes are new then.
    """

    def __init__(self, names: TypeNames | None = None) -> None:
        self.names = TypeNames() if names is None else names
        self._layouts: dict[Any, Layout | EnumLayout] = {}
        self._forms = dict(_FORMS)
        self._tags: dict[tuple[str, object], tuple[Layout | EnumLayout | type[Any], int]] = {}
        self.generics: dict[tuple[str, ...], object] = {}
        """Generic classes with arguments, by their names and the names of the arguments."""

    def layout(self, cls: type) -> Layout | EnumLayout | None:
        """The layout of a class; None if it has no fields. Raises `Unstorable` if its objects can never be written."""
        layout = self._layouts.get(cls)
        if layout is None and (layout := layout_of(cls, self.names)) is not None:
            self._layouts[cls] = layout
        return layout

    def stored(self, tag: str, cls: Any = None) -> tuple[Layout | EnumLayout | type[Any], int]:
        """The layout of the class that a tag names (or a URL class of pydantic itself), and the version in the tag.

        `cls`: the class, if the tag alone does not determine it. Raises `Unreadable`.
        """
        if (found := self._tags.get((tag, cls))) is not None:
            return found
        name, _, number = tag.partition("@")
        if number and not number.isdecimal():
            _refuse(tag)
        kind = self.names.find(name) if cls is None else cls
        layout: Layout | EnumLayout | type[Any] | None = kind if isinstance(kind, type) and _is_url(kind) else None
        try:
            if layout is None and isinstance(kind, type):
                layout = self.layout(kind)
        except Unstorable as error:
            raise Unreadable(name, error.why, "") from None
        if layout is None:
            problem = "it is neither a dataclass, a pydantic model, a named tuple nor an enum now."
            raise Unreadable(name, problem, "Make it one of these again.")
        found = self._tags[tag, cls] = layout, int(number or 1)
        return found

    def form(self, cls: type[Any]) -> "_Form":
        """The function that writes values of a class. Raises `Unstorable` if they cannot be written."""
        form = self._forms.get(cls)
        if form is None:
            form = self._forms[cls] = self._form(cls)
        return form

    def _form(self, cls: type[Any]) -> "_Form":
        if type in cls.__mro__:
            return _write_type, False
        if {Secret, SecretStr, SecretBytes}.intersection(cls.__mro__):
            raise Unstorable(cls.__name__, "only SecretStr and SecretBytes can be sealed. Use one of them.")
        if _is_url(cls):
            name = self.names.name_of(cls)
            return lambda _, value: {name: str(value)}, False
        layout = self.layout(cls)
        match layout:
            case EnumLayout():
                return lambda _, value: {layout.tag: layout.written(value)}, False
            case ClosedLayout():
                return lambda encoder, value: encoder.record(layout, value), False
            case Layout():
                return lambda encoder, value: {layout.tag: encoder.fields(layout, value)}, True
            case _:
                raise Unstorable(cls.__name__, why_unknown(cls))


def _is_url(cls: type) -> bool:
    """Whether a class is a URL type of pydantic, whose values are written as their texts."""
    return any(each.__module__ == "pydantic.networks" and each.__name__ == "AnyUrl" for each in cls.__mro__)


class Codec:
    """Writes and reads the objects of one process, and keeps references to them.

    `types`: shared by the codecs of all processes. `seal`: encrypts secrets; without it they cannot be written.
    """

    def __init__(self, types: StoredTypes, *, seal: Seal | None = None) -> None:
        self.types = types
        self.seal = seal
        self.places: dict[int, tuple[int | None, int]] = {}
        """The position of each object by its `id()`: the number of the containing object, and the place in that."""
        self.objects: dict[int, list[object]] = {}
        """The values in each object, by place. These references also prevent that an `id()` is used again."""

    def encode(self, value: object, number: int | None = None) -> Json:
        """A value as JSON data.

        `number`: the number of the object in its process, to which later data refers; None for data that is written
        again each time, such as the state of a process: it refers to objects, and nothing refers to it. Objects count
        as immutable: changes after the first writing are not written. Raises `Unstorable` for a value that cannot be
        written, and then remembers nothing of it.
        """
        if value is None:
            return None
        if number is not None:
            self._forget(number)
        encoder, kept = _Encoder(self, number), False
        try:
            data = encoder.value(value)
            kept = number is not None
        except Unstorable as error:
            raise (error.within(type_name(type(value))) if error.path else error) from None
        finally:
            if not kept:
                for each in encoder.objects:
                    self.places.pop(id(each), None)
        if number is not None:
            self.objects[number] = encoder.objects
        return data

    def decode(self, data: Json, number: int | None = None) -> object:
        """The value of JSON data; `number` as for `encode`.

        Objects are read in the order of their numbers, and before data without a number. Raises `Unreadable` for data
        that today's classes cannot take.
        """
        if data is None:
            return None
        decoder = _Decoder(self)
        value = decoder.value(data)
        if number is not None:
            self._forget(number)
            self.objects[number] = decoder.objects
            for place, each in enumerate(decoder.objects):
                self.places.setdefault(id(each), (number, place))
        return value

    def _forget(self, number: int) -> None:
        for each in self.objects.pop(number, ()):
            if self.places.get(id(each), (None, 0))[0] == number:
                del self.places[id(each)]


class _Encoder:
    """Writes one object with everything in it."""

    __slots__ = ("_codec", "_inside", "_number", "_places", "objects")

    def __init__(self, codec: Codec, number: int | None) -> None:
        self._codec, self._number, self._places = codec, number, codec.places
        self.objects: list[object] = []
        """The values that have a place, by place."""
        self._inside: list[int] = []
        """The places of the values around this one."""

    def value(self, value: Any) -> Json:
        """A value as data. Raises `Unstorable`, with the path from here to the faulty part."""
        kind = cast("type[object]", type(value))
        if kind is str:
            if value.isascii() or _is_unicode(value):
                if len(value) >= _LONG_TEXT:
                    self.objects.append(value)
                return value
        elif kind is int:
            if -_WIDE <= value < _WIDE:
                return value
        elif kind is NoneType or kind is bool or (kind is float and isfinite(value)):
            return value
        if (there := self._places.get(id(value))) is not None:
            return self._reference(value, there)
        write, placed = self._codec.types.form(kind)
        if not placed:
            return write(self, value)
        if len(self._inside) == _DEEPEST:
            raise Unstorable(kind.__name__, f"it is nested more than {_DEEPEST} levels deep. Refer to parts by name.")
        place = len(self.objects)
        self._places[id(value)] = self._number, place
        self.objects.append(value)
        self._inside.append(place)
        data = write(self, value)
        self._inside.pop()
        return data

    def _reference(self, value: object, there: tuple[int | None, int]) -> Json:
        number, place = there
        if number != self._number:
            return {"$ref": [number, place]}
        if place in self._inside:
            raise Unstorable(type(value).__name__, "it holds itself. Refer to it by a name.")
        return {"$ref": place}

    def items(self, values: Iterable[object], step: str = "[{}]") -> list[Json]:
        """Several values; `step` is the format of an index in the path of an error."""
        data: list[Json] = []
        try:
            for each in values:
                data.append(self.value(each))  # noqa: PERF401 - the length says which one failed
        except Unstorable as error:
            raise error.within(step.format(len(data))) from None
        return data

    def pairs(self, values: Mapping[Any, object]) -> list[Json]:
        """The keys and values of a dict, in turn."""
        data: list[Json] = []
        key: object = None
        try:
            for key, each in values.items():
                data.append(self.value(key))
                data.append(self.value(each))
        except Unstorable as error:
            raise error.within(f"[{_shown(key)}]" if len(data) % 2 else ".keys()") from None
        return data

    def kind(self, value: object) -> Json:
        """A type expression."""
        return written_type(value, self._codec.types.names, self.value)

    def record(self, layout: ClosedLayout, value: object) -> Json:
        """A record of goalport itself. If a field's value is not as declared, it is written like other objects."""
        place, depth = len(self.objects), len(self._inside)
        try:
            return {layout.tag: layout.written(value, self.value)}
        except PydanticSerializationError:
            for each in self.objects[place:]:
                self._places.pop(id(each), None)
            self.objects[place:], self._inside[depth:] = [value], []
            return {layout.name: self.fields(layout, value)}

    def fields(self, layout: Layout, value: object) -> dict[str, Json]:
        """The fields of an object."""
        data: dict[str, Json] = {}
        unset: list[str] = []
        state, name = layout.values(value), ""
        if layout.arguments:
            data["$of"] = [self.kind(each) for each in layout.arguments]
        try:
            for name in layout.names:
                if name in state:
                    data[name] = (self.sealed if name in layout.secret else self.value)(state[name])
                else:
                    unset.append(name)
        except Unstorable as error:
            raise error.within(f".{name}") from None
        if unset:
            data["$unset"] = unset
        if notes := layout.notes(value):
            data |= {name: each if isinstance(each, list) else self.pairs(each) for name, each in notes.items()}
        return data

    def secret(self, value: SecretStr | SecretBytes) -> Json:
        """A secret, sealed."""
        secret = value.get_secret_value()
        if isinstance(secret, str):
            return {"$secret_text": self._encrypted(secret.encode("utf-8", "surrogatepass"), value)}
        return {"$secret_bytes": self._encrypted(secret, value)}

    def sealed(self, value: object) -> Json:
        """The encrypted value of a field that is marked as secret."""
        return {"$sealed": self._encrypted(to_json(self.value(value)), value)}

    def _encrypted(self, secret: bytes, value: object) -> str:
        kind, seal = type(value).__name__, self._codec.seal
        if seal is None:
            raise Unstorable(kind, NO_KEY)
        try:
            return seal.seal(secret)
        except SettingsError as error:
            raise Unstorable(kind, f"it is secret, and there is no key that encrypts it. {error}") from error


def _is_unicode(text: str) -> bool:
    """Whether a text has no lone surrogates, which not every parser accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(key: object) -> str:
    """A key of a dict in the path of an error."""
    shown = repr(key) if isinstance(key, str | int) else type(key).__name__
    return shown if len(shown) <= _LONGEST_KEY else f"{shown[:_LONGEST_KEY]}…"


_Write = Callable[[_Encoder, Any], Json]
_Form = tuple[_Write, bool]
"""The function that writes values of a class, and whether the values have a place for references."""


def _write_standard(tag: str, write: Callable[[Any], Json], encoder: _Encoder, value: object) -> Json:
    encoder.objects.append(value)  # it takes a place, although nothing refers to it
    return {tag: write(value)}


def _write_defaultdict(encoder: _Encoder, value: "defaultdict[object, object]") -> Json:
    factory = value.default_factory
    if factory is not None and not isinstance(factory, type):
        raise Unstorable("defaultdict", "its factory is a function, which is not stored. Use a class, such as list.")
    return {"$defaultdict": [encoder.kind(factory), *encoder.pairs(value)]}


def _write_type(encoder: _Encoder, value: object) -> Json:
    return {"$type": encoder.kind(value)}


_COLLECTIONS: Final[dict[type, _Write]] = {
    list: _Encoder.items,
    tuple: lambda encoder, value: {"$tuple": encoder.items(value)},
    set: lambda encoder, value: {"$set": encoder.items(value, "{{}}")},
    frozenset: lambda encoder, value: {"$frozenset": encoder.items(value, "{{}}")},
    deque: lambda encoder, value: {"$deque": [value.maxlen, *encoder.items(value)]},
    dict: lambda encoder, value: {"$dict": encoder.pairs(value)},
    OrderedDict: lambda encoder, value: {"$ordered_dict": encoder.pairs(value)},
    Counter: lambda encoder, value: {"$counter": encoder.pairs(value)},
    defaultdict: _write_defaultdict,
    SecretStr: _Encoder.secret,
    SecretBytes: _Encoder.secret,
}
_FORMS: Final[dict[type, _Form]] = {
    **{cls: (write, True) for cls, write in _COLLECTIONS.items()},
    **{cls: (partial(_write_standard, each.tag, each.write), False) for cls, each in STANDARD.items()},
    Sealed: (lambda encoder, each: encoder.sealed(each.value), False),
    **dict.fromkeys(TYPE_FORMS, (_write_type, False)),
}


class _Decoder:
    """Reads one object from data that an older program, or anybody with access to the store, may have written."""

    __slots__ = ("_codec", "_types", "objects")

    def __init__(self, codec: Codec) -> None:
        self._codec, self._types = codec, codec.types
        self.objects: list[object] = []
        """The values that have a place, by place."""

    def value(self, data: Json) -> Any:
        """The value of data. Raises `Unreadable` for data that today's classes cannot take."""
        kind = cast("type[object]", type(data))
        if kind is str:
            if len(data) >= _LONG_TEXT:
                self.objects.append(data)
            return data
        if kind in _PLAIN:
            return data
        if kind is list:
            made: list[object] = []
            self.objects.append(made)
            made.extend(map(self.value, data))
            return made
        if kind is not dict or len(data) != 1:
            _refuse(data)
        [(tag, inner)] = data.items()
        if not tag.startswith("$"):
            return self._named(tag, inner)
        read, make = _READERS.get(tag), STANDARD_TAGS.get(tag)
        try:
            if read is not None:
                return read(self, inner)
            if make is None:
                _refuse(data)
            value = make(inner)
        except BAD_DATA as error:
            raise Unreadable(tag, f"{type(error).__name__}: {error}.", _FOREIGN) from None
        self.objects.append(value)
        return value

    def filled(self, made: Any, fill: Callable[[Any], object]) -> Any:
        """A collection that takes its place before its values: in data of earlier versions they may refer to it."""
        self.objects.append(made)
        fill(made)
        return made

    def made(self, make: Callable[[], object]) -> object:
        """A value created from the values inside it, which takes its place before them."""
        place = len(self.objects)
        self.objects.append(None)
        made = self.objects[place] = make()
        return made

    def fill_defaultdict(self, made: "defaultdict[Any, Any]", data: list[Json]) -> None:
        factory = self.kind(data[0])
        known = isinstance(factory, type) and factory.__module__ in {"builtins", "collections"}
        if factory is not None and not known:
            problem = f"its factory is {factory!r}."
            raise Unreadable("defaultdict", problem, "Only built-in types are called to make values.")
        made.default_factory = cast("Any", factory)
        made.update(self.pairs(data[1:]))

    def pairs(self, data: Sequence[Json]) -> Iterator[tuple[Any, object]]:
        """Keys and values, which alternate in the data."""
        values = iter(data)
        return ((self.value(key), self.value(each)) for key, each in zip(values, values, strict=True))

    def reference(self, where: Json) -> object:
        """A value that was read before, by its place here or by an object's number and the place in that."""
        if not isinstance(where, list):
            return self.objects[where]
        number, place = cast("list[int]", where)
        if number not in self._codec.objects:
            raise Unreadable("$ref", f"it refers to object {number}, which is not there.", "Keep what others refer to.")
        return self._codec.objects[number][place]

    def kind(self, data: Json) -> Any:
        """A type expression."""
        return read_type(data, self._types.names, self.value)

    def _named(self, tag: str, data: Json) -> object:
        """An object of a class with a layout, a member of an enum, or an address."""
        fields = cast("dict[str, Json]", data) if type(data) is dict else None
        cls: Any = None
        if fields is not None and "$of" in fields:  # a generic model with arguments
            known, key = self._types.generics, (tag, *fields["$of"])
            is_plain = all(
                isinstance(each, str) for each in key
            )  # arguments of other forms contain places: they must be read each time
            cls = known.get(key) if is_plain else None
            if cls is None:
                cls = self.kind({"of": [tag.partition("@")[0], *fields["$of"]]})
                known |= {key: cls} if is_plain else {}
        layout, version = self._types.stored(tag, cls)
        if isinstance(layout, ClosedLayout) and version > 1:
            return layout.read(data, self.value)
        if isinstance(layout, Layout) and fields is not None:
            return self._object(layout, version, fields)
        if isinstance(layout, EnumLayout) and isinstance(data, str | list):
            return layout.member(version, cast("str | list[str]", data))
        if isinstance(layout, type) and isinstance(data, str):
            try:
                return layout(data)
            except ValueError as error:
                raise Unreadable(tag, f"{error}.", _FOREIGN) from None
        return _refuse({tag: data})

    def _object(self, layout: Layout, version: int, data: dict[str, Json]) -> object:
        place, made = len(self.objects), layout.make()
        self.objects.append(made)
        if "$kind" in data:
            self.kind(data["$kind"])  # of earlier versions; read for the places in it
        stored: dict[str, Any] = {}
        for name in sorted(data):
            if not name.startswith("$"):
                each = data[name]
                # Most fields of most objects; a call for each takes a third of the time.
                stored[name] = each if type(each) in _PLAIN else self.value(each)
        notes: dict[str, Any] = {}
        if len(stored) != len(data):
            notes = {name: data[name] for name in ("$unset", "$given") if name in data}
            # Earlier versions wrote `$more`, attributes that are no fields; read for the places in it.
            notes |= {name: dict(self.pairs(data[name])) for name in ("$extra", "$more") if name in data}
        if version != layout.version or stored.keys() != layout.defaults.keys():
            fields = layout.upcasted(version, stored)
            given = notes.get("$given", [*stored, *notes.get("$extra", ())])
            notes["$given"] = [*given, *(fields.keys() - stored.keys())]
            stored = layout.completed({**fields}, notes.get("$unset", ()))
        made = self.objects[place] = layout.fill(made, stored, notes)
        return made

    def decrypted(self, sealed: str) -> bytes:
        if self._codec.seal is None:
            raise Unreadable("A secret", "it is sealed, and there is no key.", "Set the key with which it was written.")
        try:
            return self._codec.seal.unseal(sealed)
        except SettingsError as error:
            raise Unreadable("A secret", str(error), "") from error


def _refuse(data: Json) -> NoReturn:
    raise Unreadable(f"{data!r:.80}", "it is no value.", _FOREIGN)


_READERS: Final[dict[str, Callable[[_Decoder, Any], object]]] = {
    "$ref": _Decoder.reference,
    "$type": _Decoder.kind,
    "$tuple": lambda decoder, data: decoder.made(lambda: tuple(map(decoder.value, data))),
    "$frozenset": lambda decoder, data: decoder.made(lambda: frozenset(map(decoder.value, data))),
    "$set": lambda decoder, data: decoder.filled(set(), lambda made: made.update(map(decoder.value, data))),
    "$deque": lambda decoder, data: decoder.filled(
        deque(maxlen=data[0]), lambda made: made.extend(map(decoder.value, data[1:]))
    ),
    **{
        tag: lambda decoder, data, kind=kind: decoder.filled(
            kind(), lambda made: made.update(dict(decoder.pairs(data)))
        )
        for tag, kind in {"$dict": dict, "$ordered_dict": OrderedDict, "$counter": Counter}.items()
    },
    "$defaultdict": lambda decoder, data: decoder.filled(
        defaultdict(), lambda made: decoder.fill_defaultdict(made, data)
    ),
    "$secret_text": lambda decoder, data: decoder.made(
        lambda: SecretStr(decoder.decrypted(data).decode("utf-8", "surrogatepass"))
    ),
    "$secret_bytes": lambda decoder, data: decoder.made(lambda: SecretBytes(decoder.decrypted(data))),
    "$sealed": lambda decoder, data: decoder.value(from_json(decoder.decrypted(data))),
}


def encoded(stored: StoredProcess, codec: Codec) -> StoredProcess:
    """The records with their values as JSON data. Raises `Unstorable`.

    The definition of the process is not changed.
    """
    return _with_values(stored, codec.encode)


def decoded(stored: StoredProcess, codec: Codec) -> StoredProcess:
    """The records from which `encoded` made these. Raises `Unreadable` for data that today's classes cannot take."""
    return _with_values(stored, codec.decode)


def _with_values(stored: StoredProcess, changed: Callable[..., Any]) -> StoredProcess:
    """The records with converted values; objects first, since all other values may refer to them."""
    objects = [
        ObjectRecord(each.number, changed(each.value, each.number), changed(each.kind)) for each in stored.objects
    ]
    return stored._replace(
        process=stored.process._replace(state=changed(stored.process.state)),
        objects=objects,
        history=[changed(each) for each in stored.history],
        spendings=[changed(each) for each in stored.spendings],
        questions=[each._replace(wait=changed(each.wait), answer=changed(each.answer)) for each in stored.questions],
        journal=[each._replace(value=changed(each.value)) for each in stored.journal],
    )


_OPEN_KINDS: Final = frozenset({Collection, Iterable, Mapping, Sequence, AbstractSet})
"""Abstract types whose usual classes can be written, if their elements can."""
_CODE: Final = frozenset[object]({Callable})
_FACTORIES: Final[dict[object, type]] = {each: type(each()) for each in (Lock, RLock)}
"""Names that are functions in earlier versions of Python, with the class that annotations mean by them."""
_UNKNOWN: Final = frozenset[object]({Any, object, type, bool, NoneType, ...})


def storable(kind: object, types: StoredTypes, *, sealed: bool = False) -> str | None:
    """Why objects of a declared type can certainly not be written, with the path to the reason; None: they may be.

    It is decided without an object, and refuses only what is certain: a field may have an object of a subclass, and a
    union one of several types. `sealed`: whether there is a key that encrypts secrets.
    """
    options = [each for each in alternatives(kind) if plain(each) is not NoneType]
    reasons = [_Check(types, sealed).reason(each, type_name(each)) for each in options]
    return reasons[0] if reasons and all(reasons) else None


class _Check:
    """One check of a type and of what its objects hold."""

    def __init__(self, types: StoredTypes, sealed: bool) -> None:  # noqa: FBT001 - private, called once
        self._types = types
        self._sealed = sealed
        self._seen: set[object] = set()

    def reason(self, kind: object, path: str) -> str | None:
        """The reason for a type expression; None if one of its alternatives may be storable."""
        options = alternatives(plain(kind))
        reasons = [self._reason(plain(each), path) for each in options]
        return reasons[0] if reasons and all(reasons) else None

    def _reason(self, kind: Any, path: str) -> str | None:
        if kind in _UNKNOWN or isinstance(kind, TypeVar) or get_origin(kind) in {Literal, type}:
            return None
        origin, arguments = origin_and_arguments(_FACTORIES.get(kind, kind))
        if not isinstance(origin, type) or origin in STANDARD or kind in self._seen:
            return None
        self._seen.add(kind)
        if why := self._why_not(origin):
            return str(Unstorable(type_name(origin), why, path="" if path == type_name(origin) else path))
        layout = None
        with suppress(Unstorable):
            found = self._types.layout(origin)
            layout = None if isinstance(found, EnumLayout) else found
        if layout is not None and layout.secret and not self._sealed:
            return str(Unstorable("secret", NO_KEY, path=f"{path}.{min(layout.secret)}"))
        written = layout.names if layout is not None else field_kinds(kind) if is_typeddict(origin) else ()
        parts = {f".{name}": each for name, each in field_kinds(kind).items() if name in written}
        if not parts:
            parts = {f"[{number if origin is tuple else '…'}]": each for number, each in enumerate(arguments)}
        return next((why for step, each in parts.items() if (why := self.reason(each, f"{path}{step}"))), None)

    def _why_not(self, cls: type[Any]) -> str | None:
        """The reason for a class itself, whatever values its objects contain."""
        if issubclass(cls, SecretStr | SecretBytes):
            return None if self._sealed else NO_KEY
        if cls in _OPEN_KINDS or is_typeddict(cls):
            return None
        try:
            self._types.form(FunctionType if cls in _CODE else cls)
        except Unstorable as error:
            return None if self._may_be_another(cls) else error.why
        return None

    def _may_be_another(self, cls: type) -> bool:
        """Whether objects declared as this class are probably of other classes, which are known only on writing."""
        if cls.__module__ == "collections.abc":
            return False
        if isabstract(cls) or getattr(cls, "_is_protocol", False):
            return True
        if hasattr(cls, "__get_pydantic_core_schema__") and not issubclass(cls, BaseModel | Secret):
            return True  # an annotation for values of another class, such as pydantic's `AwareDatetime`
        return any(self._why_not(each) is None for each in type.__subclasses__(cast("type[object]", cls)))
