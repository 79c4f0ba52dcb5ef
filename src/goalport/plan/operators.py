"""Operators, goals, and a state of the world: what the planner is told, as plain data.

Nothing is compiled or searched here. Below: facts and amounts. Above: the planning system that numbers all this.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from goalport.plan.amounts import checked_cost, checked_value
from goalport.plan.facts import Fact

__all__ = ["ContradictoryState", "Goal", "Operator", "WorldState"]


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
class Goal:
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
