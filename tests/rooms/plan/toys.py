"""Toy problems: conditions named by letters, actions as short as they can be, and a planner too simple to be wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from heapq import heappop, heappush

from goalport.agents.plan import Fact, Holds, Operator, Plan, PlanGoal, PlanningSystem, Problem, WorldState

Frozen = frozenset[tuple[Fact, bool | None]]


def literals(text: str) -> dict[Fact, bool]:
    """`"a !b"`: condition a is true and condition b is false."""
    return {Holds(word.lstrip("!")): not word.startswith("!") for word in text.split()}


def facts(text: str) -> frozenset[Fact]:
    return frozenset(literals(text))


def deed(name: str, requires: str = "", effects: str = "", cost: float = 1.0, value: float = 0.0) -> Operator:
    return Operator(name, name, literals(requires), literals(effects), cost, value)


def goal(requires: str, value: float = 0.0, name: str = "") -> PlanGoal:
    return PlanGoal(name or requires, literals(requires), value)


def world(true: str = "", unknown: str = "", undecidable: str = "") -> WorldState:
    return WorldState(facts(true), facts(unknown), facts(undecidable))


def problem(operators: Iterable[Operator], *goals: PlanGoal, start: WorldState | None = None) -> Problem:
    return Problem(PlanningSystem(operators), start or WorldState(), goals)


def names(found: object) -> list[str]:
    assert isinstance(found, Plan), found
    return [step.name for step in found.steps]


def anew(asked: Problem) -> Problem:
    """The same problem over a system that remembers nothing."""
    return replace(asked, system=PlanningSystem(asked.system.operators))


def holds(state: Mapping[Fact, bool | None], requires: Mapping[Fact, bool]) -> bool:
    return all(state.get(fact, False) is value for fact, value in requires.items())


def first_state(start: WorldState) -> dict[Fact, bool | None]:
    """Every fact that is not false; None for what is neither true nor false."""
    return {fact: fact in start.true or None for fact in start.true | start.undecidable}


def cheapest(asked: Problem, target: PlanGoal) -> list[Operator] | None:
    """Dijkstra over all that can happen: of least cost, then of fewest steps, then the first by the order of ties."""
    ranked = sorted(asked.system.operators, key=lambda operator: -len(operator.requires))
    queue: list[tuple[Fraction, int, tuple[int, ...], Frozen]] = [
        (Fraction(0), 0, (), _frozen(first_state(asked.start)))
    ]
    done: set[Frozen] = set()
    while queue:
        cost, length, path, frozen = heappop(queue)
        if frozen in done:
            continue
        done.add(frozen)
        state = dict(frozen)
        if holds(state, target.requires):
            return [ranked[rank] for rank in path]
        for rank, operator in enumerate(ranked):
            if operator.action not in asked.excluded and holds(state, operator.requires):
                dearer = cost + Fraction(str(asked.cost(operator)))
                heappush(queue, (dearer, length + 1, (*path, rank), _frozen({**state, **operator.effects})))
    return None


def _frozen(state: Mapping[Fact, bool | None]) -> Frozen:
    return frozenset(item for item in state.items() if item[1] is not False)
