"""The status and the outcome of a process: a closed set of statuses, and a closed union of outcomes.

Code that describes an outcome to a person or a model uses `match` over `Outcome`.
"""

from dataclasses import dataclass
from enum import StrEnum

from goalport.process.questions import Question

__all__ = ["Completed", "Failed", "Killed", "Outcome", "ProcessStatus", "Stuck", "Terminated", "Waiting"]


class ProcessStatus(StrEnum):
    """The status of a process (user guide, section 3.2.1)."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TERMINATED = "terminated"
    KILLED = "killed"
    STUCK = "stuck"
    WAITING = "waiting"
    """The process waits for answers of people."""
    PAUSED = "paused"
    """The process continues by itself when its delay or schedule allows it."""

    @property
    def ended(self) -> bool:
        """Whether nothing more happens unless somebody acts from outside."""
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
    """The return value of the goal's action."""
    status = ProcessStatus.COMPLETED
    reason = "The goal was reached."


@dataclass(frozen=True, slots=True)
class Stuck:
    """No action can bring the goal nearer in the current state."""

    reason: str
    input_may_help: bool = True
    """Whether other input may lead to the goal; False when only tool groups are missing."""
    status = ProcessStatus.STUCK


@dataclass(frozen=True, slots=True)
class Failed:
    """Actions failed, or the input was invalid, and no other way to the goal is left."""

    reason: str
    tried: tuple[str, ...] = ()
    """One sentence for each action that failed."""
    caller_mistake: bool = False
    """Whether the caller can avoid the failure by other input."""
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
    """People have to answer before the process can continue. This is not final, but nothing else can be done now."""

    questions: tuple[Question, ...]
    status = ProcessStatus.WAITING

    @property
    def reason(self) -> str:
        """The questions, as one text."""
        return f"It waits for an answer: {' '.join(each.message for each in self.questions)}"


Outcome = Completed | Waiting | Stuck | Failed | Terminated | Killed
