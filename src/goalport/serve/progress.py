"""How far a process is, as numbers that only grow and words that a person reads over a model's shoulder.

Pure: events in, steps out. `watching` sends the steps.
"""

from dataclasses import dataclass

from goalport.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    Event,
    ModelCalled,
    ProgressUpdated,
    ToolCalled,
)

__all__ = ["Meter", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One progress notification."""

    progress: float
    total: float | None
    message: str


class Meter:
    """Counts the actions of one process. Between two actions it creeps towards the next number without reaching it."""

    def __init__(self) -> None:
        self._done = 0
        self._between = 0
        self._planned: int | None = None
        self._doing = ""

    def after(self, event: Event) -> Step | None:
        """What an event says of the progress; None when it says nothing."""
        match event:
            case ActionStarted(action=action, planned=planned):
                self._doing, self._planned = _short(action), planned
                return None
            case ActionFinished(action=action, number=number, planned=planned, status=status):
                self._done, self._between, self._planned = number, 0, planned
                how = "" if status == "succeeded" else f" {status}"
                return Step(number, planned, f"{number}/{planned} {_short(action)}{how}")
            case ActionRetried(action=action, attempt=attempt, delay_seconds=delay):
                return self._creep(f"{_short(action)} failed at attempt {attempt}, trying again in {delay:g} s")
            case ModelCalled(model=model, turn=1, action=action):
                return self._creep(f"{_short(action)} asks {model}")
            case ToolCalled(tool=tool, action=action):
                return self._creep(f"{_short(action)} calls {tool}")
            case ProgressUpdated(message=message):
                return self._creep(message)
            case _:
                return None

    def beat(self, seconds: float) -> Step:
        """A sign of life after so many seconds of work."""
        doing = f"still at {self._doing}" if self._doing else "still planning"
        return self._creep(f"{doing} after {seconds:.0f} s")

    def _creep(self, message: str) -> Step:
        self._between += 1
        return Step(self._done + self._between / (self._between + 1), self._planned, message)


def _short(action: str) -> str:
    return action.rpartition(".")[2]
