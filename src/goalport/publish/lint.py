"""A check of each published tool for what known MCP clients and model APIs drop, cut or reject.

It only warns; names that no client accepts are refused in `publication`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from mcp_types import Tool

from goalport.publish.goal_tool import GoalTool
from goalport.publish.names import LONG
from goalport.publish.portable_schemas import nodes

__all__ = ["warnings_of_list", "warnings_of_tool", "without_hints"]

_LONGEST_DESCRIPTION: Final = 1_000
_MANY: Final = ((128, "the OpenAI API takes 128 tools"), (40, "Cursor shows a model 40 tools"))
_PROPERTY: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def warnings_of_tool(tool: Tool) -> list[str]:
    """One sentence for each property of the tool that some client drops, cuts or rejects."""
    return [f"{tool.name}: {each}" for each in (*_name(tool), *_description(tool), *_input(tool), *_output(tool))]


def warnings_of_list(tools: Sequence[Tool]) -> list[str]:
    """One sentence if there are more tools than some client shows, else none."""
    for most, reason in _MANY:
        if len(tools) > most:
            return [f"{len(tools)} tools are published; {reason} and leaves out the rest."]
    return []


def without_hints(tools: Iterable[GoalTool]) -> Iterator[str]:
    """One sentence that names the goals without hints (`read_only`, `destructive`, `open_world`), if there are any."""
    names = [each.tool.name for each in tools if each.tool.annotations is None]
    if names:
        yield (
            f"{', '.join(names)}: no hints (read_only, destructive, open_world of Export), so hosts assume the"
            " worst: some ask before each call, and codex exec refuses."
        )


def _name(tool: Tool) -> Iterator[str]:
    if len(tool.name) > LONG:
        yield (
            f"the name has {len(tool.name)} characters; Cursor drops tools whose server's and own name exceed 60"
            f" together, VS Code prefixes names too. {LONG} are safe."
        )


def _description(tool: Tool) -> Iterator[str]:
    if not tool.description:
        yield "it has no description, so a model cannot know when to call it."
    elif len(tool.description) > _LONGEST_DESCRIPTION:
        yield f"the description has {len(tool.description)} characters; the OpenAI API takes 1,024. Keep below 1,000."


def _input(tool: Tool) -> Iterator[str]:
    yield from _root("input", tool.input_schema)
    yield from _arrays("input", tool.input_schema)
    for name in _property_names(tool.input_schema):
        if not _PROPERTY.fullmatch(name):
            yield f"the property {name!r} of its input is refused by the Anthropic API ({_PROPERTY.pattern})."


def _output(tool: Tool) -> Iterator[str]:
    yield from _arrays("output", tool.output_schema or {})
    if tool.output_schema is not None and tool.output_schema.get("type") != "object":
        yield "the root of its output schema is no object; the TypeScript SDK 1.x then rejects the whole list of tools."


def _root(which: str, schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("type") != "object":
        yield f"the root of its {which} schema is no object; no client takes that."
    for combinator in sorted({"anyOf", "oneOf", "allOf"} & schema.keys()):
        yield f"{combinator} is at the root of its {which} schema; the Anthropic API rejects it, Claude Code drops it."
    if any("$ref" in node for node in nodes(schema)):
        yield f"its {which} schema refers to itself ($ref); Copilot CLI and LM Studio show models a hole there."


def _arrays(which: str, schema: dict[str, Any]) -> Iterator[str]:
    if any(node.get("type") == "array" and "items" not in node for node in nodes(schema)):
        yield f"an array in its {which} schema has no items; VS Code and the OpenAI API refuse the tool."


def _property_names(schema: dict[str, Any]) -> Iterator[str]:
    for node in nodes(schema):
        yield from node.get("properties", {})
