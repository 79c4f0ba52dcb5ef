"""Pruning: which actions can have a part in reaching some goal.

An action that is left out can help with none of the goals from this start, whatever the others do. Below: task, reach.
"""

from collections.abc import Iterator

from goalport.plan.operators import Goal
from goalport.plan.problem import Problem
from goalport.plan.reach import Reach
from goalport.plan.task import task_for, wanted_literals

__all__ = ["prune"]


def prune(problem: Problem) -> frozenset[str]:
    """The names of the actions that can occur on a way to a goal; what is unknown may turn out either way."""
    reach = Reach(problem)
    return frozenset(action for goal in problem.goals for action in _useful(reach, goal))


def _useful(reach: Reach, goal: Goal) -> Iterator[str]:
    wanted = wanted_literals(reach.problem, goal)
    if wanted is None or not all(map(reach.obtainable.__getitem__, wanted)):
        return
    task = task_for(reach.problem, wanted, reach.system.literals_allowed_by(reach.problem.start))
    for step in task.steps:
        if all(reach.obtainable[task.literals[need]] for need in step.needs):
            yield step.operator.action
