"""The output of a goal as a client receives it: the output schema, the structured content and the text.

One pydantic serializer makes the structured content, and its schema is the output schema. So the content is valid and
is not validated again. `answers` limits the size of an answer.
"""

import json
import sys
from collections.abc import AsyncIterable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel
from pydantic_core import from_json, to_json

from goalport.agents.blackboard import alternatives
from goalport.base.errors import DeclarationError, ToolError
from goalport.base.secrecy import hide_known, hide_known_in
from goalport.base.words import type_name
from goalport.runtime.chat import Conversation, ConversationMessage
from goalport.runtime.process import AgentProcess, Completed
from goalport.server.publish.portability import Schema, is_object, nodes, portable, split_definitions
from goalport.tools import ToolResult
from goalport.tools.schemas import UNREADABLE, PlainSchema, may_hold_non_finite, non_finite_in_words, why_not_json

_RESULT_OVERHEAD_BYTES: Final = 500
"""Bytes of a result that are neither content nor structured content."""
_ESCAPE: Final = 6
"""The bytes of `\\u00e9`: in JSON of ASCII characters only, it stands for one unit of UTF-16."""
_WITHOUT_FRACTION: Final = ("string", "integer", "boolean", "null", "object")
"""Types of a schema whose values cannot be infinite or NaN."""

Pieces = tuple[bytes, ...]
"""JSON in UTF-8, in pieces to be joined."""
Wire = dict[str, Any]
"""A `tools/call` result, or a part of one, as JSON data: the same dict that the SDK would make of its own model."""
_BLOCK: Final = 4_096
_PAGE_OVERHEAD_BYTES: Final = 1_000
"""Bytes of an answer with a page that are not the page."""
_LARGEST_BLOCK: Final = 12 * _BLOCK + 2
"""The most bytes in JSON of a block of text: a character takes at most twelve, as two escapes."""
_MAX_PAGE_BYTES: Final = 100_000
"""The most bytes of a page: about 25,000 tokens, the most of one answer that hosts pass to a model."""


@dataclass(frozen=True, slots=True)
class WrittenResult:
    """A `tools/call` result, serialized once: `json` is sent as it is, and `wire` is the same as data, for the SDK.

    It is stored in pieces, since each copy of a large result takes as long as serializing it.
    """

    content: Pieces
    """The JSON of the list of content blocks."""
    structured: Pieces = ()
    """The JSON of the structured content; empty if there is none."""
    is_error: bool = False
    meta: Mapping[str, Any] | None = None
    """The `_meta` of the result, if it has one."""

    @classmethod
    def of(
        cls,
        content: Sequence[Wire],
        structured: Mapping[str, Any] | None = None,
        *,
        is_error: bool = False,
        meta: Mapping[str, Any] | None = None,
    ) -> "WrittenResult":
        """A result of JSON data. Raises `PydanticSerializationError` for what JSON cannot express."""
        return cls((to_json(content),), () if structured is None else (to_json(structured),), is_error, meta)

    @property
    def json(self) -> bytes:
        """The result as JSON in UTF-8."""
        return b"".join(self.pieces({}))

    def pieces(self, meta: Mapping[str, Any], *, typed: bool = True) -> Sequence[bytes]:
        """The result as JSON, in pieces to be joined, with `meta` added to its `_meta`; `typed`: with a `resultType`.

        MCP revisions that begin with a handshake have no `resultType`.
        """
        found = [b'{"content":', *self.content, b',"isError":', b"true" if self.is_error else b"false"]
        if typed:
            found.append(b',"resultType":"complete"')
        if self.structured:
            found += [b',"structuredContent":', *self.structured]
        if self.meta is not None or meta:
            found += [b',"_meta":', to_json({**(self.meta or {}), **meta})]
        found.append(b"}")
        return found

    @property
    def wire(self) -> Wire:
        """The result as JSON data."""
        return from_json(self.json)

    @property
    def size(self) -> int:
        """An upper bound of its bytes on the wire, where characters beyond ASCII may be escaped."""
        return ascii_size(self.content) + ascii_size(self.structured) + _RESULT_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How the values of one output type are written as results."""

    schema: Schema | None
    """The output schema to publish; None for content blocks, for `None` and for `Any`."""
    _adapter: TypeAdapter[object] | None = None
    _wrapped: bool = False
    _has_numbers: bool = True
    """Whether values may hold numbers that are not integers; JSON cannot express some of these, such as NaN."""

    @classmethod
    def of(cls, kind: object) -> "OutputFormat":
        """The format of a goal's declared output. Raises `DeclarationError` for a type that JSON cannot express."""
        if kind in (None, NoneType, ToolResult) or _is_blocks(kind):
            return cls(None)
        try:
            origin: object = get_origin(kind) or kind
            if isinstance(origin, type) and issubclass(origin, Iterator | AsyncIterable):
                # Pydantic describes generators as lists, and writes their repr, or nothing.
                raise TypeError("it gives its values one by one; return a list")
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
        has_numbers = any(map(_may_be_number, nodes(schema)))
        members = schema.get("anyOf") or schema.get("oneOf")
        if is_object(schema) or (isinstance(members, list) and all(map(is_object, cast("list[Schema]", members)))):
            return cls({**schema, "type": "object"}, adapter, _has_numbers=has_numbers)
        inner, definitions = split_definitions(schema)
        wrapped = {"type": "object", "properties": {"result": inner}, "required": ["result"], **definitions}
        return cls(wrapped, adapter, _wrapped=True, _has_numbers=has_numbers)

    def written(self, value: object) -> WrittenResult:
        """The value as a result.

        Raises `ToolError` for numbers that are not finite, and pydantic's error for a value that is not of the type.
        """
        if self._adapter is None:
            return result_of_tool(value) if isinstance(value, ToolResult) else WrittenResult.of(blocks_of(value))
        written = self.json(value)
        structured = (b'{"result":', written, b"}") if self._wrapped else (written,)
        content = _content_of(value)
        if content is None:
            # The text repeats the JSON, which has no whitespace: only these two characters are escaped.
            escaped = written.replace(b"\\", rb"\\").replace(b'"', rb"\"")
            return WrittenResult((b'[{"type":"text","text":"', escaped, b'"}]'), structured)
        return WrittenResult((to_json([text_block(hide_known(content))]),), structured)

    def json(self, value: object) -> bytes:
        """The value alone as JSON, without a wrapper; content blocks as a list. Raises what `written` raises."""
        if self._adapter is None:
            return to_json(blocks_of(value))
        dumped = self._adapter.dump_json(value, by_alias=True, warnings="error")
        written = hide_known_in(dumped)
        if written is not dumped:
            from_json(written)  # hiding a secret that is no text leaves invalid JSON, which must not be sent
        if self._has_numbers and may_hold_non_finite(written.decode()):
            plain = self._adapter.dump_python(value, mode="json", by_alias=True)
            if words := non_finite_in_words(plain):
                raise ToolError(f"its result cannot be sent: {words}")
        return written

    @property
    def value_schema(self) -> Schema:
        """The schema of the JSON that `json` writes."""
        if self.schema is None:
            return {"type": "array", "items": {"type": "object"}, "description": "Content blocks, as in MCP"}
        if not self._wrapped:
            return self.schema
        shown, definitions = split_definitions(self.schema)
        return {**shown["properties"]["result"], **definitions}

    def document(self, value: object) -> tuple[str, str]:
        """The media type and the text of the whole value, to be read in pages."""
        if isinstance(value, str):
            return "text/plain", hide_known(value)
        if isinstance(value, ToolResult):
            return "text/plain" if value.structured is None else "application/json", document_of(
                result_of_tool(value).wire
            )
        if self._adapter is None:
            return "application/json", to_json(blocks_of(value)).decode()
        return "application/json", hide_known(self._adapter.dump_json(value, by_alias=True, indent=2).decode())


