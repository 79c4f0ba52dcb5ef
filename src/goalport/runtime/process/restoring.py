"""Makes processes of their records again: new ones, or those that live in the program, as another program left them.

Above: the repository, which has the records.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from types import MappingProxyType
from typing import Any, cast

from goalport.agents.blackboard import BoardState, Entry
from goalport.agents.domain import WaitFor
from goalport.agents.domain.wait_for import UrlVisit
from goalport.base.errors import LeaseHeld, Unreadable
from goalport.models.llm import AssistantMessage, ModelReply
from goalport.runtime.process.action_progress import ActionInvocation, ActionProgress
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.ledger import Spending
from goalport.runtime.process.lifecycle import Completed, Killed, ProcessStatus, Waiting
from goalport.runtime.process.questions import Question, QuestionStatus
from goalport.runtime.process.recording import ProcessState, Ranges, Recorder
from goalport.store import (
    Codec,
    ProcessRecord,
    ProcessStore,
    StoredProcess,
    StoredTypes,
    decoded,
)
from goalport.tools import ToolResult


def restored(
    records: Sequence[StoredProcess],
    make: Callable[[ProcessRecord, AgentProcess | None], AgentProcess],
    codec: Callable[[str], Codec | None] = lambda _: None,
    known: Mapping[str, AgentProcess] = MappingProxyType({}),
) -> dict[AgentProcess, Recorder]:
    """The processes of a family, each with its recorder.

    `make` gives a new process for a record and its parent, `codec` what reads and writes the values of a process by its
    id. Processes that are `known` are changed to what the records say. Raises `Unreadable` for records that today's
    classes cannot take.
    """
    codecs = [codec(each.process.id) for each in records]
    family = [each if by is None else decoded(each, by) for each, by in zip(records, codecs, strict=True)]
    processes: dict[str, AgentProcess] = {}
    recorders: dict[AgentProcess, Recorder] = {}
    for each, by in zip(family, codecs, strict=True):
        process = known.get(each.process.id)
        if process is None:
            process = make(each.process, processes.get(each.process.parent))
        else:
            process.forget()
        processes[process.id], recorders[process] = process, _restore(process, each, by)
    for each in reversed(family):  # what a process waits for is read off those that it started
        _restore_journals(processes[each.process.id], each, processes)
        _stand(processes[each.process.id], each)
        processes[each.process.id].follow_children()  # perhaps it was not stored any more how those it waits for stand
    settled = [each.spendings[: _state(each).spendings] for each in family]
    _charge(processes, settled)
    for each in family:
        processes[each.process.id].ledger.restore_unsettled(_state(each).unsettled)
    _charge(processes, [each.spendings[len(before) :] for each, before in zip(family, settled, strict=True)])
    return recorders


def _charge(processes: Mapping[str, AgentProcess], spendings: Iterable[Sequence[object]]) -> None:
    """Charge the costs of the processes of a family in the order in which they arose."""
    for each in sorted(cast("Iterable[Spending]", chain.from_iterable(spendings)), key=lambda spending: spending.at):
        processes[each.process_id].charge(each)


def _state(stored: StoredProcess) -> ProcessState:
    return cast("ProcessState", stored.process.state)


def _restore(process: AgentProcess, stored: StoredProcess, codec: Codec | None) -> Recorder:
    state = _state(stored)
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
            # A call asked it that has ended with its program, so its page calls nobody back. A yes makes the call anew.
            wait = replace(wait, calls_back=False)
        settled = status, each.answer, each.reason
        process.questions.restore(
            Question(each.id, process.id, each.action, wait, each.in_action, each.asked_at, *settled)
        )
    for each in stored.history:
        process.progress.record(cast("ActionInvocation", each))
    if stored.whole:
        numbers = [number for first, end in state.entries for number in range(first, end)]
        hidden = state.hidden.numbers if isinstance(state.hidden, Ranges) else state.hidden
        board = BoardState(
            tuple(entries[number] for number in numbers),
            {name: entries[number] for name, number in state.names.items()},
            [place for place, number in enumerate(numbers) if number in hidden],
            state.protected,
            state.conditions,
            None if state.last_entry is None else entries[state.last_entry],
        )
        process.blackboard.restore(board)
    results = {action: entries[number].value for action, number in state.results.items() if number in entries}
    triggers = {action: entries[number] for action, number in state.triggers.items() if number in entries}
    process.progress.restore(state.progress, results, triggers)
    for each in stored.journal:
        if each.kind == "begun":
            process.progress.restore_begun(each.action, cast("int", each.value))
    seconds, summarized = stored.process.seconds_run, not stored.whole
    process.restore(
        state.goal,
        state.plan,
        state.failure,
        seconds,
        trace=state.trace,
        turn_start=state.turn_start,
        summarized=summarized,
    )
    return Recorder.after(stored, entries.values(), codec, state.given)


def _stand(process: AgentProcess, stored: StoredProcess) -> None:
    record, state = stored.process, _state(stored)
    outcome = state.outcome
    if isinstance(outcome, Completed):
        outcome = Completed(next((each.value for each in stored.objects if each.number == record.result), None))
    elif isinstance(outcome, Waiting):
        outcome = Waiting(process.open_questions)
    process.restore_status(
        ProcessStatus(record.status),
        outcome,
        created_at=record.created_at,
        finished_at=record.finished_at,
        end_requested=state.end_requested,
        stepped=state.stepped,
    )
    if isinstance(outcome, Waiting) and not outcome.questions and not process.progress.parked:
        process.reopen()  # the sub-process that it waited for could not be stored: its action begins anew


def _restore_journals(process: AgentProcess, stored: StoredProcess, family: Mapping[str, AgentProcess]) -> None:
    """Give the actions that are not over what they did: replies, results, questions, and the processes they started."""
    state, progress = _state(stored), process.progress
    questions = {each.id: each for each in process.questions}
    for each in stored.journal:
        journal = progress.journals[each.action]
        match each.kind:
            case "reply":
                journal.note_reply(each.name, cast("ModelReply", each.value))
            case "result":
                journal.note_result(each.name, cast("ToolResult", each.value))
            case "message":
                journal.note_message(each.name, cast("AssistantMessage", each.value))
            case "begun":
                pass
            case "child":
                journal.note_child(each.name, family[cast("str", each.value)])
            case _:
                question = questions[cast("str", each.value)]
                journal.note_question(each.name, question, approval=each.kind == "approval")
    for action, journal in progress.journals.items():
        journal.restore([family[each] for each in state.waits_for.get(action, ()) if each in family])
    for action, child in state.parked.items():
        if child in family:  # one that could not be stored is begun anew
            progress.park(action, family[child])


async def kill_unreadable(store: ProcessStore, process_id: str, reason: str) -> bool:
    """End the family of a process without the classes of its objects, which are lost to it then.

    Returns False if another program runs it. Raises `StoreError`.
    """
    try:
        lease = await store.claim(process_id)
    except LeaseHeld:
        return False
    if lease is not None:
        family, _ = await store.family(process_id)
        changes = [_killed(each, reason) for each in family if not each.process.final]
        await store.save(changes, lease, wake_at=None, release=True)
    return True


def _killed(stored: StoredProcess, reason: str) -> StoredProcess:
    """The change that ends a process of which only the records are known; its history is kept."""
    state = ProcessState(
        goals=(),
        goal="",
        plan=(),
        started_by="",
        stepped=False,
        outcome=Killed(reason),
        end_requested=None,
        failure=None,
        progress=ActionProgress[AgentProcess](stored.process.id).state,
    )
    record = stored.process._replace(
        status=str(ProcessStatus.KILLED),
        ended=True,
        final=True,
        finished_at=datetime.now(UTC),
        result=None,
        definition=None,
        state=Codec(StoredTypes()).encode(state),
    )
    questions = [each._replace(status="withdrawn", reason=reason) for each in stored.questions if each.status == "open"]
    over = tuple({each.action for each in stored.journal})
    return StoredProcess(record, questions=questions, over=over, whole=False)
