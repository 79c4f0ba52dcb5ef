"""How a process stands and how it ends: a closed set of statuses, and a closed union of ends.

Whoever words an end for a person or a model does it by `match` over `Outcome`.
"""

from dataclasses import dataclass
from enum import StrEnum

from goalport.process.questions import Question

__all__ = ["Completed", "Failed", "Killed", "Outcome", "ProcessStatus", "Stuck", "Terminated", "Waiting"]


class ProcessStatus(StrEnum):
    """Where a process is in its life (user guide, section 3.2.1)."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TERMINATED = "terminated"
    KILLED = "killed"
    STUCK = "stuck"
    WAITING = "waiting"
    """People have to answer."""
    PAUSED = "paused"
    """It goes on by itself when its delay or schedule allows."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self in _ENDED


_ENDED = frozenset(
    {
        ProcessStatus.COMPLETED,
        ProcessStatus.FAILED,
        ProcessStatus.TERMINATED,
        ProcessStatus.KILLED,
        ProcessStatus.STUCK,
    }
)


@dataclass(frozen=True, slots=True)
class Completed:
    """The goal was reached."""

    value: object
    """What the goal's action returned."""
    status = ProcessStatus.COMPLETED
    reason = "The goal was reached."


@dataclass(frozen=True, slots=True)
class Stuck:
    """No action can bring the goal nearer as things stand."""

    reason: str
    input_may_help: bool = True
    """Whether other input may lead to the goal; not when only tool groups are missing."""
    status = ProcessStatus.STUCK


@dataclass(frozen=True, slots=True)
class Failed:
    """Actions failed, or the input was wrong, and no other way is left."""

    reason: str
    tried: tuple[str, ...] = ()
    """One sentence for each action that failed."""
    caller_mistake: bool = False
    """Whether the caller can mend it by asking differently."""
    status = ProcessStatus.FAILED


@dataclass(frozen=True, slots=True)
class Terminated:
    """A budget, a deadline or the program ended the process early."""

    reason: str
    status = ProcessStatus.TERMINATED


@dataclass(frozen=True, slots=True)
class Killed:
    """Somebody ended the process from outside."""

    reason: str
    status = ProcessStatus.KILLED


@dataclass(frozen=True, slots=True)
class Waiting:
    """People have to answer before anything can go on; not an end, but all that can be had now."""

    questions: tuple[Question, ...]
    status = ProcessStatus.WAITING

    @property
    def reason(self) -> str:
        """The questions in words."""
        return f"It waits for an answer: {' '.join(each.message for each in self.questions)}"


Outcome = Completed | Waiting | Stuck | Failed | Terminated | Killed
