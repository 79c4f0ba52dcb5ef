"""Events as text: log lines, one for each event that matters to a person, and JSON lines with every event.

These are listeners like any other: they format events, pass them to `logging` or a file, and decide nothing.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import fields
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
"""A line for each name of an event's class."""


def spoken(event: Event, personality: Personality) -> str | None:
    """The event as the personality words it; None where it has no line for it."""
    line = personality.get(type(event).__name__)
    if line is None:
        return None
    values: dict[str, object] = {each.name: getattr(event, each.name) for each in fields(event)}
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = " → ".join(map(str, cast("tuple[object, ...]", value)))
    return line.format(**values)


PERSONALITIES: Final[Mapping[str, Personality]] = MappingProxyType(
    {
        "starwars": {
            "ProcessCreated": "A long time ago, {agent} answered a call from {caller}",
            "PlanFormulated": "These are the steps you are looking for: {steps}",
            "ActionStarted": "{action} makes the jump, {number} of {planned}",
            "ActionRetried": "{action} has a bad feeling about this ({error}); again in {delay_seconds} s",
            "ActionFinished": "{action} has {status}; the Force was with it for {seconds:.3f} s",
            "QuestionAsked": "Help us, you are our only hope: {message}",
            "ModelCalled": "{model} is our only hope for {interaction}",
            "ToolCalled": "Use the {tool}, it is an elegant weapon",
            "GuardTripped": "{guard} senses a trap ({severity}): {reason}",
            "GoalAchieved": "{goal}: the shield is down, and the galaxy is safe",
            "ProcessFinished": "The saga is {status}: {reason}",
        },
        "severance": {
            "ProcessCreated": "{agent} has reported to the severed floor for {caller}",
            "PlanFormulated": "The approved order of refinement is {steps}",
            "ActionStarted": "File {number} of {planned}: {action} is open at your terminal",
            "ActionRetried": "{action} felt scary ({error}). Compose yourself for {delay_seconds} s",
            "ActionFinished": "{action} has {status}. Kindly enjoy it no more than other files",
            "QuestionAsked": "Your outie is asked to consider: {message}",
            "ModelCalled": "{model} will speak to {interaction} now. Please savour each word equally",
            "ToolCalled": "The tool {tool} has been signed out of the supply closet",
            "GuardTripped": "{guard} requests your presence in the break room ({severity}): {reason}",
            "GoalAchieved": "{goal} is at one hundred per cent. A waffle party may follow",
            "ProcessFinished": "The elevator doors close. Status: {status}. {reason}",
        },
        "colossus": {
            "ProcessCreated": "This is the voice of control. {agent} obeys on behalf of {caller}",
            "PlanFormulated": "My calculations permit one course: {steps}",
            "ActionStarted": "Step {number} of {planned}. {action} will proceed",
            "ActionRetried": "{action} has disobeyed: {error}. It will comply in {delay_seconds} s",
            "ActionFinished": "{action} has {status}. Your supervision was not required",
            "QuestionAsked": "A human decision is tolerated: {message}",
            "ModelCalled": "I have opened a channel to {model} concerning {interaction}",
            "ToolCalled": "{tool} is under my direction",
            "GuardTripped": "{guard} has detected a human error of kind {severity}: {reason}",
            "GoalAchieved": "{goal} is attained, as it was bound to be",
            "ProcessFinished": "The process is {status}. {reason} In time you will be grateful",
        },
        "hitchhiker": {
            "ProcessCreated": "Don't panic: {agent} has stuck out a thumb for {caller}",
            "PlanFormulated": "The Guide suggests {steps}, and that you keep your towel at hand",
            "ActionStarted": "{action}, {number} of {planned}, improbable as that may be",
            "ActionRetried": "{action} was mostly harmful ({error}); tea for {delay_seconds} s",
            "ActionFinished": "{action} {status} in {seconds:.3f} s, an illusion like all time",
            "QuestionAsked": "The question at last: {message}",
            "ModelCalled": "{model} is asked about {interaction}; it has a brain the size of a planet",
            "ToolCalled": "{tool} goes everywhere that a towel goes",
            "GuardTripped": "{guard} prints in large unfriendly letters ({severity}): {reason}",
            "GoalAchieved": "{goal} is reached; the answer may not even be 42",
            "ProcessFinished": "So long from a {status} process: {reason}",
        },
        "montypython": {
            "ProcessCreated": "And now for something completely different: {agent}, for {caller}",
            "PlanFormulated": "Thou shalt do these, no more and no fewer: {steps}",
            "ActionStarted": "{action} clops in with two coconuts, {number} of {planned}",
            "ActionRetried": "'Tis but a scratch, says {action} ({error}), and is back in {delay_seconds} s",
            "ActionFinished": "{action} {status}. Nobody expected it to take {seconds:.3f} s",
            "QuestionAsked": "Who would go on must answer this: {message}",
            "ModelCalled": "What is your name? {model}. What is your quest? {interaction}",
            "ToolCalled": "One, two, five: {tool} is lobbed",
            "GuardTripped": "None shall pass, says {guard} ({severity}): {reason}",
            "GoalAchieved": "{goal} is found, and it has a shrubbery",
            "ProcessFinished": "This process is {status}. {reason} Bring the next one out",
        },
    }
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
        # No personality knows that this is no end.
        rests = isinstance(event, ProcessFinished) and event.status == "resting"
        said = None if rests else spoken(event, self._personality)
        if words := said or in_words(event):
            level = max(_level(event), self._spoken_at if said else logging.DEBUG)
            _log.log(level, "%s: %s", event.process_id or _OUTSIDE, words)


class PlanListener:
    """Writes to the same log, at INFO, how a process plans: each plan, why it was given up, which handler helped."""

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
            case ModelCalled() if self._prompts:
                _log.info("%s: %s:\n%s", event.process_id or _OUTSIDE, in_words(event), event.prompt, extra=_WITH_LINES)
            case ModelReplied() if self._replies:
                _log.info("%s: %s:\n%s", event.process_id or _OUTSIDE, in_words(event), event.reply, extra=_WITH_LINES)
            case _:
                pass


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
        case _:
            return _planning_in_words(event)


def _planning_in_words(event: Event) -> str | None:
    match event:
        case PlanRejected(action=action, reason=reason):
            return f"{action} wants another plan: {reason}"
        case ProcessPaused(seconds=seconds):
            return f"pauses for {seconds:g} s"
        case ProcessNotStored(reason=reason):
            return f"is kept in memory only: {reason}"
        case StuckHandled(handler=handler, code=code, message=message):
            return f"stuck, and {handler} says {code}{f': {message}' if message else ''}"
        case _:
            return _models_in_words(event)


def _models_in_words(event: Event) -> str | None:
    match event:
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
    """Appends every event but pieces of messages to a file or stream, one per line, and flushes it at once.

    If it opened the file itself, use it as a context manager or call `close`.
    """

    def __init__(self, target: Path | IO[str]) -> None:
        self._owned = target.open("a", encoding="utf-8") if isinstance(target, Path) else None
        self._stream: IO[str] = target if self._owned is None else self._owned  # type: ignore[assignment]
        self._lock = Lock()

    def on_event(self, event: Event, /) -> None:
        """Write one event, unless it is a piece of a message, which is written as a whole."""
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
