"""Replies: what is answered, piece by piece, wherever it comes from, and how it is written.

A turn of a chatbot, a process of a goal or a ready text is written as a chat completion or as a response, each as one
object or as a stream of events. Above: the handlers.
"""

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Protocol, final

from sse_starlette import ServerSentEvent

from goalport.base.errors import ToolError
from goalport.base.events import MessageDelta, MessageSent, ProgressUpdated
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, one_line
from goalport.models.llm import AssistantMessage, Message, TokenUsage, UserMessage
from goalport.runtime.chat import ChatbotMark, Turn, TurnResult
from goalport.runtime.chat.conversation import REPLY_SEPARATOR
from goalport.runtime.platform.runs import Runs, Watch
from goalport.runtime.process import AgentProcess, Completed, Follower, Outcome, Rested, Waiting, follow, new_id
from goalport.server.doors.openai.models import GoalModel
from goalport.server.doors.openai.requests import ResponseId, error_body
from goalport.server.publish.answers import reason_of, text_of
from goalport.server.publish.publisher import reader_left
from goalport.server.publish.questions_in_words import in_words
from goalport.server.web import Problem


@dataclass(frozen=True, slots=True)
class Text:
    """The next piece of the text."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """The next piece of what the model thinks first."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """What is being done, while nothing is said."""

    text: str


Piece = Text | Thought | Note


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """How a reply has ended."""

    usage: TokenUsage = field(default_factory=TokenUsage)
    failure: str = ""
    """Why there is no reply, or only a part of one; empty: nothing has failed."""


class Reply(Protocol):
    """A reply that is being made."""

    def pieces(self) -> AsyncGenerator[Piece]:
        """What comes, from the beginning to the end. Raises `StoreError` and `HandedOver`.

        If it is closed before its end, nobody reads the reply any more.
        """
        ...

    async def end(self) -> ReplyEnd:
        """How it has ended, after the last piece."""
        ...


@dataclass(frozen=True, slots=True)
class ReplyText:
    """A whole reply."""

    text: str
    thought: str
    end: ReplyEnd


async def gathered(reply: Reply) -> ReplyText:
    """Wait for the whole reply."""
    texts: list[str] = []
    thoughts: list[str] = []
    async with aclosing(reply.pieces()) as pieces:
        async for each in pieces:
            match each:
                case Text(text):
                    texts.append(text)
                case Thought(text):
                    thoughts.append(text)
                case Note():
                    pass
    return ReplyText("".join(texts), "".join(thoughts), await reply.end())


@final
class WholeReply:
    """A text that is there already."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def pieces(self) -> AsyncGenerator[Piece]:
        """The text."""
        yield Text(self._text)

    async def end(self) -> ReplyEnd:
        """The end, which nothing was spent for."""
        return ReplyEnd()


@final
class TurnReply:
    """What a chatbot says in a turn; what it asks is said in words at the end.

    `ask` stores a question, as it is asked here. `note` is told how the turn ended. `then` is waited for at the end, if
    it is given.
    """

    def __init__(
        self,
        turn: Turn,
        mark: ChatbotMark,
        ask: Callable[[AssistantMessage], Awaitable[None]],
        note: Callable[[TurnResult], None],
        then: "asyncio.Future[None] | None" = None,
    ) -> None:
        self._turn, self._mark, self._ask, self._note, self._then = turn, mark, ask, note, then

    async def pieces(self) -> AsyncGenerator[Piece]:
        """Its messages, with an empty line between two of them; a chatbot may stop once nobody reads them."""
        said = _Said()
        try:
            async with aclosing(self._turn.events()) as events:
                async for each in events:
                    match each:
                        case MessageDelta(message_id=message, text=text, thinking=True):
                            yield Thought(text)
                        case MessageDelta(message_id=message, text=text):
                            yield Text(said.more(message, text))
                        case MessageSent(message_id=message, text=text, role="assistant"):
                            if rest := said.rest(message, text):
                                yield Text(rest)
                        case ProgressUpdated(message=text):
                            yield Note(text)
                        case _:
                            pass
        finally:
            if not self._turn.over:
                reader_left(self._turn, self._mark)
        questions = (await self._turn.result()).questions
        if questions:
            asked = REPLY_SEPARATOR.join(map(in_words, questions))
            await self._ask(AssistantMessage(asked))
            yield Text(said.more(questions[0].id, asked))

    async def end(self) -> ReplyEnd:
        """What the turn has cost, and whether it has failed."""
        result = await self._turn.result()
        self._note(result)
        if self._then is not None:
            await asyncio.shield(self._then)
        return ReplyEnd(result.usage, result.failure)


