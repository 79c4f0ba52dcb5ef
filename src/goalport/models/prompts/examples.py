"""Examples of objects as JSON, for prompts: given ones, and made-up ones that need only a JSON Schema."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final, Self, cast

from pydantic import TypeAdapter
from pydantic_core import to_json

_WORDS: Final[Mapping[str, str]] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00",
    "duration": "PT1H",
    "email": "someone@example.com",
    "uri": "https://example.com",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "ipvanyaddress": "192.0.2.1",
    "json-string": "{}",
    "binary": "AA==",
    "path": "/a/path",
}
"""An example for each string format in pydantic's schemas."""


@dataclass(frozen=True, slots=True)
class Example:
    """A good object, which the system prompt shows. Make one with `Example.of`."""

    description: str
    """What the object is, for example `A children's story`."""
    json: str

    @classmethod
    def of(cls, description: str, kind: Any, value: object, properties: Callable[[str], bool] | None = None) -> Self:
        """An example of a value, as the JSON that a model would have to write.

        `properties` decides by name which fields are shown; None: all. Raises pydantic's
        `PydanticSerializationError` for a value that cannot be written as JSON.
        """
        adapter: TypeAdapter[object] = TypeAdapter(kind)
        written = adapter.dump_python(value, mode="json", by_alias=True)
        shown = written if properties is None else only_fields(written, properties)
        return cls(description, to_json(shown, indent=2).decode())

    def contribution(self) -> str:
        return f"Example: {self.description}\n{self.json}"


def made_up(schema: Mapping[str, Any]) -> object:
    """A small made-up value of a JSON Schema, which shows its structure.

    It has every field, except those by which a type contains itself. It is valid, except for rules that the structure
    does not show, such as a pattern.
    """
    return _ValueMaker(schema).value(schema, frozenset())


class _ValueMaker:
    """Makes a value of a schema whose definitions are looked up by their references."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._definitions: Mapping[str, Mapping[str, Any]] = root.get("$defs", {})

    def value(self, schema: Mapping[str, Any], inside: frozenset[str], name: str = "") -> object:
        match schema:
            case {"$ref": str(reference)}:
                target = reference.rpartition("/")[2]
                if target in inside:
                    return {}
                return self.value(self._definitions.get(target, {}), inside | {target}, name)
            case {"const": value} | {"examples": [value, *_]} | {"enum": [value, *_]}:
                return value
            case {"anyOf": choices} | {"oneOf": choices}:
                # The first that is not null and does not lead back into a type that contains this value.
                new = [each for each in choices if not self._is_recursive(each, inside)]
                first = next((each for each in new if each.get("type") != "null"), (new or choices)[0])
                return self.value(first, inside, name)
            case {"allOf": [first, *_]}:
                return self.value(first, inside, name)
            case {"type": [first, *_]}:
                return self.value({**schema, "type": first}, inside, name)
            case {"type": "object"}:
                return self._object(schema, inside)
            case {"type": "array"}:
                return self._array(schema, inside, name)
            case {"type": "integer" | "number" as kind}:
                return _number(schema, whole=kind == "integer")
            case {"type": "boolean"}:
                return True
            case {"type": "null"}:
                return None
            case _:
                return _text(schema, name)

    def _object(self, schema: Mapping[str, Any], inside: frozenset[str]) -> dict[str, object]:
        required = schema.get("required", ())
        fields: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
        made = {
            name: self.value(each, inside, name)
            for name, each in fields.items()
            if name in required or not self._is_recursive(each, inside)
        }
        others: object = schema.get("additionalProperties")
        if not fields and isinstance(others, dict):
            return {"name": self.value(cast("Mapping[str, Any]", others), inside)}
        return made

    def _array(self, schema: Mapping[str, Any], inside: frozenset[str], name: str) -> list[object]:
        first: Sequence[Mapping[str, Any]] = schema.get("prefixItems", ())
        items: Mapping[str, Any] = schema.get("items") or {}
        if first:
            return [self.value(each, inside, name) for each in first]
        many = schema.get("minItems", 0)
        if many and many == schema.get("maxItems"):  # a tuple, published as the union of its types in their order
            return [self.value(each, inside, name) for each in islice(cycle(items.get("anyOf") or [items]), many)]
        if self._is_recursive(items, inside) and not many:
            return []
        return [self.value(items, inside, name)] * max(1, many) if schema.get("maxItems", 1) else []

    def _is_recursive(self, schema: Mapping[str, Any], inside: frozenset[str]) -> bool:
        """Whether a schema only leads back into a type that contains this value."""
        match schema:
            case {"$ref": str(reference)}:
                return reference.rpartition("/")[2] in inside
            case {"anyOf": choices} | {"oneOf": choices}:
                return all(self._is_recursive(each, inside) or each.get("type") == "null" for each in choices)
            case {"items": {"$ref": _} as items, "minItems": int()}:
                return self._is_recursive(cast("Mapping[str, Any]", items), inside)
            case _:
                return False


def _number(schema: Mapping[str, Any], *, whole: bool) -> int | float:
    step = schema.get("multipleOf", 1 if whole else 0.5)
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        return step if high is None or high > step else high - step
    first = -(-low // step) * step + 0  # which makes 0.0 of -0.0
    if first == schema.get("exclusiveMinimum"):
        first += step
    if high is not None and first >= high and not whole:
        return (low + high) / 2
    return first


def _text(schema: Mapping[str, Any], name: str) -> str:
    if schema.get("format") in _WORDS:
        return _WORDS[schema["format"]]
    text = name.replace("_", " ") or "text"
    longest, shortest = schema.get("maxLength", len(text)), schema.get("minLength", 0)
    return (text * (shortest // len(text) + 1) if len(text) < shortest else text)[: max(longest, shortest)]


def only_fields(value: object, wanted: Callable[[str], bool]) -> object:
    """A decoded JSON object, or each object of a list, with the wanted fields only; any other value unchanged."""
    match value:
        case dict():
            return {name: each for name, each in cast("dict[str, object]", value).items() if wanted(name)}
        case list():
            return [only_fields(each, wanted) for each in cast("list[object]", value)]
        case _:
            return value
