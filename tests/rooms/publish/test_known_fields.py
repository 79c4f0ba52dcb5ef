"""Which fields of a value a schema does not name, compared with a plain walk through both, which reads all anew."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import Any, cast

from hypothesis import example, given, strategies as st
from pydantic import BaseModel

from goalport.publish.known_fields import KnownFields
from goalport.publish.published_arguments import PublishedArguments
from goalport.words import offer

Schema = dict[str, Any]

NAMES = st.sampled_from(["kind", "name", "size", "next", "more"])
NUMBERS = st.integers() | st.floats() | st.sampled_from(["NaN", " -inf", "Infinity", "1", "word"])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
LEAVES = st.sampled_from(
    [
        {},
        {"type": "string"},
        {"type": "number"},
        {"type": "integer"},
        {"enum": ["a", 1]},
        {"const": "a", "type": "string"},
        {"const": "b"},
        {"type": "array"},
        {"type": "object"},
        {"$ref": "#/$defs/Tree"},
        {"$ref": "#/$defs/Leaf"},
        {"$ref": "#/$defs/Nowhere"},
        True,
    ]
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    """Schemas of objects: closed ones, open ones, and ones with a type for whatever they do not name."""
    required: dict[str, st.SearchStrategy[Any]] = {"type": st.just("object")}
    properties = st.dictionaries(NAMES, inner.filter(lambda each: each is not True), max_size=4)
    kinds = st.fixed_dictionaries({"kind": st.sampled_from([{"const": "a"}, {"const": "b"}])})
    told_apart = st.tuples(properties, kinds).map(lambda parts: {**parts[0], **parts[1]})
    optional: dict[str, st.SearchStrategy[Any]] = {
        "properties": properties | told_apart,
        "additionalProperties": st.booleans() | inner,
        "patternProperties": st.just({"^x": {}}),
    }
    return st.fixed_dictionaries(required, optional=optional)


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        objects(inner)
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"oneOf": st.lists(objects(inner), min_size=1, max_size=3)})
    ),
    max_leaves=8,
)


def kind(name: str, *fields: str) -> Schema:
    """A member of a union that a constant tells from the others."""
    return {"type": "object", "properties": {"kind": {"const": name}, **{each: {"type": "number"} for each in fields}}}


ONE_OF_TWO: Schema = {"type": "object", "properties": {"next": {"oneOf": [kind("a", "size"), kind("b", "more")]}}}
A_REFERENCE: Schema = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Leaf"}}}


@example(ONE_OF_TWO, {}, {}, [{"next": {"kind": "a", "more": 1}}, {"next": {"kind": "b", "more": "NaN"}}])
@example(
    {"type": "object", "properties": {"next": {"$ref": "#/$defs/Leaf"}}}, {}, {"type": "number"}, [{"next": "inf"}]
)
@given(objects(SCHEMAS), objects(SCHEMAS), objects(SCHEMAS), st.lists(st.dictionaries(NAMES, VALUES), max_size=3))
def test_the_same_mistakes_are_named_in_the_same_order(
    schema: Schema, tree: Schema, leaf: Schema, values: list[dict[str, Any]]
) -> None:
    whole = {**schema, "$defs": {"Tree": tree, "Leaf": leaf}}
    known = KnownFields(whole)
    for value in values:
        expected = list(islice(PlainWalk(whole["$defs"]).mistakes(whole, value), 50))
        assert list(islice(known.mistakes(value), 50)) == expected


class Folder(BaseModel):
    name: str
    inside: "list[Folder | Album]" = []


class Album(BaseModel):
    title: str
    inside: "list[Folder | Album]" = []


class Shelf(BaseModel):
    first: Folder | Album


def test_a_value_that_is_nested_deeply_is_read_once_though_each_level_may_be_of_two_types() -> None:
    value: dict[str, Any] = {"nam": "innermost"}
    for _ in range(60):
        value = {"title": "outer", "inside": [value]}
    (line,) = PublishedArguments.of((Shelf,)).known_fields.mistakes({"first": value})
    assert line.startswith("first.inside[0].inside[0]")
    assert line.endswith("unknown. Did you mean 'name'?")


class PlainWalk:
    """Compares values with the schemas that may describe them, which are looked up for each value anew."""

    def __init__(self, definitions: Schema) -> None:
        self.definitions = definitions

    def mistakes(self, schema: Schema, value: object) -> Iterator[str]:
        yield from self.value(self.branches(schema), value, "")

    def value(self, schemas: Sequence[Schema], value: object, path: str) -> Iterator[str]:
        if isinstance(value, dict):
            yield from self.fields(schemas, cast("dict[str, Any]", value), path)
        elif isinstance(value, list):
            inner = [branch for each in schemas for branch in self.branches(each.get("items"))]
            if any(each.get("type", "object") in {"object", "array", "number"} for each in inner):
                for index, each in enumerate(cast("list[object]", value)):
                    yield from self.value(inner, each, f"{path}[{index}]")
        elif is_non_finite(value, {each.get("type") for each in schemas}):
            yield f"{path[:80]}: should be a number that JSON has; came {value}"

    def fields(self, schemas: Sequence[Schema], value: dict[str, Any], path: str) -> Iterator[str]:
        described = [each for each in schemas if each.get("type") == "object"]
        fitting = [each for each in described if constants_fit(each, value)] or described
        known = [name for each in fitting for name in each.get("properties", {})]
        for key, inner in value.items():
            place = f"{path}.{key}" if path else key
            if key not in known and described and not any(map(is_open, schemas)):
                yield f"{place[:80]}: unknown. {offer(key, known, none='There are no arguments.')}"
                continue
            found = [each.get("properties", {}).get(key, each.get("additionalProperties")) for each in fitting]
            yield from self.value([branch for each in found for branch in self.branches(each)], inner, place)

    def branches(self, schema: object) -> list[Schema]:
        if not isinstance(schema, Mapping):
            return []
        found = cast("Schema", schema)
        target = str(found.get("$ref", "")).removeprefix("#/$defs/")
        if target in self.definitions:
            return self.branches(self.definitions[target])
        members = [each for key in ("anyOf", "oneOf") for each in found.get(key, ())]
        rest = [found] if not members or "properties" in found else []
        return [branch for each in members for branch in self.branches(each)] + rest


def is_open(schema: Schema) -> bool:
    named = any(schema.get(key) for key in ("additionalProperties", "patternProperties"))
    return named or schema.keys().isdisjoint({"type", "const", "enum"})


def constants_fit(schema: Schema, value: Mapping[str, Any]) -> bool:
    constants = {name: each["const"] for name, each in schema.get("properties", {}).items() if "const" in each}
    return all(value.get(name, constant) == constant for name, constant in constants.items())


def is_non_finite(value: object, kinds: set[Any]) -> bool:
    if isinstance(value, float):
        return not isfinite(value)
    named = isinstance(value, str) and value.strip().lower().lstrip("+-") in {"nan", "inf", "infinity"}
    return named and "number" in kinds and "string" not in kinds
