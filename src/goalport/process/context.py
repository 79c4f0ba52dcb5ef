"""What an action may ask for beside its inputs: its process, the blackboard, its tools, and a way to tell progress.

A context belongs to one attempt of one action. Once the attempt has been abandoned it refuses to touch the process.
"""

from collections.abc import Iterable
from typing import TypeVar

from goalport.blackboard import DEFAULT_BINDING, Blackboard
from goalport.caller import Caller
from goalport.errors import NonRetryable, UnknownName
from goalport.events import ProgressUpdated
from goalport.process.agent_process import AgentProcess
from goalport.process.options import Usage
from goalport.tools import Tool

__all__ = ["ActionContext", "OperationContext"]

T = TypeVar("T")


class OperationContext:
    """What an action or a condition sees of the run around it (user guide, section 3.6.4)."""

    def __init__(self, process: AgentProcess, tools: Iterable[Tool] = ()) -> None:
        self.process = process
        self.tools = tuple(tools)
        """The tools of the groups that the action names."""
        self._abandoned = False

    @property
    def blackboard(self) -> Blackboard:
        """What the process knows so far."""
        return self.process.blackboard

    @property
    def caller(self) -> Caller:
        """On whose behalf the process runs."""
        return self.process.caller

    @property
    def cancelled(self) -> bool:
        """Whether the result will be thrown away, so that a long `def` action can stop early."""
        return self._abandoned or self.process.outcome is not None

    def add(self, value: object) -> None:
        """Put an object on the blackboard."""
        self.bind(DEFAULT_BINDING, value)

    def bind(self, name: str, value: object) -> None:
        """Put an object on the blackboard under a name."""
        self._refuse_when_abandoned()
        self.blackboard.bind(name, value)

    def __setitem__(self, name: str, value: object) -> None:
        self.bind(name, value)

    def last(self, kind: type[T]) -> T | None:
        """The newest object of a type on the blackboard, or None."""
        return self.blackboard.last(kind)

    def tool(self, name: str) -> Tool:
        """One of the action's tools. Raises `UnknownName`."""
        found = next((each for each in self.tools if each.name == name), None)
        if found is None:
            raise UnknownName("tool", name, [each.name for each in self.tools])
        return found

    def progress(self, message: str) -> None:
        """Tell whoever watches how far the work is."""
        self._refuse_when_abandoned()
        self.process.emit(ProgressUpdated(str(message), process_id=self.process.id))

    def spend(self, *, cost: float = 0.0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Count a model's cost (in US dollars) and tokens towards the process's budget."""
        self.process.spend(Usage(cost=cost, input_tokens=input_tokens, output_tokens=output_tokens))

    def abandon(self) -> None:
        """Nobody waits for this attempt any more."""
        self._abandoned = True

    def _refuse_when_abandoned(self) -> None:
        if self.cancelled:
            raise NonRetryable(
                f"Process {self.process.id} no longer waits for this action. Stop when context.cancelled is true."
            )


class ActionContext(OperationContext):
    """The context of an action."""

    @property
    def key(self) -> str:
        """The same for each attempt of this action in this process: what makes an outside effect happen once."""
        return f"{self.process.id}:{len(self.process.history)}"
