"""The contents of goalport's resources as JSON data: the goals with their tools, an agent, a process with a diagram.

This module knows neither resources nor the protocol: `serve.resources` sends the data. `publication` is below.
"""

from collections.abc import Iterator
from typing import Any

from goalport.domain import Agent
from goalport.platform import AgentPlatform
from goalport.process import AgentProcess, Question
from goalport.publish.answers import cost_of
from goalport.publish.goal_tool import GoalTool
from goalport.publish.handle import OpenQuestion
from goalport.publish.publication import Publication
from goalport.tools.schemas import UNREADABLE
from goalport.words import type_name

__all__ = ["agent_view", "goals_view", "picture_of", "process_view"]

_CLASSES = {"declined": "declined", "replanned": "declined", "terminated": "declined", "failed": "failed"}


def goals_view(publication: Publication, platform: AgentPlatform) -> list[dict[str, Any]]:
    """Every goal of every agent, with the tools that start it."""
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
        for agent in platform.agents
        for goal in agent.goals
    ]


def agent_view(agent: Agent) -> dict[str, Any]:
    """An agent: its actions, goals and conditions."""
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


def process_view(process: AgentProcess) -> dict[str, Any]:
    """A process: its status, plan, questions, history and cost, and a diagram of it."""
    return {
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
        "mermaid": picture_of(process),
    }


def picture_of(process: AgentProcess) -> str:
    """A process as the source of a Mermaid flowchart: the actions that ran with their status, and those planned."""
    return "\n".join(_lines(process))


def _lines(process: AgentProcess) -> Iterator[str]:
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


def _asked(question: Question) -> dict[str, Any]:
    try:
        asked = OpenQuestion.of(question).structured
    except UNREADABLE:
        asked = {"id": question.id, "message": question.message}
    return {**asked, "askedAt": question.asked_at.isoformat()}
