"""The records of processes: what a store is sent at each step, and when processes rest; each time only what is new.

Also here: restoring processes from records, as new objects, or by updating objects in this program that another program
has continued. Nothing is stored or run here: a store keeps records, and the repository decides when they are created.
Calls of upstream servers that continue while their action is parked cannot be recorded.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from logging import getLogger
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast
from weakref import WeakKeyDictionary, WeakSet

from goalport.agents.blackboard import DEFAULT_BINDING, BoardState, Entry
from goalport.agents.domain import WaitFor
from goalport.agents.domain.wait_for import UrlVisit
from goalport.base.errors import LeaseHeld, StoreError, Unreadable, Unstorable
from goalport.base.events import ProcessNotStored
from goalport.models.llm import TokenUsage
from goalport.runtime.process.action_progress import (
    ActionInvocation,
    ActionProgress,
    ActionProgressState,
    Failure,
)
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.ledger import FIRST_TURN, NOTHING, Ledger, Spending, TurnStart
from goalport.runtime.process.lifecycle import Completed, Killed, Outcome, ProcessStatus, Terminated, Waiting
from goalport.runtime.process.process_options import ProcessOptions
from goalport.runtime.process.questions import Question, Questions, QuestionStatus
from goalport.runtime.process.scope import Scope
from goalport.store import (
    OPEN,
    Codec,
    JournalRecord,
    Json,
    ObjectRecord,
    ProcessRecord,
    ProcessStore,
    QuestionRecord,
    Seals,
    StoredProcess,
    StoredTypes,
    closed,
    decoded,
    encoded,
    persistent,
)
from goalport.tools import ToolGroupResolver

_log = getLogger(__name__)
_NO_NUMBERS: Final = frozenset[int]()
_NOTHING: Final[Mapping[str, str]] = {}
_COMPLETED: Final = Completed(None)
_LONG: Final = 1.0
"""Seconds after which a process counts as long-running, whatever its goal declares."""
_ASKED: Final = attrgetter("id", "action", "wait", "in_action", "asked_at", "status", "answer", "reason")
"""The attributes of a question that its record contains, besides its number."""
Write: TypeAlias = Callable[[AgentProcess, Codec], Json]
"""Serializes the definition of a process (agent, options, tool groups), as the platform knows it, to JSON data."""
Make: TypeAlias = Callable[[ProcessRecord, AgentProcess | None, Codec], AgentProcess]
"""Creates the process of a record from its parent and the JSON data of its definition."""


@persistent("goalport.process.persistence:Ranges")
class Ranges(NamedTuple):
    """Whole numbers, stored as ranges because most are consecutive."""

    ranges: tuple[tuple[int, int], ...]
    """The first number of each range, and the number after its last."""

    @property
    def numbers(self) -> list[int]:
        """All the numbers."""
        return [number for first, end in self.ranges for number in range(first, end)]


class GrowingRanges:
    """The numbers of entries as ranges; if entries were only appended since the last call, only those are added.

    So a checkpoint of a long run costs no more than one of a short run.
    """

    def __init__(self) -> None:
        self._entries: Sequence[Entry] = ()
        self._ranges: list[tuple[int, int]] = []

    def of(self, entries: Sequence[Entry], number_of: Callable[[Entry], int]) -> tuple[tuple[int, int], ...]:
        """The numbers of entries as ranges; `number_of` returns the number of an entry."""
        known = len(self._entries)
        if entries[:known] != self._entries:
            known, self._ranges = 0, []
        for number in map(number_of, entries[known:]):
            if self._ranges and self._ranges[-1][1] == number:
                self._ranges[-1] = self._ranges[-1][0], number + 1
            else:
                self._ranges.append((number, number + 1))
        self._entries = entries
        return tuple(self._ranges)


class Definition(NamedTuple):
    """What a process runs with; it does not change while the process runs."""

    scope: Scope
    options: ProcessOptions
    groups: ToolGroupResolver


@closed
@persistent("goalport.process.persistence:ProcessState")  # the name in stores, independent of the module
@dataclass(frozen=True, slots=True)
class ProcessState:
    """What changes while a process runs. It refers to objects by their numbers, and to other processes by their ids."""

    goals: tuple[str, ...]
    goal: str
    """The name of the goal that it pursues; empty: none yet."""
    plan: tuple[str, ...]
    started_by: str
    """The name of the parent's action that started it."""
    stepped: bool
    outcome: Annotated[Outcome | None, OPEN]
    """The outcome without the result and the questions, which have records of their own."""
    end_requested: Annotated[Outcome | None, OPEN]
    failure: Annotated[Failure | None, OPEN]
    progress: ActionProgressState
    entries: tuple[tuple[int, int], ...] = ()
    """The numbers of the objects on the blackboard, as ranges: the first number, and the one after the last."""
    names: Mapping[str, int] = field(default_factory=dict[str, int])
    hidden: Ranges | AbstractSet[int] = _NO_NUMBERS
    protected: AbstractSet[str] = frozenset()
    conditions: Mapping[str, bool] = field(default_factory=dict[str, bool])
    last_entry: int | None = None
    results: Mapping[str, int] = field(default_factory=dict[str, int])
    """The last return value of each action."""
    parked: Mapping[str, str] = field(default_factory=dict[str, str])
    """The id of the sub-process that each parked action waits for."""
    waits_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The ids of all sub-processes that each action has to wait for."""
    unsettled: Mapping[str, TokenUsage] = field(default_factory=dict[str, TokenUsage])
    """The costs of each action that is not over."""
    spendings: int | None = None
    """The number of its own cost entries that `unsettled` includes; None: all."""
    given: Mapping[str, int] | None = None
    """The numbers of the named objects with which it began; the empty name has the count of all. None: not known, since
    journals were not kept then."""
    trace: Mapping[str, str] = field(default_factory=dict[str, str])
    """The trace context in which it was started; empty: it was not traced."""
    triggers: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of the object that triggered each parked action."""
    turn_start: TurnStart | None = None
    """Its progress and costs at the beginning of its turn; None: it is in its first turn."""


