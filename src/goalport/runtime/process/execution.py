"""Runs one action of a process: its arguments, its attempts and waits, and its result.

Below: `effects`, which applies the result to the process. Above: `tick`, which decides which actions run.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from logging import ERROR, INFO, getLogger
from types import TracebackType
from typing import NamedTuple, cast

import anyio

from goalport.agents.domain import Action, SomeOf, WaitFor, parts_of
from goalport.agents.domain.expressions import AccessDenied
from goalport.base.errors import (
    BadInput,
    ModelError,
    NonRetryable,
    ProcessFailed,
    ReplanRequested,
    Signal,
    TerminateAgent,
    causes,
    leaves,
    signal_in,
)
from goalport.base.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    ActionStatus,
    PlanRejected,
)
from goalport.base.observe.spans import action_span, note_end, note_failure
from goalport.base.secrecy import hide
from goalport.base.words import message_of
from goalport.runtime.process.action_progress import ActionInvocation, in_words
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.attempt import ActionOperation
from goalport.runtime.process.context import ActionContext
from goalport.runtime.process.effects import apply_result, as_declared, gave_nothing, leave_out, retract_post_conditions
from goalport.runtime.process.journal import Parked
from goalport.runtime.process.lifecycle import Failed
from goalport.runtime.process.parameters import fill
from goalport.runtime.process.sizes import estimated_size
from goalport.tools import Tool, ToolGroupRequirement, ToolResult

_log = getLogger(__name__)


async def invoke_all(process: AgentProcess, actions: Sequence[Action]) -> Failed | None:
    """Run several actions at once. A failure of one does not affect the others, unless it ends the process."""
    ends: list[Failed | None] = []

    async def one(action: Action) -> None:
        ends.append(await invoke(process, action))

    async with anyio.create_task_group() as tasks:
        for action in actions:
            tasks.start_soon(one, action)
    return next((end for end in ends if end is not None), None)


async def invoke(process: AgentProcess, action: Action) -> Failed | None:
    """Run an action and note the result; one that fails for good is left out of later plans.

    A mistake of the caller does not lead to another plan: it ends the process with the returned outcome.
    """
    progress = process.progress
    number, planned = len(progress.history) + 1, len(progress.history) + len(process.plan)
    if process.durable:
        await process.checkpoint(late=True)
    progress.begin(action.name)
    if not action.settings.repeatable:
        progress.journals[action.name].note_begun()
        await process.store_steps()
    if process.listeners.attentive:
        process.emit(ActionStarted(action.name, number, planned, process_id=process.id))
    started_at, start = datetime.now(UTC), time.perf_counter()
    process.begin_action()
    try:
        if not process.traced:
            end = await _run(process, action)
        else:
            with action_span(action.name, agent=process.agent.name, process_id=process.id) as span:
                end = await _run(process, action)
                note_end(span, "action", end.status, process.ledger.unsettled(action.name).spent)
                if end.error is not None and not isinstance(end.error, Signal):
                    note_failure(span, end.error)
    except Parked:
        # A child that was answered meanwhile will not wake this action: then the action just begins again.
        child = next((each for each in progress.journals[action.name].waits_for if not each.status.ended), None)
        if child is not None:
            progress.park(action.name, child)
        # What has triggered it is kept, so that no other action reacts to that.
        progress.journals[action.name].rest()
        if action.settings.trigger is not None and process.blackboard.last_entry is not None:
            progress.keep_trigger(action.name, process.blackboard.last_entry)
            process.blackboard.clear_last_result()
        await process.checkpoint()
        return None
    finally:
        process.end_action()
    await _conclude(process, action, end, planned, started_at, time.perf_counter() - start)
    mistake = _mistake_in(end.error)
    return None if mistake is None else Failed(hide(message_of(mistake)), caller_mistake=True)


async def _conclude(
    process: AgentProcess, action: Action, end: "_End", planned: int, started_at: datetime, seconds: float
) -> None:
    """Note how an action ended that is over, change the process as its end demands, and store that."""
    progress = process.progress
    journal = progress.journals[action.name]
    attempts, steps = journal.attempts, journal.kept_steps if process.platform.keep_journals else ()
    missing = tuple(journal.missing.values())
    progress.end(action.name).close(f"{action.name} is over, which had started it.")
    for question in process.questions.open:
        if question.in_action and question.action == action.name:
            process.withdraw_question(question)
    cost, words = process.ledger.settle(action.name), None
    if end.error is not None:
        words = end.error.reason if isinstance(end.error, Signal) else process.words_for(end.error)
    progress.record(
        ActionInvocation(action.name, started_at, seconds, end.status, words, cost, attempts, steps, missing)
    )
    _apply(process, action, end, words)
    if process.listeners.attentive:
        number = len(progress.history)
        process.emit(ActionFinished(action.name, number, planned, end.status, seconds, words, process_id=process.id))
    if process.durable:  # the end of the goal's action is probably that of the process, with which it is stored
        at_goal = process.goal is not None and process.goal.action == action.name
        await process.checkpoint(soon=at_goal and end.status == "succeeded")


def _mistake_in(error: BaseException | None) -> BadInput | None:
    """The caller's mistake for which an action ended: its own, that of a sub-process, or an access that was refused."""
    expected: type[BadInput] = BadInput
    for each in causes(error):
        for leaf in leaves(each):
            if isinstance(leaf, expected):
                return leaf
        if not isinstance(each, ProcessFailed):
            expected = AccessDenied
    return None


