"""A planning problem: from which state, over which operators, to the best of which goals; plain data, made ready once.

A `PlanningSystem` is a set of operators in which every fact with a value, a literal, has a number, so that each search
over them works on small integers. It also keeps the latest plans: a process plans again after every action, and mostly
things are as its last plan foresaw; then the steps that remain are what a search would find, because it has one answer
per problem. Nothing is searched here. Above: the task of one search, and the explanations.
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
"""The binding of an object that nobody named."""


@dataclass(frozen=True, slots=True)
class Available:
    """An object of the type is there; with a binding of its own, under that name."""

    type: object
    """Any hashable type expression: a class, `list[Story]`, …"""
    binding: str = ITSELF

    def __str__(self) -> str:
        return with_article(self.type) if self.binding == ITSELF else f"{with_article(self.type)} named {self.binding}"


@dataclass(frozen=True, slots=True)
class LastResult:
    """An object of the type is the last thing that was added, which is what a trigger waits for."""

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
    """A tool group plays the role and has the tools that are required of it."""

    role: str
    tools: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"tool group {self.role}" + (f" with {', '.join(self.tools)}" if self.tools else "")


Fact: TypeAlias = Available | LastResult | HasRun | Holds | GroupAvailable


QUESTIONS, PLANS = 128, 8
"""How many questions are remembered, and how many plans to each."""
WORLDS = 8
"""How many world states are remembered in literals."""

AS_DIGITS = bytes.maketrans(b"\0\1", b"01")


class ContradictoryState(ValueError):
    """A world state that says two things of one fact."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        said = ", ".join(sorted(map(str, facts)))
        super().__init__(
            f"Expected each fact to be true, unknown or undecidable, but more than one is said of: {said}. Keep one."
        )


@dataclass(frozen=True, slots=True)
class Operator:
    """One way to act, as the planner sees it. An action with several exits gives several operators."""

    name: str
    action: str
    """The action's name, by which costs are given and actions are excluded."""
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
    """What is known now. A fact that is named nowhere is false."""

    true: frozenset[Fact] = frozenset()
    unknown: frozenset[Fact] = frozenset()
    """Facts that somebody can be asked for, when a plan depends on them."""
    undecidable: frozenset[Fact] = frozenset()
    """Facts that were asked for in vain: neither true nor false until an effect sets them."""

    def __post_init__(self) -> None:
        twice = (self.true & self.unknown) | (self.true & self.undecidable) | (self.unknown & self.undecidable)
        if twice:
            raise ContradictoryState(twice)

    def allows(self, fact: Fact, *, value: bool) -> bool:
        """Whether a plan may begin by taking the fact for that: it is so, or it is unknown."""
        return fact in self.unknown or (fact not in self.undecidable and (fact in self.true) is value)


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan, the states that it passes through, and what it takes to hold throughout."""

    steps: tuple[Operator, ...]
    states: dict[int, int]
    """For each state before a step, as bits, how many steps came before it."""
    literals: tuple[int, ...]
    """What the bits of a state stand for."""
    held: tuple[int, ...]
    """Literals that matter and that no step of interest can take away."""

    def rest(self, holding: bytearray) -> tuple[Operator, ...] | None:
        """The remaining steps, if the plan foresaw a state in which just this holds."""
        if not all(map(holding.__getitem__, self.held)):
            return None
        digits = bytes(map(holding.__getitem__, reversed(self.literals))).translate(AS_DIGITS)
        taken = self.states.get(int(digits or b"0", 2))
        return None if taken is None else self.steps[taken:]


class KnownPlans:
    """The latest plans to the latest questions. A question is everything but the state that a plan depends on."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, tuple[KnownPlan, ...]] = {}
        self._adding = Lock()

    def rest(self, question: Hashable, holding: bytearray) -> tuple[Operator, ...] | None:
        """What is left to do, if a known plan says it."""
        rests = (known.rest(holding) for known in self._plans.get(question, ()))
        return next((rest for rest in rests if rest is not None), None)

    def remember(self, question: Hashable, known: KnownPlan) -> None:
        """Keep a plan as the newest answer to a question; the oldest answers and questions are forgotten."""
        # A tuple is replaced, never changed, so that other threads may read meanwhile.
        with self._adding:
            others = self._plans.pop(question, ())
            self._plans[question] = (known, *others[: PLANS - 1])
            if len(self._plans) > QUESTIONS:
                del self._plans[next(iter(self._plans))]


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
        """The cost of asking for an unknown fact; 0 for those that are not here."""
        self.scale = Scale.fitting(operator.cost for operator in self.operators)
        self._numbers: dict[Fact, int] = {}
        """The facts in the order of their numbers."""
        specific_first = sorted(self.operators, key=lambda operator: -len(operator.requires))
        self.moves = tuple(self._move(operator) for operator in specific_first)
        """In the order in which ties are decided: more preconditions first, then as declared (sorting is stable)."""
        self.achievers = self._moves_by_literal(lambda move: move.gives)
        """For each literal the moves, by index, that give it."""
        self.has_values = any(operator.value for operator in self.operators)
        """Whether a step is worth anything by itself, so that a plan that costs more may be the better one."""
        self.known_plans = KnownPlans()
        self._allowed: dict[WorldState, bytearray] = {}
        """A cache by world state: the goals of one agent are mostly planned for from the same one."""

    def literal(self, fact: Fact, *, value: bool) -> int | None:
        """The number of a fact with a value, or None for a fact that no operator mentions; `^ 1` is its opposite."""
        number = self._numbers.get(fact)
        return None if number is None else 2 * number + (not value)

    def cheapest(self, unknown: Iterable[Fact]) -> Fact | None:
        """The unknown fact that is cheapest to ask for; of equals the first."""
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
    """What to plan for: from this state, over these operators, to the best of these goals.

    Raises `BadAmount` for a cost below 0, and for costs and values that are no finite numbers.
    """

    system: PlanningSystem
    start: WorldState
    goals: tuple[PlanGoal, ...]
    excluded: frozenset[str] = frozenset()
    """Names of actions that no plan may use."""
    costs: Mapping[str, float] = field(default_factory=dict[str, float])
    """What actions cost this time, by name; it overrides what their operators say."""
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """What actions are worth this time, by name."""
    deadline: float | None = None
    """Seconds of processor time that the search may take, so that a busy machine cuts no search short."""

    def __post_init__(self) -> None:
        for action, cost in self.costs.items():
            checked_cost(action, cost)
        for action, value in self.values.items():
            checked_value(action, value)

    def cost(self, operator: Operator) -> float:
        """What an operator's action costs this time."""
        return self.costs.get(operator.action, operator.cost)

    def value(self, operator: Operator) -> float:
        """What an operator's action is worth this time."""
        return self.values.get(operator.action, operator.value)


