"""Events as text: log lines, one for each event that matters to a person, and JSON lines with every event.

These are listeners like any other: they format events, pass them to `logging` or a file, and decide nothing.
"""

import json
import logging
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import IO, Final, Self, cast

from goalport.base.errors import UnknownName
from goalport.base.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    ConversationCompacted,
    Event,
    GuardTripped,
    MessageDelta,
    MessageSent,
    ModelCalled,
    ModelReplied,
    PlanFormulated,
    PlanRejected,
    ProcessCreated,
    ProcessFinished,
    ProcessNotStored,
    ProcessPaused,
    ProgressUpdated,
    QuestionAsked,
    QuestionSettled,
    SourcesShown,
    StateEntered,
    StuckHandled,
    ToolCalled,
    ToolReturned,
    as_json,
)
from goalport.base.observe.log_lines import LINES
from goalport.base.words import counted, first_line

Personality = Mapping[str, str]
"""A format string for each class of events, by the name of the class."""


PERSONALITIES: Final[Mapping[str, Personality]] = MappingProxyType(
    tomllib.loads((files("goalport.base.observe") / "personalities.toml").read_text(encoding="utf-8"))
)
_log = logging.getLogger("goalport.process")
_ENDED_WELL = ("completed", "waiting", "resting")
_OUTSIDE = "outside of processes"
_WITH_LINES = {LINES: True}


class LogListener:
    """Writes the events of processes to the log `goalport.process`: ends and failures at INFO, the rest at DEBUG.

    `personality` is a name in `PERSONALITIES`, or a mapping from names of events to lines; its lines are logged at
    `spoken_at` or above. Raises `UnknownName`.
    """

    def __init__(self, personality: str | Personality = "", *, spoken_at: int = logging.DEBUG) -> None:
        self._spoken_at = spoken_at
        if isinstance(personality, str) and personality and personality not in PERSONALITIES:
            raise UnknownName("personality", personality, PERSONALITIES)
        self._personality = PERSONALITIES.get(personality, {}) if isinstance(personality, str) else personality

    def on_event(self, event: Event, /) -> None:
        """Log one event, if there is a line for it."""
        said, line = "", self._personality.get(type(event).__name__)
        # Personalities have one line for all ends, but a resting process has not ended.
        if line is not None and not (isinstance(event, ProcessFinished) and event.status == "resting"):
            values: dict[str, object] = {each.name: getattr(event, each.name) for each in fields(event)}
            for name, value in values.items():
                if isinstance(value, tuple):
                    values[name] = " → ".join(map(str, cast("tuple[object, ...]", value)))
            said = line.format(**values)
        if words := said or in_words(event):
            level = max(_level(event), self._spoken_at if said else logging.DEBUG)
            _log.log(level, "%s: %s", event.process_id or _OUTSIDE, words)


class PlanListener:
    """Writes to the same log, at INFO, how a process plans: plans, why they were rejected, calls of stuck handlers."""

    def on_event(self, event: Event, /) -> None:
        """Log one event, if it is about planning."""
        if isinstance(event, (PlanFormulated, PlanRejected, StuckHandled)):
            _log.info("%s: %s", event.process_id, in_words(event))


class PromptListener:
    """Writes to the same log, at INFO, the prompts of models, or their replies, or both, in full."""

    def __init__(self, *, prompts: bool = True, replies: bool = True) -> None:
        self._prompts = prompts
        self._replies = replies

    def on_event(self, event: Event, /) -> None:
        """Log one event, if it is a request of a model or a reply."""
        match event:
            case ModelCalled(prompt=text) if self._prompts:
                pass
            case ModelReplied(reply=text) if self._replies:
                pass
            case _:
                return
        _log.info("%s: %s:\n%s", event.process_id or _OUTSIDE, in_words(event), text, extra=_WITH_LINES)


def in_words(event: Event) -> str | None:  # noqa: C901 - a line for each kind of event
    """An event as one line, without the id of its process; None for events that matter to programs only.

    The line contains no text to or from models and tools, because clients read it too.
    """
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
        case MessageSent(text=text):
            return f"sends a message of {counted(len(text), 'character')}"
        case ConversationCompacted(what=what, messages=messages, tokens_before=before, tokens_after=after):
            return f"compacts {counted(messages, 'message')} ({what}): {before:,} tokens become {after:,}"
        case ProcessFinished(status="resting"):
            return "rests until it is told something"
        case ProcessFinished(status=status, reason=reason):
            return f"{status}: {reason}"
        case PlanRejected(action=action, reason=reason):
            return f"{action} wants another plan: {reason}"
        case ProcessPaused(seconds=seconds):
            return f"pauses for {seconds:g} s"
        case ProcessNotStored(reason=reason):
            return f"is kept in memory only: {reason}"
        case StuckHandled(handler=handler, code=code, message=message):
            return f"stuck, and {handler} says {code}{f': {message}' if message else ''}"
        case ModelCalled(interaction=interaction, model=model, turn=turn):
            return f"asks {model} for {interaction}{f', turn {turn}' if turn > 1 else ''}"
        case ModelReplied(model=model, error=str(error)):
            return f"{model} gave no answer: {error}"
        case ModelReplied():
            wants = f"wants {', '.join(event.tool_calls)} called" if event.tool_calls else "answered"
            used = f"{event.input_tokens:,} tokens in, {event.output_tokens:,} out, {event.cost:.4f} USD"
            return f"{event.model} {wants} after {event.seconds:.3f} s ({used})"
        case ToolCalled(tool=tool):
            return f"calls the tool {tool}"
        case ToolReturned(tool=tool, seconds=seconds, is_error=is_error):
            return f"the tool {tool} {'failed' if is_error else 'answered'} after {seconds:.3f} s"
        case SourcesShown(reference=reference, sources=sources, query=query):
            return f"{reference} showed {counted(len(sources), 'passage')} for {first_line(query, 80)!r}"
        case GuardTripped(guard=guard, severity=severity, reason=reason):
            return f"{guard} objects ({severity}): {reason}"
        case _:
            return None


def _level(event: Event) -> int:
    match event:
        case ActionRetried() | ActionFinished(status="failed") | ModelReplied(error=str()):
            return logging.WARNING
        case GuardTripped(severity=severity):
            return logging.INFO if severity == "info" else logging.WARNING
        case QuestionAsked():
            return logging.INFO
        case ProcessFinished(status=status):
            return logging.INFO if status in _ENDED_WELL else logging.WARNING
        case _:
            return logging.DEBUG


class JsonLinesListener:
    """Appends every event except `MessageDelta` to a file or stream, one per line, and flushes it at once.

    If it opened the file itself, use it as a context manager or call `close`.
    """

    def __init__(self, target: Path | IO[str]) -> None:
        self._owned = target.open("a", encoding="utf-8") if isinstance(target, Path) else None
        self._stream: IO[str] = target if self._owned is None else self._owned  # type: ignore[assignment]
        self._lock = Lock()

    def on_event(self, event: Event, /) -> None:
        """Write one event; a `MessageDelta` is skipped, since `MessageSent` has the whole message."""
        if isinstance(event, MessageDelta):
            return
        line = json.dumps(as_json(event), ensure_ascii=False)
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file, if this listener opened it."""
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
