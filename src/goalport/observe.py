"""Log lines about what happens, one for each event worth reading.

A listener like any other: it formats and hands on to `logging`, and decides nothing. Floor 1.
"""

import logging

from goalport.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    Event,
    PlanFormulated,
    ProcessCreated,
    ProcessFinished,
    ProgressUpdated,
)

__all__ = ["LogListener", "in_words"]

_log = logging.getLogger("goalport.process")
_ENDED_WELL = "completed"


class LogListener:
    """Writes the life of processes to the log `goalport.process`: ends and failures at INFO, the rest at DEBUG."""

    def on_event(self, event: Event, /) -> None:
        """Log one event, if it has words."""
        words = in_words(event)
        if words:
            _log.log(_level(event), "%s: %s", event.process_id, words)


def in_words(event: Event) -> str | None:
    """An event as one line without its process; None for those that only programs care about."""
    match event:
        case ProcessCreated(agent=agent, caller=caller):
            return f"{agent} begins for {caller}"
        case PlanFormulated(goal=goal, steps=steps):
            return f"plan for {goal}: {' → '.join(steps)}"
        case ActionStarted(action=action, number=number, planned=planned):
            return f"{number}/{planned} {action}"
        case ActionRetried(action=action, attempt=attempt, delay_seconds=delay, error=error):
            return f"{action} failed at attempt {attempt} ({error}), again in {delay:g} s"
        case ActionFinished(action=action, status=status, seconds=seconds, error=error):
            return f"{action} {status} after {seconds:.3f} s{f': {error}' if error else ''}"
        case ProgressUpdated(message=message):
            return message
        case ProcessFinished(status=status, reason=reason):
            return f"{status}: {reason}"
        case _:
            return None


def _level(event: Event) -> int:
    match event:
        case ActionRetried() | ActionFinished(status="failed"):
            return logging.WARNING
        case ProcessFinished(status=status):
            return logging.INFO if status == _ENDED_WELL else logging.WARNING
        case _:
            return logging.DEBUG
