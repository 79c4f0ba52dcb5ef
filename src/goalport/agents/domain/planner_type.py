"""The kinds of planners that an agent may have, by name.

How each kind behaves is in `goalport.runtime.process.planners`. Below the decorators, whose `@agent` takes one of them.
"""

import sys
from enum import StrEnum
from typing import Self

_ANY_NUMBER = sys.maxsize


class PlannerType(StrEnum):
    """How the next action is chosen (user guide, section 3.18).

    Each member is written with its name, the numbers of goals that such an agent may have, and whether it asks a model.
    """

    GOAP = "goap", range(1, _ANY_NUMBER), False
    """The first step of the cheapest plan to a goal."""
    UTILITY = "utility", range(_ANY_NUMBER), False
    """Of all that can be done now, what is worth most."""
    SUPERVISOR = "supervisor", range(1, 2), True
    """What a model chooses of all that can be done now."""

    goal_counts: range
    """The numbers of goals that an agent with this planner may have; `range(1, 2)` is exactly one."""
    asks_models: bool

    def __new__(cls, name: str, goal_counts: range, asks_models: bool) -> Self:  # noqa: FBT001 - of a member
        member = str.__new__(cls, name)
        member._value_ = name
        member.goal_counts, member.asks_models = goal_counts, asks_models
        return member

    @classmethod
    def written(cls, *, goals: int | None = None) -> str:
        """Every kind as it is written in code, for messages; with `goals`, those that may have so many goals."""
        return " or ".join(f"PlannerType.{each.name}" for each in cls if goals is None or goals in each.goal_counts)
