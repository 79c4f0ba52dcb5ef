"""A planning problem: a start state, operators and goals; plain data, prepared once.

A `PlanningSystem` is a set of operators in which every literal (a fact with a value) has a number, so that searches
work on small integers. It also caches the latest plans. A process plans again after every action, and the state is
mostly as its last plan foresaw; then the remaining steps are what a search would find, because each problem has exactly
one answer. Nothing is searched here. Above: the task of one search, and the explanations.
"""

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from threading import Lock
from typing import TypeAlias

from goalport.base.words import with_article

ITSELF = "it"
"""The binding of an object without a name."""


@dataclass(frozen=True, slots=True)
class Available:
    """An object of the type is on the blackboard, under this name unless the binding is the default one."""

    type: object
    """Any hashable type expression: a class, `list[Story]`, …"""
    binding: str = ITSELF

    def __str__(self) -> str:
        return with_article(self.type) if self.binding == ITSELF else f"{with_article(self.type)} named {self.binding}"


@dataclass(frozen=True, slots=True)
class LastResult:
    """The newest object on the blackboard is of this type; triggers require it."""

    type: object

    def __str__(self) -> str:
        return f"{with_article(self.type)} as the last result"


@dataclass(frozen=True, slots=True)
class HasRun:
    """The action has run."""

    action: str

    def __str__(self) -> str:
        return f"{self.action} has run"


@dataclass(frozen=True, slots=True)
class Holds:
    """A named condition holds."""

    condition: str

    def __str__(self) -> str:
        return f"condition {self.condition}"


@dataclass(frozen=True, slots=True)
class GroupAvailable:
    """A tool group with this role exists and has the required tools."""

    role: str
    tools: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"tool group {self.role}" + (f" with {', '.join(self.tools)}" if self.tools else "")


Fact: TypeAlias = Available | LastResult | HasRun | Holds | GroupAvailable


QUESTIONS, PLANS = 128, 8
"""The most questions that are cached, and the most plans for each."""
WORLDS = 8
"""The most world states that are cached as literals."""

AS_DIGITS = bytes.maketrans(b"\0\1", b"01")


class ContradictoryState(ValueError):
    """A world state with more than one value for a fact."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        said = ", ".join(sorted(map(str, facts)))
        super().__init__(
            f"Expected each fact to be true, unknown or undecidable, but more than one is said of: {said}. Keep one."
        )


@dataclass(frozen=True, slots=True)
class Operator:
    """A planning operator. An action with several exits has several operators."""

    name: str
    action: str
    """The action's name, the key of `Problem.costs` and `Problem.excluded`."""
    requires: Mapping[Fact, bool] = field(hash=False)
    effects: Mapping[Fact, bool] = field(hash=False)
    cost: float = 0.0
    value: float = 0.0

    def __post_init__(self) -> None:
        checked_cost(self.name, self.cost)
        checked_value(self.name, self.value)


@dataclass(frozen=True, slots=True)
class PlanGoal:
    """What should hold in the end."""

    name: str
    requires: Mapping[Fact, bool] = field(hash=False)
    value: float = 0.0

    def __post_init__(self) -> None:
        checked_value(self.name, self.value)


@dataclass(frozen=True, slots=True)
class WorldState:
    """What is known now. A fact that is in none of the sets is false."""

    true: frozenset[Fact] = frozenset()
    unknown: frozenset[Fact] = frozenset()
    """Facts that can be evaluated when a plan depends on them."""
    undecidable: frozenset[Fact] = frozenset()
    """Facts whose evaluation gave no answer: neither true nor false until an effect sets them."""

    def __post_init__(self) -> None:
        twice = (self.true & self.unknown) | (self.true & self.undecidable) | (self.unknown & self.undecidable)
        if twice:
            raise ContradictoryState(twice)

    def allows(self, fact: Fact, *, value: bool) -> bool:
        """Whether a plan may assume this value at the start: the fact has it, or is unknown."""
        return fact in self.unknown or (fact not in self.undecidable and (fact in self.true) is value)


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan, the states that it passes through, and the literals that it assumes to hold throughout."""

    steps: tuple[Operator, ...]
    states: dict[int, int]
    """For each state before a step, as bits, the number of steps before it."""
    literals: tuple[int, ...]
    """The literal of each bit of a state."""
    static_literals: tuple[int, ...]
    """Relevant literals that no step of the search task can make false."""

    def rest(self, holding: bytearray) -> tuple[Operator, ...] | None:
        """The remaining steps, if `holding` is one of the plan's states; else None."""
        if not all(map(holding.__getitem__, self.static_literals)):
            return None
        digits = bytes(map(holding.__getitem__, reversed(self.literals))).translate(AS_DIGITS)
        taken = self.states.get(int(digits or b"0", 2))
        return None if taken is None else self.steps[taken:]


