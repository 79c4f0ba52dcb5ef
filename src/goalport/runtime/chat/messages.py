"""The messages of a conversation as they were said, and as JSON that a store keeps for years.

The JSON names no class of a program, so that it can be read by later versions and by others. Below: the messages of
models, and the records of the store. Above: conversations.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from goalport.base.errors import Unreadable
from goalport.models.llm import AssistantMessage, Image, Message, SystemMessage, ToolCall, ToolReply, UserMessage
from goalport.runtime.process import new_id
from goalport.store import MessageRecord

Role = Literal["user", "assistant", "system", "tool", "summary"]
REPLY_SEPARATOR: Final = "\n\n"
"""What stands between the messages of a chatbot where a reader is shown them as one."""
SUMMARY: Final = "summary"
"""The role of a message that nobody said: it tells a model what came before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """Something that a message is about or brought along, such as a document or a link."""

    name: str
    uri: str = ""
    """Where it is; empty: its `text` is all there is."""
    media_type: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationMessage:
    """A message of a conversation, with its place."""

    id: str = field(default_factory=new_id)
    parent: str = ""
    """The id of the message before it; empty for the first."""
    role: Role
    message: Message
    name: str = ""
    """The name of the speaker; empty: there is none but the role."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    assets: tuple[Asset, ...] = ()
    covers: str = ""
    """Of a summary: the id of the last message that it stands for."""
    clears: str = ""
    """Of an entry with the role `summary`: the id of the last message of those whose results of tools are left out."""

    @property
    def text(self) -> str:
        """What it says."""
        return self.message.content


_ROLES: Final[Mapping[type, Role]] = {
    UserMessage: "user",
    AssistantMessage: "assistant",
    SystemMessage: "system",
    ToolReply: "tool",
}


def role_of(message: Message) -> Role:
    """The role of a message that was said."""
    return _ROLES[type(message)]


def to_record(entry: ConversationMessage) -> MessageRecord:
    """The record of a message, for a store."""
    value: dict[str, Any] = message_json(entry.message)
    if entry.assets:
        value["assets"] = [asdict(each) for each in entry.assets]
    value.update({name: each for name in ("covers", "clears") if (each := getattr(entry, name))})
    return MessageRecord(entry.id, entry.parent, entry.role, entry.name, entry.text, value, entry.at)


def from_record(record: MessageRecord) -> ConversationMessage:
    """The message of a record. Raises `Unreadable` for one that a newer version has written."""
    value = cast("Mapping[str, Any]", record.value)
    try:
        return ConversationMessage(
            id=record.id,
            parent=record.parent,
            role=cast("Role", record.role),
            message=_message(record.role, value),
            name=record.name,
            at=record.at,
            assets=tuple(Asset(**each) for each in value.get("assets", ())),
            covers=value.get("covers", ""),
            clears=value.get("clears", ""),
        )
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise Unreadable(
            f"message {record.id}", f"{error}.", "Use the program that wrote it, or a newer one."
        ) from error


def message_json(message: Message) -> dict[str, Any]:
    """A message as a JSON object: what was said, images in base64, and calls of tools."""
    match message:
        case SystemMessage(content):
            return {"content": content}
        case UserMessage(content, images):
            return {"content": content, **_images_json(images)}
        case AssistantMessage(content, calls, thinking, _, finish):
            told = {"content": content, "calls": [asdict(each) for each in calls], "thinking": thinking}
            return {name: each for name, each in told.items() if each or name == "content"} | {"finish": finish}
        case ToolReply(call_id, name, content, images, is_error):
            called = {"call_id": call_id, "name": name, "content": content, "is_error": is_error}
            return {**called, **_images_json(images)}


def _images_json(images: Sequence[Image]) -> dict[str, Any]:
    if not images:
        return {}
    written = [{"media_type": each.media_type, "data": base64.b64encode(each.data).decode()} for each in images]
    return {"images": written}


def _message(role: str, value: Mapping[str, Any]) -> Message:
    content = str(value["content"])
    match role:
        case "user":
            return UserMessage(content, _images(value))
        case "assistant":
            calls = tuple(ToolCall(**each) for each in value.get("calls", ()))
            return AssistantMessage(content, calls, value.get("thinking", ""), finish=value.get("finish", "stop"))
        case "tool":
            called = value["call_id"], value["name"], content
            return ToolReply(*called, _images(value), is_error=bool(value.get("is_error")))
        case "system" | "summary":
            return SystemMessage(content)
        case _:
            raise ValueError(f"its role is {role!r}")


def _images(value: Mapping[str, Any]) -> tuple[Image, ...]:
    given = cast("Iterable[Mapping[str, str]]", value.get("images", ()))
    return tuple(Image(each["media_type"], base64.b64decode(each["data"], validate=True)) for each in given)
