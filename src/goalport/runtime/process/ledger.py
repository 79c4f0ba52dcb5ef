"""The costs of models: an entry for each request, with sums by action, model and process; and the budget.

Nothing here ends a process: the process checks its budget before the next action and before each request to a model.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from goalport.agents.domain.checks import require_limit
from goalport.models.llm import TokenUsage
from goalport.store import closed

NOTHING = TokenUsage()
_CENT = 0.01


def in_dollars(amount: float) -> str:
    """An amount in US dollars with as many digits as needed: `2.00 USD`, `0.00012 USD`."""
    digits = 2 if amount <= 0 or amount >= _CENT else 1 - math.floor(math.log10(amount))
    return f"{amount:.{digits}f} USD"


@closed
@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of one request to a model, or an amount that an action itself reported."""

    process_id: str
    action: str
    """The name of the action that spent it; empty outside of actions."""
    model: str
    """The name of the model, as the provider reports it; empty when the action reported only an amount."""
    usage: TokenUsage
    seconds: float = 0.0
    """Seconds that the request took."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class TurnStart(NamedTuple):
    """The progress and costs of a process at the beginning of a turn, counted from the beginning of the process."""

    actions: int
    """The number of actions that had run."""
    usage: TokenUsage
    seconds: float
    """Seconds that it had run."""
    told: tuple[str, ...] = ()
    """The tokens of its last inputs, the newest last, so that an input that is sent twice counts once."""


FIRST_TURN: Final = TurnStart(0, NOTHING, 0.0)


class Ledger:
    """The entries of a process and of the processes that its actions started."""

    def __init__(self) -> None:
        self.entries: list[Spending] = []
        """All entries in order, including entries of sub-processes."""
        self.by_action: dict[str, TokenUsage] = {}
        """The cost of each action of the process, including the sub-processes that the action started."""
        self.unsettled: dict[str, TokenUsage] = {}
        """What each running action has spent since it began."""

    @property
    def requests(self) -> int:
        """The number of requests to models."""
        return sum(1 for each in self.entries if each.model)

    @property
    def by_model(self) -> Mapping[str, TokenUsage]:
        """The cost of each model."""
        sums: defaultdict[str, TokenUsage] = defaultdict(TokenUsage)
        for each in self.entries:
            sums[each.model] += each.usage
        return dict(sums)

    def note(self, entry: Spending, action: str) -> None:
        """Add an entry; `action` is the action of this process to which it is attributed."""
        self.entries.append(entry)
        for sums in (self.by_action, self.unsettled):
            sums[action] = sums.get(action, NOTHING) + entry.usage


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """The limits of a process; one that exceeds them is terminated."""

    cost: float = 2.0
    """The most US dollars."""
    actions: int = 50
    """The most actions that may run."""
    tokens: int = 1_000_000
    """The most tokens, of input and output together."""

    def __post_init__(self) -> None:
        require_limit("cost", self.cost)
        require_limit("actions", self.actions, whole=True)
        require_limit("tokens", self.tokens, whole=True)

    def used_up(self, actions: int) -> str | None:
        """Why no further action may run after that many actions, in a sentence; None: one may run."""
        if actions < self.actions:
            return None
        return (
            f"The budget of {self.actions} actions is used up."
            " Allow more by ProcessOptions(budget=Budget(actions=…)), or by the setting max_actions of a server."
        )

    def overspent(self, usage: TokenUsage) -> str | None:
        """Which limit on costs or tokens is reached, in a sentence; None: none is."""
        if usage.cost >= self.cost and usage.cost > 0:
            return f"The budget of {in_dollars(self.cost)} is used up ({in_dollars(usage.cost)} spent)."
        if usage.tokens >= self.tokens and usage.tokens > 0:
            return f"The budget of {self.tokens:,} tokens is used up ({usage.tokens:,} spent)."
        return None
