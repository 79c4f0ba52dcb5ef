"""What a process is lent by the platform: threads, tools, models, and the store."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from anyio import CapacityLimiter

from goalport.agents.domain import RetryPolicy
from goalport.base.observe import RareLog
from goalport.models.llm import AssistantMessage
from goalport.runtime.ai import Engine, Operation
from goalport.runtime.process.ledger import Spending
from goalport.tools import ToolGroupResolver

P = TypeVar("P")


async def sent_to_nobody(_process: object, _message_id: str, message: AssistantMessage) -> AssistantMessage:
    """The message itself: nothing keeps it."""
    return message


class PlatformServices(NamedTuple, Generic[P]):
    """The services of the platform that a process, a `P`, uses."""

    limiter: CapacityLimiter
    """How many `def` functions may run in worker threads at once."""
    groups: ToolGroupResolver
    service: Callable[[type], object | None]
    """The platform's service of a type, or None."""
    start_child: Callable[[P, str, object, type, Sequence[object]], P]
    """Starts a process for an action. Takes the parent process, the action's name, the agent, the result's type and the
    input objects."""
    engine: Callable[[Operation, ToolGroupResolver], Engine]
    """Returns what carries out an action's requests of models. Takes the operation and a resolver of tool groups."""
    ended_idle: Callable[[P], None]
    """Called with a process that was ended while nothing ran in it."""
    resume: Callable[..., None]
    """Continues a process that waits or is stuck. Takes the process, and objects for its blackboard."""
    step: Callable[[P], Awaitable[object]]
    """Runs one step of a process that is not running."""
    checkpoint: Callable[[P], Awaitable[None]]
    """Stores a process between two of its actions."""
    store_steps: Callable[[P], Awaitable[None]]
    """Stores what the running actions of a process have done so far."""
    retry: RetryPolicy
    """How often an action that fails is tried again, unless the action says otherwise."""
    tells_errors: bool
    """Whether the message of an unexpected exception is shown to callers, and not only written to the log."""
    keep_journals: bool
    """Whether the history keeps what models replied and tools returned."""
    spent: Callable[[Spending], None]
    """Called with each request of a model that a process has paid for, from any thread."""
    rare_log: RareLog
    """Logs which actions block the event loop, each once in a minute."""
    send_message: Callable[[P, str, AssistantMessage], Awaitable[AssistantMessage]] = sent_to_nobody
    """Keeps a message that an action sends, before its event is told. Takes the process, the message's id and the
    message, and returns the message as it is kept; one of the same id takes the place of the earlier one."""
    max_object_bytes: int = 64 * 1024 * 1024
    """About how much memory the result of an action may take."""
    unfollowed: Callable[[P], None] = lambda _: None
    """Called with a process whose last follower has left."""
    prepare: "Callable[[Sequence[type], object], Awaitable[None]] | None" = None
    """Enters the services of these types, and makes what an agent waits for; None: there is nothing of the kind."""
