"""How a response is written: as one object, or as a stream of events. Below: replies. Above: the handlers."""

import json
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from sse_starlette import ServerSentEvent

from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.models.llm import Message, TokenUsage, UserMessage
from goalport.server.doors.openai.completions import comment
from goalport.server.doors.openai.replies import Note, Reply, ReplyEnd, ReplyText, Text, Thought


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFormat:
    """How one response is written."""

    id: str
    model: str
    conversation: str = ""
    """The id of the conversation; empty: there is none."""
    previous: str = ""
    """The id of the response that it follows; empty: none."""
    instructions: str = ""
    stored: bool = True
    created: int = field(default_factory=lambda: int(time.time()))
    """When it was asked for, in seconds since 1970."""
    completed: int | None = None
    """When it was complete, of one that is stored; None: now."""

    @property
    def begun(self) -> Mapping[str, Any]:
        """A response that is being made."""
        return _Writing(self).response([], None)

    def whole(self, reply: ReplyText) -> Mapping[str, Any]:
        """A reply as one object; a failure is told in it."""
        writing = _Writing(self)
        output = [writing.message(reply.text, "completed")] if reply.text else []
        return writing.response(output, reply.end)

    async def stream(self, reply: Reply) -> AsyncGenerator[ServerSentEvent]:
        """A reply as events: what is begun, each piece of text, what is complete, and the whole response at the end."""
        writing = _Writing(self)
        yield writing.event("response.created", response=self.begun)
        yield writing.event("response.in_progress", response=self.begun)
        said: list[str] = []
        async with aclosing(reply.pieces()) as pieces:
            async for each in pieces:
                match each:
                    case Text(text):
                        for event in () if said else writing.begin():
                            yield event
                        said.append(hide_known(text))
                        yield writing.delta(said[-1])
                    case Note(text):
                        yield comment(text)
                    case Thought():
                        pass
        text, end = "".join(said), await reply.end()
        output = [writing.message(text, "completed")] if said else []
        for event in writing.complete(text) if said else ():
            yield event
        response = writing.response(output, end)
        yield writing.event(f"response.{response['status']}", response=response)

    def failed(self, reason: str) -> Iterator[ServerSentEvent]:
        """The end of a stream that broke off."""
        writing = _Writing(self)
        yield writing.event("response.failed", response=writing.response([], ReplyEnd(failure=reason)))


class _Writing:
    """The state of one response while it is written: its item, and the number of the next event."""

    def __init__(self, written: ResponseFormat) -> None:
        self._format = written
        self._item = f"msg_{written.id}"
        self._number = 0

    def event(self, kind: str, **fields: Any) -> ServerSentEvent:
        """An event with the next number."""
        content = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return ServerSentEvent(json.dumps(content, ensure_ascii=False), event=kind, sep="\n")

    def begin(self) -> Iterator[ServerSentEvent]:
        """The message begins."""
        item = self.message(None, "in_progress")
        yield self.event("response.output_item.added", output_index=0, item=item)
        yield self.event("response.content_part.added", **self._place, part=_part(""))

    def delta(self, text: str) -> ServerSentEvent:
        """The next piece of the message."""
        return self.event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def complete(self, text: str) -> Iterator[ServerSentEvent]:
        """The message is complete."""
        yield self.event("response.output_text.done", **self._place, text=text, logprobs=[])
        yield self.event("response.content_part.done", **self._place, part=_part(text))
        yield self.event("response.output_item.done", output_index=0, item=self.message(text, "completed"))

    @property
    def _place(self) -> Mapping[str, Any]:
        return {"item_id": self._item, "output_index": 0, "content_index": 0}

    def message(self, text: str | None, status: str) -> Mapping[str, Any]:
        """The message as an item of the output; None: it has no text yet."""
        content = [] if text is None else [_part(hide_known(text))]
        return {"id": self._item, "type": "message", "role": "assistant", "status": status, "content": content}

    def response(self, output: Sequence[Mapping[str, Any]], end: ReplyEnd | None) -> Mapping[str, Any]:
        """The response; without an end, it goes on."""
        written = self._format
        status = "in_progress" if end is None else "completed" if not end.failure else _STATUS[bool(output)]
        error = {"code": "server_error", "message": cleaned(hide_known(end.failure))} if end and end.failure else None
        return {
            "id": written.id,
            "object": "response",
            "created_at": written.created,
            "completed_at": (written.completed or int(time.time())) if status == "completed" else None,
            "status": status,
            "background": False,
            "error": error if status == "failed" else None,
            "incomplete_details": {} if status == "incomplete" else None,
            "instructions": written.instructions or None,
            "metadata": {},
            "model": written.model,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": written.previous or None,
            "conversation": {"id": written.conversation} if written.conversation else None,
            "store": written.stored,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "temperature": None,
            "top_p": None,
            "usage": None if end is None else _usage(end.usage),
        }


_STATUS = {True: "incomplete", False: "failed"}
"""How a response ends that has failed: with a part of the text, or with none."""


def _part(text: str) -> Mapping[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def item_of(name: str, message: Message) -> Mapping[str, Any]:
    """A message that was said, as an item with that id."""
    item = {"id": name, "type": "message", "status": "completed"}
    if not isinstance(message, UserMessage):
        return {**item, "role": "assistant", "content": [_part(hide_known(message.content))]}
    images = (f"data:{each.media_type};base64,{b64encode(each.data).decode()}" for each in message.images)
    shown = [{"type": "input_image", "image_url": each, "detail": "auto"} for each in images]
    texts = [{"type": "input_text", "text": hide_known(message.content)}] if message.content else []
    return {**item, "role": "user", "content": [*texts, *shown]}


def _usage(used: TokenUsage) -> Mapping[str, Any]:
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cache_read_tokens, "cache_write_tokens": 0},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.tokens,
    }
