"""The options of a run: budget, deadline, pauses, listeners, and policies for ending it early.

Records and protocols; the process applies them. Users write policies that end a process early and handlers that help a
stuck one: a policy looks at the process and returns a reason, a handler changes the blackboard. (User guide,
sections 3.6.10 and 3.14.)
"""

import math
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum, StrEnum
from types import SimpleNamespace
from typing import Any, Protocol, cast, runtime_checkable

from goalport.agents.blackboard import Blackboard
from goalport.agents.domain import PlannerType
from goalport.agents.domain.checks import require_limit
from goalport.base.events import EventListener
from goalport.base.observe import PlanListener, PromptListener
from goalport.models.llm import LlmOptions, TokenUsage
from goalport.runtime.process.action_progress import ActionInvocation
from goalport.runtime.process.ledger import Budget, in_dollars


class ProcessView(Protocol):
    """What a policy can read of a process."""

    @property
    def history(self) -> Sequence[object]: ...
    @property
    def usage(self) -> TokenUsage: ...
    @property
    def turn_actions(self) -> int: ...
    @property
    def turn_usage(self) -> TokenUsage: ...
    @property
    def blackboard(self) -> Blackboard: ...


class EarlyTermination(Protocol):
    """A policy that ends a process before its goal. It is asked before each action, and when the process is stuck."""

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None: ...


@dataclass(frozen=True, slots=True)
class MaxActions:
    """Ends the process when this many actions have run."""

    limit: int

    def __post_init__(self) -> None:
        require_limit("limit", self.limit, whole=True)

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        return f"{self.limit} actions have run, and no more may." if len(process.history) >= self.limit else None


@dataclass(frozen=True, slots=True)
class MaxCost:
    """Ends the process when models have cost this many US dollars."""

    limit: float

    def __post_init__(self) -> None:
        require_limit("limit", self.limit)

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        spent = process.usage.cost
        return f"{in_dollars(spent)} are spent, of {in_dollars(self.limit)} allowed." if spent >= self.limit else None


@dataclass(frozen=True, slots=True)
class MaxTokens:
    """Ends the process when models have used this many tokens, of input and output together."""

    limit: int

    def __post_init__(self) -> None:
        require_limit("limit", self.limit, whole=True)

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        used = process.usage.tokens
        return f"{used:,} tokens are used, of {self.limit:,} allowed." if used >= self.limit else None


@dataclass(frozen=True, slots=True)
class OnStuck:
    """Ends the process as soon as it is stuck, without asking stuck handlers."""

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        return "It was stuck." if stuck else None


class FirstOf:
    """Combines several policies; the first reason that one returns counts."""

    def __init__(self, *policies: EarlyTermination) -> None:
        self.policies = policies

    def reason_to_end(self, process: ProcessView, /, *, stuck: bool) -> str | None:
        reasons = (each.reason_to_end(process, stuck=stuck) for each in self.policies)
        return next(filter(None, reasons), None)


class StuckCode(StrEnum):
    """The result codes of a stuck handler."""

    REPLAN = "replan"
    """Something has changed: plan again."""
    NO_RESOLUTION = "no_resolution"
    """This handler cannot help: ask the next one, or stay stuck."""


@dataclass(frozen=True, slots=True)
class StuckResult:
    """The result of a stuck handler, and a message that explains it."""

    code: StuckCode
    message: str = ""


@runtime_checkable
class StuckHandler(Protocol):
    """Helps a stuck process to continue, for example by putting an object on its blackboard.

    The class of an agent may implement it: its instance is asked first. (User guide, section 3.6.10.)
    """

    def handle_stuck(self, process: Any, /) -> StuckResult | Awaitable[StuckResult]:
        """Try to help; `process` is the `AgentProcess`. Async functions are awaited, others run in a worker thread."""
        ...


class Delay(float, Enum):
    """Named pauses, in seconds."""

    NONE = 0.0
    MEDIUM = 0.4
    LONG = 2.0


