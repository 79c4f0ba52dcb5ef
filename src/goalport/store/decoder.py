"""Reads one object of a process from its data; the mirror of `encoder`.

The data may come from an older program, or from somebody who can write to the store. Its names choose among classes
that have a layout, and nothing of those classes runs but the defaults of new fields and what `@persistent` names.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, Final, NoReturn, cast

from pydantic import SecretBytes, SecretStr
from pydantic_core import Url, from_json

from goalport.base.errors import SettingsError, Unreadable, Unstorable
from goalport.store.encoder import LONG_TEXT, Seal, StoredTypes, is_url
from goalport.store.layouts import EnumLayout, Layout, Notes
from goalport.store.standard_types import BAD_DATA, STANDARD_TAGS, Json
from goalport.store.type_names import TypeReader

_PLAIN: Final = frozenset({NoneType, bool, int, float})
"""What is written as it is."""
_FOREIGN: Final = "The store was changed by another program, or written by a newer one."


class Decoder:
    """One object that is read; `before` are the objects that were read before it, by number and place."""

    __slots__ = ("_before", "_seal", "_types", "objects")

    def __init__(self, types: StoredTypes, before: Mapping[int, Sequence[object]], seal: Seal | None) -> None:
        self._types, self._before, self._seal = types, before, seal
        self.objects: list[object] = []
        """What has a place, by place."""

    def value(self, data: Json) -> Any:
        """The value of data. Raises `Unreadable` for data that today's classes cannot take."""
        kind = cast("type[object]", type(data))
        if kind is str:
            if len(data) >= LONG_TEXT:
                self.objects.append(data)
            return data
        if kind in _PLAIN:
            return data
        if kind is list:
            made: list[object] = []
            self.objects.append(made)
            made.extend(map(self.value, data))
            return made
        if kind is not dict:
            _refuse(data)
        if len(data) != 1:
            _refuse(data)
        [(tag, inner)] = data.items()
        if not tag.startswith("$"):
            return self._named(tag, inner)
        read = _READERS.get(tag)
        try:
            return self._standard(tag, inner) if read is None else read(self, inner)
        except BAD_DATA as error:
            raise Unreadable(tag, f"{type(error).__name__}: {error}.", _FOREIGN) from None

    def _standard(self, tag: str, data: Json) -> object:
        if tag not in STANDARD_TAGS:
            _refuse({tag: data})
        value = STANDARD_TAGS[tag](data)
        self.objects.append(value)
        return value

    def _named(self, tag: str, data: Json) -> object:
        """An object of a class with a layout, a member of an enum, or an address."""
        name, _, number = tag.partition("@")
        if number and not number.isdecimal():
            _refuse(data)
        version = int(number or 1)
        place = len(self.objects)
        if isinstance(data, dict):
            self.objects.append(None)
            fields = cast("dict[str, Json]", data)
            cls = self._generic(name, fields["$of"]) if "$of" in fields else self._types.names.find(name)
            layout = self._layout(name, cls)
            if isinstance(layout, EnumLayout):
                _refuse({tag: data})
            return self._object(layout, version, fields, place)
        cls = self._types.names.find(name)
        if isinstance(cls, type) and is_url(cls) and isinstance(data, str):
            return self._url(cls, data)
        layout = self._layout(name, cls)
        if not isinstance(layout, EnumLayout) or not _is_name(data):
            _refuse({tag: data})
        return layout.member(version, data)

    def _generic(self, name: str, arguments: list[Json]) -> object:
        if not all(isinstance(each, str) for each in arguments):
            return self.kind({"of": [name, *arguments]})
        known, key = self._types.generics, (name, *arguments)
        if key not in known:
            known[key] = self.kind({"of": [name, *arguments]})
        return known[key]

    def _layout(self, name: str, cls: object) -> Layout | EnumLayout:
        try:
            layout = self._types.layout(cls) if isinstance(cls, type) else None
        except Unstorable as error:
            raise Unreadable(name, error.why, "") from None
        if layout is None:
            raise Unreadable(
                name,
                "it is neither a dataclass, a pydantic model, a named tuple nor an enum now.",
                "Make it one of these again.",
            )
        return layout

    def _object(self, layout: Layout, version: int, data: dict[str, Json], place: int) -> object:
        made = self.objects[place] = layout.make()
        kind = self.kind(data["$kind"]) if "$kind" in data else None
        stored: dict[str, Any] = {}
        for name in sorted(data):
            if not name.startswith("$"):
                each = data[name]
                # Most fields of most objects; a call for each takes a third of the time.
                stored[name] = each if type(each) in _PLAIN else self.value(each)
        notes = _NONE
        if len(stored) != len(data):
            notes = Notes(
                unset=data.get("$unset", ()),
                given=data.get("$given"),
                extra=dict(self.pairs(data["$extra"])) if "$extra" in data else None,
                more=dict(self.pairs(data["$more"])) if "$more" in data else None,
                kind=kind,
            )
        if version != layout.version or stored.keys() != layout.defaults.keys():
            stored, notes = _adapted(layout, version, stored, notes)
        made = self.objects[place] = layout.fill(made, stored, notes)
        return made

    def _url(self, cls: type, text: str) -> object:
        made = object.__new__(cast("type[object]", cls))
        try:
            vars(made)["_url"] = Url(text)
        except ValueError as error:
            raise Unreadable(cls.__name__, f"{error}.", _FOREIGN) from None
        return made

    def kind(self, data: Json) -> Any:
        """A type expression."""
        return TypeReader(self._types.names, self.value).read(data)

    def pairs(self, data: Sequence[Json]) -> Iterator[tuple[Any, object]]:
        """Keys and values, which come in turn."""
        values = iter(data)
        return ((self.value(key), self.value(each)) for key, each in zip(values, values, strict=True))

    def reference(self, where: Json) -> object:
        """What was read before, by its place here or by the number of an object and the place in that."""
        if not isinstance(where, list):
            return self.objects[where]
        number, place = cast("list[int]", where)
        if number not in self._before:
            raise Unreadable("$ref", f"it refers to object {number}, which is not there.", "Keep what others refer to.")
        return self._before[number][place]

    def filled(self, made: Any, fill: Callable[[Any], object]) -> Any:
        """A collection that has its place before its values are read, so that they can refer to it."""
        self.objects.append(made)
        fill(made)
        return made

    def frozen(self, make: Callable[[Iterator[object]], Any], data: Sequence[Json]) -> Any:
        """A collection that is made of its values."""
        place = len(self.objects)
        self.objects.append(None)
        made = self.objects[place] = make(map(self.value, data))
        return made

    def secret(self, make: Callable[[bytes], object], sealed: str) -> object:
        """A secret."""
        made = make(self._decrypted(sealed))
        self.objects.append(made)
        return made

    def unsealed(self, sealed: str) -> object:
        """The value of a field that is marked as secret."""
        return self.value(from_json(self._decrypted(sealed)))

    def _decrypted(self, sealed: str) -> bytes:
        if self._seal is None:
            raise Unreadable("A secret", "it is sealed, and there is no key.", "Set the key with which it was written.")
        try:
            return self._seal.unseal(sealed)
        except SettingsError as error:
            raise Unreadable("A secret", str(error), "") from error


