"""The planner rows: over the problem families of `planner`, how long planning takes and how far it has to look."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.planner import chain_with_irrelevant, crime, platform_of_agents, random_dag
from benchmarks.report import Table
from goalport.plan import Operator, Plan, PlanningSystem, Problem, WorldState, explain, plan

__all__ = ["planning"]


@dataclass(frozen=True)
class _Family:
    what: str
    make: Callable[[], Problem]
    aim: str


_WINDOW = 300
"""How far back the large problem's actions look for what they take: its plan has some 130 steps."""
_SMALL = "≤ 5 ms, ≤ 100 expansions"
_FAMILIES = (
    _Family("chain of 10 among 60 irrelevant actions", chain_with_irrelevant, _SMALL),
    _Family("50 agents of 4 actions from one input", platform_of_agents, _SMALL),
    _Family("crime domain among 300 random actions", lambda: crime(random_actions=300), _SMALL),
    _Family("1,000 actions over 2,000 conditions", lambda: random_dag(window=_WINDOW), "≤ 50 ms"),
)


def planning(*, quick: bool = False) -> Table:
    """The table of the planner."""
    times = 1 if quick else 7
    rows = [_first(family, times) for family in _FAMILIES]
    large = random_dag(window=_WINDOW)
    stepped = replace(large, start=_after(large.start, _plan(plan(large)).steps[0]))
    lost = replace(large, start=WorldState())
    rows.append(_timed("…, again after a step", lambda: plan(stepped), times, "≤ 3 ms"))
    rows.append(_timed("…, why there is no plan without input", lambda: explain(lost), times, "≤ 20 ms"))
    notes = [
        f"Medians of {times} runs. *reading*: making a planning system of the operators, once per deployment.",
        "A first plan has nothing to build on. After a step that went as foreseen, the rest of the plan is the plan.",
    ]
    return Table("planner", "Planner", ("problem", "reading", "planning", "steps", "expansions", "aim"), rows, notes)


def _first(family: _Family, times: int) -> list[str]:
    problem = family.make()
    reading, planning, found = list[float](), list[float](), plan(problem)
    for _ in range(times):
        began = time.perf_counter()
        system = PlanningSystem(problem.system.operators)
        read = time.perf_counter()
        found = plan(replace(problem, system=system))
        planning.append(time.perf_counter() - read)
        reading.append(read - began)
    return [family.what, _ms(reading), _ms(planning), *_size(found), family.aim]


def _timed(what: str, task: Callable[[], object], times: int, aim: str) -> list[str]:
    seconds, found = list[float](), task()
    for _ in range(times):
        began = time.perf_counter()
        found = task()
        seconds.append(time.perf_counter() - began)
    return [what, "", _ms(seconds), *_size(found), aim]


def _size(found: object) -> tuple[str, str]:
    return (str(len(found.steps)), str(found.expansions)) if isinstance(found, Plan) else ("", "")


def _after(start: WorldState, step: Operator) -> WorldState:
    true = set(start.true)
    for fact, value in step.effects.items():
        (true.add if value else true.discard)(fact)
    return replace(start, true=frozenset(true))


def _plan(found: object) -> Plan:
    assert isinstance(found, Plan), found
    return found


def _ms(seconds: list[float]) -> str:
    return f"{1e3 * median(seconds):.2f} ms"
