"""Costs and values that methods compute, as far as they can be known before anything runs.

A process computes them anew on each planning. Before there is one, those are computed that need no object and nothing
of a process; the others count as what the action says, and a note tells it. Above: foresight.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from goalport.blackboard import related
from goalport.domain import Action, Cost, Input, ProvidedInput
from goalport.plan import Available
from goalport.process import Scope
from goalport.process.tick import usable_figure

__all__ = ["Figures", "Service", "figures_of"]

Service = Callable[[type], object | None]


@dataclass(frozen=True, slots=True)
class Figures:
    """What actions cost and are worth, by their names, where a method says it."""

    costs: Mapping[str, float]
    values: Mapping[str, float]
    notes: Mapping[str, str]
    """By the name of an action, what is known of it at run time only, in a sentence."""


class _OnlyInARun(Exception):
    """Why a figure cannot be known before."""


def figures_of(scope: Scope, given: Sequence[object], service: Service) -> Figures:
    """The figures of all the actions that have a method for one, where objects of the given types are there."""
    costs: dict[str, float] = {}
    values: dict[str, float] = {}
    notes: dict[str, str] = {}
    for action in scope.figured:
        for what, cost, said, least, found in (
            ("cost", action.cost, action.settings.cost, 0.0, costs),
            ("value", action.value, action.settings.value, float("-inf"), values),
        ):
            if cost is not None:
                try:
                    found[action.name] = _figure(cost, given, service, least)
                except _OnlyInARun as why:
                    notes[action.name] = _note(action, what, cost, said, str(why))
    return Figures(costs, values, notes)


def _note(action: Action, what: str, cost: Cost, said: float, why: str) -> str:
    return f"The {what} of {action.name} is known at run time only: {cost.name} {why}. It counts as {said:g} here."


def _figure(cost: Cost, given: Sequence[object], service: Service, least: float) -> float:
    arguments = {each.name: _argument(each, cost.owner, given, service) for each in cost.parameters}
    try:
        found = cost.function(**arguments)
        figure = _at_once(cast("Awaitable[object]", found)) if inspect.isawaitable(found) else found
    except _OnlyInARun:
        raise
    except Exception as error:
        raise _OnlyInARun(f"raised {type(error).__name__} when asked") from error
    usable = usable_figure(figure, least)
    if usable is None:
        raise _OnlyInARun(f"gave {figure!r:.100}, which is no such figure")
    return usable


def _argument(parameter: object, owner: object, given: Sequence[object], service: Service) -> object:
    match parameter:
        case Input():
            needed = [each.type for each in parameter.parts if each.required] or [parameter.type]
            if all(any(related(kind, each) for kind in given) for each in needed):
                raise _OnlyInARun(f"looks at {Available(parameter.type)}")
            return parameter.default
        case ProvidedInput():
            found = owner if isinstance(owner, parameter.type) else service(parameter.type)
            return parameter.default if found is None else found
        case _:
            raise _OnlyInARun("looks at the process")


def _at_once(figure: Awaitable[object]) -> object:
    """What an async method gives that awaits nothing."""
    step: Any = figure.__await__()
    try:
        next(step)
    except StopIteration as end:
        return end.value
    step.close()
    raise _OnlyInARun("waits for something")