class Schedule(Protocol):
    """When actions may begin, for example outside of rush hours. A process that has to wait is PAUSED."""

    def not_before(self, process: ProcessView, action: str, /) -> datetime | None:
        """The time, with its time zone, before which an action must not begin; None: it may begin now."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Verbosity:
    """What is logged of a run under `goalport.process`, in addition to what listeners log."""

    show_planning: bool = False
    """Log each plan, the reason for giving up a plan, and the handler that helped a stuck process."""
    show_prompts: bool = False
    """Log the prompts of models in full."""
    show_llm_responses: bool = False
    """Log the replies of models in full."""
    debug: bool = False
    """All of these."""

    @property
    def listeners(self) -> tuple[EventListener, ...]:
        """The listeners that log it; they receive the events of the process and of its sub-processes."""
        prompts, replies = self.debug or self.show_prompts, self.debug or self.show_llm_responses
        planning: tuple[EventListener, ...] = (PlanListener(),) if self.debug or self.show_planning else ()
        return (*planning, PromptListener(prompts=prompts, replies=replies)) if prompts or replies else planning


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessOptions:
    """How a process is to run (user guide, section 3.14)."""

    budget: Budget = field(default_factory=Budget)
    deadline: float | None = None
    """Seconds after which the process is terminated, whatever it is doing; None: never."""
    listeners: Sequence[EventListener] = ()
    """Listeners that receive every event of the process."""
    blackboard: Blackboard | None = None
    """The process starts with a copy of this blackboard; None: with an empty one."""
    planner: PlannerType | None = None
    """The planner, which chooses the next action; None: that of the agent."""
    max_rounds: int = 10
    """How often the model of a supervisor may be asked which actions to run; a process that needs more is
    terminated."""
    supervisor_llm: LlmOptions | None = None
    """The model of a supervisor; None: the one that has the role `supervisor` in the settings, else the default."""
    context_id: str = ""
    """The context of its caller whose objects the process begins with; see `goalport.runtime.Context`."""
    context_scope: str = ""
    """The scope whose callers share that context; empty: the context is the caller's own."""
    early_termination: EarlyTermination | None = None
    """A policy that ends the process early, in addition to its budget; see `EarlyTermination`."""
    stuck_handlers: Sequence[StuckHandler] = ()
    """Handlers for a stuck process, called in order after the agent itself, until one helps."""
    delay: float = Delay.NONE
    """Seconds between two actions, or a `Delay`, for example to stay below a rate limit."""
    tool_delay: float = Delay.NONE
    """Seconds before each call of a tool, or a `Delay`."""
    schedule: Schedule | None = None
    """When actions may begin; None: at any time."""
    concurrent: bool = False
    """Run independent steps of a plan concurrently; only for plans of the goal planner."""
    verbosity: Verbosity = Verbosity()
    prune: bool = False
    """Leave out, from the beginning, actions that cannot help to reach a goal from the given objects."""
    ephemeral: bool = False
    """Do not store the process: it cannot be found by its id, cannot ask people and cannot start sub-processes."""
    keep_events: bool = False
    """Store its events even if its steps are not stored, so that they can be read later (`AgentPlatform.events`)."""
    agent_name_in_id: bool = False
    turns: bool = False
    """The process continues from turn to turn, as that of a chatbot does (`AgentPlatform.tell`). Its budget and
    deadline hold for one turn. A failure or an exceeded limit ends the turn, but not the process."""
    version_in_id: bool = False
    test: bool = False
    """Whether this is a test. Only actions use it, as `context.process.options.test`; goalport itself ignores it."""

    def __post_init__(self) -> None:
        if self.planner is not None and not isinstance(self.planner, PlannerType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"Expected planner to be a PlannerType, but got {self.planner!r}. Write {PlannerType.written()}."
            )
        if not isinstance(self.budget, Budget):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Expected budget to be a Budget, but got {self.budget!r}. Write Budget(actions=…).")
        if not (isinstance(self.max_rounds, int) and self.max_rounds > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Expected max_rounds to be a whole number from 1 up, but got {self.max_rounds!r}.")
        for what in ("deadline", "delay", "tool_delay"):
            seconds = getattr(self, what)
            if seconds is not None and not (isinstance(seconds, (int, float)) and 0 <= seconds < math.inf):
                raise TypeError(f"Expected {what} to be a number of seconds from 0 up, but got {seconds!r}.")

    def with_(self, **changes: Any) -> "ProcessOptions":
        """A copy in which these fields have other values: `options.with_(delay=Delay.LONG, prune=True)`.

        To add a listener: `options.with_(listeners=(*options.listeners, mine))`. Raises `TypeError` for a name that is
        no field, and for a value that its field does not take.
        """
        return replace(self, **changes)

    def within(self, *, cost: float = 0, tokens: int = 0, actions: int = 0, seconds: float = 0) -> "ProcessOptions":
        """A copy in which each limit is the smaller of its own value and the argument; 0 means no limit."""
        own = self.budget
        budget = Budget(
            cost=min(own.cost, cost or own.cost),
            tokens=min(own.tokens, tokens or own.tokens),
            actions=min(own.actions, actions or own.actions),
        )
        return replace(self, budget=budget, deadline=min(filter(None, (self.deadline, seconds)), default=self.deadline))

    def overrun(self, process: ProcessView) -> str | None:
        """Why no further action may run, in a sentence; None: one may run."""
        return self.budget.used_up(process.turn_actions) or self.overspent(process)

    def overspent(self, process: ProcessView) -> str | None:
        """Why a running action may send no further request to a model, in a sentence; None: it may."""
        policy, overspent = self.early_termination, self.budget.overspent(process.turn_usage)
        return overspent or (None if policy is None else policy.reason_to_end(process, stuck=False))

    def concurrency(self, process: ProcessView, wanted: Sequence[str]) -> int:
        """How many of the wanted actions may run at once; it is never less than 1."""
        at, known = datetime.now(UTC), {"usage": process.usage, "turn_usage": process.turn_usage}
        for number in range(1, len(wanted)):
            planned = [ActionInvocation(each, at, 0.0, "planned") for each in wanted[:number]]
            counts = {"history": (*process.history, *planned), "turn_actions": process.turn_actions + number}
            if self.overrun(cast("ProcessView", SimpleNamespace(**known, **counts, blackboard=process.blackboard))):
                return number
        return len(wanted)
