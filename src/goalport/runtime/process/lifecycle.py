"""The ids of processes, which only their callers may know; their statuses, and their outcomes."""

import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from goalport.base.errors import ProcessFailed, ProcessKilled, ProcessStuck, ProcessTerminated, ProcessWaiting
from goalport.runtime.process.questions import Question


class ProcessStatus(StrEnum):
    """The status of a process (user guide, section 3.2.1)."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TERMINATED = "terminated"
    KILLED = "killed"
    STUCK = "stuck"
    RESTING = "resting"
    """Nothing is wrong: a turn is over, and the next one begins when the process gets more input."""
    WAITING = "waiting"
    """The process waits for answers of people."""
    PAUSED = "paused"
    """The process continues by itself when its delay or schedule allows it."""

    @property
    def ended(self) -> bool:
        """Whether nothing more happens unless somebody acts from outside, for example by sending more input."""
        return self not in _GOING_ON


_GOING_ON = frozenset({ProcessStatus.NOT_STARTED, ProcessStatus.RUNNING, ProcessStatus.WAITING, ProcessStatus.PAUSED})


@dataclass(frozen=True, slots=True)
class Completed:
    """The goal was reached."""

    value: object
    """The return value of the goal's action."""
    status = ProcessStatus.COMPLETED
    final = True
    reason = "The goal was reached."


@dataclass(frozen=True, slots=True)
class Stuck:
    """No action can bring the goal nearer in the current state."""

    reason: str
    input_may_help: bool = True
    """Whether other input may lead to the goal; False when only tool groups are missing."""
    turn_failed: bool = False
    """Whether its last turn failed: it is stuck only until it gets more input."""
    rests: bool = False
    """Whether nothing is wrong: its turn is over, and the next one begins when it gets more input."""
    final = False
    error = ProcessStuck

    @property
    def status(self) -> ProcessStatus:
        """Stuck, or resting between two turns."""
        return ProcessStatus.RESTING if self.rests else ProcessStatus.STUCK


@dataclass(frozen=True, slots=True)
class Failed:
    """Actions failed, or the input was invalid, and no other way to the goal is left."""

    reason: str
    tried: tuple[str, ...] = ()
    """One sentence for each action that failed."""
    caller_mistake: bool = False
    """Whether the caller can avoid the failure by other input."""
    not_begun: bool = False
    """Whether it failed before it began because the store could not be reached: the same start may succeed later."""
    status = ProcessStatus.FAILED
    final = True
    error = ProcessFailed


@dataclass(frozen=True, slots=True)
class Terminated:
    """A budget, a deadline or the program ended the process early."""

    reason: str
    status = ProcessStatus.TERMINATED
    final = True
    error = ProcessTerminated


@dataclass(frozen=True, slots=True)
class Killed:
    """Somebody ended the process from outside."""

    reason: str
    status = ProcessStatus.KILLED
    final = True
    error = ProcessKilled


@dataclass(frozen=True, slots=True)
class Waiting:
    """People have to answer before the process can continue. This is not final, but nothing else can be done now."""

    questions: tuple[Question, ...]
    status = ProcessStatus.WAITING
    final = False
    error = ProcessWaiting

    @property
    def reason(self) -> str:
        """The questions, as one text."""
        return f"It waits for an answer: {'; '.join(each.message for each in self.questions)}"


Outcome = Completed | Waiting | Stuck | Failed | Terminated | Killed


ID: Final = re.compile(r"[A-Za-z0-9._-]+")
"""What every id matches. No store is asked for other texts, since some stores accept only certain characters."""

_ADJECTIVES = """
amber bold brisk calm clear crisp deft eager early fair fleet fond frank fresh gentle glad grand green happy hardy
honest humble keen kind lively lucid merry mild neat nimble noble plain proud quick quiet rapid ready silver smart
snug solid sound spry steady still sunny swift tidy true vivid warm wise witty young zesty
"""
_NOUNS = """
badger beaver bison crane curlew deer dove eagle egret falcon ferret finch fox gannet goose hare hawk heron horse
ibis jackdaw kestrel kite lark linnet lynx magpie marten merlin mole moose newt osprey otter owl panda pelican
pigeon plover puffin rabbit raven robin salmon seal shrew sparrow stork swan swift tern thrush toad trout vole wren
"""
_UNFIT = re.compile(r"[^A-Za-z0-9._]+")
_FIRST, _SECOND = _ADJECTIVES.split(), _NOUNS.split()


def new_id(*labels: str) -> str:
    """An id such as `quiet-otter-4f1c9a02d7be`: optional labels, two words that are easy to say, and 48 random bits."""
    prefix = "".join([f"{_UNFIT.sub('-', label)}-" for label in labels])
    words, digits = divmod(secrets.randbits(72), 1 << 48)
    second, first = divmod(words, len(_FIRST))
    return f"{prefix}{_FIRST[first]}-{_SECOND[second % len(_SECOND)]}-{digits:012x}"
