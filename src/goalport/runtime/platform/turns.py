"""What happens around the turns of processes that talk to people: the room `chat` fills it in.

Above: `processes`, which calls it for processes with the option `turns`.
"""

from logging import getLogger
from typing import Protocol

from anyio import CancelScope

from goalport.base.errors import GoalportError
from goalport.models.llm import AssistantMessage
from goalport.runtime.process import AgentProcess, Stuck, retried

_log = getLogger(__name__)


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

    async def close(self) -> None:
        """End what is done beside the turns."""
        ...


class Turns:
    """Calls the hooks, and waits for the store as long as it takes."""

    def __init__(self) -> None:
        self.hooks: TurnHooks | None = None
        """What is called; None: nothing happens around turns."""

    async def prepare(self, process: AgentProcess) -> bool:
        """Prepare a process that is going to run. Returns False if it does not: it is stuck, or another program has it.

        Who ends the process or its turn meanwhile need not wait for this: the run ends as soon as it has begun.
        """
        hooks = self.hooks
        try:
            with CancelScope() as process.cancel_scope:
                if hooks is not None and process.end_requested is None:
                    await retried(process, lambda: hooks.before_run(process))
        except Exception as error:
            expected = isinstance(error, GoalportError)
            if not expected:
                _log.exception("The turn of process %s did not begin.", process.id)
            if process.end_requested is None and not process.elsewhere:
                words = error if expected else process.words_for(error)
                process.settle(Stuck(f"It cannot go on. {words}", turn_failed=True))
                return False
        finally:
            process.cancel_scope = None
        if process.elsewhere:
            process.release()
        return not process.elsewhere

    async def keep(self, process: AgentProcess) -> None:
        """Keep what a process has done that rests now."""
        hooks = self.hooks
        try:
            if hooks is not None and not process.elsewhere:
                await retried(process, lambda: hooks.after_run(process))
        except Exception as error:
            unexpected = None if isinstance(error, GoalportError) else error
            _log.warning("What process %s has said was not kept: %s", process.id, error, exc_info=unexpected)

    async def send(self, process: AgentProcess, message_id: str, message: AssistantMessage, /) -> AssistantMessage:
        """Keep a message that an action sends, and return it as it is kept."""
        return message if self.hooks is None else await self.hooks.send(process, message_id, message)

    async def close(self) -> None:
        """End what is done beside the turns."""
        if self.hooks is not None:
            await self.hooks.close()
