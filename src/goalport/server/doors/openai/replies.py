"""Replies, piece by piece, and their formats.

A reply is made from a turn of a chatbot, a process of a goal or a ready text. It is formatted as a chat completion or
as a response, each as one object or as a stream of events. Above: the handlers.
"""

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple

from sse_starlette import ServerSentEvent

from goalport.base.errors import ToolError
from goalport.base.events import MessageDelta, MessageSent, ProgressUpdated
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, one_line
from goalport.models.llm import AssistantMessage, Message, TokenUsage, UserMessage
from goalport.runtime.chat import ChatbotMark, Turn, TurnResult
from goalport.runtime.chat.conversation import REPLY_SEPARATOR
from goalport.runtime.platform.runs import Runs, Watch
from goalport.runtime.process import AgentProcess, Completed, Follower, Rested, Waiting, follow, new_id
from goalport.server.doors.openai.requests import GoalModel, error_body
from goalport.server.publish.answers import reason_of, text_of
from goalport.server.publish.publisher import on_client_disconnect
from goalport.server.publish.questions_in_words import in_words
from goalport.server.web.endpoint import Problem


class Piece(NamedTuple):
    """The next piece of the text, or of the thoughts of the model before it; a note reports progress in between."""

    kind: Literal["text", "thought", "note"]
    text: str


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """How a reply has ended."""

    usage: TokenUsage = field(default_factory=TokenUsage)
    failure: str = ""
    """Why there is no reply, or only a part of one; empty: nothing has failed."""


Reply = AsyncGenerator[Piece | ReplyEnd]
"""A reply that is being made: its pieces, and at last its end. Raises `StoreError` and `HandedOver`.

Closing the generator before its end says that nobody reads the reply any more.
"""


@dataclass(frozen=True, slots=True)
class ReplyText:
    """A whole reply."""

    text: str
    thought: str = ""
    end: ReplyEnd = ReplyEnd()


async def gathered(reply: Reply) -> ReplyText:
    """Wait for the whole reply."""
    pieces, end = list[Piece](), ReplyEnd()
    async with aclosing(reply):
        async for each in reply:
            if isinstance(each, ReplyEnd):
                end = each
            else:
                pieces.append(each)
    text, thought = ("".join(each.text for each in pieces if each.kind == kind) for kind in ("text", "thought"))
    return ReplyText(text, thought, end)


async def whole_reply(text: str) -> Reply:
    """The reply with a ready text, for which no tokens are counted."""
    yield Piece("text", text)
    yield ReplyEnd()


async def turn_reply(
    turn: Turn,
    mark: ChatbotMark,
    ask: Callable[[AssistantMessage], Awaitable[None]],
    note: Callable[[TurnResult], None],
    then: "asyncio.Future[None] | None" = None,
) -> Reply:
    """The messages of a chatbot in a turn, with an empty line between two; its questions follow in words at the end.

    `ask` stores the questions, as they are worded here. `note` is called with the result of the turn. `then` is awaited
    at the end, if passed. Some chatbots (`mark`) stop if nobody reads the reply any more.
    """
    texts: dict[str, str] = {}
    last = ""

    def more(message: str, text: str) -> Piece:
        nonlocal last
        between = REPLY_SEPARATOR if last not in {"", message} else ""
        last, texts[message] = message, texts.get(message, "") + text
        return Piece("text", between + text)

    try:
        async with aclosing(turn.events()) as events:
            async for each in events:
                match each:
                    case MessageDelta(text=text, thinking=True):
                        yield Piece("thought", text)
                    case MessageDelta(message_id=message, text=text):
                        yield more(message, text)
                    case MessageSent(message_id=message, text=text, role="assistant"):
                        known = texts.get(message, "")
                        if text != known and text.startswith(known):
                            yield more(message, text.removeprefix(known))
                    case ProgressUpdated(message=text):
                        yield Piece("note", text)
                    case _:
                        pass
    finally:
        if not turn.over:
            on_client_disconnect(turn, mark)
    result = await turn.result()
    if questions := result.questions:
        asked = REPLY_SEPARATOR.join(map(in_words, questions))
        await ask(AssistantMessage(asked))
        yield more(questions[0].id, asked)
    note(result)
    if then is not None:
        await asyncio.shield(then)
    yield ReplyEnd(result.usage, result.failure)