class Recorder:
    """Creates the records of one process, each time only for what is new.

    `stored` are the records from which the process was restored, `entries` all its objects, by number.
    """

    def __init__(
        self,
        codec: Codec | None = None,
        stored: StoredProcess | None = None,
        entries: Iterable[Entry] = (),
        given: Mapping[str, int] | None = None,
    ) -> None:
        self._codec = codec
        self._entries: list[Entry] = []
        """The numbered entries; the number is the index."""
        self._numbers: dict[int, int] = {}
        """The numbers of entries by their `id()`."""
        self._of_value: dict[int, int] = {}
        """The first number of each object by its `id()`."""
        self._on_board, self._hidden = GrowingRanges(), GrowingRanges()
        self._objects = self._invocations = self._spendings = 0
        """How many of them the store has."""
        self._questions: dict[str, str] = {}
        """The status of each question in the store, by id."""
        self._steps: dict[str, set[tuple[str, str]]] = {}
        """The kinds and names of the steps that the store has, by action."""
        self._unwritable: set[tuple[str, str, str]] = set()
        """The actions, kinds and names of steps that cannot be serialized: they are not tried again."""
        self._next_step = 0
        self._given = given
        """The objects with which the process began."""
        self.record: ProcessRecord | None = None
        """The record in the store, with the last state; None: the store does not have the definition of the process."""
        for each in entries:
            self._number(each)
        if stored is not None:
            self.confirm(stored)

    def confirm(self, stored: StoredProcess) -> None:
        """Note that the store has these records: later records contain only what is new since."""
        self._objects += len(stored.objects)
        self._invocations += len(stored.history)
        self._spendings += len(stored.spendings)
        self._questions.update((each.id, each.status) for each in stored.questions)
        for action in stored.ended_actions:
            self._steps.pop(action, None)
        for each in stored.journal:
            self._steps.setdefault(each.action, set()).add((each.kind, each.name))
            self._next_step = max(self._next_step, each.number + 1)
        if stored.process.state is not None:
            self.record = stored.process

    def has_changes(self, stored: StoredProcess) -> bool:
        """Whether records contain anything that the store does not have yet."""
        parts = (
            stored.objects,
            stored.history,
            stored.spendings,
            stored.questions,
            stored.journal,
            stored.ended_actions,
        )
        return any(parts) or self.record is None or stored.process != self.record._replace(definition=None)

    def changes(self, process: AgentProcess) -> StoredProcess:
        """The new and changed records of a process between two actions.

        Raises `Unstorable` for a value that a store that outlives the program cannot keep.
        """
        first, state, outcome = self._objects, self._state(process), process.outcome
        value = outcome.value if isinstance(outcome, Completed) else None
        history = process.progress.history[self._invocations :]
        if self._codec is not None:
            for place, each in enumerate(history):
                if each.steps:
                    kept = tuple(step for step in each.steps if self._written(process, each.action, *step[:2], step))
                    history[place] = replace(each, steps=kept)
        ended, steps = self._new_steps(process)
        stored = StoredProcess(
            record_of(process, state, None if value is None else self._number_of(value)),
            [ObjectRecord(first + place, each.value, each.kind) for place, each in enumerate(self._entries[first:])],
            history,
            _own_spendings(process)[self._spendings :],
            [
                QuestionRecord(number, *_ASKED(each))
                for number, each in enumerate(process.questions)
                if self._questions.get(each.id) != each.status
            ],
            steps,
            history_from=self._invocations,
            spendings_from=self._spendings,
            ended_actions=ended,
        )
        return stored if self._codec is None else encoded(stored, self._codec)

    def steps(self, process: AgentProcess) -> StoredProcess:
        """The steps and costs of running actions that the store does not have yet.

        A step that cannot be serialized is omitted: after a crash it is run again.
        """
        ended, steps = self._new_steps(process)
        spendings = _own_spendings(process)[self._spendings :]
        record = record_of(process)._replace(definition=None)
        stored = StoredProcess(record, spendings=spendings, spendings_from=self._spendings, ended_actions=ended)
        if self._codec is None:
            return stored._replace(journal=steps)
        journal = [
            each._replace(value=data)
            for each in steps
            for data in self._written(process, each.action, each.kind, each.name, each.value)
        ]
        return encoded(stored, self._codec)._replace(journal=journal)

    def ending(self, process: AgentProcess, reason: str) -> StoredProcess:
        """The final records of a stored process whose end cannot be serialized; `reason` says so."""
        outcome = Terminated(reason)
        state = replace(_end_state(process), outcome=outcome, failure=None, given=self._given)
        record = record_of(process, state)._replace(status=outcome.status, ended=True, final=True, definition=None)
        stored = StoredProcess(record, ended_actions=tuple(self._steps), whole=False)
        return stored if self._codec is None else encoded(stored, self._codec)

    def _written(self, process: AgentProcess, action: str, kind: str, name: str, value: object) -> Sequence[Json]:
        """A step of an action as JSON data, in a list; an empty list if it cannot be serialized."""
        key = action, kind, name
        try:
            return [] if key in self._unwritable else [cast("Codec", self._codec).encode(value)]
        except Unstorable as error:
            self._unwritable.add(key)
            _log.info("Process %s: a step of %s is not stored: %s", process.id, action, error)
            return []

    def _new_steps(self, process: AgentProcess) -> tuple[Sequence[str], Sequence[JournalRecord]]:
        """The actions whose stored steps are to be deleted, and the steps that the store lacks afterwards."""
        journals = process.progress.journals
        if not journals and not self._steps:
            return (), ()
        taken = {action: {step[:2]: step for step in journal.steps} for action, journal in journals.items()}
        ended = [action for action, known in self._steps.items() if not known <= taken.get(action, {}).keys()]
        new = [
            (action, *step)
            for action, steps in taken.items()
            for key, step in steps.items()
            if action in ended or key not in self._steps.get(action, ())
        ]
        return ended, [
            JournalRecord(number, action, kind, name, value.id if isinstance(value, Question | AgentProcess) else value)
            for number, (action, kind, name, value) in enumerate(new, start=self._next_step)
        ]

    def _state(self, process: AgentProcess) -> ProcessState:
        board, progress, number = process.blackboard.state, process.progress, self._number
        entries = self._on_board.of(board.entries, number)
        hidden = self._hidden.of(tuple(map(board.entries.__getitem__, board.hidden)), number) if board.hidden else ()
        if process.platform.keep_journals and self.record is None and not progress.begun:
            named = {name: number(each) for name, each in board.names.items() if name != DEFAULT_BINDING}
            self._given = {"": len(board.entries), **named}
        return replace(
            _end_state(process),
            entries=entries,
            names={name: number(each) for name, each in board.names.items()},
            hidden=Ranges(hidden) if hidden else _NO_NUMBERS,
            protected=board.protected,
            conditions=board.conditions,
            last_entry=None if board.last_entry is None else number(board.last_entry),
            results={name: self._number_of(each) for name, each in progress.results.items() if each is not None},
            triggers={action: number(entry) for action, entry in progress.triggers.items()},
            parked={action: child.id for action, child in progress.parked.items()},
            waits_for={name: tuple(each.id for each in on.waits_for) for name, on in progress.journals.items()},
            spendings=len(_own_spendings(process)),
            given=self._given,
        )

    def _number(self, entry: Entry) -> int:
        number = self._numbers.get(id(entry))
        if number is None:
            number = self._numbers[id(entry)] = len(self._entries)
            self._entries.append(entry)
            self._of_value.setdefault(id(entry.value), number)
        return number

    def _number_of(self, value: object) -> int:
        number = self._of_value.get(id(value))
        return self._number(Entry(value)) if number is None else number


