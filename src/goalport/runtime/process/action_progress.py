"""The progress of the actions of a process: what has run, runs, waits or failed. Only the methods here change it.

Below: the journal of an action. Above: the process has one of these; `tick` and `execution` change it.
"""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final, Generic, TypeVar, cast

from goalport.agents.blackboard import Entry
from goalport.base.errors import ModelError, NonRetryable, ProcessEnded, leaves
from goalport.base.secrecy import hide
from goalport.base.words import excerpt, message_of
from goalport.models.llm import TokenUsage
from goalport.runtime.process.journal import Child, Journal, Step
from goalport.runtime.process.ledger import NOTHING
from goalport.store import OPEN, closed

P = TypeVar("P", bound=Child)
_HALF = 300
"""The number of characters at the beginning and at the end of a failure that are shown."""
_NO_NAMES: Final = frozenset[str]()
_NO_WORDS: Final[Mapping[str, str]] = {}
_NO_NUMBERS: Final[Mapping[str, int]] = {}
MOST_WORDS = 2 * _HALF
"""The number of characters of a failure that are shown in all."""


@closed
@dataclass(frozen=True, slots=True)
class ActionInvocation:
    """One run of an action, as an entry of the history."""

    action: str
    started_at: datetime
    seconds: float
    status: str
    """succeeded, declined, failed, replanned or terminated."""
    error: str | None = None
    usage: TokenUsage = NOTHING
    """The cost of its models, including the processes that it started."""
    attempts: int = 1
    """How often it was tried since it last began; all but the last attempt failed."""
    steps: Annotated[tuple[Step, ...], OPEN] = ()
    """What its models replied and its tools returned, and whom it asked or started; only if journals are kept."""
    missing_tools: tuple[str, ...] = ()
    """What was missing of its tool groups at some time while it ran, and why: a sentence or two for each group."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure in a process, whether or not another way was found."""

    reason: str
    action: str = ""
    """The name of the action that failed; empty when the process itself could not go on."""
    error: BaseException | None = field(default=None, compare=False, repr=False, metadata={"stored": False})
    """The exception with its traceback, if there is one and it may be shown. It ends with the program."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class ActionProgressState:
    """The progress of a process at one moment, without its history, results and journals; see `ActionProgress`."""

    has_run: AbstractSet[str]
    left_out: Mapping[str, str]
    declined: Mapping[str, str]
    waits: Mapping[str, str]
    skipped: AbstractSet[str]
    numbers: Mapping[str, int]
    """The number of each action that has begun and is not over."""
    begun: int
    paused_after: int
    interrupted: AbstractSet[str] = frozenset()


class ActionProgress(Generic[P]):
    """The actions of a process: which have run, are running, are waiting, or will not run again."""

    def __init__(self, process_id: str) -> None:
        self._process_id = process_id
        self.history: list[ActionInvocation] = []
        self.has_run: set[str] = set()
        self.results: dict[str, object] = {}
        """The last return value of each action."""
        self.left_out: dict[str, str] = {}
        """Actions that failed for good, each with the reason."""
        self.declined: dict[str, str] = {}
        """For each action, the last reason that a model gave for not making what was asked for."""
        self.waits: dict[str, str] = {}
        """For each action, what it waits for besides people, in words: a provider that will be asked again."""
        self.skipped: frozenset[str] = _NO_NAMES
        """Actions that asked for another plan; the next plan leaves them out."""
        self.failed_conditions: dict[str, str] = {}
        """Conditions that raised an exception when they were asked last, each with its words."""
        self._replanned = set[str]()
        """Actions that asked for another plan since an action has last run."""
        self.parked: dict[str, P] = {}
        """Actions that wait for a sub-process, which waits for a person."""
        self.journals: dict[str, Journal[P]] = {}
        """The journals of actions that have begun and are not over."""
        self.triggers: dict[str, Entry] = {}
        """What has triggered each action that was parked since: no other action reacts to it, and this one goes on."""
        self.interrupted: frozenset[str] = _NO_NAMES
        """Actions in whose middle the program ended, and which may not be repeated: somebody has to decide."""
        self.begun = 0
        """The number of actions that have begun."""
        self._sequence: dict[str, int] = {}
        self._impasses: list[object] = []
        self._stuck_after = -1
        self._paused_after = -1

    @property
    def state(self) -> ActionProgressState:
        """The progress now, without history, results and journals."""
        return ActionProgressState(
            has_run=frozenset(self.has_run),
            left_out=dict(self.left_out) if self.left_out else _NO_WORDS,
            declined=dict(self.declined) if self.declined else _NO_WORDS,
            waits=dict(self.waits) if self.waits else _NO_WORDS,
            skipped=self.skipped,
            numbers=dict(self._sequence) if self._sequence else _NO_NUMBERS,
            begun=self.begun,
            paused_after=self._paused_after,
            interrupted=self.interrupted,
        )

    def restore(self, state: ActionProgressState, results: Mapping[str, object], triggers: Mapping[str, Entry]) -> None:
        """Have the progress that a process had, and a journal without records for each action that has begun."""
        self.results, self.triggers = dict(results), dict(triggers)
        self.has_run = set(state.has_run)
        self.skipped, self.interrupted = frozenset(state.skipped), frozenset(state.interrupted)
        self.left_out, self.declined, self.waits = dict(state.left_out), dict(state.declined), dict(state.waits)
        self._sequence, self.begun, self._paused_after = dict(state.numbers), state.begun, state.paused_after
        self.journals = {action: Journal(self._key(action)) for action in self._sequence}

    def restore_begun(self, action: str, number: int) -> None:
        self._sequence[action], self.begun = number, max(self.begun, number + 1)
        self.journals.setdefault(action, Journal(self._key(action))).note_begun()

    def interrupt(self, action: str) -> None:
        self.interrupted |= {action}

    def settle_interrupted(self, *, retry: bool) -> None:
        """Let actions that were interrupted begin again; otherwise leave them out of all plans."""
        for action in self.interrupted:
            if retry:
                self.journals[action].rest()
            else:
                self.end(action).close(f"{action} was interrupted, and the process goes on without it.")
                self.leave_out(action, f"{action} was interrupted, and somebody decided to go on without it.")
        self.interrupted = _NO_NAMES

    def _key(self, action: str) -> str:
        return f"{self._process_id}:{self._sequence[action]}"

    def number_of(self, action: str) -> int:
        """The number of a running action, from 0 in order of beginning; of another action, the next number."""
        return self._sequence.get(action, self.begun)

    def begin(self, action: str) -> None:
        if action not in self._sequence:
            self._sequence[action], self.begun = self.begun, self.begun + 1
            self.journals[action] = Journal(self._key(action))

    def end(self, action: str) -> Journal[P]:
        """Note that an action is over, and return its journal; its next run gets a new one."""
        self._sequence.pop(action, None)
        self.triggers.pop(action, None)
        return self.journals.pop(action)

    def record(self, invocation: ActionInvocation) -> None:
        self.history.append(invocation)

    def complete(self, action: str, result: object) -> None:
        self.has_run.add(action)
        self._replanned.clear()
        self.results[action] = result

    def start_anew(self) -> None:
        self.has_run.clear()

    def begin_turn(self) -> None:
        """Let actions run again that had failed for good, because something new was said."""
        self.left_out.clear()
        self.declined.clear()
        self._stuck_after = -1

    def leave_out(self, action: str, reason: str) -> None:
        self.left_out[action] = reason

    def skip(self, action: str) -> None:
        self.skipped |= {action}

    def note_condition(self, condition: str, failure: str) -> None:
        """Note why a condition could not be evaluated; an empty text says that it could."""
        if failure:
            self.failed_conditions[condition] = failure
        elif self.failed_conditions:
            self.failed_conditions.pop(condition, None)

    def asks_again_for_another_plan(self, action: str) -> bool:
        """Note that an action asks for another plan. Returns whether it did so before, and no other has run since."""
        again = action in self._replanned
        self._replanned.add(action)
        return again

    def take_skipped(self) -> bool:
        """Stop leaving actions out because they were skipped. Returns whether there were any."""
        if not self.skipped:
            return False
        self.skipped = _NO_NAMES
        return True

    def decline(self, action: str, reason: str) -> None:
        """Note why a model did not make what an action asked for; an empty reason removes the earlier one."""
        if reason:
            self.declined[action] = reason
        else:
            self.declined.pop(action, None)

    def wait_for_provider(self, action: str, message: str) -> None:
        """Note what an action waits for besides people; an empty message says that it waits no longer."""
        if message:
            self.waits[action] = message
        else:
            self.waits.pop(action, None)

    def park(self, action: str, child: P) -> None:
        self.parked[action] = child

    def keep_trigger(self, action: str, trigger: Entry) -> None:
        """Note what has triggered an action that is parked; one that was noted before stays."""
        self.triggers.setdefault(action, trigger)

    def unpark(self, child: P) -> bool:
        """Let actions that waited for a sub-process run again. Returns whether there were any."""
        waiting = [action for action, each in self.parked.items() if each is child]
        for action in waiting:
            del self.parked[action]
        return bool(waiting)

    def may_pause(self) -> bool:
        """Whether there was no pause since the last action ran. The call itself counts as a pause."""
        paused, self._paused_after = self._paused_after, len(self.history)
        return paused < self._paused_after

    def note_impasse(self, standing: object) -> list[object]:
        """Note the state in which no action can run; return the earlier ones since the last action ran."""
        if self._stuck_after != len(self.history):
            self._stuck_after = len(self.history)
            self._impasses.clear()
        before = list(self._impasses)
        self._impasses.append(standing)
        return before

    def end_calls(self) -> None:
        """End all open calls of tools of the actions; their results are no longer needed."""
        for journal in self.journals.values():
            journal.end_calls()
        self.journals.clear()


def in_words(error: BaseException) -> str:
    """A failure in one line, without traceback and secrets; of a long one, the beginning and the end."""
    if isinstance(error, BaseExceptionGroup):
        return excerpt("; ".join(map(in_words, leaves(cast("BaseException", error)))), MOST_WORDS)
    text = hide(" ".join((error.reason if isinstance(error, ProcessEnded) else message_of(error)).split()))
    name = type(error).__name__
    # Messages of these are complete sentences for people.
    words = (
        text
        if text and isinstance(error, (ModelError, NonRetryable, ProcessEnded))
        else f"{name}: {text}"
        if text
        else name
    )
    return words if len(words) <= MOST_WORDS else f"{words[:_HALF]} … {words[-_HALF:]}"
