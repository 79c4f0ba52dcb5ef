"""Forms as MCP elicitation shows them, and the answers that come back from there."""

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, cast, get_args

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator
from mcp_types._v2025_11_25 import ElicitRequestFormParams as Params2025, PrimitiveSchemaDefinition
from mcp_types._v2026_07_28 import ElicitRequestFormParams as Params2026
from pydantic import BaseModel, Field, SecretStr, TypeAdapter, create_model

from goalport import WaitFor
from goalport.base.errors import BadInput
from goalport.runtime.process import Question
from goalport.runtime.process.questions import SchemaSubmission
from goalport.server.publish.forms import Form, form_of

ERAS = ("2025-06-18", "2025-11-25", "2026-07-28")
NEW = "2025-11-25"


def form(kind: object) -> Form:
    """The form of a question for an object of a type."""
    wait: Any = WaitFor.form_submission("What?", kind)  # type: ignore[type-var]
    return form_of(Question("q-1", "p-1", "ask", wait))


def shown(kind: object, era: str = NEW) -> dict[str, Any] | None:
    """The elicitation of a type, after a look whether clients take it."""
    schema = form(kind).elicitation(era)
    if schema is not None:
        for params in (Params2025, Params2026):
            params.model_validate({"message": "What?", "mode": "form", "requestedSchema": schema})
        assert {*schema} <= {"type", "properties", "required"}
        for each in schema["properties"].values():
            assert is_primitive(each), each
    return schema


def is_primitive(schema: dict[str, Any]) -> bool:
    """Whether one of the protocol's types of fields has all that a schema says."""
    # The pages of the specification have `pattern`, its types do not.
    said = {key: value for key, value in schema.items() if key != "pattern"}
    for kind in get_args(PrimitiveSchemaDefinition):
        try:
            read = kind.model_validate(said)
        except ValueError:
            continue
        if json.loads(read.model_dump_json(by_alias=True, exclude_none=True)) == said:
            return True
    return False


def answered(kind: object, content: dict[str, Any]) -> object:
    asked = form(kind)
    return asked.read(asked.elicited(content))


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


LEVELS = [{"const": "1", "title": "Low"}, {"const": "2", "title": "High"}]


class Meal(BaseModel):
    """What somebody eats."""

    dish: str = Field(title="Dish", description="What to cook", min_length=2, max_length=20, pattern="^[a-z ]+$")
    guests: int = Field(gt=0, le=12)
    euros: float = Field(default=9.5, ge=1, lt=100)
    vegan: bool = False
    color: Color = Color.RED
    level: Level = Level.LOW
    spice: Literal["mild", "hot"] | None = None
    sides: list[Literal["rice", "bread", "salad"]] = Field(default=["rice"], max_length=2)
    day: date
    cook: str | None = Field(default=None, description="Whom to write to", json_schema_extra={"format": "email"})
    tip: Decimal | None = None


def test_the_fields_of_a_flat_model_are_shown_with_all_that_the_protocol_has() -> None:
    assert shown(Meal) == {
        "type": "object",
        "properties": {
            "dish": {
                "type": "string",
                "title": "Dish",
                "description": "What to cook",
                "minLength": 2,
                "maxLength": 20,
                "pattern": "^[a-z ]+$",
            },
            "guests": {"type": "integer", "minimum": 1, "maximum": 12},
            "euros": {"type": "number", "minimum": 1, "default": 9.5, "description": "less than 100"},
            "vegan": {"type": "boolean", "default": False},
            "color": {"type": "string", "title": "Color", "enum": ["red", "blue"], "default": "red"},
            "level": {"type": "string", "title": "Level", "oneOf": LEVELS, "default": "1"},
            "spice": {"type": "string", "enum": ["mild", "hot"]},
            "sides": {
                "type": "array",
                "items": {"type": "string", "enum": ["rice", "bread", "salad"]},
                "default": ["rice"],
                "maxItems": 2,
            },
            "day": {"type": "string", "format": "date"},
            "cook": {"type": "string", "format": "email", "description": "Whom to write to"},
            "tip": {"type": "string"},
        },
        "required": ["dish", "guests", "day"],
    }


def test_what_a_person_entered_is_the_object() -> None:
    content = {
        "dish": "soup",
        "guests": 3,
        "level": "2",
        "sides": ["bread", "salad"],
        "day": "2026-11-22",
        "tip": "1.5",
    }
    assert answered(Meal, content) == Meal(
        dish="soup",
        guests=3,
        level=Level.HIGH,
        sides=["bread", "salad"],
        day=date(2026, 11, 22),
        tip=Decimal("1.5"),
    )


