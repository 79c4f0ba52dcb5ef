"""Amounts: costs and values, counted exactly.

A cost is taken for the decimal number that its author wrote, so that 0.1 + 0.2 ties with 0.3 and the order in which
steps are added up never decides between two plans. The search wants whole numbers that stay whole when they are split,
and fewer steps among plans of one cost: `Scale.weight` says both in one integer. Floor 1; nothing here knows plans.
"""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

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
