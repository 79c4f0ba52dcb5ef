"""Log lines about what happens, one for each event worth reading.

A listener like any other: it formats and hands on to `logging`, and decides nothing.
"""

import logging

from goalport.errors import UnknownName
from goalport.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    Event,
    PlanFormulated,
    PlanRejected,
    ProcessCreated,
    ProcessFinished,
    ProcessPaused,
    ProgressUpdated,
    QuestionAsked,
    QuestionSettled,
    StateEntered,
    StuckHandled,
)
from goalport.observe.personalities import PERSONALITIES, Personality, spoken

__all__ = ["LogListener", "PlanListener", "in_words"]

_log = logging.getLogger("goalport.process")
_ENDED_WELL = ("completed", "waiting")


class LogListener:
    """Writes the life of processes to the log `goalport.process`: ends and failures at INFO, the rest at DEBUG.

    `personality` is a name in `PERSONALITIES`, or a mapping of your own from event names to lines. Raises
    `UnknownName`.
    """

    def __init__(self, personality: str | Personality = "") -> None:
        if isinstance(personality, str) and personality and personality not in PERSONALITIES:
            raise UnknownName("personality", personality, PERSONALITIES)
        self._personality = PERSONALITIES.get(personality, {}) if isinstance(personality, str) else personality

    def on_event(self, event: Event, /) -> None:
        """Log one event, if it has words."""
        words = spoken(event, self._personality) or in_words(event)
        if words:
            _log.log(_level(event), "%s: %s", event.process_id, words)


class PlanListener:
    """Writes to the same log, at INFO, how a process plans: each plan, why one was given up, who helped it on."""

    def on_event(self, event: Event, /) -> None:
        """Log one event, if it is about planning."""
        if isinstance(event, (PlanFormulated, PlanRejected, StuckHandled)):
            _log.info("%s: %s", event.process_id, in_words(event))


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
        case StateEntered(state=state):
            return f"state {state}"
        case QuestionAsked(question_id=question, message=message):
            return f"waits for an answer to {question}: {message}"
        case QuestionSettled(question_id=question, status=status):
            return f"question {question} was {status}"
        case ProcessFinished(status=status, reason=reason):
            return f"{status}: {reason}"
        case _:
            return _rare(event)


def _rare(event: Event) -> str | None:
    match event:
        case PlanRejected(action=action, reason=reason):
            return f"{action} wants another plan: {reason}"
        case ProcessPaused(seconds=seconds):
            return f"pauses for {seconds:g} s"
        case StuckHandled(handler=handler, code=code, message=message):
            return f"stuck, and {handler} says {code}{f': {message}' if message else ''}"
        case _:
            return None


def _level(event: Event) -> int:
    match event:
        case ActionRetried() | ActionFinished(status="failed"):
            return logging.WARNING
        case QuestionAsked():
            return logging.INFO
        case ProcessFinished(status=status):
            return logging.INFO if status in _ENDED_WELL else logging.WARNING
        case _:
            return logging.DEBUG