def result_of_tool(result: ToolResult) -> WrittenResult:
    """The result of a tool as it is sent. Raises `PydanticSerializationError` for what JSON cannot express."""
    return WrittenResult.of(without_secrets(blocks_of(result)), without_secrets(result.structured))


def without_secrets(value: Any) -> Any:
    """JSON data without the secrets that are known."""
    match value:
        case str():
            return hide_known(value)
        case Mapping():
            members = cast("Mapping[str, object]", value)
            return {name: without_secrets(each) for name, each in members.items()}
        case list() | tuple():
            return [without_secrets(each) for each in cast("Sequence[object]", value)]
        case _:
            return value


def ascii_size(pieces: Pieces) -> int:
    """The bytes of JSON once all characters beyond ASCII are escaped, as the SDK sends it."""
    size = 0
    for each in pieces:
        size += len(each)
        if not each.isascii():
            text = each.decode()
            units, plain = len(text.encode("utf-16-le")) // 2, len(text.encode("ascii", "ignore"))
            size += plain + _ESCAPE * (units - plain) - len(each)
    return size


def text_block(text: str) -> Wire:
    """A text as a content block."""
    return {"type": "text", "text": text}


def blocks_of(value: object) -> list[Wire]:
    """A value as content blocks: blocks unchanged, texts as text blocks, lists item by item, anything else as JSON."""
    if value is None:
        return [text_block("Done.")]
    if isinstance(value, _block_types()):
        return [cast("BaseModel", value).model_dump(mode="json", by_alias=True, exclude_none=True)]
    if isinstance(value, ToolResult):
        return blocks_of(value.content)
    if isinstance(value, list | tuple):
        return [block for each in cast("Collection[object]", value) for block in blocks_of(each)]
    content = _content_of(value)
    return [text_block(hide_known(to_json(value, fallback=str).decode() if content is None else content))]


def _block_types() -> tuple[type, ...]:
    """The classes of content blocks. Importing them is slow; until something has imported them, no value is one."""
    types = sys.modules.get("mcp_types")
    if types is None:
        return ()
    return types.TextContent, types.ImageContent, types.AudioContent, types.ResourceLink, types.EmbeddedResource


