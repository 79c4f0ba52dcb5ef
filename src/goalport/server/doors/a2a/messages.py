"""What a message of another agent says: texts, data and images, and the goal or the chatbot that it is for.

Nothing is started here. Above: `handler`.
"""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from a2a.types import Message, Part, Role
from a2a.utils.errors import ContentTypeNotSupportedError
from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import Message as Protobuf
from pydantic_core import from_json

from goalport.agents.domain import UserInput
from goalport.base.errors import BadInput, UnknownName
from goalport.base.words import listed
from goalport.models.llm import Image
from goalport.runtime.chat import A2aMessage, AgentProcessChatbot
from goalport.server.auth import current_caller
from goalport.server.publish.goal_tools import GoalTool, Offer
from goalport.server.web.endpoint import HttpDoor
from goalport.tools.schemas import holds_secret

SKILL: Final = "skill"
"""The member of a message's metadata that names a goal or a chatbot."""
TEXT: Final = "text/plain"
JSON: Final = "application/json"
_LONGEST_ID: Final = 256
Offered: TypeAlias = GoalTool | AgentProcessChatbot


def as_json(message: Protobuf) -> dict[str, Any]:
    """A message of the protocol as JSON."""
    return MessageToDict(message)


@dataclass(frozen=True, slots=True)
class Said:
    """The parts of a message."""

    text: str = ""
    data: Any = None
    images: tuple[Image, ...] = ()

    @classmethod
    def of(cls, message: Message) -> "Said":
        """What a message says. Raises `ContentTypeNotSupportedError`, and `BadInput` for what cannot be read."""
        texts: list[str] = []
        data: list[Any] = []
        images: list[Image] = []
        for part in message.parts:
            media = part.media_type.partition(";")[0].strip().lower()
            match part.WhichOneof("content"):
                case "text" if not media or media.startswith("text/"):
                    texts.append(part.text)
                case "data" if not media or media == JSON or media.endswith("+json"):
                    data.append(as_json(part)["data"])
                case "raw" if media.startswith("image/"):
                    images.append(Image(media, part.raw))
                case "raw" if media.startswith("text/") or media == JSON:
                    _read_file(part, media, texts, data)
                case None:
                    raise BadInput("A part has no content: expected text, data, or raw bytes with their mediaType.")
                case kind:
                    raise ContentTypeNotSupportedError(
                        f"A part of kind {kind} with the media type {media[:100]!r} is not taken. Send text, data"
                        f" ({JSON}), or the bytes of an image, of {TEXT} or of {JSON}; files are not fetched."
                    )
        if len(data) > 1:
            if not all(isinstance(each, Mapping) for each in data):
                raise BadInput("Several data parts are taken together, and each of them has to be an object.")
            data = [{name: value for each in data for name, value in each.items()}]
        return cls("\n".join(texts), data[0] if data else None, tuple(images))


def _read_file(part: Part, media: str, texts: list[str], data: list[Any]) -> None:
    try:
        text = part.raw.decode()
        if media == JSON:
            data.append(from_json(text, allow_inf_nan=False))
        else:
            texts.append(text)
    except ValueError as error:
        raise BadInput(f"The file {part.filename[:100]!r} is not {media} in UTF-8: {error}") from None


class Offers:
    """What one address of the door offers to the caller of a request: all of the server, or what one agent does."""

    def __init__(self, door: HttpDoor, agent: str) -> None:
        platform, caller = door.publisher.platform, current_caller()
        published = door.access.publication.tools.items()
        goals = {name: each for name, each in published if isinstance(each, GoalTool) and not each.is_tool}
        chatbots = {name: each for name, each in platform.chatbots.items() if platform.may_chat(caller, each)}
        self.agent, self._platform = agent, platform
        self.skills: Mapping[str, Offered] = {
            name: each for name, each in {**chatbots, **goals}.items() if agent in {"", agent_of(each)}
        }
        """The goals and chatbots that the caller may use, by the ids of their skills."""

    def chosen(self, message: Message, said: Said) -> Offered:
        """What a message is for: what it names, the only thing there is, what its data fits, or a choice by its text.

        Raises `BadInput` and `UnknownName`.
        """
        named = as_json(message).get("metadata", {}).get(SKILL)
        if named is not None:
            if named not in self.skills:
                raise UnknownName("skill", str(named)[:100], self.skills)
            return self.skills[named]
        if len(self.skills) == 1:
            return next(iter(self.skills.values()))
        ask = f"Name one in the metadata of the message, as {SKILL}: {listed(self.skills) or 'there is none here'}."
        if isinstance(said.data, Mapping):
            fitting = [each for each in self.skills.values() if isinstance(each, GoalTool) and _fits(each, said)]
            if len(fitting) != 1:
                told = "fits several skills" if fitting else "fits no skill"
                raise BadInput(f"The data {told}. {ask}")
            return fitting[0]
        by_sentence = [each for each in self.skills.values() if takes_text(each)]
        if self.agent and len(by_sentence) == 1:
            return by_sentence[0]
        front = self._platform.agents.front
        if self.agent or front is None or not self.skills:
            raise BadInput(f"Which skill is meant does not follow from the message. {ask}")
        if (published := self.skills.get(front.goals[0].export.name)) is not None:
            return published
        return GoalTool.of(Offer("achieve", front, front.goals, (UserInput,), "", may_ask=True, asks_models=True))


