"""JSON Schemas that every client can read: references inlined, an object at the root, no `$schema` or `discriminator`.

Pure functions over dicts. They change how a schema is written and not what it accepts, except for positions in tuples.
`arguments` and `output` are above; `lint` says what could not be made portable.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from goalport.tools.schemas import with_items

__all__ = ["DEFINITIONS", "Schema", "is_object", "nodes", "portable"]

Schema = dict[str, Any]
"""A JSON Schema as JSON data."""

_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLES: Final = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"})
_DECORATION: Final = frozenset({"$schema", "discriminator"})
DEFINITIONS: Final = "#/$defs/"
"""The prefix of a reference, before the name of the definition."""


def portable(schema: Mapping[str, Any]) -> Schema:
    """The schema with every `$ref` inlined that is not recursive, and with `$defs` only for those that are."""
    definitions = cast("Mapping[str, Schema]", schema.get("$defs", {}))
    recursive = {name for name in definitions if name in _reachable(name, definitions)}
    root = {key: value for key, value in schema.items() if key != "$defs"}
    if _target(root) in recursive:
        root = dict(definitions[_target(root)])
    written = _inlined(root, definitions, recursive)
    if recursive:
        kept = {name: _inlined(definitions[name], definitions, recursive) for name in sorted(recursive)}
        return {**written, "$defs": kept}
    return written


def is_object(schema: Mapping[str, Any]) -> bool:
    """Whether the root of a schema is an object, without a combinator (`anyOf` and so on) or a reference."""
    return schema.get("type") == "object" and not {"anyOf", "oneOf", "allOf", "$ref"} & schema.keys()


def nodes(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and every schema inside it, but not examples, defaults and enum values, which are data."""
    yield schema
    for key, value in schema.items():
        if key in _MAPS or key == "$defs":
            for inner in value.values():
                yield from nodes(cast("Mapping[str, Any]", inner)) if isinstance(inner, Mapping) else ()
        elif key in _LISTS:
            for inner in value:
                yield from nodes(inner)
        elif key in _SINGLES and isinstance(value, Mapping):
            yield from nodes(cast("Mapping[str, Any]", value))


def _target(schema: Mapping[str, Any]) -> str:
    reference = schema.get("$ref", "")
    return reference.removeprefix(DEFINITIONS) if isinstance(reference, str) else ""


def _reachable(name: str, definitions: Mapping[str, Schema]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for node in nodes(definitions[waiting.pop()]):
            target = _target(node)
            if target in definitions and target not in found:
                found.add(target)
                waiting.append(target)
    return found


def _inlined(schema: Schema, definitions: Mapping[str, Schema], recursive: set[str]) -> Schema:
    target = _target(schema)
    if target in definitions and target not in recursive:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined({**definitions[target], **beside}, definitions, recursive)

    def inner(value: Any) -> Any:
        return _inlined(cast("Schema", value), definitions, recursive) if isinstance(value, dict) else value

    written = {key: _mapped(key, value, inner) for key, value in schema.items() if key not in _DECORATION}
    return with_items(written) if written.get("type") == "array" else written


def _mapped(key: str, value: Any, change: Callable[[Any], Any]) -> Any:
    if key in _MAPS:
        return {name: change(each) for name, each in value.items()}
    if key in _LISTS:
        return [change(each) for each in value]
    return change(value) if key in _SINGLES else value