class _Said:
    """What a reader of several messages has received."""

    def __init__(self) -> None:
        self._last = ""
        self._texts: dict[str, str] = {}

    def more(self, message: str, text: str) -> str:
        """A piece of a message as it continues the text: after an empty line where another message begins."""
        between = REPLY_SEPARATOR if self._last not in {"", message} else ""
        self._last = message
        self._texts[message] = self._texts.get(message, "") + text
        return between + text

    def rest(self, message: str, text: str) -> str:
        """What is missing of a message that is complete now."""
        known = self._texts.get(message, "")
        return self.more(message, text.removeprefix(known)) if text != known and text.startswith(known) else ""


def response_of(process: AgentProcess) -> ResponseId:
    """The id of the response that tells how the process goes on now; with each answer of a person, it is another."""
    return ResponseId(process.id, str(sum(each.status != "open" for each in process.questions)))


@final
class GoalReply:
    """The result of a process as a reply; its progress comes as notes."""

    def __init__(self, process: AgentProcess, model: GoalModel, runs: Runs, follower: Follower | None = None) -> None:
        """`follower` was there when the process began."""
        self._process, self._model, self._runs = process, model, runs
        self._items = follow(process) if follower is None else follower.follow(process)
        self._failure = ""

    async def pieces(self) -> AsyncGenerator[Piece]:
        """The progress, and then the result, or what a person has to answer.

        If nobody reads it any more, nor waits otherwise, the process is stopped, unless its goal is detached.
        """
        with Watch(self._runs.of(self._process, detached=self._model.tool.policy.detached)):
            async with aclosing(self._items) as items:
                async for each in items:
                    match each:
                        case ProgressUpdated(message=message):
                            yield Note(message)
                        case Rested(outcome=outcome) if outcome is not None:
                            yield Text(self._text_of(outcome))
                        case _:
                            pass

    async def end(self) -> ReplyEnd:
        """What the process has cost, and whether it has failed."""
        return ReplyEnd(self._process.usage, self._failure)

    def _text_of(self, outcome: Outcome) -> str:
        if isinstance(outcome, Waiting):
            return "\n\n".join(map(in_words, self._process.open_questions))
        if not isinstance(outcome, Completed):
            self._failure = reason_of(outcome, self._model.name) or ""
            return ""
        try:
            return text_of(self._model.tool.policy.output, self._model.name, outcome.value)
        except ToolError as error:
            self._failure = str(error)
            return ""


_FAILED: Final = "reply-failed"
_DONE: Final = ServerSentEvent("[DONE]", sep="\n")


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
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": _usage_of_chat(reply.end.usage),
        }

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
            yield self._event([], _usage_of_chat(end.usage))
        yield _DONE

    def failed(self, reason: str) -> Iterator[ServerSentEvent]:
        """The end of a stream that broke off."""
        error = error_body(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED.replace("-", "_"), reason)
        yield _data({"error": error})
        yield _DONE

    def _chunk(self, delta: Mapping[str, str], finish: str | None = None) -> ServerSentEvent:
        return self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])

    def _event(self, choices: Sequence[Any], usage: Mapping[str, Any] | None = None) -> ServerSentEvent:
        content = {**self._head, "object": "chat.completion.chunk", "choices": choices}
        return _data({**content, "usage": usage} if self._with_usage else content)


def comment(text: str) -> ServerSentEvent:
    """A line of a stream that readers skip, for what is being done."""
    return ServerSentEvent(comment=one_line(hide_known(text)), sep="\n")


def _data(content: Mapping[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(content, ensure_ascii=False), sep="\n")


def _finish(end: ReplyEnd) -> str:
    """Why it ended: `length` says that a part of it is missing."""
    return "length" if end.failure else "stop"


def _usage_of_chat(used: TokenUsage) -> Mapping[str, Any]:
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.tokens,
        "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
    }


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
            "usage": None if end is None else _usage_of_response(end.usage),
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


def _usage_of_response(used: TokenUsage) -> Mapping[str, Any]:
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cache_read_tokens, "cache_write_tokens": 0},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.tokens,
    }
