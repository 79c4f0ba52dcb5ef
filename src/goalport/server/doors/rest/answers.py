"""The answers about processes, as JSON: a result, the state of what goes on or waits, and why there is no result.

Every answer about one process begins with the same members. Nothing is awaited. The handlers are above.
"""

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import quote

from pydantic_core import from_json, to_json
from starlette.responses import JSONResponse, Response

from goalport.base.errors import ToolError
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.runtime.process import AgentProcess, Completed, Failed, Outcome, ProcessStatus, Waiting
from goalport.server.publish.answers import reason_of, written_by
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.portability import Schema
from goalport.server.publish.resources import cost_of, process_view, question_view
from goalport.server.web.problems import Problem, unavailable
from goalport.store import ProcessRecord

PROCESSES: Final = "/api/v1/process"
EVENTS: Final = "/events/process"
INFO: Final = "/api/v1/platform-info"
_WAIT_SECONDS: Final = 30
"""How long the link `wait` waits for the result, or for a question."""


def answer_to(process: AgentProcess, outcome: Outcome | None, root: str) -> Response:
    """The answer to a request that started or continued a process; None: it still runs.

    `root` is the path under which the server is mounted, with which links begin.

    Raises `Problem` if it ended without a result.
    """
    goal = CallPolicy.of_process(process).name
    # What it came to since is not in this answer.
    status = outcome.status if outcome else ProcessStatus.RUNNING if process.outcome else process.status
    head = {"processId": process.id, "goal": goal, "status": str(status)}
    links = {"links": _links(root, process.id)}
    if outcome is None or isinstance(outcome, Waiting):
        asked = _asked(outcome, map(question_view, process.open_questions))
        return JSONResponse({**head, **asked, **links}, HTTPStatus.ACCEPTED, {"Location": _path(root, process.id)})
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


def record_line(record: ProcessRecord, root: str, *, with_caller: bool = False) -> dict[str, Any]:
    """A process in a list; `with_caller` says for whom it runs."""
    caller = {"caller": {"id": record.caller.id, "issuer": record.caller.issuer}} if with_caller else {}
    return {
        "processId": record.id,
        "agent": record.agent,
        **caller,
        "status": record.status,
        "startedBy": record.parent or None,
        "createdAt": record.created_at.isoformat(),
        "finishedAt": record.finished_at.isoformat() if record.final and record.finished_at is not None else None,
        "links": _links(root, record.id),
    }


def _path(root: str, process_id: str) -> str:
    return f"{root}{PROCESSES}/{quote(process_id, safe='')}"


def _links(root: str, process_id: str) -> dict[str, str]:
    path = _path(root, process_id)
    return {
        "self": path,
        "wait": f"{path}?wait={_WAIT_SECONDS}",
        "continue": f"{path}/continue",
        "events": f"{root}{EVENTS}/{quote(process_id, safe='')}",
    }


def _asked(outcome: Outcome | None, views: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The questions of a process; if it waits for answers, the first is also beside what is said of the process."""
    questions = [_question(each) for each in views]
    first = questions[0] if isinstance(outcome, Waiting) and questions else {}
    shown = {"awaitableId", "prompt", "schema", "options", "url"}
    return {**{name: value for name, value in first.items() if name in shown}, "questions": questions}


def _question(view: Mapping[str, Any]) -> dict[str, Any]:
    schema = view.get("schema", {})
    labels = {each["key"]: each["label"] for each in view.get("options", ())}
    options = [{**each, "label": labels.get(each["label"], each["label"])} for each in _options(schema)]
    return {
        "awaitableId": view["id"],
        "prompt": view["message"],
        "kind": view.get("kind", "form"),
        "schema": schema,
        **({"options": options} if options else {}),
        **({"url": view["url"]} if "url" in view else {}),
        "askedAt": view["askedAt"],
    }


def _options(schema: Schema) -> Iterator[dict[str, Any]]:
    """The answers to choose from, each whole, if that is all that is asked: one field with a fixed list of values."""
    if schema.get("type") == "boolean":
        yield from ({"label": label, "response": value} for label, value in (("Yes", True), ("No", False)))
        return
    properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
    chosen = [name for name, each in properties.items() if _values(each)]
    if len(chosen) == 1 and set(schema.get("required", ())) <= {*chosen}:
        (name,) = chosen
        for label, value in _values(properties[name]):
            yield {"label": label, "response": {name: value}}


def _values(schema: Schema) -> list[tuple[str, Any]]:
    """The values that a field can have, with their labels; none if there is no fixed list of them."""
    if "enum" in schema:
        return [(str(each), each) for each in schema["enum"]]
    titled: list[Schema] = schema.get("oneOf", schema.get("anyOf", []))
    if all("const" in each for each in titled):
        return [(str(each.get("title", each["const"])), each["const"]) for each in titled]
    return []