def summary_of(process: AgentProcess) -> StoredProcess:
    """What a store in memory keeps of a process that is over: its end, its history and its costs."""
    outcome = process.outcome
    result = [ObjectRecord(0, outcome.value)] if isinstance(outcome, Completed) else ()
    record = record_of(process, _end_state(process), 0 if result else None)
    return StoredProcess(record, result, process.progress.history, _own_spendings(process), whole=False)


def _end_state(process: AgentProcess) -> ProcessState:
    """The state of a process without its objects and without what it waits for."""
    outcome = process.outcome  # results and questions have records of their own
    if isinstance(outcome, Completed | Waiting):
        outcome = _COMPLETED if isinstance(outcome, Completed) else Waiting(())
    return ProcessState(
        goals=process.goals,
        goal=process.goal.name if process.goal is not None else "",
        plan=process.plan,
        started_by=process.started_by,
        stepped=process.stepped,
        outcome=outcome,
        end_requested=process.end_requested,
        failure=process.failure,
        progress=process.progress.state,
        unsettled=dict(process.ledger.unsettled),
        trace=dict(process.trace) if process.trace else _NOTHING,
        turn_start=None if process.turn_start is FIRST_TURN else process.turn_start,
    )


def _own_spendings(process: AgentProcess) -> list[Spending]:
    entries = process.ledger.entries
    return [each for each in entries if each.process_id == process.id] if entries else []


