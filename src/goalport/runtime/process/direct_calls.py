"""Models that are asked, and tools that are called, outside of actions.

The platform's `Ai`, called inside of an action, works for that action; elsewhere events go to the platform's listeners,
and costs are noted by `spending_outside`. Below: `context`.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

from goalport.base.caller import Caller
from goalport.base.events import Event, EventListener, SourcesShown
from goalport.models.llm import TokenUsage
from goalport.runtime.ai import Operation
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.context import CONTEXT, ActionContext, ActionOperation
from goalport.runtime.process.ledger import Spending
from goalport.tools import ContextValues, Tool, ToolResult

_noting: ContextVar[tuple[list[Spending], ...]] = ContextVar("goalport_spending", default=())


@contextmanager
def spending_outside() -> Generator[list[Spending]]:
    """A block in which the cost of models that are asked outside of processes is noted in the list that it gives."""
    noted: list[Spending] = []
    with ContextValues((_noting, (*_noting.get(), noted))):
        yield noted


def _note(model: str, usage: TokenUsage, seconds: float) -> None:
    for each in _noting.get():
        each.append(Spending("", "", model, usage, seconds))


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
        return await tool.run_unattended({})

    def emit(self, event: SourcesShown, /) -> None:
        self.listener.on_event(event)

    def before_request(self) -> None:
        """Refuse nothing: there is no budget."""

    def spend(self, model: str, tokens: int, cost: float, seconds: float, /) -> None:
        """Note one request that a tool made to a model in all blocks of `spending_outside`."""
        _note(model, TokenUsage(input_tokens=tokens, cost=cost), seconds)


class _DirectRequests(Operation):
    """The `Operation` outside of processes."""

    def __init__(self, listener: EventListener) -> None:
        self._listener = listener

    def emit(self, event: Event, /) -> None:
        self._listener.on_event(event)

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        _note(model, usage, seconds)


class _Current:
    def __init__(self, listener: EventListener) -> None:
        self._outside = _DirectRequests(listener)

    def __getattr__(self, name: str) -> object:
        process = AgentProcess.current()
        if process is None:
            return getattr(self._outside, name)
        context = CONTEXT.get()
        if context is None or context.process is not process:  # it may be that of the action that started the process
            context = ActionContext(process)
        return getattr(ActionOperation(context), name)


def current_operation(listener: EventListener) -> Operation:
    """The operation of the running action, looked up at each use; elsewhere one whose events `listener` receives."""
    return cast("Operation", _Current(listener))
