"""What models cost: an entry for each request, summed by action, model and process; and the budget for it.

Nothing here ends a process: it asks its budget before the next action and before a model is asked again.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from goalport.llm import TokenUsage

__all__ = ["NOTHING", "Budget", "Ledger", "Spending", "in_dollars"]

NOTHING = TokenUsage()
_CENT = 0.01


def in_dollars(amount: float) -> str:
    """An amount in words, with as many digits as it takes to be seen: `2.00 USD`, `0.00012 USD`."""
    digits = 2 if amount <= 0 or amount >= _CENT else 1 - math.floor(math.log10(amount))
    return f"{amount:.{digits}f} USD"


@dataclass(frozen=True, slots=True)
class Spending:
    """One request of a model, or what an action itself said that it had spent."""

    process_id: str
    action: str
    """The action that asked; empty when none did."""
    model: str
    """The name under which the provider answered; empty when the action told the sum only."""
    usage: TokenUsage
    seconds: float = 0.0
    """How long the answer took."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Ledger:
    """The entries of a process and of those that its actions started."""

    def __init__(self) -> None:
        self._entries: list[Spending] = []
        self._by_action: dict[str, TokenUsage] = {}
        self._open: dict[str, TokenUsage] = {}

    @property
    def entries(self) -> tuple[Spending, ...]:
        """Everything that was spent, in order; that of started processes among it."""
        return tuple(self._entries)

    @property
    def requests(self) -> int:
        """How often models were asked."""
        return sum(1 for each in self._entries if each.model)

    @property
    def by_action(self) -> Mapping[str, TokenUsage]:
        """What each action of the process spent, with the processes that it started."""
        return dict(self._by_action)

    @property
    def by_model(self) -> Mapping[str, TokenUsage]:
        """What each model cost."""
        return self._summed(lambda each: each.model)

    @property
    def by_process(self) -> Mapping[str, TokenUsage]:
        """What each process of the tree spent by itself, by its id."""
        return self._summed(lambda each: each.process_id)

    def note(self, entry: Spending, action: str) -> None:
        """Add an entry; `action` is the one of this process that it counts towards."""
        self._entries.append(entry)
        for sums in (self._by_action, self._open):
            sums[action] = sums.get(action, NOTHING) + entry.usage

    def unsettled(self, action: str) -> TokenUsage:
        """What an action that runs has spent since it began."""
        return self._open.get(action, NOTHING)

    def settle(self, action: str) -> TokenUsage:
        """What an action that is over has spent since it began."""
        return self._open.pop(action, NOTHING)

    def _summed(self, key: Callable[[Spending], str]) -> dict[str, TokenUsage]:
        sums: defaultdict[str, TokenUsage] = defaultdict(TokenUsage)
        for each in self.entries:
            sums[key(each)] += each.usage
        return dict(sums)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What a process may spend before it is terminated."""

    cost: float = 2.0
    """In US dollars."""
    actions: int = 50
    """How many actions may run."""
    tokens: int = 1_000_000
    """Model tokens, in and out."""

    def overrun(self, actions: int, usage: TokenUsage) -> str | None:
        """What the budget has no room for any more, in a sentence; None while there is room."""
        if actions >= self.actions:
            return f"The budget of {self.actions} actions is used up."
        return self.overspent(usage)

    def overspent(self, usage: TokenUsage) -> str | None:
        """The same for what models cost alone."""
        if usage.cost >= self.cost and usage.cost > 0:
            return f"The budget of {in_dollars(self.cost)} is used up ({in_dollars(usage.cost)} spent)."
        if usage.tokens >= self.tokens and usage.tokens > 0:
            return f"The budget of {self.tokens:,} tokens is used up ({usage.tokens:,} spent)."
        return None
