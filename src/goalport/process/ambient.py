"""The `Operation` of an `Ai` that no action was given: it belongs to whatever action runs where it is used.

So that an `Ai` that a class got in its constructor counts towards the process as that of a parameter does. Outside of a
process there is nothing to count towards.
"""

from goalport.ai import NoOperation, Operation, ReplyRecord
from goalport.errors import GoalportError
from goalport.events import Event
from goalport.llm import ModelCall, TokenUsage
from goalport.process.agent_process import AgentProcess
from goalport.process.context import ActionContext
from goalport.process.operation import ActionOperation

__all__ = ["CurrentOperation"]

_OUTSIDE = NoOperation()


class CurrentOperation:
    """The operation of the action that runs here, looked up anew at each use."""

    @property
    def place(self) -> tuple[str, str]:
        """The id of the process and the name of the action; both empty outside of one."""
        return _here().place

    def record(self, model: str, call: ModelCall, /) -> ReplyRecord:
        """As an action's own `Ai` does."""
        return _here().record(model, call)

    def emit(self, event: Event, /) -> None:
        """Tell those who listen to the process, if there is one."""
        _here().emit(event)

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Count one request of a model towards the process, if there is one."""
        _here().spend(model, usage, seconds)

    def decline(self, reason: str, /) -> None:
        """Take down why an action of the process may give nothing, if there is one."""
        _here().decline(reason)

    async def before_turn(self, tool: str, /) -> None:
        """As an action's own `Ai` does."""
        await _here().before_turn(tool)


def _here() -> Operation:
    process = AgentProcess.current()
    if process is None:
        return _OUTSIDE
    try:
        context = ActionContext.current()
    except GoalportError:
        return ActionOperation(ActionContext(process))
    # A process that an action has started begins in the context of that action.
    return ActionOperation(context if context.process is process else ActionContext(process))
