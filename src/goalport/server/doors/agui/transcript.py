"""The messages of a front end beside those of the stored conversation: what is new, and what the front end lacks.

A front end sends all messages that it has with each run, among them what it made of calls of tools and of reasoning.
Only what was said counts for the conversation. Pure functions. `runs` is above.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    ContentPart,
    DeveloperMessage,
    Message as AguiMessage,
    StateDeltaEvent,
    StateSnapshotEvent,
    SystemMessage,
    UserMessage,
)
from ag_ui.core.types import DataSource, ImagePart, TextPart

from goalport.base.errors import BadInput
from goalport.models.llm import AssistantMessage as Reply, Image, Message, UserMessage as Said
from goalport.runtime.chat import ConversationMessage, compare

_NO_IMAGE: Final = "only images that come with the message are taken: a part of type image, with a source of type data"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run asks of a conversation."""

    message: Said
    """What a person says."""
    earlier: tuple[Message, ...] = ()
    """What was said before it, of which the conversation knows nothing."""
    after: str | None = None
    """The id of the message that it follows; empty: it is the first; None: it follows the last one."""


@dataclass(frozen=True, slots=True)
class Again:
    """A run asks for another reply to what a person said."""

    message_id: str
    """The id of that message in the conversation."""


def asked(entries: Sequence[ConversationMessage], given: Sequence[AguiMessage], state: object) -> Asked | Again | None:
    """What is new in the messages of a front end; None: nothing that somebody has to answer.

    `entries` is the branch of the conversation that is shown. If the front end's messages end where the conversation
    ended when it last saw it, or if it has none of the conversation, what is new follows the end, whatever was said
    meanwhile elsewhere. Otherwise messages were edited, and the conversation is forked. Raises `BadInput` for what
    cannot be taken.
    """
    messages = _as_stored(given, entries)
    match, seen = compare(entries, messages), member_of(state, "conversation", "head")
    if match.tail:
        *earlier, last = match.tail
        if isinstance(last, Said) and last.is_empty:
            place = max(number for number, each in enumerate(given) if isinstance(each, UserMessage))
            problem = f"messages[{place}].content: should have a text or an image, but is empty"
            raise BadInput(problem, [problem])
        is_edited = match.forks and match.after != (seen or "")
        return Asked(last, tuple(earlier), match.after if is_edited else None) if isinstance(last, Said) else None
    asks = bool(messages) and isinstance(messages[-1], Said)
    return Again(match.after) if asks and (match.after != seen or not match.forks) else None


def _as_stored(given: Sequence[AguiMessage], entries: Sequence[ConversationMessage]) -> list[Message]:
    """What was said; of a reply whose stream was cut, what the conversation has of it."""
    replies = {each.id: each.message for each in entries if each.role == "assistant"}
    spoken = ((each, _said(each, f"messages[{number}]")) for number, each in enumerate(given))
    return [replies.get(each.id, message) for each, message in spoken if message is not None]


def _said(message: AguiMessage, place: str) -> Message | None:
    match message:
        case UserMessage(content=content):
            return _spoken(content, place)
        case AssistantMessage(content=content) if content:
            return Reply(content)
        case _:
            return None


def _spoken(content: str | list[ContentPart], place: str) -> Said:
    if isinstance(content, str):
        return Said(content)
    texts = [each.text for each in content if isinstance(each, TextPart)]
    images = [
        _image(each, f"{place}.content[{number}]")
        for number, each in enumerate(content)
        if not isinstance(each, TextPart)
    ]
    return Said("\n".join(texts), tuple(images))


def _image(part: ContentPart, place: str) -> Image:
    if not isinstance(part, ImagePart) or not isinstance(part.source, DataSource):
        kind = part.type if not isinstance(part, ImagePart) else f"image by {part.source.type}"
        problem = f"{place}: {_NO_IMAGE}; came {kind}"
        raise BadInput(problem, [problem])
    try:
        return Image(part.source.mime_type, base64.b64decode(part.source.value, validate=True))
    except binascii.Error as error:
        problem = f"{place}.source.value: should be base64: {error}"
    except BadInput as error:
        problem = f"{place}.source: {error}"
    raise BadInput(problem, [problem])


