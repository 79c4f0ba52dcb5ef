"""The processes of a caller, started, listed, looked at, answered and ended over HTTP, and their events as a stream.

What is started here is stored from the beginning, so that whoever got its id finds it again. A client that leaves while
its answer waits for a result has no id yet: its process is killed as over MCP. A stream of events takes the next one
only when the client has taken the one before it: a slow client has no queue here. Above: the door.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import ExitStack, aclosing, suppress
from http import HTTPStatus
from typing import Any, Final

import anyio
from pydantic.alias_generators import to_camel
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport.base.errors import AlreadyAnswered, BadInput, HandedOver, StoreError, UnknownName, Unreadable
from goalport.base.events import Event, as_json
from goalport.base.secrecy import hide_known
from goalport.base.words import type_name
from goalport.runtime.platform.erasure import caller_known_as
from goalport.runtime.platform.runs import IdempotentCall, Run, Watch, process_of
from goalport.runtime.process import AgentProcess, LoggedEvent, Outcome, Question, find_question
from goalport.runtime.process.event_log import DIALOGUE
from goalport.server.auth import current_caller
from goalport.server.doors.rest.answers import answer_to, record_line, view_of
from goalport.server.doors.rest.requests import (
    ContinueRequest,
    EndQuery,
    EraseQuery,
    EventsQuery,
    ListQuery,
    NoQuery,
    StartRequest,
    StateQuery,
)
from goalport.server.publish.forms import Form, form_of
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.publication import Publication
from goalport.server.publish.published_arguments import PublishedArguments
from goalport.server.publish.publisher import Publisher, start_goal
from goalport.server.web.endpoint import (
    EventStream,
    HttpDoor,
    OpenStreams,
    admitted,
    body_of,
    call_of,
    client_left,
    read,
    root_of,
)
from goalport.server.web.problems import Problem, invalid
from goalport.tools.schemas import UNREADABLE

_KEY: Final = "idempotency-key"
_END_SECONDS: Final = 5.0
"""The most seconds that a deletion waits for the process to stop before it is answered."""


async def own_process(publisher: Publisher, request: Request) -> AgentProcess:
    """The process in the path of a request, if the caller may follow it. Raises `Problem`."""
    process_id = str(request.path_params["id"])
    process = await process_of(publisher.platform, process_id, current_caller())
    if process is None:
        raise Problem(
            HTTPStatus.NOT_FOUND,
            "unknown-process",
            f"There is no process {process_id[:100]!r}, or it is not yours. Expected the processId of an answer. A"
            " process that ended long ago is forgotten: start another then.",
        )
    call_of(request).process = process
    return process


def query_of(request: Request, *lists: str) -> dict[str, Any]:
    """The parameters in the query of a request; `lists` may be repeated. Raises `Problem` for others that are."""
    query = request.query_params
    repeated = [name for name in query if name not in lists and len(query.getlist(name)) > 1]
    if repeated:
        raise invalid([f"{each}: given more than once" for each in repeated], "Give each parameter once.")
    return {name: query.getlist(name) if name in lists else value for name, value in query.items()}


class ProcessHandlers:
    """The handlers of requests about processes."""

    def __init__(self, door: HttpDoor) -> None:
        self._require = door.require
        self._publisher = publisher = door.publisher
        self._access = door.access
        self._platform = publisher.platform
        self._limits = publisher.limits

    async def start(self, request: Request) -> Response:
        """Start a process of a published goal, and wait for its result for a while."""
        read(NoQuery, query_of(request))
        asked = read(StartRequest, await body_of(request))
        tool, call = self._tool(asked), call_of(request)
        call.name, call.arguments = tool.tool.name, tuple(asked.input or asked.bindings or ())
        self._require(self._publisher.publication.scopes.tools[tool.tool.name])
        async with admitted(self._limits, request, begins=True):
            call.process = process = await self._started(tool, asked, request.headers.get(_KEY))
            run = self._publisher.runs.of(process, detached=tool.policy.detached)
            return answer_to(process, await _outcome_for(request, run, asked.wait), root_of(request))

    async def _started(self, tool: GoalTool, asked: StartRequest, key: str | None) -> AgentProcess:
        within, given = ("input", asked.input or {}) if asked.bindings is None else ("bindings", asked.bindings)
        arguments = tool.arguments if asked.bindings is None else PublishedArguments.by_type(tool.arguments.kinds)
        objects = _read(arguments, given, within)
        try:
            once = None if key is None else IdempotentCall.of(current_caller(), tool.tool.name, key, given)
            return await start_goal(self._publisher, tool, objects, current_caller(), once=once)
        except BadInput as error:
            raise invalid([f"Idempotency-Key: {error}"], str(error)) from None

    def _tool(self, asked: StartRequest) -> GoalTool:
        """The published goal that a request names, perhaps one that its caller may not start. Raises `Problem`."""
        if (asked.goal is None) == (asked.agent is None):
            raise invalid(["goal: give either goal or agent"], "Name the goal to start, or its agent.")
        if asked.input is not None and asked.bindings is not None:
            raise invalid(["bindings: give either input or bindings"], "Give what the goal starts from once.")
        tools, every = _goal_tools(self._access.publication), _goal_tools(self._publisher.publication)
        if asked.goal is not None:
            if asked.goal not in every:
                self._require(self._access.base)
                reason = str(UnknownName("goal", asked.goal[:100], tools))
                raise invalid([f"goal: {reason}"], reason)
            return every[asked.goal]
        own = [each for each in tools.values() if each.agent.name == asked.agent]
        own = own or [each for each in every.values() if each.agent.name == asked.agent]
        if len(own) == 1:
            return own[0]
        self._require(self._access.base)
        known = {each.agent.name for each in tools.values()}
        reason = str(UnknownName("agent", str(asked.agent)[:100], known))
        if own and own[0].tool.name in tools:
            reason = f"{asked.agent} has several goals. Name one: {', '.join(each.tool.name for each in own)}."
        raise invalid([f"agent: {reason}"], reason)

    async def resume(self, request: Request) -> Response:
        """Answer a question of a process, and wait for what comes of it for a while."""
        process = await own_process(self._publisher, request)
        self._require(self._access.of_process(process))
        read(NoQuery, query_of(request))
        asked = read(ContinueRequest, await body_of(request))
        question = self._question(process, asked.awaitable_id)
        async with admitted(self._limits, request, begins=False):
            await self._answer(process, question, asked)
            return answer_to(process, await _outcome_within(process, asked.wait), root_of(request))

    async def _answer(self, process: AgentProcess, question: Question, asked: ContinueRequest) -> None:
        try:
            response = None if asked.declined else _form(question).read(asked.response)
            await self._platform.answer(process.id, question.id, response, declined=asked.declined)
            self._publisher.audit_trail.answered(current_caller(), question, response, declined=bool(asked.declined))
        except AlreadyAnswered as error:
            raise _conflict("already-answered", f"{error} The first answer counts.") from None
        except BadInput as error:
            if not error.problems:  # the process has ended meanwhile
                raise _conflict("not-waiting", str(error)) from None
            problems = [each.removeprefix("answer: ") for each in error.problems]
            raise invalid(problems, str(error), within="response") from None

    def _question(self, process: AgentProcess, question_id: str | None) -> Question:
        """The open question of that id, or the only one. Raises `Problem`."""
        waiting = process.open_questions
        if question_id is None:
            if len(waiting) == 1:
                return waiting[0]
            if waiting:
                named = ", ".join(each.id for each in waiting)
                raise invalid(["awaitableId: required, since several are open"], f"Say which you answer: {named}.")
            raise _conflict("not-waiting", f"Process {process.id} waits for no answer: it is {process.status}.")
        try:
            _, question = find_question(process, question_id)
        except UnknownName:
            detail = f"Process {process.id} has asked no question {question_id[:100]!r}. Expected an awaitableId of it."
            raise invalid([f"awaitableId: {detail}"], detail) from None
        if question.status != "open":
            told = f"Question {question.id} is {question.status} already: the first answer counts."
            raise _conflict("already-answered", told)
        if question not in waiting:
            raise _conflict("not-waiting", f"Process {process.id} waits for no answer: it is {process.status}.")
        return question

    async def look(self, request: Request) -> Response:
        """The state of a process; with `wait`, once it has ended or waits for an answer."""
        process = await own_process(self._publisher, request)
        await _outcome_within(process, read(StateQuery, query_of(request)).wait)
        return JSONResponse(view_of(process, root_of(request)))

    async def end(self, request: Request) -> Response:
        """Kill a process; one that has ended is not changed, unless it is to be erased."""
        process = await own_process(self._publisher, request)
        self._require(self._access.of_process(process))
        asked, goes_on = read(EndQuery, query_of(request)), not process.status.ended
        if asked.erase:
            await self._platform.processes.erase(process.root.id, asked.reason)
            self._publisher.audit_trail.erased(current_caller(), None, {"process_id": process.id})
            return JSONResponse(view_of(process, root_of(request)))
        process.kill(asked.reason)
        if goes_on:
            self._publisher.audit_trail.ended(current_caller(), process.id)
        with anyio.move_on_after(_END_SECONDS):
            await process.rest()
        return JSONResponse(view_of(process, root_of(request)))

    async def erase(self, request: Request) -> Response:
        """Erase what the caller left; for an admin, what any caller did."""
        asked, caller = read(EraseQuery, query_of(request)), current_caller()
        self._require(self._publisher.publication.scopes.rules.write)
        if asked.caller and not caller.admin:
            told = f"Only who has the scope {self._publisher.settings.auth.admin_scope} may erase what another left."
            raise Problem(HTTPStatus.FORBIDDEN, "admin-only", told)
        whose = caller
        if asked.caller:
            whose = await caller_known_as(asked.caller, asked.issuer, self._platform.store)
        erased = await self._platform.erase(whose, dry_run=asked.dry_run)
        if not asked.dry_run:
            self._publisher.audit_trail.erased(caller, whose, erased._asdict())
        content = erased._asdict()
        content["signIns"] = content.pop("sign_ins")
        return JSONResponse(content)

    async def list(self, request: Request) -> Response:
        """The processes of the caller, or for an admin those of all, a page at a time."""
        asked = read(ListQuery, query_of(request, "status"))
        caller = current_caller()
        if asked.of_all and not caller.admin:
            told = f"Only who has the scope {self._publisher.settings.auth.admin_scope} may list those of all callers."
            raise Problem(HTTPStatus.FORBIDDEN, "admin-only", told)
        with suppress(Unreadable):  # one that cannot be read is there too
            if asked.after and await process_of(self._platform, asked.after, caller) is None:
                reason = f"The process {asked.after} is not known any more. Begin again with the first page."
                raise invalid([f"after: {reason}"], reason)
        found = await self._platform.processes.page_of_records(
            None if asked.of_all else caller,
            after=asked.after,
            limit=asked.limit + 1,
            statuses=asked.status,
            newest_first=asked.newest_first,
        )
        shown = found[: asked.limit]
        following = request.url.include_query_params(after=shown[-1].id) if len(found) > len(shown) else None
        links = {} if following is None else {"next": f"{following.path}?{following.query}"}
        lines = [record_line(each, root_of(request), with_caller=asked.of_all) for each in shown]
        return JSONResponse({"processes": lines, "links": links})


def _goal_tools(publication: Publication) -> dict[str, GoalTool]:
    return {name: each for name, each in publication.tools.items() if isinstance(each, GoalTool)}


def _read(arguments: PublishedArguments, given: Mapping[str, Any], within: str) -> tuple[object, ...]:
    try:
        return arguments.begin(given)
    except BadInput as error:
        raise invalid(error.problems, str(error), within=within) from None


def _form(question: Question) -> Form:
    try:
        return form_of(question)
    except UNREADABLE:
        kind = type_name(question.response_type)
        told = f"A {kind} cannot be read from JSON: decline, or delete the process."
        raise _conflict("unreadable-question", told) from None


def _conflict(kind: str, detail: str) -> Problem:
    return Problem(HTTPStatus.CONFLICT, kind, detail)


async def _outcome_for(request: Request, run: Run, seconds: float) -> Outcome | None:
    """The outcome of a run; if its client leaves before the answer, its watch on the run ends (`Watch.leave`)."""
    if not seconds:
        return await _outcome_within(run.process, 0)
    outcome = None
    with Watch(run) as watch:

        async def leave() -> None:
            await client_left(request)
            watch.leave()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            outcome = await _outcome_within(run.process, seconds)
            tasks.cancel_scope.cancel()
    return outcome


async def _outcome_within(process: AgentProcess, seconds: float) -> Outcome | None:
    """The outcome of a process; None if it still runs after so many seconds, or goes on in another program."""
    try:
        with anyio.move_on_after(seconds):
            return await process.wait()
    except HandedOver:
        return None
    return None if process.withheld else process.outcome


EVENT_NAME: Final = "agent-process-event"
_LAST_ID: Final = "last-event-id"


class EventHandlers:
    """The handler of requests for events."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._open = OpenStreams(publisher.settings)

    async def follow(self, request: Request) -> Response:
        """The events after a number; 204, after which browsers do not connect again, if none can follow."""
        process = await own_process(self._publisher, request)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        asked = read(EventsQuery, query_of(request))
        if _LAST_ID in request.headers:  # a client that connects again repeats its query
            asked = read(EventsQuery, {"after": request.headers[_LAST_ID]})
        ended = process.status.ended
        events = self._publisher.platform.events(process.id, asked.after)
        with ExitStack() as counted:
            counted.enter_context(self._open.one_of(current_caller()))
            first = await anext(events, None) if ended else None
            if ended and first is None:
                return Response(status_code=HTTPStatus.NO_CONTENT)
            return EventStream(_written(first, events), self._publisher.settings.heartbeat_seconds, counted.pop_all())


async def _written(first: LoggedEvent | None, events: AsyncGenerator[LoggedEvent]) -> AsyncIterator[ServerSentEvent]:
    async with aclosing(events):
        if first is not None:
            yield _message(first)
        try:
            async for each in events:
                yield _message(each)
        except (HandedOver, StoreError):  # the client connects again, perhaps with another replica, or reads the reason
            return


def _message(logged: LoggedEvent) -> ServerSentEvent:
    data = json.dumps(event_view(logged.event), ensure_ascii=False)
    return ServerSentEvent(hide_known(data), event=EVENT_NAME, id=str(logged.number), sep="\n")


def event_view(event: Event) -> dict[str, Any]:
    """An event as JSON data, without what models and tools say to each other."""
    return {to_camel(name): value for name, value in as_json(event).items() if name not in DIALOGUE}
