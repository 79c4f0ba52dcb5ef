"""The door itself (`site.app.Door`): its paths, how clients find them, and the handlers of completions and responses.

It neither listens nor mounts its routes; `site` does. Below: requests, conversations and replies.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, Field
from pydantic_core import to_jsonable_python
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from goalport.base.errors import AlreadyAnswered, HandedOver, ModelError, StoreError
from goalport.models.llm import Message, UserMessage
from goalport.runtime.chat import ChatSession, cheapest
from goalport.runtime.chat.conversation import REPLY_SEPARATOR
from goalport.runtime.platform.runs import process_of
from goalport.runtime.process import AgentProcess, Follower, new_id
from goalport.server.auth import Access, current_caller
from goalport.server.doors.openai import conversations
from goalport.server.doors.openai.replies import (
    ChatFormat,
    Reply,
    ReplyEnd,
    ReplyText,
    ResponseFormat,
    gathered,
    goal_reply,
    item_of,
    turn_reply,
    whole_reply,
)
from goalport.server.doors.openai.requests import (
    CONVERSATION,
    ChatbotModel,
    ChatRequest,
    GoalModel,
    Models,
    ResponseId,
    ResponseRequest,
    for_user,
    named_conversation,
    read_request,
    refusal,
    unsupported,
)
from goalport.server.publish.calls import unavailable_words
from goalport.server.publish.limits import LimitReached
from goalport.server.publish.publisher import Publisher, counted_turn, note_turn, start_goal
from goalport.server.publish.questions_in_words import Unclear, asked_in
from goalport.server.web.endpoint import (
    AnswerStream,
    Handler,
    HttpDoor,
    Problem,
    admitted,
    body_of,
    call_of,
    read,
    while_client_stays,
)

_log = logging.getLogger(__name__)
_ROOT: Final = "/v1"
_PATHS: Final = "Below {root}/v1 there are models, chat/completions and responses."
_RETRIES: Final = "x-stainless-retry-count"
"""The header by which OpenAI's clients say how often they have sent a request before."""
_TASK: Final = "### Task:"
"""The beginning of a message that a chat interface sends by itself, for example to get a title."""
_FORM: Final = re.compile(
    r'### \W{0,9}Output\b[^\n]{0,200}\n[^\n{#]{0,100}JSON[^{#]{0,100}\{\s{0,20}"(?P<name>\w{1,20})"'
)
"""The section with the format: `JSON format: { "title": "…" }`. Bounded repeats keep the search in long texts quick."""
_EMPTY: Final[Mapping[str, object]] = {
    "title": "",
    "prompt": "",
    "text": "",
    "tags": [],
    "follow_ups": [],
    "queries": [],
}
"""The values to answer with if no model can, by the member that a chat interface asks for."""
_AnyRequest = ChatRequest | ResponseRequest


@dataclass(frozen=True, slots=True)
class _StartedReply:
    """A reply that has begun, with its conversation or its process."""

    reply: Reply
    session: ChatSession | None = None
    process: AgentProcess | None = None

    def format_for(self, asked: _AnyRequest) -> ChatFormat | ResponseFormat:
        """The format for the reply to a request, with the id by which a later request continues from this reply."""
        if isinstance(asked, ChatRequest):
            return ChatFormat(asked.model, with_usage=asked.stream_options.include_usage)
        name, conversation = ResponseId(new_id()), ""
        if self.session is not None:
            conversation = self.session.conversation.id
            message_id = next(each.id for each in reversed(self.session.conversation.entries) if each.role == "user")
            name = ResponseId(conversation, message_id) if asked.store else name
        elif self.process is not None and asked.store:
            name = ResponseId.of_process(self.process)
        return ResponseFormat(
            id=str(name),
            model=asked.model,
            conversation=conversation,
            previous=asked.previous_response_id,
            instructions=asked.instructions,
            stored=asked.store,
        )


async def _streamed(reply: Reply, reply_format: ChatFormat | ResponseFormat) -> AsyncGenerator[ServerSentEvent]:
    try:
        async with aclosing(reply_format.stream(reply)) as events:
            async for each in events:
                yield each
    except (HandedOver, StoreError) as error:
        for each in reply_format.failed(unavailable_words(error)):
            yield each


