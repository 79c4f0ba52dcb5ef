"""The OpenAPI 3.1 document of the REST door: every path, and the input and output of every published goal.

It is made anew when the publication has changed. The schemas of requests come from the models that read them, those of
goals from their tools. Above: the door.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport import __version__
from goalport.server.auth import Access
from goalport.server.doors.rest.answers import EVENTS, INFO, PROCESSES
from goalport.server.doors.rest.processes import EVENT_NAME, query_of
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
from goalport.server.publish.forms import FORMS
from goalport.server.publish.goal_tools import GoalTool, published_name
from goalport.server.publish.portability import DEFINITIONS, Schema, mapped
from goalport.server.publish.publication import Publication, Scopes
from goalport.server.publish.published_arguments import PublishedArguments
from goalport.server.publish.publisher import Publisher
from goalport.server.web.endpoint import read, root_of
from goalport.server.web.problems import MEDIA_TYPE

_MOST: Final = 16
_SCHEMAS: Final = "#/components/schemas/"
_TEXT: Final[Schema] = {"type": "string"}
_OBJECT: Final[Schema] = {"type": "object"}
_PROBLEMS: Final = {
    400: "The body is not JSON.",
    404: "There is no such process, or it is not the caller's.",
    403: "The caller may not do this, or the request comes from a web page whose origin is not allowed.",
    409: "The process does not wait for an answer, or has it already.",
    413: "The body is larger than max_body_bytes.",
    415: "The body is not announced as JSON, or is compressed.",
    421: "The server does not answer for the host in the request.",
    422: "Values are wrong, each with an entry in `errors`; or the process ended without a result.",
    429: "The caller does, or has done, as much as one may: Retry-After says when to try again.",
    500: "A bug. The server's log has it under the id that is told.",
    503: "The store cannot be reached, the server is stopping, or too much is open. Try again.",
}


def _ref(name: str) -> Schema:
    return {"$ref": f"{_SCHEMAS}{name}"}


def _an_object(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": [*required]}


def _optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_TIME: Final[Schema] = {"type": "string", "format": "date-time"}
_LINKS: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
_COST: Final[Schema] = _an_object({"usd": {"type": "number"}, "modelCalls": {"type": "integer"}})
_QUESTION: Final[Schema] = {
    "awaitableId": _TEXT,
    "prompt": _TEXT,
    "schema": {"type": "object", "description": "The JSON Schema of the response"},
}
_SOMETIMES: Final[Schema] = {
    "options": {
        "type": "array",
        "description": "All responses to choose from, if there are few",
        "items": _an_object({"label": _TEXT, "response": {}}),
    },
    "url": {**_TEXT, "description": "The address that the person opens to do what is asked"},
}
_FINISHED: Final[Schema] = {
    "processId": _TEXT,
    "goal": _TEXT,
    "status": {"const": "completed"},
    "cost": _COST,
    "links": _LINKS,
}
_FIXED: Final[Mapping[str, Schema]] = {
    "Problem": _an_object(
        {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT},
        {
            "errors": {"type": "array", "items": _an_object({"field": _TEXT, "detail": _TEXT})},
            "processId": _TEXT,
            "goal": _TEXT,
            "processStatus": _TEXT,
            "links": _LINKS,
            "limit": _TEXT,
        },
    ),
    "Question": _an_object(
        {**_QUESTION, "kind": {"enum": [*FORMS]}, "askedAt": _TIME},
        _SOMETIMES,
    ),
    "Unfinished": _an_object(
        {
            "processId": _TEXT,
            "goal": _TEXT,
            "status": {"enum": ["not_started", "running", "paused", "waiting"]},
            "questions": {"type": "array", "items": _ref("Question")},
            "links": _LINKS,
        },
        {**_QUESTION, **_SOMETIMES},
    ),
    "Finished": _an_object({**_FINISHED, "result": {}}),
    "Process": _an_object(
        {
            "processId": _TEXT,
            "goal": _TEXT,
            "agent": _TEXT,
            "status": _TEXT,
            "reason": _optional(_TEXT),
            "plan": {"type": "array", "items": _TEXT},
            "history": {"type": "array", "items": _an_object({"action": _TEXT, "startedAt": _TIME, "status": _TEXT})},
            "questions": {"type": "array", "items": _ref("Question")},
            "createdAt": _TIME,
            "finishedAt": _optional(_TIME),
            "cost": _COST,
            "models": _OBJECT,
            "mermaid": _TEXT,
            "links": _LINKS,
        },
        {"result": {}, **_QUESTION, **_SOMETIMES},
    ),
    "ProcessPage": _an_object(
        {
            "processes": {
                "type": "array",
                "items": _an_object(
                    {
                        "processId": _TEXT,
                        "agent": _TEXT,
                        "status": _TEXT,
                        "startedBy": _optional(_TEXT),
                        "createdAt": _TIME,
                        "finishedAt": _optional(_TIME),
                        "links": _LINKS,
                    },
                    {"caller": _an_object({"id": _TEXT, "issuer": _TEXT})},
                ),
            },
            "links": _LINKS,
        }
    ),
    "Erased": _an_object(
        {each: {"type": "integer"} for each in ("conversations", "processes", "contexts", "documents", "signIns")}
    ),
    "PlatformInfo": _an_object({"name": _TEXT, "version": _TEXT, "counts": _OBJECT, "links": _LINKS}),
    "Entries": {"type": "object", "additionalProperties": {"type": "array", "items": _OBJECT}, "minProperties": 1},
}


class OpenApi:
    """The handler of requests for the document; `lists` are the lists of what is deployed."""

    def __init__(self, publisher: Publisher, access: Access, lists: Sequence[str]) -> None:
        self._name, self._access, self._lists = publisher.settings.name, access, lists
        self._known: dict[Scopes | None, tuple[Publication, Mapping[str, Any]]] = {}
        """The latest documents, by the scopes of the callers that they are shown to."""

    async def show(self, request: Request) -> Response:
        """The document for what is published now, as far as the caller may use it."""
        read(NoQuery, query_of(request))
        publication = self._access.publication
        known = self._known.get(publication.granted)
        if known is None or known[0] is not publication:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[publication.granted] = publication, self._document(publication)
        root = root_of(request)
        return JSONResponse({**known[1], **({"servers": [{"url": root}]} if root else {})})

    def _document(self, publication: Publication) -> Mapping[str, Any]:
        goals = [each for each in publication.tools.values() if isinstance(each, GoalTool)]
        return {
            "openapi": "3.1.0",
            "info": {"title": self._name, "version": __version__, "description": "Goals of agents, as processes."},
            "paths": {**_paths(goals), **_lists(self._lists)},
            "components": {"schemas": {**_FIXED, **_schemas(goals)}},
        }


def _schemas(goals: Sequence[GoalTool]) -> Mapping[str, Schema]:
    """The inputs and outputs of goals, and the bodies of requests."""
    found: dict[str, Schema] = {"Continue": ContinueRequest.model_json_schema()}
    starts: list[Schema] = []
    ends: list[Schema] = []
    for each in goals:
        name = each.tool.name
        bindings = PublishedArguments.by_type(each.arguments.kinds)
        for part, schema in (
            ("input", each.arguments.closed_schema),
            ("bindings", bindings.closed_schema),
            ("result", each.policy.output.value_schema),
        ):
            found[f"{name}.{part}"] = _placed(schema, f"{name}.{part}")
        starts += _starts({"goal": {"const": name}}, each, description=each.tool.description or "")
        if sum(other.agent is each.agent for other in goals) == 1:
            starts += _starts({"agent": {"const": each.agent.name}}, each, description="")
        # The name of a goal in answers is the same from whatever it was started.
        first = next(other for other in each.agent.goals if other.name == each.goals[0])
        goal: Schema = {"const": published_name(each.agent, first)}
        ends.append(_an_object({**_FINISHED, "goal": goal, "result": _ref(f"{name}.result")}))
    found["Start"] = {"oneOf": starts} if starts else {"not": {}, "description": "No goal is published."}
    found["Result"] = {"anyOf": ends} if ends else _ref("Finished")
    return found


def _starts(named: Mapping[str, Schema], goal: GoalTool, *, description: str) -> Iterator[Schema]:
    """The bodies that start a goal: with input, or with bindings."""
    wait = StartRequest.model_json_schema()["properties"]["wait"]
    for part in ("input", "bindings"):
        given = {part: _ref(f"{goal.tool.name}.{part}")}
        needed = part == "bindings" or bool(goal.arguments.schema.get("required"))
        schema = _an_object({**named, **(given if needed else {})}, {**given, "wait": wait})
        yield {**schema, "additionalProperties": False, "description": description}


def _placed(schema: Schema, name: str) -> Schema:
    """A schema whose references to its own definitions are valid in the document, as the component of that name."""
    target = str(schema.get("$ref", ""))
    moved = {"$ref": f"{_SCHEMAS}{name}/{target.removeprefix('#/')}"} if target.startswith(DEFINITIONS) else {}
    placed = {**schema, **moved}
    return mapped(placed, lambda inner: _placed(inner, name))


def _paths(goals: Sequence[GoalTool]) -> Mapping[str, Any]:
    body = (400, 413, 415)
    key = {"name": "Idempotency-Key", "in": "header", "schema": {**_TEXT, "minLength": 1, "maxLength": 256}}
    last = {"name": "Last-Event-ID", "in": "header", "schema": EventsQuery.model_json_schema()["properties"]["after"]}
    one = f"{PROCESSES}/{{id}}"
    names = ", ".join(each.tool.name for each in goals) or "none"
    started = {
        200: {**_json("Result", "The result"), "links": _links("look", "follow", "end")},
        202: {**_json("Unfinished", "It goes on, or waits for a person"), "links": _links(*_NEXT)},
    }
    resumed = {**started, 200: _json("Finished", "The result")}
    state = {200: {**_json("Process", "Its state"), "links": _links("end")}}
    events: dict[int, dict[str, Any]] = {
        200: {"description": f"Server-sent events, {EVENT_NAME}, with JSON data", "content": {"text/event-stream": {}}},
        204: {"description": "It has ended, and there are no more events."},
    }
    listed = {200: _json("ProcessPage", "A page")}
    erased = {200: _json("Erased", "How much was erased, or would be")}
    return {
        PROCESSES: {
            "post": _operation(
                "start", "Start a goal", started, *body, 429, description=f"Goals: {names}.", takes="Start", given=[key]
            )
        },
        one: {
            "parameters": [_ID],
            "get": _operation("look", "Look at a process", state, 404, given=_query(StateQuery)),
            "delete": _operation("end", "Kill or erase a process", state, 404, given=_query(EndQuery)),
        },
        f"{one}/continue": {
            "parameters": [_ID],
            "post": _operation("continue", "Answer a question", resumed, *body, 404, 409, 429, takes="Continue"),
        },
        "/api/v1/processes": {
            "get": _operation("list", "List your processes", listed, given=_query(ListQuery)),
            "delete": _operation("erase", "Erase what you left", erased, given=_query(EraseQuery)),
        },
        f"{EVENTS}/{{id}}": {
            "parameters": [_ID],
            "get": _operation("follow", "Follow a process", events, 404, 429, given=[*_query(EventsQuery), last]),
        },
    }


def _lists(names: Sequence[str]) -> Mapping[str, Any]:
    """The paths that tell what is deployed, and this document."""
    info = {200: _json("PlatformInfo", "Counts and links")}
    document = {200: _content("application/json", _OBJECT, "It")}
    lists = {
        f"{INFO}/{name}": {"get": _operation(name, f"List {name}", {200: _json("Entries", f"All {name}")})}
        for name in names
    }
    return {
        INFO: {"get": _operation("info", "What is deployed", info)},
        "/openapi.json": {"get": _operation("document", "This document", document)},
        **lists,
    }


_NEXT: Final = ("look", "continue", "follow", "end")
"""The operations on the process of an answer."""


def _links(*operations: str) -> dict[str, Any]:
    """Where the process of an answer is looked at, answered, followed and ended."""
    process = {"parameters": {"id": "$response.body#/processId"}}
    answer = {"awaitableId": "$response.body#/awaitableId", "response": "$response.body#/options/0/response"}
    bodies = {"continue": {"requestBody": answer}}
    return {name: {"operationId": name, **process, **bodies.get(name, {})} for name in operations}


_ID: Final = {"name": "id", "in": "path", "required": True, "schema": _TEXT, "description": "The processId"}


def _query(kind: type[BaseModel]) -> list[dict[str, Any]]:
    schema, found = kind.model_json_schema(), list[dict[str, Any]]()
    for name, each in schema["properties"].items():
        if target := each.get("items", {}).get("$ref"):
            each["items"] = schema["$defs"][target.removeprefix(DEFINITIONS)]
        found.append({"name": name, "in": "query", "schema": each})
    return found


def _json(name: str, description: str) -> dict[str, Any]:
    return _content("application/json", _ref(name), description)


def _content(media: str, schema: Schema, description: str) -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": schema}}}


def _operation(
    name: str,
    summary: str,
    answers: Mapping[int, dict[str, Any]],
    *problems: int,
    description: str = "",
    takes: str = "",
    given: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    responses = {str(int(status)): each for status, each in answers.items()}
    for status in sorted({*problems, 403, 421, 422, 500, 503}):
        responses[str(status)] = _content(MEDIA_TYPE, _ref("Problem"), _PROBLEMS[status])
    body = {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref(takes)}}}}
    return {
        "operationId": name,
        "summary": summary,
        **({"description": description} if description else {}),
        **({"parameters": [*given]} if given else {}),
        **(body if takes else {}),
        "responses": responses,
    }
