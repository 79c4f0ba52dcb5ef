"""Running one action of a process: arguments, attempts and waits, and what its result does to the blackboard."""

import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import getLogger
from traceback import clear_frames
from typing import cast

import anyio

from goalport.blackboard import fits, matcher, related
from goalport.domain import Action, SomeOf, WaitFor, awaited, is_state, parts_of, promises_of
from goalport.errors import (
    BadInput,
    GoalportError,
    ModelError,
    NonRetryable,
    ProcessEnded,
    ReplanRequested,
    Signal,
    TerminateAgent,
    signal_in,
)
from goalport.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    ActionStatus,
    PlanRejected,
    StateEntered,
)
from goalport.observe.spans import action_span, note_failure, note_spent
from goalport.process.agent_process import AgentProcess
from goalport.process.arguments import fill
from goalport.process.context import ActionContext
from goalport.process.journal import Parked
from goalport.process.outcome import Failed
from goalport.process.posing import pose, withdraw
from goalport.process.progress import ActionInvocation
from goalport.secrecy import hide
from goalport.tools import Tool, ToolGroupRequirement, ToolResult
from goalport.words import type_name, with_article

__all__ = ["as_declared", "in_words", "invoke", "invoke_all", "leave_out", "take", "told"]

_log = getLogger(__name__)
_HALF = 300
"""Characters of a failure's beginning, and of its end, that are told."""
_SOME_KINDS = 3
"""How many of the classes in a collection are told of."""


async def invoke_all(process: AgentProcess, actions: Sequence[Action]) -> Failed | None:
    """Run an action, or several at once. A failure of one leaves the others alone, unless it ends the process."""
    if len(actions) == 1:
        return await invoke(process, actions[0])
    ends: list[Failed | None] = []

    async def one(action: Action) -> None:
        ends.append(await invoke(process, action))

    async with anyio.create_task_group() as tasks:
        for action in actions:
            tasks.start_soon(one, action)
    return next((end for end in ends if end is not None), None)


async def invoke(process: AgentProcess, action: Action) -> Failed | None:
    """Run an action and note what came of it; one that fails for good is left out of later plans.

    A mistake of the caller is not planned around: it is the end of the process, which is returned.
    """
    progress = process.progress
    number, planned = len(progress.history) + 1, len(progress.history) + len(process.plan)
    progress.begin(action.name)
    if process.listeners.attentive:
        process.emit(ActionStarted(action.name, number, planned, process_id=process.id))
    started_at, start = datetime.now(UTC), time.perf_counter()
    try:
        end = await (_traced(process, action) if process.traced else _end(process, action))
    except Parked:
        # Who has been answered meanwhile wakes nobody any more: then the action just begins again.
        child = next((each for each in progress.journals[action.name].waits_for if not each.status.ended), None)
        if child is not None:
            progress.park(action.name, child)
        return None
    _forget(process, action)
    words = end.words(process)
    seconds = time.perf_counter() - start
    progress.record(
        ActionInvocation(action.name, started_at, seconds, end.status, words, process.ledger.settle(action.name))
    )
    _note(process, action, end, words)
    if process.listeners.attentive:
        number = len(progress.history)
        told = ActionFinished(action.name, number, planned, end.status, seconds, words, process_id=process.id)
        process.emit(told)
    return Failed(hide(str(end.error)), caller_mistake=True) if isinstance(end.error, BadInput) else None


@dataclass(frozen=True, slots=True)
class _End:
    """What came of an action."""

    status: ActionStatus
    result: object = None
    error: Exception | None = None

    def words(self, process: AgentProcess) -> str | None:
        if self.error is None:
            return None
        return self.error.reason if isinstance(self.error, Signal) else told(process, self.error)


async def _traced(process: AgentProcess, action: Action) -> _End:
    with action_span(action.name, agent=process.agent.name, process_id=process.id) as span:
        end = await _end(process, action)
        span.set_attribute("goalport.action.status", end.status)
        note_spent(span, process.ledger.unsettled(action.name).spent)
        if end.error is not None and not isinstance(end.error, Signal):
            note_failure(span, end.error)
    return end


async def _end(process: AgentProcess, action: Action) -> _End:
    try:
        result = as_declared(action, await _attempt(process, action))
    except Signal as signal:
        return _End("replanned" if isinstance(signal, ReplanRequested) else "terminated", error=signal)
    except Exception as failure:
        if isinstance(failure, ModelError):
            _log.info("Process %s: %s failed and is left out: %s", process.id, action.name, in_words(failure))
            _log.debug("Where the model failed:", exc_info=True)
        elif not isinstance(failure, BadInput):
            _log.info("Process %s: %s failed and is left out.", process.id, action.name, exc_info=True)
        return _End("failed", error=failure)
    result = None if _is_empty(result) else result
    return _End("declined" if _declined(action, result) else "succeeded", result)


