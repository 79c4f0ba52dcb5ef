"""The processes of a caller, started, listed, looked at, answered and ended over HTTP, and their events as a stream.

A process started here is stored from the beginning, so that a client that has its id finds it again. A client that
disconnects before the response has no id yet: its process is killed, as over MCP. A stream reads the next event only
when the client has received the one before it, so a slow client has no queue here. Every response about one process
begins with the same members. Above: the door.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import quote

import anyio
from pydantic.alias_generators import to_camel
from pydantic_core import from_json, to_json
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport.base.errors import AlreadyAnswered, BadInput, HandedOver, StoreError, ToolError, UnknownName, Unreadable
from goalport.base.events import as_json
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, type_name
from goalport.runtime.platform.erasure import caller_known_as
from goalport.runtime.platform.runs import IdempotentCall, Watch, process_of
from goalport.runtime.process import (
    AgentProcess,
    Completed,
    Failed,
    LoggedEvent,
    Outcome,
    ProcessStatus,
    Question,
    Waiting,
    find_question,
)
from goalport.runtime.process.listeners import DIALOGUE
from goalport.server.auth import current_caller
from goalport.server.doors.rest import openapi as api
from goalport.server.publish.answers import reason_of, written_by
from goalport.server.publish.forms import form_of
from goalport.server.publish.goal_tools import CallPolicy, GoalTool
from goalport.server.publish.portability import Schema
from goalport.server.publish.published_arguments import PublishedArguments
from goalport.server.publish.publisher import answer_question, start_goal
from goalport.server.publish.resources import cost_of, process_view, question_view
from goalport.server.web.endpoint import (
    EventStream,
    HttpDoor,
    OpenStreams,
    Problem,
    admitted,
    body_of,
    call_of,
    invalid,
    read,
    root_of,
    unavailable,
    while_client_stays,
)
from goalport.tools.schemas import UNREADABLE

_KEY: Final = "idempotency-key"
_LAST_ID: Final = "last-event-id"
_END_SECONDS: Final = 5.0
"""The most seconds that a deletion waits for the process to stop before it is answered."""
_WAIT_SECONDS: Final = 30
"""Seconds that the link `wait` waits for the result, or for a question."""


class ProcessHandlers:
    """The handlers of requests about processes."""

    def __init__(self, door: HttpDoor) -> None:
        self._require, self._access = door.require, door.access
        self._publisher = publisher = door.publisher
        self._platform = publisher.platform
        self._open = OpenStreams(publisher.settings)

    async def _own(self, request: Request) -> AgentProcess:
        """The process in the path of a request, if the caller may follow it. Raises `Problem`."""
        process_id = str(request.path_params["id"])
        process = await process_of(self._platform, process_id, current_caller())
        if process is None:
            detail = (
                f"There is no process {process_id[:100]!r}, or it is not yours. Expected the processId of an answer. A"
                " process that ended long ago is forgotten: start another then."
            )
            raise Problem(HTTPStatus.NOT_FOUND, "unknown-process", detail)
        call_of(request).process = process
        return process

    async def start(self, request: Request) -> Response:
        """Start a process of a published goal, and wait for its result for a while."""
        api.read_query(api.Query, request)
        asked = read(api.StartRequest, await body_of(request))
        tool, call, key = self._tool(asked), call_of(request), request.headers.get(_KEY)
        call.name, call.arguments = tool.tool.name, tuple(asked.input or asked.bindings or ())
        self._require(self._publisher.publication.scopes.tools[tool.tool.name])
        async with admitted(self._publisher.limits, request, begins=True):
            within, given, arguments = "input", asked.input or {}, tool.arguments
            if asked.bindings is not None:
                within, given, arguments = "bindings", asked.bindings, PublishedArguments.by_type(arguments.kinds)
            try:
                objects = arguments.start_objects(given)
            except BadInput as error:
                raise invalid(error.problems, str(error), within=within) from None
            try:
                once = None if key is None else IdempotentCall.of(call.caller, tool.tool.name, key, given)
                process = await start_goal(self._publisher, tool, objects, call.caller, once=once)
            except BadInput as error:
                raise invalid([f"Idempotency-Key: {error}"], str(error)) from None
            call.process = process
            if asked.wait:
                with Watch(self._publisher.runs.of(process, detached=tool.policy.detached)):
                    outcome = await while_client_stays(request, _outcome_within(process, asked.wait))
            else:
                outcome = await _outcome_within(process, 0)
            return answer_to(process, outcome, root_of(request))

    def _tool(self, asked: api.StartRequest) -> GoalTool:
        """The published goal that a request names, perhaps one that its caller may not start. Raises `Problem`."""
        if (asked.goal is None) == (asked.agent is None):
            raise invalid(["goal: give either goal or agent"], "Name the goal to start, or its agent.")
        if asked.input is not None and asked.bindings is not None:
            raise invalid(["bindings: give either input or bindings"], "Give what the goal starts from once.")
        tools, every = (
            {name: each for name, each in publication.tools.items() if isinstance(each, GoalTool)}
            for publication in (self._access.publication, self._publisher.publication)
        )
        if asked.goal is not None:
            if asked.goal in every:
                return every[asked.goal]
            field, reason = "goal", str(UnknownName("goal", asked.goal[:100], tools))
        else:
            own = [each for each in tools.values() if each.agent.name == asked.agent]
            found = own or [each for each in every.values() if each.agent.name == asked.agent]
            if len(found) == 1:
                return found[0]
            known = {each.agent.name for each in tools.values()}
            field, reason = "agent", str(UnknownName("agent", str(asked.agent)[:100], known))
            if own:
                reason = f"{asked.agent} has several goals. Name one: {', '.join(each.tool.name for each in own)}."
        self._require(self._access.base)
        raise invalid([f"{field}: {reason}"], reason)

    async def resume(self, request: Request) -> Response:
        """Answer a question of a process, and wait a while for the result or the next question."""
        process = await self._own(request)
        self._require(self._access.of_process(process))
        api.read_query(api.Query, request)
        asked = read(api.ContinueRequest, await body_of(request))
        question = _question_of(process, asked.awaitable_id)
        async with admitted(self._publisher.limits, request, begins=False):
            try:
                form = None if asked.declined else form_of(question)
            except UNREADABLE:
                kind = type_name(question.response_type)
                detail = f"A {kind} cannot be read from JSON: decline, or delete the process."
                raise _conflict("unreadable-question", detail) from None
            try:
                response = None if form is None else form.read(asked.response)
                caller = current_caller()
                await answer_question(self._publisher, caller, question, response, declined=asked.declined)
            except AlreadyAnswered as error:
                raise _conflict("already-answered", f"{error} The first answer counts.") from None
            except BadInput as error:
                if not error.problems:  # the process has ended meanwhile
                    raise _conflict("not-waiting", str(error)) from None
                problems = [each.removeprefix("answer: ") for each in error.problems]
                raise invalid(problems, str(error), within="response") from None
            return answer_to(process, await _outcome_within(process, asked.wait), root_of(request))

    async def look(self, request: Request) -> Response:
        """The state of a process; with `wait`, once it has ended or waits for an answer."""
        process = await self._own(request)
        await _outcome_within(process, api.read_query(api.StateQuery, request).wait)
        return JSONResponse(view_of(process, root_of(request)))

    async def end(self, request: Request) -> Response:
        """Kill a process; one that has ended is not changed, unless it is to be erased."""
        process, trail = await self._own(request), self._publisher.audit_trail
        self._require(self._access.of_process(process))
        asked, goes_on = api.read_query(api.EndQuery, request), not process.status.ended
        if asked.erase:
            await self._platform.processes.erase(process.root.id, asked.reason)
            trail.erased(current_caller(), None, {"process_id": process.id})
        else:
            process.kill(asked.reason)
            if goes_on:
                trail.ended(current_caller(), process.id)
            with anyio.move_on_after(_END_SECONDS):
                await process.rest()
        return JSONResponse(view_of(process, root_of(request)))

    async def erase(self, request: Request) -> Response:
        """Erase the data of the caller; an admin may erase the data of any caller."""
        asked, caller = api.read_query(api.EraseQuery, request), current_caller()
        self._require(self._publisher.publication.scopes.rules.write)
        if asked.caller:
            self._require_admin("erase what another left")
        whose = caller
        if asked.caller:
            whose = await caller_known_as(asked.caller, asked.issuer, self._platform.store)
        erased = (await self._platform.erase(whose, dry_run=asked.dry_run))._asdict()
        if not asked.dry_run:
            self._publisher.audit_trail.erased(caller, whose, erased)
        return JSONResponse({to_camel(name): number for name, number in erased.items()})

    async def list(self, request: Request) -> Response:
        """A page of the processes of the caller, or for an admin of those of all callers."""
        asked, caller = api.read_query(api.ListQuery, request, "status"), current_caller()
        if asked.of_all:
            self._require_admin("list those of all callers")
        with suppress(Unreadable):  # a process that cannot be read exists too
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
        lines = [
            {
                "processId": each.id,
                "agent": each.agent,
                **({"caller": {"id": each.caller.id, "issuer": each.caller.issuer}} if asked.of_all else {}),
                "status": each.status,
                "startedBy": each.parent or None,
                "createdAt": each.created_at.isoformat(),
                "finishedAt": each.finished_at.isoformat() if each.final and each.finished_at is not None else None,
                "links": _links(root_of(request), each.id),
            }
            for each in shown
        ]
        return JSONResponse({"processes": lines, "links": links})

    def _require_admin(self, what: str) -> None:
        if not current_caller().admin:
            detail = f"Only who has the scope {self._publisher.settings.auth.scope('admin')} may {what}."
            raise Problem(HTTPStatus.FORBIDDEN, "admin-only", detail)

    async def follow(self, request: Request) -> Response:
        """A stream of the events after a number; 204 if there will be none, so that browsers do not reconnect."""
        process = await self._own(request)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        asked = api.read_query(api.EventsQuery, request)
        if _LAST_ID in request.headers:  # a client that reconnects repeats its first query
            asked = read(api.EventsQuery, {"after": request.headers[_LAST_ID]})
        ended = process.status.ended
        events = self._platform.events(process.id, asked.after)
        async with AsyncExitStack() as counted:
            counted.enter_context(self._open.one_of(current_caller()))
            first = await anext(events, None) if ended else None
            if ended and first is None:
                return Response(status_code=HTTPStatus.NO_CONTENT)
            return EventStream(_written(first, events), self._publisher.settings.heartbeat_seconds, counted.pop_all())


def _question_of(process: AgentProcess, question_id: str | None) -> Question:
    """The open question of that id, or the only one. Raises `Problem`."""
    waiting = process.open_questions
    if question_id is None and len(waiting) > 1:
        named = ", ".join(each.id for each in waiting)
        raise invalid(["awaitableId: required, since several are open"], f"Say which you answer: {named}.")
    if question_id is not None:
        try:
            _, question = find_question(process, question_id)
        except UnknownName:
            detail = f"Process {process.id} has asked no question {question_id[:100]!r}. Expected an awaitableId of it."
            raise invalid([f"awaitableId: {detail}"], detail) from None
        if question.status != "open":
            detail = f"Question {question.id} is {question.status} already: the first answer counts."
            raise _conflict("already-answered", detail)
        waiting = [question] if question in waiting else []
    if not waiting:
        raise _conflict("not-waiting", f"Process {process.id} waits for no answer: it is {process.status}.")
    return waiting[0]


def _conflict(kind: str, detail: str) -> Problem:
    return Problem(HTTPStatus.CONFLICT, kind, detail)


async def _outcome_within(process: AgentProcess, seconds: float) -> Outcome | None:
    """The outcome of a process; None if it still runs after so many seconds, or goes on in another server."""
    try:
        with anyio.move_on_after(seconds):
            return await process.wait()
    except HandedOver:
        return None
    return None if process.withheld else process.outcome


async def _written(first: LoggedEvent | None, events: AsyncGenerator[LoggedEvent]) -> AsyncIterator[ServerSentEvent]:
    """Events as JSON data, without what models and tools say to each other."""

    def message(logged: LoggedEvent) -> ServerSentEvent:
        view = {to_camel(name): value for name, value in as_json(logged.event).items() if name not in DIALOGUE}
        data = hide_known(json.dumps(view, ensure_ascii=False))
        return ServerSentEvent(data, event=api.EVENT_NAME, id=str(logged.number), sep="\n")

    async with aclosing(events):
        if first is not None:
            yield message(first)
        with suppress(HandedOver, StoreError):  # the client connects again, perhaps with another replica
            async for each in events:
                yield message(each)


def answer_to(process: AgentProcess, outcome: Outcome | None, root: str) -> Response:
    """The response to a request that started or continued a process; an `outcome` of None means it still runs.

    `root` is the path under which the server is mounted; links begin with it.

    Raises `Problem` if it ended without a result.
    """
    goal = CallPolicy.of_process(process).name
    # An outcome that it has reached since then is not in this response.
    status = outcome.status if outcome else ProcessStatus.RUNNING if process.outcome else process.status
    head = {"processId": process.id, "goal": goal, "status": str(status)}
    links = {"links": _links(root, process.id)}
    if outcome is None or isinstance(outcome, Waiting):
        asked = _asked(outcome, map(question_view, process.open_questions))
        return JSONResponse({**head, **asked, **links}, HTTPStatus.ACCEPTED, {"Location": links["links"]["self"]})
    if isinstance(outcome, Failed) and outcome.not_begun:
        raise unavailable(outcome.reason)
    try:
        result = _result(process, outcome) if isinstance(outcome, Completed) else b"null"
        why = reason_of(outcome, goal)
    except ToolError as error:
        result, why = b"null", str(error)
    if why is not None:
        about = {"processId": process.id, "goal": goal, "processStatus": str(status)}  # `status` is that of HTTP
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "no-result", why, errors=[], **about, **links)
    after = {"cost": cost_of(process), **links}
    # The result is JSON already, and may be large.
    content = to_json(head)[:-1], b',"result":', result, b",", to_json(after)[1:]
    return Response(b"".join(content), media_type="application/json")


def _result(process: AgentProcess, outcome: Completed) -> bytes:
    """The result as JSON. Raises `ToolError` if it cannot be written."""
    policy = CallPolicy.of_process(process)
    return written_by(policy.output.json, policy.name, outcome.value)


def view_of(process: AgentProcess, root: str) -> dict[str, Any]:
    """All that is known of a process: its status, plan, history, cost and questions, and its result if it has one."""
    view = process_view(process)
    del view["id"]
    content = {
        "processId": process.id,
        **view,
        "goal": CallPolicy.of_process(process).name,
        "reason": None if view["reason"] is None else cleaned(hide_known(view["reason"])),
        **_asked(process.outcome, view["questions"]),
        "links": _links(root, process.id),
    }
    if isinstance(process.outcome, Completed):
        try:
            content["result"] = from_json(_result(process, process.outcome))
        except ToolError as error:
            content["reason"] = cleaned(hide_known(str(error)))
    return content


def _links(root: str, process_id: str) -> dict[str, str]:
    name = quote(process_id, safe="")
    path = f"{root}{api.PROCESSES}/{name}"
    return {
        "self": path,
        "wait": f"{path}?wait={_WAIT_SECONDS}",
        "continue": f"{path}/continue",
        "events": f"{root}{api.EVENTS}/{name}",
    }


def _asked(outcome: Outcome | None, views: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The questions of a process; if it waits for answers, the members of the first are at the top level too."""
    questions: list[dict[str, Any]] = []
    for view in views:
        schema, labels = view.get("schema", {}), {each["key"]: each["label"] for each in view.get("options", ())}
        options = [{**each, "label": labels.get(each["label"], each["label"])} for each in _options(schema)]
        asked = {"awaitableId": view["id"], "prompt": view["message"], "kind": view.get("kind", "form")}
        shown = {**({"options": options} if options else {}), **({"url": view["url"]} if "url" in view else {})}
        questions.append({**asked, "schema": schema, **shown, "askedAt": view["askedAt"]})
    first = questions[0] if isinstance(outcome, Waiting) and questions else {}
    named = ("awaitableId", "prompt", "schema", "options", "url")
    return {**{name: first[name] for name in named if name in first}, "questions": questions}


def _options(schema: Schema) -> Iterator[dict[str, Any]]:
    """The complete answers to choose from, if only a yes or no, or one field with listed values, is asked for."""
    if schema.get("type") == "boolean":
        yield from ({"label": label, "response": value} for label, value in (("Yes", True), ("No", False)))
        return
    properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
    chosen = {name: values for name, each in properties.items() if (values := _values(each))}
    if len(chosen) == 1 and set(schema.get("required", ())) <= chosen.keys():
        for name, values in chosen.items():
            yield from ({"label": label, "response": {name: value}} for label, value in values)


def _values(schema: Schema) -> list[tuple[str, Any]]:
    """The values that a field can have, with their labels; none if there is no fixed list of them."""
    if "enum" in schema:
        return [(str(each), each) for each in schema["enum"]]
    titled: list[Schema] = schema.get("oneOf", schema.get("anyOf", []))
    if all("const" in each for each in titled):
        return [(str(each.get("title", each["const"])), each["const"]) for each in titled]
    return []
