"""How a chat completion is written: as one object, or as a stream of chunks. Below: replies. Above: the handlers."""

import json
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, Final

from sse_starlette import ServerSentEvent

from goalport.base.secrecy import hide_known
from goalport.base.words import one_line
from goalport.models.llm import TokenUsage
from goalport.runtime.process import new_id
from goalport.server.doors.openai.errors import error_body
from goalport.server.doors.openai.replies import Note, Reply, ReplyEnd, ReplyText, Text, Thought
from goalport.server.web import Problem

_FAILED: Final = "reply-failed"


class ChatFormat:
    """How one chat completion is written."""

    def __init__(self, model: str, *, with_usage: bool = False) -> None:
        """`with_usage`: the stream tells at its end what was used."""
        self._head = {"id": f"chatcmpl-{new_id()}", "created": int(time.time()), "model": model}
        self._with_usage = with_usage

    def whole(self, reply: ReplyText) -> Mapping[str, Any]:
        """A reply as one object. Raises `Problem` if there is none."""
        if reply.end.failure and not reply.text:
            raise Problem(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED, reply.end.failure)
        message = {"role": "assistant", "content": hide_known(reply.text), "refusal": None}
        if reply.thought:
            message["reasoning_content"] = hide_known(reply.thought)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply.end)}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": _usage(reply.end.usage)}

    async def stream(self, reply: Reply) -> AsyncGenerator[ServerSentEvent]:
        """A reply as chunks: first the role, then what is said, the reason of its end, and what was used."""
        said = False
        yield self._chunk({"role": "assistant", "content": ""})
        async with aclosing(reply.pieces()) as pieces:
            async for each in pieces:
                match each:
                    case Text(text):
                        said = said or bool(text)
                        yield self._chunk({"content": hide_known(text)})
                    case Thought(text):
                        yield self._chunk({"reasoning_content": hide_known(text)})
                    case Note(text):
                        yield comment(text)
        end = await reply.end()
        if end.failure and not said:
            for event in self.failed(end.failure):
                yield event
            return
        yield self._chunk({}, finish=_finish(end))
        if self._with_usage:
            yield self._event([], _usage(end.usage))
        yield _data("[DONE]")

    def failed(self, reason: str) -> Iterator[ServerSentEvent]:
        """The end of a stream that broke off."""
        error = error_body(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED.replace("-", "_"), reason)
        yield _data(_json({"error": error}))
        yield _data("[DONE]")

    def _chunk(self, delta: Mapping[str, str], finish: str | None = None) -> ServerSentEvent:
        return self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])

    def _event(self, choices: Sequence[Any], usage: Mapping[str, Any] | None = None) -> ServerSentEvent:
        content = {**self._head, "object": "chat.completion.chunk", "choices": choices}
        return _data(_json({**content, "usage": usage} if self._with_usage else content))


def comment(text: str) -> ServerSentEvent:
    """A line of a stream that readers skip, for what is being done."""
    return ServerSentEvent(comment=one_line(hide_known(text)), sep="\n")


def _data(text: str) -> ServerSentEvent:
    return ServerSentEvent(text, sep="\n")


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False)


def _finish(end: ReplyEnd) -> str:
    """Why it ended: `length` says that a part of it is missing."""
    return "length" if end.failure else "stop"


def _usage(used: TokenUsage) -> Mapping[str, Any]:
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.tokens,
        "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
    }
