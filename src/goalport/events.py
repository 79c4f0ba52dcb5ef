"""What happens while agents are deployed and processes run, as frozen records, and who may listen.

Events tell; they never ask. A listener is called in the order of the events, on the event loop, and must not block.
Floor 0.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Protocol

__all__ = [
    "ActionFinished",
    "ActionRetried",
    "ActionStarted",
    "ActionStatus",
    "AgentDeployed",
    "AgentUndeployed",
    "Event",
    "EventListener",
    "GoalAchieved",
    "GuardTripped",
    "ModelCalled",
    "ModelReplied",
    "ModelRetried",
    "ObjectBound",
    "PlanFormulated",
    "PlanRejected",
    "ProcessCreated",
    "ProcessFinished",
    "ProcessPaused",
    "ProgressUpdated",
    "QuestionAsked",
    "QuestionSettled",
    "StateEntered",
    "StuckHandled",
    "ToolCalled",
    "ToolReturned",
]


ActionStatus = Literal["succeeded", "declined", "failed", "replanned", "terminated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    process_id: str = ""
    """The process it happened in; empty for what concerns the platform."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class AgentDeployed(_Record):
    """An agent or component joined the platform."""

    agent: str


@dataclass(frozen=True, slots=True)
class AgentUndeployed(_Record):
    """An agent or component left the platform; its running processes go on."""

    agent: str


@dataclass(frozen=True, slots=True)
class ProcessCreated(_Record):
    """A process exists and has not started yet."""

    agent: str
    caller: str
    """The id of whoever it runs for."""


@dataclass(frozen=True, slots=True)
class PlanFormulated(_Record):
    """The way to the goal, as seen now; formulated anew after each action."""

    goal: str
    steps: tuple[str, ...]
    """The names of the actions still to run, in order."""


@dataclass(frozen=True, slots=True)
class PlanRejected(_Record):
    """An action, or a tool that it called, asked for another plan."""

    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class ActionStarted(_Record):
    """An action is about to run."""

    action: str
    number: int
    """1 for the first action of the process."""
    planned: int
    """How many actions the process will have run if the plan holds."""


@dataclass(frozen=True, slots=True)
class ActionRetried(_Record):
    """An attempt failed and the action will be tried again."""

    action: str
    attempt: int
    delay_seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class ActionFinished(_Record):
    """An action ended. `declined`: it answered None; `replanned`: it wants another plan; `terminated`: it gave up."""

    action: str
    number: int
    planned: int
    status: ActionStatus
    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectBound(_Record):
    """An object was put on the blackboard."""

    name: str
    type_name: str


@dataclass(frozen=True, slots=True)
class StateEntered(_Record):
    """An action led to another state."""

    state: str
    left: tuple[str, ...]
    """The states that are hidden from now on."""


@dataclass(frozen=True, slots=True)
class ProgressUpdated(_Record):
    """An action tells how far it is, in words."""

    message: str


@dataclass(frozen=True, slots=True)
class ModelRetried(ProgressUpdated):
    """A provider did not answer, and will be asked again after a wait; the words say which model, how often and why."""

    action: str = ""


@dataclass(frozen=True, slots=True)
class GoalAchieved(_Record):
    """The goal holds."""

    goal: str


@dataclass(frozen=True, slots=True)
class QuestionAsked(_Record):
    """An action waits for a person."""

    question_id: str
    action: str
    message: str


@dataclass(frozen=True, slots=True)
class QuestionSettled(_Record):
    """A question was answered or declined, or has expired."""

    question_id: str
    status: str


@dataclass(frozen=True, slots=True)
class ProcessPaused(_Record):
    """The delay or the schedule of the run wants a pause before the next action."""

    seconds: float


@dataclass(frozen=True, slots=True)
class StuckHandled(_Record):
    """A stuck handler was asked."""

    handler: str
    code: str
    """replan, or no_resolution."""
    message: str


@dataclass(frozen=True, slots=True)
class ModelCalled(_Record):
    """A model is about to be asked."""

    interaction: str
    """What names the prompt, among all prompts: given by `with_id`, else made of the action and the output type."""
    model: str
    prompt: str
    """The last message that the program wrote."""
    turn: int
    """1 for the first request of an interaction; one more after each round of tools or repair."""
    action: str = ""


@dataclass(frozen=True, slots=True)
class ModelReplied(_Record):
    """A model has answered, or has failed to."""

    interaction: str
    model: str
    reply: str
    """The text, or the JSON of the object; empty when it called tools."""
    tool_calls: tuple[str, ...]
    """The names of the tools that it wants called."""
    input_tokens: int
    output_tokens: int
    cost: float
    """In US dollars; 0 when the price is not known."""
    seconds: float
    action: str = ""
    error: str | None = None
    finish: str = ""
    """Why it stopped: stop, length (it was cut off), tool_call, refusal, error or unknown; empty: it has failed."""


@dataclass(frozen=True, slots=True)
class ToolCalled(_Record):
    """A tool is about to be called for a model."""

    tool: str
    arguments: str
    """The JSON text that the model wrote."""
    action: str = ""


@dataclass(frozen=True, slots=True)
class ToolReturned(_Record):
    """A tool that was called for a model has given its result."""

    tool: str
    seconds: float
    is_error: bool
    result: str
    """The text, cut when it is long."""
    action: str = ""


@dataclass(frozen=True, slots=True)
class GuardTripped(_Record):
    """A guard has something against what a user or a model said."""

    guard: str
    severity: str
    """info, warning, error or critical."""
    reason: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class ProcessFinished(_Record):
    """The process came to an end or cannot go on by itself."""

    status: str
    reason: str


Event = (
    AgentDeployed
    | AgentUndeployed
    | ProcessCreated
    | PlanFormulated
    | PlanRejected
    | ActionStarted
    | ActionRetried
    | ActionFinished
    | ObjectBound
    | StateEntered
    | ProgressUpdated
    | GoalAchieved
    | QuestionAsked
    | QuestionSettled
    | ProcessPaused
    | StuckHandled
    | ModelCalled
    | ModelReplied
    | ToolCalled
    | ToolReturned
    | GuardTripped
    | ProcessFinished
)


class EventListener(Protocol):
    """Whoever wants to know. An exception from a listener is logged and harms no process."""

    def on_event(self, event: Event, /) -> None:
        """Take note of one event; called on the event loop, so it must return quickly."""
        ...
