"""What happens around the turns of processes that talk to people: the room `chat` fills it in.

Above: `processes`, which calls it for processes with the option `turns`.
"""

from typing import Protocol

from goalport.llm import AssistantMessage
from goalport.process import AgentProcess

__all__ = ["NoTurns", "TurnHooks"]


class TurnHooks(Protocol):
    """What is called around the runs of a process that goes on from turn to turn."""

    async def before_run(self, process: AgentProcess, /) -> None:
        """Prepare a process that is going to run."""
        ...

    async def after_run(self, process: AgentProcess, /) -> None:
        """Keep what a process has done that rests now, before it is stored."""
        ...

    async def send(self, process: AgentProcess, message_id: str, message: AssistantMessage, /) -> AssistantMessage:
        """Keep a message that an action sends, and return it as it is kept."""
        ...


class NoTurns:
    """Nothing happens around turns."""

    async def before_run(self, process: AgentProcess, /) -> None:
        """Do nothing."""

    async def after_run(self, process: AgentProcess, /) -> None:
        """Do nothing."""

    async def send(self, process: AgentProcess, message_id: str, message: AssistantMessage, /) -> AssistantMessage:
        """Return the message, which only those hear who listen to the process."""
        return message
