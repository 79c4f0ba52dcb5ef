"""Landmarks: sets of steps of which every plan from a state takes at least one, each with a cost.

The costs never add up to more than the cheapest plan, because each cut pays with what earlier cuts left of its steps'
costs (the LM-cut heuristic of Helmert and Domshlak); and a cut that does not contain the step just taken is a cut of
the next state too, so that hardly any is found twice. Below: the relaxation and the task. Above: the search.
"""

from dataclasses import dataclass

from goalport.plan.relaxation import Graph, Relaxation
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

    def after(self, step: int) -> "Bound":
        """The bound of the state after a step, as far as it is known from this one."""
        crossed = [cut for cut in self.cuts if step in cut.steps]
        left = list(self.left)
        for cut in crossed:
            for index in cut.steps:
                left[index] += cut.weight
        kept = tuple(cut for cut in self.cuts if step not in cut.steps)
        return Bound(kept, left, self.total - sum(cut.weight for cut in crossed))


class Landmarks:
    """Finds the cuts of one task's states."""

    def __init__(self, task: Task) -> None:
        self.graph = Graph(task)
        self.none = Bound((), list(task.weights), 0)
        """The bound of a state of which nothing is known."""

    def completed(self, state: int, known: Bound) -> Bound | None:
        """A bound with every cut that the known ones leave room for; None where the goal cannot be reached."""
        left = list(known.left)
        relaxation = Relaxation(self.graph, state, left)
        if not relaxation.reaches_goal:
            return None
        found = list(known.cuts)
        total = known.total
        while (hardest := relaxation.hardest_goal()) is not None:
            steps, weight = relaxation.cut_before(hardest)
            found.append(Cut(frozenset(steps), weight))
            total += weight
        return Bound(tuple(found), left, total)
