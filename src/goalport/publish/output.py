"""What comes out of a goal, as a client receives it: the output schema, the structured content and the text.

The structured content is made by the same pydantic serializer that the schema describes, so it is valid by
construction and never checked again. How big an answer may be is `answers`' business.
"""

import json
from collections.abc import AsyncIterable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Final, Union, cast, get_args, get_origin

from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from goalport.errors import DeclarationError, ToolError
from goalport.process import AgentProcess, Completed
from goalport.publish.portable_schemas import Schema, is_object, nodes, portable
from goalport.secrecy import hide_known
from goalport.tools.schemas import UNREADABLE, PlainSchema, may_hold_non_finite, non_finite_in_words, why_not_json
from goalport.words import type_name

__all__ = [
    "BLOCKS",
    "OutputFormat",
    "Pages",
    "Wire",
    "beginning_of",
    "blocks_of",
    "done",
    "failed",
    "refuse_bytes",
    "text_block",
]

BLOCKS: Final[tuple[type, ...]] = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)

_ESCAPED: Final = 6
"""How many times its bytes in UTF-8 a text may take in JSON, at worst."""
_ENVELOPE: Final = 500
"""Bytes around content and structured content."""

Wire = dict[str, Any]
"""A `tools/call` result as it goes over the wire: the SDK would make the same dict out of its own model."""
_BLOCK: Final = 4_096
_BESIDE: Final = 1_000
"""Bytes beside a page in its answer."""
_LARGEST_BLOCK: Final = 12 * _BLOCK + 2
"""A character takes twelve bytes in JSON at worst, as two escapes."""
_PAGE: Final = 100_000
"""Bytes of a page: some 25,000 tokens, the most that hosts give a model of one answer."""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How the objects of one type are written."""

    schema: Schema | None
    """What to publish; None for content blocks, for nothing, and for anything at all."""
    _adapter: TypeAdapter[object] | None = None
    _wrapped: bool = False

    @classmethod
    def of(cls, kind: object) -> "OutputFormat":
        """How a goal's declared output is written. Raises `DeclarationError` for a type that has no JSON."""
        if kind in (None, NoneType) or _is_blocks(kind):
            return cls(None)
        try:
            _refuse_streams(kind)
            adapter: TypeAdapter[object] = TypeAdapter(cast("type", kind))
            schema = portable(adapter.json_schema(mode="serialization", schema_generator=PlainSchema))
            refuse_bytes(schema)
        except UNREADABLE as error:
            raise DeclarationError(
                f"The output {type_name(kind)}",
                expected="a type that can be written as JSON",
                came=f"it cannot be ({why_not_json(kind, error, 'serialization')})",
                fix="Return a pydantic model, a dataclass, JSON-like data or content blocks.",
            ) from error
        if not schema:
            return cls(None)
        return cls(schema, adapter) if _is_rooted(schema) else cls(_wrapped(schema), adapter, _wrapped=True)

    def wire(self, value: object) -> tuple[Wire, int]:
        """The value as content and structured content, and a size in bytes that it surely keeps below on the wire.

        Raises `ToolError` for numbers that JSON does not have.
        """
        if self._adapter is None:
            content = blocks_of(value)
            return done(content), _ESCAPED * len(to_json(content))
        written = hide_known(self._adapter.dump_json(value, by_alias=True, warnings="error").decode())
        if may_hold_non_finite(written):
            self._refuse_odd_numbers(value)
        structured: Any = from_json(written)
        told = _told(value)
        text = written if told is None else hide_known(told)
        wire = done([text_block(text)], {"result": structured} if self._wrapped else structured)
        return wire, _ESCAPED * (_bytes_of(written) + 2 * _bytes_of(text)) + _ENVELOPE

    def _refuse_odd_numbers(self, value: object) -> None:
        plain = self._adapter.dump_python(value, mode="json", by_alias=True) if self._adapter else value
        if words := non_finite_in_words(plain):
            raise ToolError(f"its result cannot be sent: {words}")

    @property
    def may_be_large(self) -> bool:
        """Whether its values may take more than an answer; numbers and choices cannot."""
        return self.schema is None or any(map(_is_unbounded, nodes(self.schema)))

    def document(self, value: object) -> tuple[str, str]:
        """The whole value as one text with its media type, for reading it in pages."""
        if isinstance(value, str):
            return "text/plain", hide_known(value)
        if self._adapter is None:
            return "application/json", to_json(blocks_of(value)).decode()
        return "application/json", hide_known(self._adapter.dump_json(value, by_alias=True, indent=2).decode())


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def done(content: list[Wire], structured: Any = None) -> Wire:
    """A result that is no failure."""
    wire: Wire = {"content": content, "isError": False, "resultType": "complete"}
    if structured is not None:
        wire["structuredContent"] = structured
    return wire