async def goal_reply(process: AgentProcess, model: GoalModel, runs: Runs, follower: Follower | None = None) -> Reply:
    """The result of a process, or its open questions in words; its progress comes as notes.

    `follower` has followed the process since it began. If nobody reads the reply any more, and no other request waits
    for the process, it is stopped, unless its goal is detached.
    """
    policy, text, failure = model.tool.policy, "", ""
    with Watch(runs.of(process, detached=policy.detached)):
        async with aclosing(follow(process) if follower is None else follower.follow(process)) as items:
            async for each in items:
                match each:
                    case ProgressUpdated(message=message):
                        yield Piece("note", message)
                    case Rested(outcome=outcome) if outcome is not None:
                        try:
                            if isinstance(outcome, Waiting):
                                text = "\n\n".join(map(in_words, process.open_questions))
                            elif isinstance(outcome, Completed):
                                text = text_of(policy.output, model.name, outcome.value)
                            else:
                                failure = reason_of(outcome, model.name) or ""
                        except ToolError as error:
                            failure = str(error)
                        yield Piece("text", text)
                    case _:
                        pass
    yield ReplyEnd(process.usage, failure)


_FAILED: Final = "reply-failed"
_DONE: Final = ServerSentEvent("[DONE]", sep="\n")


def _event(content: Mapping[str, Any], kind: str | None = None) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(content, ensure_ascii=False), event=kind, sep="\n")


class ChatFormat:
    """The format of one chat completion."""

    def __init__(self, model: str, *, with_usage: bool = False) -> None:
        """`with_usage`: the stream ends with the numbers of tokens used."""
        self._head = {"id": f"chatcmpl-{new_id()}", "created": int(time.time()), "model": model}
        self._with_usage = with_usage

    def whole(self, reply: ReplyText) -> Mapping[str, Any]:
        """A reply as one object. Raises `Problem` if there is none."""
        end = reply.end
        if end.failure and not reply.text:
            raise Problem(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED, end.failure)
        message = {"role": "assistant", "content": hide_known(reply.text), "refusal": None}
        if reply.thought:
            message["reasoning_content"] = hide_known(reply.thought)
        # `length` says that a part is missing.
        finish = "length" if end.failure else "stop"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": _usage_of_chat(end.usage)}

    async def stream(self, reply: Reply) -> AsyncGenerator[ServerSentEvent]:
        """A reply as chunks: first the role, then the text, the finish reason, and the usage."""
        has_text = False
        yield self._chunk({"role": "assistant", "content": ""})
        async with aclosing(reply):
            async for each in reply:
                match each:
                    case Piece("text", text):
                        has_text = has_text or bool(text)
                        yield self._chunk({"content": hide_known(text)})
                    case Piece("thought", text):
                        yield self._chunk({"reasoning_content": hide_known(text)})
                    case Piece(_, text):  # readers skip comments
                        yield ServerSentEvent(comment=one_line(hide_known(text)), sep="\n")
                    case ReplyEnd(failure=failure) if failure and not has_text:
                        for event in self.failed(failure):
                            yield event
                    case ReplyEnd(usage, failure):
                        yield self._chunk({}, finish="length" if failure else "stop")
                        if self._with_usage:
                            yield self._chunk(None, usage=_usage_of_chat(usage))
                        yield _DONE

    def failed(self, reason: str) -> Iterator[ServerSentEvent]:
        """The end of a stream that broke off."""
        error = error_body(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED.replace("-", "_"), reason)
        yield _event({"error": error})
        yield _DONE

    def _chunk(
        self, delta: Mapping[str, str] | None, finish: str | None = None, usage: Mapping[str, Any] | None = None
    ) -> ServerSentEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        content = {**self._head, "object": "chat.completion.chunk", "choices": [] if delta is None else [choice]}
        return _event({**content, "usage": usage} if self._with_usage else content)


def _usage_of_chat(used: TokenUsage) -> Mapping[str, Any]:
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.tokens,
        "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
    }


