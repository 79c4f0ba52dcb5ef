"""The planner rows: over problem families of `planner`, how long planning takes and how far it has to look."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from statistics import median

from benchmarks.planner import (
    SURPRISES,
    after_a_rise,
    after_a_step,
    after_a_surprise,
    anew,
    chain_with_irrelevant,
    crime,
    halfway,
    layers,
    platform_of_agents,
    random_dag,
    states,
)
from benchmarks.report import Table
from goalport.agents.plan import Plan, Problem, WorldState, explain, plan

__all__ = ["planning"]


@dataclass(frozen=True)
class _Family:
    what: str
    make: Callable[[], Problem]
    aim: str


_SMALL = "≤ 5 ms, ≤ 100 expansions"
_FAMILIES = (
    _Family("chain of 10 among 60 irrelevant actions", chain_with_irrelevant, _SMALL),
    _Family("50 agents of 4 actions from one input", platform_of_agents, _SMALL),
    _Family("crime domain among 300 random actions", lambda: crime(random_actions=300), _SMALL),
    _Family("a way through 150 states", states, "≤ 50 ms"),
    _Family("10 layers of 50 types, 2 ways to each", layers, "≤ 50 ms"),
    _Family("1,000 actions over 2,000 conditions", random_dag, "≤ 50 ms"),
)


def planning(*, quick: bool = False) -> Table:
    """The table of the planner."""
    times = 1 if quick else 7
    rows = [_first(family, times) for family in _FAMILIES]
    large = random_dag()
    stepped, lost = after_a_step(large), replace(large, start=WorldState())
    rows.append(_timed("…, again after a step that went as foreseen", lambda: plan(stepped), times, "≤ 3 ms"))
    rows.append(_timed("…, again after a step that gave more", _always_new(after_a_surprise(large)), times, "≤ 3 ms"))
    rows.append(_timed("…, again with new costs", _always_new(after_a_rise(large)), times, "≤ 3 ms"))
    rows.append(_timed("…, why there is no plan without input", lambda: explain(lost), times, "≤ 20 ms"))
    rows += _with_choices(times)
    rows.append(_spread(1 if quick else 6))
    note = (
        f"Medians of {times} runs. *reading*: making a planning system of the operators, once per deployment."
        " Only a step that went as foreseen is looked up; after a surprise the whole search is made. What it takes"
        " depends on how much can be chosen, hence the last row: its median and its slowest."
        " All of these plans are proven."
    )
    return Table("planner", "Planner", ("problem", "reading", "planning", "steps", "expansions", "aim"), rows, [note])


def _with_choices(times: int) -> Iterator[list[str]]:
    """Where an action can be done without."""
    family = _Family("1,000 actions, 300 of them second ways", lambda: random_dag(spares=300), "≤ 50 ms")
    yield _first(family, times)
    asked = halfway(family.make())
    for what, surprise in SURPRISES.items():
        yield _timed(f"…, again halfway: {what}", _always_new(surprise(asked)), times, "≤ 3 ms")


def _spread(problems: int) -> list[str]:
    """How much it depends on the problem, where much can be chosen: from the beginning of plans, when most is left."""
    seconds: list[float] = []
    for seed in range(11, 11 + problems):
        asked = after_a_step(random_dag(spares=300, seed=seed))
        for surprise in SURPRISES.values():
            surprised = anew(surprise(asked))
            began = time.perf_counter()
            plan(surprised)
            seconds.append(time.perf_counter() - began)
    what = f"{problems} such problems, after a step, the {len(SURPRISES)} surprises"
    return [what, "", f"{_ms(seconds)}, at most {1e3 * max(seconds):.0f} ms", "", "", "≤ 3 ms"]


def _first(family: _Family, times: int) -> list[str]:
    problem = family.make()
    reading, planning, found = list[float](), list[float](), plan(problem)
    for _ in range(times):
        began = time.perf_counter()
        fresh = anew(problem)
        read = time.perf_counter()
        found = plan(fresh)
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


def _always_new(problem: Problem) -> Callable[[], object]:
    """Planning that has to search each time: what nobody mentions changes no plan, but makes the question a new one."""
    numbers = count()
    return lambda: plan(replace(problem, excluded=frozenset({f"unheard of {next(numbers)}"})))


def _size(found: object) -> tuple[str, str]:
    return (str(len(found.steps)), str(found.expansions)) if isinstance(found, Plan) else ("", "")


def _ms(seconds: list[float]) -> str:
    return f"{1e3 * median(seconds):.2f} ms"
