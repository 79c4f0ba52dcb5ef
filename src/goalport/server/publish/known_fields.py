"""What a schema says of places in a value: which fields it names there, and where a number has to be one of JSON.

Pydantic finds unknown fields; their nearest names, and the classes that allow more of them, are found in the schema.
`published_arguments` is above, `portability` is below.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import Any, Final, cast

from pydantic import ValidationError

from goalport.base.words import field_path, offer
from goalport.server.publish.portability import DEFINITIONS, Schema, mapped

_OPEN: Final = ("additionalProperties", "patternProperties", "allOf", "not", "if")
_EXTRA: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_LONGEST_PATH: Final = 80
_NON_FINITE: Final = frozenset({"nan", "inf", "infinity"})

Location = tuple[int | str, ...]
"""The names and numbers that lead to a part of a value, and for pydantic the names of unions' members too."""


def extra_fields(error: ValidationError) -> Iterator[Location]:
    """Where pydantic found fields that a class does not have."""
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        if each["type"] in _EXTRA:
            yield each["loc"]


def unknown_fields(locations: Iterable[Location], schema: Schema, value: Mapping[str, Any]) -> Iterator[str]:
    """One line for each field at these places that the schema neither names nor allows.

    Of a union, a field may be extra in one member and known in another.
    """
    for each in locations:
        path, beside, _ = _walk(each, schema, value)
        names = [name for described in beside for name in described.get("properties", {})]
        if path and path[-1] not in names and not any(map(_is_open, beside)):
            known = offer(str(path[-1]), names, none="There are no arguments.")
            yield f"{field_path(path)[:_LONGEST_PATH]}: unknown. {known}"


def not_in_json(schema: Schema, value: Mapping[str, Any]) -> Iterator[str]:
    """One line for each non-finite number, also for a text such as "NaN" where the schema wants a number."""
    for location, odd in _odd_numbers(value, ()):
        path, _, described = _walk(location, schema, value)
        kinds = {each.get("type") for each in described}
        if isinstance(odd, float) or ("number" in kinds and "string" not in kinds):
            yield f"{field_path(path)[:_LONGEST_PATH]}: should be a number that JSON has; came {odd}"


def closed(schema: Schema) -> Schema:
    """The schema, saying of each object that fields which it does not name are refused, as `unknown_fields` does."""
    written = mapped(schema, closed)
    is_closed = schema.get("type") == "object" and not _is_open(schema)
    return {**written, "additionalProperties": False} if is_closed else written


def _odd_numbers(value: object, location: Location) -> Iterator[tuple[Location, float | str]]:
    match value:
        case float() if not isfinite(value):
            yield location, value
        case str() if value.strip().lower().lstrip("+-") in _NON_FINITE:
            yield location, value
        case Mapping() | list():
            found = cast("Any", value)
            for step, inner in found.items() if isinstance(value, Mapping) else enumerate(found):
                if not isinstance(inner, int):
                    yield from _odd_numbers(inner, (*location, step))
        case _:
            pass


def _walk(location: Location, schema: Schema, value: Any) -> tuple[Location, Sequence[Schema], Sequence[Schema]]:
    """The place of a part of a value, without the names of unions' members; what describes it, after what is around."""
    definitions = schema.get("$defs", {})
    path: Location = ()
    around: list[Schema] = []
    here = [*_branches(schema, definitions)]
    for step in location:
        if isinstance(value, Mapping) and step in value:
            fitting = [each for each in here if _may_be(each, cast("Mapping[str, Any]", value))]
            around = fitting or here
            parts = [each.get("properties", {}).get(step, each.get("additionalProperties")) for each in around]
        elif isinstance(value, list) and isinstance(step, int):
            parts = [each.get("items") for each in here]
        else:
            continue
        path, value = (*path, step), cast("Any", value)[step]
        found = {id(each): each for each in chain.from_iterable(_branches(part, definitions) for part in parts)}
        here = [*found.values()]
    return path, around, here


def _branches(schema: object, definitions: Mapping[str, Schema]) -> Iterator[Schema]:
    """The schemas that a schema expands to: the target of its reference, or the members of its unions."""
    if not isinstance(schema, Mapping):
        return
    described = cast("Schema", schema)
    target = str(described.get("$ref", "")).removeprefix(DEFINITIONS)
    members = [definitions[target]] if target in definitions else []
    members += [each for key in ("anyOf", "oneOf") for each in described.get(key, ())]
    for each in members:
        yield from _branches(each, definitions)
    if not members or "properties" in described:
        yield described


def _is_open(schema: Schema) -> bool:
    """Whether a schema accepts fields that it does not name."""
    return any(schema.get(key) for key in _OPEN) or not {"type", "const", "enum"} & schema.keys()


def _may_be(schema: Schema, value: Mapping[str, Any]) -> bool:
    """Whether no field of a value contradicts a constant (discriminator) among those of a union's member."""
    fields = schema.get("properties", {}).items()
    return all(name not in value or value[name] == each["const"] for name, each in fields if "const" in each)