class KnownPlans:
    """A cache of the latest plans. Its key, the question, is everything that a plan depends on but the state."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, tuple[KnownPlan, ...]] = {}
        self._adding = Lock()

    def rest(self, question: Hashable, holding: bytearray) -> tuple[Operator, ...] | None:
        """The remaining steps of a known plan; None if no known plan has this state."""
        rests = (known.rest(holding) for known in self._plans.get(question, ()))
        return next((rest for rest in rests if rest is not None), None)

    def remember(self, question: Hashable, known: KnownPlan) -> None:
        """Cache a plan as the newest for a question; the oldest plans and questions are dropped."""
        # A tuple is replaced, never changed, so that other threads may read meanwhile.
        with self._adding:
            others = self._plans.pop(question, ())
            self._plans[question] = (known, *others[: PLANS - 1])
            if len(self._plans) > QUESTIONS:
                del self._plans[next(iter(self._plans))]


@dataclass(frozen=True, slots=True)
class Move:
    """An operator as numbers of literals: preconditions (`needs`) and effects."""

    operator: Operator
    needs: tuple[int, ...]
    gives: tuple[int, ...]
    takes: tuple[int, ...]
    """The literals that are false afterwards (the delete effects)."""
    weight: int


class PlanningSystem:
    """Operators prepared for planning, once for all problems over them."""

    def __init__(self, operators: Iterable[Operator], asking: Mapping[Fact, float] | None = None) -> None:
        self.operators = tuple(operators)
        self._asking = asking or {}
        """The cost of evaluating an unknown fact; 0 for facts that are not here."""
        self.scale = Scale.fitting(operator.cost for operator in self.operators)
        self._numbers: dict[Fact, int] = {}
        """The facts in the order of their numbers."""
        specific_first = sorted(self.operators, key=lambda operator: -len(operator.requires))
        self.moves = tuple(self._move(operator) for operator in specific_first)
        """In the order that breaks ties: more preconditions first, then as declared (sorting is stable)."""
        self.achievers = self._moves_by_literal(lambda move: move.gives)
        """For each literal the indexes of the moves that give it."""
        self.has_values = any(operator.value for operator in self.operators)
        """Whether any step has a value, so that a plan of higher cost may be the better one."""
        self.known_plans = KnownPlans()
        self._allowed: dict[WorldState, bytearray] = {}
        """A cache by world state: the goals of an agent are mostly planned for from the same state."""

    def literal(self, fact: Fact, *, value: bool) -> int | None:
        """The number of a literal, or None for a fact that no operator mentions; `^ 1` is the opposite literal."""
        number = self._numbers.get(fact)
        return None if number is None else 2 * number + (not value)

    def cheapest(self, unknown: Iterable[Fact]) -> Fact | None:
        """The unknown fact of least evaluation cost; the first of equals."""
        return min(unknown, key=lambda fact: self._asking.get(fact, 0.0), default=None)

    def fact(self, literal: int) -> tuple[Fact, bool]:
        """The fact and the value of a literal."""
        return self._facts[literal // 2], literal % 2 == 0

    @cached_property
    def consumers(self) -> list[list[int]]:
        """For each literal the indexes of the moves that need it."""
        return self._moves_by_literal(lambda move: move.needs)

    @cached_property
    def _facts(self) -> tuple[Fact, ...]:
        return tuple(self._numbers)

    def literals_allowed_by(self, world: WorldState) -> bytearray:
        """For each literal 1 if a plan may assume it at the start, else 0."""
        known = self._allowed.get(world)
        if known is None:
            if len(self._allowed) >= WORLDS:
                self._allowed.clear()
            known = self._allowed[world] = self._literals_allowed_by(world)
        return known.copy()

    def _literals_allowed_by(self, world: WorldState) -> bytearray:
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


@dataclass(frozen=True, slots=True)
class Problem:
    """A planning problem: reach the best of these goals from this state.

    Raises `BadAmount` for a cost below 0, and for costs and values that are no finite numbers.
    """

    system: PlanningSystem
    start: WorldState
    goals: tuple[PlanGoal, ...]
    excluded: frozenset[str] = frozenset()
    """Names of actions that no plan may use."""
    costs: Mapping[str, float] = field(default_factory=dict[str, float])
    """The costs of actions by name; they override those of the operators."""
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """The values of actions by name; they override those of the operators."""
    deadline: float | None = None
    """Seconds of processor time that a search may take; unlike clock time, it is the same on a busy machine."""

    def __post_init__(self) -> None:
        for action, cost in self.costs.items():
            checked_cost(action, cost)
        for action, value in self.values.items():
            checked_value(action, value)

    def cost(self, operator: Operator) -> float:
        """The cost of an operator's action in this problem."""
        return self.costs.get(operator.action, operator.cost)

    def value(self, operator: Operator) -> float:
        """The value of an operator's action in this problem."""
        return self.values.get(operator.action, operator.value)


