"""The output of a goal as a client receives it: the output schema, the structured content and the text.

The structured content is made by the pydantic serializer that the schema describes, so it is valid by construction
and not validated again. `answers` limits the size of an answer.
"""

import json
from collections.abc import AsyncIterable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, cast, get_args, get_origin

from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from goalport.blackboard import alternatives
from goalport.errors import DeclarationError, ToolError
from goalport.process import AgentProcess, Completed
from goalport.publish.portability import Schema, is_object, nodes, portable, split_definitions
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
"""The most bytes in JSON for one byte of a text in UTF-8."""
_ENVELOPE: Final = 500
"""Bytes that a result needs beside its content and structured content."""

Wire = dict[str, Any]
"""A `tools/call` result as JSON data: the same dict that the SDK would make of its own model."""
_BLOCK: Final = 4_096
_BESIDE: Final = 1_000
"""Bytes that the answer with a page needs beside the page."""
_LARGEST_BLOCK: Final = 12 * _BLOCK + 2
"""The most bytes in JSON of a block of text: a character takes at most twelve, as two escapes."""
_PAGE: Final = 100_000
"""The most bytes of a page: about 25,000 tokens, the most of one answer that hosts pass to a model."""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How the values of one output type are written as results."""

    schema: Schema | None
    """The output schema to publish; None for content blocks, for `None` and for `Any`."""
    _adapter: TypeAdapter[object] | None = None
    _wrapped: bool = False

    @classmethod
    def of(cls, kind: object) -> "OutputFormat":
        """The format of a goal's declared output. Raises `DeclarationError` for a type that JSON cannot express."""
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
        if is_object(schema) or _is_union_of_objects(schema):
            return cls({**schema, "type": "object"}, adapter)
        inner, definitions = split_definitions(schema)
        wrapped = {"type": "object", "properties": {"result": inner}, "required": ["result"], **definitions}
        return cls(wrapped, adapter, _wrapped=True)

    def wire(self, value: object) -> tuple[Wire, int]:
        """The value as a result, and an upper bound of its size on the wire in bytes.

        Raises `ToolError` for numbers that are not finite, and pydantic's error for a value that is not of the type.
        """
        if self._adapter is None:
            content = blocks_of(value)
            return done(content), _ESCAPED * len(to_json(content))
        written = hide_known(self._adapter.dump_json(value, by_alias=True, warnings="error").decode())
        if may_hold_non_finite(written):
            plain = self._adapter.dump_python(value, mode="json", by_alias=True)
            if words := non_finite_in_words(plain):
                raise ToolError(f"its result cannot be sent: {words}")
        structured: Any = from_json(written)
        content = _content_of(value)
        text = written if content is None else hide_known(content)
        wire = done([text_block(text)], {"result": structured} if self._wrapped else structured)
        return wire, _ESCAPED * (_bytes_of(written) + 2 * _bytes_of(text)) + _ENVELOPE

    @property
    def value_schema(self) -> Schema:
        """The schema of `value_in`."""
        if self.schema is None:
            return {"type": "array", "items": {"type": "object"}, "description": "Content blocks, as in MCP"}
        if not self._wrapped:
            return self.schema
        shown, definitions = split_definitions(self.schema)
        return {**shown["properties"]["result"], **definitions}

    def value_in(self, wire: Wire) -> Any:
        """The value by itself in a result that `wire` made, as JSON data; content blocks if it has no schema."""
        if self.schema is None:
            return wire["content"]
        structured = wire["structuredContent"]
        return structured["result"] if self._wrapped else structured

    @property
    def may_be_large(self) -> bool:
        """Whether values may be too large for one answer, as texts, lists and open objects may be."""
        return self.schema is None or any(map(_is_unbounded, nodes(self.schema)))

    def document(self, value: object) -> tuple[str, str]:
        """The media type and the text of the whole value, to be read in pages."""
        if isinstance(value, str):
            return "text/plain", hide_known(value)
        if self._adapter is None:
            return "application/json", to_json(blocks_of(value)).decode()
        return "application/json", hide_known(self._adapter.dump_json(value, by_alias=True, indent=2).decode())


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def done(content: list[Wire], structured: Any = None) -> Wire:
    """A successful result."""
    wire: Wire = {"content": content, "isError": False, "resultType": "complete"}
    if structured is not None:
        wire["structuredContent"] = structured
    return wire


