"""Reading a marked class into an `Agent`: once, when it is deployed, with every mistake explained.

The reader looks at marks and signatures and calls nothing but the constructor of a class without an instance.
(User guide, section 3.6.)
"""

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

from goalport.domain.agents import Action, Agent, Condition, Cost, Goal
from goalport.domain.marks import ActionMark, AgentMark, ConditionMark, CostMark, GoalMark, mark_of, marks_of
from goalport.domain.signature import Input, Origin, Parameter, read_outputs, read_parameters, type_name
from goalport.errors import DeclarationError

__all__ = ["read_action", "read_agent", "read_goal"]


def read_agent(declared: object, services: frozenset[type] = frozenset()) -> Agent:
    """The agent or component that an object declares.

    `declared` is an instance of a marked class, a marked class that can be constructed without arguments, or an
    `Agent` built by hand. `services` are the types that are injected. Raises `DeclarationError`.
    """
    if isinstance(declared, Agent):
        return declared
    instance = _construct(declared) if isinstance(declared, type) else declared
    cls = type(instance)
    mark = next((found for base in cls.__mro__ if (found := mark_of(base, AgentMark))), None)
    where = f"{cls.__module__}: {cls.__qualname__}"
    if mark is None:
        raise DeclarationError(
            where,
            expected="an agent, a component, or an Agent object",
            came="the class is not marked",
            fix='Put @agent(description="…") or @component above it.',
        )
    return _Reading(instance, mark, where, services).agent()


def read_action(
    function: Callable[..., object],
    *,
    name: str = "",
    services: frozenset[type] = frozenset(),
    mark: ActionMark | None = None,
) -> Action:
    """The action that a plain function is, for agents built by hand."""
    origin = Origin(function)
    settings = mark or mark_of(function, ActionMark) or ActionMark()
    action_name = name or getattr(function, "__name__", "action")
    return _checked(
        origin, Action(action_name, function, read_parameters(origin, services), read_outputs(origin), settings)
    )


def read_goal(action: Action, mark: GoalMark) -> Goal:
    """The goal that the completion of an action reaches."""
    if action.settings.clear_blackboard:
        raise action.origin.error(
            expected="a goal whose action leaves a trace",
            came="clear_blackboard=True wipes out that it has run",
            fix="Clear the blackboard in an earlier action.",
        )
    return Goal(
        action.name,
        mark.description,
        action.outputs.type,
        action.output_binding,
        mark.value,
        tuple(mark.tags),
        tuple(mark.examples),
        mark.export,
    )


class _Reading:
    """One instance being read."""

    def __init__(self, instance: object, mark: AgentMark, where: str, services: frozenset[type]) -> None:
        self._instance = instance
        self._cls = type(instance)
        self._mark = mark
        self._where = where
        self._services = services

    def agent(self) -> Agent:
        mark = self._mark
        if not mark.component and not mark.description.strip():
            raise self._mistake(
                "a description of the agent", "it is empty", "Say what it is for: people and models read it."
            )
        methods = list(_marked_methods(self._cls))
        costs = {each.name: each for name, marks in methods if (each := self._cost(name, marks))}
        actions = tuple(each for name, marks in methods if (each := self._action(name, marks, costs)))
        by_method = {each.short_name: each for each in actions}
        goals = tuple(read_goal(by_method[name], found) for name, marks in methods if (found := _get(marks, GoalMark)))
        if not goals and not mark.component:
            raise self._mistake(
                "at least one goal",
                "no method achieves one",
                'Put @achieves_goal(description="…") on the last step, or use @component.',
            )
        conditions = tuple(each for name, marks in methods if (each := self._condition(name, marks)))
        return Agent(
            mark.name or self._cls.__name__,
            mark.description,
            mark.provider,
            mark.version,
            opaque=mark.opaque,
            component=mark.component,
            actions=actions,
            goals=goals,
            conditions=conditions,
            source=self._where,
        )

    def _action(self, name: str, marks: dict[type, object], costs: dict[str, Cost]) -> Action | None:
        goal, settings = _get(marks, GoalMark), _get(marks, ActionMark)
        if settings is None and goal is None:
            return None
        origin, settings = self._origin(name), settings or ActionMark()
        action = Action(
            f"{self._cls.__name__}.{name}",
            getattr(self._instance, name),
            read_parameters(origin, self._services),
            read_outputs(origin),
            settings,
            self._instance,
            _named_cost(origin, settings.cost_method, costs),
            _named_cost(origin, settings.value_method, costs),
        )
        return _checked(origin, action)

    def _condition(self, name: str, marks: dict[type, object]) -> Condition | None:
        mark = _get(marks, ConditionMark)
        if mark is None:
            return None
        origin = self._origin(name)
        _refuse_other_return(origin, bool)
        parameters = read_parameters(origin, self._services)
        return Condition(mark.name or name, getattr(self._instance, name), parameters, self._instance)

    def _cost(self, name: str, marks: dict[type, object]) -> Cost | None:
        mark = _get(marks, CostMark)
        if mark is None:
            return None
        origin = self._origin(name)
        _refuse_other_return(origin, float)
        parameters = read_parameters(origin, self._services)
        _refuse_required(origin, parameters)
        return Cost(mark.name or name, getattr(self._instance, name), parameters, self._instance)

    def _origin(self, name: str) -> Origin:
        return Origin(getattr(self._instance, name), self._cls)

    def _mistake(self, expected: str, came: str, fix: str) -> DeclarationError:
        return DeclarationError(self._where, expected=expected, came=came, fix=fix)


