"""Running one action of a process: arguments, attempts and waits, and what its result does to the blackboard."""

import time
from datetime import UTC, datetime
from logging import getLogger
from typing import Literal, cast

import anyio

from goalport.blackboard import matcher
from goalport.domain import Action, SomeOf, WaitFor, is_state, parts_of, type_name
from goalport.errors import BadInput, NonRetryable, ProcessEnded
from goalport.events import ActionFinished, ActionRetried, ActionStarted, QuestionAsked, StateEntered
from goalport.process.agent_process import ActionInvocation, AgentProcess
from goalport.process.arguments import fill
from goalport.process.context import ActionContext, Parked
from goalport.tools import Tool

__all__ = ["in_words", "invoke", "take"]

_log = getLogger(__name__)
_HALF = 300
"""Characters of a failure's beginning, and of its end, that are told."""


async def invoke(process: AgentProcess, action: Action) -> None:
    """Run an action and note what came of it; one that fails for good is left out of later plans.

    Raises `BadInput` as it is: a mistake of the caller is not planned around.
    """
    number, planned = len(process.progress.history) + 1, len(process.progress.history) + len(process.plan)
    if process.audience.attentive:
        process.emit(ActionStarted(action.name, number, planned, process_id=process.id))
    started_at, start = datetime.now(UTC), time.perf_counter()
    error: Exception | None = None
    try:
        result = _as_declared(action, await _attempt(process, action))
    except Parked as parked:
        process.progress.parked[action.name] = parked.child
        return
    except Exception as failure:
        error, result = failure, None
    _forget(process, action)
    seconds = time.perf_counter() - start
    status: Literal["succeeded", "declined", "failed"] = (
        "failed" if error else "declined" if _declined(action, result) else "succeeded"
    )
    words = None if error is None else in_words(error)
    process.progress.history.append(ActionInvocation(action.name, started_at, seconds, status, words))
    if error is None:
        _take(process, action, result)
    else:
        process.progress.left_out[action.name] = f"{action.name} failed: {words}"
        _log.info("Process %s: %s failed and is left out.", process.id, action.name, exc_info=error)
    if process.audience.attentive:
        process.emit(ActionFinished(action.name, number, planned, status, seconds, words, process_id=process.id))
    if isinstance(error, BadInput):
        raise error


def _forget(process: AgentProcess, action: Action) -> None:
    """An action that is over starts its processes anew when it runs again."""
    for entry in [each for each in process.progress.journal if each.rpartition(":")[0] == action.name]:
        del process.progress.journal[entry]


def in_words(error: BaseException) -> str:
    """A failure in one line, without a traceback and of bounded length: its beginning and its end."""
    text = " ".join(str(error.reason if isinstance(error, ProcessEnded) else error).split())
    name = type(error).__name__
    words = f"{name}: {text}" if text else name
    return words if len(words) <= 2 * _HALF else f"{words[:_HALF]} … {words[-_HALF:]}"


async def _attempt(process: AgentProcess, action: Action) -> object:
    policy = action.settings.retry
    for attempt, delay in enumerate(policy.delays(), start=1):
        try:
            return await _once(process, action)
        except Exception as error:
            if not policy.retries(error):
                raise
            process.emit(ActionRetried(action.name, attempt, delay, in_words(error), process_id=process.id))
            await anyio.sleep(delay)
    return await _once(process, action)


async def _once(process: AgentProcess, action: Action) -> object:
    context = ActionContext(process, _tools(process, action), action.name)
    with context.active():
        return await context.call(action.function, **fill(action.parameters, action.owner, context))


def _tools(process: AgentProcess, action: Action) -> list[Tool]:
    roles = dict.fromkeys([*action.settings.tool_groups, *(each.role for each in action.requirements)])
    found: list[Tool] = []
    for role in roles:
        group = process.surroundings.groups.find(role)
        if group is None:
            _log.warning(
                "%s names the tool group %r, which does not exist: it runs without those tools.", action.name, role
            )
        else:
            found.extend(group.tools)
    return found


def _enter(process: AgentProcess, entered: object) -> None:
    """Hide the states that were open; one that leads to itself stays as it is."""
    left = [each for each in process.blackboard.objects if is_state(type(each)) and each is not entered]
    for each in left:
        process.blackboard.hide(each)
    if process.audience.attentive:
        names = tuple(type(each).__name__ for each in left)
        process.emit(StateEntered(type(entered).__name__, names, process_id=process.id))


def ask(process: AgentProcess, action: Action, wait: WaitFor[object]) -> None:
    """Note a question; the process goes on with what does not need the answer."""
    question = process.questions.ask(action.name, wait)
    process.blackboard.last_result = None
    process.emit(QuestionAsked(question.id, action.name, question.message, process_id=process.id))


def _as_declared(action: Action, result: object) -> object:
    declared = action.outputs.type
    if result is None or (declared is not None and matcher(declared)(result)):
        return result
    if action.outputs.may_wait and isinstance(result, WaitFor):
        return cast("object", result)
    raise NonRetryable(
        f"{action.origin} declares that it returns {type_name(declared)}, but it returned a {type(result).__name__}."
        f" Correct the annotation or the return value."
    )


def _declined(action: Action, result: object) -> bool:
    return result is None and bool(action.outputs.exits)


def _take(process: AgentProcess, action: Action, result: object) -> None:
    if isinstance(result, WaitFor):
        ask(process, action, cast("WaitFor[object]", result))
    else:
        take(process, action, result)


def take(process: AgentProcess, action: Action, result: object) -> None:
    """Note that an action has run, and put what it gave on the blackboard."""
    progress, blackboard = process.progress, process.blackboard
    progress.has_run.add(action.name)
    progress.results[action.name] = result
    if action.settings.clear_blackboard and result is not None:
        blackboard.clear()
        progress.has_run.clear()
    for condition in action.settings.post:
        # What the action itself said of the condition counts; saying nothing means that it did what it promises.
        if result is not None and condition not in (process.scope.conditions.keys() | blackboard.conditions.keys()):
            blackboard.set_condition(condition, True)
    if is_state(type(result)):
        _enter(process, result)
    if result is None:
        blackboard.last_result = None
    elif isinstance(result, SomeOf):
        for part in parts_of(result).values():
            blackboard.bind(action.output_binding, part)
    else:
        blackboard.bind(action.output_binding, result)
