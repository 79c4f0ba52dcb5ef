"""Narrowing: of a large task only what a plan no dearer than one already at hand can hold.

Some plan is mostly easy to find, and the cuts say what each step costs beyond what any plan costs at least. A step that
would cost more than there is to gain is in no cheapest plan, so leaving it out changes no answer, and large tasks
become small ones. Below: choices, landmarks, ready plans and the task. Above: the search.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from goalport.plan.choices import Choices
from goalport.plan.landmarks import Bound, Landmarks
from goalport.plan.operators import Operator
from goalport.plan.ready import Ready, ready_plan
from goalport.plan.task import Task

__all__ = ["AtHand", "Narrow", "narrowed"]

LARGE = 16
"""How many steps make it worth while to look for something to leave out."""

WORTHWHILE = 0.25
"""What part of the steps must go for the task to be made anew."""


@dataclass(frozen=True, slots=True)
class AtHand:
    """A ready plan, told in words that outlive the task it was found in."""

    weight: int
    steps: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Narrow:
    """A task, what is known of its start, and a plan that its cheapest plan is no dearer than."""

    task: Task
    landmarks: Landmarks
    bound: Bound
    ready: AtHand | None = None
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


def narrowed(task: Task, without: Callable[[frozenset[int]], Task], until: float | None) -> Narrow:
    """The task without what no cheapest plan can hold, made anew as long as much can be left out.

    Where no more can be left out as it stands, choices are looked into, not longer than until a time.
    """
    narrow, left_out = _begun(task, None), frozenset[int]()
    while len(narrow.task.steps) >= LARGE:
        bound = narrow.landmarks.completed(narrow.task.start, narrow.bound)
        if bound is None:
            return narrow
        narrow = replace(narrow, bound=bound, ready=_cheaper(narrow, bound))
        beyond = narrow.beyond()
        if len(beyond) < len(narrow.task.steps) * WORTHWHILE:
            narrow, others = _decided(narrow, until)
            return narrow if others is None else _begun(without(left_out | others), narrow.ready)
        left_out |= beyond
        narrow = _begun(without(left_out), narrow.ready)
    return narrow


def _begun(task: Task, ready: AtHand | None) -> Narrow:
    landmarks = Landmarks(task)
    return Narrow(task, landmarks, landmarks.unavoidable(task.start), ready)


def _cheaper(narrow: Narrow, bound: Bound) -> AtHand | None:
    """The cheaper of the plan at hand and the one that is ready in what is left of the task."""
    found = ready_plan(narrow.task, narrow.landmarks.graph, narrow.task.start, bound)
    return narrow.ready if found is None else _told(narrow, found)


def _told(narrow: Narrow, found: Ready) -> AtHand | None:
    if found.weight >= narrow.limit:
        return narrow.ready
    return AtHand(found.weight, tuple(narrow.task.steps[index].operator for index in found.path))


def _decided(narrow: Narrow, until: float | None) -> tuple[Narrow, frozenset[int] | None]:
    """With the plan that the choices came to, and the moves that are in no plan as cheap; None where none is sure."""
    if narrow.ready is None or narrow.ready.weight == narrow.bound.total:
        return narrow, None
    choices = Choices(narrow.task, narrow.landmarks, narrow.bound)
    found, steps = choices.decided(Ready(narrow.ready.weight, ()), until)
    narrow = replace(narrow, ready=_told(narrow, found))
    if steps is None:
        return narrow, None
    return narrow, frozenset(step.move for index, step in enumerate(narrow.task.steps) if index not in steps)
