"""Landmarks: sets of steps of which every plan from a state takes at least one, each with a cost.

The costs never add up to more than the cheapest plan, because each cut pays with what earlier cuts left of its steps'
costs (the LM-cut heuristic of Helmert and Domshlak); and a cut that does not contain the step just taken is a cut of
the next state too, so that hardly any is found twice. Below: the relaxation and the task. Above: the search.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf

from goalport.plan.relaxation import Graph, Relaxation, numbers, unavoidable
from goalport.plan.task import Task

__all__ = ["Bound", "Landmarks"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Steps, by index, of which one must be taken, and what that costs at least."""

    steps: frozenset[int]
    weight: int


@dataclass(frozen=True, slots=True)
class Bound:
    """Cuts of a state and what they leave of the steps' costs."""

    cuts: tuple[Cut, ...]
    left: list[int]
    """For each step what no cut has paid with; never changed once the bound is made."""
    total: int
    """What a plan from the state costs at least."""

    def after(self, steps: Collection[int]) -> "Bound":
        """The bound of the state after some steps, as far as it is known from this one."""
        kept: list[Cut] = []
        left, total = list(self.left), self.total
        for cut in self.cuts:
            if cut.steps.isdisjoint(steps):
                kept.append(cut)
            else:
                total -= cut.weight
                for index in cut.steps:
                    left[index] += cut.weight
        return Bound(tuple(kept), left, total)


class Landmarks:
    """Finds the cuts of one task's states."""

    def __init__(self, task: Task) -> None:
        self.graph = Graph(task)
        self._weights = task.weights

    def unavoidable(self, state: int) -> Bound:
        """A first bound of a state: the steps that no plan can do without, each a cut by itself."""
        left = list(self._weights)
        steps = numbers(unavoidable(self.graph, state))
        for step in steps:
            left[step] = 0
        cuts = tuple(Cut(frozenset((step,)), self._weights[step]) for step in steps)
        return Bound(cuts, left, sum(cut.weight for cut in cuts))

    def completed(self, state: int, known: Bound, goals: tuple[int, ...] = (), most: float = inf) -> Bound | None:
        """A bound with every cut that the known ones leave room for; None where the goal cannot be reached.

        Other goals than the task's may be given, and what a plan to them may weigh at most.
        """
        left = list(known.left)
        relaxation = Relaxation(self.graph, state, left, goals or self.graph.goals)
        if not relaxation.reaches_goal:
            return None
        found = list(known.cuts)
        total = known.total
        while (hardest := relaxation.hardest_goal()) is not None:
            steps, weight = relaxation.cut_before(hardest)
            found.append(Cut(frozenset(steps), weight))
            total += weight
            if total > most:
                return None
        return Bound(tuple(found), left, total)
