"""Narrowing: of a large task only what a plan no dearer than one already at hand can hold.

Some plan is mostly easy to find, and the cuts say what each step costs beyond what any plan costs at least. A step that
would cost more than there is to gain is in no cheapest plan, so leaving it out changes no answer, and large tasks
become small ones. Below: landmarks, the relaxation and the task. Above: the search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf

from goalport.plan.landmarks import Bound, Landmarks
from goalport.plan.relaxation import Graph, numbers
from goalport.plan.task import Step, Task

__all__ = ["Narrow", "ReadyPlan", "narrowed"]

LARGE = 64
"""How many steps make it worth while to look for something to leave out."""

WORTHWHILE = 0.25
"""What part of the steps must go for the task to be made anew."""


@dataclass(frozen=True, slots=True)
class ReadyPlan:
    """A plan that came to hand; nobody says that it is the cheapest."""

    weight: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Narrow:
    """A task, what is known of its start, and a plan that its cheapest plan is no dearer than."""

    task: Task
    landmarks: Landmarks
    bound: Bound
    ready: ReadyPlan | None = None
    """Of a large task; it may take steps that were left out since."""

    @property
    def limit(self) -> float:
        """What the cheapest plan weighs at most."""
        return inf if self.ready is None else self.ready.weight

    def beyond(self) -> frozenset[int]:
        """The moves that would bring a plan above the limit."""
        gain = self.limit - self.bound.total
        steps = zip(self.task.steps, self.bound.left, strict=True)
        return frozenset(step.move for step, left in steps if left > gain)


def narrowed(task: Task, without: Callable[[frozenset[int]], Task]) -> Narrow:
    """The task without what no cheapest plan can hold, made anew as long as much can be left out."""
    narrow, left_out = _begun(task, None), frozenset[int]()
    while len(narrow.task.steps) >= LARGE:
        bound = narrow.landmarks.completed(narrow.task.start, narrow.bound)
        if bound is None:
            return narrow
        narrow = replace(narrow, bound=bound, ready=_cheapest(narrow, bound))
        beyond = narrow.beyond()
        if len(beyond) < len(narrow.task.steps) * WORTHWHILE:
            return narrow
        left_out |= beyond
        narrow = _begun(without(left_out), narrow.ready)
    return narrow


def _begun(task: Task, ready: ReadyPlan | None) -> Narrow:
    landmarks = Landmarks(task)
    return Narrow(task, landmarks, landmarks.none, ready)


def _cheapest(narrow: Narrow, bound: Bound) -> ReadyPlan | None:
    """The cheapest plan at hand."""
    task, graph = narrow.task, narrow.landmarks.graph
    # What the cuts left of the costs points out the steps that are worth taking; a trace of the costs breaks ties.
    told_by_cuts = [left + (weight >> 12) for left, weight in zip(bound.left, task.weights, strict=True)]
    paths = [_greedy(task, graph, costs) for costs in (task.weights, told_by_cuts)]
    found = [_ready(task, path, bound.total) for path in paths if _reaches_goal(task, path)]
    return min([*found, *filter(None, [narrow.ready])], key=lambda ready: ready.weight, default=None)


def _ready(task: Task, path: list[int], least: int) -> ReadyPlan:
    """The plan, if it weighs more than it must then without the steps that it can do without, the dearest first."""
    weight = sum(task.weights[index] for index in path)
    for index in sorted(path, key=task.weights.__getitem__, reverse=True) if weight > least else ():
        shorter = [each for each in path if each != index]
        if _reaches_goal(task, shorter):
            path = shorter
            weight -= task.weights[index]
    return ReadyPlan(weight, tuple(task.steps[index] for index in path))


def _greedy(task: Task, graph: Graph, costs: Sequence[int]) -> list[int]:
    """The cheapest way to each thing by itself, taken together: it may not be possible one after the other."""
    givers = _givers(task, graph, costs)
    needed = [literal for literal in task.goal_literals if literal in givers]
    steps: set[int] = set()
    for literal in needed:  # grows while we walk
        if givers[literal] not in steps:
            steps.add(givers[literal])
            needed += (need for need in graph.needs[givers[literal]] if need in givers)
    return [index for index in dict.fromkeys(givers.values()) if index in steps]


def _givers(task: Task, graph: Graph, costs: Sequence[int]) -> dict[int, int]:
    """For each literal the step that gives it most cheaply, needs added up, in the order of those costs."""
    givers: dict[int, int] = {}
    waiting, spent = list(graph.counts), list(costs)
    held = {*numbers(task.start), graph.nothing}
    queue = [(0, -1, literal) for literal in held]
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
                for given in graph.gives[index]:
                    heappush(queue, (spent[index], index, given))
    return givers


def _reaches_goal(task: Task, path: Sequence[int]) -> bool:
    state = task.start
    for index in path:
        step = task.steps[index]
        if not step.applicable(state):
            return False
        state = step.after(state)
    return state & task.goal == task.goal
