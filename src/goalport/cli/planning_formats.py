"""An explained plan as lines for people, as JSON for programs, and as a Mermaid flowchart for pages.

Below `goalport plan`; the explanations are below it.
"""

from collections.abc import Iterator, Sequence

from goalport.plan import Available, Explanation, Fact, Failure, HasRun, LastResult, Plan, StepReason, in_words

_OBJECTS = Available | LastResult
_GOAL = "goal"


def record(explanation: Explanation) -> dict[str, object]:
    """All of an explanation, of plain values; the same keys whether there is a plan or not."""
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
    """A plan for a terminal: a line for each step, what it takes and what it gives; or what is missing.

    Names are those of the agent's methods: whose they are is said in the title.
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
    """An object without its article."""
    return str(fact).partition(" ")[2]


def picture(ways: Sequence[tuple[str, Sequence[str], Explanation]]) -> str:
    """One flowchart with a part for each way: its title, the types given, and what explains it."""
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
    """The steps, with an arrow for each thing that one gives to another."""
    fed = {supply.step for step in explanation.steps for supply in step.supplies}
    for number, step in enumerate(explanation.steps, start=1):
        yield f'{prefix}s{number}["{_quoted(step.operator.name)}"]'
        if number not in fed:
            yield f"{prefix}start --> {prefix}s{number}"
        for to, what in _gifts(step).items():
            yield f'{prefix}s{number} -->|"{_quoted(" and ".join(what))}"| {prefix}{f"s{to}" if to else _GOAL}'


def _gifts(step: StepReason) -> dict[int | None, list[str]]:
    """What a step gives, by who takes it; that it has run is told only where nothing else is."""
    gifts: dict[int | None, list[str]] = {}
    for supply in sorted(step.supplies, key=lambda supply: isinstance(supply.fact, HasRun)):
        if not isinstance(supply.fact, HasRun) or supply.step not in gifts:
            gifts.setdefault(supply.step, []).append(supply.what)
    return gifts


def _gaps(prefix: str, explanation: Explanation) -> Iterator[str]:
    """What is missing, through those who need it, to the goal."""
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
