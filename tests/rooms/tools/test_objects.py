"""Tools of objects: which methods are found, how they are filtered, renamed, grouped and exported."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, assert_type

import anyio
import pytest

from goalport.base.errors import DeclarationError
from goalport.tools import (
    McpToolExport,
    Permission,
    Tool,
    ToolGroup,
    ToolGroupRequirement,
    ToolGroupResolver,
    ToolObject,
    composed,
    identity,
    lower,
    prefixed,
    reference_prefix,
    renamed,
    snake,
    suffixed,
    tool,
    tools_of,
    upper,
)


class Calculator:
    """Adds to what it keeps."""

    Number = int

    def __init__(self, start: int = 0) -> None:
        self.start = start

    @tool
    def add(self, number: "Number") -> int:
        """Add to the start."""
        return self.start + number

    @tool(name="times")
    def multiply(self, number: int) -> int:
        return self.start * number

    @staticmethod
    @tool
    def zero() -> int:
        return 0

    @tool
    @staticmethod
    def one() -> int:
        return 1

    @classmethod
    @tool
    def internal_name(cls) -> str:
        return cls.__name__

    @property
    def untouched(self) -> int:
        raise AssertionError("reading tools must not read properties")

    def not_a_tool(self) -> None: ...


class Speaker(ABC):
    @abstractmethod
    @tool(description="Say something.")
    def say(self, what: str) -> str: ...

    @tool
    def shout(self) -> str:
        """Be loud."""
        return self.say("!")

    @tool
    def whisper(self) -> str:
        return "…"


class Parrot(Speaker):
    whisper: Any = None

    def say(self, what: str) -> str:
        return f"{what} {what}"

    def shout(self) -> str:
        return "SQUAWK"


class Bag:
    """Can be iterated and has tools of its own."""

    def __iter__(self) -> Iterator[int]:
        return iter(())

    @tool
    def peek(self) -> int:
        return 0


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [each.name for each in tools]


async def text(of: Tool, **arguments: object) -> str:
    with anyio.fail_after(60):
        return (await of.call(arguments)).text


def test_the_decorator_gives_the_function_back_unchanged_and_typed() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    @tool(title="Add", read_only=True)
    async def add_later(a: int) -> int:
        return a

    assert_type(add(1, b=2), int)
    assert_type(Calculator(2).add(3), int)
    assert add(1, b=2) == 3
    assert add_later.__name__ == "add_later"


async def test_marked_methods_are_tools_bound_to_their_object_in_the_order_of_writing() -> None:
    tools = Tool.from_instance(Calculator(2))

    assert names(tools) == ["add", "times", "zero", "one", "internal_name"]
    assert [await text(tools[0], number=3), await text(tools[1], number=3)] == ["5", "6"]
    assert [await text(each) for each in tools[2:]] == ["0", "1", "Calculator"]


async def test_marks_of_a_base_count_for_methods_that_override_and_none_takes_one_away() -> None:
    tools = {each.name: each for each in Tool.from_instance(Parrot())}

    assert list(tools) == ["say", "shout"]
    assert await text(tools["shout"]) == "SQUAWK"
    assert tools["shout"].description == "Be loud."
    assert await text(tools["say"], what="hi") == "hi hi"


async def test_tools_of_takes_functions_tools_tool_objects_and_objects() -> None:
    def plus(a: int) -> int:
        return a + 1

    one = Tool.of(plus, name="one")
    found = tools_of(plus, one, ToolObject(Calculator(), naming=prefixed("c_")), Bag(), Calculator(3).add)

    assert names(found) == ["plus", "one", "c_add", "c_times", "c_zero", "c_one", "c_internal_name", "peek", "add"]
    assert await text(found[-1], number=1) == "4"


def test_the_filter_sees_the_name_before_the_naming() -> None:
    found = ToolObject(Calculator(), naming=prefixed("calc_"), filter=lambda name: not name.startswith("internal"))

    assert names(found.tools()) == ["calc_add", "calc_times", "calc_zero", "calc_one"]
    assert names(found.with_prefix("my_").tools())[0] == "my_calc_add"


async def test_of_two_tools_with_one_name_the_first_is_kept_and_the_name_reported() -> None:
    twice = ToolObject(Calculator(10), Calculator(20), filter=lambda name: name == "add")

    assert [await text(each, number=1) for each in twice.tools()] == ["11"]
    assert McpToolExport.from_tool_object(twice).duplicates() == ("add",)


def test_an_export_names_after_its_tool_objects_have_and_sorts() -> None:
    class Person:
        @tool
        def x(self) -> int:
            return 1

    objects = [ToolObject(Person(), naming=prefixed("person_")), ToolObject(Calculator(), naming=prefixed("calc_"))]
    export = McpToolExport.from_tool_objects(objects, naming=suffixed("_v2"))

    assert names(export.tools())[-1] == "person_x_v2"
    assert names(export.tools()) == sorted(names(export.tools()))
    assert export.duplicates() == ()
    assert names(McpToolExport.from_tool_object(Person()).tools()) == ["x"]


async def test_an_export_keeps_the_first_of_each_name_and_reports_the_others() -> None:
    export = McpToolExport.from_tool_objects([Calculator(1), Calculator(2)])

    assert names(export.tools()) == ["add", "internal_name", "one", "times", "zero"]
    assert await text(export.tools()[0], number=1) == "2"
    assert set(export.duplicates()) == {"add", "internal_name", "one", "times", "zero"}


@pytest.mark.parametrize(
    ("naming", "name", "expected"),
    [
        (identity, "getWeather", "getWeather"),
        (upper, "getWeather", "GETWEATHER"),
        (lower, "getWeather", "getweather"),
        (snake, "getWeather", "get_weather"),
        (snake, "HTTPServer-list.all", "http_server_list_all"),
        (prefixed("a_"), "x", "a_x"),
        (suffixed("_b"), "x", "x_b"),
        (renamed({"x": "y"}), "x", "y"),
        (renamed({"x": "y"}), "z", "z"),
        (composed(prefixed("person_"), suffixed("_v2"), upper), "x", "PERSON_X_V2"),
        (composed(), "x", "x"),
        (reference_prefix, "WeatherService", "weatherservice_"),
        (reference_prefix, "My-API.v2", "my_api_v2_"),
        (reference_prefix, "My API é", "my_api___"),
    ],
)
def test_namings(naming: Any, name: str, expected: str) -> None:
    assert naming(name) == expected


def test_a_group_without_a_name_is_called_as_its_role() -> None:
    group = ToolGroup.of("math", Calculator(), description="Sums.")

    assert (group.name, group.role, group.description, group.version) == ("math", "math", "Sums.", "0.1.0")
    assert ToolGroup.of("math", permissions=[Permission.HOST_ACCESS]).permissions == {"host_access"}


def test_a_resolver_finds_the_first_group_of_a_role_and_reports_the_others() -> None:
    first, second, web = ToolGroup("math", (), name="a"), ToolGroup("math", (), name="b"), ToolGroup("web", ())
    resolver = ToolGroupResolver([first, second, web])

    assert resolver.find("math") is first
    assert resolver.find("maps") is None
    assert resolver.groups == (first, web)
    assert resolver.clashes == (
        "Two tool groups play the role 'math': 'a' is used, 'b' is not. Give one of them another role.",
    )


def test_a_requirement_is_met_or_says_what_is_missing() -> None:
    resolver = ToolGroupResolver([ToolGroup.of("math", Calculator()), ToolGroup("empty", ())])

    assert resolver.unmet(ToolGroupRequirement("math", ("add", "times"))) is None
    assert resolver.unmet(ToolGroupRequirement("empty")) is None
    assert resolver.unmet(ToolGroupRequirement("math", ("add", "divide"))) == (
        "The tool group 'math' lacks divide. It has add, internal_name, one, times, zero: "
        "add the missing ones to the group, or require others."
    )
    assert resolver.unmet(ToolGroupRequirement("maths")) == (
        "No tool group plays the role 'maths'. Did you mean 'math'?"
    )
    assert resolver.unmet(ToolGroupRequirement("web")) == (
        "No tool group plays the role 'web'. Known: empty, math. "
        "Groups are ToolGroup values in tools/, and toolGroups in mcp_config.json."
    )
    assert "has no tools:" in str(resolver.unmet(ToolGroupRequirement("empty", ("x",))))
    assert "There are no tool groups." in str(ToolGroupResolver().unmet(ToolGroupRequirement("web")))


@pytest.mark.parametrize("made", [None, 5, "", "  "])
def test_a_naming_that_gives_no_name_is_told_as_what_it_is(made: Any) -> None:
    with pytest.raises(DeclarationError, match="expected a name for the tool"):
        ToolObject(Calculator(), naming=lambda _: made).tools()


@pytest.mark.parametrize("approve", ["Always", True, None])
def test_who_asks_for_approval_in_words_that_mean_nothing_is_told(approve: Any) -> None:
    with pytest.raises(DeclarationError, match="expected approval to be never, always or destructive"):
        ToolGroup.of("sums", Calculator(), approve=approve)


def test_a_group_plays_a_role() -> None:
    with pytest.raises(DeclarationError, match="expected a role"):
        ToolGroup.of(" ", Calculator())