def _note(process: AgentProcess, action: Action, end: _End, words: str | None) -> None:
    match end.error:
        case None:
            _take(process, action, end.result)
        case ReplanRequested():
            _reject(process, action, end.error)
        case TerminateAgent(reason=reason):
            process.terminate(reason)
        case Signal(reason=reason) if action.name in process.scope.goals and not action.outputs.exits:
            # Having run is all that such a goal wants, and this must not pass for it.
            process.progress.leave_out(action.name, f"{action.name} ended early: {reason}")
        case Signal():
            take(process, action, None)
        case _:
            leave_out(process, action, words or "", end.error)


def leave_out(process: AgentProcess, action: Action, words: str, error: BaseException | None) -> None:
    """Note that an action has failed for good."""
    _take_back_promises(process, action)
    process.progress.leave_out(action.name, f"{action.name} failed: {words}")
    process.fail(words, action.name, error)
    if process.failure is not None and process.failure.error is not None:
        clear_frames(process.failure.error.__traceback__)  # it tells lines, and must not keep what the action held


def _reject(process: AgentProcess, action: Action, wanted: ReplanRequested) -> None:
    """Do what a request for another plan wants, and leave its action out of the next one."""
    for value in wanted.objects:
        process.blackboard.add(value)
    for name, value in wanted.update.items():
        process.blackboard.bind(name, value)
    process.progress.skip(action.name)
    process.emit(PlanRejected(action.name, wanted.reason, process_id=process.id))


def _forget(process: AgentProcess, action: Action) -> None:
    """An action that is over starts its processes anew when it runs again; those that still wait, wait in vain."""
    process.progress.end(action.name).close(f"{action.name} is over, which had started it.")
    for question in process.questions.open:
        if question.in_action and question.action == action.name:
            withdraw(process, question)


def told(process: AgentProcess, error: BaseException) -> str:
    """What is told of a failure outside of the log.

    Errors of goalport are made for people. What any other says is told where whoever wrote the code looks at the
    process; to others, its class and where the log has it.
    """
    if process.services.tells_errors or isinstance(error, GoalportError):
        return in_words(error)
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return "; ".join(told(process, each) for each in inner)[: 2 * _HALF]
    return f"{type(error).__name__} (the server's log has it, under process {process.id})"


def in_words(error: BaseException) -> str:
    """A failure in one line, without a traceback or a secret and of bounded length: its beginning and its end."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(in_words, cast("BaseExceptionGroup[BaseException]", error).exceptions))[: 2 * _HALF]
    text = hide(" ".join(str(error.reason if isinstance(error, ProcessEnded) else error).split()))
    name = type(error).__name__
    # What models fail at is told in sentences made for people.
    words = text if text and isinstance(error, ModelError) else f"{name}: {text}" if text else name
    return words if len(words) <= 2 * _HALF else f"{words[:_HALF]} … {words[-_HALF:]}"


async def _attempt(process: AgentProcess, action: Action) -> object:
    policy = action.settings.retry or process.services.retry
    for attempt, delay in enumerate(policy.delays(), start=1):
        try:
            return await _once(process, action)
        except Exception as error:
            if isinstance(error, Signal) or not policy.retries(error):
                raise
            _take_back_promises(process, action)
            process.emit(ActionRetried(action.name, attempt, delay, told(process, error), process_id=process.id))
            for question in process.progress.journals[action.name].forget_work():
                withdraw(process, question)
            await anyio.sleep(delay)
    return await _once(process, action)


def _take_back_promises(process: AgentProcess, action: Action) -> None:
    """What an action promises does not hold when it has failed, whatever it said, or brought about before."""
    for condition, value in promises_of(action.settings.post).items():
        if value and process.blackboard.get_condition(condition):
            process.blackboard.set_condition(condition, False)


def _is_parking(end: BaseException | None) -> bool:
    """Whether this is what came of having to wait, as far as the action's code let it through."""
    while end is not None:
        if isinstance(end, Parked):
            return True
        if isinstance(end, BaseExceptionGroup) and cast("BaseExceptionGroup[BaseException]", end).subgroup(Parked):
            return True
        end = end.__cause__ or end.__context__
    return False


async def _once(process: AgentProcess, action: Action) -> object:
    context = ActionContext(process, _tools(process, action), action.name)
    process.blackboard.stated.clear()
    process.progress.decline(action.name, "")
    with _parking(context), context.active():
        return await context.call(action.function, **fill(action.parameters, action.owner, context))


@contextmanager
def _parking(context: ActionContext) -> Generator[None]:
    """Once an attempt has come to where it has to wait, it ends with that, whatever its code makes of it.

    A failure of something else that it did at the same time goes before.
    """
    context.journal.begin()
    try:
        yield
    except BaseException as end:
        signal = signal_in(end)
        if isinstance(signal, TerminateAgent) or not _is_parking(end):
            if signal is None or signal is end:
                raise
            raise signal from end
        if not context.journal.parked:
            raise NonRetryable("It kept an earlier attempt's wait for an answer. Ask anew in each attempt.") from None
    if context.journal.parked:
        context.abandon()
        raise Parked


