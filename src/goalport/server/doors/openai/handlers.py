"""The handlers of chat completions and of responses: who asks which model what, and the reply.

Below: requests, conversations, replies and the formats. Above: the door.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from sse_starlette import ServerSentEvent
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from goalport.base.errors import AlreadyAnswered, HandedOver, ModelError, StoreError
from goalport.models.llm import Message, UserMessage
from goalport.runtime.chat import ChatSession, Turn, cheapest
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, Follower, new_id
from goalport.server.auth import current_caller
from goalport.server.doors.openai.conversations import (
    answered_process,
    answering_turn,
    asking_process,
    begin_turn,
    caught_up,
    continue_after,
    continued,
    not_found,
    said_in,
    session_of,
    stored_reply,
    with_history,
)
from goalport.server.doors.openai.models import ChatbotModel, GoalModel, Model, Models
from goalport.server.doors.openai.replies import (
    ChatFormat,
    GoalReply,
    Reply,
    ReplyText,
    ResponseFormat,
    TurnReply,
    WholeReply,
    gathered,
    response_of,
)
from goalport.server.doors.openai.requests import (
    CONVERSATION,
    ChatRequest,
    ResponseId,
    ResponseRequest,
    for_user,
    named_conversation,
    read_request,
)
from goalport.server.publish.calls import unavailable_words
from goalport.server.publish.limits import LimitReached
from goalport.server.publish.publisher import counted_turn, note_turn, start_goal
from goalport.server.publish.questions_in_words import Unclear, asked_in
from goalport.server.web import AnswerStream, HttpDoor, admitted, client_left
from goalport.server.web.endpoint import body_of, call_of


class Format(Protocol):
    """How replies are written."""

    def whole(self, reply: ReplyText, /) -> Mapping[str, Any]:
        """A whole reply. Raises `Problem` if there is none."""
        ...

    def stream(self, reply: Reply, /) -> AsyncGenerator[ServerSentEvent]:
        """A reply while it is made."""
        ...

    def failed(self, reason: str, /) -> Iterator[ServerSentEvent]:
        """The end of a stream that broke off."""
        ...


async def _sent_whole(request: Request, reply: Reply, written: Format, headers: Mapping[str, str]) -> Response:
    """A response with the whole reply. Raises `ClientDisconnect` if the client leaves before, and `Problem`."""
    making, leaving = asyncio.create_task(gathered(reply)), asyncio.create_task(client_left(request))
    try:
        await asyncio.wait((making, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not making.done():
            raise ClientDisconnect
        text = making.result()
    finally:
        making.cancel()
        leaving.cancel()
    return JSONResponse(written.whole(text), headers=headers)


async def _streamed(reply: Reply, written: Format) -> AsyncGenerator[ServerSentEvent]:
    try:
        async with aclosing(written.stream(reply)) as events:
            async for each in events:
                yield each
    except (HandedOver, StoreError) as error:
        for each in written.failed(unavailable_words(error)):
            yield each


_RETRIES: Final = "x-stainless-retry-count"
"""The header by which OpenAI's clients say how often they have sent a request before."""


_Asked = ChatRequest | ResponseRequest


@dataclass(frozen=True, slots=True)
class _Begun:
    """A reply that has begun, with what it belongs to."""

    reply: Reply
    session: ChatSession | None = None
    process: AgentProcess | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """Those of the response."""
        return {} if self.session is None else {CONVERSATION: self.session.conversation.id}

    @property
    def response_id(self) -> ResponseId:
        """The id by which a later request goes on from here."""
        if self.session is not None:
            said = next(each.id for each in reversed(self.session.conversation.entries) if each.role == "user")
            return ResponseId(self.session.conversation.id, said)
        return ResponseId(new_id()) if self.process is None else response_of(self.process)


