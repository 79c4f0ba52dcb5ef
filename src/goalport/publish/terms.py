"""The terms on which a goal runs for its callers: how its output is written, how long a request waits, who may leave.

Made from the goals alone, so that a process can be followed on the same terms by whoever comes later with its handle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from goalport.domain import Goal
from goalport.process import AgentProcess
from goalport.publish.names import published_name
from goalport.publish.output import Output

__all__ = ["Terms"]

_SILENT: Final = 45.0
"""Seconds that hosts wait for an answer when they hear nothing meanwhile: most give up after 60."""
_WATCHED: Final = 240.0
"""Seconds when they hear of progress: some give up after five minutes all the same."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What whoever called a goal may expect."""

    name: str
    """What the caller called."""
    output: Output
    detached: bool
    """Whether the process outlives the request that waits for it."""
    hands_over: bool
    """Whether a handle may come in place of the result."""
    wait_budget: float | None = None

    @classmethod
    def of(cls, name: str, goals: Sequence[Goal], *, may_wait: bool, asks_models: bool = False) -> "Terms":
        """The terms of goals that are one tool. What asks models is long where nothing else is said."""
        exports = [goal.export for goal in goals]
        return cls(
            name,
            Output.of(goals[0].output),
            any(each.on_disconnect == "detach" for each in exports),
            may_wait or any(asks_models if each.long is None else each.long for each in exports),
            next((each.wait_budget for each in exports if each.wait_budget is not None), None),
        )

    @classmethod
    def of_process(cls, process: AgentProcess) -> "Terms":
        """The terms of a process that somebody has the handle of."""
        goals = [process.scope.goals[name] for name in process.goals]
        return cls.of(published_name(process.agent, goals[0]), goals, may_wait=True)

    def seconds(self, *, watched: bool) -> float | None:
        """How long a request waits before it answers with the handle; None: for as long as it takes."""
        if not self.hands_over:
            return None
        return self.wait_budget or (_WATCHED if watched else _SILENT)