def _tools(process: AgentProcess, action: Action) -> list[Tool]:
    groups = process.services.groups
    for role in action.roles:
        if groups.find(role) is None:
            why = groups.unmet(ToolGroupRequirement(role))
            _log.warning("%s runs without the tool group %r. %s", action.name, role, why)
    found = [tool for _, tool in groups.tools_of(action.roles)]
    seconds = process.options.tool_delay
    return [_slowed(each, seconds) for each in found] if seconds > 0 else found


def _slowed(tool: Tool, seconds: float) -> Tool:
    async def after_a_pause(inside: Tool, arguments: Mapping[str, object]) -> ToolResult:
        await anyio.sleep(seconds)
        return await inside.call(arguments)

    return tool.with_layer(after_a_pause)


def _open_states(process: AgentProcess) -> list[object]:
    """The states that are visible, each once: one that was stayed in has been put on the blackboard again."""
    return list({id(each): each for each in process.blackboard.objects if is_state(type(each))}.values())


def _enter(process: AgentProcess, entered: object, before: list[object]) -> None:
    """Hide the states that were open; one that leads to itself stays as it is, which is no transition."""
    left = [each for each in before if each is not entered]
    for each in _open_states(process):
        if each is not entered:
            process.blackboard.hide(each)
    if process.listeners.attentive and (left or not before):
        names = tuple(type(each).__name__ for each in left)
        process.emit(StateEntered(type(entered).__name__, names, process_id=process.id))


def ask(process: AgentProcess, action: Action, wait: WaitFor[object]) -> None:
    """Note a question; the process goes on with what does not need the answer."""
    process.blackboard.last_entry = None
    pose(process, action.name, wait)


def as_declared(action: Action, result: object) -> object:
    """What an action or an answer gave, if that is what the action declares. Raises `NonRetryable`."""
    declared = action.outputs.type
    if result is None or (declared is not None and matcher(declared)(result)):
        return result
    if action.outputs.may_wait and isinstance(result, WaitFor):
        wait = cast("WaitFor[object]", result)
        comes = awaited(wait)
        if comes is None or related(comes, declared):
            return wait
        came = f"it waits for {with_article(comes)}"
    else:
        came = f"it returned {with_article(_kind_in_words(result))}"
    raise NonRetryable(
        f"{action.origin} declares that it returns {type_name(declared)}, but {came}."
        f" Correct the annotation or the return value."
    )


def _kind_in_words(result: object) -> str:
    kind = type(result).__name__
    held = cast("Collection[object]", result) if isinstance(result, (list, tuple, set, frozenset)) else ()
    inside = list(dict.fromkeys(type(each).__name__ for each in held))[:_SOME_KINDS]
    return f"{kind}{' of ' if inside else ''}{' and '.join(inside)}"


def _is_empty(result: object) -> bool:
    return isinstance(result, SomeOf) and next(parts_of(result), None) is None


def _declined(action: Action, result: object) -> bool:
    return result is None and bool(action.outputs.exits)


def _take(process: AgentProcess, action: Action, result: object) -> None:
    if isinstance(result, WaitFor) and process.options.ephemeral:
        leave_out(process, action, "an ephemeral process cannot ask people: nobody would find it.", None)
    elif isinstance(result, WaitFor):
        ask(process, action, cast("WaitFor[object]", result))
    else:
        take(process, action, result)


def take(process: AgentProcess, action: Action, result: object, kind: object = None) -> None:
    """Note that an action has run, and put what it gave on the blackboard, as the type that was promised of it.

    That is what the action declares, unless `kind` says it more closely.
    """
    blackboard = process.blackboard
    process.progress.complete(action.name, result)
    before = _open_states(process) if is_state(type(result)) else []
    if not _declined(action, result):
        _keep_promises(process, action)
    if is_state(type(result)):
        _enter(process, result, before)
    if result is None:
        blackboard.last_entry = None
        return
    declared = action.outputs.type
    blackboard.declare(action.output_binding, result, kind if kind is not None and fits(kind, declared) else declared)
    for part, promised in parts_of(result):
        blackboard.declare(action.output_binding, part, promised)


def _keep_promises(process: AgentProcess, action: Action) -> None:
    blackboard = process.blackboard
    # What the action itself said of a condition counts; saying nothing means that it did what it promises.
    said = process.scope.conditions.keys() | blackboard.stated
    if action.settings.clear_blackboard:
        blackboard.clear()
        process.progress.start_anew()
    for condition, value in promises_of(action.settings.post).items():
        if condition not in said:
            blackboard.set_condition(condition, value)
