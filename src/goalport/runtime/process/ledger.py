"""What models cost: an entry for each request, with sums by action, model and process; and the budget.

Nothing here ends a process: the process checks its budget before the next action and before each request of a model.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from goalport.agents.domain.checks import require_limit
from goalport.models.llm import TokenUsage
from goalport.store import closed

NOTHING = TokenUsage()
_CENT = 0.01


def in_dollars(amount: float) -> str:
    """An amount with as many digits as are needed: `2.00 USD`, `0.00012 USD`."""
    digits = 2 if amount <= 0 or amount >= _CENT else 1 - math.floor(math.log10(amount))
    return f"{amount:.{digits}f} USD"


@closed
@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of one request of a model, or an amount that an action itself reported."""

    process_id: str
    action: str
    """The name of the action that spent it; empty outside of actions."""
    model: str
    """The name of the model, as the provider reports it; empty when the action reported only an amount."""
    usage: TokenUsage
    seconds: float = 0.0
    """How many seconds the reply took."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class TurnStart(NamedTuple):
    """Where a process stood when a turn began: what it had done and spent since its own beginning."""

    actions: int
    """The number of actions that had run."""
    usage: TokenUsage
    seconds: float
    """For how long it had run."""
    told: tuple[str, ...] = ()
    """What identifies what it was told lately, the newest last, so that nothing is told twice."""


FIRST_TURN: Final = TurnStart(0, NOTHING, 0.0)


class SpendingHook:
    """Passes on what processes spend, from any thread, to whoever counts it."""

    def __init__(self) -> None:
        self.tell: Callable[[Spending], None] = lambda _: None
        """Called with each request of a model that a process has paid for; it must not raise."""
        self.asked: Callable[[str, float, bool], None] = lambda _model, _seconds, _failed: None
        """Called after each request of a model, its name, the seconds, and whether it failed; it must not raise."""


class Ledger:
    """The entries of a process and of the processes that its actions started."""

    def __init__(self) -> None:
        self._entries: list[Spending] = []
        self._by_action: dict[str, TokenUsage] = {}
        self._open: dict[str, TokenUsage] = {}

    @property
    def entries(self) -> tuple[Spending, ...]:
        """Every entry in order, including those of processes that it started."""
        return tuple(self._entries)

    @property
    def requests(self) -> int:
        """The number of requests of models."""
        return sum(1 for each in self._entries if each.model)

    @property
    def by_action(self) -> Mapping[str, TokenUsage]:
        """The cost of each action of the process, including the processes that the action started."""
        return dict(self._by_action)

    @property
    def by_model(self) -> Mapping[str, TokenUsage]:
        """The cost of each model."""
        return self._summed(lambda each: each.model)

    @property
    def by_process(self) -> Mapping[str, TokenUsage]:
        """The cost of each process of the tree without its sub-processes, by id."""
        return self._summed(lambda each: each.process_id)

    def note(self, entry: Spending, action: str) -> None:
        """Add an entry; `action` is the action of this process to which it is attributed."""
        self._entries.append(entry)
        for sums in (self._by_action, self._open):
            sums[action] = sums.get(action, NOTHING) + entry.usage

    def unsettled(self, action: str) -> TokenUsage:
        """What a running action has spent since it began."""
        return self._open.get(action, NOTHING)

    @property
    def all_unsettled(self) -> Mapping[str, TokenUsage]:
        """What each running action has spent since it began."""
        return dict(self._open)

    def restore_unsettled(self, spent: Mapping[str, TokenUsage]) -> None:
        """Set what each running action has spent since it began, after all entries were noted again."""
        self._open = dict(spent)

    def settle(self, action: str) -> TokenUsage:
        """What an action has spent since it began; call it when the action is over, as it starts a new count."""
        return self._open.pop(action, NOTHING)

    def _summed(self, key: Callable[[Spending], str]) -> dict[str, TokenUsage]:
        sums: defaultdict[str, TokenUsage] = defaultdict(TokenUsage)
        for each in self.entries:
            sums[key(each)] += each.usage
        return dict(sums)


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

    def overrun(self, actions: int, usage: TokenUsage) -> str | None:
        """Which limit is reached, in a sentence; None while no limit is."""
        if actions >= self.actions:
            return (
                f"The budget of {self.actions} actions is used up."
                " Allow more by ProcessOptions(budget=Budget(actions=…)), or by the setting max_actions of a server."
            )
        return self.overspent(usage)

    def overspent(self, usage: TokenUsage) -> str | None:
        """As `overrun`, for the limits of models only."""
        if usage.cost >= self.cost and usage.cost > 0:
            return f"The budget of {in_dollars(self.cost)} is used up ({in_dollars(usage.cost)} spent)."
        if usage.tokens >= self.tokens and usage.tokens > 0:
            return f"The budget of {self.tokens:,} tokens is used up ({usage.tokens:,} spent)."
        return None