class ChatHandlers:
    """The handlers of requests that are answered by a model."""

    def __init__(self, door: HttpDoor, models: Models) -> None:
        self._publisher = door.publisher
        self._platform = door.publisher.platform
        self._settings = door.publisher.settings
        self._models = models
        self._forgetting: set[asyncio.Task[None]] = set()

    async def complete(self, request: Request) -> Response:
        """Answer the last message of a history (`/v1/chat/completions`)."""
        return await self._answer(request, ChatRequest)

    async def respond(self, request: Request) -> Response:
        """Answer the input of a response (`/v1/responses`)."""
        return await self._answer(request, ResponseRequest)

    async def _answer(self, request: Request, kind: type[ChatRequest] | type[ResponseRequest]) -> Response:
        body = await body_of(request)
        asked = read_request(kind, body)
        named = named_conversation(request, self._settings.auth, current_caller())
        async with AsyncExitStack() as place:
            model = await self._model(request, body, asked.model, place)
            begun = await self._begun(request, asked, model, named)
            reply, written = begun.reply, _format_of(asked, begun)
            if not asked.stream:
                return await _sent_whole(request, reply, written, begun.headers)
            beat = self._settings.heartbeat_seconds
            return AnswerStream(_streamed(reply, written), beat, place.pop_all(), begun.headers)

    async def _model(self, request: Request, body: Mapping[str, Any], name: str, place: AsyncExitStack) -> Model:
        """The model of a request, once it has its place among those that are answered at once. Raises `Problem`."""
        place.enter_context(for_user(request, self._settings.auth))
        call = call_of(request)
        call.caller, call.arguments = current_caller(), tuple(body)
        model = self._models.named(name)
        call.name = name
        await place.enter_async_context(admitted(self._publisher.limits, request, begins=True))
        return model

    async def _begun(self, request: Request, asked: _Asked, model: Model, named: str) -> _Begun:
        said = asked.said
        if is_task(said):
            return _Begun(WholeReply(await answer_to_task(said, self._platform)))
        if isinstance(model, GoalModel):
            return await self._reach(request, asked, model, said)
        return await self._talk(request, asked, model, named, said)

    async def _reach(self, request: Request, asked: _Asked, model: GoalModel, said: Sequence[Message]) -> _Begun:
        """Go on with the process that has asked what the history ends with, or that is named; or start one."""
        named = asked.previous_response_id if isinstance(asked, ResponseRequest) else ""
        follower = None
        process = await asking_process(self._publisher, model, said, named)
        late = process is not None and ResponseId.read(named) not in {None, response_of(process)}
        if process is not None and process.status.ended and not (asked_in(said) or late or _sent_before(request)):
            process = None  # it has given its result: this is the input of another one
        elif process is None and isinstance(asked, ResponseRequest) and asked.goes_on:
            raise not_found(named or asked.conversation_id, model)
        if process is None:
            follower = Follower()
            objects = model.tool.arguments.begin({model.field: said[-1].content})
            process = await start_goal(self._publisher, model.tool, objects, current_caller(), listener=follower)
        else:
            try:
                unclear = await answered_process(self._publisher, process, said)
            except AlreadyAnswered as error:
                unclear = Unclear(str(error))
            if unclear is not None:
                return _Begun(WholeReply(unclear.words), process=process)
        call_of(request).process = process
        return _Begun(GoalReply(process, model, self._publisher.runs, follower), process=process)

    async def _talk(
        self, request: Request, asked: _Asked, model: ChatbotModel, named: str, said: Sequence[Message]
    ) -> _Begun:
        call, caller = call_of(request), current_caller()
        forgets = isinstance(asked, ResponseRequest) and not asked.store
        if isinstance(asked, ResponseRequest) and asked.goes_on:
            session, follows = await continued(model, caller, asked.conversation_id, asked.previous_response_id)
            after = follows[-1].id if follows else None
            begin = partial(continue_after, session, said, after)
            said = with_history(session, said, after)
            questions = [asked_in([each.message, said[-1]]) for each in follows] if follows else [asked_in(said)]
            answers = next(filter(None, reversed(questions)), None)
        else:
            if forgets:  # what is deleted once it is answered goes on with nothing that is stored
                session = await model.chatbot.create_session(caller)
            else:
                session = await session_of(self._platform, model, caller, named, said)
            said = caught_up(session, said)
            text = stored_reply(session, said) if _sent_before(request) else ""
            if text and session.idle:
                return _Begun(WholeReply(text), session)
            speaker = next(each.name for each in reversed(asked.messages) if each.role == "user")
            begin = partial(begin_turn, session, said, name=speaker, again=bool(text))
            answers = None if text else asked_in(said)
        answering = await answering_turn(self._publisher, session, said, answers)
        if isinstance(answering, Unclear):
            return _Begun(WholeReply(answering.words), session)
        try:
            turn = await counted_turn(self._publisher.limits, call, answering or begin)
        except AlreadyAnswered as error:
            return _Begun(WholeReply(str(error)), session)
        except LimitReached:
            # One that was made for this request is known to nobody.
            if not session.conversation.entries and (forgets or not named):
                await self._platform.conversations.delete(session.conversation.id, caller)
            raise
        forgotten = self._forgotten(turn, session) if forgets else None
        ask = partial(said_in, self._publisher, session)
        return _Begun(TurnReply(turn, model.chatbot.mark, ask, partial(note_turn, call), forgotten), session)

    def _forgotten(self, turn: Turn, session: ChatSession) -> asyncio.Task[None]:
        """The deletion of a conversation, which begins once a turn is over."""

        async def forget() -> None:
            with suppress(HandedOver, StoreError):
                await turn.result()
                await self._platform.conversations.delete(session.conversation.id, session.caller)

        task = asyncio.create_task(forget())
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)
        return task


