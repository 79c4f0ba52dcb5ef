"""A conversation: its messages, in the branch that is shown, and those of them that a model is shown.

A stored process holds only its id; `Conversations` loads the messages before the process runs. Clients such as
those of OpenAI's API send the whole conversation each time: `compare` says whether it is continued, edited or unknown.
Below: messages and records. Above: `conversations`, which finds and saves it. (User guide, section 3.12.12.)
"""

import asyncio
import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice, takewhile
from typing import Any, Final, Literal, NamedTuple, Self, TypeGuard, TypeVar, cast, get_args

from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import BadInput, GoalportError, Unreadable
from goalport.models.llm import AssistantMessage, Image, Message, SystemMessage, ToolCall, ToolReply, UserMessage
from goalport.runtime.process import new_id
from goalport.store import ConversationRecord, MessageRecord, persistent

Role = Literal["user", "assistant", "system", "tool", "summary"]
REPLY_SEPARATOR: Final = "\n\n"
"""The text between the messages of a chatbot when a reader is shown them as one."""
SUMMARY: Final = "summary"
"""The role of a message that stands for the earlier ones: a model is shown it in their place."""


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
    """Of an entry with the role `summary`: results of tools are left out up to the message of this id."""

    @classmethod
    def of(cls, message: Message, *, name: str = "", assets: Sequence[Asset] = ()) -> Self:
        """The entry for a message, with the role of its type."""
        return cls(role=_ROLES[type(message)], message=message, name=name, assets=tuple(assets))

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.content


_ROLES: Final[Mapping[type, Role]] = {
    UserMessage: "user",
    AssistantMessage: "assistant",
    SystemMessage: "system",
    ToolReply: "tool",
}


def to_record(entry: ConversationMessage) -> MessageRecord:
    """The record of a message, for a store."""
    some = {"assets": [asdict(each) for each in entry.assets], "covers": entry.covers, "clears": entry.clears}
    value = message_json(entry.message) | {name: each for name, each in some.items() if each}
    return MessageRecord(entry.id, entry.parent, entry.role, entry.name, entry.text, value, entry.at)


def from_record(record: MessageRecord) -> ConversationMessage:
    """The message of a record. Raises `Unreadable` for one that a newer version has written."""
    value = cast("Mapping[str, Any]", record.value)
    fix = "Use the program that wrote it, or a newer one."
    if (role := record.role) not in get_args(Role):
        raise Unreadable(f"message {record.id}", f"its role is {role!r}.", fix)
    message: Message
    try:
        content, written = str(value["content"]), value.get("images", ())
        images = tuple(Image(each["media_type"], base64.b64decode(each["data"], validate=True)) for each in written)
        match role:
            case "user":
                message = UserMessage(content, images)
            case "assistant":
                calls = tuple(ToolCall(**each) for each in value.get("calls", ()))
                thinking, finish = value.get("thinking", ""), value.get("finish", "stop")
                message = AssistantMessage(content, calls, thinking, finish=finish)
            case "tool":
                failed = bool(value.get("is_error"))
                message = ToolReply(value["call_id"], value["name"], content, images, is_error=failed)
            case _:
                message = SystemMessage(content)
        return ConversationMessage(
            id=record.id,
            parent=record.parent,
            role=cast("Role", role),
            message=message,
            name=record.name,
            at=record.at,
            assets=tuple(Asset(**each) for each in value.get("assets", ())),
            covers=value.get("covers", ""),
            clears=value.get("clears", ""),
        )
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise Unreadable(f"message {record.id}", f"{error}.", fix) from error


def message_json(message: Message) -> dict[str, Any]:
    """A message as a JSON object: what was said, images in base64, and calls of tools."""
    images = getattr(message, "images", ())
    more: dict[str, Any] = {}
    some: dict[str, Any] = {
        "images": [{"media_type": each.media_type, "data": base64.b64encode(each.data).decode()} for each in images]
    }
    if isinstance(message, AssistantMessage):
        more = {"finish": message.finish}
        some |= {"calls": [asdict(each) for each in message.calls], "thinking": message.thinking}
    elif isinstance(message, ToolReply):
        more = {"call_id": message.call_id, "name": message.name, "is_error": message.is_error}
    return {"content": message.content, **{name: each for name, each in some.items() if each}, **more}


