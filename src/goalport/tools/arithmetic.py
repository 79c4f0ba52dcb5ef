"""The core role `math`: arithmetic, which language models are bad at.

This group is a default: a group of the role in a workspace or a configuration replaces it. User guide, section 3.9.2.
"""

import math
from functools import cache
from statistics import fmean
from typing import Annotated

from pydantic import Field

from goalport.tools.definition import tool
from goalport.tools.groups import CoreToolGroups, ToolGroup
from goalport.tools.objects import tools_of

Numbers = Annotated[list[float], Field(description="The numbers.")]
_NOTHING = "There are no numbers. Call again with at least one."


@cache
def math_group() -> ToolGroup:
    """The group that plays `math` where no other does; made once, because each platform has it."""
    return ToolGroup(
        CoreToolGroups.MATH,
        tools_of(_Arithmetic()),
        CoreToolGroups.MATH_DESCRIPTION,
        name="arithmetic",
        provider="goalport",
        is_default=True,
    )


class _Arithmetic:
    """Exact as far as floating point is. What has no result is told in words, so that a model goes on from there."""

    @tool(title="Add", read_only=True, idempotent=True, open_world=False)
    def add(self, a: float, b: float) -> float:
        """Add two numbers and get their sum."""
        return a + b

    @tool(title="Subtract", read_only=True, idempotent=True, open_world=False)
    def subtract(self, a: float, b: float) -> float:
        """Subtract the second number from the first and get the difference."""
        return a - b

    @tool(title="Multiply", read_only=True, idempotent=True, open_world=False)
    def multiply(self, a: float, b: float) -> float:
        """Multiply two numbers and get their product."""
        return a * b

    @tool(title="Divide", read_only=True, idempotent=True, open_world=False)
    def divide(self, a: float, b: float) -> float | str:
        """Divide the first number by the second and get the quotient."""
        return a / b if b else "A number cannot be divided by zero. Call again with another divisor."

    @tool(title="Mean", read_only=True, idempotent=True, open_world=False)
    def mean(self, numbers: Numbers) -> float | str:
        """Get the arithmetic mean, also called the average, of numbers."""
        return fmean(numbers) if numbers else _NOTHING

    @tool(name="min", title="Smallest", read_only=True, idempotent=True, open_world=False)
    def smallest(self, numbers: Numbers) -> float | str:
        """Get the smallest of numbers."""
        return min(numbers, default=_NOTHING)

    @tool(name="max", title="Largest", read_only=True, idempotent=True, open_world=False)
    def largest(self, numbers: Numbers) -> float | str:
        """Get the largest of numbers."""
        return max(numbers, default=_NOTHING)

    @tool(title="Round down", read_only=True, idempotent=True, open_world=False)
    def floor(self, number: float) -> int:
        """Get the largest whole number that is not above a number."""
        return math.floor(number)

    @tool(title="Round up", read_only=True, idempotent=True, open_world=False)
    def ceiling(self, number: float) -> int:
        """Get the smallest whole number that is not below a number."""
        return math.ceil(number)

    @tool(name="round", title="Round", read_only=True, idempotent=True, open_world=False)
    def nearest(self, number: float) -> int:
        """Round a number to the nearest whole one; halves go to the even one."""
        return round(number)
