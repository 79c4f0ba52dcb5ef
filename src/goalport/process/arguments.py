"""Filling the parameters of a function: domain objects from the blackboard, services from the process and platform."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import anyio.to_thread
from anyio import CapacityLimiter

from goalport.blackboard import DEFAULT_BINDING, Blackboard
from goalport.domain import Injected, Input, Parameter, ProvidedInput, type_name
from goalport.errors import DeploymentError, NonRetryable
from goalport.process.agent_process import AgentProcess
from goalport.process.context import ActionContext, OperationContext

__all__ = ["SERVICE_TYPES", "call", "fill", "missing"]

SERVICE_TYPES: frozenset[type] = frozenset({ActionContext, OperationContext, Blackboard, AgentProcess})
"""The types of this room that are injected instead of looked for on the blackboard."""


def missing(parameters: Iterable[Parameter], blackboard: Blackboard) -> list[str]:
    """The types of required inputs that are not on the blackboard."""
    wanted = (each for each in parameters if isinstance(each, Input) and each.required)
    return [type_name(each.type) for each in wanted if _find(each, blackboard) is None]


def fill(parameters: Iterable[Parameter], owner: object, context: ActionContext) -> dict[str, object]:
    """An argument for each parameter, by name."""
    return {each.name: _argument(each, owner, context) for each in parameters}


async def call(function: Callable[..., object], arguments: Mapping[str, object], context: ActionContext) -> object:
    """Call a user's function: awaited when it is async, else in a worker thread of the platform.

    When the wait is cancelled, an async function is cancelled with it; one in a thread is abandoned and may notice by
    `context.cancelled`.
    """
    try:
        if _is_async(function):
            return await cast("Any", function)(**arguments)
        return await _in_thread(partial(function, **arguments), context.process.surroundings.limiter)
    except asyncio.CancelledError:
        context.abandon()
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise NonRetryable("Something that it waited for was cancelled. Catch that where it is awaited.") from None
    except SystemExit as exit_:
        raise NonRetryable(f"It tried to exit the program ({exit_}). Raise an error instead.") from None


async def _in_thread(function: Callable[[], object], limiter: CapacityLimiter) -> object:
    result = await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)
    return await cast("Any", result) if hasattr(result, "__await__") else result


def _is_async(function: Callable[..., object]) -> bool:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and bool(code.co_flags & 0x80)


def _argument(parameter: Parameter, owner: object, context: ActionContext) -> object:
    match parameter:
        case Input():
            found = _find(parameter, context.blackboard)
            return parameter.default if found is None else found
        case Injected(_, kind):
            return _service(kind, context)
        case ProvidedInput():
            return _provided(parameter, owner, context)


def _find(each: Input, blackboard: Blackboard) -> object | None:
    if each.binding == DEFAULT_BINDING:
        return blackboard.last(each.type)
    return blackboard.get(each.binding, cast("type[object]", each.type))


def _service(kind: type, context: ActionContext) -> object:
    own: dict[type, object] = {
        ActionContext: context,
        OperationContext: context,
        Blackboard: context.blackboard,
        AgentProcess: context.process,
    }
    return own[kind] if kind in own else context.process.surroundings.service(kind)


def _provided(parameter: ProvidedInput, owner: object, context: ActionContext) -> object:
    if isinstance(owner, parameter.type):
        return owner
    found = context.process.surroundings.service(parameter.type)
    if found is None and parameter.required:
        raise DeploymentError(
            f"Expected the platform to have a service of type {parameter.type.__name__} for {parameter.name!r}, but it"
            f" has none. Give one: AgentPlatform(services=[…])."
        )
    return parameter.default if found is None else found
