"""What a message of another agent says: texts, data and images, the goal or the chatbot that it is for, its answer.

Nothing is started here. Above: `handler`.
"""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from a2a.types import Message, Part, Role
from a2a.utils.errors import ContentTypeNotSupportedError
from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from pydantic_core import from_json

from goalport.base.errors import BadInput
from goalport.models.llm import Image
from goalport.runtime.chat import A2aMessage
from goalport.runtime.process import Question
from goalport.server.publish.forms import form_of
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.questions_in_words import Answer, Unclear, read_answer
from goalport.tools.schemas import UNREADABLE, holds_secret

SKILL: Final = "skill"
"""The member of a message's metadata that names a goal or a chatbot."""
TEXT: Final = "text/plain"
JSON: Final = "application/json"
_LONGEST_ID: Final = 256
_NO_REASON: Final = "The person said no."


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message, its JSON, and its parts."""

    message: Message
    content: Mapping[str, Any]
    text: str = ""
    data: Any = None
    images: tuple[Image, ...] = ()

    @classmethod
    def of(cls, message: Message) -> "ReceivedMessage":
        """What a message says. Raises `ContentTypeNotSupportedError`, and `BadInput` for what cannot be used."""
        content = _checked(message)
        texts, data, images = list[str](), list[Any](), list[Image]()
        for part, written in zip(message.parts, content["parts"], strict=True):
            media = part.media_type.partition(";")[0].strip().lower()
            match part.WhichOneof("content"):
                case "text" if not media or media.startswith("text/"):
                    texts.append(part.text)
                case "data" if not media or media == JSON or media.endswith("+json"):
                    data.append(written["data"])
                case "raw" if media.startswith("image/"):
                    images.append(Image(media, part.raw))
                case "raw" if media.startswith("text/") or media == JSON:
                    try:
                        text = part.raw.decode()
                        data.append(from_json(text, allow_inf_nan=False)) if media == JSON else texts.append(text)
                    except ValueError as error:
                        told = f"The file {part.filename[:100]!r} is not {media} in UTF-8: {error}"
                        raise BadInput(told) from None
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
        return cls(message, content, "\n".join(texts), data[0] if data else None, tuple(images))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the message; empty if it has none."""
        return self.content.get("metadata", {})

    def input_of(self, tool: GoalTool) -> Mapping[str, Any]:
        """The arguments of a goal: data, a text that is a JSON object, or a sentence.

        Raises `BadInput`, and `ContentTypeNotSupportedError` for files.
        """
        name = tool.tool.name
        if self.images:
            raise ContentTypeNotSupportedError(f"{name} takes no files. Send text, or data ({JSON}).")
        field, given = tool.text_field, self.data
        if given is None and self.text.lstrip().startswith("{"):
            with suppress(ValueError):
                given = from_json(self.text, allow_inf_nan=False)
        if isinstance(given, Mapping):
            typed = cast("Mapping[str, Any]", given)
            return {field: self.text, **typed} if field and self.data is not None and self.text else typed
        if given is not None:
            raise BadInput(f"The data for {name} should be a JSON object with its arguments; came {given!r:.80}.")
        if field is None:
            taken = ", ".join(tool.arguments.schema.get("properties", ())) or "no arguments"
            told = f"{name} cannot start from a sentence: it takes {taken}."
            raise BadInput(f"{told} Send an object in a data part.")
        if not self.text.strip():
            raise BadInput("Expected a message with a text, but it is empty.")
        return {field: self.text}

    def answer_to(self, question: Question) -> Answer:
        """The message as an answer: declined in the metadata, data for the form, or words. Raises `BadInput`."""
        if declined := self.metadata.get("declined"):
            return Answer(declined=declined[:2_000] if isinstance(declined, str) else self.text or _NO_REASON)
        try:
            if self.data is None:
                answer = read_answer(question, self.text)
                if isinstance(answer, Unclear):
                    raise BadInput(answer.words)
            else:
                form, data = form_of(question), cast("object", self.data)
                members = [*cast("Mapping[str, Any]", data).values()] if isinstance(data, Mapping) else []
                bare = form.schema.get("type") == "boolean" and len(members) == 1
                answer = Answer(form.read(members[0] if bare else data))
            if not answer.declined:
                question.validated(answer.response)
        except UNREADABLE:
            told = f"The answer to {question.id} cannot be read from JSON."
            raise BadInput(f"{told} Cancel the task, or decline in the metadata.") from None
        return answer

    def kept(self, context_id: str, schema: object) -> A2aMessage:
        """What is stored of the message with its process: no raw bytes, and no parts if `schema` has secrets."""
        parts: list[dict[str, Any]] = [
            {name: each for name, each in part.items() if name != "raw"} for part in self.content["parts"]
        ]
        if holds_secret(schema):
            parts = [{"text": "(Not kept, since it may hold secrets.)"}]
        content = {**self.content, "parts": parts, "contextId": context_id}
        return A2aMessage(self.message.message_id, context_id, json.dumps(content))


def _checked(message: Message) -> dict[str, Any]:
    """A message as JSON. Raises `BadInput`."""
    try:
        content = MessageToDict(message)
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
    return content


def parts_of(blocks: list[dict[str, Any]]) -> Iterator[Part]:
    """The content blocks of a result as A2A parts."""
    for block in blocks:
        match block:
            case {"type": "text", "text": text}:
                yield Part(text=text)
            case {"type": "resource_link", "uri": uri}:
                yield Part(url=uri, filename=block.get("name", ""), media_type=block.get("mimeType", ""))
            case {"type": "image" | "audio", "data": data, "mimeType": media}:
                yield Part(raw=b64decode(data), media_type=media)
            case {"type": "resource", "resource": {"uri": uri, **resource}}:
                part = Part(filename=str(uri).rpartition("/")[2], media_type=resource.get("mimeType", ""))
                if "blob" in resource:
                    part.raw = b64decode(resource["blob"])
                else:
                    part.text = resource["text"]
                yield part
            case _:
                yield Part(text=json.dumps(block))