class _End(NamedTuple):
    """How an action ended."""

    status: ActionStatus
    result: object = None
    error: Exception | None = None


async def _run(process: AgentProcess, action: Action) -> _End:
    try:
        result = as_declared(action, await _attempts(process, action))
    except Signal as signal:
        return _End("replanned" if isinstance(signal, ReplanRequested) else "terminated", error=signal)
    except Exception as failure:
        if isinstance(failure, ModelError):
            _log.info("Process %s: %s failed and is left out: %s", process.id, action.name, in_words(failure))
            _log.debug("Where the model failed:", exc_info=True)
        elif not isinstance(failure, BadInput):
            # Where callers are told that the log has it, it has it whatever its level is.
            level = INFO if process.platform.tells_errors else ERROR
            _log.log(level, "Process %s: %s failed and is left out.", process.id, action.name, exc_info=True)
        return _End("failed", error=failure)
    if isinstance(result, SomeOf) and next(parts_of(result), None) is None:
        result = None
    return _End("declined" if gave_nothing(action, result) else "succeeded", result)


def _apply(process: AgentProcess, action: Action, end: _End, words: str | None) -> None:
    """Change the process as the end of an action demands."""
    result = end.result
    match end.error:
        case None if isinstance(result, WaitFor):
            if process.options.ephemeral:
                leave_out(process, action, "an ephemeral process cannot ask people: nobody would find it.", None)
            else:  # it continues with actions that do not need the answer
                process.blackboard.clear_last_result()
                process.ask(action.name, cast("WaitFor[object]", result))
        case None:
            apply_result(process, action, result)
        case ReplanRequested(reason=reason) if process.progress.asks_again_for_another_plan(action.name):
            words = f"{action.name} asked for another plan again, and nothing else has run since: {reason}"
            process.progress.leave_out(action.name, words)
        case ReplanRequested(objects=objects, update=update, reason=reason):
            for value in objects:
                process.blackboard.add(value)
            for name, value in update.items():
                process.blackboard.bind(name, value)
            process.progress.skip(action.name)
            process.emit(PlanRejected(action.name, reason, process_id=process.id))
        case TerminateAgent(reason=reason):
            process.terminate(reason)
        case Signal(reason=reason) if action.name in process.scope.goals and not action.outputs.exits:
            # For a goal that only wants its action to have run, an action that ended early must not count.
            process.progress.leave_out(action.name, f"{action.name} ended early: {reason}")
        case Signal():
            apply_result(process, action, None)
        case _:
            leave_out(process, action, words or "", end.error)