STEP_BITS = 24
"""Bits for the number of steps, below the cost; no search can reach a plan of 2**24 steps."""


class BadAmount(ValueError):
    """A cost or value that is not a usable number."""

    def __init__(self, whose: str, what: str, expected: str, came: object) -> None:
        super().__init__(
            f"The {what} of {whose}: expected {expected}, but got {came!r}. Give a finite number such as 0.5."
        )


def checked_cost(whose: str, cost: float) -> float:
    """The cost of an action, checked. Raises `BadAmount` if it is below 0 or not a finite number."""
    if not (0 <= cost < math.inf):
        raise BadAmount(whose, "cost", "a finite number that is not negative", cost)
    return cost


def checked_value(whose: str, value: float) -> float:
    """The value of an action or goal, checked. Raises `BadAmount` if it is not a finite number."""
    if not math.isfinite(value):
        raise BadAmount(whose, "value", "a finite number", value)
    return value


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit in which a set of costs are all whole numbers."""

    per_unit: int
    """The number of units in a cost of 1."""

    @classmethod
    def fitting(cls, costs: Iterable[float]) -> "Scale":
        """The coarsest scale in which all these costs are whole numbers."""
        return cls(math.lcm(*{_ratio(cost)[1] for cost in costs}))

    def widened(self, costs: Iterable[float]) -> "Scale":
        """A scale that also fits these costs."""
        return Scale(math.lcm(self.per_unit, Scale.fitting(costs).per_unit))

    def weight(self, cost: float) -> int:
        """The weight of a step as an integer: weights compare by cost, then by the number of steps."""
        numerator, denominator = _ratio(cost)
        return (numerator * (self.per_unit // denominator) << STEP_BITS) + 1


def total(amounts: Iterable[float]) -> float:
    """The sum, rounded once at the end; never infinite."""
    return _total(tuple(filter(None, amounts)))


@lru_cache(maxsize=4096)
def _total(amounts: tuple[float, ...]) -> float:
    # Cached, because the plans of one agent add up the same few sums again and again.
    exact = sum((Fraction(*_ratio(amount)) for amount in amounts), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return sys.float_info.max if exact > 0 else -sys.float_info.max


@lru_cache(maxsize=4096)
def _ratio(amount: float) -> tuple[int, int]:
    return Decimal(repr(float(amount))).as_integer_ratio()
