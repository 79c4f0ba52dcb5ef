"""The schema and description that a model gets from a function."""

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, cast

import pytest
from mcp_types import ImageContent
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from goalport.tools import Tool, ToolResult, tool


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Address(BaseModel):
    street: str
    codes: list[int] = Field(default=[], description="Postal codes.")


class Options(TypedDict):
    deep: bool


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


def schema_of(function: Any) -> dict[str, Any]:
    return dict(Tool.of(function).input_schema)


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def ping() -> str:
        return "pong"

    assert schema_of(ping) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_required_arguments_are_those_without_a_default() -> None:
    def add(a: float, b: float = 2.5) -> float:
        return a + b

    assert schema_of(add) == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number", "default": 2.5}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_nested_types_enums_and_arrays_are_described_where_they_are_defined() -> None:
    def draw(colour: Colour, at: list[Point], to: Address, options: Options, kind: Literal["a", "b"] = "a") -> None:
        del colour, at, to, options, kind

    schema = schema_of(draw)

    assert schema["$defs"]["Colour"] == {"enum": ["red", "blue"], "title": "Colour", "type": "string"}
    assert schema["properties"]["at"] == {"type": "array", "items": {"$ref": "#/$defs/Point"}}
    assert schema["properties"]["kind"] == {"enum": ["a", "b"], "type": "string", "default": "a"}
    assert schema["$defs"]["Address"]["properties"]["codes"]["description"] == "Postal codes."
    assert schema["$defs"]["Options"]["required"] == ["deep"]


def test_an_optional_argument_may_be_null() -> None:
    def find(name: str | None = None) -> None:
        del name

    assert schema_of(find)["properties"]["name"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}


def test_a_default_that_json_cannot_express_is_left_out() -> None:
    nothing = object()

    def find(name: Any = nothing) -> None:
        del name

    assert schema_of(find)["properties"] == {"name": {}}


def test_descriptions_come_from_annotations_first_and_then_from_the_docstring() -> None:
    def find(
        name: Annotated[str, Field(description="From the type.", min_length=1)], limit: int = Field(5, ge=1)
    ) -> None:
        """Find things.

        Args:
            name: From the docstring.
            limit: How many,
                at most.
        """
        del name, limit

    assert schema_of(find)["properties"] == {
        "name": {"type": "string", "description": "From the type.", "minLength": 1},
        "limit": {"type": "integer", "description": "How many, at most.", "default": 5, "minimum": 1},
    }


def google(a: int) -> int:
    """Double a number.

    Exact for any size.

    Args:
        a (int): The number.

    Returns:
        Twice the number.

    Example:
        google(2)
    """
    return 2 * a


def numpy(a: int) -> int:
    """Double a number.

    Exact for any size.

    Parameters
    ----------
    a : int
        The number.

    Returns
    -------
    int
        Twice the number.
    """
    return 2 * a


def sphinx(a: int) -> int:
    """Double a number.

    Exact for any size.

    :param a: The number.
    :returns: Twice the number.
    """
    return 2 * a


def epydoc(a: int) -> int:
    """Double a number.

    Exact for any size.

    @param a: The number.
    @type a: int
    @return: Twice the number.
    """
    return 2 * a


@pytest.mark.parametrize(
    ("function", "rest"),
    [
        (google, "Returns:\n    Twice the number.\n\nExample:\n    google(2)"),
        (numpy, "Returns\n-------\nint\n    Twice the number."),
        (sphinx, ":returns: Twice the number."),
        (epydoc, "@return: Twice the number."),
    ],
)
def test_every_style_of_docstring_describes_parameters_and_all_else_is_the_description(
    function: Any, rest: str
) -> None:
    assert schema_of(function)["properties"]["a"]["description"] == "The number."
    assert Tool.of(function).description == f"Double a number.\n\nExact for any size.\n\n{rest}"


def test_another_section_with_a_rule_describes_no_parameters() -> None:
    def double(a: int) -> int:
        """Double a number.

        Notes
        -----
        a : int
            Not too large.
        """
        return 2 * a

    assert "description" not in schema_of(double)["properties"]["a"]
    assert Tool.of(double).description == "Double a number.\n\nNotes\n-----\na : int\n    Not too large."


