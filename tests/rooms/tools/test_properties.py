"""What holds of every tool: properties over made-up names, types and values."""

import inspect
import json
import string
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from typing import Any

import anyio
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from goalport.tools import (
    Tool,
    ToolResult,
    composed,
    prefixed,
    reference_prefix,
    schema_fault,
    schema_problems,
    snake,
    suffixed,
)


@dataclass
class Sample:
    """A type with a value of it."""

    type: Any
    value: Any


WORDS = st.text(string.ascii_lowercase + "_", min_size=1, max_size=8).filter(lambda name: not name.startswith("__"))
NAMES = WORDS.filter(str.isidentifier).filter(
    lambda name: name not in {"if", "in", "is", "as", "or", "and", "not", "for"}
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SIMPLE: st.SearchStrategy[Sample] = st.one_of(
    st.integers().map(lambda value: Sample(int, value)),
    FINITE.map(lambda value: Sample(float, value)),
    st.booleans().map(lambda value: Sample(bool, value)),
    st.text().map(lambda value: Sample(str, value)),
    st.dates().map(lambda value: Sample(type(value), value)),
)


def _larger(inner: st.SearchStrategy[Sample]) -> st.SearchStrategy[Sample]:
    return st.one_of(
        inner.map(lambda each: Sample(list[each.type], [each.value])),
        inner.map(lambda each: Sample(dict[str, each.type], {"key": each.value})),
        inner.map(lambda each: Sample(each.type | None, each.value)),
        inner.map(lambda each: Sample(each.type | None, None)),
        st.lists(inner, min_size=1, max_size=3).map(_dataclass),
    )


def _dataclass(fields: list[Sample]) -> Sample:
    kind = make_dataclass("Made", [(f"field_{number}", each.type) for number, each in enumerate(fields)])
    return Sample(kind, kind(*(each.value for each in fields)))


SAMPLES = st.recursive(SIMPLE, _larger, max_leaves=4)


def function_of(parameters: dict[str, Sample], record: dict[str, object]) -> Callable[..., None]:
    """A function with these parameters that records what it is called with."""

    def function(**given: object) -> None:
        record.update(given)

    made: Any = function
    made.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in parameters]
    )
    made.__annotations__ = {name: each.type for name, each in parameters.items()}
    return made


def call(tool: Tool, arguments: dict[str, object]) -> ToolResult:
    return anyio.run(tool.call, arguments)


@settings(max_examples=60)
@given(st.dictionaries(NAMES, SAMPLES, max_size=4))
def test_what_is_sent_as_json_arrives_as_the_value_that_was_meant(parameters: dict[str, Sample]) -> None:
    received: dict[str, object] = {}
    tool = Tool.of(function_of(parameters, received))
    sent: dict[str, object] = {
        name: json.loads(TypeAdapter[Any](each.type).dump_json(each.value)) for name, each in parameters.items()
    }

    schema: Any = tool.input_schema
    validator: Any = Draft202012Validator(schema)
    validator.check_schema(schema)
    assert list(validator.iter_errors(sent)) == []
    assert not call(tool, sent).is_error
    assert received == {name: each.value for name, each in parameters.items()}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(st.dictionaries(NAMES, SAMPLES, min_size=1, max_size=3), st.dictionaries(NAMES, JSON, max_size=3), st.data())
def test_any_json_is_either_taken_or_explained_a_line_for_each_field(
    parameters: dict[str, Sample], junk: dict[str, object], data: st.DataObject
) -> None:
    sent = {**{name: data.draw(JSON) for name in parameters}, **junk}
    received: dict[str, object] = {}

    result = call(Tool.of(function_of(parameters, received)), sent)

    assert result.is_error != bool(received)
    if result.is_error:
        first, *lines = result.text.split("\n")
        assert first == "The arguments need correcting:"
        assert lines
        assert all(line.startswith("- ") for line in lines)


TEXTS = st.text("ab", max_size=2)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
PATTERNS = st.sampled_from(["a", "^b", "a$", "^[ab]{2}$"])
KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["object", "array", "string", "integer", "null"]),
    "pattern": PATTERNS,
    "uniqueItems": st.booleans(),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "required": st.lists(TEXTS, max_size=2, unique=True),
    "unevaluatedItems": st.booleans(),
}


def nesting(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "properties": st.dictionaries(TEXTS, inner, max_size=2),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "additionalProperties": st.booleans() | inner,
        "items": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
    }
    return st.fixed_dictionaries({}, optional=KEYWORDS | keywords)


SCHEMAS = st.recursive(st.fixed_dictionaries({}, optional=KEYWORDS), nesting, max_leaves=5)


@settings(max_examples=100)
@given(SCHEMAS, st.dictionaries(TEXTS, VALUES, max_size=3))
def test_what_fits_a_json_schema_has_no_problem_and_anything_else_has(
    schema: dict[str, Any], value: dict[str, object]
) -> None:
    validator: Any = Draft202012Validator(schema)

    assert schema_fault(schema) == ""
    assert (schema_problems(schema, value) == ()) == validator.is_valid(value)


@given(st.text(), st.text(), st.text())
def test_composed_namings_apply_from_left_to_right(name: str, prefix: str, suffix: str) -> None:
    both = composed(prefixed(prefix), suffixed(suffix))

    assert both(name) == f"{prefix}{name}{suffix}"
    assert composed(both, both)(name) == both(both(name))


@given(st.text(string.ascii_letters + string.digits + "_-. "))
def test_snake_case_is_lower_case_without_gaps_and_stays_as_it_is(name: str) -> None:
    once = snake(name)

    assert once == snake(once)
    assert set(once) <= set(string.ascii_lowercase + string.digits + "_")


@given(st.text())
def test_the_prefix_of_a_reference_is_portable_and_as_long_as_its_name_and_one(name: str) -> None:
    prefix = reference_prefix(name)

    assert len(prefix) == len(name) + 1
    assert set(prefix) <= set(string.ascii_lowercase + string.digits + "_")


@given(st.text())
def test_any_docstring_can_be_read(text: str) -> None:
    def documented(a: int) -> int:
        return a

    documented.__doc__ = text

    assert Tool.of(documented).description
