"""Arithmetic that a model had better not do in its head: a tool object, shared by an export and a tool group.

Clients of this server get the tools as `calc_add`, `calc_mean` and so on; agents that ask for the group `math` get them
under their own names, and rounding too.
"""

import math
from statistics import fmean
from typing import Annotated

from pydantic import Field

from goalport import McpToolExport, ToolGroup, ToolObject, tool
from goalport.errors import ToolError
from goalport.tools import prefixed

Numbers = Annotated[list[float], Field(description="The numbers, at least one.", min_length=1)]


class Calculator:
    """Exact as far as floating point is."""

    @tool(title="Add", read_only=True, idempotent=True)
    def add(self, a: float, b: float) -> float:
        """Add two numbers and get their sum."""
        return a + b

    @tool(title="Subtract", read_only=True, idempotent=True)
    def subtract(self, a: float, b: float) -> float:
        """Subtract one number from another and get the difference.

        Args:
            a: The number to subtract from.
            b: The number to take away.
        """
        return a - b

    @tool(title="Multiply", read_only=True, idempotent=True)
    def multiply(self, a: float, b: float) -> float:
        """Multiply two numbers and get their product."""
        return a * b

    @tool(title="Divide", read_only=True, idempotent=True)
    def divide(self, a: float, b: float) -> float:
        """Divide one number by another and get the quotient.

        Args:
            a: The number to divide.
            b: The number to divide by; not zero.
        """
        if b == 0:
            raise ToolError(f"{a} cannot be divided by zero. Call again with another divisor.")
        return a / b

    @tool(title="Mean", read_only=True, idempotent=True)
    def mean(self, numbers: Numbers) -> float:
        """Get the arithmetic mean, also called the average, of numbers."""
        return fmean(numbers)

    @tool(title="Smallest", read_only=True, idempotent=True)
    def smallest(self, numbers: Numbers) -> float:
        """Get the smallest of numbers."""
        return min(numbers)

    @tool(title="Largest", read_only=True, idempotent=True)
    def largest(self, numbers: Numbers) -> float:
        """Get the largest of numbers."""
        return max(numbers)

    @tool(title="Round to digits", read_only=True, idempotent=True)
    def round_to(self, number: float, digits: Annotated[int, Field(ge=0, le=15)] = 0) -> float:
        """Round a number to the nearest one with so many digits behind the point; halves go to the even digit.

        Args:
            number: The number to round.
            digits: How many digits to keep behind the point.
        """
        return round(number, digits)

    @tool(title="Round down", read_only=True, idempotent=True)
    def round_down(self, number: float) -> int:
        """Get the largest whole number that is not above a number."""
        return math.floor(number)

    @tool(title="Round up", read_only=True, idempotent=True)
    def round_up(self, number: float) -> int:
        """Get the smallest whole number that is not below a number."""
        return math.ceil(number)


calculator = Calculator()

group = ToolGroup.of("math", calculator, description="Arithmetic, means and rounding")

exports = McpToolExport.from_tool_object(
    ToolObject(calculator, naming=prefixed("calc_"), filter=lambda name: not name.startswith("round_"))
)