class OpenAiDoor:
    """Chatbots and goals as the models of OpenAI's API."""

    exposed_headers: Sequence[str] = (CONVERSATION, "Retry-After", "x-should-retry")
    """The response headers that web pages of other origins may read (CORS)."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        door = HttpDoor("openai", _ROOT, publisher, access, refusal, _PATHS)
        self._publisher, self._platform, self._settings = publisher, publisher.platform, publisher.settings
        self._models = models = Models(door)
        self._forgetting: set[asyncio.Task[None]] = set()
        stored = StoredResponses(door, models)

        self.routes: Sequence[Route] = [
            door.start_route(f"{_ROOT}/chat/completions", POST=partial(self._answer, ChatRequest)),
            door.start_route(f"{_ROOT}/responses", POST=partial(self._answer, ResponseRequest)),
            door.route(f"{_ROOT}/responses/{{id:path}}/cancel", POST=stored.cancel),
            door.route(f"{_ROOT}/responses/{{id:path}}/input_items", GET=stored.input_items),
            door.route(f"{_ROOT}/responses/{{id:path}}", GET=stored.show, DELETE=stored.delete),
            door.route(f"{_ROOT}/models", GET=models.list),
            door.route(f"{_ROOT}/models/{{id:path}}", GET=models.show),
            door.route(f"{_ROOT}/{{unknown:path}}"),
        ]

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        yield f"OpenAI's API, for chats: {address}{_ROOT}"

    def refusal(self, status: HTTPStatus, kind: str, detail: str, /) -> Response:
        """A refusal by the site, as an error of OpenAI's API."""
        return refusal(Problem(status, kind, detail))

    async def _answer(self, kind: type[ChatRequest] | type[ResponseRequest], request: Request) -> Response:
        """Answer the last message of a history, or the input of a response."""
        body = await body_of(request)
        asked = read_request(kind, body)
        conversation_id = named_conversation(request, self._settings.auth, current_caller())
        async with AsyncExitStack() as place:
            place.enter_context(for_user(request, self._settings.auth))
            call = call_of(request)
            call.caller, call.arguments = current_caller(), tuple(body)
            model = self._models.named(asked.model)
            call.name = asked.model
            await place.enter_async_context(admitted(self._publisher.limits, request, begins=True))
            begun = await self._asked_by_interface(asked)
            if begun is None:
                is_chatbot = isinstance(model, ChatbotModel)
                begun = await (
                    self._reply_of_chatbot(request, asked, model, conversation_id)
                    if is_chatbot
                    else self._reply_of_goal(request, asked, model)
                )
            headers = {} if begun.session is None else {CONVERSATION: begun.session.conversation.id}
            reply_format = begun.format_for(asked)
            if asked.stream:
                events = _streamed(begun.reply, reply_format)
                return AnswerStream(events, self._settings.heartbeat_seconds, place.pop_all(), headers)
            reply = await while_client_stays(request, gathered(begun.reply))
            return JSONResponse(reply_format.whole(reply), headers=headers)

    async def _asked_by_interface(self, asked: _AnyRequest) -> _StartedReply | None:
        """The reply to a message that a chat interface sent by itself, such as for a title; None for other messages."""
        first, *others = asked.llm_messages
        found = None
        if not others and isinstance(first, UserMessage) and first.content.startswith(_TASK):
            found = _FORM.search(first.content)
        if found is None or found["name"] not in _EMPTY:
            return None
        try:
            text = await cheapest(self._platform.ai, self._platform.models.roles).generate_text(first.content)
        except ModelError as error:
            _log.info("A task of a chat interface is answered without a model: %s", error)
            text = json.dumps({found["name"]: _EMPTY[found["name"]]})
        return _StartedReply(whole_reply(text))

    async def _reply_of_goal(self, request: Request, asked: _AnyRequest, model: GoalModel) -> _StartedReply:
        """Continue the process whose question ends the history, or whose response is named; or else start one."""
        messages, named, follower = asked.llm_messages, asked.previous_response_id, None
        process = await conversations.asking_process(self._publisher, model, messages, named)
        if process is not None and process.status.ended and not (asked_in(messages) or _sent_before(request)):
            if ResponseId.read(named) in {None, ResponseId.of_process(process)}:
                process = None  # it has ended: the message is the input of a new process
        elif process is None and asked.continues_stored:
            raise conversations.not_found(named or asked.conversation, model)
        if process is None:
            follower = Follower()
            objects = model.tool.arguments.start_objects({model.field: messages[-1].content})
            process = await start_goal(self._publisher, model.tool, objects, current_caller(), listener=follower)
        else:
            try:
                unclear = await conversations.answered_process(self._publisher, process, messages)
            except AlreadyAnswered as error:
                unclear = Unclear(str(error))
            if unclear is not None:
                return _StartedReply(whole_reply(unclear.words), process=process)
        call_of(request).process = process
        return _StartedReply(goal_reply(process, model, self._publisher.runs, follower), process=process)

    async def _reply_of_chatbot(
        self, request: Request, asked: _AnyRequest, model: ChatbotModel, conversation_id: str
    ) -> _StartedReply:
        """Answer a question of the chatbot with the last message, or have the chatbot answer the message."""
        call = call_of(request)
        if asked.continues_stored:
            continuation = await conversations.after_stored(model, asked)
        else:
            continuation = await conversations.with_history(
                self._platform, model, asked, conversation_id, sent_before=_sent_before(request)
            )
        session = continuation.session
        if continuation.answered:
            return _StartedReply(whole_reply(continuation.answered), session)
        answering = await conversations.answering_turn(self._publisher, continuation)
        if isinstance(answering, Unclear):
            return _StartedReply(whole_reply(answering.words), session)
        try:
            turn = await counted_turn(self._publisher.limits, call, answering or continuation.begin)
        except AlreadyAnswered as error:
            return _StartedReply(whole_reply(str(error)), session)
        except LimitReached:
            # Nobody knows a conversation that was created for this request.
            if not session.conversation.entries and not (asked.store and conversation_id):
                await self._platform.conversations.delete(session.conversation.id, session.caller)
            raise

        async def forget() -> None:
            with suppress(HandedOver, StoreError):
                await turn.result()
                await self._platform.conversations.delete(session.conversation.id, session.caller)

        forgotten = None
        if not asked.store:
            forgotten = asyncio.create_task(forget())
            self._forgetting.add(forgotten)
            forgotten.add_done_callback(self._forgetting.discard)
        ask = partial(conversations.store_messages, self._publisher, session)
        return _StartedReply(turn_reply(turn, model.chatbot.mark, ask, partial(note_turn, call), forgotten), session)


