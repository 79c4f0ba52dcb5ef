"""A planning problem: from which state, over which operators, to the best of which goals.

It is the front of the data that the planner works on; the search and the explanations take one. Below: the system.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from goalport.plan.amounts import checked_cost, checked_value
from goalport.plan.operators import ContradictoryState, Goal, Operator, WorldState
from goalport.plan.system import PlanningSystem

__all__ = ["ContradictoryState", "Goal", "Operator", "PlanningSystem", "Problem", "WorldState"]


@dataclass(frozen=True, slots=True)
class Problem:
    """What to plan for: from this state, over these operators, to the best of these goals.

    Raises `BadAmount` for a cost below 0, and for costs and values that are no finite numbers.
    """

    system: PlanningSystem
    start: WorldState
    goals: tuple[Goal, ...]
    excluded: frozenset[str] = frozenset()
    """Names of actions that no plan may use."""
    costs: Mapping[str, float] = field(default_factory=dict[str, float])
    """What actions cost this time, by name; it overrides what their operators say."""
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """What actions are worth this time, by name."""
    deadline: float | None = None
    """Seconds that the search may take."""

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
