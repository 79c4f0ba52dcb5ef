"""Reach: what could be had from a state if nothing were ever taken away again, and which actions have a part in it.

What is out of reach here is out of reach of every plan; what is within reach may still clash. Below: problems, and the
task of one goal. Above: the modules that explain why there is no plan, and rooms that leave out what cannot help.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from goalport.agents.plan.facts import Fact
from goalport.agents.plan.problem import PlanGoal, Problem
from goalport.agents.plan.task import task_for, wanted_literals


class Reach:
    """The literals that can be had, and for each that some move has to give the first move that does."""

    def __init__(self, problem: Problem) -> None:
        self.system = problem.system
        self.problem = problem
        self.obtainable = problem.system.literals_allowed_by(problem.start)
        self.givers: dict[int, int] = {}
        """In the order in which the literals come within reach."""
        self._spread()

    def excluded(self, index: int) -> bool:
        """Whether no plan may use a move."""
        return self.system.moves[index].operator.action in self.problem.excluded

    def lacking(self, index: int) -> list[int]:
        """What a move needs that cannot be had."""
        return [literal for literal in self.system.moves[index].needs if not self.obtainable[literal]]

    def _spread(self) -> None:
        moves = self.system.moves
        waiting = [len(self.lacking(index)) for index in range(len(moves))]
        ready = deque(index for index, count in enumerate(waiting) if not count)
        while ready:
            giver = ready.popleft()
            for literal in () if self.excluded(giver) else moves[giver].gives:
                if not self.obtainable[literal]:
                    self.obtainable[literal] = 1
                    self.givers[literal] = giver
                    for index in self.system.consumers[literal]:
                        waiting[index] -= 1
                        if not waiting[index]:
                            ready.append(index)


def unusable(problem: Problem) -> Mapping[str, tuple[tuple[Fact, bool], ...]]:
    """The actions that no sequence of steps can lead to, each with the needs that nothing can meet."""
    reach = Reach(problem)
    lacks: dict[str, tuple[tuple[Fact, bool], ...]] = {}
    for index, move in enumerate(problem.system.moves):
        found = tuple(map(problem.system.fact, reach.lacking(index)))
        # An action with several exits can be taken if one of them can.
        lacks[move.operator.action] = found if lacks.get(move.operator.action, found) else ()
    return {action: found for action, found in lacks.items() if found}


def prune(problem: Problem) -> frozenset[str]:
    """The names of the actions that can occur on a way to a goal; what is unknown may turn out either way."""
    reach = Reach(problem)
    return frozenset(action for goal in problem.goals for action in _useful(reach, goal))


def _useful(reach: Reach, goal: PlanGoal) -> Iterator[str]:
    wanted = wanted_literals(reach.problem, goal)
    if wanted is None or not all(map(reach.obtainable.__getitem__, wanted)):
        return
    task = task_for(reach.problem, wanted, reach.system.literals_allowed_by(reach.problem.start))
    for step in task.steps:
        if all(reach.obtainable[task.literals[need]] for need in step.needs):
            yield step.operator.action