STEP_BITS = 24
"""Room for the number of steps below the cost; no search can reach a plan of 2**24 steps."""


class BadAmount(ValueError):
    """A cost or value that nothing can be weighed by."""

    def __init__(self, whose: str, what: str, expected: str, came: object) -> None:
        super().__init__(
            f"The {what} of {whose}: expected {expected}, but got {came!r}. Give a finite number such as 0.5."
        )


def checked_cost(whose: str, cost: float) -> float:
    """The cost of an action. Raises `BadAmount` for one below 0, and for what is no finite number."""
    if not (0 <= cost < math.inf):
        raise BadAmount(whose, "cost", "a finite number that is not negative", cost)
    return cost


def checked_value(whose: str, value: float) -> float:
    """The value of an action or goal. Raises `BadAmount` for what is no finite number."""
    if not math.isfinite(value):
        raise BadAmount(whose, "value", "a finite number", value)
    return value


@dataclass(frozen=True, slots=True)
class Scale:
    """The unit in which a set of costs are all whole numbers."""

    per_unit: int
    """How many of them make 1."""

    @classmethod
    def fitting(cls, costs: Iterable[float]) -> "Scale":
        """The coarsest scale in which all these costs are whole numbers."""
        return cls(math.lcm(*{_ratio(cost)[1] for cost in costs}))

    def widened(self, costs: Iterable[float]) -> "Scale":
        """The scale that these costs fit too."""
        return Scale(math.lcm(self.per_unit, Scale.fitting(costs).per_unit))

    def weight(self, cost: float) -> int:
        """One step of this cost, as an integer: less for a lower cost, and the fewer steps the less at equal cost."""
        numerator, denominator = _ratio(cost)
        return (numerator * (self.per_unit // denominator) << STEP_BITS) + 1


def total(amounts: Iterable[float]) -> float:
    """The sum, rounded once at the end; never infinite."""
    return _total(tuple(filter(None, amounts)))


@lru_cache(maxsize=4096)
def _total(amounts: tuple[float, ...]) -> float:
    # A process plans after every action, and the plans of one agent add up the same few sums again and again.
    exact = sum((Fraction(*_ratio(amount)) for amount in amounts), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return sys.float_info.max if exact > 0 else -sys.float_info.max


@lru_cache(maxsize=4096)
def _ratio(amount: float) -> tuple[int, int]:
    return Decimal(repr(float(amount))).as_integer_ratio()