def record_of(process: AgentProcess, state: ProcessState | None = None, result: int | None = None) -> ProcessRecord:
    """The record of a process; without `state` it only shows the current status, and cannot be stored."""
    status, finished_at, options = process.status, process.finished_at, process.options
    if status is ProcessStatus.NOT_STARTED and process.driven:
        status = ProcessStatus.RUNNING  # which it will be once this is stored
    if options.blackboard is not None:
        options = replace(options, blackboard=None)
    return ProcessRecord(
        id=process.id,
        root=process.root.id,
        parent="" if process.parent is None else process.parent.id,
        agent=process.agent.name,
        # Whether a caller is an admin is checked again at each request.
        caller=replace(process.caller, admin=False) if process.caller.admin else process.caller,
        status=status,
        ended=status.ended,
        final=process.over,
        created_at=process.created_at,
        finished_at=finished_at,
        long=options.keep_events
        or bool(process.questions)
        or not process.scope.long_goals.isdisjoint(process.goals)
        or (finished_at is not None and (finished_at - process.created_at).total_seconds() >= _LONG),
        result=result,
        seconds_run=process.seconds_run,
        definition=Definition(process.scope, options, process.groups),
        state=state,
    )


def report_not_stored(process: AgentProcess, error: Exception) -> None:
    """Report in the log and as an event that a process is kept in memory only, and why; the process goes on.

    The same reason is not reported again until the process was stored.
    """
    expected = isinstance(error, StoreError | Unstorable)
    reason = str(error) if expected else f"Unexpected {type(error).__name__}; the log has the traceback."
    if process.not_stored == reason:
        return
    process.not_stored = reason
    _log.warning("Process %s is kept in memory only: %s", process.id, reason, exc_info=None if expected else error)
    process.emit(ProcessNotStored(reason, process_id=process.id))