@dataclass(slots=True, kw_only=True)
class ResponseFormat:
    """The format of one response; its events are numbered."""

    id: str
    model: str
    conversation: str = ""
    """The id of the conversation; empty: there is none."""
    previous: str = ""
    """The id of the previous response; empty: there is none."""
    instructions: str = ""
    stored: bool = True
    created: int = field(default_factory=lambda: int(time.time()))
    """The time of the request, in seconds since 1970."""
    completed: int | None = None
    """When a stored response was completed, in seconds since 1970; None: now."""
    _number: int = field(default=0, init=False)
    """The number of the next event."""

    def whole(self, reply: ReplyText | None) -> Mapping[str, Any]:
        """The response as one object, with its failure, if any; without a reply it is in progress."""
        if reply is None:
            return self._response([], None)
        return self._response([self._message(reply.text, "completed")] if reply.text else [], reply.end)

    async def stream(self, reply: Reply) -> AsyncGenerator[ServerSentEvent]:
        """A reply as events: what has begun, each piece of text, what is complete, and at last the whole response."""
        begun = self.whole(None)
        yield self._numbered("response.created", response=begun)
        yield self._numbered("response.in_progress", response=begun)
        texts: list[str] = []
        place = {"item_id": f"msg_{self.id}", "output_index": 0, "content_index": 0}
        async with aclosing(reply):
            async for each in reply:
                match each:
                    case Piece("text", text):
                        if not texts:
                            item = self._message(None, "in_progress")
                            yield self._numbered("response.output_item.added", output_index=0, item=item)
                            yield self._numbered("response.content_part.added", **place, part=_part(""))
                        texts.append(hide_known(text))
                        yield self._numbered("response.output_text.delta", **place, delta=texts[-1], logprobs=[])
                    case Piece("note", text):
                        yield ServerSentEvent(comment=one_line(hide_known(text)), sep="\n")
                    case Piece():
                        pass
                    case ReplyEnd():
                        text = "".join(texts)
                        item = self._message(text, "completed")
                        if texts:
                            yield self._numbered("response.output_text.done", **place, text=text, logprobs=[])
                            yield self._numbered("response.content_part.done", **place, part=_part(text))
                            yield self._numbered("response.output_item.done", output_index=0, item=item)
                        response = self._response([item] if texts else [], each)
                        yield self._numbered(f"response.{response['status']}", response=response)

    def failed(self, reason: str) -> Iterator[ServerSentEvent]:
        """The end of a stream that broke off."""
        yield self._numbered("response.failed", response=self._response([], ReplyEnd(failure=reason)))

    def _numbered(self, kind: str, **fields: Any) -> ServerSentEvent:
        content = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return _event(content, kind)

    def _message(self, text: str | None, status: str) -> Mapping[str, Any]:
        """The message as an item of the output; None: it has no text yet."""
        content = [] if text is None else [_part(hide_known(text))]
        return {"id": f"msg_{self.id}", "type": "message", "role": "assistant", "status": status, "content": content}

    def _response(self, output: Sequence[Mapping[str, Any]], end: ReplyEnd | None) -> Mapping[str, Any]:
        """The response; without `end`, it is in progress. A failed response has a part of the text, or none."""
        status, error, usage = "in_progress" if end is None else "completed", None, None
        if end is not None:
            usage = {
                "input_tokens": end.usage.input_tokens,
                "input_tokens_details": {"cached_tokens": end.usage.cache_read_tokens, "cache_write_tokens": 0},
                "output_tokens": end.usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": end.usage.tokens,
            }
        if end is not None and end.failure:
            status = "incomplete" if output else "failed"
            error = {"code": "server_error", "message": cleaned(hide_known(end.failure))}
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": (self.completed or int(time.time())) if status == "completed" else None,
            "status": status,
            "background": False,
            "error": error if status == "failed" else None,
            "incomplete_details": {} if status == "incomplete" else None,
            "instructions": self.instructions or None,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": self.previous or None,
            "conversation": {"id": self.conversation} if self.conversation else None,
            "store": self.stored,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "temperature": None,
            "top_p": None,
            "usage": usage,
        }


def _part(text: str) -> Mapping[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def item_of(name: str, message: Message) -> Mapping[str, Any]:
    """A stored message as an item with the id `name`."""
    item = {"id": name, "type": "message", "status": "completed"}
    if not isinstance(message, UserMessage):
        return {**item, "role": "assistant", "content": [_part(hide_known(message.content))]}
    images = (f"data:{each.media_type};base64,{b64encode(each.data).decode()}" for each in message.images)
    shown = [{"type": "input_image", "image_url": each, "detail": "auto"} for each in images]
    texts = [{"type": "input_text", "text": hide_known(message.content)}] if message.content else []
    return {**item, "role": "user", "content": [*texts, *shown]}
