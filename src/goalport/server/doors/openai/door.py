"""The door itself (`site.app.Door`): its paths, and how clients find them.

It neither listens nor mounts its routes; `site` does. The handlers are below.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, Field
from pydantic_core import to_jsonable_python
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from goalport.models.llm import Message, UserMessage
from goalport.runtime.chat import ChatSession
from goalport.runtime.chat.conversation import REPLY_SEPARATOR
from goalport.runtime.platform.runs import process_of
from goalport.runtime.process import AgentProcess
from goalport.server.auth import Access, current_caller
from goalport.server.doors.openai.handlers import ChatHandlers
from goalport.server.doors.openai.models import ChatbotModel, GoalModel, Models
from goalport.server.doors.openai.replies import ReplyEnd, ReplyText, ResponseFormat, gathered, goal_reply, item_of
from goalport.server.doors.openai.requests import CONVERSATION, ResponseId, for_user, refusal, unsupported
from goalport.server.publish.publisher import Publisher
from goalport.server.web.endpoint import Handler, HttpDoor, read
from goalport.server.web.problems import Problem

_ROOT: Final = "/v1"
_PATHS: Final = "Below {root}/v1 there are models, chat/completions and responses."


class OpenAiDoor:
    """Conversations as OpenAI's API has them."""

    exposed_headers: Sequence[str] = (CONVERSATION, "Retry-After", "x-should-retry")
    """The response headers that a web page needs as a client."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        door = HttpDoor("openai", _ROOT, publisher, access, refusal, _PATHS)
        models = Models(door)
        chats, stored = ChatHandlers(door, models), StoredResponses(door, models)

        self.routes: Sequence[Route] = [
            door.start_route(f"{_ROOT}/chat/completions", POST=chats.complete),
            door.start_route(f"{_ROOT}/responses", POST=chats.respond),
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


class _Stored(NamedTuple):
    written: ResponseFormat
    reply: ReplyText | None
    """None: it is being made."""
    said: Mapping[str, Message]
    """What it answers and what was said before, by the ids of the messages, oldest first."""
    place: ChatSession | AgentProcess
    """Where it is stored."""


class _Page(BaseModel):
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
        """The response of an id. Raises `Problem`: 404 if the caller has none, 403 if it may not use its model."""
        named, caller = ResponseId.read(given), current_caller()
        if named is not None:
            conversation = await self._platform.conversations.find(named.conversation, caller)
            if conversation is not None and named.said in conversation.loaded.messages:
                model = self._models.named(conversation.chatbot)
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
        said = UserMessage(start if isinstance(start, str) else start.get(model.field, ""))
        began, ended = process.created_at, process.finished_at or process.created_at
        written = ResponseFormat(
            id=given, model=model.name, created=int(began.timestamp()), completed=int(ended.timestamp())
        )
        return _Stored(written, reply, {process.id: said}, process)

    async def _show(self, request: Request, stored: _Stored) -> Mapping[str, Any]:
        if request.query_params.get("stream", "false") != "false":
            raise unsupported("stream", "what is stored is sent whole: leave it out")
        return stored.written.whole(stored.reply)

    async def _input_items(self, request: Request, stored: _Stored) -> Mapping[str, Any]:
        page = read(_Page, dict(request.query_params))
        items = [item_of(f"msg_{name}", each) for name, each in stored.said.items()]
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
                told = "A response cannot be deleted alone if more was said in its conversation"
                detail = f"{told}. To delete that: goalport conversations delete {conversation.id}"
                raise Problem(HTTPStatus.BAD_REQUEST, "response-continued", detail)
            await self._platform.conversations.delete(conversation.id, current_caller())
        return {"id": stored.written.id, "object": "response", "deleted": True}

    async def _cancel(self, _: Request, stored: _Stored) -> Mapping[str, Any]:
        detail = f"{stored.written.id} cannot be cancelled: only background responses can, and there are none here."
        raise Problem(HTTPStatus.BAD_REQUEST, "not-in-background", detail)


async def _of_chatbot(given: str, named: ResponseId, session: ChatSession) -> _Stored:
    conversation = session.conversation
    said, *replies = conversation.reply_to(named.said)
    line = conversation.loaded.line_to(said.id)
    before = {each.role: each for each in line[:-1]}
    previous, told = before.get("user"), before.get("system")
    written = ResponseFormat(
        id=given,
        model=conversation.chatbot,
        conversation=conversation.id,
        previous=str(ResponseId(conversation.id, previous.id)) if previous else "",
        instructions=told.message.content if told else "",
        created=int(said.at.timestamp()),
        completed=int([said, *replies][-1].at.timestamp()),
    )
    end, is_last = ReplyEnd(), [said, *replies][-1].id == conversation.loaded.record.head
    if is_last and session.idle and (turn := await session.last_turn()) is not None:
        result = await turn.result()
        end = ReplyEnd(result.usage, result.failure)
    text = REPLY_SEPARATOR.join(each.text for each in replies if each.role == "assistant")
    history = {each.id: each.message for each in line if each.role in {"user", "assistant"}}
    reply = None if is_last and not session.idle else ReplyText(text, "", end)
    return _Stored(written, reply, history, session)
