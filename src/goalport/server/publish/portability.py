"""What MCP clients and model APIs accept: valid names, schemas that all of them read, and warnings about the rest.

Pure functions over texts, schemas and definitions. A portable schema has its references inlined, an object at the root,
and no `$schema` or `discriminator`; it accepts the same values, and tuple items in any place. Names that no client
accepts are refused in `publication`; all other flaws are warnings. `published_arguments`, `output` and the tools are
above.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from goalport.tools import snake
from goalport.tools.schemas import with_items

if TYPE_CHECKING:
    from mcp_types import Tool

Schema = dict[str, Any]
"""A JSON Schema as JSON data."""

_LONGEST_NAME: Final = 64
"""The most characters of a name: model APIs refuse longer ones."""
_LONGEST_SAFE_NAME: Final = 48
"""The most characters of a safe name: hosts that prefix the server's name drop tools with longer ones."""
_LONGEST_DESCRIPTION: Final = 1_000
_MOST_INLINED: Final = 20_000
"""The most schemas inside one whose references are inlined; each reference may double their number."""
_MOST_TOOLS: Final = ((128, "the OpenAI API takes 128 tools"), (40, "Cursor shows a model 40 tools"))
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_PROPERTY: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_NOT_SNAKE: Final = re.compile(r"[^a-z0-9]+")

_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLES: Final = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"})
_DECORATION: Final = frozenset({"$schema", "discriminator"})
DEFINITIONS: Final = "#/$defs/"
"""The prefix of a reference, before the name of the definition."""


def snake_identifier(text: str) -> str:
    """`StarNewsFinder` as `star_news_finder`; characters that a name may not have become underscores."""
    return _NOT_SNAKE.sub("_", snake(text)).strip("_")


def name_fault(name: str) -> str | None:
    """Why a tool may not have this name; None if it may."""
    if not name:
        return "it is empty"
    if len(name) > _LONGEST_NAME:
        return f"it has {len(name)} characters and model APIs take {_LONGEST_NAME}"
    if not _NAME.fullmatch(name):
        refused = sorted({letter for letter in name if not _NAME.fullmatch(letter)})
        return f"it holds {' '.join(map(repr, refused))}; letters, digits, _ and - are allowed"
    return None


def portable(schema: Mapping[str, Any]) -> Schema:
    """The schema with all `$ref`s inlined except recursive ones, which keep their `$defs`.

    A schema that would become too large keeps all its `$ref`s.
    """
    definitions = cast("Mapping[str, Schema]", schema.get("$defs", {}))
    root, _ = split_definitions(schema)
    reached = {name: {_target(node) for node in nodes(each)} & definitions.keys() for name, each in definitions.items()}
    grows = True
    while grows:
        grows = False
        for name, found in reached.items():
            reached[name] = found.union(*(reached[each] for each in found))
            grows = grows or len(reached[name]) > len(found)
    recursive = {name for name, found in reached.items() if name in found}
    sizes: dict[str, int] = {}

    def size(of: Schema) -> int:
        """How many schemas there would be if all non-recursive `$ref`s were inlined."""
        total = 0
        for node in nodes(of):
            target = _target(node)
            if target in definitions and target not in recursive:
                if target not in sizes:
                    sizes[target] = size(definitions[target])
                total += sizes[target]
            total += 1
        return total

    def inlined(of: Schema) -> Schema:
        target = _target(of)
        if target in definitions and target not in recursive:
            return inlined({**definitions[target], **{key: value for key, value in of.items() if key != "$ref"}})
        written = mapped({key: value for key, value in of.items() if key not in _DECORATION}, inlined)
        return with_items(written) if written.get("type") == "array" else written

    if size(root) + sum(size(definitions[each]) for each in recursive) > _MOST_INLINED:
        recursive = set(definitions)
    written = inlined(dict(definitions[_target(root)]) if _target(root) in recursive else root)
    kept = {name: inlined(definitions[name]) for name in sorted(recursive)}
    return {**written, "$defs": kept} if kept else written


def is_object(schema: Mapping[str, Any]) -> bool:
    """Whether the root of a schema is an object, without a combinator (`anyOf` and so on) or a reference."""
    return schema.get("type") == "object" and not {"anyOf", "oneOf", "allOf", "$ref"} & schema.keys()


