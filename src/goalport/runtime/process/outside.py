"""Models that are asked and tools that are called outside of actions: by the `Ai` of the platform, and for clients.

The platform's `Ai`, called inside of an action, as by an object that was given it in its constructor, works for that
action. Elsewhere events go to the platform's listeners, and costs are noted by `spending_outside`. Above: the platform,
and `publish`, which calls exported tools.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from goalport.base.caller import Caller
from goalport.base.errors import GoalportError
from goalport.base.events import Event, EventListener, SourcesShown
from goalport.models.llm import ModelCall, TokenUsage
from goalport.runtime.ai import NoOperation, Operation, ReplyRecord, SentPrompts
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.attempt import ActionOperation
from goalport.runtime.process.context import ActionContext
from goalport.runtime.process.ledger import Spending
from goalport.tools import ContextValue, Tool, ToolResult

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
        _note(model, usage, seconds)


@dataclass(frozen=True, slots=True)
class DirectCalls:
    """Where a client calls tools by themselves, without a process: the `CallSite` of `goalport.tools`.

    Nobody can be asked for approval there, and nothing is recorded.
    """

    caller: Caller
    """The caller of the request."""
    listener: EventListener
    """Receives the events, which name no process."""

    def remembers(self, _tool: Tool, _arguments: Mapping[str, object], /) -> bool:
        return False

    async def call(self, tool: Tool, arguments: Mapping[str, object], /) -> ToolResult:
        """Return the result of the call; that of a tool whose calls a person has to approve is an error."""
        return await tool.run_unattended(arguments)

    async def call_once(self, tool: Tool, /) -> ToolResult:
        """Return the result of calling a tool without arguments."""
        return await tool.run_unattended({})

    def emit(self, event: SourcesShown, /) -> None:
        """Send an event to the listener."""
        self.listener.on_event(event)

    def before_request(self) -> None:
        """Refuse nothing: there is no budget."""

    def spend(self, model: str, tokens: int, cost: float, seconds: float, /) -> None:
        """Note one request that a tool made to a model in all blocks of `spending_outside`."""
        _note(model, TokenUsage(input_tokens=tokens, cost=cost), seconds)


def _note(model: str, usage: TokenUsage, seconds: float) -> None:
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

    def note_missing(self, role: str, why: str, /) -> None:
        """Note what is missing of a tool group, for the action if there is one."""
        self._operation.note_missing(role, why)

    @property
    def prompts(self) -> SentPrompts:
        """What models were sent so far for the process, if there is one."""
        return self._operation.prompts

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
