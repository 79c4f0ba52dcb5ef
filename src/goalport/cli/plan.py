"""`goalport plan`: which actions reach a goal, why each is needed, alternatives and their costs, or what is missing.

Nothing runs: conditions count as unknown. Below the program; the platform is below it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from goalport.cli.goals import GoalChoice, find_goal
from goalport.cli.options import WorkspaceFolder
from goalport.cli.workspace import open_with_warnings
from goalport.domain import Agent, Goal
from goalport.errors import BadInput, UnknownName
from goalport.plan import Available, Explanation, Fact, Failure, HasRun, LastResult, Plan, StepReason, in_words
from goalport.platform import AgentPlatform
from goalport.process import planner_for
from goalport.words import type_label

REACHED, UNREACHED = 0, 1


@dataclass(frozen=True)
class Way:
    """The plan, or its failure, for a goal from certain start types."""

    agent: Agent
    goal: Goal
    given: tuple[str, ...]
    explanation: Explanation

    @property
    def title(self) -> str:
        """A title that says which start types are given."""
        return f"{self.goal.name} from {' and '.join(self.given) or 'nothing'}"


def plan(
    goal: Annotated[str, Parameter(help="The goal: its published, full or short name.")],
    /,
    *,
    given: Annotated[
        list[str] | None,
        Parameter(negative="", help="A type to start from; repeat it for more. Default: the goal's start types."),
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
    loaded = open_with_warnings(workspace)
    if not len(loaded.platform.agents):
        raise BadInput(loaded.no_agents)
    found = find_goal(loaded.platform, goal)
    starts = (_types(loaded.platform, found, given),) if given else found.starts
    ways = [_way(loaded.platform, found, each, types) for each in found.goals for types in starts]
    print(_FORMATS[format](ways))
    return REACHED if all(way.explanation.plan for way in ways) else UNREACHED


def _way(platform: AgentPlatform, found: GoalChoice, goal: Goal, types: Sequence[object]) -> Way:
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


def _types(platform: AgentPlatform, found: GoalChoice, names: Sequence[str]) -> tuple[object, ...]:
    """The types of these names among the inputs and outputs of the agent's actions."""
    facts = platform.agents.scope(found.agent).facts
    known = {type_label(fact.type): fact.type for fact in facts if isinstance(fact, Available)}
    for name in names:
        if name not in known:
            raise UnknownName("type", name, known)
    return tuple(known[name] for name in names)


_OBJECTS = Available | LastResult
_GOAL = "goal"


def record(explanation: Explanation) -> dict[str, object]:
    """An explanation as plain data for JSON; the keys are the same with and without a plan."""
    other = explanation.alternative
    return {
        "reachable": explanation.plan is not None,
        "summary": explanation.summary(),
        "plan": None if explanation.plan is None else _plan(explanation.plan),
        "steps": [_step(each, explanation.cost(each.operator)) for each in explanation.steps],
        "relies_on": [
            {"fact": in_words(each.fact, value=each.value), "wanted_by": each.wanted_by}
            for each in explanation.relies_on
        ],
        "alternative": other and {"without": other.without, "dearer_by": other.dearer_by, **_plan(other.plan)},
        "failures": [_failure(each) for each in explanation.failures],
        "notes": list(explanation.notes),
    }


def drawing(title: str, agent: str, explanation: Explanation) -> str:
    """A plan as text: a line for each step with its inputs and outputs; or what is missing.

    The steps have the names of the agent's methods; the title names the agent.
    """
    plan, told = explanation.plan, explanation.text().splitlines()
    if plan is None or not explanation.steps:
        return "\n".join([f"{title}:", *told]).replace(f"{agent}.", "")
    steps = [(each.operator.name.removeprefix(f"{agent}."), _taken(each), _given(each)) for each in explanation.steps]
    names, takes = (max(len(each[column]) for each in steps) for column in (0, 1))
    number = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    doubt = "" if plan.proven else ", perhaps not the cheapest"
    lines = [f"{title}: {number}, cost {plan.cost:g}, net value {plan.net_value:g}{doubt}"]
    for count, (name, taken, given) in enumerate(steps, start=1):
        lines.append(f"  {count}. {name:<{names}}  {taken:>{takes}} → {given}")
    rest = told[1 + len(steps) :]
    return "\n".join([*lines, *(line.replace(f"{agent}.", "") for line in rest)])


def _taken(step: StepReason) -> str:
    needs = [_named(fact) for fact, value in step.operator.requires.items() if value and isinstance(fact, _OBJECTS)]
    return ", ".join(needs) or "nothing"


