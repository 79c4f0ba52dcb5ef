"""What holds of every type and text: values survive the way to the wire and back, and nothing breaks the reader."""

import json
import time
from dataclasses import make_dataclass
from datetime import date
from enum import Enum
from time import process_time
from typing import Any, Literal, cast

import pytest
from hypothesis import example, given, settings, strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from goalport.runtime.ai.output_type import OutputType, ValidOutput, json_of, output_type


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def _record(fields: list[Any]) -> Any:
    return make_dataclass("Record", [(f"field_{number}", kind) for number, kind in enumerate(fields)])


SIMPLE: list[Any] = [int, str, bool, date, Colour, Literal["a", "b"]]
KINDS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: dict[str, kind]),
        inner.map(lambda kind: kind | None),
        st.lists(inner, min_size=1, max_size=3).map(_record),
    ),
    max_leaves=4,
)
PROSE = st.text(st.characters(exclude_characters="{[]}`<>"))


@st.composite
def shapes_and_values(draw: st.DrawFn) -> tuple[OutputType, object, object]:
    """A shape, a value of its type, and the value as JSON data."""
    kind = draw(KINDS)
    shape = output_type(kind, may_decline=draw(st.booleans()))
    value = draw(st.from_type(kind))
    return shape, value, TypeAdapter(kind).dump_python(value, mode="json")


@settings(max_examples=100)
@given(shapes_and_values())
def test_a_value_survives_the_way_to_the_wire_and_back(case: tuple[OutputType, object, object]) -> None:
    shape, value, plain = case
    written = {"result": plain} if shape.wrapped else plain

    validator: Any = Draft202012Validator(cast("Any", shape.spec.schema))
    assert validator.is_valid(written)
    if not (shape.may_decline and plain is None):
        assert shape.read(json.dumps(written)) == ValidOutput(value)


@settings(max_examples=100)
@given(shapes_and_values())
def test_a_value_is_taken_without_the_object_around_it(case: tuple[OutputType, object, object]) -> None:
    shape, value, plain = case
    if plain is not None and not (isinstance(plain, dict) and {"result", "failure"} & plain.keys()):
        assert shape.read(json.dumps(plain)) == ValidOutput(value)


@settings(max_examples=100)
@given(KINDS, st.booleans())
def test_a_schema_is_a_valid_one_of_an_object(kind: Any, may_decline: bool) -> None:  # noqa: FBT001
    schema = output_type(kind, may_decline=may_decline).spec.schema

    Draft202012Validator.check_schema(cast("Any", schema))
    assert schema["type"] == "object"


@settings(max_examples=100)
@given(KINDS, st.booleans())
def test_an_example_is_one_that_would_be_taken(kind: Any, may_decline: bool) -> None:  # noqa: FBT001
    shape = output_type(kind, may_decline=may_decline)

    assert isinstance(shape.read(shape.example), ValidOutput)


@given(st.sampled_from(SIMPLE), st.booleans(), st.text() | st.text('{}[]":,0123 \\\n`nul'))
def test_whatever_a_model_writes_is_read_without_breaking(kind: Any, may_decline: bool, text: str) -> None:  # noqa: FBT001
    output_type(kind, may_decline=may_decline).read(text)
    output_type(list[kind], may_decline=may_decline).read(text)


@given(st.dictionaries(st.text(), st.integers() | st.text()), PROSE, PROSE, st.booleans())
@example(value={}, before="", after="\ud800", fenced=False)
def test_an_object_is_found_among_words(value: dict[str, object], before: str, after: str, fenced: bool) -> None:  # noqa: FBT001
    written = json.dumps(value)
    text = f"{before}\n```json\n{written}\n```{after}" if fenced else f"{before}{written}{after}"

    found = json_of(text)

    assert found is not None
    assert json.loads(found) == value


@pytest.mark.parametrize("piece", ['{"a":', "[", '{"', '["', '{"\\"', "<think>", "<think>[", '{"a": "b", '])
def test_a_text_of_nothing_but_beginnings_is_read_in_time_by_its_length(piece: str) -> None:
    started = time.process_time()
    assert json_of(piece * 30_000) is None
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "root", "children": [{"name": "a"}, {"name": "b"',
        'Here: [{"name": "a"}, {"name": "b"}, {"na',
        '{"found": ["a", "b"], "result": ["a"',
        '{"name": "two\nlines", "children": [{"name": "a"}]}',
        '{"name": \'root\', "children": [{"name": "a } b"}]}',
        '{"a":' * 5_000 + "1" + "}" * 5_000,
    ],
    ids=["object", "list", "lists", "line", "quotes", "deep"],
)
def test_a_part_of_an_object_that_cannot_be_read_is_no_answer(text: str) -> None:
    assert json_of(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('The set {a, b} is {"a": 1}', '{"a": 1}'),
        ('As {"a": number}, so: {"a": 1}', '{"a": 1}'),
        ('As [1] says {"a": 1} and {"a', '{"a": 1}'),
        ('{{"a": 1}}', '{"a": 1}'),
        ("It is [1, 2] or [3]", "[1, 2]"),
    ],
)
def test_braces_among_words_hide_no_object(text: str, found: str) -> None:
    assert json_of(text) == found


def test_a_thought_that_never_ends_does_not_hide_the_object_behind_one_that_does() -> None:
    assert json_of('<think>{"a": 0}</think><think>{"a": 1}') == '{"a": 1}'


@pytest.mark.parametrize(
    "text",
    ["```json\n" + " " * 400_000, "```json\n" + "\n \t" * 200_000, "``` " * 100_000, ("```\n" + " " * 1_000) * 400],
    ids=["spaces", "lines", "fences", "both"],
)
def test_a_fence_is_read_in_time_that_grows_with_its_length(text: str) -> None:
    began = process_time()
    assert json_of(text) is None
    assert process_time() - began < 3


def test_code_in_a_line_and_a_fence_that_was_cut_off_are_no_answer() -> None:
    assert json_of('Use ```5``` for {"a": 1}') == '{"a": 1}'
    assert json_of("```json\n12") is None
    assert json_of("```json\n12\n```") == "12"


def test_json_is_found_in_any_of_several_fences() -> None:
    said = 'See:\n```python\nprint()\n```\nand\n```json\n{"a": 1}\n  ```\nor\n```\n{"a": 2}\n```'
    assert json_of(said) == '{"a": 1}'
    assert json_of("```JSON  \n[1, 2]```") == "[1, 2]"