LEFT_OUT: Final = "(This result is left out, since it is old.)"
"""What a model is shown in place of the result of an old tool."""

M = TypeVar("M", bound=Message)


def is_long_result(message: Message) -> TypeGuard[ToolReply]:
    """Whether it is the result of a tool that is longer than the note in its place."""
    return isinstance(message, ToolReply) and (len(message.content) > len(LEFT_OUT) or bool(message.images))


class Loaded:
    """The state of a stored conversation in this program, shared by all that use the conversation here.

    Parameters: `record` is the record of the conversation and `messages` are those of all its messages.
    """

    def __init__(self, record: ConversationRecord, messages: Iterable[MessageRecord] = ()) -> None:
        self.record = record
        self.messages: dict[str, ConversationMessage] = {}
        """The messages of all branches, by id."""
        self.pending: list[ConversationMessage] = []
        """The messages that were added and are not stored yet."""
        self.saving = asyncio.Lock()
        """Locked while messages are stored."""
        self.turns = asyncio.Lock()
        """Locked during a turn: turns of a conversation run one after another."""
        self._last_line: tuple[str, tuple[ConversationMessage, ...]] = "", ()
        """The line that was computed last, after the id of its last message."""
        self.turn: object = None
        """The `Turn` that runs, if one was begun here."""
        self.refresh(record, messages)

    def end_turn(self) -> None:
        """Let the next turn begin. The events of this one are kept as long as somebody reads them."""
        self.turn = None
        self.turns.release()

    def refresh(self, record: ConversationRecord, messages: Iterable[MessageRecord]) -> None:
        """Take over what the store has now."""
        self.record = record
        known = self.messages
        self.messages = {each.id: known.get(each.id) or from_record(each) for each in messages}

    def line_to(self, message_id: str) -> Sequence[ConversationMessage]:
        """The messages of a branch up to and including that message, with summaries."""
        last, line = self._last_line
        if message_id != last:
            newer: list[ConversationMessage] = []
            while message_id not in {"", last}:
                newer.append(self.messages[message_id])
                message_id = newer[-1].parent
            newer.reverse()
            # Messages are only added, so a line that was known stays the beginning of those that continue it.
            line = (*line, *newer) if message_id == last else tuple(newer)
            self._last_line = newer[-1].id if newer else message_id, line
        return line

    @property
    def line(self) -> Sequence[ConversationMessage]:
        """The messages of the branch that is shown, with summaries and with those that are not stored yet."""
        return (*self.line_to(self.record.head), *self.pending)


