"""Writes one object of a process, with everything in it, as JSON data; see `codec` for what the data looks like.

Below: `layouts`, `standard_types` and `type_names`, which know the classes. Above: the codec, which remembers places.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, Protocol, TypeAlias, cast

from pydantic import Secret, SecretBytes, SecretStr
from pydantic_core import to_json

from goalport.base.errors import SettingsError, Unstorable
from goalport.store.layouts import EnumLayout, Layout, Notes, layout_of
from goalport.store.refusals import why_unknown
from goalport.store.standard_types import STANDARD, Json, Standard, plain_float, plain_text
from goalport.store.type_names import TYPE_FORMS, TypeNames, TypeWriter

LONG_TEXT: Final = 128
"""Characters from which on a text has a place, so that a document that many objects hold is written once."""
WIDE: Final = 1 << 63
"""Integers from here on are written as text: JSON parsers and databases read them as floats, or not at all."""
DEEPEST: Final = 90
"""How deep values may be nested; each level is two of JSON, and the parser of pydantic reads two hundred."""
NO_KEY: Final = (
    "a secret is not written in clear, and there is no key that encrypts it. Keep its name, and look it up where it is"
    " used."
)
_LONGEST_KEY: Final = 40

Places: TypeAlias = dict[int, tuple[int | None, int]]
"""Where each object was written, by its identity: the number of the object that it is in, and the place there."""


class Seal(Protocol):
    """Encrypts what must not be read in a store. Both raise `SettingsError`, with what to do, without the right key."""

    def seal(self, secret: bytes, /) -> str:
        """The encrypted secret, as text."""
        ...

    def unseal(self, sealed: str, /) -> bytes:
        """The secret. Raises `ValueError` for a text that was never sealed."""
        ...


class Seals(Protocol):
    """Gives each process and context a seal of its own, so that what is moved to another cannot be read there."""

    def of(self, process_id: str, /) -> Seal:
        """The seal of a process."""
        ...


@dataclass(frozen=True, slots=True)
class Sealed:
    """A value that is written as a secret whatever it is, such as an answer that nobody has validated yet.

    What is read is the value itself. Without a key it cannot be written.
    """

    value: object


@dataclass(frozen=True, slots=True)
class _Form:
    """How values of a class are written, and whether they have a place."""

    write: Callable[["Encoder", Any], Json]
    placed: bool = True


class StoredTypes:
    """The classes whose objects can be written and read, each worked out once.

    Make a new one when a workspace is loaded again: its classes are new then.
    """

    def __init__(self, names: TypeNames | None = None) -> None:
        self.names = TypeNames() if names is None else names
        self._layouts: dict[Any, Layout | EnumLayout] = {}
        self.forms: dict[type, _Form] = dict(_FORMS)
        self.generics: dict[tuple[str, ...], object] = {}
        """Generic classes with arguments, by their names and those of the arguments."""

    def layout(self, cls: type) -> Layout | EnumLayout | None:
        """The layout of a class; None if it has no fields. Raises `Unstorable` if its objects can never be written."""
        layout = self._layouts.get(cls)
        if layout is None and (layout := layout_of(cls, self.names)) is not None:
            self._layouts[cls] = layout
        return layout

    def form(self, cls: type) -> _Form:
        """How values of a class are written. Raises `Unstorable` if they cannot be."""
        form = self.forms.get(cls)
        if form is None:
            form = self.forms[cls] = self._form(cls)
        return form

    def _form(self, cls: type[Any]) -> _Form:
        if type in cls.__mro__:
            return _FORM_OF_TYPES
        if {Secret, SecretStr, SecretBytes}.intersection(cls.__mro__):
            raise Unstorable(cls.__name__, "only SecretStr and SecretBytes can be sealed. Use one of them.")
        if is_url(cls):
            name = self.names.name_of(cls)
            return _Form(lambda _, value: {name: str(value)}, placed=False)
        layout = self.layout(cls)
        if isinstance(layout, EnumLayout):
            return _Form(lambda _, value: {layout.tag: layout.written(value)}, placed=False)
        if layout is not None:
            return _Form(lambda encoder, value: encoder.fields(layout, value))
        raise Unstorable(cls.__name__, why_unknown(cls))


def is_url(cls: type) -> bool:
    """Whether values of a class are addresses of pydantic, which are their texts."""
    return any(each.__module__ == "pydantic.networks" and each.__name__ == "AnyUrl" for each in cls.__mro__)


class Encoder:
    """One object that is written; `number` is None for data that nothing refers to."""

    __slots__ = ("_seal", "_stack", "_types", "_unsafe", "_where", "number", "objects")

    def __init__(self, types: StoredTypes, where: Places, number: int | None, seal: Seal | None) -> None:
        self._types, self._where, self._seal = types, where, seal
        self.number = number
        self.objects: list[object] = []
        """What has a place, by place."""
        self._stack: list[int] = []
        """The places of the values around this one."""
        self._unsafe: frozenset[int] = frozenset()
        """The places of values whose hash cannot be taken yet when this value is read."""

    def value(self, value: Any) -> Json:
        """A value as data. Raises `Unstorable`, with the path that leads there from here."""
        kind = cast("type[object]", type(value))
        if kind is str:
            if len(value) < LONG_TEXT and plain_text(value):
                return value
        elif kind is NoneType or kind is bool:
            return value
        elif kind is int:
            if -WIDE <= value < WIDE:
                return value
        elif kind is float and plain_float(value):
            return value
        if (place := self._where.get(id(value))) is not None:
            return self._reference(value, place)
        form = self._types.forms.get(kind) or self._types.form(kind)
        return self._placed(form, value) if form.placed else form.write(self, value)

    def _placed(self, form: _Form, value: object) -> Json:
        place = len(self.objects)
        if len(self._stack) == DEEPEST:
            raise Unstorable(
                type(value).__name__, f"it is nested more than {DEEPEST} levels deep. Refer to parts by name."
            )
        self._where[id(value)] = self.number, place
        self.objects.append(value)
        self._stack.append(place)
        data = form.write(self, value)
        self._stack.pop()
        return data

    def forget(self) -> None:
        """Forget the places of everything that was written."""
        for each in self.objects:
            del self._where[id(each)]

    def _reference(self, value: Any, where: tuple[int | None, int]) -> Json:
        number, place = where
        if number != self.number:
            return {"$ref": [number, place]}
        name, frozen = type(value).__name__, isinstance(value, tuple | frozenset)
        if place in self._unsafe or (frozen and place in self._stack):
            raise Unstorable(
                name,
                "it contains itself, by way of something that must be complete first: a tuple, or what is in a set or"
                " a key of a dict. Use a list there.",
            )
        return {"$ref": place}

    def items(self, values: Iterable[object]) -> list[Json]:
        """Several values."""
        data: list[Json] = []
        try:
            for each in values:
                data.append(self.value(each))  # noqa: PERF401 - the length says which one failed
        except Unstorable as error:
            raise error.within(f"[{len(data)}]") from None
        return data

    def members(self, values: Iterable[object]) -> list[Json]:
        """The members of a set, which are hashed when they are read."""
        return [self._hashed(each, "{}") for each in values]

    def pairs(self, values: Mapping[Any, object]) -> list[Json]:
        """The keys and values of a dict, in turn."""
        data: list[Json] = []
        key: object = None
        for key, each in values.items():
            data.append(self._hashed(key, ".keys()"))
            try:
                data.append(self.value(each))
            except Unstorable as error:
                raise error.within(f"[{_shown(key)}]") from None
        return data

    def _hashed(self, value: object, step: str) -> Json:
        before = self._unsafe
        if type(value).__hash__ is not object.__hash__:
            self._unsafe = before.union(self._stack)
        try:
            return self.value(value)
        except Unstorable as error:
            raise error.within(step) from None
        finally:
            self._unsafe = before

    def kind(self, value: object) -> Json:
        """A type expression."""
        return TypeWriter(self._types.names, self.value).write(value)

    def fields(self, layout: Layout, value: object) -> Json:
        """An object with its fields."""
        state, notes = layout.take_apart(value)
        data: dict[str, Json] = {}
        arguments = layout.arguments
        if notes is not None and notes.kind is not None:
            data["$kind"] = self.kind(notes.kind)
        elif arguments:
            data["$of"] = [self.kind(each) for each in arguments]
        name = ""
        try:
            for name in layout.names:
                if notes is None or name in state:
                    data[name] = (self.sealed if name in layout.secret else self.value)(state[name])
        except Unstorable as error:
            raise error.within(f".{name}") from None
        if notes is not None:
            self._notes(data, notes)
        return {layout.tag: data}

    def _notes(self, data: dict[str, Json], notes: Notes) -> None:
        if notes.unset:
            data["$unset"] = list(notes.unset)
        if notes.given is not None:
            data["$given"] = list(notes.given)
        if notes.extra:
            data["$extra"] = self.pairs(notes.extra)
        if notes.more:
            data["$more"] = self.pairs(notes.more)

    def secret(self, value: SecretStr | SecretBytes) -> Json:
        """A secret, sealed."""
        secret, kind = value.get_secret_value(), type(value).__name__
        if isinstance(secret, str):
            return {"$secret_text": self._encrypted(secret.encode("utf-8", "surrogatepass"), kind)}
        return {"$secret_bytes": self._encrypted(secret, kind)}

    def sealed(self, value: object) -> Json:
        """The value of a field that is marked as secret, sealed with everything in it."""
        return {"$sealed": self._encrypted(to_json(self.value(value)), type(value).__name__)}

    def _encrypted(self, secret: bytes, kind: str) -> str:
        if self._seal is None:
            raise Unstorable(kind, NO_KEY)
        try:
            return self._seal.seal(secret)
        except SettingsError as error:
            raise Unstorable(kind, f"it is secret, and there is no key that encrypts it. {error}") from error


def _shown(key: object) -> str:
    shown = repr(key) if isinstance(key, str | int) else type(key).__name__
    return shown if len(shown) <= _LONGEST_KEY else f"{shown[:_LONGEST_KEY]}…"


def _standard(each: Standard) -> _Form:
    tag, write = each.tag, each.write
    return _Form(lambda _, value: {tag: write(value)})


def _write_text(_: Encoder, value: str) -> Json:
    return value if plain_text(value) else {"$text": STANDARD[str].write(value)}


def _write_defaultdict(encoder: Encoder, value: "defaultdict[object, object]") -> Json:
    factory = value.default_factory
    if factory is not None and not isinstance(factory, type):
        raise Unstorable("defaultdict", "its factory is a function, which is not stored. Use a class, such as list.")
    return {"$defaultdict": [encoder.kind(factory), *encoder.pairs(value)]}


_FORM_OF_TYPES: Final = _Form(lambda encoder, value: {"$type": encoder.kind(value)}, placed=False)
_FORMS: Final[dict[type, _Form]] = {
    **{cls: _standard(each) for cls, each in STANDARD.items()},
    str: _Form(_write_text),
    list: _Form(Encoder.items),
    tuple: _Form(lambda encoder, value: {"$tuple": encoder.items(value)}),
    set: _Form(lambda encoder, value: {"$set": encoder.members(value)}),
    frozenset: _Form(lambda encoder, value: {"$frozenset": encoder.members(value)}),
    deque: _Form(lambda encoder, value: {"$deque": [value.maxlen, *encoder.items(value)]}),
    dict: _Form(lambda encoder, value: {"$dict": encoder.pairs(value)}),
    OrderedDict: _Form(lambda encoder, value: {"$ordered_dict": encoder.pairs(value)}),
    Counter: _Form(lambda encoder, value: {"$counter": encoder.pairs(value)}),
    defaultdict: _Form(_write_defaultdict),
    SecretStr: _Form(Encoder.secret),
    SecretBytes: _Form(Encoder.secret),
    Sealed: _Form(lambda encoder, each: encoder.sealed(each.value), placed=False),
    **dict.fromkeys(TYPE_FORMS, _FORM_OF_TYPES),
}