async def _attempts(process: AgentProcess, action: Action) -> object:
    """Try an action as often as its retry policy says, and return its result."""
    policy = action.settings.retry or process.platform.retry
    delays, attempt = policy.delays(), 0
    while True:
        attempt += 1
        try:
            return await _attempt(process, action)
        except Exception as error:
            delay = None if isinstance(error, Signal) or not policy.retries(error) else next(delays, None)
            if delay is None or process.end_requested is not None:
                raise
            retract_post_conditions(process, action)
            process.emit(ActionRetried(action.name, attempt, delay, process.words_for(error), process_id=process.id))
            for question in process.progress.journals[action.name].forget_work():
                process.withdraw_question(question)
            await process.store_steps()  # what the attempt has cost
            await process.pause(delay)
            if process.end_requested is not None:
                raise


async def _attempt(process: AgentProcess, action: Action) -> object:
    context = ActionContext(process, action=action.name)
    process.blackboard.forget_stated()
    process.progress.decline(action.name, "")
    with _Parking(context), context.active():
        arguments = await fill(action.parameters, action.owner, context)
        _require_access(process, action, arguments)
        if action.roles:
            context.take_tools(await _tools(process, action, ActionOperation(context)))
        result = await context.call(action.function, **arguments)
    # Storing and sending it takes several times as much memory, which all other calls would go without.
    if (size := estimated_size(result)) > process.platform.max_object_bytes:
        raise NonRetryable(
            f"The result of {action.name} takes about {size / 2**20:,.0f} MiB of memory, and may take"
            f" {process.platform.max_object_bytes / 2**20:,.0f} (max_object_bytes). Keep it in a file, and say where."
        )
    return result


def _require_access(process: AgentProcess, action: Action, arguments: Mapping[str, object]) -> None:
    """Raise `AccessDenied` unless every rule of an action holds; one that cannot be decided does not."""
    for rule in action.access:
        try:
            lacking = rule.lacking(process.caller, arguments)
        except Exception as error:
            raise AccessDenied(action.name, f"that {rule.text!r} can be decided ({in_words(error)})") from error
        if lacking:
            raise AccessDenied(action.name, lacking)


async def _tools(process: AgentProcess, action: Action, operation: ActionOperation) -> tuple[Tool, ...]:
    """The tools of an action, for which people have signed in. Raises `NonRetryable` if it cannot run without them."""
    groups, seconds = process.groups, process.options.tool_delay
    for role in action.settings.tool_groups:
        await groups.obtain(ToolGroupRequirement(role))
    for each in action.requirements:
        await groups.obtain(each)
        # What is missing for another reason was there when the step was planned, and its tools say what is wrong.
        if groups.unmet(each) is None and (why := groups.missing(each)) is not None:
            raise NonRetryable(f"{action.name} cannot run. {why}")
    for role in action.roles:
        if why := groups.lacking(role):
            operation.note_missing(role, why)
    found = tuple(tool for _, tool in groups.tools_of(action.roles))

    async def after_delay(inside: Tool, arguments: Mapping[str, object]) -> ToolResult:
        await anyio.sleep(seconds)
        return await inside.call(arguments)

    return tuple(each.with_layer(after_delay) for each in found) if seconds > 0 else found


class _Parking:
    """After an attempt has parked its action it ends with `Parked`, even if its code catches that or returns a result.

    If something else that it did at the same time has failed, that failure is raised instead.
    """

    __slots__ = ("_context",)

    def __init__(self, context: ActionContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._context.journal.begin()

    def __exit__(self, _kind: object, end: BaseException | None, _traceback: TracebackType | None) -> None:
        parked = self._context.journal.parked
        if end is None and not parked:
            return
        self._context.abandon()
        if end is not None:
            signal = signal_in(end)
            parts = (leaf for each in causes(end, implicit=True) for leaf in leaves(each))
            if isinstance(signal, TerminateAgent) or not any(isinstance(each, Parked) for each in parts):
                if signal is None or signal is end:
                    return
                raise signal from end
            if not parked:
                words = "It kept an earlier attempt's wait for an answer. Ask anew in each attempt."
                raise NonRetryable(words) from None
        raise Parked