def failed(*content: Wire) -> Wire:
    """An error result."""
    return {"content": list(content), "isError": True, "resultType": "complete"}


def text_block(text: str) -> Wire:
    """A text as a content block."""
    return {"type": "text", "text": text}


def blocks_of(value: object) -> list[Wire]:
    """A value as content blocks: blocks unchanged, texts as text blocks, lists item by item, anything else as JSON."""
    if value is None:
        return [text_block("Done.")]
    if isinstance(value, TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource):
        return [value.model_dump(mode="json", by_alias=True, exclude_none=True)]
    if isinstance(value, list | tuple):
        return [block for each in cast("Collection[object]", value) for block in blocks_of(each)]
    content = _content_of(value)
    return [text_block(hide_known(to_json(value, fallback=str).decode() if content is None else content))]


def _content_of(value: object) -> str | None:
    """A value that is a text, or the text in its field `content`; None if there is no text."""
    if isinstance(value, str):
        return value
    content: object = (
        cast("Mapping[str, object]", value).get("content")
        if isinstance(value, Mapping)
        else getattr(value, "content", None)
    )
    return content if isinstance(content, str) else None


def _is_blocks(kind: object) -> bool:
    """Whether a type is a content block, or a union or list of content blocks and texts."""
    members = _members(kind)
    texts = [each for each in members if each is str]
    blocks = [each for each in members if isinstance(each, type) and issubclass(each, BLOCKS)]
    return bool(blocks) and len(texts) + len(blocks) == len(members)


def _members(kind: object) -> list[object]:
    """The members of a union or of the items of a sequence, at any depth."""
    origin = get_origin(kind)
    parts = get_args(kind) if isinstance(origin, type) and issubclass(origin, Sequence) else alternatives(kind)
    if parts == (kind,):
        return [kind]
    return [member for part in parts if part is not Ellipsis for member in _members(part)]


def _refuse_streams(kind: object) -> None:
    """Raises `TypeError` for generators: pydantic describes them as lists and writes their repr, or nothing."""
    origin: object = get_origin(kind) or kind
    if isinstance(origin, type) and issubclass(origin, Iterator | AsyncIterable):
        raise TypeError("it gives its values one by one; return a list")


def refuse_bytes(schema: Schema) -> None:
    """Raises `TypeError` for bytes that pydantic would write as text: most bytes are not UTF-8 and fail at the call."""
    if any(node.get("format") == "binary" for node in nodes(schema)):
        raise TypeError(
            "it holds bytes, which JSON does not have: give them as ImageContent, AudioContent or EmbeddedResource, in"
            " base64 with their media type, or give the model ConfigDict(ser_json_bytes='base64')"
        )


def _is_unbounded(schema: Mapping[str, Any]) -> bool:
    """Whether the values of one node of a schema have no greatest length."""
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


def _is_union_of_objects(schema: Schema) -> bool:
    members = schema.get("anyOf") or schema.get("oneOf")
    return isinstance(members, list) and all(map(is_object, cast("list[Schema]", members)))


@dataclass(frozen=True, slots=True)
class Pages:
    """The result of a process, cut into pages."""

    media: str
    text: str
    """The whole result."""
    pages: tuple[str, ...]

    @classmethod
    def of(cls, process: AgentProcess, limit: int) -> "Pages | None":
        """The pages of the result of a process, each at most `limit` bytes in JSON; None if it has no result."""
        if not isinstance(process.outcome, Completed) or process.goal is None:
            return None
        media, text = OutputFormat.of(process.goal.output).document(process.outcome.value)
        return cls(media, text, tuple(_cut(text, min(limit - _BESIDE, _PAGE))))


def beginning_of(text: str, limit: int) -> str:
    """The beginning of a text, at most `limit` bytes in JSON."""
    return next(_cut(text, limit)) if limit > _LARGEST_BLOCK else ""


def _cut(text: str, limit: int) -> Iterator[str]:
    """The consecutive pieces of a text, each at most `limit` bytes in JSON."""
    begin, size = 0, 0
    for at in range(0, len(text), _BLOCK):
        weight = len(json.dumps(text[at : at + _BLOCK]))
        if size and size + weight > limit:
            yield text[begin:at]
            begin, size = at, 0
        size += weight
    yield text[begin:]