def _adapted(layout: Layout, version: int, stored: dict[str, Any], notes: Notes) -> tuple[dict[str, Any], Notes]:
    """The fields of an older object as today's class has them."""
    fields = layout.upcasted(version, stored)
    given = stored.keys() | (notes.extra or {}).keys() if notes.given is None else set(notes.given)
    made = fields.keys() - stored.keys()
    return layout.completed(fields, notes.unset), replace(notes, given=sorted(given | made))


def _is_name(data: Json) -> bool:
    return isinstance(data, str) or (
        isinstance(data, list) and all(isinstance(each, str) for each in cast("list[object]", data))
    )


def _refuse(data: Json) -> NoReturn:
    raise Unreadable(f"{data!r:.80}", "it is no value.", _FOREIGN)


def _defaultdict(decoder: Decoder, data: list[Json]) -> object:
    made: defaultdict[object, object] = defaultdict()
    decoder.objects.append(made)
    factory = decoder.kind(data[0])
    if factory is not None and not (isinstance(factory, type) and factory.__module__ in {"builtins", "collections"}):
        raise Unreadable(
            "defaultdict", f"its factory is {factory!r}.", "Only built-in types are called to make values."
        )
    made.default_factory = cast("Any", factory)
    made.update(decoder.pairs(data[1:]))
    return made


_NONE: Final = Notes()
_READERS: Final[dict[str, Callable[[Decoder, Any], object]]] = {
    "$ref": Decoder.reference,
    "$type": Decoder.kind,
    "$tuple": lambda decoder, data: decoder.frozen(tuple, data),
    "$frozenset": lambda decoder, data: decoder.frozen(frozenset, data),
    "$set": lambda decoder, data: decoder.filled(set(), lambda made: made.update(map(decoder.value, data))),
    "$deque": lambda decoder, data: decoder.filled(
        deque(maxlen=data[0]), lambda made: made.extend(map(decoder.value, data[1:]))
    ),
    "$dict": lambda decoder, data: decoder.filled({}, lambda made: made.update(decoder.pairs(data))),
    "$ordered_dict": lambda decoder, data: decoder.filled(OrderedDict(), lambda made: made.update(decoder.pairs(data))),
    "$counter": lambda decoder, data: decoder.filled(
        Counter(), lambda made: cast("dict[Any, Any]", super(Counter, made)).update(decoder.pairs(data))
    ),
    "$defaultdict": _defaultdict,
    "$secret_text": lambda decoder, data: decoder.secret(
        lambda secret: SecretStr(secret.decode("utf-8", "surrogatepass")), data
    ),
    "$secret_bytes": lambda decoder, data: decoder.secret(SecretBytes, data),
    "$sealed": Decoder.unsealed,
}
