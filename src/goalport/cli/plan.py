"""`goalport plan`: shows which actions reach a goal, why each is needed, alternatives and costs, or what is missing.

Nothing runs: conditions count as unknown.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from goalport.agents.domain import Action, Agent, Goal
from goalport.agents.plan import Available, Explanation, HasRun, LastResult, Plan, StepReason, in_words
from goalport.base.errors import UnknownName
from goalport.base.words import counted, type_label
from goalport.cli.options import DONE, FAILED, WorkspaceFolder
from goalport.cli.terminal import show_json
from goalport.cli.workspace import goal_named, open_with_warnings
from goalport.runtime.process import asks_a_model, planner_for


class ExplainedGoal(NamedTuple):
    """The plan, or its failure, for a goal from certain start types."""

    agent: Agent
    goal: Goal
    given: Sequence[str]
    """The names of the start types."""
    explanation: Explanation
    access: Mapping[str, Sequence[str]]
    """By the name of an action: the rules about who may run it. Actions without rules are not in it."""
    asked: Mapping[str, Sequence[str]]
    """By the name of an action: whom it asks, which may be a person, a model or servers."""

    @property
    def start(self) -> str:
        """The start types in words."""
        return " and ".join(self.given) or "nothing"


def plan(
    goal: str,
    /,
    *,
    given: list[str] | None = None,
    format: Literal["text", "mermaid", "json"] = "text",
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Explain which actions reach a goal, or why none do.

    Args:
        goal: The goal: its published, full or short name.
        given: A type to start from; repeat it for more. Default: the goal's start types.
        format: text for people, mermaid for a picture, json for programs. Default: text.

    Examples:
        goalport plan find_star_news
        goalport plan find_star_news --given UserInput --given StarPerson
        goalport plan find_star_news --format mermaid
    """
    platform = open_with_warnings(workspace, needs_agents=True).platform
    found = goal_named(platform, goal)
    scope = platform.agents.scope(found.agent)
    types = {type_label(fact.type): fact.type for fact in scope.facts if isinstance(fact, Available)}
    for name in given or ():
        if name not in types:
            raise UnknownName("type", name, types)
    starts = (tuple(types[name] for name in given),) if given else found.starts
    actions = scope.actions.values()
    access = {each.name: [rule.text for rule in each.access] for each in actions if each.access}
    asked = {each.name: [*_asked_by(each, platform.upstream.groups.config)] for each in actions}
    explained = [
        ExplainedGoal(found.agent, each, [*map(type_label, start)], platform.explain(each, start), access, asked)
        for each in found.goals
        for start in starts
    ]
    match format:
        case "text":
            print("\n".join(line for each in explained for line in _lines(each)))
        case "mermaid":
            print(_mermaid(explained))
        case "json":
            show_json([*map(_record, explained)])
    return DONE if all(each.explanation.plan for each in explained) else FAILED


def _asked_by(action: Action, servers: Container[str]) -> Iterator[str]:
    """Whom an action asks according to its declaration; `servers` are the tool groups that upstream servers provide."""
    if action.outputs.may_wait:
        yield "a person"
    if asks_a_model(action):
        yield "a model"
    yield from (f"the servers of {role!r}" for role in action.roles if role in servers)


def _record(explained: ExplainedGoal) -> dict[str, object]:
    """An explanation as plain data for JSON; the keys are the same with and without a plan."""
    explanation, other = explained.explanation, explained.explanation.alternative
    return {
        "agent": explained.agent.name,
        "goal": explained.goal.name,
        "given": explained.given,
        "reachable": explanation.plan is not None,
        "summary": explanation.summary(),
        "plan": None if explanation.plan is None else _plan_record(explanation.plan),
        "steps": [
            {
                "action": step.operator.action,
                "cost": explanation.cost(step.operator),
                "asks": explained.asked[step.operator.action],
                "for": [{"step": supply.step, "to": supply.to, "what": supply.what} for supply in step.supplies],
            }
            for step in explanation.steps
        ],
        "relies_on": [
            {"fact": in_words(each.fact, value=each.value), "wanted_by": each.wanted_by}
            for each in explanation.relies_on
        ],
        "branches": [
            {"if": each.turn, "plan": _plan_record(each.plan) if isinstance(each.plan, Plan) else None}
            for each in explanation.branches
        ],
        "alternative": other and {"without": other.without, "dearer_by": other.dearer_by, **_plan_record(other.plan)},
        "failures": [
            {
                "goal": each.goal.name,
                "timed_out": each.timed_out,
                "clash": each.clash and str(each.clash),
                "missing": [
                    {
                        "fact": in_words(one.fact, value=one.value),
                        "because": one.because,
                        "wanted_by": [consumer.operator.action for consumer in one.chain],
                    }
                    for one in each.missing
                ],
            }
            for each in explanation.failures
        ],
        "notes": list(explanation.notes),
    }


def _plan_record(plan: Plan) -> dict[str, object]:
    return {
        "actions": [step.action for step in plan.steps],
        "cost": plan.cost,
        "net_value": plan.net_value,
        "proven": plan.proven,
    }


