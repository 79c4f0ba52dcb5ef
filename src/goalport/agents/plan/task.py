"""The task of one search: the part of a problem that can matter for one goal from one state.

Walking backwards from the goal it finds the literals that may have to be produced and the moves that can produce them;
whatever no such move can disturb is left out, and so is every move that cannot help. Below: the numbered problem.
Above: landmarks and the search.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from goalport.agents.plan.problem import Move, Operator, PlanGoal, Problem


@dataclass(frozen=True, slots=True)
class Step:
    """A move in the task's own numbers, which are small enough for a state to be one integer."""

    move: int
    """The index of the move in the system."""
    operator: Operator
    needs: tuple[int, ...]
    gives: tuple[int, ...]
    required: int
    given: int
    kept: int
    """What of a state survives, as a mask."""

    def applicable(self, state: int) -> bool:
        """Whether the step can be taken in a state."""
        return state & self.required == self.required

    def after(self, state: int) -> int:
        """The state that the step leads to from another."""
        return state & self.kept | self.given


@dataclass(frozen=True, slots=True)
class Task:
    """A start, a goal, and the steps between; a state is the set of literals that hold, as bits."""

    start: int
    goal: int
    goal_literals: tuple[int, ...]
    literals: tuple[int, ...]
    """The system's number of each of the task's literals."""
    held: tuple[int, ...]
    """The system's numbers of literals that matter too, but that hold and that no step takes away."""
    steps: tuple[Step, ...]
    """In the order in which ties are decided."""
    weights: tuple[int, ...]


def fruitful(steps: Iterable[tuple[int, Step]], state: int) -> Iterator[tuple[int, Step]]:
    """The numbered steps that can be taken in a state and bring anything new."""
    absent = ~state
    for numbered in steps:
        step = numbered[1]
        if not step.required & absent and step.given & absent:
            yield numbered


def task_for(
    problem: Problem, wanted: Sequence[int], holding: bytearray, without: frozenset[int] = frozenset()
) -> Task:
    """The task of bringing about the wanted literals where others hold, without some of the moves."""
    relevance = Relevance(problem, holding, without)
    relevance.trace(wanted)
    return relevance.task(wanted)


def wanted_literals(problem: Problem, goal: PlanGoal) -> list[int] | None:
    """What a goal wants of the system; None where it wants what no operator mentions and the state does not give."""
    literals: list[int] = []
    for fact, value in goal.requires.items():
        literal = problem.system.literal(fact, value=value)
        if literal is not None:
            literals.append(literal)
        elif not problem.start.allows(fact, value=value):
            return None
    return literals


class Relevance:
    """The walk backwards. What holds at the start need be produced only if a relevant move can take it away."""

    def __init__(self, problem: Problem, holding: bytearray, without: frozenset[int]) -> None:
        self._problem = problem
        self._without = without
        self._system = problem.system
        self._holding = holding
        self._needed = bytearray(len(holding))
        self._taken = bytearray(len(holding))
        self._moves: set[int] = set()
        self._produced: list[int] = []
        self._order: list[int] = []
        """What is needed, in the order in which it was found."""

    def trace(self, wanted: Sequence[int]) -> None:
        """Find all moves that can help towards some literals, directly or by what other moves need."""
        self._need(wanted)
        for literal in self._produced:  # grows while we walk
            for index in self._system.achievers[literal]:
                if index not in self._moves:
                    self._include(index)

    def _include(self, index: int) -> None:
        move = self._system.moves[index]
        if index in self._without or move.operator.action in self._problem.excluded:
            return
        self._moves.add(index)
        self._need(move.needs)
        self._take(move.takes)

    def _need(self, literals: Sequence[int]) -> None:
        for literal in literals:
            if not self._needed[literal]:
                self._needed[literal] = 1
                self._order.append(literal)
                if self._taken[literal] or not self._holding[literal]:
                    self._produced.append(literal)

    def _take(self, literals: Sequence[int]) -> None:
        for literal in literals:
            if not self._taken[literal]:
                self._taken[literal] = 1
                if self._needed[literal] and self._holding[literal]:
                    self._produced.append(literal)

    def task(self, wanted: Sequence[int]) -> Task:
        """The task of bringing some literals about by the moves that were found."""
        numbers = {literal: number for number, literal in enumerate(self._produced)}
        indexes = sorted(self._moves)
        moves = [self._system.moves[index] for index in indexes]
        goal = tuple(numbers[literal] for literal in wanted if literal in numbers)
        return Task(
            start=_bits([number for literal, number in numbers.items() if self._holding[literal]]),
            goal=_bits(goal),
            goal_literals=goal,
            literals=tuple(self._produced),
            held=tuple(literal for literal in self._order if literal not in numbers),
            steps=tuple(_step(index, move, numbers) for index, move in zip(indexes, moves, strict=True)),
            weights=self._weights(moves),
        )

    def _weights(self, moves: Sequence[Move]) -> tuple[int, ...]:
        if not self._problem.costs:
            return tuple(move.weight for move in moves)
        # One scale for all tasks of a problem, whatever moves they have, so that their weights compare.
        scale = self._system.scale.widened(self._problem.costs.values())
        return tuple(scale.weight(self._problem.cost(move.operator)) for move in moves)


def _step(index: int, move: Move, numbers: Mapping[int, int]) -> Step:
    needs = tuple([numbers[literal] for literal in move.needs if literal in numbers])
    gives = tuple([numbers[literal] for literal in move.gives if literal in numbers])
    takes = [numbers[literal] for literal in move.takes if literal in numbers]
    return Step(index, move.operator, needs, gives, _bits(needs), _bits(gives), ~_bits(takes))


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits
