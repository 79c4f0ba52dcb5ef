"""Calling a tool: what goes in, what comes out, and what a model is told when something is wrong."""

import functools
import logging
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum, StrEnum
from typing import Annotated, Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from mcp_types import ImageContent, TextContent
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from goalport.base.errors import BadInput, ToolError
from goalport.tools import Tool, ToolResult


class Colour(StrEnum):
    RED = "red"


class Level(Enum):
    LOW = 1


class Address(BaseModel):
    street: str
    code: int = Field(ge=1)


class Total(TypedDict):
    total: int


@dataclass
class Point:
    x: int
    y: int = 0


PIXEL = ImageContent(type="image", data="AA==", mime_type="image/png")


async def call(function: Any, **arguments: object) -> ToolResult:
    with anyio.fail_after(60):
        return await Tool.of(function, name="it").call(arguments)


async def test_arguments_arrive_as_the_types_of_the_signature() -> None:
    def describe(at: Point, day: date, colour: Colour, where: Address, tags: set[str]) -> str:
        return f"{at!r} {day!r} {colour!r} {where!r} {sorted(tags)}"

    result = await call(
        describe, at={"x": 1}, day="2026-01-02", colour="red", where={"street": "S", "code": 2}, tags=["b", "a"]
    )

    expected = "Point(x=1, y=0) datetime.date(2026, 1, 2) <Colour.RED: 'red'> Address(street='S', code=2) ['a', 'b']"
    assert result == ToolResult(text=expected, structured={"result": expected})


async def test_numbers_sent_as_text_are_numbers() -> None:
    def add(a: int, b: float) -> float:
        return a + b

    assert (await call(add, a="2", b="0.5")).text == "2.5"


async def test_defaults_fill_what_is_not_given() -> None:
    def join(first: str, *, second: str = "b", third: Annotated[str, Field()] = "c", fourth: str = Field("d")) -> str:
        return first + second + third + fourth

    assert (await call(join, first="a")).text == "abcd"
    assert (await call(join, first="a", third="x", fourth="y")).text == "abxy"


async def test_positional_only_parameters_are_filled_by_position() -> None:
    def divide(a: float, b: float = 2, c: float = Field(5), /, *, digits: int = 1) -> float:
        return round(a / b / c, digits)

    assert (await call(divide, a=100)).text == "10.0"
    assert (await call(divide, a=100, c=1, digits=0)).text == "50.0"


async def test_all_that_is_wrong_with_the_arguments_is_listed_with_a_line_for_each_field() -> None:
    def make(where: Address, colour: Colour, at: list[Point], limit: int | str = 1) -> None:
        del where, colour, at, limit

    result = await call(make, where={"street": 3, "code": 0}, color="red", at=[{"x": 1}, {"y": "u"}], limit=[2])

    assert result.is_error
    assert result.text.splitlines() == [
        "The arguments need correcting:",
        "- where.street: should be a text; came 3",
        "- where.code: should be at least 1; came 0",
        "- colour: required, but missing",
        "- at[1].x: required, but missing",
        "- at[1].y: should be a whole number; came 'u'",
        "- limit: should be a whole number; came [2]; or should be a text; came [2]",
        "- color: unknown. Did you mean 'colour'?",
    ]


async def test_an_unknown_argument_that_resembles_none_gets_the_list() -> None:
    def add(a: int = 0, b: int = 0) -> int:
        return a + b

    def ping() -> None: ...

    assert (await call(add, quantity=1)).text.endswith("- quantity: unknown. Known: a, b.")
    assert (await call(ping, quantity=1)).text.endswith("- quantity: unknown. There are no arguments.")


async def test_unknown_fields_inside_a_dataclass_are_refused_too() -> None:
    def move(to: Point) -> None:
        del to

    assert (await call(move, to={"x": 1, "z": 2})).text.endswith("- to.z: unknown.")


async def test_a_huge_argument_is_shown_only_in_part() -> None:
    def square(number: int) -> int:
        return number**2

    result = await call(square, number="9" * 1_000_000 + "x")

    assert result.is_error
    assert len(result.text) < 300


async def test_of_very_many_mistakes_some_are_told_and_the_rest_counted() -> None:
    def add(numbers: list[int]) -> int:
        return sum(numbers)

    some = await call(add, numbers=["x"] * 25)
    many = await call(add, numbers=["x"] * 100_000)

    assert len(some.text.splitlines()) == 1 + 20 + 1
    assert some.text.endswith("- and 5 more")
    assert many.text == "The arguments need correcting:\n- 100000 values do not fit the schema"
    assert (await raw(NUMBERS).call({"a": ["x"] * 25})).text.endswith("- and 5 more")


