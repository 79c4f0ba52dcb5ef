"""Events: frozen records of what happens while agents are deployed and processes run; and the protocol of listeners.

Listeners cannot influence the process. They are called on the event loop, in the order of the events, and must not
block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, Literal, Protocol, cast, get_args

__all__ = [
    "ActionFinished",
    "ActionRetried",
    "ActionStarted",
    "ActionStatus",
    "AgentDeployed",
    "AgentUndeployed",
    "ConversationCompacted",
    "Event",
    "EventListener",
    "GoalAchieved",
    "GuardTripped",
    "MessageDelta",
    "MessageSent",
    "ModelCalled",
    "ModelReplied",
    "ModelRetried",
    "ObjectBound",
    "PlanFormulated",
    "PlanRejected",
    "ProcessCreated",
    "ProcessFinished",
    "ProcessNotStored",
    "ProcessPaused",
    "ProgressUpdated",
    "QuestionAsked",
    "QuestionSettled",
    "SourcesShown",
    "StateEntered",
    "StuckHandled",
    "ToolCalled",
    "ToolReturned",
    "as_json",
    "from_json",
]


ActionStatus = Literal["succeeded", "declined", "failed", "replanned", "terminated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    process_id: str = ""
    """The id of the process that the event is about; empty for an event of the platform."""
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
    """The id of the caller on whose behalf the process runs."""


@dataclass(frozen=True, slots=True)
class PlanFormulated(_Record):
    """The current plan to reach the goal; the process plans again after each action."""

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
    """The total number of actions of the process, if the plan does not change."""


@dataclass(frozen=True, slots=True)
class ActionRetried(_Record):
    """An attempt failed and the action will be tried again."""

    action: str
    attempt: int
    delay_seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class ActionFinished(_Record):
    """An action ended. `declined`: it returned None; `replanned`: `ReplanRequested`; `terminated`: another `Signal`."""

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
    """An action returned a state, which the process has entered."""

    state: str
    left: tuple[str, ...]
    """The states that the process has left, which are hidden on the blackboard from now on."""


@dataclass(frozen=True, slots=True)
class ProgressUpdated(_Record):
    """An action reports its progress, in words."""

    message: str


@dataclass(frozen=True, slots=True)
class ModelRetried(ProgressUpdated):
    """A provider did not answer and will be asked again after a wait; the words say which model, how often and why."""

    action: str = ""


@dataclass(frozen=True, slots=True)
class GoalAchieved(_Record):
    """The goal is achieved."""

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
    """The process pauses before its next action, because of its delay or its schedule."""

    seconds: float


@dataclass(frozen=True, slots=True)
class StuckHandled(_Record):
    """A stuck handler was called."""

    handler: str
    code: str
    """replan, or no_resolution."""
    message: str


@dataclass(frozen=True, slots=True)
class ModelCalled(_Record):
    """A model is about to be asked."""

    interaction: str
    """The id of the prompt: set by `with_id`, else made from the names of the action and the output type."""
    model: str
    prompt: str
    """The content of the request: system prompt, tools, schema of the answer and conversation.

    Parts that an earlier request of this interaction in the process contained are only mentioned."""
    turn: int
    """The number of the request in its interaction, from 1: each round of tool calls or repair adds one."""
    action: str = ""


@dataclass(frozen=True, slots=True)
class ModelReplied(_Record):
    """A model has answered, or has failed to."""

    interaction: str
    model: str
    reply: str
    """The text, or the JSON of the object; empty if the model called tools."""
    tool_calls: tuple[str, ...]
    """The names of the tools that the model wants to call."""
    input_tokens: int
    output_tokens: int
    cost: float
    """In US dollars; 0 when the price is not known."""
    seconds: float
    action: str = ""
    error: str | None = None
    finish: str = ""
    """Why the model stopped: stop, length (cut off), tool_call, refusal, error or unknown; empty: the call failed."""


@dataclass(frozen=True, slots=True)
class ToolCalled(_Record):
    """A tool is about to be called for a model."""

    tool: str
    arguments: str
    """The JSON text that the model wrote."""
    action: str = ""
    call_id: str = ""
    """The model's id of the call, which `ToolReturned` has too."""


