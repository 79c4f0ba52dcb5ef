"""Tools whose parameters are listed or given as a schema, numbers that come as text, and the built-in math."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from goalport.base.errors import DeclarationError
from goalport.knowledge.references import Reference
from goalport.tools import (
    McpToolExport,
    Parameter,
    Tool,
    ToolGroup,
    ToolGroupRequirement,
    ToolGroupResolver,
    ToolObject,
    ToolResult,
    lower,
    prefixed,
    suffixed,
    tool,
)
from goalport.tools.groups import math_group
from goalport.tools.schemas import coerce_numbers


class Unit(StrEnum):
    METRE = "m"
    FOOT = "ft"


async def call(of: Tool, **arguments: object) -> ToolResult:
    with anyio.fail_after(60):
        return await of.call(arguments)


def shown(arguments: Mapping[str, object]) -> str:
    """Show what came."""
    return repr(dict(arguments))


MEASURE = Tool.of(
    shown,
    name="measure",
    parameters=[
        Parameter("how-far", float, "The distance"),
        Parameter("unit", Unit, required=False, default=Unit.METRE),
        Parameter("tags", list[str], "Words", required=False),
    ],
)


def test_listed_parameters_make_the_schema() -> None:
    assert MEASURE.description == "Show what came."
    assert MEASURE.input_schema["required"] == ["how-far"]
    properties: Any = MEASURE.input_schema["properties"]
    assert list(properties) == ["how-far", "unit", "tags"]
    assert properties["how-far"] == {"type": "number", "description": "The distance"}
    assert properties["unit"]["default"] == "m"
    assert Tool.of(shown, name="none", parameters=[]).input_schema["properties"] == {}


async def test_listed_parameters_are_turned_into_their_types_and_junk_is_explained() -> None:
    assert (await call(MEASURE, **{"how-far": "3", "unit": "ft"})).text == "{'how-far': 3.0, 'unit': <Unit.FOOT: 'ft'>}"
    assert (await call(MEASURE, **{"how-far": 3})).text == "{'how-far': 3.0, 'unit': <Unit.METRE: 'm'>}"
    refused = await call(MEASURE, far=1, unit="mile")
    assert refused.is_error
    assert [line.partition(":")[0] for line in refused.text.splitlines()[1:]] == ["- how-far", "- unit", "- far"]


async def test_a_schema_is_taken_as_it_is_and_the_function_may_be_async() -> None:
    async def later(arguments: Mapping[str, object]) -> dict[str, object]:
        return dict(arguments)

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    it = Tool.of(later, description="Later.", input_schema=schema)

    assert (it.name, it.description, it.input_schema) == ("later", "Later.", schema)
    assert (await call(it, n=1)).text == '{"n":1}'
    assert (await call(it, n="1")).text == '{"n":1}'
    assert (await call(it, n="one")).text == "The arguments need correcting:\n- n: should be a whole number; came 'one'"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"parameters": [], "input_schema": {"type": "object"}}, "there are both"),
        ({"input_schema": {"type": "string"}}, "the schema is of type 'string'"),
        ({"input_schema": {}}, "the schema is of type None"),
        ({"parameters": [Parameter("a"), Parameter("a")]}, "there are two called 'a'"),
        ({"parameters": [Parameter("a", object())]}, "a type for the parameter 'a' that JSON can express"),
    ],
)
def test_what_cannot_be_listed_is_refused(settings: Any, says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        Tool.of(shown, **settings)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "n": {"type": "number"},
        "s": {"type": "string"},
        "both": {"type": ["string", "number"]},
        "maybe": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "all": {"type": "array", "items": {"type": "integer"}},
        "deep": {"type": "object", "additionalProperties": {"type": "number"}},
        "odd": True,
    },
}


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"i": "3", "n": " 2.5 ", "s": "3"}, {"i": 3, "n": 2.5, "s": "3"}),
        ({"i": "2.5", "n": "1e3"}, {"i": "2.5", "n": 1000.0}),
        ({"both": "3", "maybe": "4"}, {"both": "3", "maybe": 4}),
        ({"all": ["1", "x", 2]}, {"all": [1, "x", 2]}),
        ({"deep": {"x": "1", "y": "nan"}}, {"deep": {"x": 1, "y": "nan"}}),
        ({"odd": "1", "unknown": "1"}, {"odd": "1", "unknown": "1"}),
        ({"i": True, "n": None}, {"i": True, "n": None}),
    ],
)
def test_texts_are_numbers_only_where_a_number_is_asked_for(sent: dict[str, object], meant: dict[str, object]) -> None:
    assert coerce_numbers(SCHEMA, sent) == meant


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "x"]), st.text() | st.integers() | st.lists(st.text())))
def test_nothing_but_numbers_is_ever_changed(sent: dict[str, object]) -> None:
    found = coerce_numbers(SCHEMA, sent)

    assert list(found) == list(sent)
    for name, value in found.items():
        assert value == sent[name] or isinstance(value, int | float | list)


class Calculator:
    """With two tools."""

    @tool
    def Add(self, a: int, b: int) -> int:  # noqa: N802 - names of all kinds are given
        return a + b

    @tool
    def internal(self) -> int:
        return 0


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [each.name for each in tools]


def test_namings_of_tool_objects_inside_each_other_add_up_and_filters_see_the_first_name() -> None:
    inner = ToolObject(Calculator(), naming=prefixed("CALC_"))
    outer = ToolObject(inner, naming=lower, filter=lambda name: name == "Add")

    assert names(outer.tools()) == ["calc_add"]
    assert names(outer.with_naming(suffixed("_v2")).tools()) == ["calc_add_v2"]
    assert names(inner.with_filter(lambda name: name != "Add").tools()) == ["CALC_internal"]
    assert names(outer.with_filter(lambda name: name != "Add").tools()) == []


def test_an_export_filters_by_the_first_name_too() -> None:
    export = McpToolExport.from_tool_object(
        ToolObject(Calculator(), naming=prefixed("c_")), naming=suffixed("_v2"), filter=lambda name: name == "Add"
    )

    assert names(export.tools()) == ["c_Add_v2"]
    assert export.duplicates() == ()


def test_references_are_exported_under_their_names() -> None:
    weather = Reference("My-API.v2", "Weather", given_tools=Tool.from_instance(Calculator()))
    docs = Reference("docs", "Docs", given_tools=Tool.from_instance(Calculator()))

    assert names(McpToolExport.from_llm_reference(weather).tools()) == ["my_api_v2_Add", "my_api_v2_internal"]
    both = McpToolExport.from_llm_references([weather, docs], naming=lower)
    assert names(both.tools()) == ["docs_add", "docs_internal", "my_api_v2_add", "my_api_v2_internal"]
    assert McpToolExport.from_llm_references([docs, docs]).duplicates() == ("docs_Add", "docs_internal")


def test_a_group_is_exported_when_somebody_says_so() -> None:
    group = ToolGroup.of("sums", Calculator())

    assert not group.exports
    assert names(McpToolExport.from_tool_group(group, naming=prefixed("sums_")).tools()) == [
        "sums_Add",
        "sums_internal",
    ]


class Source:
    """Groups that somebody switches on and off."""

    def __init__(self, *found: ToolGroup) -> None:
        self.found = found
        self.why = ""

    def groups(self) -> tuple[ToolGroup, ...]:
        return self.found

    def absent(self) -> dict[str, tuple[Tool, ...]]:
        return {}

    def why_missing(self, role: str, *, unasked: bool = True) -> str:
        return self.why

    def sign_ins(self, role: str) -> tuple[Tool, ...]:
        return ()


def test_a_resolver_asks_its_sources_each_time() -> None:
    source = Source()
    resolver = ToolGroupResolver([ToolGroup.of("own", Calculator())], [source])
    assert resolver.find("web") is None

    source.found = (ToolGroup("web", ()), ToolGroup("own", (), name="theirs"))
    assert [each.role for each in resolver.groups] == ["own", "web"]
    assert resolver.find("own") is not source.found[1]
    assert len(resolver.clashes) == 1
    source.found, source.why = (), "The server is down."
    assert resolver.clashes == ()
    assert resolver.unmet(ToolGroupRequirement("web")) == (
        "The tool group 'web' cannot be used now. The server is down."
    )
    assert resolver.unmet(ToolGroupRequirement("own", ("fetch",))) == (
        "The tool group 'own' lacks fetch. The server is down."
    )


def test_a_default_gives_way_to_every_other_group_without_a_word() -> None:
    ours = ToolGroup("math", (), name="ours")

    default = math_group()
    assert ToolGroupResolver([default]).find("math") is default
    for resolver in (ToolGroupResolver([default, ours]), ToolGroupResolver([default], [Source(ours)])):
        assert resolver.find("math") is ours
        assert resolver.clashes == ()


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("add", {"a": 1, "b": "2.5"}, "3.5"),
        ("subtract", {"a": 1, "b": 2}, "-1.0"),
        ("multiply", {"a": 4, "b": 0.5}, "2.0"),
        ("divide", {"a": 1, "b": 4}, "0.25"),
        ("divide", {"a": 1, "b": 0}, "A number cannot be divided by zero. Call again with another divisor."),
        ("mean", {"numbers": [1, 2, 6]}, "3.0"),
        ("mean", {"numbers": []}, "There are no numbers. Call again with at least one."),
        ("min", {"numbers": [3, -1]}, "-1.0"),
        ("min", {"numbers": []}, "There are no numbers. Call again with at least one."),
        ("max", {"numbers": [3, -1]}, "3.0"),
        ("max", {"numbers": []}, "There are no numbers. Call again with at least one."),
        ("floor", {"number": -1.5}, "-2"),
        ("ceiling", {"number": -1.5}, "-1"),
        ("round", {"number": 2.5}, "2"),
    ],
)
async def test_math_is_built_in_and_tells_in_words_what_has_no_result(
    name: str, arguments: dict[str, object], text: str
) -> None:
    (found,) = [each for each in math_group().tools if each.name == name]
    result = await call(found, **arguments)

    assert (result.text, result.is_error) == (text, False)


def test_math_has_the_tools_of_the_guide_and_none_of_them_changes_anything() -> None:
    group = math_group()

    assert " ".join(names(group.tools)) == "add subtract multiply divide mean min max floor ceiling round"
    assert all(each.read_only and each.title for each in group.tools)
