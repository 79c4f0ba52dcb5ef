"""What whoever starts a process may say about the run: budget, deadline, pauses, listeners, and how it may end early.

Records and protocols; the process obeys them. Policies that end a process early, and handlers that help a stuck one,
are written by users: a policy looks at the process and gives a reason, a handler changes the blackboard. (User guide,
sections 3.6.10 and 3.14.)
"""

import math
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Protocol, runtime_checkable

from goalport.blackboard import Blackboard
from goalport.domain import PlannerType
from goalport.events import EventListener
from goalport.llm import TokenUsage
from goalport.observe import PlanListener, PromptListener
from goalport.process.ledger import Budget, in_dollars

__all__ = [
    "Delay",
    "EarlyTermination",
    "FirstOf",
    "MaxActions",
    "MaxCost",
    "MaxTokens",
    "OnStuck",
    "ProcessOptions",
    "ProcessView",
    "Schedule",
    "StuckCode",
    "StuckHandler",
    "StuckResult",
    "Verbosity",
]


class ProcessView(Protocol):
    """What a policy sees of a process."""

    @property
    def history(self) -> Sequence[object]:
        """The actions that ran."""
        ...

    @property
    def usage(self) -> TokenUsage:
        """What it has cost, with the processes that it started."""
        ...

    @property
    def blackboard(self) -> Blackboard:
        """What it knows."""
        ...


class EarlyTermination(Protocol):
    """Whether a process should end before its goal. It is asked before each action, and when the process is stuck."""

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        """Why the process should end now, in a sentence; None: it may go on."""
        ...


@dataclass(frozen=True, slots=True)
class MaxActions:
    """End before more than so many actions have run."""

    limit: int

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        """A reason once so many have run."""
        return f"{self.limit} actions have run, and no more may." if len(process.history) >= self.limit else None


@dataclass(frozen=True, slots=True)
class MaxCost:
    """End once models have cost so much, in US dollars."""

    limit: float

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        """A reason once it is spent."""
        spent = process.usage.cost
        return f"{in_dollars(spent)} are spent, of {in_dollars(self.limit)} allowed." if spent >= self.limit else None


@dataclass(frozen=True, slots=True)
class MaxTokens:
    """End once models have read and written so many tokens."""

    limit: int

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        """A reason once they are used."""
        used = process.usage.tokens
        return f"{used:,} tokens are used, of {self.limit:,} allowed." if used >= self.limit else None


@dataclass(frozen=True, slots=True)
class OnStuck:
    """End where the process would be stuck: nobody is asked to help it on."""

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        """A reason when it is stuck."""
        return "It was stuck." if stuck else None


class FirstOf:
    """Several policies: the first that has a reason counts."""

    def __init__(self, *policies: EarlyTermination) -> None:
        self.policies = policies

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        """The first reason of any."""
        reasons = (each.reason_to_end(process, stuck=stuck) for each in self.policies)
        return next(filter(None, reasons), None)


class StuckCode(StrEnum):
    """What a handler came to."""

    REPLAN = "replan"
    """Something has changed: plan again."""
    NO_RESOLUTION = "no_resolution"
    """Nothing can be done here: ask the next handler, or stay stuck."""


@dataclass(frozen=True, slots=True)
class StuckResult:
    """What a handler came to, and why, in words."""

    code: StuckCode
    message: str = ""


@runtime_checkable
class StuckHandler(Protocol):
    """Whoever can help a stuck process on, for example by putting an object on its blackboard.

    An agent's class may be one: its instance is asked first. (User guide, section 3.6.10.)
    """

    def handle_stuck(self, process: Any, /) -> StuckResult | Awaitable[StuckResult]:
        """Try to help; `process` is the `AgentProcess`. Async functions are awaited, others run in a worker thread."""
        ...


class Delay(float, Enum):
    """Pauses that have names."""

    NONE = 0.0
    MEDIUM = 0.4
    LONG = 2.0


class Schedule(Protocol):
    """When actions may begin, for example outside of rush hours. A process that must wait is PAUSED meanwhile."""

    def not_before(self, process: ProcessView, action: str, /) -> datetime | None:
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

    budget: Budget = field(default_factory=Budget)
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
    """Ends the process early, beside its budget: see `EarlyTermination`."""
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
                f"Expected planner to be a PlannerType, but got {self.planner!r}. Write {PlannerType.written()}."
            )
        for what in ("deadline", "delay", "tool_delay"):
            seconds = getattr(self, what)
            if seconds is not None and not (isinstance(seconds, (int, float)) and 0 <= seconds < math.inf):
                raise TypeError(f"Expected {what} to be a number of seconds from 0 up, but got {seconds!r}.")

    @property
    def unhurried(self) -> bool:
        """Whether there may be pauses between actions."""
        return self.delay > 0 or self.schedule is not None

    def with_(self, **changes: Any) -> "ProcessOptions":
        """A copy in which the given fields have other values: `options.with_(delay=Delay.LONG, prune=True)`.

        One listener more is `options.with_(listeners=(*options.listeners, mine))`. Raises `TypeError` for a name that
        is no field, and for a value that its field does not take.
        """
        return replace(self, **changes)

    def overrun(self, process: ProcessView) -> str | None:
        """Why no further action may run, in a sentence; None while one may."""
        return self.budget.overrun(len(process.history), process.usage) or self._policy(process)

    def overspent(self, process: ProcessView) -> str | None:
        """Why an action that is running may ask no model any more, in a sentence; None while it may."""
        return self.budget.overspent(process.usage) or self._policy(process)

    def _policy(self, process: ProcessView) -> str | None:
        policy = self.early_termination
        return None if policy is None else policy.reason_to_end(process, stuck=False)

    def room(self, process: ProcessView, wanted: Sequence[str]) -> int:
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

    def __init__(self, process: ProcessView, actions: Sequence[str]) -> None:
        self.history = (*process.history, *map(_Coming, actions))
        self.usage = process.usage
        self.blackboard = process.blackboard