def test_a_docstring_may_describe_parameters_at_length() -> None:
    def move(mode: str, a: int, b: int) -> None:
        """Move.

        Parameters
        ----------
        mode : str
            How to move:

            a: quickly
        a, b : int
            Where to.
        """
        del mode, a, b

    def turn(mode: str, a: int) -> None:
        """Turn.

        Args:
            mode: How to turn.
                a: quickly
            a: How far.

        Turn back after it.
        """
        del mode, a

    assert [each["description"] for each in schema_of(move)["properties"].values()] == [
        "How to move: a: quickly",
        "Where to.",
        "Where to.",
    ]
    assert [each["description"] for each in schema_of(turn)["properties"].values()] == [
        "How to turn. a: quickly",
        "How far.",
    ]
    assert (Tool.of(move).description, Tool.of(turn).description) == ("Move.", "Turn.\n\nTurn back after it.")


def test_a_docstring_that_describes_no_parameter_is_the_description_word_for_word() -> None:
    def note(text: str) -> None:
        """Keep a note: short ones.

        Note:
            - text: is kept
        """
        del text

    assert Tool.of(note).description == "Keep a note: short ones.\n\nNote:\n    - text: is kept"


def test_without_a_docstring_the_name_in_words_is_the_description() -> None:
    def find_nearest_shop() -> None: ...

    assert Tool.of(find_nearest_shop).description == "find nearest shop"


def test_what_the_decorator_says_goes_before_the_function_and_what_the_call_says_before_both() -> None:
    @tool(name="sum", title="Sum", description="Adds.", read_only=True, idempotent=True, return_direct=True)
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    marked = Tool.of(add)
    assert (marked.name, marked.title, marked.description) == ("sum", "Sum", "Adds.")
    assert (marked.read_only, marked.destructive, marked.idempotent, marked.return_direct) == (True, None, True, True)
    renamed = Tool.of(add, name="plus", description="Plus.")
    assert (renamed.name, renamed.description) == ("plus", "Plus.")


def test_parameters_may_have_names_that_pydantic_keeps_for_itself() -> None:
    def odd(schema: int, model_config: int, _hidden: int, copy: int, self: int) -> list[int]:
        return [schema, model_config, _hidden, copy, self]

    assert list(schema_of(odd)["properties"]) == ["schema", "model_config", "_hidden", "copy", "self"]


def test_an_alias_is_what_callers_write() -> None:
    def find(page_size: Annotated[int, Field(alias="page-size", description="Rows.")] = 10) -> int:
        return page_size

    assert schema_of(find)["properties"] == {"page-size": {"type": "integer", "description": "Rows.", "default": 10}}


@pytest.mark.parametrize(("declared", "field"), [(Point, "x"), (Address, "street"), (Options, "deep")])
def test_a_return_type_with_fields_is_the_output_schema(declared: Any, field: str) -> None:
    def make() -> Any: ...

    make.__annotations__["return"] = declared

    schema = Tool.of(make).output_schema
    assert schema is not None
    assert schema["type"] == "object"
    assert field in str(schema["required"])


def test_the_output_schema_of_a_type_that_contains_itself_is_an_object_at_the_root() -> None:
    def grow() -> Tree: ...

    schema = Tool.of(grow).output_schema
    assert schema is not None
    assert schema["type"] == "object"
    assert "Tree" in str(schema["$defs"])


@pytest.mark.parametrize(
    ("declared", "inner"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (bool, {"type": "boolean"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
    ],
)
def test_what_is_no_object_is_published_as_the_member_of_one(declared: Any, inner: dict[str, object]) -> None:
    def make() -> Any: ...

    make.__annotations__["return"] = declared

    schema = Tool.of(make).output_schema or {}
    assert schema["required"] == ["result"]
    found = cast("dict[str, dict[str, object]]", schema["properties"])["result"]
    assert {key: found.get(key) for key in inner} == inner


def test_a_mapping_is_an_object_by_itself() -> None:
    def make() -> dict[str, int]: ...

    assert Tool.of(make).output_schema == {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    "declared", [None, Any, object, ImageContent, list[ImageContent | str], ToolResult, Awaitable[int]]
)
def test_what_says_nothing_or_is_no_json_has_no_output_schema(declared: Any) -> None:
    def make() -> Any: ...

    make.__annotations__["return"] = declared

    assert Tool.of(make).output_schema is None