def test_a_field_that_is_left_empty_is_a_field_that_is_left_out() -> None:
    content = {"dish": "soup", "guests": 3, "day": "2026-11-22", "cook": "", "tip": None, "euros": None, "spice": ""}
    assert answered(Meal, content) == Meal(dish="soup", guests=3, day=date(2026, 11, 22))


def test_an_answer_that_does_not_fit_is_refused_with_a_line_for_each_field() -> None:
    with pytest.raises(BadInput) as refusal:
        answered(Meal, {"dish": "X", "guests": 0, "level": "7", "day": "soon", "guest": 1})
    words = str(refusal.value)
    assert all(f"- {name}: " in words for name in ("dish", "guests", "level", "day", "guest"))


class Several(BaseModel):
    sides: list[Literal["rice", "bread"]]


class Plain(BaseModel):
    size: int = 3
    fast: bool = True
    color: Color = Color.BLUE


def test_the_first_version_has_neither_several_choices_nor_most_defaults() -> None:
    assert shown(Several, "2025-06-18") is None
    assert shown(Plain, "2025-06-18") == {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "description": "default: 3"},
            "fast": {"type": "boolean", "default": True},
            "color": {"type": "string", "title": "Color", "enum": ["red", "blue"], "description": "default: blue"},
        },
    }
    assert answered(Plain, {}) == Plain()


@dataclass
class Address:
    city: str
    country: str = "NO"
    zip: str | None = None


class Parcel(BaseModel):
    weight: int
    to: Address = Field(description="Where it goes")
    back: Address | None = None


class Free(BaseModel):
    tags: list[str]


class Ambiguous(BaseModel):
    number: int | str


class Alike(BaseModel):
    number: Literal[1, "1"]


class Hidden(BaseModel):
    name: str
    password: SecretStr


class Anything(BaseModel):
    data: dict[str, int]


@pytest.mark.parametrize("kind", [Parcel, Free, Ambiguous, Alike, Hidden, Anything, dict[str, int], list[int]])
@pytest.mark.parametrize("era", ERAS)
def test_what_the_protocol_has_no_fields_for_is_not_shown_in_part(kind: object, era: str) -> None:
    assert shown(kind, era) is None


def test_a_yes_or_no_is_a_form_of_one_field() -> None:
    assert shown(bool) == {
        "type": "object",
        "properties": {"confirmed": {"type": "boolean", "title": "Yes"}},
        "required": ["confirmed"],
    }
    assert [answered(bool, {"confirmed": each}) for each in (True, False)] == [True, False]
    with pytest.raises(BadInput, match="answer: should be yes or no"):
        answered(bool, {})


@pytest.mark.parametrize(
    ("kind", "value", "sent"),
    [
        (str, "yes", "yes"),
        (int, 3, 3),
        (Color, Color.BLUE, "blue"),
        (Level, Level.HIGH, "2"),
        (Literal["a", 2], 2, "2"),
        (Annotated[str, Field(min_length=1)], "x", "x"),
        (date, date(2026, 11, 22), "2026-11-22"),
    ],
)
def test_an_answer_that_is_no_object_is_a_form_of_one_field(kind: object, value: object, sent: object) -> None:
    schema = shown(kind)
    assert schema is not None
    assert schema["required"] == ["answer"]
    assert answered(kind, {"answer": sent}) == value


FOREIGN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "tags": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}},
        "dish": {"type": "string", "enum": ["soup", "pie"], "enumNames": ["A soup", "A pie"]},
        "fast": {"type": "boolean", "default": True},
    },
    "required": ["name"],
}


def test_the_form_of_another_server_is_shown_as_it_came() -> None:
    asked = form_of(Question("q-1", "p-1", "ask", SchemaSubmission("What?", FOREIGN)))
    assert asked.elicitation("2025-11-25") == FOREIGN
    assert asked.elicitation("2025-06-18") is None
    content = {"name": "Ada", "size": "l", "tags": ["b"]}
    assert asked.read(asked.elicited(content)) == content


