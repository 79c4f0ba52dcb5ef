"""Unfolding tools: one tool in front of several, which are offered once it has been called."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from goalport import Tool, tool
from goalport.base.errors import ToolError
from goalport.models.llm import ModelCall, ToolReply
from goalport.runtime.ai import AgenticTool, UnfoldingTool
from goalport.runtime.ai.toolbox import Toolbox
from goalport.testing import calls_tool
from goalport.tools import Parameter, ToolResult
from tests.rooms.ai.scripted import scripted


@tool
def read(path: str) -> str:
    """Read a file.

    The whole of it.
    """
    return f"contents of {path}"


@tool
def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


@tool
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


FILES = UnfoldingTool("files", "Work with files").with_tools(read, write).with_usage_notes("Paths are relative.")
BY_KIND = UnfoldingTool("files", "Work with files").with_category("reading", read).with_category("changing", write)


def named(call: ModelCall) -> list[str]:
    return [each.name for each in call.tools]


def replies_to(call: ModelCall) -> list[str]:
    return [each.content for each in call.messages if isinstance(each, ToolReply)]


async def test_the_tools_behind_it_are_offered_from_the_next_turn_on() -> None:
    ai, model = scripted(calls_tool("files"), calls_tool("read", path="a.txt"), "It says so")

    assert await ai.with_tools(FILES, delete).generate_text("What is in a.txt?") == "It says so"

    before, after, last = model.calls
    assert named(before) == ["files", "delete"]
    assert named(after) == named(last) == ["files", "delete", "read", "write"]
    assert replies_to(after) == [
        "From now on you can call these tools:\n- read: Read a file.\n- write: Write a file.\n\nPaths are relative."
    ]
    assert replies_to(last)[1] == "contents of a.txt"
    assert all("relative" not in each.description for each in before.tools)


async def test_the_tools_of_objects_stand_behind_it_too() -> None:
    class Folder:
        @tool
        def entries(self) -> str:
            """List what is in it."""
            return "a.txt"

    ai, model = scripted(calls_tool("files"), calls_tool("entries"), "a.txt is in it")
    await ai.with_tools(FILES.with_tool_objects(Folder())).generate_text("Look")
    assert named(model.calls[1]) == ["files", "read", "write", "entries"]
    assert replies_to(model.calls[2])[1] == "a.txt"


async def test_a_tool_behind_it_cannot_be_called_before() -> None:
    ai, model = scripted([calls_tool("read", path="a"), calls_tool("files")], calls_tool("read", path="a"), "done")
    assert await ai.with_tools(FILES).generate_text("Go") == "done"
    first, _ = replies_to(model.calls[1])
    assert "There is no tool 'read'" in first
    assert replies_to(model.calls[2])[2] == "contents of a"


async def test_called_again_it_lists_them_again_and_adds_nothing() -> None:
    ai, model = scripted(calls_tool("files"), calls_tool("files"), "done")
    await ai.with_tools(FILES).generate_text("Go")
    assert named(model.calls[2]) == ["files", "read", "write"]
    first, second = replies_to(model.calls[2])
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "offered"),
    [
        ({"category": "reading"}, ["read"]),
        ({"category": "changing"}, ["write"]),
        ({"category": "cooking"}, ["read", "write"]),
        ({"category": ["reading"]}, ["read", "write"]),
        ({}, ["read", "write"]),
    ],
)
async def test_a_category_unfolds_its_own_and_an_unknown_one_all(
    arguments: dict[str, Any], offered: Sequence[str]
) -> None:
    ai, model = scripted(calls_tool("files", **arguments), "done")
    await ai.with_tools(BY_KIND).generate_text("Go")
    assert model.calls[0].tools[0].input_schema["properties"]["category"]["enum"] == ["reading", "changing"]  # type: ignore[index]
    assert named(model.calls[1]) == ["files", *offered]


async def test_one_category_after_the_other_gives_both() -> None:
    ai, model = scripted(calls_tool("files", category="changing"), calls_tool("files", category="reading"), "done")
    await ai.with_tools(BY_KIND.with_tools(delete)).generate_text("Go")
    assert named(model.calls[1]) == ["files", "delete", "write"]
    assert named(model.calls[2]) == ["files", "delete", "write", "read"]


async def test_they_stand_behind_one_another() -> None:
    everything = UnfoldingTool("everything", "All there is").with_tools(FILES)
    ai, model = scripted(calls_tool("everything"), calls_tool("files"), calls_tool("write", path="b"), "done")
    assert await ai.with_tools(everything).generate_text("Go") == "done"
    assert [named(each) for each in model.calls] == [
        ["everything"],
        ["everything", "files"],
        ["everything", "files", "read", "write"],
        ["everything", "files", "read", "write"],
    ]


async def test_a_tool_whose_name_is_taken_gets_another_and_the_model_is_told() -> None:
    def other_read() -> str:
        return "something else"

    ai, model = scripted(calls_tool("files"), calls_tool("files_read", path="a"), "done")
    await ai.with_tools(FILES, Tool.of(other_read, name="read", description="Read minds")).generate_text("Go")
    assert named(model.calls[1]) == ["files", "read", "files_read", "write"]
    assert replies_to(model.calls[1])[0].endswith("\nHere 'read' is called 'files_read'.")
    assert replies_to(model.calls[2])[1] == "contents of a"


async def test_a_tool_that_is_offered_already_is_the_same_one() -> None:
    ai, model = scripted(calls_tool("files"), "done")
    await ai.with_tools(FILES, read).generate_text("Go")
    assert named(model.calls[1]) == ["files", "read", "write"]
    assert "is called" not in replies_to(model.calls[1])[0]


async def test_without_anything_behind_it_the_result_is_an_error() -> None:
    result = await UnfoldingTool("empty", "Holds nothing").call({})
    assert result.is_error
    assert "no tools" in result.text


async def test_elsewhere_it_lists_what_is_behind_it() -> None:
    result = await FILES.call({})
    assert result == ToolResult.of_text(
        "From now on you can call these tools:\n- read: Read a file.\n- write: Write a file.\n\nPaths are relative."
    )


async def test_with_a_layer_around_it_it_still_unfolds_unless_the_layer_refuses() -> None:
    async def through(inside: Tool, arguments: Any) -> ToolResult:
        return await inside.call(arguments)

    async def refusing(inside: Tool, arguments: Any) -> ToolResult:
        return ToolResult.of_error("A person said no.")

    ai, model = scripted(calls_tool("files"), "done")
    await ai.with_tools(FILES.with_layer(through)).generate_text("Go")
    assert named(model.calls[1]) == ["files", "read", "write"]

    ai, model = scripted(calls_tool("files"), "done")
    await ai.with_tools(FILES.with_layer(refusing)).generate_text("Go")
    assert named(model.calls[1]) == ["files"]


async def test_it_unfolds_inside_of_an_agentic_tool_and_only_there() -> None:
    inside = AgenticTool("clerk", "Works with files").with_tools(FILES)
    ai, model = scripted(calls_tool("clerk"), calls_tool("files"), "unfolded", "done")
    assert await ai.with_tools(inside).generate_text("Go") == "done"
    assert [named(each) for each in model.calls] == [["clerk"], ["files"], ["files", "read", "write"], ["clerk"]]


async def test_one_prompt_leaves_the_next_as_it_was() -> None:
    ai, model = scripted(calls_tool("files"), "done", "again")
    offering = ai.with_tools(FILES)
    await offering.generate_text("Go")
    await offering.generate_text("Go")
    assert named(model.calls[2]) == ["files"]


def by_letter(given: Mapping[str, Any], tools: Sequence[Tool]) -> list[Tool]:
    if given["letter"] == "?":
        raise ToolError("Ask for a letter.")
    return [each for each in tools if each.name.startswith(given["letter"])]


BY_LETTER = BY_KIND.with_tools(delete).with_selector(by_letter, Parameter("letter", str, "How their names begin"))


async def test_a_selector_chooses_by_the_arguments_what_unfolds() -> None:
    ai, model = scripted(calls_tool("files", letter="d"), calls_tool("files", letter="w"), "done")
    await ai.with_tools(BY_LETTER).generate_text("Go")
    schema: Any = model.calls[0].tools[0].input_schema
    assert schema["properties"] == {"letter": {"type": "string", "description": "How their names begin"}}
    assert schema["required"] == ["letter"]
    assert named(model.calls[1]) == ["files", "delete"]
    assert named(model.calls[2]) == ["files", "delete", "write"]
    assert replies_to(model.calls[1]) == ["From now on you can call these tools:\n- delete: Delete a file."]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "- letter: required, but missing"),
        ({"letter": 3}, "- letter: should be a text"),
        ({"letter": "x"}, "There are no such tools behind this one."),
        ({"letter": "?"}, "Ask for a letter."),
    ],
)
async def test_a_selector_that_chooses_nothing_unfolds_nothing(arguments: dict[str, Any], words: str) -> None:
    ai, model = scripted(calls_tool("files", **arguments), "done")
    await ai.with_tools(BY_LETTER).generate_text("Go")
    assert named(model.calls[1]) == ["files"]
    assert words in replies_to(model.calls[1])[0]


async def test_an_exclusive_one_takes_the_place_of_all_others() -> None:
    ai, model = scripted(calls_tool("files"), calls_tool("delete", path="a"), calls_tool("read", path="a"), "done")
    await ai.with_tools(delete, FILES.with_exclusive()).generate_text("Go")
    assert [named(each) for each in model.calls[:2]] == [["delete", "files"], ["files", "read", "write"]]
    listed, refused = replies_to(model.calls[2])
    assert listed.startswith("From now on you can call these tools, and no others but this one:\n- read")
    assert refused.startswith("There is no tool 'delete'.")
    assert replies_to(model.calls[3])[2] == "contents of a"


async def test_what_unfolds_in_the_same_turn_as_an_exclusive_one_stays() -> None:
    rubbish = UnfoldingTool("rubbish", "Throw away").with_tools(delete)
    ai, model = scripted([calls_tool("files"), calls_tool("rubbish")], "done")
    await ai.with_tools(FILES.with_exclusive(), rubbish, bearing("other")).generate_text("Go")
    assert named(model.calls[1]) == ["files", "rubbish", "read", "write", "delete"]


async def test_an_exclusive_one_that_gives_nothing_takes_nothing_away() -> None:
    ai, model = scripted(calls_tool("empty"), "done")
    empty = UnfoldingTool("empty", "Holds nothing").with_exclusive()
    await ai.with_tools(empty, delete).generate_text("Go")
    assert named(model.calls[1]) == ["empty", "delete"]


def bearing(name: str) -> Tool:
    """A tool of its own under this name."""

    def function() -> None: ...

    return Tool.of(function, name=name, description="Some tool")


names = st.one_of(
    st.sampled_from(["read", "files_read", "files_read_2", "files_files_read", "r" * 64, "r" * 80, "ré ad", "r__ad"]),
    st.text("abc-_ é", min_size=1, max_size=70).filter(str.strip),
)


@given(there=st.lists(names, max_size=8), behind=st.lists(names, max_size=8))
def test_names_never_clash_and_no_tool_is_lost(there: list[str], behind: list[str]) -> None:
    box, _ = Toolbox({}).plus("files", map(bearing, there))
    unfolded = [bearing(name) for name in behind]

    more, renamed = box.plus("files", unfolded)

    assert len(more.tools) == len(there) + len(behind)
    assert all(more.tools[name] is tool for name, tool in box.tools.items())
    assert all(0 < len(name) <= 64 and name.isascii() and " " not in name for name in more.tools)
    called = {id(tool): name for name, tool in more.tools.items()}
    changed = [(each.name, called[id(each)]) for each in unfolded if called[id(each)] != each.name]
    assert renamed == changed
    again, _ = more.plus("files", unfolded)
    assert list(again.tools.values()) == list(more.tools.values())