def instructions(given: Sequence[AguiMessage]) -> str:
    """The instructions among the messages of a front end, as one text."""
    return "\n\n".join(each.content for each in given if isinstance(each, SystemMessage | DeveloperMessage))


def last_text(given: Sequence[AguiMessage]) -> str:
    """What a person said last. Raises `BadInput` if nobody has said anything in words."""
    message = next((each for each in reversed(given) if isinstance(each, UserMessage)), None)
    text = _spoken(message.content, "messages").content if message is not None else ""
    if not text.strip():
        raise BadInput("Expected a message of the user with a text, but there is none.")
    return text


def merged(given: Sequence[AguiMessage], entries: Sequence[ConversationMessage]) -> list[AguiMessage]:
    """All messages of a conversation as the front end has to show them: its own where it has them, with what it made.

    What it has and the conversation has not, since it was edited or said elsewhere, is left out.
    """
    whole: list[AguiMessage] = []
    place = 0
    for each in entries:
        if each.role == "system":
            continue
        found = next((at for at in range(place, len(given)) if _is(given[at], each)), None)
        if found is None:
            whole.extend(_shown(each))
            continue
        whole += [other for other in given[place:found] if _said(other, "") is None]
        # Of a reply whose stream was cut, the front end has a part.
        whole.extend([given[found]] if _says(given[found], each) else _shown(each))
        place = found + 1
    return whole + [other for other in given[place:] if _said(other, "") is None]


def _is(given: AguiMessage, entry: ConversationMessage) -> bool:
    message = _said(given, "")
    return message is not None and (given.id == entry.id or _says(given, entry))


def _says(given: AguiMessage, entry: ConversationMessage) -> bool:
    message = _said(given, "")
    return message is not None and bool(compare([entry], [message]).after)


def _shown(entry: ConversationMessage) -> Iterator[AguiMessage]:
    message = entry.message
    if isinstance(message, Reply):
        yield AssistantMessage(id=entry.id, content=message.content)
    elif isinstance(message, Said):
        yield UserMessage(id=entry.id, name=entry.name or None, content=_content(message))


def _content(message: Said) -> str | list[ContentPart]:
    if not message.images:
        return message.content
    sources = [
        DataSource(value=base64.b64encode(each.data).decode(), mime_type=each.media_type) for each in message.images
    ]
    return [TextPart(text=message.content), *(ImagePart(source=each) for each in sources)]


STATE: Final = "goalport"
"""The member of the state that the server sets. All others are the front end's own."""


class SharedState:
    """The state of one run. Nothing is told in a state that is no JSON object."""

    def __init__(self, given: object) -> None:
        self._kept: Mapping[str, Any] | None = {} if given is None else None
        if isinstance(given, Mapping):
            self._kept = cast("Mapping[str, Any]", given)
        self._told: dict[str, object] = {}

    def snapshot(self, **told: object) -> Iterator[BaseEvent]:
        """The event that gives the front end the whole state, with `told` in it."""
        self._told.update(told)
        if self._kept is not None:
            yield StateSnapshotEvent(snapshot={**self._kept, STATE: {**self._told}})

    def change(self, name: str, value: object) -> Iterator[BaseEvent]:
        """The event that sets one member of what the server tells; none if it is so already."""
        if name in self._told and self._told[name] == value:
            return
        self._told[name] = value
        if self._kept is not None:
            patch = {"op": "add", "path": f"/{STATE}/{name}", "value": value}
            yield StateDeltaEvent.model_validate({"delta": [patch]})


def member_of(state: object, *path: str) -> object:
    """What a front end has at a place of the state that the server told it before; None: nothing."""
    value = state
    for name in (STATE, *path):
        value = cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None
    return value