def nodes(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and every schema inside it, but not examples, defaults and enum values, which are data."""
    yield schema
    for key, value in schema.items():
        if key in _MAPS or key == "$defs":
            for inner in value.values():
                yield from nodes(cast("Mapping[str, Any]", inner)) if isinstance(inner, Mapping) else ()
        elif key in _LISTS:
            for inner in value:
                yield from nodes(inner)
        elif key in _SINGLES and isinstance(value, Mapping):
            yield from nodes(cast("Mapping[str, Any]", value))


def split_definitions(schema: Mapping[str, Any]) -> tuple[Schema, Schema]:
    """A schema without its `$defs`, and its `$defs` alone, to be added to the new root if the schema is nested."""
    rest = {key: value for key, value in schema.items() if key != "$defs"}
    return rest, {"$defs": schema["$defs"]} if "$defs" in schema else {}


def _target(schema: Mapping[str, Any]) -> str:
    reference = schema.get("$ref", "")
    return reference.removeprefix(DEFINITIONS) if isinstance(reference, str) else ""


def mapped(schema: Mapping[str, Any], change: Callable[[Schema], Schema]) -> Schema:
    """The schema with each schema in it changed; examples, defaults and enum values stay as they are."""

    def changed(value: Any) -> Any:
        return change(cast("Schema", value)) if isinstance(value, dict) else value

    written = dict(schema)
    for key, value in schema.items():
        if key in _MAPS or key == "$defs":
            written[key] = {name: changed(each) for name, each in value.items()}
        elif key in _LISTS:
            written[key] = [changed(each) for each in value]
        elif key in _SINGLES:
            written[key] = changed(value)
    return written


def client_warnings(tools: "Sequence[Tool]") -> Iterator[str]:
    """One sentence for each flaw in a list of tools that makes some client drop, cut or reject a tool or the list."""
    for most, reason in _MOST_TOOLS:
        if len(tools) > most:
            yield f"{len(tools)} tools are published; {reason} and leaves out the rest."
            break
    for tool in tools:
        yield from (f"{tool.name}: {each}" for each in _flaws(tool, tool.input_schema, tool.output_schema))


def without_hints(tools: "Iterable[Tool]") -> Iterator[str]:
    """One sentence that names the tools without hints (`read_only`, `destructive`, `open_world`), if there are any."""
    if names := [each.name for each in tools if each.annotations is None]:
        yield (
            f"{', '.join(names)}: no hints (read_only, destructive, open_world of Export), so hosts assume the"
            " worst: some ask before each call, and codex exec refuses."
        )


def _flaws(tool: "Tool", given: Schema, output: Schema | None) -> Iterator[str]:
    if len(tool.name) > _LONGEST_SAFE_NAME:
        yield (
            f"the name has {len(tool.name)} characters; Cursor drops tools whose server's and own name exceed 60"
            f" together, VS Code prefixes names too. {_LONGEST_SAFE_NAME} are safe."
        )
    if not tool.description:
        yield "it has no description, so a model cannot know when to call it."
    elif len(tool.description) > _LONGEST_DESCRIPTION:
        yield f"the description has {len(tool.description)} characters; the OpenAI API takes 1,024. Keep below 1,000."
    if given.get("type") != "object":
        yield "the root of its input schema is no object; no client takes that."
    for combinator in sorted({"anyOf", "oneOf", "allOf"} & given.keys()):
        yield f"{combinator} is at the root of its input schema; the Anthropic API rejects it, Claude Code drops it."
    if any("$ref" in node for node in nodes(given)):
        yield "its input schema refers to itself ($ref); Copilot CLI and LM Studio show models a hole there."
    for which, schema in (("input", given), ("output", output or {})):
        if any(node.get("type") == "array" and "items" not in node for node in nodes(schema)):
            yield f"an array in its {which} schema has no items; VS Code and the OpenAI API refuse the tool."
    for name in (name for node in nodes(given) for name in node.get("properties", {})):
        if not _PROPERTY.fullmatch(name):
            yield f"the property {name!r} of its input is refused by the Anthropic API ({_PROPERTY.pattern})."
    if output is not None and output.get("type") != "object":
        yield "the root of its output schema is no object; the TypeScript SDK 1.x then rejects the whole list of tools."
