"""`goalport plan`: which actions reach a goal, why each is there and what another way would cost, or what is missing.

Nothing runs: conditions count as unknown. Below the program; the platform is below it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from goalport.cli.chosen import Chosen, chosen
from goalport.cli.folder import WorkspaceFolder
from goalport.cli.place import opened_aloud
from goalport.cli.planning_formats import drawing, picture, record
from goalport.domain import Agent, Goal
from goalport.errors import BadInput, UnknownName
from goalport.plan import Available, Explanation
from goalport.platform import AgentPlatform
from goalport.process import planner_for
from goalport.words import type_label

REACHED, UNREACHED = 0, 1


@dataclass(frozen=True)
class Way:
    """A goal from certain types, explained."""

    agent: Agent
    goal: Goal
    given: tuple[str, ...]
    explanation: Explanation

    @property
    def title(self) -> str:
        """Which way it is."""
        return f"{self.goal.name} from {' and '.join(self.given) or 'nothing'}"


def plan(
    goal: Annotated[str, Parameter(help="The goal: its published, full or short name.")],
    /,
    *,
    given: Annotated[
        list[str] | None,
        Parameter(negative="", help="A type to start from; repeat it for more. Default: those that the goal names."),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["text", "mermaid", "json"],
        Parameter(help="text for people, mermaid for a picture, json for programs."),
    ] = "text",
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Explain which actions reach a goal, or why none do.

    Exit codes: 0 there is a plan, 1 there is none.
    """
    place = opened_aloud(workspace)
    if not len(place.platform.agents):
        raise BadInput(place.no_agents)
    found = chosen(place.platform, goal)
    starts = (_types(place.platform, found, given),) if given else found.starts
    ways = [_way(place.platform, found, each, types) for each in found.goals for types in starts]
    print(_FORMATS[format](ways))
    return REACHED if all(way.explanation.plan for way in ways) else UNREACHED


def _way(platform: AgentPlatform, found: Chosen, goal: Goal, types: Sequence[object]) -> Way:
    return Way(found.agent, goal, tuple(map(type_label, types)), platform.explain(goal, types))


def _text(ways: Sequence[Way]) -> str:
    lines: list[str] = []
    for way in ways:
        title = f"{way.goal.short_name} of {way.agent.name}, from {' and '.join(way.given) or 'nothing'}"
        lines += [drawing(title, way.agent.name, way.explanation)]
        remark = planner_for(way.agent).remark
        lines += [f"  ({remark})"] if remark else []
    return "\n".join(lines)


def _json(ways: Sequence[Way]) -> str:
    records = [
        {"agent": way.agent.name, "goal": way.goal.name, "given": way.given, **record(way.explanation)} for way in ways
    ]
    return json.dumps(records, indent=2, ensure_ascii=False)


def _mermaid(ways: Sequence[Way]) -> str:
    return picture([(way.title, way.given, way.explanation) for way in ways])


_FORMATS = {"text": _text, "mermaid": _mermaid, "json": _json}


def _types(platform: AgentPlatform, found: Chosen, names: Sequence[str]) -> tuple[object, ...]:
    """The types of those names that some action of the agent takes or makes."""
    facts = platform.agents.scope(found.agent).facts
    known = {type_label(fact.type): fact.type for fact in facts if isinstance(fact, Available)}
    for name in names:
        if name not in known:
            raise UnknownName("type", name, known)
    return tuple(known[name] for name in names)