@persistent("goalport.chat:Conversation")
@dataclass(eq=False)
class Conversation:
    """The messages of a conversation. Actions of a chatbot take it as a parameter."""

    id: str

    @classmethod
    def of(cls, *messages: Message, chatbot: str = "", caller: Caller = ANONYMOUS) -> Self:
        """A conversation with these messages that is stored nowhere, such as for the test of an action.

        `chatbot` is the name of the chatbot, and `caller` the one to whom it belongs.
        """
        made, now = cls("unstored"), datetime.now(UTC)
        made.loaded = Loaded(ConversationRecord(made.id, chatbot, caller, "", "", "", "", False, now, now))
        for each in messages:
            made.add_message(each)
        return made

    @cached_property
    def loaded(self) -> Loaded:
        """Its state in this program. Raises `GoalportError` before it was loaded."""
        raise GoalportError(f"Conversation {self.id} is not loaded: it is known only while its chatbot runs.")

    @property
    def record(self) -> ConversationRecord:
        """Its title, chatbot, caller and context, when it began, and whether it has reached its goal (`finished`)."""
        return self.loaded.record

    @property
    def title(self) -> str:
        """A few words that say what it is about; empty: it has no title yet."""
        return self.record.title

    @property
    def entries(self) -> tuple[ConversationMessage, ...]:
        """The messages as they were said, oldest first, in the branch that is shown."""
        return tuple(each for each in self.loaded.line if each.role != SUMMARY)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What a model is shown: the messages, or a summary in place of the older ones."""
        return tuple(each.message for each in self.visible)

    @property
    def visible(self) -> Sequence[ConversationMessage]:
        """The entries that a model is shown: the instructions, the newest summary, and the messages after it.

        Results of old tool calls may be replaced by a note.
        """
        shown = [each for each in self.loaded.line if each.role != SUMMARY]
        places = {each.id: place for place, each in enumerate(shown, start=1)}
        summaries = [each for each in reversed(self.loaded.line) if each.role == SUMMARY]
        for place in range(places.get(next((each.clears for each in summaries if each.clears), ""), 0)):
            if is_long_result(reply := shown[place].message):
                shown[place] = replace(shown[place], message=replace(reply, content=LEFT_OUT, images=()))
        summary = next((each for each in summaries if each.covers), None)
        if summary is None:
            return shown
        covered = places.get(summary.covers, 0)
        return [*(each for each in shown[:covered] if each.role == "system"), summary, *shown[covered:]]

    def reply_to(self, message_id: str) -> Sequence[ConversationMessage]:
        """A message of a person, and the messages that answer it; of several replies, the latest.

        Raises `BadInput` if there is no message of that id.
        """
        if message_id not in self.loaded.messages:
            raise BadInput(f"Conversation {self.id} has no message {message_id!r}.")
        replies = {each.parent: each for each in self.loaded.messages.values() if each.role != "user"}
        found = [self.loaded.messages[message_id]]
        while (following := replies.get(found[-1].id)) is not None:
            found.append(following)
        return found

    def __iter__(self) -> Iterator[Message]:
        """The messages that a model is shown, so that `ai.respond(conversation)` works."""
        return iter(self.messages)

    def add_message(self, message: M, *, name: str = "", assets: Sequence[Asset] = ()) -> M:
        """Add a message at the end and return it. It is stored with the next message that is sent, or after the turn.

        `name` is the name of the speaker; `assets` are things that belong to the message, such as documents.
        """
        self.loaded.pending.append(ConversationMessage.of(message, name=name, assets=assets))
        return message

    def last_message_if_from_user(self) -> UserMessage | None:
        """The last message, if a person said it and it was not answered yet."""
        line = self.entries
        last = line[-1].message if line else None
        return last if isinstance(last, UserMessage) else None


class HistoryMatch(NamedTuple):
    """How a history from a client continues a stored conversation."""

    after: str
    """The id of the last message that both have; empty: not even the first one is the same."""
    tail: tuple[Message, ...]
    """The messages of the client after that, oldest first; empty: the history ends with a stored message."""
    forks: bool
    """Whether the stored conversation goes on differently after that: something was edited or is answered anew."""

    @property
    def regenerates(self) -> bool:
        """Whether the history ends with a message that was answered before: the client wants another reply."""
        return self.forks and not self.tail


def compare(entries: Sequence[ConversationMessage], given: Sequence[Message]) -> HistoryMatch:
    """Compare the messages of a stored branch with those that a client sent. Instructions (`system`) do not count.

    Two messages are the same if they have the same role, the same images, and the same text but for white space at its
    ends. Several messages of a chatbot in a row are the same as one that shows them all.
    """
    stored = [each for each in entries if each.role != "system"]
    said = [each for each in given if not isinstance(each, SystemMessage)]
    agree = known = 0
    while known < len(said) and (shown := _shown_as(stored, agree, said[known])):
        agree, known = agree + shown, known + 1
    after = stored[agree - 1].id if agree else ""
    return HistoryMatch(after, tuple(said[known:]), forks=agree < len(stored))


def _shown_as(stored: Sequence[ConversationMessage], at: int, said: Message) -> int:
    """How many stored messages, from the index `at` on, `said` repeats: one, several shown as one, or none.

    Several are shown with an empty line between two. Each character is compared once, since a conversation may have
    very many replies in a row.
    """
    whole = _lines(said.content).strip()
    one = stored[at].message if at < len(stored) else None
    if one is not None and type(one) is type(said) and _lines(one.content).strip() == whole:
        shows_others = isinstance(one, UserMessage) and isinstance(said, UserMessage) and one.images != said.images
        return 0 if shows_others else 1
    if not isinstance(said, AssistantMessage):
        return 0
    end = 0
    for number, each in enumerate(takewhile(lambda each: each.role == "assistant", islice(stored, at, None)), 1):
        text = each.text if end else each.text.lstrip()
        if not (end or text):  # the whole one does not begin with white space
            continue
        last, shown = _lines(text).rstrip(), _lines(text + REPLY_SEPARATOR)
        if end + len(last) == len(whole) and whole.endswith(last):
            return number
        if not whole.startswith(shown, end):
            return 0
        end += len(shown)
    return 0


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")