_EAST = timezone(timedelta(hours=1))
_MENU: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, st.text(st.characters(codec="utf-8"), min_size=0, max_size=8)),
    (Annotated[str, Field(min_length=1, max_length=4)], st.text("abc", min_size=1, max_size=4)),
    (Annotated[str, Field(pattern="^[ab]+$")], st.text("ab", min_size=1, max_size=4)),
    (int, st.integers(-(10**9), 10**9)),
    (Annotated[int, Field(gt=1, lt=9)], st.integers(2, 8)),
    (float, st.floats(allow_nan=False, allow_infinity=False, width=32)),
    (Annotated[float, Field(ge=0, le=1)], st.floats(0, 1)),
    (Annotated[int, Field(multiple_of=5)], st.integers(0, 9).map(lambda each: 5 * each)),
    (bool, st.booleans()),
    (Literal["a", "b c", "ü"], st.sampled_from(["a", "b c", "ü"])),
    (Literal[1, 2, "x"], st.sampled_from([1, 2, "x"])),
    (Color, st.sampled_from(Color)),
    (Level, st.sampled_from(Level)),
    (list[Literal["a", "b"]], st.lists(st.sampled_from(["a", "b"]), unique=True)),
    (set[Level], st.sets(st.sampled_from(Level))),
    (date, st.dates()),
    (datetime, st.datetimes(timezones=st.just(_EAST))),
    (timedelta, st.timedeltas(timedelta(0), timedelta(days=3))),
    (Decimal, st.decimals(-1000, 1000, places=2)),
]


def sent_for(value: object) -> Any:
    """A value as a client sends it."""
    match value:
        case Enum():
            return sent_for(value.value)
        case list() | set():
            return [sent_for(each) for each in cast("list[object]", value)]
        case date():
            return value.isoformat()
        case timedelta():
            return TypeAdapter(timedelta).dump_python(value, mode="json")
        case Decimal():
            return str(value)
        case _:
            return value


def as_choice(value: Any, schema: dict[str, Any]) -> Any:
    """A value as the text of a choice, where the form offers choices."""
    if "items" in schema:
        return [as_choice(each, schema["items"]) for each in value]
    return json.dumps(value) if {"enum", "oneOf", "anyOf"} & schema.keys() and not isinstance(value, str) else value


@st.composite
def _made(draw: st.DrawFn) -> tuple[type[BaseModel], dict[str, Any]]:
    """A model that can be shown, and values for some of its fields; an optional field may be left out."""
    fields: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for index in range(draw(st.integers(1, 5))):
        name = f"field_{index}"
        kind, strategy = draw(st.sampled_from(_MENU))
        value = draw(strategy)
        match draw(st.sampled_from(["required", "nullable", "optional", "default"])):
            case "nullable":
                fields[name] = (kind | None, ...)
                values[name] = value if draw(st.booleans()) else None
            case "optional":
                fields[name] = (kind | None, None)
                values |= {name: value} if draw(st.booleans()) else {}
            case "default":
                fields[name] = (kind, Field(default=value))
            case _:
                fields[name] = (kind, ...)
                values[name] = value
    return create_model("Made", **fields), values


@settings(max_examples=60, deadline=None)
@given(_made(), st.sampled_from(ERAS))
def test_what_is_entered_into_a_form_that_can_be_shown_is_the_object(
    made: tuple[type[BaseModel], dict[str, Any]], era: str
) -> None:
    kind, values = made
    schema = shown(kind, era)
    if schema is None:
        assert era == "2025-06-18"
        return
    expected = kind.model_validate(values)
    content = {name: sent_for(value) for name, value in values.items() if value is not None}
    assert content.keys() <= schema["properties"].keys()
    content = {name: as_choice(value, schema["properties"][name]) for name, value in content.items()}
    Draft202012Validator(schema).validate(content)  # pyright: ignore[reportUnknownMemberType]
    assert answered(kind, content) == expected


class Size(Enum):
    """How large something is."""

    SMALL = "s"
    LARGE = "l"

    @property
    def label(self) -> str:
        return self.name.capitalize()


class Shirt(BaseModel):
    size: Size
    sizes: set[Size] = Field(default={Size.SMALL}, min_length=1)
    again: Size | None = None
    fit: Literal["n", "w"] = Field(default="n", json_schema_extra={"enumNames": ["Narrow", "Wide"]})
    cut: Literal["a", "b"] = Field(default="a", json_schema_extra={"oneOf": [{"const": "b", "title": "Bold"}]})


SIZES = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]


def test_the_members_of_an_enumeration_have_the_labels_that_they_give_themselves() -> None:
    schema = shown(Shirt)
    assert schema is not None
    of, fields = "How large something is.", schema["properties"]
    single = {"type": "string", "title": "Size", "description": of, "oneOf": SIZES}
    assert (fields["size"], fields["again"]) == (single, single)
    assert fields["sizes"] == {"type": "array", "items": {"anyOf": SIZES}, "minItems": 1, "default": ["s"]}
    assert fields["fit"]["enumNames"] == ["Narrow", "Wide"]
    assert [each["title"] for each in fields["cut"]["oneOf"]] == ["a", "Bold"]
    content = {"size": "l", "sizes": ["s", "l"], "fit": "w"}
    assert answered(Shirt, content) == Shirt(size=Size.LARGE, sizes={Size.SMALL, Size.LARGE}, fit="w")
