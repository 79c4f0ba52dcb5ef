"""What a process has done and is about to do, and the only ways in which that is written.

Below: the journal of an action. Above: the process has one of these, and `tick` and what runs actions write it.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar, cast

from goalport.errors import (
    ModelError,
    ProcessEnded,
    leaves,
)
from goalport.llm import TokenUsage
from goalport.process.journal import Child, Journal
from goalport.process.ledger import NOTHING
from goalport.secrecy import hide

__all__ = ["MOST_WORDS", "ActionInvocation", "Failure", "Progress", "in_words"]

P = TypeVar("P", bound=Child)
_HALF = 300
"""Characters of a failure's beginning, and of its end, that are told."""
MOST_WORDS = 2 * _HALF
"""Characters of a failure that are told."""


@dataclass(frozen=True, slots=True)
class ActionInvocation:
    """One action that ran, as the history keeps it."""

    action: str
    started_at: datetime
    seconds: float
    status: str
    """succeeded, declined, failed, replanned or terminated."""
    error: str | None = None
    usage: TokenUsage = NOTHING
    """What its models cost, with the processes that it started."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong last in a process, whether or not another way was found."""

    reason: str
    action: str = ""
    """The name of the action that failed; empty when the process itself could not go on."""
    error: BaseException | None = field(default=None, compare=False, repr=False)
    """The exception, with its traceback, where there was one."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Progress(Generic[P]):
    """The actions of a process: which have run, which are under way, which wait, and which will not run again."""

    def __init__(self, process_id: str) -> None:
        self._process_id = process_id
        self.history: list[ActionInvocation] = []
        self.has_run: set[str] = set()
        self.results: dict[str, object] = {}
        """What each action returned last."""
        self.left_out: dict[str, str] = {}
        """Actions that failed for good, and how."""
        self.declined: dict[str, str] = {}
        """Why models did not make what actions asked for, in their words; the last of each action counts."""
        self.waits: dict[str, str] = {}
        """What actions wait for that no person can answer: a provider that will be asked again; in words."""
        self.skipped: set[str] = set()
        """Actions that asked for another plan: the next one does without them."""
        self.parked: dict[str, P] = {}
        """Actions that wait for a process of their own, which waits for a person."""
        self.journals: dict[str, Journal[P]] = {}
        """What actions that have begun and are not over have done, so that nothing is done twice."""
        self.begun = 0
        """How many actions have begun."""
        self._sequence: dict[str, int] = {}
        self._impasses: list[object] = []
        self._stuck_after = -1
        self._paced_after = -1

    def number_of(self, action: str) -> int:
        """Which of the actions that have begun an action is, from 0; one that is not under way would be the next."""
        return self._sequence.get(action, self.begun)

    def begin(self, action: str) -> None:
        """Note that an action begins, or begins again: then it keeps its number and its journal."""
        if action not in self._sequence:
            self._sequence[action], self.begun = self.begun, self.begun + 1
            self.journals[action] = Journal(f"{self._process_id}:{self._sequence[action]}")

    def end(self, action: str) -> Journal[P]:
        """Note that an action is over, and give its journal: when it runs again, it begins anew."""
        self._sequence.pop(action, None)
        return self.journals.pop(action)

    def record(self, invocation: ActionInvocation) -> None:
        """Add what came of an action to the history."""
        self.history.append(invocation)

    def complete(self, action: str, result: object) -> None:
        """Note that an action has run, and what it returned."""
        self.has_run.add(action)
        self.results[action] = result

    def start_anew(self) -> None:
        """Let every action count as not having run."""
        self.has_run.clear()

    def leave_out(self, action: str, reason: str) -> None:
        """Note that an action has failed for good; `reason` is a sentence that begins with its name."""
        self.left_out[action] = reason

    def skip(self, action: str) -> None:
        """Leave an action out of the next plan."""
        self.skipped.add(action)

    def take_skipped(self) -> bool:
        """Let the actions count again that were to be left out of one plan; whether there were any."""
        if not self.skipped:
            return False
        self.skipped.clear()
        return True

    def decline(self, action: str, reason: str) -> None:
        """Note why a model did not make what an action asked for; an empty reason takes an earlier one back."""
        if reason:
            self.declined[action] = reason
        else:
            self.declined.pop(action, None)

    def wait_for_provider(self, action: str, message: str) -> None:
        """Note what an action waits for that no person can answer; an empty message: it goes on."""
        if message:
            self.waits[action] = message
        else:
            self.waits.pop(action, None)

    def park(self, action: str, child: P) -> None:
        """Note that an action waits for a process of its own."""
        self.parked[action] = child

    def unpark(self, child: P) -> bool:
        """Let the actions run again that waited for a process; whether there were any."""
        waiting = [action for action, each in self.parked.items() if each is child]
        for action in waiting:
            del self.parked[action]
        return bool(waiting)

    def may_pause(self) -> bool:
        """Whether there was no pause yet since the last action ran; from now on there was."""
        paused, self._paced_after = self._paced_after, len(self.history)
        return paused < self._paced_after

    def note_impasse(self, standing: object) -> list[object]:
        """Note how things stand where nothing leads on, and give how they stood before since the last action ran."""
        if self._stuck_after != len(self.history):
            self._stuck_after = len(self.history)
            self._impasses.clear()
        before = list(self._impasses)
        self._impasses.append(standing)
        return before

    def end_calls(self) -> None:
        """End what the actions have under way with tools; nothing of theirs is needed any more."""
        for journal in self.journals.values():
            journal.end_calls()
        self.journals.clear()

    def remnant(self) -> "Progress[P]":
        """What is kept of the progress of a process that ended long ago: what its end and its history need."""
        left: Progress[P] = Progress(self._process_id)
        left.left_out, left.declined, left.history = self.left_out, self.declined, self.history
        return left


def in_words(error: BaseException) -> str:
    """A failure in one line, without a traceback or a secret and of bounded length: its beginning and its end."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(in_words, leaves(cast("BaseException", error))))[:MOST_WORDS]
    text = hide(" ".join(str(error.reason if isinstance(error, ProcessEnded) else error).split()))
    name = type(error).__name__
    # What models fail at is told in sentences made for people.
    words = text if text and isinstance(error, ModelError) else f"{name}: {text}" if text else name
    return words if len(words) <= MOST_WORDS else f"{words[:_HALF]} … {words[-_HALF:]}"
