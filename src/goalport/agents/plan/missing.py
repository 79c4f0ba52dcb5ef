"""What a goal without a plan lacks: the facts that nothing gives, or else the needs that clash.

What the goal needs and cannot have is traced back, by the way on which least is missing, to facts that nothing gives.
Where each need can be met but not all together, the steps that would do if nothing were ever taken away show where that
way breaks: an example, not a proof. No plans are found here. Below: reach and reasons. Above: explanations.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from goalport.agents.plan.problem import Fact, HasRun, PlanGoal, Problem
from goalport.agents.plan.reasons import Circular, Clash, Consumer, Excluded, Missing, NoAnswer, Unproduced, Why
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


ITSELF = -1


def missing_for(reach: Reach, goal: PlanGoal) -> tuple[Missing, ...]:
    """The facts without which no order of steps can reach the goal; none where each of its needs is within reach."""
    wanted: list[int] = []
    missing: list[Missing] = []
    for fact, value in goal.requires.items():
        literal = reach.system.literal(fact, value=value)
        if literal is None:
            if not reach.problem.start.allows(fact, value=value):
                missing.append(Missing(fact, value, unproduced(reach.problem, fact), ()))
        elif not reach.obtainable[literal]:
            wanted.append(literal)
    # What an action gives says more of why it is wanted than that it has run.
    wanted.sort(key=lambda literal: isinstance(reach.system.fact(literal)[0], HasRun))
    return (*missing, *Lacks(reach).missing(wanted))


class Lack(NamedTuple):
    """A way to a literal, less than another if fewer facts are lacking for it."""

    size: int
    """How many; what two needs share counts twice."""
    by: int
    """The move that would give it, or ITSELF where it is what is lacking."""
    literal: int


class Lacks:
    """For every literal that is out of reach, what it lacks."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._system = reach.system
        self._lacks: dict[int, Lack] = {}
        """For each literal out of reach the way to it that lacks least."""
        self._circular: set[int] = set()

    def missing(self, wanted: Sequence[int]) -> Iterator[Missing]:
        """What is missing for literals that cannot be had, each thing once."""
        blocked = self._blocked(wanted)
        self._count(blocked)
        while endless := [literal for literal in wanted if literal not in self._lacks]:
            self._circular.add(self._on_a_circle(endless[0]))
            self._count(blocked)
        yield from self._roots(wanted)

    def _blocked(self, wanted: Iterable[int]) -> list[int]:
        """The literals that are lacking for the wanted ones, directly or in turn."""
        found = dict.fromkeys(wanted)
        queue = deque(found)
        while queue:
            for index in self._system.achievers[queue.popleft()]:
                fresh = [literal for literal in self._reach.lacking(index) if literal not in found]
                found.update(dict.fromkeys(fresh))
                queue += fresh
        return list(found)

    def _count(self, blocked: Sequence[int]) -> None:
        """Count what each literal lacks, from those up that lack only themselves."""
        self._lacks.clear()
        producers = {index for literal in blocked for index in self._system.achievers[literal]}
        waiting = {index: len(self._reach.lacking(index)) for index in producers}
        itself = (each for each in blocked if each in self._circular or not self._system.achievers[each])
        queue = [Lack(1, ITSELF, literal) for literal in itself]
        for index in producers:
            if not waiting[index]:
                queue += self._gifts(index)
        heapify(queue)
        while queue:
            lack = heappop(queue)
            if lack.literal not in self._lacks:
                self._lacks[lack.literal] = lack
                for index in producers.intersection(self._system.consumers[lack.literal]):
                    waiting[index] -= 1
                    if not waiting[index]:
                        for gift in self._gifts(index):
                            heappush(queue, gift)

    def _gifts(self, index: int) -> list["Lack"]:
        """What a move would give, with what it lacks for that."""
        count = self._reach.excluded(index) + sum(self._lacks[literal].size for literal in self._reach.lacking(index))
        return [
            Lack(count, index, literal)
            for literal in self._system.moves[index].gives
            if not self._reach.obtainable[literal]
        ]

    def _on_a_circle(self, literal: int) -> int:
        """A literal that is needed for itself, from one whose every producer lacks something without end."""
        passed: set[int] = set()
        while literal not in passed:
            passed.add(literal)
            index = self._system.achievers[literal][0]
            literal = next(each for each in self._reach.lacking(index) if each not in self._lacks)
        return literal

    def _roots(self, wanted: Sequence[int]) -> Iterator[Missing]:
        """The facts that nothing gives, on the way that lacks least."""
        chains: dict[int, tuple[Consumer, ...]] = dict.fromkeys(wanted, ())
        queue = deque(wanted)
        while queue:
            literal = queue.popleft()
            chain = chains[literal]
            fact, value = self._system.fact(literal)
            by = self._lacks[literal].by
            if by == ITSELF or self._reach.excluded(by):
                yield Missing(fact, value, self._why(literal), chain)
            if by != ITSELF:
                consumer = Consumer(self._system.moves[by].operator, fact, value)
                fresh = [each for each in self._reach.lacking(by) if each not in chains]
                chains.update(dict.fromkeys(fresh, (consumer, *chain)))
                queue += fresh

    def _why(self, literal: int) -> Why:
        achievers = self._system.achievers[literal]
        excluded = [index for index in achievers if self._reach.excluded(index)]
        if not achievers:
            return unproduced(self._reach.problem, self._system.fact(literal)[0])
        if literal in self._circular:
            return Circular(self._actions(achievers))
        return Excluded(self._actions(excluded))

    def _actions(self, moves: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._system.moves[index].operator.action for index in moves))


def unproduced(problem: Problem, fact: Fact) -> Why:
    """Why a fact is missing that no action brings about."""
    return NoAnswer() if fact in problem.start.undecidable else Unproduced()


def first_clash(reach: Reach, goal: PlanGoal) -> Clash:
    """Where the nearest thing to a plan breaks; for a goal without a plan each of whose needs is within reach."""
    literals = (reach.system.literal(fact, value=value) for fact, value in goal.requires.items())
    wanted = [literal for literal in literals if literal is not None]
    holding = reach.system.literals_allowed_by(reach.problem.start)
    undone_by: dict[int, str] = {}
    for index in _steps(reach, wanted):
        move = reach.system.moves[index]
        if (broken := _first_absent(holding, move.needs)) is not None:
            return Clash(*reach.system.fact(broken), move.operator.name, undone_by[broken])
        undone_by.update((literal, move.operator.name) for literal in move.takes if holding[literal])
        for literal in move.takes:
            holding[literal] = 0
        for literal in move.gives:
            holding[literal] = 1
    broken = _first_absent(holding, wanted)
    assert broken is not None, "these steps are a plan"
    return Clash(*reach.system.fact(broken), goal.name, undone_by[broken])


def _steps(reach: Reach, wanted: Iterable[int]) -> list[int]:
    """The moves that bring the wanted literals within reach, in the order in which they become possible."""
    needed = [literal for literal in wanted if literal in reach.givers]
    steps: set[int] = set()
    for literal in needed:  # grows while we walk
        index = reach.givers[literal]
        if index not in steps:
            steps.add(index)
            needed += (need for need in reach.system.moves[index].needs if need in reach.givers)
    return [index for index in dict.fromkeys(reach.givers.values()) if index in steps]


def _first_absent(holding: bytearray, literals: Sequence[int]) -> int | None:
    return next((literal for literal in literals if not holding[literal]), None)