def _sent_before(request: Request) -> bool:
    return request.headers.get(_RETRIES, "0") != "0"


class _Stored(NamedTuple):
    reply_format: ResponseFormat
    reply: ReplyText | None
    """None while the reply is in progress."""
    messages: Mapping[str, Message]
    """The message that it answers and those before, by their ids, oldest first."""
    place: ChatSession | AgentProcess
    """The conversation or the process with the response."""


class _Page(BaseModel, defer_build=True):
    after: str = ""
    limit: int = Field(20, ge=1, le=100)
    order: Literal["asc", "desc"] = "desc"


class StoredResponses:
    """The handlers of requests about one response."""

    def __init__(self, door: HttpDoor, models: Models) -> None:
        self._publisher, self._platform, self._models = door.publisher, door.publisher.platform, models
        self.show, self.delete = self._about(self._show), self._about(self._delete)
        self.cancel, self.input_items = self._about(self._cancel), self._about(self._input_items)

    def _about(self, answer: Callable[[Request, _Stored], Awaitable[Mapping[str, Any]]]) -> Handler:
        async def handler(request: Request) -> Response:
            with for_user(request, self._publisher.settings.auth):
                return JSONResponse(await answer(request, await self._find(request.path_params["id"])))

        return handler

    async def _find(self, given: str) -> _Stored:
        """The response with an id. Raises `Problem`: 404 if the caller has none, 403 if it may not use its model."""
        named, caller = ResponseId.read(given), current_caller()
        if named is not None:
            conversation = await self._platform.conversations.find(named.conversation, caller)
            if conversation is not None and named.message_id in conversation.loaded.messages:
                model = self._models.named(conversation.record.chatbot)
                session = isinstance(model, ChatbotModel) and await model.chatbot.find_session(conversation.id, caller)
                if session:
                    return await _of_chatbot(given, named, session)
            process = await process_of(self._platform, named.conversation, caller)
            for each in self._models.usable() if process is not None else ():
                if process is not None and isinstance(each, GoalModel) and each.runs(process):
                    return await self._of_goal(given, each, process)
        detail = f"There is no response {given[:100]!r} of yours. Give the id of one that is stored."
        raise Problem(HTTPStatus.NOT_FOUND, "response-not-found", detail)

    async def _of_goal(self, given: str, model: GoalModel, process: AgentProcess) -> _Stored:
        reply = None
        if process.outcome is not None:
            reply = await gathered(goal_reply(process, model, self._publisher.runs))
        first = next(iter(process.blackboard.history), "")  # none, if an action has cleared the blackboard
        start: str | dict[str, str] = to_jsonable_python(first, by_alias=True, fallback=str)
        message = UserMessage(start if isinstance(start, str) else start.get(model.field, ""))
        began, ended = process.created_at, process.finished_at or process.created_at
        reply_format = ResponseFormat(
            id=given, model=model.name, created=int(began.timestamp()), completed=int(ended.timestamp())
        )
        return _Stored(reply_format, reply, {process.id: message}, process)

    async def _show(self, request: Request, stored: _Stored) -> Mapping[str, Any]:
        if request.query_params.get("stream", "false") != "false":
            raise unsupported("stream", "what is stored is sent whole: leave it out")
        return stored.reply_format.whole(stored.reply)

    async def _input_items(self, request: Request, stored: _Stored) -> Mapping[str, Any]:
        page = read(_Page, dict(request.query_params))
        items = [item_of(f"msg_{name}", each) for name, each in stored.messages.items()]
        if page.order == "desc":
            items.reverse()
        begin = next((place for place, each in enumerate(items, 1) if each["id"] == page.after), 0)
        shown = items[begin : begin + page.limit]
        first, last = (shown[0]["id"], shown[-1]["id"]) if shown else ("", "")
        more = begin + page.limit < len(items)
        return {"object": "list", "data": shown, "first_id": first, "last_id": last, "has_more": more}

    async def _delete(self, _: Request, stored: _Stored) -> Mapping[str, Any]:
        if isinstance(stored.place, AgentProcess):
            await self._platform.processes.erase(stored.place.id, "Its caller deleted the response.")
        else:
            conversation = stored.place.conversation
            if sum(each.role == "user" for each in conversation.loaded.messages.values()) > 1:
                detail = (
                    "A response cannot be deleted alone if more was said in its conversation. To delete that: goalport"
                    f" conversations delete {conversation.id}"
                )
                raise Problem(HTTPStatus.BAD_REQUEST, "response-continued", detail)
            await self._platform.conversations.delete(conversation.id, current_caller())
        return {"id": stored.reply_format.id, "object": "response", "deleted": True}

    async def _cancel(self, _: Request, stored: _Stored) -> Mapping[str, Any]:
        detail = (
            f"{stored.reply_format.id} cannot be cancelled: only background responses can, and there are none here."
        )
        raise Problem(HTTPStatus.BAD_REQUEST, "not-in-background", detail)


async def _of_chatbot(given: str, named: ResponseId, session: ChatSession) -> _Stored:
    conversation = session.conversation
    message, *replies = conversation.reply_to(named.message_id)
    line = conversation.loaded.line_to(message.id)
    before = {each.role: each for each in line[:-1]}
    previous, system = before.get("user"), before.get("system")
    reply_format = ResponseFormat(
        id=given,
        model=conversation.record.chatbot,
        conversation=conversation.id,
        previous=str(ResponseId(conversation.id, previous.id)) if previous else "",
        instructions=system.message.content if system else "",
        created=int(message.at.timestamp()),
        completed=int([message, *replies][-1].at.timestamp()),
    )
    end, is_last = ReplyEnd(), [message, *replies][-1].id == conversation.loaded.record.head
    if is_last and session.idle and (turn := await session.last_turn()) is not None:
        result = await turn.result()
        end = ReplyEnd(result.usage, result.failure)
    text = REPLY_SEPARATOR.join(each.text for each in replies if each.role == "assistant")
    history = {each.id: each.message for each in line if each.role in {"user", "assistant"}}
    reply = None if is_last and not session.idle else ReplyText(text, end=end)
    return _Stored(reply_format, reply, history, session)
