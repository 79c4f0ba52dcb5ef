"""The bodies and queries of requests to the REST door, and its OpenAPI 3.1 document: every path and published goal.

The document is made again when the publication has changed. The schemas of requests come from the models that read
them, the schemas of goals from their tools. Above: the handlers, and the door.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport import __version__
from goalport.runtime.process import ProcessStatus
from goalport.runtime.process.lifecycle import ID
from goalport.server.auth import Access
from goalport.server.publish.forms import FORMS
from goalport.server.publish.goal_tools import GoalTool, published_name
from goalport.server.publish.portability import DEFINITIONS, Schema, mapped
from goalport.server.publish.publication import Publication, Scopes
from goalport.server.publish.published_arguments import PublishedArguments, closed
from goalport.server.publish.publisher import Publisher
from goalport.server.web.endpoint import MEDIA_TYPE, invalid, read, root_of

PROCESSES: Final = "/api/v1/process"
EVENTS: Final = "/events/process"
INFO: Final = "/api/v1/platform-info"
EVENT_NAME: Final = "agent-process-event"
_LONGEST_WAIT: Final = 300.0
_LARGEST_PAGE: Final = 500
_LARGEST_NUMBER: Final = 2**53
_ANSWERS: Final = frozenset({"response", "declined"})
_Wait = Annotated[
    float,
    Field(
        ge=0,
        le=_LONGEST_WAIT,
        allow_inf_nan=False,
        description="For how many seconds the answer may wait for the result; 0: not at all",
    ),
]


class StartRequest(BaseModel):
    """The body of a request that starts a process."""

    model_config = ConfigDict(extra="forbid", strict=True)

    goal: str | None = Field(None, description="The published goal")
    agent: str | None = Field(None, description="In place of the goal, if the agent has only one that is published")
    input: dict[str, Any] | None = Field(None, description="The arguments of the goal, as its tool takes them")
    bindings: dict[str, Any] | None = Field(
        None, description="In place of the input: each object to start from, by its type's name in snake case"
    )
    wait: _Wait = 30.0


class ContinueRequest(BaseModel):
    """The body of a request that answers a question."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"oneOf": [{"required": [each]} for each in sorted(_ANSWERS)]}
    )

    awaitable_id: str | None = Field(
        None, alias="awaitableId", description="The question; needed only if several are open"
    )
    response: Any = Field(None, description="The person's answer, valid against the schema of the question")
    declined: str = Field(
        default_factory=str,
        min_length=1,
        max_length=2_000,
        description="In place of the response: why the person says no",
    )
    wait: _Wait = 30.0

    @model_validator(mode="after")
    def _has_one_answer(self) -> Self:
        if len(self.model_fields_set & _ANSWERS) != 1:
            raise PydanticCustomError("one_answer", "give either response or declined")
        return self


class Query(BaseModel):
    """The query of a request; this one is empty."""

    model_config = ConfigDict(extra="forbid")


class StateQuery(Query):
    """The query of a request for the state of a process."""

    wait: _Wait = 0.0


class EndQuery(Query):
    """The query of a request that kills a process."""

    reason: str = Field("Its caller deleted it.", min_length=1, max_length=2_000, description="Why, in a sentence")
    erase: bool = Field(default=False, description="Whether nothing of it and of what it started stays stored")


class EraseQuery(Query):
    """The query of a request that erases the data of a caller."""

    caller: str = Field("", max_length=1_000, description="Whose; by default your own; for admins alone")
    issuer: str | None = Field(None, max_length=1_000, description="Who issued the id of that caller, if several did")
    dry_run: bool = Field(default=False, alias="dryRun", description="Whether it is only counted")


class ListQuery(Query):
    """The query of a request for processes."""

    after: str = Field(
        "", pattern=f"^({ID.pattern})?$", description="The id of the process after which the page begins"
    )
    limit: int = Field(50, ge=1, le=_LARGEST_PAGE)
    status: list[ProcessStatus] = Field(default_factory=list[ProcessStatus], description="Only those; may be repeated")
    newest_first: bool = Field(default=True, alias="newestFirst")
    of_all: bool = Field(default=False, alias="all", description="Those of all callers; for admins alone")