async def test_nothing_runs_when_the_arguments_are_wrong() -> None:
    ran: list[int] = []

    assert (await call(lambda: ran.append(1), surprise=1)).is_error
    assert ran == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("plain", "plain"),
        (3, "3"),
        (True, "true"),
        (Colour.RED, "red"),
        (Level.LOW, "1"),
        ([1, "ä"], '[1,"ä"]'),
        ({"day": date(2026, 1, 2)}, '{"day":"2026-01-02"}'),
        (Point(1), '{"x":1,"y":0}'),
    ],
)
async def test_what_a_function_returns_becomes_text(value: object, text: str) -> None:
    result = await call(lambda: value)

    assert result.text == text
    assert not result.is_error
    assert result.artifact == (None if value is None or type(value) is str else value)
    assert result.content == (TextContent(type="text", text=text),)


async def test_content_blocks_pass_through() -> None:
    one = await call(lambda: PIXEL)
    several = await call(lambda: ["See:", PIXEL])

    assert (one.text, one.blocks, one.content) == ("", (PIXEL,), (PIXEL,))
    assert several.blocks == (TextContent(type="text", text="See:"), PIXEL)
    assert ToolResult(text="See:", blocks=(PIXEL,)).content == several.blocks


async def test_a_list_without_content_blocks_is_data() -> None:
    assert (await call(lambda: ["a", "b"])).text == '["a","b"]'
    assert (await call(lambda: [PIXEL, 1])).blocks == ()


async def test_a_tool_result_is_given_back_as_it_is() -> None:
    given = ToolResult.of_artifact("A report", Point(1))

    assert await call(lambda: given) is given


async def test_a_declared_object_is_structured_data_and_text() -> None:
    def point() -> Point:
        return Point(1, 2)

    def total() -> Total:
        return {"total": 3}

    result = await call(point)

    assert (result.structured, result.text, result.artifact) == ({"x": 1, "y": 2}, '{"x":1,"y":2}', Point(1, 2))
    assert (await call(total)).structured == {"total": 3}


async def test_a_declared_object_may_still_be_answered_with_a_result_of_its_own() -> None:
    def point() -> Point:
        return cast("Point", ToolResult.of_error("There is none."))

    assert await call(point) == ToolResult(text="There is none.", is_error=True)


@pytest.mark.parametrize("value", [None, "text", Point(cast("int", "one")), {"y": 1}])
async def test_something_other_than_the_declared_object_is_an_error_of_the_tool(value: object) -> None:
    def point() -> Point:
        return cast("Point", value)

    result = await call(point)

    assert result.is_error
    assert result.text.startswith("The tool has a fault: what it returned is not of its declared type (")


async def test_a_value_without_json_is_an_error_that_says_what_to_return() -> None:
    result = await call(lambda: object())  # noqa: PLW0108 - a class is no tool

    assert result.is_error
    assert "A tool returns text, JSON-like data" in result.text


