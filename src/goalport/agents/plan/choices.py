"""Choices: the beginning of a search, without the steps that no cheapest plan takes.

It is branch and bound over cuts: each branch decides which step of a cut to take. The order of the steps does not
matter here, while a search over states looks at every order of the same steps. Where the least bound of all branches is
the weight of a relaxed plan, that plan is a cheapest one, and another one can only have steps that fit into it without
a loss: the task is made anew of those.

It is there for agents of a hundred actions and more that can do things in several ways. Their hardest problems take
up to ten times as long without it, or are not proven within the second that a process plans (docs/performance.md); to
small problems it costs nothing. Below: landmarks, relaxed plans and the task. Above: the search.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf
from time import thread_time
from typing import NamedTuple

from goalport.agents.plan.landmarks import Bound, Landmarks
from goalport.agents.plan.problem import Operator
from goalport.agents.plan.relaxed_plans import RelaxedPlan, guided_plan, relaxed_plan
from goalport.agents.plan.task import Task

LARGE = 16
"""How many steps make it worth while to look for something to leave out."""

WORTHWHILE = 0.25
"""Which part of the steps has to be too dear for a plan at hand, so that the task is made anew without them at once."""

ENOUGH = 3000
"""How many branches are looked into before the choices are left to the search."""


@dataclass(frozen=True, slots=True)
class SearchStart:
    """A task, what is known of its start, and the weight that its cheapest plan does not exceed."""

    task: Task
    landmarks: Landmarks
    bound: Bound
    limit: float = inf
    known_steps: tuple[Operator, ...] | None = None
    """The steps of a plan of that weight, of a large task; it may take steps that were left out since."""

    def with_plan(self, task: Task, plan: RelaxedPlan) -> "SearchStart":
        """The same with a plan of a task that may have more steps."""
        return replace(self, limit=plan.weight, known_steps=tuple(task.steps[index].operator for index in plan.path))


def search_start(task: Task, without: Callable[[frozenset[int]], Task], until: float | None) -> SearchStart:
    """What a search begins with; in a large task, without the steps that no cheapest plan takes where that is sure.

    `without` makes the task anew without some moves. Choices are looked into not longer than until a time.
    """
    landmarks = Landmarks(task)
    known = landmarks.unavoidable(task.start)
    bound = landmarks.completed(task.start, known) if len(task.steps) >= LARGE else None
    if bound is None:
        return SearchStart(task, landmarks, known)
    plan, fitting = relaxed_plan(task, landmarks.graph, task.start, bound), None
    if plan is None:
        return SearchStart(task, landmarks, bound)
    if plan.weight > bound.total:
        too_dear = _too_dear(task, bound, plan.weight)
        if len(too_dear) >= len(task.steps) * WORTHWHILE:
            smaller = search_start(without(too_dear), lambda moves: without(too_dear | moves), until)
            return smaller if smaller.limit <= plan.weight else smaller.with_plan(task, plan)
        plan, fitting = _Choices(task, landmarks, bound).decided(plan, until)
    start = SearchStart(task, landmarks, bound)
    if fitting is not None:
        smaller = without(frozenset(step.move for index, step in enumerate(task.steps) if index not in fitting))
        landmarks = Landmarks(smaller)
        start = SearchStart(smaller, landmarks, landmarks.unavoidable(smaller.start))
    return start.with_plan(task, plan)


def _too_dear(task: Task, bound: Bound, limit: int) -> frozenset[int]:
    """The moves that would bring a plan above a weight."""
    gain = limit - bound.total
    return frozenset(step.move for step, left in zip(task.steps, bound.left, strict=True) if left > gain)


class _Branch(NamedTuple):
    """Some choices made; branches compare by what a plan that agrees with them weighs at least, then the latest."""

    total: int
    order: int
    bound: Bound
    goals: tuple[int, ...]
    """What such a plan has to bring about: the goal, and what the chosen steps need."""


class _Choices:
    """The branches of one task, from its start."""

    def __init__(self, task: Task, landmarks: Landmarks, bound: Bound) -> None:
        self._task = task
        self._landmarks = landmarks
        self._most = sum(task.weights)
        """The largest weight that a plan without superfluous steps can have."""
        self._open = [_Branch(bound.total, 0, bound, landmarks.graph.goals)]
        self._looked = 0

    def decided(self, plan: RelaxedPlan, until: float | None) -> tuple[RelaxedPlan, frozenset[int] | None]:
        """The cheapest relaxed plan, with the steps, by index, that any plan as cheap can have.

        Where a cheaper plan may exist, there are no such steps: None.
        """
        while self._open and self._open[0].total < plan.weight:
            branch = heappop(self._open)
            cut = self._choice(branch.bound)
            if not cut or self._looked > ENOUGH or (until is not None and thread_time() > until):
                # Without a choice left, the steps are too few: they clash, and order has to be looked at too.
                return plan, None
            for made in self._branches(branch, cut, plan.weight):
                if made.total < plan.weight:
                    found = guided_plan(self._task, self._landmarks.graph, self._task.start, made.bound)
                    plan = found if found is not None and found.weight < plan.weight else plan
                if made.total <= plan.weight:
                    heappush(self._open, made)
        fitting = [branch.bound.left for branch in self._open if branch.total == plan.weight]
        return plan, frozenset(index for left in fitting for index, cost in enumerate(left) if not cost)

    def _choice(self, bound: Bound) -> list[int]:
        """The cut that promises most for the branches it makes, without steps that are barred; none without choice."""
        cuts = [(cut.weight, [index for index in cut.steps if bound.left[index] <= self._most]) for cut in bound.cuts]
        promises = [(weight / (len(steps) - 1), steps) for weight, steps in cuts if len(steps) > 1]
        return max(promises, default=(0.0, list[int]()))[1]

    def _branches(self, branch: _Branch, cut: list[int], most: int) -> Iterator[_Branch]:
        """For each step of a cut what is known where it is taken, and none of those before it."""
        for number, index in enumerate(cut):
            self._looked += 1
            goals = tuple({*branch.goals, *self._landmarks.graph.needs[index]})
            known = self._with(branch.bound, index, cut[:number])
            bound = self._landmarks.completed(self._task.start, known, goals, most) if known.total <= most else None
            if bound is not None:
                yield _Branch(bound.total, -self._looked, bound, goals)

    def _with(self, bound: Bound, taken: int, barred: Iterable[int]) -> Bound:
        known = bound.after((taken,))
        left = list(known.left)
        left[taken] = 0
        for index in barred:
            left[index] += 2 * self._most
        return Bound(known.cuts, left, known.total + self._task.weights[taken])