class FamilyRecords:
    """The unstored records of the processes in this program's memory.

    Parameters: `write` and `make` serialize and restore what processes run with. `seals` encrypts their secrets.
    `durable`: the store outlives the program, so that records have to be JSON data.
    """

    def __init__(self, write: Write, make: Make, seals: Seals | None, *, durable: bool) -> None:
        self._write, self._make, self._seals, self._durable = write, make, seals, durable
        self.types = StoredTypes()
        """The classes of stored objects, as they were when found; another `StoredTypes` looks them up again."""
        self._recorders: WeakKeyDictionary[AgentProcess, Recorder] = WeakKeyDictionary()
        self.unwritable: WeakSet[AgentProcess] = WeakSet()
        """The processes whose current state cannot be serialized."""

    def codec(self, process_id: str) -> Codec:
        """The codec for the values of a process."""
        return Codec(self.types, seal=None if self._seals is None else self._seals.of(process_id))

    def stored(self, process: AgentProcess) -> bool:
        """Whether the store has records of a process."""
        recorder = self._recorders.get(process)
        return recorder is not None and recorder.record is not None

    def restored(self, records: Sequence[StoredProcess], known: Mapping[str, AgentProcess]) -> Sequence[AgentProcess]:
        """The processes of a family as their records say; objects in `known` are updated.

        Raises `Unreadable` for records that today's classes cannot take.
        """
        codecs = [self.codec(each.process.id) if self._durable else None for each in records]
        family = [each if by is None else decoded(each, by) for each, by in zip(records, codecs, strict=True)]
        processes: dict[str, AgentProcess] = {}
        recorders: dict[AgentProcess, Recorder] = {}
        for each, by in zip(family, codecs, strict=True):
            process = known.get(each.process.id)
            if process is None:
                process = self._make(each.process, processes.get(each.process.parent), Codec(self.types))
            else:
                process.progress, process.questions = ActionProgress(process.id), Questions()
                process.usage, process.ledger = NOTHING, Ledger()
                process.children.clear()
                if process.parent is not None:
                    process.parent.children.append(process)
            processes[process.id] = process
            recorders[process] = Recorder(by, each, _restore(process, each), _state(each).given)
        for each in reversed(family):  # children first: the state of a parent depends on them
            _restore_rest(processes[each.process.id], each, processes)
            # The last status of its sub-processes may not have been stored with it.
            processes[each.process.id].follow_children()
        settled = [each.spendings[: _state(each).spendings] for each in family]
        unsettled = [each.spendings[len(before) :] for each, before in zip(family, settled, strict=True)]
        for spendings in (settled, unsettled):  # in the order of spending
            arose = cast("Iterable[Spending]", chain.from_iterable(spendings))
            for each in sorted(arose, key=lambda spending: spending.at):
                processes[each.process_id].charge(each)
            for each in family if spendings is settled else ():
                processes[each.process.id].ledger.unsettled = dict(_state(each).unsettled)
        self._recorders.update(recorders)
        return list(recorders)

    def forget(self, root: AgentProcess) -> None:
        """Record a family from its beginning again, because the store has dropped it."""
        for each in root.subtree:
            self._recorders.pop(each, None)

    def changes(self, process: AgentProcess, *, with_these: Collection[AgentProcess] = ()) -> StoredProcess:
        """The records of a process between two actions; stored together with `with_these`. Raises `Unstorable`."""
        recorder = self._recorders.get(process)
        if recorder is None:
            recorder = self._recorders[process] = Recorder(self.codec(process.id) if self._durable else None)
        stored = recorder.changes(process)
        if self._durable:
            written = None if recorder.record is not None else self._write(process, Codec(self.types))
            stored = stored._replace(process=stored.process._replace(definition=written))
        return self._with_stored_children(process, stored, with_these)

    def steps(self, process: AgentProcess, *, with_these: Collection[AgentProcess] = ()) -> StoredProcess:
        """The new steps of running actions of a stored process, to be stored together with `with_these`."""
        return self._with_stored_children(process, self._recorders[process].steps(process), with_these)

    def _with_stored_children(
        self, process: AgentProcess, change: StoredProcess, with_these: Collection[AgentProcess]
    ) -> StoredProcess:
        """The change without steps of sub-processes that are neither stored yet nor stored with it."""
        missing = {each.id for each in process.children if each not in with_these and not self.stored(each)}
        if not missing:
            return change
        journal = [each for each in change.journal if each.kind != "child" or each.value not in missing]
        return change._replace(journal=journal)

    def checkpoint(self, process: AgentProcess) -> dict[AgentProcess, StoredProcess]:
        """The records of a process, with the steps of the action that started it if it is new. Raises `Unstorable`."""
        changes: dict[AgentProcess, StoredProcess] = {}
        parent = process.parent
        if parent is not None and not self.stored(process):
            changes[parent] = self.steps(parent, with_these=[process])
        changes[process] = self.changes(process)
        return {each: stored for each, stored in changes.items() if self._recorders[each].has_changes(stored)}

    def resting(self, root: AgentProcess) -> dict[AgentProcess, StoredProcess]:
        """The changed records of the processes of a family that nothing runs.

        If all are over and the store is in memory, only their ends. Raises `Unstorable` unless the family was stored.
        """
        family = root.subtree
        if not self._durable and not [each for each in family if not each.over]:
            return {each: summary_of(each) for each in family}
        changes: dict[AgentProcess, StoredProcess] = {}
        is_stored = self.stored(root)
        for each in family:
            if each.driven or each.options.ephemeral:
                continue
            try:
                stored = self.changes(each, with_these=() if is_stored else family)
            except Unstorable as error:
                if not is_stored:
                    raise
                report_not_stored(each, error)
                self.unwritable.add(each)
                if not each.over or self._recorders[each].record is None:
                    continue
                why = f"It ended as {each.status}, which cannot be stored: {error}"
                stored = self._recorders[each].ending(each, why)
            if self._recorders[each].has_changes(stored):
                changes[each] = stored
        return changes

    def confirm(self, process: AgentProcess, stored: StoredProcess) -> bool:
        """Note that the store has these records of a process. Returns whether this program may release the process."""
        process.not_stored = ""
        if not self._durable and not stored.whole:
            return True
        self._recorders[process].confirm(stored)
        return self.is_complete(process)

    def is_complete(self, process: AgentProcess) -> bool:
        """Whether a process that rests can be restored from its records without any loss for its followers."""
        missed = process.followed or any(journal.calls for journal in process.progress.journals.values())
        return (process.over or not missed) and process not in self.unwritable