def document_of(wire: Wire) -> str:
    """The whole of a result as a text: its structured content, else its texts, else its content blocks as JSON."""
    if wire.get("structuredContent") is not None:
        return to_json(wire["structuredContent"], indent=2).decode()
    content: list[Wire] = wire["content"]
    if all(each["type"] == "text" for each in content):
        return "\n\n".join(each["text"] for each in content)
    return to_json(content).decode()


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
    """Whether a type is a content block, or a union or list of content blocks and texts, at any depth."""
    members, waiting = list[object](), [kind]
    for each in waiting:
        origin = get_origin(each)
        parts = get_args(each) if isinstance(origin, type) and issubclass(origin, Sequence) else alternatives(each)
        if parts == (each,):
            members.append(each)
        else:
            waiting += [part for part in parts if part is not Ellipsis]
    others = [each for each in members if each is not str]
    return bool(others) and all(isinstance(each, type) and issubclass(each, _block_types()) for each in others)


def refuse_bytes(schema: Schema) -> None:
    """Raises `TypeError` for bytes that pydantic would write as text: most bytes are not UTF-8 and fail at the call."""
    if any(node.get("format") == "binary" for node in nodes(schema)):
        raise TypeError(
            "it holds bytes, which JSON does not have: give them as ImageContent, AudioContent or EmbeddedResource, in"
            " base64 with their media type, or give the model ConfigDict(ser_json_bytes='base64')"
        )


def _may_be_number(schema: Mapping[str, Any]) -> bool:
    """Whether one node of a schema describes numbers that are not integers, or leaves open what it describes."""
    match schema.get("type"):
        case None:
            return schema.keys().isdisjoint({"$ref", "anyOf", "oneOf", "allOf"})
        case "array":
            return schema.keys().isdisjoint({"items", "prefixItems"})
        case kind:
            return kind not in _WITHOUT_FRACTION or schema.get("additionalProperties") is True


def may_be_large(schema: Schema | None) -> bool:
    """Whether values of a schema may be too large for one answer.

    Texts, open objects and lists without `maxItems` may be, and so may values without a schema (None).
    """

    def is_unbounded(node: Mapping[str, Any]) -> bool:
        if "enum" in node or "const" in node:
            return False
        match node.get("type"):
            case None:
                return node.keys().isdisjoint({"anyOf", "oneOf", "allOf"})
            case "array":
                return "maxItems" not in node
            case "object":
                return bool(node.get("additionalProperties"))
            case kind:
                return kind == "string"

    return schema is None or any(map(is_unbounded, nodes(schema)))


@dataclass(frozen=True, slots=True)
class Pages:
    """A result or another long text, cut into pages."""

    media: str
    text: str
    """The whole of it."""
    pages: tuple[str, ...]

    @classmethod
    def of(cls, process: AgentProcess, limit: int) -> "Pages | None":
        """The pages of the result of a process, each at most `limit` bytes in JSON; None if it has no result."""
        if not isinstance(process.outcome, Completed) or process.goal is None:
            return None
        return cls.of_text(*OutputFormat.of(process.goal.output).document(process.outcome.value), limit)

    @classmethod
    def of_text(cls, media: str, text: str, limit: int) -> "Pages":
        """The pages of a text of a media type, each at most `limit` bytes in JSON."""
        return cls(media, text, tuple(_cut(text, min(limit - _PAGE_OVERHEAD_BYTES, _MAX_PAGE_BYTES))))


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


class ReplyAsset(BaseModel):
    """Something that a reply brings along, such as a document or a link."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    name: str
    uri: str = Field("", description="Where it is; empty: its text is all there is")
    media_type: str = ""
    text: str = ""


class ChatReply(BaseModel):
    """What a chatbot has replied."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    reply: str
    conversation_id: str = Field(description="Give it with the next message to go on with this conversation")
    assets: tuple[ReplyAsset, ...] = Field((), description="What the reply brings along, such as documents and links")
    finished: bool = Field(default=False, description="Whether the conversation is over and takes no more messages")
    pages: int = Field(
        default=1, description="More than 1: the reply is cut here; process_result gives it in so many pages"
    )

    @classmethod
    def of(cls, conversation: Conversation, said: Sequence[ConversationMessage]) -> "ChatReply":
        """Messages that a chatbot has said in a conversation, as one reply without known secrets."""
        assets = dict.fromkeys(asset for each in said for asset in each.assets)
        return cls(
            reply=hide_known("\n\n".join(filter(None, (each.text for each in said)))),
            conversation_id=conversation.id,
            assets=tuple(
                ReplyAsset(
                    name=hide_known(each.name),
                    uri=hide_known(each.uri),
                    media_type=each.media_type,
                    text=hide_known(each.text),
                )
                for each in assets
            ),
            finished=conversation.record.finished,
        )


def last_reply(conversation: Conversation) -> Sequence[ConversationMessage]:
    """What the chatbot has said since a person spoke last."""
    entries = conversation.entries
    begin = next((place for place in range(len(entries), 0, -1) if entries[place - 1].role == "user"), 0)
    return [each for each in entries[begin:] if each.role == "assistant"]