def agent_of(offered: Offered) -> str:
    """The name of the agent that has a skill."""
    return offered.agent.name if isinstance(offered, GoalTool) else offered.name


def takes_text(offered: Offered) -> bool:
    """Whether a sentence is enough for it."""
    return not isinstance(offered, GoalTool) or offered.text_field is not None


def _fits(tool: GoalTool, said: Said) -> bool:
    with suppress(BadInput):
        tool.arguments.read(input_of(tool, said))
        return True
    return False


def input_of(tool: GoalTool, said: Said) -> Mapping[str, Any]:
    """The arguments of a goal in what was said: data, a text that is a JSON object, or a sentence.

    Raises `BadInput`, and `ContentTypeNotSupportedError` for files.
    """
    if said.images:
        raise ContentTypeNotSupportedError(f"{tool.tool.name} takes no files. Send text, or data ({JSON}).")
    field, given = tool.text_field, said.data
    if given is None and said.text.lstrip().startswith("{"):
        with suppress(ValueError):
            given = from_json(said.text, allow_inf_nan=False)
    if isinstance(given, Mapping):
        typed = cast("Mapping[str, Any]", given)
        return {field: said.text, **typed} if field and said.data is not None and said.text else typed
    if given is not None:
        raise BadInput(f"The data for {tool.tool.name} should be a JSON object with its arguments; came {given!r:.80}.")
    if field is None:
        taken = ", ".join(tool.arguments.schema.get("properties", ())) or "no arguments"
        told = f"{tool.tool.name} cannot start from a sentence: it takes {taken}."
        raise BadInput(f"{told} Send an object in a data part.")
    if not said.text.strip():
        raise BadInput("Expected a message with a text, but it is empty.")
    return {field: said.text}


def checked(message: Message) -> Message:
    """A message whose ids and role can be used. Raises `BadInput`."""
    try:
        as_json(message)
    except SerializeToJsonError as error:
        raise BadInput(f"The message holds what JSON does not have: {error}") from None
    problems = [
        f"{name}: should have at most {_LONGEST_ID} characters; came {len(value)}"
        for name, value in (("messageId", message.message_id), ("contextId", message.context_id))
        if len(value) > _LONGEST_ID
    ]
    if message.role != Role.ROLE_USER:
        problems.append("role: should be ROLE_USER in what a client sends")
    if problems:
        raise BadInput("\n".join(problems), problems)
    return message


def kept(message: Message, context_id: str, schema: object) -> A2aMessage:
    """What is kept of a message with its process; of one whose arguments may hold secrets, no parts."""
    content = as_json(message)
    for part in content["parts"]:
        part.pop("raw", None)
    if holds_secret(schema):
        content["parts"] = [{"text": "(Not kept, since it may hold secrets.)"}]
    return A2aMessage(message.message_id, context_id, json.dumps({**content, "contextId": context_id}))


def parts_of(blocks: list[dict[str, Any]]) -> Iterator[Part]:
    """Content blocks, as goals give them, as parts."""
    for block in blocks:
        match block:
            case {"type": "text", "text": text}:
                yield Part(text=text)
            case {"type": "resource_link", "uri": uri}:
                yield Part(url=uri, filename=block.get("name", ""), media_type=block.get("mimeType", ""))
            case {"type": "image" | "audio", "data": data, "mimeType": media}:
                yield Part(raw=b64decode(data), media_type=media)
            case {"type": "resource", "resource": {"uri": uri, **resource}}:
                name, media = str(uri).rpartition("/")[2], resource.get("mimeType", "")
                if "blob" in resource:
                    yield Part(raw=b64decode(resource["blob"]), filename=name, media_type=media)
                else:
                    yield Part(text=resource["text"], filename=name, media_type=media)
            case _:
                yield Part(text=json.dumps(block))