class EventsQuery(Query):
    """The query of a request for events."""

    after: int = Field(0, ge=0, le=_LARGEST_NUMBER, description="The number of the event after which to begin")


Q = TypeVar("Q", bound=Query)


def read_query(kind: type[Q], request: Request, *lists: str) -> Q:
    """The query of a request, in which the names `lists` may be repeated. Raises `Problem`."""
    query = request.query_params
    if repeated := [name for name in query if name not in lists and len(query.getlist(name)) > 1]:
        raise invalid([f"{each}: given more than once" for each in repeated], "Give each parameter once.")
    return read(kind, {name: query.getlist(name) if name in lists else value for name, value in query.items()})


_MAX_DOCUMENTS: Final = 16
_SCHEMAS: Final = "#/components/schemas/"
_TEXT: Final[Schema] = {"type": "string"}
_INTEGER: Final[Schema] = {"type": "integer"}
_OBJECT: Final[Schema] = {"type": "object"}
_TIME: Final[Schema] = {"type": "string", "format": "date-time"}
_LINKS: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
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
_EVERYWHERE: Final = frozenset({403, 421, 422, 500, 503})
_OF_BODIES: Final = (400, 413, 415)


def _ref(name: str) -> Schema:
    return {"$ref": f"{_SCHEMAS}{name}"}


