"""Requests to models, and tool calls, outside of actions.

Inside an action, the platform's `Ai` works for that action. Elsewhere its events go to the platform's listeners, and
its costs are recorded by `spending_outside`. Below: `context`.
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
    """A block that records the cost of model requests outside of processes in the list that it returns."""
    noted: list[Spending] = []
    with ContextValues((_noting, (*_noting.get(), noted))):
        yield noted


def _note(model: str, usage: TokenUsage, seconds: float) -> None:
    for each in _noting.get():
        each.append(Spending("", "", model, usage, seconds))


@dataclass(frozen=True, slots=True)
class DirectCalls:
    """The `CallSite` of `goalport.tools` for a client that calls a tool directly, without a process.

    Nobody can be asked for approval there, and nothing is recorded.
    """

    caller: Caller
    """The caller of the request."""
    listener: EventListener
    """Receives the events; they have no process id."""

    def has_result(self, _tool: Tool, _arguments: Mapping[str, object], /) -> bool:
        return False

    async def call(self, tool: Tool, arguments: Mapping[str, object], /) -> ToolResult:
        """Return the result of the call; for a tool whose calls need a person's approval, an error."""
        return await tool.run_unattended(arguments)

    async def call_once(self, tool: Tool, /) -> ToolResult:
        return await tool.run_unattended({})

    def emit(self, event: SourcesShown, /) -> None:
        self.listener.on_event(event)

    def before_request(self) -> None:
        """Refuse nothing: there is no budget."""

    def spend(self, model: str, tokens: int, cost: float, seconds: float, /) -> None:
        """Record the cost of a tool's request to a model in all active `spending_outside` blocks."""
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
        if context is None or context.process is not process:  # then it belongs to the action that started the process
            context = ActionContext(process)
        return getattr(ActionOperation(context), name)


def current_operation(listener: EventListener) -> Operation:
    """The operation of the running action, looked up at each use; elsewhere one that sends events to `listener`."""
    return cast("Operation", _Current(listener))