def _sent_before(request: Request) -> bool:
    return request.headers.get(_RETRIES, "0") != "0"


def _format_of(asked: _Asked, begun: _Begun) -> Format:
    if isinstance(asked, ChatRequest):
        return ChatFormat(asked.model, with_usage=asked.stream_options.include_usage)
    return ResponseFormat(
        id=str(begun.response_id if asked.store else ResponseId(new_id())),
        model=asked.model,
        conversation=begun.headers.get(CONVERSATION, ""),
        previous=asked.previous_response_id,
        instructions=asked.instructions,
        stored=asked.store,
    )


_log = logging.getLogger(__name__)
_TASK: Final = "### Task:"
_FORM: Final = re.compile(
    r'### \W{0,9}Output\b[^\n]{0,200}\n[^\n{#]{0,100}JSON[^{#]{0,100}\{\s{0,20}"(?P<name>\w{1,20})"'
)
"""The section that says the form: `JSON format: { "title": "…" }`. It is short, so that a search in a long text is."""
_EMPTY: Final[Mapping[str, object]] = {
    "title": "",
    "prompt": "",
    "text": "",
    "tags": [],
    "follow_ups": [],
    "queries": [],
}
"""What is answered without a model, by the name of what a chat interface asks for."""


def is_task(messages: Sequence[Message]) -> bool:
    """Whether this is such a request, and not something that a person said."""
    return len(messages) == 1 and _form(messages[0]) in _EMPTY


async def answer_to_task(messages: Sequence[Message], platform: AgentPlatform) -> str:
    """The answer of a cheap model; an empty one of the form that is asked for if there is no model, or it fails."""
    (asked,) = messages
    try:
        return await cheapest(platform.ai, platform.models.roles).generate_text(asked.content)
    except ModelError as error:
        _log.info("A task of a chat interface is answered without a model: %s", error)
        return json.dumps({_form(asked): _EMPTY[_form(asked)]})


def _form(message: Message) -> str:
    if not isinstance(message, UserMessage) or not message.content.startswith(_TASK):
        return ""
    found = _FORM.search(message.content)
    return found["name"] if found else ""
