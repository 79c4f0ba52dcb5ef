"""What the work of a model counts towards: one attempt of an action, or a condition or cost that is asked.

It stands between the model-and-tools loop, which is below and knows no process, and the process: it counts what is
spent, and between two turns it pauses as the run wants and ends an action that must not go on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import anyio

from goalport.ai import ReplyRecord
from goalport.errors import NonRetryable, TerminateAction
from goalport.events import Event, ModelReplied, ModelRetried
from goalport.llm import ModelCall, ModelReply, TokenUsage
from goalport.process.agent_process import AgentProcess
from goalport.process.journal import Journal, Names, print_of_model_call

__all__ = ["ActionOperation", "Attempt"]

_LONGEST_REASON = 300
"""Characters of a model's words that are told to people."""


class Attempt(Protocol):
    """One attempt of an action, as its context shows it."""

    @property
    def process(self) -> AgentProcess:
        """The process that it is part of."""
        ...

    @property
    def action(self) -> str:
        """The name of the action, condition or cost; empty between them."""
        ...

    @property
    def journal(self) -> Journal[AgentProcess]:
        """What the action has done so far."""
        ...

    @property
    def names(self) -> Names:
        """What it does is called by these in the journal."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for it any more."""
        ...


@dataclass(frozen=True, slots=True)
class _Record:
    """The place in a journal for a model's reply: the `Record` of `goalport.ai`."""

    journal: Journal[AgentProcess]
    name: str

    @property
    def reply(self) -> ModelReply | None:
        return self.journal.replies.get(self.name)

    def keep(self, reply: ModelReply, /) -> None:
        self.journal.replies[self.name] = reply


class ActionOperation:
    """An attempt as what a model's work is part of: the `Operation` of `goalport.ai`."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._process = attempt.process

    @property
    def place(self) -> tuple[str, str]:
        """The id of the process and the name of the action."""
        return self._process.id, self._attempt.action

    def record(self, model: str, call: ModelCall, /) -> ReplyRecord:
        """Where the reply to a request is written down, or stands since the action began before."""
        if not self._attempt.journal.again:
            return self._attempt.journal.hear(model, call)
        name = self._attempt.names.next("model", print_of_model_call(model, call))
        return _Record(self._attempt.journal, name)

    def emit(self, event: Event, /) -> None:
        """Tell those who listen to the process, and keep in mind what it waits for."""
        match event:
            case ModelRetried(message=message, action=action):
                self._process.progress.wait_for_provider(action, message)
            case ModelReplied(action=action):
                self._process.progress.wait_for_provider(action, "")
            case _:
                pass
        self._process.emit(event)

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        """Count one request of a model towards the action, its process and those above."""
        self._process.spend(usage, action=self._attempt.action, model=model, seconds=seconds)

    def decline(self, reason: str, /) -> None:
        """Take down why the action may give nothing: it is told when nothing else leads to the goal."""
        self._process.progress.decline(self._attempt.action, " ".join(reason.split())[:_LONGEST_REASON])

    async def before_turn(self, tool: str, /) -> None:
        """Pause before a tool as long as the run wants.

        Raises `TerminateAction` when the process is to end or its budget is spent, and `NonRetryable` when nobody waits
        for this attempt any more, so that it asks no model in vain.
        """
        self._refuse_to_go_on()
        pause = self._process.options.tool_delay if tool else 0.0
        if pause > 0:
            await anyio.sleep(pause)
            self._refuse_to_go_on()

    def _refuse_to_go_on(self) -> None:
        if self._attempt.cancelled:
            raise NonRetryable(f"Process {self._process.id} no longer waits for this: no model and no tool is called.")
        if reason := _end_of(self._process):
            raise TerminateAction(reason)


def _end_of(process: AgentProcess) -> str | None:
    """Why the process must not go on; one of its line that has overspent is ended by this."""
    for each in _line(process):
        if each.end_requested is not None:
            return each.end_requested.reason
        if overspent := each.options.overspent(each):
            each.terminate(overspent)
            return overspent
    return None


def _line(process: AgentProcess) -> Iterator[AgentProcess]:
    """The processes that a process is part of, the outermost first, and itself."""
    if process.parent is not None:
        yield from _line(process.parent)
    yield process
