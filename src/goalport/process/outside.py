"""Models that are asked outside of actions: the operation of an `Ai` that belongs to the platform and to no process.

Called inside of an action, as by an object that was given the `Ai` in its constructor, it works for that action.
Elsewhere its events go to the platform's listeners, and its cost is noted by `spending_outside`. Above: the platform.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from goalport.ai import NoOperation, Operation, ReplyRecord
from goalport.errors import GoalportError
from goalport.events import Event, EventListener
from goalport.llm import ModelCall, TokenUsage
from goalport.process.agent_process import AgentProcess
from goalport.process.attempt import ActionOperation
from goalport.process.context import ActionContext
from goalport.process.ledger import Spending
from goalport.tools import ContextValue

__all__ = ["CurrentOperation", "spending_outside"]

_noting: ContextVar[tuple[list[Spending], ...]] = ContextVar("goalport_spending", default=())


@contextmanager
def spending_outside() -> Generator[list[Spending]]:
    """A block in which the cost of models that are asked outside of processes is noted in the list that it gives."""
    noted: list[Spending] = []
    with ContextValue(_noting, (*_noting.get(), noted)):
        yield noted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outside(NoOperation):
    """The `Operation` outside of processes."""

    listener: EventListener

    def emit(self, event: Event, /) -> None:
        """Send the event to the platform's listeners."""
        self.listener.on_event(event)

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Note one request to a model in all blocks of `spending_outside`."""
        for each in _noting.get():
            each.append(Spending("", "", model, usage, seconds))


class CurrentOperation:
    """The operation of the running action, looked up at each use; elsewhere one whose events `listener` receives."""

    def __init__(self, listener: EventListener) -> None:
        self._outside = _Outside(listener=listener)

    @property
    def place(self) -> tuple[str, str]:
        """The id of the process and the name of the action; each is empty outside of one."""
        return self._operation.place

    def record(self, model: str, call: ModelCall, /) -> ReplyRecord:
        """The record for a reply, as for an action's own `Ai`."""
        return self._operation.record(model, call)

    def emit(self, event: Event, /) -> None:
        """Emit an event of the process, or of the platform."""
        self._operation.emit(event)

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Add one request of a model to the cost of the process, if there is one."""
        self._operation.spend(model, usage, seconds)

    def decline(self, reason: str, /) -> None:
        """Note why an action of the process may return nothing, if there is a process."""
        self._operation.decline(reason)

    async def before_turn(self, tool: str, /) -> None:
        """Pause or end the action, as for an action's own `Ai`."""
        await self._operation.before_turn(tool)

    @property
    def _operation(self) -> Operation:
        process = AgentProcess.current()
        if process is None:
            return self._outside
        try:
            context = ActionContext.current()
        except GoalportError:
            return ActionOperation(ActionContext(process))
        # A process that was started by an action inherits the context variable of that action.
        return ActionOperation(context if context.process is process else ActionContext(process))
