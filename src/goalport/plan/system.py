"""The planning system: a set of operators made ready for planning, once.

A literal is a fact with a value. The literals of all operators are numbered here, so that every search over them works
on small integers; nothing is searched. Below: operators. Above: problems over a system, and the task of one search.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from goalport.plan.amounts import Scale
from goalport.plan.facts import Fact
from goalport.plan.known_plans import KnownPlans
from goalport.plan.operators import Operator, WorldState

__all__ = ["Move", "PlanningSystem"]


@dataclass(frozen=True, slots=True)
class Move:
    """An operator in numbered literals."""

    operator: Operator
    needs: tuple[int, ...]
    gives: tuple[int, ...]
    takes: tuple[int, ...]
    """Literals that cannot hold afterwards."""
    weight: int


class PlanningSystem:
    """Operators made ready for planning, once; every problem over them shares the work."""

    def __init__(self, operators: Iterable[Operator], asking: Mapping[Fact, float] | None = None) -> None:
        self.operators = tuple(operators)
        self._asking = asking or {}
        """What it takes to find out a fact that is unknown; nothing for those that are not here."""
        self.scale = Scale.fitting(operator.cost for operator in self.operators)
        self._numbers: dict[Fact, int] = {}
        """The facts in the order of their numbers."""
        self.moves = tuple(self._move(operator) for operator in sorted(self.operators, key=_most_specific_first))
        """In the order in which ties are decided: more preconditions first, then as declared (sorting is stable)."""
        self.achievers = self._moves_by_literal(lambda move: move.gives)
        """For each literal the moves, by index, that give it."""
        self.has_values = any(operator.value for operator in self.operators)
        """Whether a step is worth anything by itself, so that a plan that costs more may be the better one."""
        self.known_plans = KnownPlans()

    def literal(self, fact: Fact, *, value: bool) -> int | None:
        """The number of a fact with a value, or None for a fact that no operator mentions; `^ 1` is its opposite."""
        number = self._numbers.get(fact)
        return None if number is None else 2 * number + (not value)

    def cheapest(self, unknown: Iterable[Fact]) -> Fact | None:
        """Of facts that may be asked for, the one for which that takes least; of equals the first."""
        return min(unknown, key=lambda fact: self._asking.get(fact, 0.0), default=None)

    def fact(self, literal: int) -> tuple[Fact, bool]:
        """The fact and the value that a literal stands for."""
        return self._facts[literal // 2], literal % 2 == 0

    @cached_property
    def consumers(self) -> list[list[int]]:
        """For each literal the moves, by index, that need it."""
        return self._moves_by_literal(lambda move: move.needs)

    @cached_property
    def _facts(self) -> tuple[Fact, ...]:
        return tuple(self._numbers)

    def literals_allowed_by(self, world: WorldState) -> bytearray:
        """For each literal whether a plan may begin by taking it to hold."""
        holding = bytearray(b"\0\1" * len(self._numbers))
        for facts, true, false in ((world.true, 1, 0), (world.unknown, 1, 1), (world.undecidable, 0, 0)):
            for number in map(self._numbers.get, facts):
                if number is not None:
                    holding[2 * number], holding[2 * number + 1] = true, false
        return holding

    def _move(self, operator: Operator) -> Move:
        needs = tuple(self._number(fact, value) for fact, value in operator.requires.items())
        gives = tuple(self._number(fact, value) for fact, value in operator.effects.items())
        takes = tuple({literal ^ 1 for literal in needs + gives}.difference(gives))
        return Move(operator, needs, gives, takes, self.scale.weight(operator.cost))

    def _number(self, fact: Fact, value: bool) -> int:  # noqa: FBT001 (the value of a fact is what is numbered)
        return 2 * self._numbers.setdefault(fact, len(self._numbers)) + (not value)

    def _moves_by_literal(self, literals_of: Callable[[Move], tuple[int, ...]]) -> list[list[int]]:
        moves: list[list[int]] = [[] for _ in range(2 * len(self._numbers))]
        for index, move in enumerate(self.moves):
            for literal in literals_of(move):
                moves[literal].append(index)
        return moves


def _most_specific_first(operator: Operator) -> int:
    return -len(operator.requires)