def _state(stored: StoredProcess) -> ProcessState:
    return cast("ProcessState", stored.process.state)


def _restore(process: AgentProcess, stored: StoredProcess) -> Iterable[Entry]:
    """Restore the blackboard, the questions and the progress of a process. Returns all its objects, by number."""
    state, progress = _state(stored), process.progress
    open_questions = (each for each in stored.questions if each.status == "open")
    for action in (each.action for each in (*open_questions, *stored.journal)):
        if action not in process.scope.actions:
            fix = "Give it back its name: it waits for an answer, or is in its middle."
            raise Unreadable(process.agent.name, f"it has no action {action!r} any more.", fix)
    entries = {each.number: Entry(each.value, each.kind) for each in stored.objects}
    journaled = {each.value for each in stored.journal if each.kind in {"question", "approval"}}
    for each in stored.questions:
        wait, status = cast("WaitFor[Any]", each.wait), cast("QuestionStatus", each.status)
        if each.in_action and each.id not in journaled and isinstance(wait, UrlVisit):
            # The tool call that asked ended with its program, so no page calls back. A yes starts the call again.
            wait = replace(wait, calls_back=False)
        settled = status, each.answer, each.reason
        process.questions.append(
            Question(each.id, process.id, each.action, wait, each.in_action, each.asked_at, *settled)
        )
    if stored.whole:
        numbers = Ranges(state.entries).numbers
        hidden = frozenset(state.hidden.numbers) if isinstance(state.hidden, Ranges) else state.hidden
        board = BoardState(
            tuple(entries[number] for number in numbers),
            {name: entries[number] for name, number in state.names.items()},
            [place for place, number in enumerate(numbers) if number in hidden],
            state.protected,
            state.conditions,
            None if state.last_entry is None else entries[state.last_entry],
        )
        process.blackboard.restore(board)
    progress.history += cast("Sequence[ActionInvocation]", stored.history)
    progress.results = {name: entries[number].value for name, number in state.results.items() if number in entries}
    progress.triggers = {name: entries[number] for name, number in state.triggers.items() if number in entries}
    progress.restore(
        state.progress, ((each.action, cast("int", each.value)) for each in stored.journal if each.kind == "begun")
    )
    process.trace, process.turn_start = state.trace, state.turn_start or FIRST_TURN
    process.goal, process.plan = process.scope.goals.get(state.goal), tuple(state.plan)
    process.failure, process.action_end_unsaved, process.summarized = state.failure, False, not stored.whole
    process.seconds_before = stored.process.seconds_run
    return entries.values()


