"""What cannot be a tool, and what its author is told when it is read."""

import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
from pydantic import Field

from goalport.base.errors import DeclarationError
from goalport.tools import McpToolExport, Tool, ToolGroup, ToolObject, ToolResult, prefixed, tool, tools_of


class Plain:
    """Not a type that JSON can express."""


def untyped(a: Any, b: int) -> int:
    return a or b


def spread(*numbers: int) -> int:
    return sum(numbers)


def options(**settings: int) -> int:
    return len(settings)


def callback(then: Callable[[int], int]) -> int:
    return then(1)


def plain(thing: Plain) -> str:
    return str(thing)


def elsewhere(thing: Any) -> str:
    return str(thing)


def garbled(thing: Any) -> str:
    return str(thing)


del untyped.__annotations__["a"]
elsewhere.__annotations__["thing"] = "Missing"
garbled.__annotations__["thing"] = "1 +"


def makes_plain() -> Plain:
    return Plain()


@dataclass
class Holder:
    thing: Callable[[], int]


def makes_holder() -> Holder:
    return Holder(lambda: 1)


def discriminated(kind: int = Field(1, discriminator="x")) -> int:
    return kind


def yields() -> Iterator[int]:
    yield 1


async def streams() -> AsyncIterator[int]:
    yield 1


class Calculator:
    @tool
    def add(self, a: int, b: int) -> int:
        return a + b


@pytest.mark.parametrize(
    ("function", "expected", "fix"),
    [
        (untyped, "a type for the parameter 'a', but there is none", "Write `a: float`"),
        (spread, "named one by one, so that a model can be told what to send, but there is *numbers: int", "a list"),
        (options, "named one by one", "Name each argument"),
        (callback, "a type for the parameter 'then' that JSON can express", "Use numbers, strings"),
        (plain, "a type for the parameter 'thing' that JSON can express", "for a service `Annotated[…, Provided]`"),
        (elsewhere, "'Missing' is not there", "not under TYPE_CHECKING"),
        (garbled, "an annotation that Python can read", "Correct the annotation"),
        (makes_plain, "a return type that can be given to a model", "ToolResult.of_artifact"),
        (makes_holder, "a return type that can be given to a model", "Give its fields types that JSON can express"),
        (discriminated, "a signature that a JSON Schema can describe", "Simplify the annotations or defaults."),
        (yields, "it is a generator", "Return a list instead of yielding."),
        (streams, "it is a generator", "Return a list instead of yielding."),
        (Calculator.add, "a type for the parameter 'self'", "Tool.from_instance(Calculator())"),
    ],
)
def test_what_a_model_cannot_be_told_is_refused_with_the_place_and_the_fix(
    function: Any, expected: str, fix: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        Tool.of(function)

    message = str(caught.value)
    assert expected in message
    assert fix in message
    assert re.search(rf"{function.__qualname__} \(.*test_declarations\.py:\d+\)", caught.value.where)


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(DeclarationError, match=r"Tool.of\(function, name=…\)"):
        Tool.of(lambda: 1)
    with pytest.raises(DeclarationError, match="a name for the tool"):
        Tool.of(functools.partial(spread))
    assert Tool.of(lambda: 1, name="one").name == "one"


@pytest.mark.parametrize("make", [Tool.of, Tool.from_instance, Tool.safely_from_instance, tools_of])
def test_a_class_is_no_tool_but_its_objects_have_some(make: Callable[[Any], object]) -> None:
    with pytest.raises(DeclarationError, match=r"it is a class. Make an object of it: `Calculator\(…\)`"):
        make(Calculator)


def test_an_object_without_marked_methods_is_refused_unless_asked_safely() -> None:
    with pytest.raises(DeclarationError, match="methods that are marked with @tool, but there is none"):
        Tool.from_instance(Plain())
    assert Tool.safely_from_instance(Plain()) == ()


@pytest.mark.parametrize("collection", [[Calculator()], (Calculator(),), {"a": 1}, iter(()), "text"])
def test_a_collection_of_objects_is_to_be_unpacked(collection: object) -> None:
    with pytest.raises(DeclarationError, match=r"Unpack it: `ToolObject\(\*objects\)`"):
        ToolObject(collection)
    with pytest.raises(DeclarationError, match="one by one"):
        tools_of(collection)
    with pytest.raises(DeclarationError, match="one by one"):
        McpToolExport.from_tool_object(collection)


def test_a_naming_that_leaves_no_name_is_refused() -> None:
    with pytest.raises(DeclarationError, match="a name for the tool"):
        ToolObject(Calculator(), naming=lambda _: " ").tools()


def test_a_group_takes_tools_and_says_how_to_make_one_of_objects() -> None:
    with pytest.raises(DeclarationError, match=re.escape("ToolGroup.of('math', …)")):
        ToolGroup("math", cast("Any", (Calculator(),)))


def test_two_tools_of_a_group_need_different_names() -> None:
    with pytest.raises(DeclarationError, match="there are several called add"):
        ToolGroup.of("math", Calculator(), Calculator())
    fine = ToolGroup.of("math", Calculator(), ToolObject(Calculator(), naming=prefixed("other_")))
    assert [each.name for each in fine.tools] == ["add", "other_add"]


@pytest.mark.parametrize("marked", [Calculator, 3, property(lambda _: 1)])
def test_the_decorator_marks_functions_only(marked: Any) -> None:
    with pytest.raises(TypeError, match="Mark the function itself"):
        tool(marked)


def test_what_a_call_gives_may_be_annotated_as_awaitable_or_as_a_result() -> None:
    def later() -> Awaitable[int]: ...

    def result() -> ToolResult: ...

    assert Tool.of(later).output_schema is None
    assert Tool.of(result).output_schema is None
