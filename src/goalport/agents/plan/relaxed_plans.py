"""Relaxed plans: plans that need no search, and how many first steps of the answer one of them decides.

A relaxed plan takes the cheapest way to each thing by itself, as if nothing were ever taken away. Often its steps can
be executed as they are, and it is seldom a bad plan. Where it costs no more than any plan must, it is a cheapest plan,
and it tells which first steps are right. Below: landmarks and the task. Above: choices and the search.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from goalport.agents.plan.landmarks import Bound, Graph, numbers
from goalport.agents.plan.task import Task, fruitful


class RelaxedPlan(NamedTuple):
    """The steps of a relaxed plan that can be executed as they are; another plan may be cheaper."""

    weight: int
    path: tuple[int, ...]
    """The steps, by index."""


def relaxed_plan(task: Task, graph: Graph, state: int, bound: Bound) -> RelaxedPlan | None:
    """The cheapest relaxed plan from a state that can be executed, if there is one; `bound` is that of the state."""
    cheap = _executable_plan(task, graph, state, task.weights, bound.total)
    if cheap is not None and cheap.weight == bound.total:
        return cheap
    return min(filter(None, (cheap, guided_plan(task, graph, state, bound))), default=None)


def guided_plan(task: Task, graph: Graph, state: int, bound: Bound) -> RelaxedPlan | None:
    """The plan that is cheapest by what the cuts left of the costs: it points out the steps that are worth taking."""
    # A trace of the costs breaks ties.
    costs = [left + (weight >> 12) for left, weight in zip(bound.left, task.weights, strict=True)]
    return _executable_plan(task, graph, state, costs, bound.total)


def settled_steps(task: Task, state: int, bound: Bound, relaxed: RelaxedPlan) -> list[int]:
    """How the answer begins, where the relaxed plan weighs no more than the bound.

    Of all plans as cheap the answer begins with the first step in the order of ties. If that is a step of the relaxed
    plan that disturbs none of the others, it may as well be taken now. Any other step has to be looked into, unless
    the cuts left something of its cost: then every plan that takes it is dearer.
    """
    steps = [(index, step) for index, step in enumerate(task.steps) if not bound.left[index]]
    others, settled = _others(task, relaxed.path), list[int]()
    while state & task.goal != task.goal:
        possible = fruitful(steps, state)
        index, step = next(possible)
        needed, taken = others.pop(index, (-1, -1))
        disturbs = state & ~step.kept & needed or step.given & taken
        # Where nothing else can be done, every plan as cheap begins with it.
        if disturbs and next(possible, None) is not None:
            break
        settled.append(index)
        state = step.after(state)
    return settled


def _others(task: Task, path: Sequence[int]) -> dict[int, tuple[int, int]]:
    """For each step of a plan what all the others need, and what they take away."""
    others: dict[int, tuple[int, int]] = dict.fromkeys(path, (0, 0))
    for way in (path, path[::-1]):
        needed = taken = 0
        for index in way:
            step = task.steps[index]
            others[index] = others[index][0] | needed, others[index][1] | taken
            needed, taken = needed | step.required, taken | ~step.kept
    return others


def _executable_plan(task: Task, graph: Graph, state: int, costs: Sequence[int], least: int) -> RelaxedPlan | None:
    """The relaxed plan that is cheapest by these costs; None where its steps cannot be executed one after the other.

    If it weighs more than `least`, steps that it can do without are left out, the dearest first.
    """
    path = _relaxed_steps(task, graph, state, costs)
    if not _reaches_goal(task, state, path):
        return None
    weight = sum(task.weights[index] for index in path)
    for index in sorted(path, key=task.weights.__getitem__, reverse=True) if weight > least else ():
        shorter = [each for each in path if each != index]
        if _reaches_goal(task, state, shorter):
            path = shorter
            weight -= task.weights[index]
    return RelaxedPlan(weight, tuple(path))


def _relaxed_steps(task: Task, graph: Graph, state: int, costs: Sequence[int]) -> list[int]:
    """The cheapest way to each thing by itself, taken together: it may not be possible one after the other."""
    givers = _givers(graph, state, costs)
    needed = [literal for literal in task.goal_literals if literal in givers]
    steps: set[int] = set()
    for literal in needed:  # grows while we walk
        if givers[literal] not in steps:
            steps.add(givers[literal])
            needed += (need for need in graph.needs[givers[literal]] if need in givers)
    return [index for index in dict.fromkeys(givers.values()) if index in steps]


def _givers(graph: Graph, state: int, costs: Sequence[int]) -> dict[int, int]:
    """For each literal the step that gives it most cheaply, needs added up, in the order of those costs."""
    givers: dict[int, int] = {}
    waiting, spent = list(graph.counts), list(costs)
    held = {*numbers(state & graph.valued), graph.nothing}
    queue = [(0, -1, literal) for literal in held]
    offers: dict[int, tuple[int, int]] = dict.fromkeys(held, (0, -1))
    done: set[int] = set()
    while queue:
        cost, giver, literal = heappop(queue)
        if literal in done:
            continue
        done.add(literal)
        if literal not in held:
            givers[literal] = giver
        for index in graph.consumers[literal]:
            spent[index] += cost
            waiting[index] -= 1
            if not waiting[index]:
                offer = (spent[index], index)
                for given in graph.gives[index]:
                    if given not in offers or offer < offers[given]:
                        offers[given] = offer
                        heappush(queue, (*offer, given))
    return givers


def _reaches_goal(task: Task, state: int, path: Sequence[int]) -> bool:
    for index in path:
        step = task.steps[index]
        if not step.applicable(state):
            return False
        state = step.after(state)
    return state & task.goal == task.goal