def _object(texts: str, required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object; `texts` are names of required members that are texts."""
    needed = {**dict.fromkeys(texts.split(), _TEXT), **required}
    return {"type": "object", "properties": {**needed, **(optional or {})}, "required": [*needed]}


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_COST: Final = _object("", {"usd": {"type": "number"}, "modelCalls": _INTEGER})
_QUESTION: Final[Mapping[str, Schema]] = {
    "awaitableId": _TEXT,
    "prompt": _TEXT,
    "schema": {"type": "object", "description": "The JSON Schema of the response"},
}
_SOMETIMES: Final[Mapping[str, Schema]] = {
    "options": {
        **_list_of(_object("label", {"response": {}})),
        "description": "All responses to choose from, if there are few",
    },
    "url": {**_TEXT, "description": "The address that the person opens to do what is asked"},
}
_FINISHED: Final[Mapping[str, Schema]] = {"status": {"const": "completed"}, "cost": _COST, "links": _LINKS}
_ASKED: Final[Mapping[str, Schema]] = {"questions": _list_of(_ref("Question")), "links": _LINKS}
_TIMES: Final[Mapping[str, Schema]] = {"createdAt": _TIME, "finishedAt": _optional(_TIME)}
_FIXED: Final[Mapping[str, Schema]] = {
    "Problem": _object(
        "type title detail",
        {"status": _INTEGER},
        {
            **dict.fromkeys(["processId", "goal", "processStatus", "limit"], _TEXT),
            "errors": _list_of(_object("field detail", {})),
            "links": _LINKS,
        },
    ),
    "Question": _object("", {**_QUESTION, "kind": {"enum": [*FORMS]}, "askedAt": _TIME}, _SOMETIMES),
    "Unfinished": _object(
        "processId goal",
        {"status": {"enum": ["not_started", "running", "paused", "waiting"]}, **_ASKED},
        {**_QUESTION, **_SOMETIMES},
    ),
    "Finished": _object("processId goal", {**_FINISHED, "result": {}}),
    "Process": _object(
        "processId agent status goal mermaid",
        {
            **_TIMES,
            **_ASKED,
            "reason": _optional(_TEXT),
            "plan": _list_of(_TEXT),
            "history": _list_of(_object("action status", {"startedAt": _TIME})),
            "cost": _COST,
            "models": _OBJECT,
        },
        {"result": {}, **_QUESTION, **_SOMETIMES},
    ),
    "ProcessPage": _object(
        "",
        {
            "processes": _list_of(
                _object(
                    "processId agent status",
                    {**_TIMES, "links": _LINKS, "startedBy": _optional(_TEXT)},
                    {"caller": _object("id issuer", {})},
                )
            ),
            "links": _LINKS,
        },
    ),
    "Erased": _object("", dict.fromkeys(["conversations", "processes", "contexts", "documents", "signIns"], _INTEGER)),
    "PlatformInfo": _object("name version", {"counts": _OBJECT, "links": _LINKS}),
    "Entries": {"type": "object", "additionalProperties": _list_of(_OBJECT), "minProperties": 1},
}


class OpenApi:
    """The handler of requests for the document; `lists` are the lists of what is deployed."""

    def __init__(self, publisher: Publisher, access: Access, lists: Sequence[str]) -> None:
        self._name, self._access, self._lists = publisher.settings.name, access, lists
        self._known: dict[Scopes | None, tuple[Publication, Mapping[str, Any]]] = {}
        """The latest documents, by the scopes of the callers that they are shown to."""

    async def show(self, request: Request) -> Response:
        """The document for what is published now and the caller may use."""
        read_query(Query, request)
        publication = self._access.publication
        known = self._known.get(publication.granted)
        if known is None or known[0] is not publication:
            if len(self._known) >= _MAX_DOCUMENTS:
                self._known.clear()
            goals = [each for each in publication.tools.values() if isinstance(each, GoalTool)]
            document = {
                "openapi": "3.1.0",
                "info": {"title": self._name, "version": __version__, "description": "Goals of agents, as processes."},
                "paths": _paths(goals, self._lists),
                "components": {"schemas": {**_FIXED, **_schemas(goals)}},
            }
            known = self._known[publication.granted] = publication, document
        root = root_of(request)
        return JSONResponse({**known[1], **({"servers": [{"url": root}]} if root else {})})


def _schemas(goals: Sequence[GoalTool]) -> Mapping[str, Schema]:
    """The inputs and outputs of goals, and the bodies of requests."""
    found: dict[str, Schema] = {"Continue": ContinueRequest.model_json_schema()}
    starts, ends = list[Schema](), list[Schema]()
    wait = StartRequest.model_json_schema()["properties"]["wait"]
    for each in goals:
        name, about, alone = each.tool.name, each.tool.description or "", {"const": each.agent.name}
        for part, schema in (
            ("input", closed(each.arguments.schema)),
            ("bindings", closed(PublishedArguments.by_type(each.arguments.kinds).schema)),
            ("result", each.policy.output.value_schema),
        ):
            found[f"{name}.{part}"] = _placed(schema, f"{name}.{part}")
        named = [({"goal": {"const": name}}, about)]
        named += [({"agent": alone}, "")] if sum(other.agent is each.agent for other in goals) == 1 else []
        for members, description in named:
            for part in ("input", "bindings"):
                given = {part: _ref(f"{name}.{part}")}
                needed = part == "bindings" or bool(each.arguments.schema.get("required"))
                schema = _object("", {**members, **(given if needed else {})}, {**given, "wait": wait})
                starts.append({**schema, "additionalProperties": False, "description": description})
        # Answers name a goal the same, from whatever types it was started.
        first = next(other for other in each.agent.goals if other.name == each.goals[0])
        goal: Schema = {"const": published_name(each.agent, first)}
        ends.append(_object("processId", {**_FINISHED, "goal": goal, "result": _ref(f"{name}.result")}))
    found["Start"] = {"oneOf": starts} if starts else {"not": {}, "description": "No goal is published."}
    found["Result"] = {"anyOf": ends} if ends else _ref("Finished")
    return found


def _placed(schema: Schema, name: str) -> Schema:
    """The schema as the component `name` of the document, with the references to its own definitions adapted."""
    target = str(schema.get("$ref", ""))
    moved = {"$ref": f"{_SCHEMAS}{name}/{target.removeprefix('#/')}"} if target.startswith(DEFINITIONS) else {}
    return mapped({**schema, **moved}, lambda inner: _placed(inner, name))


def _paths(goals: Sequence[GoalTool], lists: Sequence[str]) -> Mapping[str, Any]:
    key = {"name": "Idempotency-Key", "in": "header", "schema": {**_TEXT, "minLength": 1, "maxLength": 256}}
    last = {"name": "Last-Event-ID", "in": "header", "schema": EventsQuery.model_json_schema()["properties"]["after"]}
    about_goals = {"description": f"Goals: {', '.join(each.tool.name for each in goals) or 'none'}."}
    unfinished = _json("Unfinished", "It goes on, or waits for a person", "look", "continue", "follow", "end")
    started = {200: _json("Result", "The result", "look", "follow", "end"), 202: unfinished}
    resumed = {200: _json("Finished", "The result"), 202: unfinished}
    state = {200: _json("Process", "Its state", "end")}
    events: dict[int, dict[str, Any]] = {
        200: {"description": f"Server-sent events, {EVENT_NAME}, with JSON data", "content": {"text/event-stream": {}}},
        204: {"description": "It has ended, and there are no more events."},
    }
    listed = {200: _json("ProcessPage", "A page")}
    erased = {200: _json("Erased", "How much was erased, or would be")}
    info = {200: _json("PlatformInfo", "Counts and links")}
    document = {200: {"description": "It", "content": {"application/json": {"schema": _OBJECT}}}}
    one = f"{PROCESSES}/{{id}}"
    start = _operation("start", "Start a goal", started, *_OF_BODIES, 429, takes="Start", given=[key])
    resume = _operation("continue", "Answer a question", resumed, *_OF_BODIES, 404, 409, 429, takes="Continue")
    return {
        PROCESSES: {"post": {**start, **about_goals}},
        one: {
            "parameters": [_ID],
            "get": _operation("look", "Look at a process", state, 404, given=_query(StateQuery)),
            "delete": _operation("end", "Kill or erase a process", state, 404, given=_query(EndQuery)),
        },
        f"{one}/continue": {"parameters": [_ID], "post": resume},
        "/api/v1/processes": {
            "get": _operation("list", "List your processes", listed, given=_query(ListQuery)),
            "delete": _operation("erase", "Erase what you left", erased, given=_query(EraseQuery)),
        },
        f"{EVENTS}/{{id}}": {
            "parameters": [_ID],
            "get": _operation("follow", "Follow a process", events, 404, 429, given=[*_query(EventsQuery), last]),
        },
        INFO: {"get": _operation("info", "What is deployed", info)},
        "/openapi.json": {"get": _operation("document", "This document", document)},
        **{
            f"{INFO}/{name}": {"get": _operation(name, f"List {name}", {200: _json("Entries", f"All {name}")})}
            for name in lists
        },
    }


_ID: Final = {"name": "id", "in": "path", "required": True, "schema": _TEXT, "description": "The processId"}


def _query(kind: type[BaseModel]) -> list[dict[str, Any]]:
    schema, found = kind.model_json_schema(), list[dict[str, Any]]()
    for name, each in schema["properties"].items():
        if target := each.get("items", {}).get("$ref"):
            each["items"] = schema["$defs"][target.removeprefix(DEFINITIONS)]
        found.append({"name": name, "in": "query", "schema": each})
    return found


def _json(name: str, description: str, *operations: str) -> dict[str, Any]:
    """A response in JSON, with links to the operations that read, answer, follow and end its process."""
    process = {"parameters": {"id": "$response.body#/processId"}}
    answer = {"awaitableId": "$response.body#/awaitableId", "response": "$response.body#/options/0/response"}
    bodies = {"continue": {"requestBody": answer}}
    links = {each: {"operationId": each, **process, **bodies.get(each, {})} for each in operations}
    content = {"description": description, "content": {"application/json": {"schema": _ref(name)}}}
    return {**content, "links": links} if links else content


def _operation(
    name: str,
    summary: str,
    answers: Mapping[int, dict[str, Any]],
    *problems: int,
    takes: str = "",
    given: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    responses = {str(status): each for status, each in answers.items()}
    for status in sorted(_EVERYWHERE.union(problems)):
        content = {MEDIA_TYPE: {"schema": _ref("Problem")}}
        responses[str(status)] = {"description": _PROBLEMS[status], "content": content}
    body = {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref(takes)}}}}
    return {
        "operationId": name,
        "summary": summary,
        **({"parameters": [*given]} if given else {}),
        **(body if takes else {}),
        "responses": responses,
    }
