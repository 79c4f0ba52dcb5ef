"""Forms as MCP elicitation shows them: a flat object of texts, numbers, yes-or-no fields and choices, and its answer.

A schema becomes such an object, with the fields of nested objects beside its own (`address.city`), and what a client
sends becomes an answer for the schema again. What clients cannot show is not shown in part. The limits are those of the
MCP specification, "Elicitation"; for a terminal, which has none of them, the same fields are made `whole`. Nothing here
asks, and nothing knows the MCP SDK. `forms` and the command line are above.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor
from typing import Any, Final, cast

from goalport.base.words import limit_told
from goalport.server.publish.portability import Schema, is_object

_CHOICES_WITH_TITLES: Final = "2025-11-25"
"""The first protocol version with choices that have titles, several choices, and defaults of all fields."""
_FORMATS: Final = frozenset({"date", "date-time", "email", "uri"})
_COMBINATORS: Final = ("anyOf", "oneOf")
_NULL: Final = {"type": "null"}
_OPEN: Final = ("additionalProperties", "patternProperties")
_TEXTS: Final = ("title", "description")
_KEPT: Final[Mapping[str, Sequence[str]]] = {
    "string": ("minLength", "maxLength", "pattern"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
_LIMITS: Final = (
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "minItems", "maxItems", "format"),
)
"""The keywords by which a value of the right kind may still be wrong, in the order in which a person is told."""
_DEFAULTS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


class _CannotBeShownError(Exception):
    """A schema has something for which the protocol has no field."""


@dataclass(frozen=True, slots=True)
class FieldChoice:
    """A value that can be chosen. The protocol has texts only, so others are shown as JSON."""

    text: str
    value: object
    title: str


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of the flat object, and the place of its value in the answer."""

    path: tuple[str, ...]
    schema: Schema
    """Without null, its own references and combinators."""
    needed: bool
    """Whether the answer must have it, if only as null."""
    required: bool
    """Whether the person has to fill it in."""
    nullable: bool
    choices: tuple[FieldChoice, ...] = ()

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def secret(self) -> bool:
        return bool(self.schema.get("writeOnly") or self.schema.get("format") == "password")

    def shown(self, *, full: bool) -> Schema:
        """The field as the protocol has it; not `full` is the version without titles of choices and most defaults.

        Raises `_CannotBeShownError`.
        """
        kind = str(self.schema["type"])
        kept = (*_TEXTS, *_KEPT[kind])
        shown: Schema = {"type": kind, **{key: self.schema[key] for key in kept if key in self.schema}}
        if self.choices:
            # Titles that came in the older keyword are shown in it: clients of all versions know it.
            shown = _with_choices(
                shown, self.choices, full=full and not (kind == "string" and "enumNames" in self.schema)
            )
        shown |= _bounds(self.schema) if kind == "integer" else {}
        if self.schema.get("format") in _FORMATS and not self.choices:
            shown["format"] = self.schema["format"]
        default = self.default
        if default is not None and (full or kind == "boolean"):
            shown["default"] = default
        notes = [*_notes(self.schema), *([] if default is None or "default" in shown else [f"default: {default}"])]
        if notes:
            described = shown.get("description")
            shown["description"] = f"{described} ({'; '.join(notes)})" if described else "; ".join(notes)
        return shown

    @property
    def limits(self) -> Sequence[str]:
        """What its value has to be beside a choice, in words for a person who is not shown its schema: `at least 1`."""
        limits = [(key, self.schema[key]) for key in _LIMITS if key in self.schema]
        told = [limit_told(*each) for each in limits if each != ("minLength", 1)]  # nobody answers with no text
        return [*filter(None, told)]

    @property
    def default(self) -> object:
        """The default as it stands in the field: the text of a choice, a list of them for several; None: none."""
        default = self.schema.get("default")
        if self.choices:
            texts = {_as_json(each.value): each.text for each in self.choices}
            if self.schema["type"] == "array":
                chosen = [texts.get(_as_json(each)) for each in cast("list[object]", default or [])]
                return chosen if default is not None and None not in chosen else None
            return texts.get(_as_json(default))
        kind = str(self.schema.get("type"))
        fits = isinstance(default, _DEFAULTS.get(kind, (object,))) and (kind == "boolean") == isinstance(default, bool)
        return default if fits else None

    def given(self, content: Mapping[str, Any]) -> Iterator[object]:
        """The value that a client sent; none, where the person left the field empty."""
        value = content.get(self.name)
        left_empty = value is None or (value == "" and not self.required and not self.takes_empty_text)
        if not left_empty:
            yield self._chosen(value)

    def empty(self, content: Mapping[str, Any]) -> Iterator[None]:
        """Null, where it stands in the answer for a field that was left empty."""
        if self.nullable and (self.needed or self.name in content):
            yield None

    @property
    def takes_empty_text(self) -> bool:
        """Whether an empty text is a value of it, and not the lack of one."""
        if self.choices:
            return any(each.text == "" for each in self.choices)
        return self.schema.get("type") == "string" and not self.schema.get("minLength") and "format" not in self.schema

    def _chosen(self, value: object) -> object:
        values = {each.text: each.value for each in self.choices}
        if isinstance(value, list):
            return [values.get(each, each) if isinstance(each, str) else each for each in cast("list[object]", value)]
        return values.get(value, value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class _Group:
    """An object in the object, whose fields are shown beside the others."""

    name: str
    needed: bool
    nullable: bool
    default: Mapping[str, object]

    def made_of(self, given: Mapping[str, object], empty: Mapping[str, None]) -> Iterator[object]:
        """The object in the answer; none, where the person filled in nothing of it and need not."""
        if given or (self.needed and not self.nullable) or (self.default and empty):
            yield {**self.default, **empty, **given}
        elif self.needed:
            yield None


@dataclass(frozen=True, slots=True)
class FlatForm:
    """The form of a schema in the shape that MCP elicitation shows."""

    fields: tuple[FormField, ...]
    _groups: tuple[_Group, ...] = field(default=())

    @classmethod
    def of(cls, schema: Schema, *, whole: bool = False) -> "FlatForm | None":
        """The form of an answer with this JSON Schema; None where the protocol has no fields for it.

        `whole`: fields are made also of what the protocol has none for, such as secrets, lists and deeper objects; None
        then stands for an answer that is no object of known fields.
        """
        try:
            return cls._of_object(schema, whole=whole)
        except _CannotBeShownError:
            return None

    @classmethod
    def _of_object(cls, schema: Schema, *, whole: bool) -> "FlatForm":
        if not is_object(schema) or not ("properties" in schema or not any(map(schema.get, _OPEN))):
            raise _CannotBeShownError
        fields: list[FormField] = []
        groups: list[_Group] = []
        properties = [(name, *_without_null(each), needed) for name, each, needed in _properties(schema)]
        titles = Counter(each.get("title") for _, each, _, _ in properties)
        for name, inner, nullable, needed in properties:
            if inner.get("type") != "object" or (whole and not _has_fields(inner)):
                fields.append(_field((name,), inner, needed=needed, nullable=nullable, required=needed, whole=whole))
                continue
            group = _Group(name, needed, nullable, cast("Mapping[str, object]", inner.get("default") or {}))
            groups.append(group)
            # Two objects of one type have its title in common, and their names tell them apart.
            titled = inner if titles[inner.get("title")] == 1 else {**inner, "title": name}
            fields += _fields_of(group, titled, whole=whole)
        names = [each.name for each in fields]
        if len({*names, *(each.name for each in groups)}) < len(names) + len(groups):
            raise _CannotBeShownError
        return cls(tuple(fields), tuple(groups))

    def schema(self, era: str) -> Schema | None:
        """The schema of an elicitation in a version of the protocol; None where that version has no fields for it."""
        full = era >= _CHOICES_WITH_TITLES
        try:
            properties = {each.name: each.shown(full=full) for each in self.fields}
        except _CannotBeShownError:
            return None
        required = [each.name for each in self.fields if each.required]
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def answer(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The answer for the schema of the form. What has no field stays as it is, for the schema to refuse."""
        names = {each.name for each in self.fields}
        answer = {key: value for key, value in content.items() if key not in names}
        for group in self._groups:
            inside = [each for each in self.fields if each.path[:-1] == (group.name,)]
            if group.name not in answer:
                answer.update((group.name, made) for made in group.made_of(*_values(inside, content)))
        given, empty = _values([each for each in self.fields if len(each.path) == 1], content)
        return {**answer, **empty, **given}


def _values(fields: Sequence[FormField], content: Mapping[str, Any]) -> tuple[dict[str, object], dict[str, None]]:
    """The values that a client sent, and those that stand for fields that were left empty, by the fields' own names."""
    given = {each.path[-1]: value for each in fields for value in each.given(content)}
    return given, {each.path[-1]: value for each in fields for value in each.empty(content)}


def _properties(schema: Schema) -> Iterator[tuple[str, Schema, bool]]:
    required = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        yield name, each if isinstance(each, dict) else {}, name in required


def _has_fields(schema: Schema) -> bool:
    """Whether an object has fields that are all known."""
    return is_object(schema) and not any(map(schema.get, _OPEN))


def _fields_of(group: _Group, schema: Schema, *, whole: bool) -> Iterator[FormField]:
    """The fields of an object in the object. Raises `_CannotBeShownError`, also for an object deeper inside."""
    if not _has_fields(schema):
        raise _CannotBeShownError
    for name, each, needed in _properties(schema):
        inner, nullable = _without_null(each)
        if "title" in inner:
            inner = {**inner, "title": f"{schema.get('title', group.name)}: {inner['title']}"}
        inner = {**({"description": schema["description"]} if "description" in schema else {}), **inner}
        if name in group.default:
            inner = {**inner, "default": group.default[name]}
        elif not group.needed or group.nullable:
            # A client sends a default that it shows, and this would make an object that nobody wanted.
            inner.pop("default", None)
        required = needed and group.needed and not group.nullable
        in_answer = needed and name not in group.default
        path = group.name, name
        yield _field(path, inner, needed=in_answer, nullable=nullable, required=required, whole=whole)


def _field(
    path: tuple[str, ...], schema: Schema, *, needed: bool, nullable: bool, required: bool, whole: bool
) -> FormField:
    """A field of the flat object. Raises `_CannotBeShownError` if the protocol has none of its kind, unless `whole`."""
    field = FormField(path, schema, needed, required and not nullable, nullable)
    try:
        schema, choices = _protocol_kind(field)
    except _CannotBeShownError:
        if not whole:
            raise
        return field
    return replace(field, schema=schema, choices=choices)


def _protocol_kind(field: FormField) -> tuple[Schema, tuple[FieldChoice, ...]]:
    """The schema of a field with the type that the protocol has for it, and its choices.

    Raises `_CannotBeShownError` if the protocol has none.
    """
    if field.secret:
        # The specification forbids asking for secrets in a form.
        raise _CannotBeShownError
    schema = field.schema
    items = _items(schema)
    choices = tuple(_choices(schema if items is None else items))
    if choices:
        if len({each.text for each in choices}) < len(choices):
            raise _CannotBeShownError
        schema = {**schema, "type": "string" if items is None else "array"}
    elif str(schema.get("type")) not in _DEFAULTS:
        raise _CannotBeShownError
    return schema, choices


def _items(schema: Schema) -> Schema | None:
    """The schema of the items of an array; None where a schema is of none."""
    if schema.get("type") != "array":
        return None
    if "prefixItems" in schema or not isinstance(schema.get("items"), dict):
        raise _CannotBeShownError
    items, nullable = _without_null(schema["items"])
    if nullable:
        raise _CannotBeShownError
    return items


def _without_null(schema: Schema) -> tuple[Schema, bool]:
    """A schema without the alternative null, and whether it had it; an alternative that is left alone is the schema."""
    enum = schema.get("enum")
    nullable = False
    if enum is not None and None in enum:
        schema, nullable = {**schema, "enum": [each for each in enum if each is not None]}, True
    if isinstance(kinds := schema.get("type"), list):
        left = [each for each in cast("list[str]", kinds) if each != "null"]
        nullable = nullable or len(left) < len(cast("list[str]", kinds))
        schema = {**schema, "type": left[0] if len(left) == 1 else left}
    for key in _COMBINATORS:
        if key in schema:
            members = [each for each in schema[key] if each != _NULL]
            nullable = nullable or len(members) < len(schema[key])
            beside = {name: value for name, value in schema.items() if name != key}
            # The one option of a choice stays an option, which has a title of its own.
            only = members[0] if len(members) == 1 and "const" not in members[0] else _text(members)
            schema = {**beside, key: members} if only is None else {**only, **beside}
    return schema, nullable


def _text(members: Sequence[Schema]) -> Schema | None:
    """The text in the two ways in which a Decimal may be given, of which it is the exact one; None for others."""
    by_type = {str(each.get("type")): each for each in members if "enum" not in each and "const" not in each}
    return by_type["string"] if by_type.keys() == {"number", "string"} and len(members) == len(by_type) else None


def _choices(schema: Schema) -> Iterator[FieldChoice]:
    """What can be chosen; nothing for a schema that is no choice. Raises `_CannotBeShownError`."""
    if "const" in schema:
        yield _choice(schema["const"], None)
    elif "enum" in schema:
        members = [each for key in _COMBINATORS for each in schema.get(key, ())]
        named = {_as_json(each["const"]): each.get("title") for each in members if "const" in each}
        titles: Sequence[object] = schema.get("enumNames") or [named.get(_as_json(each)) for each in schema["enum"]]
        yield from map(_choice, schema["enum"], titles)
    else:
        for member in (each for key in _COMBINATORS for each in schema.get(key, ())):
            if not {"const", "enum"} & member.keys():
                raise _CannotBeShownError
            yield from [_choice(member["const"], member.get("title"))] if "const" in member else _choices(member)


def _choice(value: object, title: object) -> FieldChoice:
    if isinstance(value, dict | list):
        raise _CannotBeShownError
    text = value if isinstance(value, str) else _as_json(value)
    return FieldChoice(text, value, title if isinstance(title, str) else text)


def _with_choices(shown: Schema, choices: Sequence[FieldChoice], *, full: bool) -> Schema:
    """A field with its choices: bare where none has a title of its own."""
    shown = {key: value for key, value in shown.items() if key not in _KEPT["string"]}
    several = shown["type"] == "array"
    if several and not full:
        raise _CannotBeShownError
    texts = [each.text for each in choices]
    if all(each.title == each.text for each in choices):
        return {**shown, "items": {"type": "string", "enum": texts}} if several else {**shown, "enum": texts}
    if not full:
        return {**shown, "enum": texts, "enumNames": [each.title for each in choices]}
    titled = [{"const": each.text, "title": each.title} for each in choices]
    return {**shown, "items": {"anyOf": titled}} if several else {**shown, "oneOf": titled}


def _bounds(schema: Schema) -> Schema:
    """The exclusive bounds of an integer as inclusive ones, which are the only ones that the protocol has."""
    bounds: Schema = {}
    if "exclusiveMinimum" in schema:
        bounds["minimum"] = floor(schema["exclusiveMinimum"]) + 1
    if "exclusiveMaximum" in schema:
        bounds["maximum"] = ceil(schema["exclusiveMaximum"]) - 1
    return bounds


def _notes(schema: Schema) -> Iterator[str]:
    """What the protocol has no keyword for, in words for the person."""
    keywords = ("exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    for key in keywords[2:] if schema["type"] == "integer" else keywords:
        if key in schema and (told := limit_told(key, schema[key])):
            yield told
    if schema.get("format", "date") not in _FORMATS:
        yield f"format: {schema['format']}"


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