async def test_failures_are_results_that_name_what_failed(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("no such city")

    with caplog.at_level(logging.WARNING):
        result = await call(fail)

    assert result == ToolResult(text="The tool 'it' failed: ValueError: no such city", is_error=True)
    assert "Tool it failed" in caplog.text


@pytest.mark.parametrize("error", [ToolError("Try another city."), BadInput("Try another city.")])
async def test_words_meant_for_the_model_reach_it_unchanged(error: Exception) -> None:
    def fail() -> None:
        raise error

    assert await call(fail) == ToolResult.of_error("Try another city.")


async def test_a_tool_that_ends_the_program_only_fails() -> None:
    async def leave() -> None:
        sys.exit(3)

    assert "It tried to exit the program (SystemExit)" in (await call(leave)).text
    assert (await call(lambda: next(iter(())))).is_error


async def test_sync_functions_run_beside_the_event_loop() -> None:
    meeting = threading.Event()

    async def arrive() -> None:
        meeting.set()

    results: list[ToolResult] = []

    async def wait() -> None:
        results.append(await call(lambda: "met" if meeting.wait(30) else "waited in vain"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(arrive)
    assert [each.text for each in results] == ["met"]


async def test_a_cancelled_call_does_not_wait_for_its_thread() -> None:
    started, release = anyio.Event(), threading.Event()
    loop_token = anyio.lowlevel.current_token()

    def hang() -> None:
        anyio.from_thread.run_sync(started.set, token=loop_token)
        release.wait(60)

    try:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, hang)
                await started.wait()
                tasks.cancel_scope.cancel()
    finally:
        release.set()


async def test_async_functions_partials_and_callable_objects_are_called_alike() -> None:
    async def add(a: int, b: int) -> int:
        await anyio.lowlevel.checkpoint()
        return a + b

    class Adder:
        async def __call__(self, a: int) -> int:
            return a + 1

    assert (await call(add, a=1, b=2)).text == "3"
    assert (await call(functools.partial(add, b=5), a=1)).text == "6"
    assert (await call(Adder(), a=1)).text == "2"


def raw(schema: Mapping[str, object]) -> Tool:
    async def echo(arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult.of(dict(arguments))

    return Tool("raw", "Echo.", schema, echo)


NUMBERS = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}}
NUMBER = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"], "additionalProperties": False}


async def test_a_tool_made_of_a_schema_and_a_handler_is_called_with_valid_arguments_only() -> None:
    assert (await raw(NUMBER).call({"a": 1})).artifact == {"a": 1}
    result = await raw(NUMBER).call({"a": "x" * 1_000, "b": 1})
    assert result.is_error
    assert [line[:60] for line in result.text.splitlines()] == [
        "The arguments need correcting:",
        "- Additional properties are not allowed ('b' was unexpected)",
        f"- a: should be a number; came '{'x' * 29}",
    ]
    assert (await raw(NUMBER).call({})).text.endswith("- a: required, but missing")


async def test_a_schema_is_never_fetched_from_somewhere() -> None:
    far = raw({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}})

    assert "its reference 'http://127.0.0.1:9/schema' leads nowhere" in (await far.call({"a": 1})).text


async def test_copies_of_a_tool_change_one_thing() -> None:
    original = raw(NUMBER)

    assert original.with_name("other").name == "other"
    assert original.with_description("Other.").description == "Other."
    assert original.with_note("Only once.").description == "Echo.\n\nOnly once."
    assert (await original.with_name("other").call({"a": 1})).text == '{"a":1}'


@pytest.mark.parametrize(
    ("value", "declared", "text", "structured"),
    [
        (3, int, "3", 3),
        (True, bool, "true", True),
        (["a", "b"], list[str], '["a","b"]', ["a", "b"]),
        ('{"a": 1}', str, '{"a": 1}', '{"a": 1}'),
        (None, int | None, "", None),
        (date(2026, 1, 31), date, '"2026-01-31"', "2026-01-31"),
    ],
)
async def test_a_value_without_fields_is_structured_too(
    value: object, declared: Any, text: str, structured: object
) -> None:
    def give() -> object:
        return value

    give.__annotations__["return"] = declared
    result = await call(give)
    assert (result.text, result.structured, result.is_error) == (text, {"result": structured}, False)


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        (3, "3", {"result": 3}),
        ("4", "4", {"result": "4"}),
        ([Point(1)], '[{"x":1,"y":0}]', {"result": [{"x": 1, "y": 0}]}),
        (Point(1), '{"x":1,"y":0}', {"x": 1, "y": 0}),
        (Colour.RED, "red", {"result": "red"}),
        (None, "", None),
        (float("nan"), "NaN", None),
    ],
)
@pytest.mark.parametrize("declared", [Any, object, None])
async def test_a_value_of_no_declared_type_is_structured_as_far_as_it_is_json(
    declared: Any, value: object, text: str, structured: object
) -> None:
    def give() -> object:
        return value

    if declared is None:
        del give.__annotations__["return"]
    else:
        give.__annotations__["return"] = declared
    result = await call(give)
    assert (result.text, result.structured, result.is_error) == (text, structured, False)


async def test_content_blocks_and_results_of_no_declared_type_stay_what_they_are() -> None:
    def give(kind: str) -> Any:
        return PIXEL if kind == "block" else ToolResult.of_text("7")

    assert (await call(give, kind="block")).structured is None
    assert await call(give, kind="result") == ToolResult.of_text("7")


async def test_a_value_that_is_not_of_the_declared_type_is_an_error() -> None:
    def give() -> int:
        return cast("int", "many")

    result = await call(give)
    assert result.is_error
    assert "what it returned is not of its declared type" in result.text