def _construct(cls: type) -> object:
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise DeclarationError(
            f"{cls.__module__}: {cls.__qualname__}",
            expected="an instance at module level, or a class that can be constructed without arguments",
            came=f"its constructor has {error}",
            fix=f"Deploy an instance: `{cls.__name__.lower()} = {cls.__name__}(…)`.",
        ) from error
    return cls()


def _marked_methods(cls: type) -> Iterator[tuple[str, dict[type, object]]]:
    """Method names and their marks in declaration order, those of base classes first; an override keeps its marks."""
    found: dict[str, dict[type, object]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            function = getattr(value, "__func__", value)
            # A mark stands on the outermost of several decorators, or on the function that they wrap.
            marks = {**marks_of(inspect.unwrap(function)), **marks_of(function), **marks_of(value)}
            if marks and not isinstance(value, type):
                found[name] = found.get(name, {}) | marks
            elif name in found and value is None:
                del found[name]
    return iter(found.items())


def _get(marks: dict[type, object], kind: Any) -> Any:
    return marks.get(kind)


def _checked(origin: Origin, action: Action) -> Action:
    for what, figure in (("cost", action.settings.cost), ("value", action.settings.value)):
        if not math.isfinite(figure) or (what == "cost" and figure < 0):
            raise origin.error(
                expected=f"a finite {what}, from 0 up",
                came=f"it is {figure!r}",
                fix="By convention it lies between 0 and 1.",
            )
    return action


def _named_cost(origin: Origin, name: str, costs: dict[str, Cost]) -> Cost | None:
    if not name:
        return None
    if name not in costs:
        raise origin.error(
            expected=f"a method marked with @cost and called {name!r}",
            came=f"the ones here are: {', '.join(sorted(costs)) or 'none'}",
            fix="Correct the name, or mark the method.",
        )
    return costs[name]


def _refuse_required(origin: Origin, parameters: tuple[Parameter, ...]) -> None:
    for each in parameters:
        if isinstance(each, Input) and each.required:
            raise origin.error(
                expected="all domain parameters of a @cost method to be optional, as it is asked early",
                came=f"{each.name!r} is required",
                fix=f"Write `{each.name}: {type_name(each.type)} | None`.",
            )


def _refuse_other_return(origin: Origin, kind: type) -> None:
    declared = read_outputs(origin).type
    allowed = {bool: (bool,), float: (float, int)}[kind]
    if declared not in allowed:
        raise origin.error(
            expected=f"a method that returns {kind.__name__}",
            came=f"it returns {type_name(declared)}",
            fix=f"Annotate it with `-> {kind.__name__}`.",
        )
