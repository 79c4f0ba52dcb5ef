"""Goalport's own resources (the goals, the agents, the processes): their URIs, and their contents as JSON data.

This module writes and parses URIs and makes data; it knows no session and sends nothing. `doors.mcp.resources` answers
the requests for them; `answers` and `publication` are above too.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp_types import Resource, ResourceTemplate

from goalport.agents.domain import Agent, Goal
from goalport.base.words import type_name
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionInvocation, AgentProcess, Question
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.handle import OpenQuestion
from goalport.tools.schemas import UNREADABLE

_GOALS: Final = "goalport://goals"
_AGENT: Final = "goalport://agents/"
_PROCESS: Final = "goalport://processes/"
_JSON: Final = "application/json"
_URI: Final = re.compile(r"goalport://(?:(goals)|agents/([^/]+)|processes/([^/]+)(?:/(result)(?:/([0-9]{1,6}))?)?)")
_CLASSES: Final = {
    "declined": "declined",
    "replanned": "declined",
    "terminated": "declined",
    "failed": "failed",
}
"""The class of a step in the diagram of a process, by the status of its action; others are done."""


@dataclass(frozen=True, slots=True)
class ResourceUri:
    """What a URI of goalport names: the goals, an agent, or a process."""

    goals: bool
    agent: str
    process: str
    result: bool
    """Whether the URI names the output of the process and not its state."""
    page: int | None
    """The number of a page of the output, from 1; None for the whole output."""


def read_uri(uri: str) -> ResourceUri | None:
    """What a URI names; None if it is not a URI of goalport's own resources."""
    match = _URI.fullmatch(uri)
    if match is None:
        return None
    goals, agent, process, result, page = match.groups()
    return ResourceUri(
        bool(goals), unquote(agent or ""), unquote(process or ""), bool(result), int(page) if page else None
    )


def process_uri(process_id: str) -> str:
    """The URI of the state of a process."""
    return f"{_PROCESS}{quote(process_id, safe='')}"


def result_uri(process_id: str) -> str:
    """The URI of the whole output of a process."""
    return f"{process_uri(process_id)}/result"


def agent_uri(name: str) -> str:
    """The URI of an agent."""
    return f"{_AGENT}{quote(name, safe='')}"


def own_resources(platform: AgentPlatform) -> Iterator[Resource]:
    """The resources that are listed: the goals, and each agent."""
    yield Resource(uri=_GOALS, name="goals", title="Goals", description="Every goal and its tools", mime_type=_JSON)
    for agent in platform.agents:
        yield Resource(uri=agent_uri(agent.name), name=agent.name, description=agent.description, mime_type=_JSON)


def own_templates() -> Iterator[ResourceTemplate]:
    """The URI templates of the resources that are not listed, as there are too many."""
    for path, name, description, media in (
        ("agents/{name}", "agent", "An agent: its actions, goals and conditions", _JSON),
        ("processes/{id}", "process", "A process that you started: status, plan, history and a picture", _JSON),
        ("processes/{id}/result", "result", "The whole output of a process that you started", None),
        ("processes/{id}/result/{page}", "result page", "One page of that output, from 1", None),
    ):
        yield ResourceTemplate(uri_template=f"goalport://{path}", name=name, description=description, mime_type=media)


def goals_view(
    published: Mapping[str, object], agents: Iterable[Agent], shows: Callable[[Goal], bool]
) -> list[dict[str, Any]]:
    """Every goal of these agents that may be shown, with those of the published tools that start it."""
    tools: dict[tuple[str, str], list[str]] = {}
    for name, each in published.items():
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
        for agent in agents
        for goal in agent.goals
        if shows(goal)
    ]


def agent_view(agent: Agent, shows: Callable[[Goal], bool]) -> dict[str, Any]:
    """An agent: its actions, the goals that may be shown, and its conditions."""
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
                **({"access": [rule.text for rule in each.access]} if each.access else {}),
            }
            for each in agent.actions
        ],
        "goals": [{"name": each.name, "description": each.description} for each in agent.goals if shows(each)],
        "conditions": [each.name for each in agent.conditions],
    }


def process_view(process: AgentProcess) -> dict[str, Any]:
    """A process: its status, plan, questions, history and cost, and a diagram of it."""
    return {
        "id": process.id,
        "agent": process.agent.name,
        "status": str(process.status),
        "reason": process.outcome.reason if process.outcome is not None else None,
        "goal": process.goal.name if process.goal is not None else None,
        "plan": list(process.plan),
        "questions": [question_view(each) for each in process.open_questions],
        "history": [invocation_view(each) for each in process.history],
        "createdAt": process.created_at.isoformat(),
        "finishedAt": process.finished_at.isoformat() if process.over and process.finished_at is not None else None,
        "cost": cost_of(process),
        "models": {name: {"usd": used.cost, "tokens": used.tokens} for name, used in process.ledger.by_model.items()},
        "mermaid": "\n".join(_flowchart(process)),
    }


def invocation_view(each: ActionInvocation) -> dict[str, Any]:
    """An entry of the history of a process."""
    return {
        "action": each.action,
        "startedAt": each.started_at.isoformat(),
        "seconds": round(each.seconds, 6),
        "status": each.status,
        "error": each.error,
        "usd": each.usage.cost,
        "tokens": each.usage.tokens,
        "attempts": each.attempts,
        "missingTools": list(each.missing_tools),
    }


def cost_of(process: AgentProcess) -> Mapping[str, float]:
    """What the models cost a process and its child processes: US dollars, tokens, and the number of model requests."""
    spent = process.usage
    return {
        "usd": spent.cost,
        "inputTokens": spent.input_tokens,
        "outputTokens": spent.output_tokens,
        "modelCalls": process.ledger.requests,
    }


def _flowchart(process: AgentProcess) -> Iterator[str]:
    """A process as the lines of a Mermaid flowchart: the actions that ran with their status, and those planned."""
    yield "flowchart LR"
    steps = [(each.action, f"{each.seconds:.2f} s", _CLASSES.get(each.status, "done")) for each in process.history]
    steps += [(action, "planned", "planned") for action in process.plan]
    for number, (action, note, kind) in enumerate(steps):
        yield f'    a{number}["{_short(action)}<br/>{note}"]:::{kind}'
    goal = _short(process.goal.name) if process.goal is not None else "goal"
    yield f'    g(["{goal}: {process.status}"])'
    for number in range(len(steps)):
        after = f"a{number + 1}" if number + 1 < len(steps) else "g"
        yield f"    a{number} --> {after}"
    yield "    classDef done fill:#d4edda"
    yield "    classDef declined fill:#fff3cd"
    yield "    classDef failed fill:#f8d7da"
    yield "    classDef planned stroke-dasharray: 4"


def _short(action: str) -> str:
    return action.rpartition(".")[2].replace('"', "'")


def question_view(question: Question) -> dict[str, Any]:
    """An open question; without a schema if its answer cannot be read from JSON."""
    try:
        view = OpenQuestion.of(question).structured
    except UNREADABLE:
        view = {"id": question.id, "message": question.message}
    return {**view, "askedAt": question.asked_at.isoformat()}
