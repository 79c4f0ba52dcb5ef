"""`resources/read`: the goals, the agents, a caller's own processes and their outputs, and what raw handlers serve."""

import json
from collections.abc import Mapping
from typing import Any

from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ReadResourceRequestParams, ReadResourceResult, TextResourceContents

from goalport.domain import Agent
from goalport.errors import UnknownName
from goalport.process import AgentProcess, Question
from goalport.publish.answers import cost_of
from goalport.publish.goal_tool import GoalTool
from goalport.publish.handle import Asked
from goalport.publish.pictures import picture_of
from goalport.publish.pieces import Pages
from goalport.publish.places import Place, place_of
from goalport.publish.publication import Publication
from goalport.secrecy import hide_known
from goalport.serve.callers import current_caller
from goalport.serve.failures import answer_of
from goalport.serve.serving import Context, Serving
from goalport.tools.schema_errors import UNREADABLE
from goalport.words import type_name

__all__ = ["may_watch", "read_resource"]


async def read_resource(context: Context, params: ReadResourceRequestParams) -> HandlerResult:
    """The contents at an address. Raises -32602 when there is nothing, or nothing for this caller."""
    serving, uri = context.lifespan_context, str(params.uri)
    raw = serving.publication.resources.get(uri)
    if raw is not None:
        return await answer_of(uri, raw.handler(context, params), tells_errors=serving.settings.show_errors)
    place = place_of(uri)
    if place is not None:
        return _own(serving, uri, place)
    for template in serving.publication.templates:
        if template.matches(uri):
            return await answer_of(uri, template.handler(context, params), tells_errors=serving.settings.show_errors)
    raise _not_found(uri)


def may_watch(serving: Serving, uri: str) -> bool:
    """Whether this caller may be told of changes there: of everything but other callers' processes."""
    place = place_of(uri)
    return place is None or not place.process or serving.process(place.process, current_caller()) is not None


def _own(serving: Serving, uri: str, place: Place) -> ReadResourceResult:
    if place.goals:
        return _json(uri, _goals(serving.publication, serving))
    if place.agent:
        return _json(uri, _agent(_named(serving, place.agent, uri)))
    process = serving.process(place.process, current_caller())
    if process is None:
        raise _not_found(uri)
    return _result(serving, uri, place, process) if place.result else _process(uri, process)


def _json(uri: str, data: object) -> ReadResourceResult:
    text = hide_known(json.dumps(data, indent=2, ensure_ascii=False))
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="application/json", text=text)])


def _not_found(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"There is no resource {uri[:200]!r}, or not for you.", {"uri": uri})


def _named(serving: Serving, name: str, uri: str) -> Agent:
    try:
        return serving.platform.agents.named(name)
    except UnknownName:
        raise _not_found(uri) from None


def _goals(publication: Publication, serving: Serving) -> list[dict[str, Any]]:
    tools: dict[tuple[str, str], list[str]] = {}
    for name, each in publication.tools.items():
        if isinstance(each, GoalTool):
            for goal in each.goals:
                tools.setdefault((each.agent.name, goal), []).append(name)
    return [
        {
            "goal": goal.name,
            "agent": agent.name,
            "description": goal.description,
            "output": type_name(goal.output) if goal.output is not None else None,
            "value": goal.value,
            "tags": list(goal.tags),
            "examples": list(goal.examples),
            "tools": tools.get((agent.name, goal.name), []),
        }
        for agent in serving.platform.agents
        for goal in agent.goals
    ]


def _agent(agent: Agent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "description": agent.description,
        "provider": agent.provider,
        "version": agent.version,
        "actions": [
            {
                "name": each.name,
                "description": each.description,
                "needs": [type_name(given.type) for given in each.inputs if given.required],
                "gives": type_name(each.outputs.type) if each.outputs.type is not None else None,
            }
            for each in agent.actions
        ],
        "goals": [{"name": each.name, "description": each.description} for each in agent.goals],
        "conditions": [each.name for each in agent.conditions],
    }


def _process(uri: str, process: AgentProcess) -> ReadResourceResult:
    picture = picture_of(process)
    state: Mapping[str, Any] = {
        "id": process.id,
        "agent": process.agent.name,
        "status": str(process.status),
        "reason": process.outcome.reason if process.outcome is not None else None,
        "goal": process.goal.name if process.goal is not None else None,
        "plan": list(process.plan),
        "questions": [_asked(each) for each in process.open_questions],
        "history": [
            {
                "action": each.action,
                "startedAt": each.started_at.isoformat(),
                "seconds": round(each.seconds, 6),
                "status": each.status,
                "error": each.error,
                "usd": each.usage.cost,
                "tokens": each.usage.tokens,
            }
            for each in process.history
        ],
        "createdAt": process.created_at.isoformat(),
        "finishedAt": process.finished_at.isoformat() if process.finished_at is not None else None,
        "cost": cost_of(process),
        "models": {name: {"usd": used.cost, "tokens": used.tokens} for name, used in process.ledger.by_model.items()},
        "mermaid": picture,
    }
    shown = TextResourceContents(uri=uri, mime_type="text/markdown", text=f"```mermaid\n{picture}\n```")
    return ReadResourceResult(contents=[*_json(uri, state).contents, shown])


def _asked(question: Question) -> dict[str, Any]:
    try:
        asked = Asked.of(question).structured
    except UNREADABLE:
        asked = {"id": question.id, "message": question.message}
    return {**asked, "askedAt": question.asked_at.isoformat()}


def _result(serving: Serving, uri: str, place: Place, process: AgentProcess) -> ReadResourceResult:
    found = Pages.of(process, serving.settings.max_result_bytes)
    if found is None:
        raise _not_found(uri)
    if place.page is None:
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=found.media, text=found.text)])
    if not 1 <= place.page <= len(found.pages):
        raise MCPError(INVALID_PARAMS, f"The result has the pages 1 to {len(found.pages)}.", {"uri": uri})
    more = {"goalport/page": place.page, "goalport/pages": len(found.pages)}
    text = found.pages[place.page - 1]
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=found.media, text=text, _meta=more)])
