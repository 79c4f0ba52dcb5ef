"""What whoever starts a process may say about the run: its budget, its deadline, who listens.

Records; the process obeys them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from goalport.blackboard import Blackboard
from goalport.domain import PlannerType
from goalport.events import EventListener

__all__ = ["Budget", "ProcessOptions", "Usage"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What models cost a process."""

    cost: float = 0.0
    """In US dollars."""
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, in and out."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            cost=self.cost + other.cost,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What a process may spend before it is terminated."""

    cost: float = 2.0
    """In US dollars."""
    actions: int = 50
    """How many actions may run."""
    tokens: int = 1_000_000
    """Model tokens, in and out."""

    def overrun(self, actions: int, usage: Usage) -> str | None:
        """What the budget has no room for any more, in a sentence; None while there is room."""
        if actions >= self.actions:
            return f"The budget of {self.actions} actions is used up."
        if usage.cost >= self.cost and usage.cost > 0:
            return f"The budget of {self.cost:.2f} USD is used up ({usage.cost:.2f} USD spent)."
        if usage.tokens >= self.tokens and usage.tokens > 0:
            return f"The budget of {self.tokens:,} tokens is used up ({usage.tokens:,} spent)."
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessOptions:
    """How a process is to run (user guide, section 3.14)."""

    budget: Budget = Budget()
    deadline: float | None = None
    """Seconds after which the process is terminated, whatever it is doing; None: never."""
    listeners: Sequence[EventListener] = ()
    """Told of every event of the process."""
    blackboard: Blackboard | None = None
    """Start from a copy of this blackboard instead of an empty one."""
    planner: PlannerType | None = None
    """What chooses the next action; None: what the agent says."""
    context_id: str = ""
    """The context whose objects the process begins with; see `goalport.process.Context`."""

    def with_budget(self, budget: Budget) -> "ProcessOptions":
        """A copy with another budget."""
        return replace(self, budget=budget)

    def with_listeners(self, *listeners: EventListener) -> "ProcessOptions":
        """A copy that tells these listeners too."""
        return replace(self, listeners=(*self.listeners, *listeners))