def _lines(explained: ExplainedGoal) -> Iterator[str]:
    """A line for each step of a plan with its inputs and outputs; or what is missing.

    The steps have the names of the agent's methods; the title names the agent.
    """
    agent, explanation, remark = explained.agent.name, explained.explanation, planner_for(explained.agent).remark
    remarks = [f"  ({remark})"] if remark else []
    title = f"{explained.goal.short_name} of {agent}, from {explained.start}"
    plan, text = explanation.plan, [line.replace(f"{agent}.", "") for line in explanation.text().splitlines()]
    if plan is None or not explanation.steps:
        yield from [f"{title}:", *text, *remarks]
        return
    rows = [(each.operator.name.removeprefix(f"{agent}."), *_inputs_outputs(each)) for each in explanation.steps]
    names, inputs = (max(len(row[column]) for row in rows) for column in (0, 1))
    doubt = "" if plan.proven else ", perhaps not the cheapest"
    yield f"{title}: {counted(len(rows), 'step')}, cost {plan.cost:g}, net value {plan.net_value:g}{doubt}"
    for number, (name, needed, made) in enumerate(rows, start=1):
        action = explanation.steps[number - 1].operator.action
        asks = f"; asks {' and '.join(explained.asked[action])}" if explained.asked[action] else ""
        yield f"  {number}. {name:<{names}}  {needed:>{inputs}} → {made}{asks}"
        if access := explained.access.get(action):
            yield f"     runs only for callers with {' and '.join(access)}"
        if explained.agent.opaque:  # its steps are hidden, so its description is shown
            yield f"     {explained.agent.action(action).description}"
    yield from [*text[1 + len(rows) :], *remarks]


def _inputs_outputs(step: StepReason) -> tuple[str, str]:
    """The objects that a step needs, and what it supplies to other steps and to the goal, both in words."""
    required = [fact for fact, value in step.operator.requires.items() if value]
    supplied = [each.fact for each in step.supplies if each.value]
    # A fact is named without its article.
    needs, objects = (
        [str(fact).partition(" ")[2] for fact in facts if isinstance(fact, Available | LastResult)]
        for facts in (required, supplied)
    )
    others = [each.what for each in step.supplies if not isinstance(each.fact, HasRun | Available | LastResult)]
    goal = ["the goal"] if any(each.step is None for each in step.supplies) else []
    made = ", ".join(dict.fromkeys([*objects, *others, *goal])) or "that it has run"
    return ", ".join(needs) or "nothing", made


def _mermaid(explained: Sequence[ExplainedGoal]) -> str:
    """A Mermaid flowchart with a part for each set of start types: its title, the types, and the explanation."""
    lines = ["flowchart LR"]
    for number, each in enumerate(explained, start=1):
        prefix, goal = f"w{number}", each.explanation.goal
        part = [f'{prefix}start["{_quoted(each.start)}"]']
        part += [f'{prefix}goal(["{_quoted(goal.name)}"])'] if goal is not None else []
        part += (_missing if each.explanation.plan is None else _steps)(prefix, each.explanation)
        lines += [f'    subgraph {prefix}["{_quoted(f"{each.goal.name} from {each.start}")}"]']
        lines += [*(f"        {line}" for line in part), "    end"]
    return "\n".join([*lines, "    classDef missing stroke-dasharray: 4,fill:#f8d7da"])


def _steps(prefix: str, explanation: Explanation) -> Iterator[str]:
    """Mermaid lines for the steps, with an arrow for each output that another step needs."""
    fed = {supply.step for step in explanation.steps for supply in step.supplies}
    for number, step in enumerate(explanation.steps, start=1):
        yield f'{prefix}s{number}["{_quoted(step.operator.name)}"]'
        if number not in fed:
            yield f"{prefix}start --> {prefix}s{number}"
        outputs: dict[int | None, list[str]] = {}
        # `HasRun` is drawn only to a step that uses no other output of this one.
        for supply in sorted(step.supplies, key=lambda supply: isinstance(supply.fact, HasRun)):
            if not isinstance(supply.fact, HasRun) or supply.step not in outputs:
                outputs.setdefault(supply.step, []).append(supply.what)
        for to, what in outputs.items():
            yield f'{prefix}s{number} -->|"{_quoted(" and ".join(what))}"| {prefix}{f"s{to}" if to else "goal"}'


def _missing(prefix: str, explanation: Explanation) -> Iterator[str]:
    """Mermaid lines for what is missing, and for the steps and the goal that need it."""
    (failure,) = explanation.failures
    if not failure.missing:
        yield f'{prefix}m["{_quoted(str(failure))}"]:::missing --> {prefix}goal'
    nodes: dict[str, str] = {}
    edges: dict[str, None] = {}
    for number, each in enumerate(failure.missing, start=1):
        place = f"{prefix}m{number}"
        yield f'{place}["{_quoted(in_words(each.fact, value=each.value))}<br/>{_quoted(each.because)}"]:::missing'
        for consumer in each.chain:
            known = nodes.setdefault(consumer.operator.name, f"{prefix}a{len(nodes) + 1}")
            edges[f"{place} --> {known}"] = None
            place = known
        edges[f"{place} --> {prefix}goal"] = None
    yield from (f'{node}["{_quoted(name)}"]' for name, node in nodes.items())
    yield from edges


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;").replace("<", "&lt;").replace(">", "&gt;")
