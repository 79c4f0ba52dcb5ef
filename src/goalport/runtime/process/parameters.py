"""The arguments of a user's function: objects from the blackboard, services from the process and the platform."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, cast, runtime_checkable

from goalport.agents.blackboard import DEFAULT_BINDING, Blackboard
from goalport.agents.domain import Injected, Input, Parameter, ProvidedInput, Resolved, Resolver, inputs_among
from goalport.base.errors import DeploymentError
from goalport.base.words import type_name
from goalport.runtime.ai import Ai
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.context import ActionContext, OperationContext

_RUN_SERVICES: Mapping[type, Callable[[ActionContext], object]] = {
    ActionContext: lambda context: context,
    OperationContext: lambda context: context,
    Blackboard: lambda context: context.blackboard,
    AgentProcess: lambda context: context.process,
    Ai: lambda context: context.ai,
}
SERVICE_TYPES: frozenset[type] = frozenset(_RUN_SERVICES)
"""The types that this package injects; they are not looked up on the blackboard."""


@runtime_checkable
class ArgumentResolver(Resolver, Protocol):
    """Fills parameters of its own choice; such parameters are no preconditions of the action.

    It is passed to the platform among its services. Several are asked in order, before goalport's own resolution;
    the blackboard is tried last.
    """

    def resolve(self, parameter: inspect.Parameter, context: ActionContext, /) -> object:
        """Return the argument of a supported parameter; called each time an action, condition or cost is called."""
        ...


def missing(parameters: Iterable[Parameter], blackboard: Blackboard) -> list[str]:
    """The types of required inputs that are missing on the blackboard."""
    wanted = (each for each in inputs_among(parameters) if each.required)
    return [type_name(each.type) for each in wanted if _find(each, blackboard) is None]


async def fill(parameters: Sequence[Parameter], owner: object, context: ActionContext) -> dict[str, object]:
    """An argument for each parameter, by name. What has to be entered for it is."""
    prepare = context.process.platform.prepare
    if prepare is not None:
        await prepare([each.type for each in parameters if isinstance(each, Injected | ProvidedInput)], owner)
    return {each.name: _argument(each, owner, context) for each in parameters}


def _argument(parameter: Parameter, owner: object, context: ActionContext) -> object:
    match parameter:
        case Input():
            found = _find(parameter, context.blackboard)
            return parameter.default if found is None else found
        case Injected(_, kind):
            return _service(kind, context)
        case ProvidedInput():
            return _provided(parameter, owner, context)
        case Resolved(_, declared, resolver):
            assert isinstance(resolver, ArgumentResolver)
            return resolver.resolve(declared, context)


def _find(each: Input, blackboard: Blackboard) -> object | None:
    if each.parts:
        found: dict[str, object] = {}
        for part in each.parts:
            value = _find(part, blackboard)
            if value is None and part.required:
                return None
            if value is not None or part.default is None:
                found[part.name] = value
        return cast("type[object]", each.type)(**found)
    if each.binding == DEFAULT_BINDING:
        return blackboard.last(each.type)
    return blackboard.get(each.binding, cast("type[object]", each.type))


def _service(kind: type, context: ActionContext) -> object:
    of_run = _RUN_SERVICES.get(kind)
    return context.process.platform.service(kind) if of_run is None else of_run(context)


def _provided(parameter: ProvidedInput, owner: object, context: ActionContext) -> object:
    if isinstance(owner, parameter.type):
        return owner
    found = _service(parameter.type, context)
    if found is None and parameter.required:
        raise DeploymentError(
            f"Expected the platform to have a service of type {parameter.type.__name__} for {parameter.name!r}, but it"
            f" has none. Give one: mark it with @service in a workspace; AgentPlatform(services=[…]) in a program."
        )
    return parameter.default if found is None else found