def _given(step: StepReason) -> str:
    gifts = [_named(each.fact) for each in step.supplies if each.value and isinstance(each.fact, _OBJECTS)]
    others = [each.what for each in step.supplies if not isinstance(each.fact, HasRun | Available | LastResult)]
    goal = ["the goal"] if any(each.step is None for each in step.supplies) else []
    return ", ".join(dict.fromkeys([*gifts, *others, *goal])) or "that it has run"


def _named(fact: Fact) -> str:
    """The name of a fact without its article."""
    return str(fact).partition(" ")[2]


def picture(ways: Sequence[tuple[str, Sequence[str], Explanation]]) -> str:
    """A Mermaid flowchart with a part for each set of start types: its title, the types, and the explanation."""
    lines = ["flowchart LR"]
    for number, (title, given, explanation) in enumerate(ways, start=1):
        lines += [f'    subgraph w{number}["{_quoted(title)}"]']
        lines += [f"        {line}" for line in _part(f"w{number}", given, explanation)]
        lines += ["    end"]
    return "\n".join([*lines, "    classDef missing stroke-dasharray: 4,fill:#f8d7da"])


def _plan(plan: Plan) -> dict[str, object]:
    return {
        "actions": [step.action for step in plan.steps],
        "cost": plan.cost,
        "net_value": plan.net_value,
        "proven": plan.proven,
    }


def _step(step: StepReason, cost: float) -> dict[str, object]:
    return {
        "action": step.operator.action,
        "cost": cost,
        "for": [{"step": supply.step, "to": supply.to, "what": supply.what} for supply in step.supplies],
    }


def _failure(failure: Failure) -> dict[str, object]:
    return {
        "goal": failure.goal.name,
        "timed_out": failure.timed_out,
        "clash": failure.clash and str(failure.clash),
        "missing": [
            {
                "fact": in_words(each.fact, value=each.value),
                "because": each.because,
                "wanted_by": [wanter.operator.action for wanter in each.chain],
            }
            for each in failure.missing
        ],
    }


def _part(prefix: str, given: Sequence[str], explanation: Explanation) -> Iterator[str]:
    start = f'{prefix}start["{_quoted(" and ".join(given) or "nothing")}"]'
    yield f"{start}"
    if explanation.goal is not None:
        yield f'{prefix}{_GOAL}(["{_quoted(explanation.goal.name)}"])'
    if explanation.plan is None:
        yield from _gaps(prefix, explanation)
    else:
        yield from _steps(prefix, explanation)


def _steps(prefix: str, explanation: Explanation) -> Iterator[str]:
    """Mermaid lines for the steps, with an arrow for each output that another step needs."""
    fed = {supply.step for step in explanation.steps for supply in step.supplies}
    for number, step in enumerate(explanation.steps, start=1):
        yield f'{prefix}s{number}["{_quoted(step.operator.name)}"]'
        if number not in fed:
            yield f"{prefix}start --> {prefix}s{number}"
        for to, what in _gifts(step).items():
            yield f'{prefix}s{number} -->|"{_quoted(" and ".join(what))}"| {prefix}{f"s{to}" if to else _GOAL}'


def _gifts(step: StepReason) -> dict[int | None, list[str]]:
    """The outputs of a step, by the step that uses them; that it has run counts only where there is nothing else."""
    gifts: dict[int | None, list[str]] = {}
    for supply in sorted(step.supplies, key=lambda supply: isinstance(supply.fact, HasRun)):
        if not isinstance(supply.fact, HasRun) or supply.step not in gifts:
            gifts.setdefault(supply.step, []).append(supply.what)
    return gifts


def _gaps(prefix: str, explanation: Explanation) -> Iterator[str]:
    """Mermaid lines for what is missing, and for the steps and the goal that need it."""
    (failure,) = explanation.failures
    if not failure.missing:
        yield f'{prefix}m["{_quoted(str(failure))}"]:::missing --> {prefix}{_GOAL}'
    nodes: dict[str, str] = {}
    edges: dict[str, None] = {}
    for number, each in enumerate(failure.missing, start=1):
        place = f"{prefix}m{number}"
        yield f'{place}["{_quoted(in_words(each.fact, value=each.value))}<br/>{_quoted(each.because)}"]:::missing'
        for wanter in each.chain:
            known = nodes.setdefault(wanter.operator.name, f"{prefix}a{len(nodes) + 1}")
            edges[f"{place} --> {known}"] = None
            place = known
        edges[f"{place} --> {prefix}{_GOAL}"] = None
    yield from (f'{node}["{_quoted(name)}"]' for name, node in nodes.items())
    yield from edges


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;").replace("<", "&lt;").replace(">", "&gt;")
