"""Examples of objects: given ones as JSON, and made-up ones that are valid for their type."""

import json
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from goalport.models.prompts import Example, PromptContributor, made_up


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []
    parent: "Tree | None" = None
    twins: "Annotated[list[Tree], Field(min_length=2)] | None" = None


class Person(TypedDict):
    name: str
    friend: "Person | None"


@dataclass(frozen=True)
class Story:
    title: Annotated[str, Field(min_length=12, max_length=20)]
    written: date
    at: datetime
    length: timedelta
    colour: Colour
    pages: Annotated[int, Field(gt=3, multiple_of=5)]
    score: Annotated[float, Field(gt=0, lt=1)]
    cold: Annotated[int, Field(le=-3)]
    kind: Literal["tale"]
    author: str | None
    tags: Annotated[list[str], Field(min_length=2, max_length=3)]
    point: tuple[int, str]
    scores: dict[str, float]
    id: UUID
    done: bool
    nothing: None
    either: int | str
    raw: dict[str, Any]
    known: Annotated[str, Field(examples=["like this"])]
    notes: list[str] = field(default_factory=list[str])


@pytest.mark.parametrize(
    "kind",
    [
        Story,
        Tree,
        Person,
        list[Story],
        list[Tree],
        int,
        float,
        bool,
        str,
        Colour,
        Literal["a", "b"],
        int | Tree,
        dict[str, Story],
        tuple[int, ...],
        set[int],
        Annotated[list[int], Field(max_length=0)],
        Annotated[float, Field(ge=0, le=1)],
        Annotated[float, Field(le=0)],
        Annotated[int, Field(ge=7)],
        Annotated[float, Field(gt=1, lt=1.2)],
        Annotated[str, Field(max_length=2)],
    ],
    ids=str,
)
def test_what_is_made_up_of_a_schema_is_valid_for_the_type(kind: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    adapter.validate_json(adapter.dump_json(adapter.validate_python(made_up(adapter.json_schema()), strict=False)))


def test_nothing_is_made_up_as_minus_zero() -> None:
    schema = TypeAdapter(Annotated[float, Field(ge=0, le=1)]).json_schema()
    assert json.dumps(made_up(schema)) == "0.0"


def test_what_is_made_up_shows_a_type_that_contains_itself_once() -> None:
    assert made_up(TypeAdapter(Tree).json_schema()) == {"name": "name", "children": []}


def test_a_type_that_has_to_contain_itself_for_ever_still_has_an_end() -> None:
    schema = {
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}},
        "$ref": "#/$defs/Node",
    }
    assert made_up(schema) == {"next": {}}


def test_what_a_schema_says_of_itself_is_used() -> None:
    assert made_up({"type": ["string", "null"], "format": "email"}) == "someone@example.com"
    assert made_up({"allOf": [{"const": 3}]}) == 3
    assert made_up({}) == "text"


def test_an_example_is_its_description_and_the_object_as_json() -> None:
    class Pet(BaseModel):
        name: Annotated[str, Field(alias="petName")]
        age: int = 0

    example = Example.of("A good pet", list[Pet], [Pet.model_validate({"petName": "Rex", "age": 3})])
    assert isinstance(example, PromptContributor)
    assert example.contribution() == ('Example: A good pet\n[\n  {\n    "petName": "Rex",\n    "age": 3\n  }\n]')


def test_an_example_of_some_properties_shows_no_others() -> None:
    class Pet(BaseModel):
        name: str
        secret: str = "x"

    example = Example.of("A good pet", Pet, Pet(name="Rex", secret="y"), {"name"}.__contains__)
    assert example.contribution() == 'Example: A good pet\n{\n  "name": "Rex"\n}'
    several = Example.of("Good pets", list[Pet], [Pet(name="Rex", secret="y")], {"name"}.__contains__)
    assert json.loads(several.json) == [{"name": "Rex"}]
    assert Example.of("A good number", int, 3, {"name"}.__contains__).json == "3"