def failed(*content: Wire) -> Wire:
    """A failure that a model is to read."""
    return {"content": list(content), "isError": True, "resultType": "complete"}


def text_block(text: str) -> Wire:
    """A text as a content block on the wire."""
    return {"type": "text", "text": text}


def blocks_of(value: object) -> list[Wire]:
    """Blocks as they are, texts as text blocks, anything else as its JSON; lists of these in their order."""
    if value is None:
        return [text_block("Done.")]
    if isinstance(value, TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource):
        return [value.model_dump(mode="json", by_alias=True, exclude_none=True)]
    if isinstance(value, list | tuple):
        return [block for each in cast("Collection[object]", value) for block in blocks_of(each)]
    told = _told(value)
    return [text_block(hide_known(to_json(value, fallback=str).decode() if told is None else told))]


def _told(value: object) -> str | None:
    """The text that a value is or bears."""
    if isinstance(value, str):
        return value
    content: object = (
        cast("Mapping[str, object]", value).get("content")
        if isinstance(value, Mapping)
        else getattr(value, "content", None)
    )
    return content if isinstance(content, str) else None


def _is_blocks(kind: object) -> bool:
    """Whether a type is made of content blocks, alone, in a union or in a list, perhaps among texts."""
    members = _members(kind)
    texts = [each for each in members if each is str]
    blocks = [each for each in members if isinstance(each, type) and issubclass(each, BLOCKS)]
    return bool(blocks) and len(texts) + len(blocks) == len(members)


def _members(kind: object) -> list[object]:
    origin = get_origin(kind)
    if origin in (Union, UnionType) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return [member for part in get_args(kind) if part is not Ellipsis for member in _members(part)]
    return [kind]


def _refuse_streams(kind: object) -> None:
    """Pydantic would take a generator for a list, and write it by its repr or not at all."""
    origin: object = get_origin(kind) or kind
    if isinstance(origin, type) and issubclass(origin, Iterator | AsyncIterable):
        raise TypeError("it gives its values one by one; return a list")


def refuse_bytes(schema: Schema) -> None:
    """Raises `TypeError` for bytes that would be written as if they were text: most are none, and fail at the call."""
    if any(node.get("format") == "binary" for node in nodes(schema)):
        raise TypeError(
            "it holds bytes, which JSON does not have: give them as ImageContent, AudioContent or EmbeddedResource, in"
            " base64 with their media type, or give the model ConfigDict(ser_json_bytes='base64')"
        )


def _is_unbounded(schema: Mapping[str, Any]) -> bool:
    """Whether values of one node of a schema may be of any length."""
    if "enum" in schema or "const" in schema:
        return False
    match schema.get("type"):
        case "string":
            return True
        case "array":
            return "maxItems" not in schema
        case "object":
            return bool(schema.get("additionalProperties"))
        case None:
            return schema.keys().isdisjoint({"anyOf", "oneOf", "allOf"})
        case _:
            return False


def _is_rooted(schema: Schema) -> bool:
    return is_object(schema) or _is_union_of_objects(schema)


def _is_union_of_objects(schema: Schema) -> bool:
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(alternatives, list) or not all(is_object(each) for each in cast("list[Schema]", alternatives)):
        return False
    schema.setdefault("type", "object")
    return True


def _wrapped(schema: Schema) -> Schema:
    definitions = schema.get("$defs")
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    rest = {"$defs": definitions} if definitions else {}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **rest}


@dataclass(frozen=True, slots=True)
class Pages:
    """The result of a process, page by page."""

    media: str
    text: str
    """The whole."""
    pages: tuple[str, ...]

    @classmethod
    def of(cls, process: AgentProcess, limit: int) -> "Pages | None":
        """The pages of what a process has reached, none above `limit` bytes in JSON; None when it has no result."""
        if not isinstance(process.outcome, Completed) or process.goal is None:
            return None
        media, text = OutputFormat.of(process.goal.output).document(process.outcome.value)
        return cls(media, text, tuple(_cut(text, min(limit - _BESIDE, _PAGE))))


def beginning_of(text: str, limit: int) -> str:
    """As much of a text as surely takes no more than `limit` bytes in JSON."""
    return next(_cut(text, limit)) if limit > _LARGEST_BLOCK else ""


def _cut(text: str, limit: int) -> Iterator[str]:
    """The text cut so that no piece takes more than `limit` bytes in JSON; together they are the text again."""
    begin, size = 0, 0
    for at in range(0, len(text), _BLOCK):
        weight = len(json.dumps(text[at : at + _BLOCK]))
        if size and size + weight > limit:
            yield text[begin:at]
            begin, size = at, 0
        size += weight
    yield text[begin:]
