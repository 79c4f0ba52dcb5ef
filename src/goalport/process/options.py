"""What whoever starts a process may say about the run: its budget, its deadline, who listens.

Records; the process obeys them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Protocol

from goalport.blackboard import Blackboard
from goalport.domain import PlannerType
from goalport.events import EventListener
from goalport.llm import TokenUsage
from goalport.observe import PlanListener, PromptListener
from goalport.process.early_termination import EarlyTermination, Underway
from goalport.process.ledger import in_dollars
from goalport.process.stuck import StuckHandler

__all__ = ["Budget", "Delay", "ProcessOptions", "Schedule", "Verbosity"]


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


class Delay(float, Enum):
    """Pauses that have names."""

    NONE = 0.0
    MEDIUM = 0.4
    LONG = 2.0


class Schedule(Protocol):
    """When actions may begin, for example outside of rush hours. A process that must wait is PAUSED meanwhile."""

    def not_before(self, process: Underway, action: str, /) -> datetime | None:
        """The time, with its zone, before which an action must not begin; None: now."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Verbosity:
    """What of a run is written to the log `goalport.process` for people, beside what listeners write."""

    show_planning: bool = False
    """Each plan, why one was given up, and who helped a stuck process on."""
    show_prompts: bool = False
    """What models are asked, word for word."""
    show_llm_responses: bool = False
    """What models answer, word for word."""

    @property
    def listeners(self) -> tuple[EventListener, ...]:
        """Those who write it; they are to hear the process and what it starts."""
        prompts, replies = self.show_prompts, self.show_llm_responses
        planning: tuple[EventListener, ...] = (PlanListener(),) if self.show_planning else ()
        return (*planning, PromptListener(prompts=prompts, replies=replies)) if prompts or replies else planning


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
    early_termination: EarlyTermination | None = None
    """Ends the process early, beside its budget: see `goalport.process.early_termination`."""
    stuck_handlers: Sequence[StuckHandler] = ()
    """Asked in order, after the agent itself, when the process is stuck; the first that helps counts."""
    delay: float = Delay.NONE
    """Seconds between one action and the next, or a `Delay`: for what is rate-limited."""
    tool_delay: float = Delay.NONE
    """Seconds before each call of a tool, or a `Delay`."""
    schedule: Schedule | None = None
    """When actions may begin; None: whenever they can."""
    concurrent: bool = False
    """Run those steps of a plan at once that need nothing of one another; the goal planner's plans only."""
    verbosity: Verbosity = Verbosity()
    prune: bool = False
    """Leave out from the beginning whatever can have no part in reaching a goal from what is given."""
    ephemeral: bool = False
    """Remember the process nowhere: nobody finds it by its id, and it can neither ask people nor start others."""
    agent_name_in_id: bool = False
    version_in_id: bool = False

    def __post_init__(self) -> None:
        if self.planner is not None and not isinstance(self.planner, PlannerType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"Expected planner to be a PlannerType, but got {self.planner!r}. Write PlannerType.UTILITY."
            )
        for what in ("deadline", "delay", "tool_delay"):
            seconds = getattr(self, what)
            if seconds is not None and not (isinstance(seconds, (int, float)) and 0 <= seconds < math.inf):
                raise TypeError(f"Expected {what} to be a number of seconds from 0 up, but got {seconds!r}.")

    @property
    def unhurried(self) -> bool:
        """Whether there may be pauses between actions."""
        return self.delay > 0 or self.schedule is not None

    def with_budget(self, budget: Budget) -> "ProcessOptions":
        """A copy with another budget."""
        return replace(self, budget=budget)

    def with_deadline(self, seconds: float | None) -> "ProcessOptions":
        """A copy with another deadline."""
        return replace(self, deadline=seconds)

    def with_listeners(self, *listeners: EventListener) -> "ProcessOptions":
        """A copy that tells these listeners too."""
        return replace(self, listeners=(*self.listeners, *listeners))

    def with_blackboard(self, blackboard: Blackboard | None) -> "ProcessOptions":
        """A copy that starts from another blackboard."""
        return replace(self, blackboard=blackboard)

    def with_planner(self, planner: PlannerType | None) -> "ProcessOptions":
        """A copy with another planner."""
        return replace(self, planner=planner)

    def with_context_id(self, context_id: str) -> "ProcessOptions":
        """A copy that begins with another context."""
        return replace(self, context_id=context_id)

    def with_early_termination(self, policy: EarlyTermination | None) -> "ProcessOptions":
        """A copy with another policy; combine several by `FirstOf`."""
        return replace(self, early_termination=policy)

    def with_stuck_handlers(self, *handlers: StuckHandler) -> "ProcessOptions":
        """A copy that asks these handlers too."""
        return replace(self, stuck_handlers=(*self.stuck_handlers, *handlers))

    def with_delays(self, *, actions: float | None = None, tools: float | None = None) -> "ProcessOptions":
        """A copy with other pauses before actions or tools; None leaves one as it is."""
        delay, tool_delay = self.delay if actions is None else actions, self.tool_delay if tools is None else tools
        return replace(self, delay=delay, tool_delay=tool_delay)

    def with_schedule(self, schedule: Schedule | None) -> "ProcessOptions":
        """A copy with another schedule."""
        return replace(self, schedule=schedule)

    def with_verbosity(self, verbosity: Verbosity) -> "ProcessOptions":
        """A copy that logs more, or less."""
        return replace(self, verbosity=verbosity)

    def with_prune(self, prune: bool = True) -> "ProcessOptions":  # noqa: FBT001, FBT002 - it reads well without a name
        """A copy that prunes, or does not."""
        return replace(self, prune=prune)

    def with_concurrent(self, concurrent: bool = True) -> "ProcessOptions":  # noqa: FBT001, FBT002 - as above
        """A copy that runs independent steps at once, or does not."""
        return replace(self, concurrent=concurrent)

    def with_ephemeral(self, ephemeral: bool = True) -> "ProcessOptions":  # noqa: FBT001, FBT002 - as above
        """A copy that is remembered nowhere, or is."""
        return replace(self, ephemeral=ephemeral)

    def with_id(self, *, agent_name: bool = False, version: bool = False) -> "ProcessOptions":
        """A copy whose process ids begin with the agent's name, or tell its version."""
        return replace(self, agent_name_in_id=agent_name, version_in_id=version)

    def overrun(self, process: Underway) -> str | None:
        """Why no further action may run, in a sentence; None while one may."""
        return self.budget.overrun(len(process.history), process.usage) or self._policy(process)

    def overspent(self, process: Underway) -> str | None:
        """Why an action that is running may ask no model any more, in a sentence; None while it may."""
        return self.budget.overspent(process.usage) or self._policy(process)

    def _policy(self, process: Underway) -> str | None:
        policy = self.early_termination
        return None if policy is None else policy.reason_to_end(process, stuck=False)

    def room(self, process: Underway, wanted: Sequence[str]) -> int:
        """How many of the wanted actions may run at once; the first always may."""
        return next((n for n in range(1, len(wanted)) if self.overrun(_Ahead(process, wanted[:n]))), len(wanted))


@dataclass(frozen=True, slots=True)
class _Coming:
    """An action that is to run, as an entry of the history."""

    action: str
    seconds: float = 0.0
    status: str = "planned"
    error: str | None = None


class _Ahead:
    """A process as it will be when some more actions have run."""

    def __init__(self, process: Underway, actions: Sequence[str]) -> None:
        self.history = (*process.history, *map(_Coming, actions))
        self.usage = process.usage
        self.blackboard = process.blackboard