@dataclass(frozen=True, slots=True)
class ToolReturned(_Record):
    """A tool that was called for a model has returned."""

    tool: str
    seconds: float
    is_error: bool
    result: str
    """The text, cut when it is long."""
    action: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class SourcesShown(_Record):
    """A model was shown passages of documents, against which its answer can be checked."""

    reference: str
    """The name of the reference that has the documents."""
    tool: str
    query: str
    """The text of the search, or the id of the passage that was read."""
    sources: tuple[Mapping[str, Any], ...]
    """For each passage its `id`, its document's `uri`, its `path` of titles, and its position: `start` and `end`.

    If documents are published, also `resource`, the URI at which clients can read its section.
    """
    action: str = ""


@dataclass(frozen=True, slots=True)
class GuardTripped(_Record):
    """A guard objects to what a user or a model said."""

    guard: str
    severity: str
    """info, warning, error or critical."""
    reason: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class MessageDelta(_Record):
    """A piece of a message while a model writes it. Current listeners get it, but it is stored nowhere."""

    message_id: str
    text: str
    thinking: bool = False
    """Whether the piece belongs to the model's reasoning, and not to the message."""
    action: str = ""


@dataclass(frozen=True, slots=True)
class MessageSent(_Record):
    """An action has sent a message to the person in the conversation; `text` is all of it."""

    message_id: str
    """The same in all pieces of the message, also if the action is run again and sends it again."""
    text: str
    role: str = "assistant"
    conversation_id: str = ""
    action: str = ""


@dataclass(frozen=True, slots=True)
class ConversationCompacted(_Record):
    """The conversation was shortened for the model."""

    conversation_id: str
    what: str
    """`tool results`: old results were removed; or `summary`: a summary replaces old messages."""
    messages: int
    """The number of messages that were changed or summarized."""
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class ProcessNotStored(_Record):
    """The process could not be stored. It goes on, but ends with the program unless a later attempt succeeds."""

    reason: str


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
    | SourcesShown
    | GuardTripped
    | MessageDelta
    | MessageSent
    | ConversationCompacted
    | ProcessNotStored
    | ProcessFinished
)


_KINDS: Final[Mapping[str, type[Event]]] = {each.__name__: each for each in (*get_args(Event), ModelRetried)}


@cache
def _fields(kind: type[Event]) -> Sequence[str]:
    return tuple(each.name for each in fields(kind))


def as_json(event: Event) -> dict[str, Any]:
    """An event as a JSON object: its kind under `event`, its time in ISO 8601, and its fields."""
    kind = type(event)
    told = {name: getattr(event, name) for name in _fields(kind)}
    return {"event": kind.__name__, **told, "at": event.at.isoformat()}


def from_json(data: Mapping[str, Any]) -> Event | None:
    """The event of a JSON object of `as_json`; None if its kind or fields are unknown, as from another version."""
    kind = _KINDS.get(data["event"])
    if kind is None:
        return None
    given: dict[str, Any] = {name: data[name] for name in _fields(kind) if name in data}
    # JSON has lists where events have tuples.
    told: dict[str, Any] = {
        name: tuple(cast("list[object]", each)) if isinstance(each, list) else each for name, each in given.items()
    }
    told["at"] = datetime.fromisoformat(data["at"])
    try:
        return kind(**told)
    except TypeError:
        return None


class EventListener(Protocol):
    """The protocol of listeners. An exception that a listener raises is logged and does not affect the process."""

    def on_event(self, event: Event, /) -> None:
        """Handle one event. It is called on the event loop, so it must return quickly."""
        ...