def _restore_rest(process: AgentProcess, stored: StoredProcess, family: Mapping[str, AgentProcess]) -> None:
    """Restore the journals of actions that are not over, and the status, which may depend on the family."""
    record, state, progress = stored.process, _state(stored), process.progress
    questions = {each.id: each for each in process.questions}
    for each in stored.journal:
        journal, value = progress.journals[each.action], cast("Any", each.value)
        kept: dict[str, dict[str, Any]]
        kept = {"reply": journal.replies, "result": journal.results, "message": journal.messages}
        if each.kind in kept:
            kept[each.kind][each.name] = value
        elif each.kind == "child":
            journal.children[each.name] = family[value]
        elif each.kind in {"question", "approval"}:  # kind `begun` was restored before
            journal.questions[each.name] = questions[value]
            journal.approvals += [each.name] if each.kind == "approval" else []
    for action, journal in progress.journals.items():
        journal.waits_for = [family[each] for each in state.waits_for.get(action, ()) if each in family]
    for action, child in state.parked.items():
        if child in family:  # a sub-process that could not be stored is started again
            progress.parked[action] = family[child]
    outcome = state.outcome
    if isinstance(outcome, Completed):
        outcome = Completed(next((each.value for each in stored.objects if each.number == record.result), None))
    elif isinstance(outcome, Waiting):
        outcome = Waiting(process.open_questions)
    process.status, process.outcome = ProcessStatus(record.status), outcome
    process.created_at, process.finished_at = record.created_at, record.finished_at
    process.end_requested, process.stepped, process.closing = state.end_requested, state.stepped, False
    if isinstance(outcome, Waiting) and not outcome.questions and not progress.parked:
        process.reopen()  # its sub-process could not be stored: the action begins again


async def kill_unreadable(store: ProcessStore, process_id: str, reason: str) -> bool:
    """Kill a family without its objects' classes, which cannot be read: its objects are lost, its history is kept.

    Returns False if another program runs it. Raises `StoreError`.
    """
    try:
        lease = await store.claim(process_id)
    except LeaseHeld:
        return False
    if lease is None:
        return True
    family, changes = (await store.family(process_id))[0], list[StoredProcess]()
    for each in family:
        if each.process.final:
            continue
        progress = ActionProgress[AgentProcess](each.process.id).state
        state = ProcessState((), "", (), "", False, Killed(reason), None, None, progress)
        record = each.process._replace(
            status=str(ProcessStatus.KILLED),
            ended=True,
            final=True,
            finished_at=datetime.now(UTC),
            result=None,
            definition=None,
            state=Codec(StoredTypes()).encode(state),
        )
        asked = [one._replace(status="withdrawn", reason=reason) for one in each.questions if one.status == "open"]
        ended = tuple({one.action for one in each.journal})
        changes.append(StoredProcess(record, questions=asked, ended_actions=ended, whole=False))
    await store.save(changes, lease, wake_at=None, release=True)
    return True
