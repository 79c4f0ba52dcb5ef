"""Running one action of a process: arguments, attempts and waits, and what its result does to the blackboard."""

import time
from datetime import UTC, datetime
from logging import getLogger
from typing import Literal, cast

import anyio

from goalport.blackboard import matcher
from goalport.domain import Action, SomeOf, objects_of, type_name
from goalport.errors import BadInput, NonRetryable
from goalport.events import ActionFinished, ActionRetried, ActionStarted
from goalport.process.agent_process import ActionInvocation, AgentProcess
from goalport.process.arguments import call, fill
from goalport.process.context import ActionContext
from goalport.process.outcome import Failed
from goalport.tools import Tool

__all__ = ["invoke"]

_log = getLogger(__name__)


async def invoke(process: AgentProcess, action: Action) -> Failed | None:
    """Run an action and note what came of it; one that fails for good is left out of later plans.

    A mistake of the caller is not planned around: it is the end of the process, which is returned.
    """
    number, planned = len(process.progress.history) + 1, len(process.progress.history) + len(process.plan)
    if process.audience.attentive:
        process.emit(ActionStarted(action.name, number, planned, process_id=process.id))
    started_at, start = datetime.now(UTC), time.perf_counter()
    result, error = await _result_or_error(process, action)
    seconds = time.perf_counter() - start
    status: Literal["succeeded", "declined", "failed"] = (
        "failed" if error else "declined" if _declined(action, result) else "succeeded"
    )
    words = None if error is None else in_words(error)
    process.progress.history.append(ActionInvocation(action.name, started_at, seconds, status, words))
    if error is None:
        _take(process, action, result)
    else:
        process.progress.left_out[action.name] = words or ""
    if process.audience.attentive:
        process.emit(ActionFinished(action.name, number, planned, status, seconds, words, process_id=process.id))
    return Failed(str(error), caller_mistake=True) if isinstance(error, BadInput) else None


def in_words(error: BaseException) -> str:
    """A failure in one line, without a traceback and of bounded length."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(in_words, cast("BaseExceptionGroup[BaseException]", error).exceptions))[:500]
    text = " ".join(str(error).split())
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:500]


async def _result_or_error(process: AgentProcess, action: Action) -> tuple[object, Exception | None]:
    # Caught apart: an error keeps the frame that caught it, and kept by that frame both would wait for the collector.
    try:
        result = _as_declared(action, await _attempt(process, action))
    except Exception as error:
        _log.info("Process %s: %s failed and is left out.", process.id, action.name, exc_info=True)
        return None, error
    return None if _is_empty(result) else result, None


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
    context = ActionContext(process, _tools(process, action))
    process.blackboard.stated.clear()
    return await call(action.function, fill(action.parameters, action.owner, context), context)


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


def _as_declared(action: Action, result: object) -> object:
    declared = action.outputs.type
    if result is None or (declared is not None and matcher(declared)(result)):
        return result
    raise NonRetryable(
        f"{action.origin} declares that it returns {type_name(declared)}, but it returned a {type(result).__name__}."
        f" Correct the annotation or the return value."
    )


def _is_empty(result: object) -> bool:
    return isinstance(result, SomeOf) and len(objects_of(result)) == 1


def _declined(action: Action, result: object) -> bool:
    return result is None and bool(action.outputs.exits)


def _take(process: AgentProcess, action: Action, result: object) -> None:
    progress, blackboard = process.progress, process.blackboard
    progress.has_run.add(action.name)
    progress.results[action.name] = result
    if not _declined(action, result):
        _keep_promises(process, action)
    if result is None:
        blackboard.last_result = None
        return
    for each in objects_of(result):
        blackboard.bind(action.output_binding, each)


def _keep_promises(process: AgentProcess, action: Action) -> None:
    blackboard = process.blackboard
    # What the action itself said of a condition counts; saying nothing means that it did what it promises.
    said = process.scope.conditions.keys() | blackboard.stated
    if action.settings.clear_blackboard:
        blackboard.clear()
        process.progress.has_run.clear()
    for condition in action.settings.post:
        if condition not in said:
            blackboard.set_condition(condition, True)
