"""Reads a marked class into an `Agent`: once, when it is deployed, with every mistake explained.

The states that its actions may enter are read with it. The reader looks at marks and signatures and calls only
constructors, if it gets a class instead of an instance. Methods of an agent or component are bound to its instance.
Methods of a state are not: their `self` is an input like any other, so that a state's actions apply only while the
state is on the blackboard. (User guide, section 3.6.)
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from goalport.agents.blackboard import fits
from goalport.agents.domain.agents import Action, Agent, ChatbotMark, Condition, Cost, Goal
from goalport.agents.domain.decorators import (
    ActionMark,
    AgentMark,
    ConditionMark,
    CostMark,
    GoalMark,
    PlannerType,
    mark_of,
    marks_of,
)
from goalport.agents.domain.expressions import AccessRule
from goalport.agents.domain.formulas import checked
from goalport.agents.domain.signature import (
    Input,
    Outputs,
    Parameter,
    Resolver,
    State,
    is_state,
    read_outputs,
    read_parameters,
)
from goalport.base.errors import DeclarationError
from goalport.base.introspection import Origin, class_place, constructor, hidden_methods
from goalport.base.words import class_name, type_name

_WITHIN: tuple[tuple[type, str], ...] = (
    (staticmethod, "__func__"),
    (classmethod, "__func__"),
    (property, "fget"),
    (cached_property, "func"),
)
"""For each kind of descriptor, the attribute with its function."""


@dataclass(frozen=True, slots=True)
class Members:
    """The declarations in one class."""

    actions: tuple[Action, ...] = ()
    goals: tuple[Goal, ...] = ()
    conditions: tuple[Condition, ...] = ()
    costs: Mapping[str, Cost] = field(default_factory=dict[str, Cost])

    def __add__(self, other: "Members") -> "Members":
        return Members(
            self.actions + other.actions,
            self.goals + other.goals,
            self.conditions + other.conditions,
            {**self.costs, **other.costs},
        )


def read_members(
    cls: type,
    owner: object,
    services: frozenset[type],
    costs: Mapping[str, Cost] | None = None,
    resolvers: Sequence[Resolver] = (),
) -> Members:
    """The members of the class of `owner`, or of a state of the agent `owner`.

    `costs` are the agent's; its states may refer to them by name. Raises `DeclarationError`.
    """
    for name, earlier, later in hidden_methods(cls):
        raise DeclarationError(
            class_place(cls),
            expected="one method of each name",
            came=f"{name} is defined in line {earlier} and again in line {later}, and Python keeps the second alone",
            fix="Rename one of them.",
        )
    methods = list(_marked_methods(cls))
    reading = _Reading(cls, owner, services, resolvers)
    own: dict[str, Cost] = {}
    for each in (reading.cost(name, marks[CostMark]) for name, marks in methods if CostMark in marks):
        twin = own.setdefault(each.name, each)
        if twin is not each:
            raise each.origin.error(
                expected="costs of different names",
                came=f"it and {twin.origin} are both called {each.name!r}",
                fix="Rename one.",
            )
    known = {**(costs or {}), **own}
    acting = (each for each in methods if ActionMark in each[1] or GoalMark in each[1])
    actions = {name: reading.action(name, marks.get(ActionMark) or ActionMark(), known) for name, marks in acting}
    goals = tuple(read_goal(actions[name], marks[GoalMark]) for name, marks in methods if GoalMark in marks)
    conditions = tuple(
        reading.condition(name, marks[ConditionMark]) for name, marks in methods if ConditionMark in marks
    )
    return Members(tuple(actions.values()), goals, conditions, own)


def read_action(
    function: Callable[..., object],
    *,
    name: str = "",
    services: frozenset[type] = frozenset(),
    mark: ActionMark | None = None,
    resolvers: Sequence[Resolver] = (),
) -> Action:
    """The action made from a plain function, for agents built by hand. Raises `DeclarationError`."""
    origin = Origin(function)
    settings = mark or mark_of(function, ActionMark) or ActionMark()
    action_name = name or getattr(function, "__name__", "action")
    parameters = read_parameters(origin, services, resolvers=resolvers)
    return _checked(origin, Action(action_name, function, parameters, read_outputs(origin), settings), ())


def read_goal(action: Action, mark: GoalMark) -> Goal:
    """The goal that an action achieves. Raises `DeclarationError` if the action clears the record that it has run."""
    if action.settings.clear_blackboard:
        raise action.origin.error(
            expected="a goal whose action leaves a trace",
            came="clear_blackboard=True wipes out that it has run",
            fix="Clear the blackboard in an earlier action.",
        )
    _refuse_infinite(action.origin, "value", mark.value)
    tags, examples, outputs = tuple(mark.tags), tuple(mark.examples), action.outputs.type
    binding = action.output_binding
    return Goal(action.name, mark.description, outputs, binding, mark.value, tags, examples, mark.export)


class _Reading:
    """Reads one class on behalf of an agent's instance."""

    def __init__(self, cls: type, owner: object, services: frozenset[type], resolvers: Sequence[Resolver]) -> None:
        self._cls = cls
        self._owner = owner
        self._services = services
        self._resolvers = resolvers
        self._holder = owner if isinstance(owner, cls) else cls
        # Access rules of a base class apply to its subclasses too, and those of an agent to its states.
        classes = dict.fromkeys((*cls.__mro__, *type(owner).__mro__))
        marks = [found for each in classes if (found := mark_of(each, AgentMark))]
        self._class_access = tuple(dict.fromkeys(each.access for each in marks if each.access is not None))

    def action(self, name: str, mark: ActionMark, costs: Mapping[str, Cost]) -> Action:
        origin, parameters = self._method(name)
        full_name, outputs = f"{self._cls.__name__}.{name}", read_outputs(origin)
        cost, value = (_named_cost(origin, each, costs) for each in (mark.cost_method, mark.value_method))
        action = Action(full_name, origin.function, parameters, outputs, mark, self._owner, cost, value)
        return _checked(origin, action, self._class_access)

    def condition(self, name: str, mark: ConditionMark) -> Condition:
        origin, parameters = self._method(name)
        may_be_unknown = _refuse_other_return(origin, bool).may_decline
        return Condition(mark.name or name, origin.function, parameters, self._owner, may_be_unknown, mark.cost)

    def cost(self, name: str, mark: CostMark) -> Cost:
        origin, parameters = self._method(name)
        _refuse_other_return(origin, float)
        for each in parameters:
            if isinstance(each, Input) and each.type is not self._cls and each.required:
                raise origin.error(
                    expected="all domain parameters of a @cost method to be optional, as it is asked early",
                    came=f"{each.name!r} is required",
                    fix=f"Write `{each.name}: {type_name(each.type)} | None`.",
                )
        return Cost(mark.name or name, origin.function, parameters, self._owner)

    def _method(self, name: str) -> tuple[Origin, tuple[Parameter, ...]]:
        """A method and its parameters. Raises `DeclarationError` if it lacks `self`."""
        origin = Origin(getattr(self._holder, name), self._cls)
        method = inspect.getattr_static(self._cls, origin.written.__name__, None)
        if inspect.isfunction(method) and inspect.getargs(method.__code__).args[:1] != ["self"]:
            first = next(iter(inspect.signature(method).parameters.values()), None)
            typed = first is not None and first.annotation is not first.empty and first.kind is not first.VAR_POSITIONAL
            if first is None or (typed and first.name != "self"):
                raise origin.error(
                    expected="a method whose first parameter is self",
                    came="it has none" if first is None else f"it is {first.name!r}",
                    fix=f"Write `def {method.__name__}(self, …)`.",
                )
        subject = self._cls if self._holder is self._cls else None
        return origin, read_parameters(origin, self._services, subject, self._resolvers)


def _marked_methods(cls: type) -> Iterator[tuple[str, dict[type, Any]]]:
    """Method names and their marks in declaration order, those of base classes first; an override keeps its marks."""
    found: dict[str, dict[type, Any]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if name.startswith("__"):
                continue
            # A mark may be on the outermost of several decorators, or on a function that they wrap.
            marks = {kind: mark for each in reversed(list(_layers(value))) for kind, mark in marks_of(each).items()}
            if marks and isinstance(value, property | cached_property):
                inner: Any = list(_layers(cast("object", value)))[1]
                raise Origin(inner, base).error(
                    expected="marks on methods only",
                    came="it is a property, which nobody calls",
                    fix="Drop the decorator that makes it one.",
                )
            if marks and not isinstance(value, type):
                found[name] = found.get(name, {}) | marks
            elif name in found and value is None:
                del found[name]
    # Abstract methods are declared by subclasses.
    return (pair for pair in found.items() if not getattr(getattr(cls, pair[0]), "__isabstractmethod__", False))


def _layers(value: object) -> Iterator[object]:
    """A member of a class and the functions that it wraps, outermost first, by `__wrapped__` and descriptors."""
    seen: list[object] = []
    layer: Any = value
    while layer is not None and not any(layer is each for each in seen):
        seen.append(layer)
        yield layer
        within = next((name for kind, name in _WITHIN if isinstance(layer, kind)), "")
        layer = getattr(layer, within) if within else inspect.getattr_static(layer, "__wrapped__", None)


def _checked(origin: Origin, action: Action, class_access: Sequence[str]) -> Action:
    for what, figure in (("cost", action.settings.cost), ("value", action.settings.value)):
        _refuse_infinite(origin, what, figure, least=0 if what == "cost" else -math.inf)
    settings = action.settings
    texts = dict.fromkeys((*class_access, *filter(None, [settings.access])))
    access = tuple(AccessRule.of(origin, each, action.parameters) for each in texts)
    if settings.pre or settings.post:
        pre, post = checked(origin, settings)
        settings = replace(settings, pre=pre, post=post)
    return replace(action, settings=settings, access=access)


def _refuse_infinite(origin: Origin, what: str, figure: float, least: float = -math.inf) -> None:
    if not math.isfinite(figure) or figure < least:
        raise origin.error(
            expected=f"a finite {what}{', from 0 up' if least == 0 else ''}",
            came=f"it is {figure!r}",
            fix="By convention it lies between 0 and 1.",
        )


def _named_cost(origin: Origin, name: str, costs: Mapping[str, Cost]) -> Cost | None:
    if not name:
        return None
    if name not in costs:
        raise origin.error(
            expected=f"a method marked with @cost and called {name!r}",
            came=f"the ones here are: {', '.join(sorted(costs)) or 'none'}",
            fix="Correct the name, or mark the method.",
        )
    return costs[name]


def _refuse_other_return(origin: Origin, kind: type) -> Outputs:
    outputs = read_outputs(origin)
    allowed = {bool: (bool,), float: (float, int)}[kind]
    if outputs.type not in allowed:
        raise origin.error(
            expected=f"a method that returns {kind.__name__}",
            came=f"it returns {type_name(outputs.type)}",
            fix=f"Annotate it with `-> {kind.__name__}`.",
        )
    return outputs


def read_agent(declared: object, services: frozenset[type] = frozenset(), resolvers: Sequence[Resolver] = ()) -> Agent:
    """The agent or component that an object declares.

    `declared` is an instance of a marked class, a marked class that can be constructed without arguments, or an `Agent`
    built by hand. `services` are the types that are injected; `resolvers` fill the parameters that they support. Raises
    `DeclarationError`.
    """
    if isinstance(declared, Agent):
        return declared
    instance = declared
    if isinstance(declared, type):
        try:
            constructor(declared).bind()
        except TypeError as error:
            raise DeclarationError(
                class_place(declared),
                expected="an instance at module level, or a class that can be constructed without arguments",
                came=f"its constructor reports: {error}",
                fix=f"Deploy an instance: `{declared.__name__.lower()} = {declared.__name__}(…)`, or mark with @service"
                " or @settings what gives it.",
            ) from error
        instance = cast("object", declared())
    cls = type(instance)
    mark = next((found for base in cls.__mro__ if (found := mark_of(base, AgentMark))), None)
    where = class_name(cls)
    if mark is None:
        raise DeclarationError(
            class_place(cls),
            expected="an agent, a component, or an Agent object",
            came="the class is not marked",
            fix='Put @agent(description="…") or @component above it.',
        )
    members = own = read_members(cls, instance, services, resolvers=resolvers)
    seen = set[type]()
    while fresh := [each for each in _reachable_states(members.actions) if each not in seen]:
        seen.update(fresh)
        for kind in fresh:
            members += read_members(kind, instance, services, own.costs, resolvers)
    description = mark.description or inspect.cleandoc(vars(cls).get("__doc__") or "")
    _refuse_without_goal(mark, description, members, cls)
    return Agent(
        mark.name or cls.__name__,
        description,
        mark.provider,
        mark.version,
        opaque=mark.opaque,
        component=mark.component,
        actions=members.actions,
        goals=members.goals,
        conditions=members.conditions,
        source=where,
        planner=mark.planner,
        chat=next((found for base in cls.__mro__ if (found := mark_of(base, ChatbotMark))), None),
    )


def _reachable_states(actions: Iterable[Action]) -> Iterator[type]:
    """The states that results of actions may be, each once, including substates.

    Raises `DeclarationError` for a class that could not be found again when a stored process is resumed.
    """
    seen: dict[type, None] = {}
    kinds = (kind for action in actions for exit_ in action.outputs.exits for kind in exit_)
    waiting = [kind for kind in kinds if isinstance(kind, type)]
    while waiting:
        kind = waiting.pop(0)
        if kind not in seen and kind is not State:
            seen[kind] = None
            # `@dataclass(slots=True)` creates a second class, and the first one is collected only later.
            below = {(each.__module__, each.__qualname__): each for each in kind.__subclasses__()}
            waiting.extend(below.values() if is_state(kind) else [])
    for kind in filter(is_state, seen):
        if "<locals>" in kind.__qualname__:
            raise DeclarationError(
                class_place(kind),
                expected="a state at module level or inside a class, which a stored process can be resumed in",
                came="it is defined inside a function",
                fix="Move it out of the function.",
            )
        yield kind


def _refuse_without_goal(mark: AgentMark, description: str, members: Members, cls: type) -> None:
    if mark.component:
        return
    if not description.strip():
        raise DeclarationError(
            class_place(cls),
            expected="a description of the agent",
            came="it is empty",
            fix='Say what it is for, to people and models: in a docstring, or by @agent(description="…").',
        )
    count, allowed = len(members.goals), mark.planner.goal_counts
    if count not in allowed:
        names = [each.__name__ for each in _unmarked_methods(cls)]
        has = "has" if len(names) == 1 else "have"
        unmarked = f", and {' and '.join(names)} {has} no decorator" if names else ""
        raise DeclarationError(
            class_place(cls),
            expected="exactly one goal" if len(allowed) == 1 else "at least one goal",
            came=f"{count} methods achieve one" if count else f"no method achieves one{unmarked}",
            fix='Put @achieves_goal(description="…") on the last action, or use @component or '
            f"{PlannerType.written(goals=count)}.",
        )


def _unmarked_methods(cls: type) -> list[Callable[..., object]]:
    """The unmarked methods of the class that look like actions."""
    return [
        each
        for name, each in vars(cls).items()
        if inspect.isfunction(each) and not name.startswith("_") and "return" in each.__annotations__
        if not marks_of(each)
    ]


def unmarked_givers(agent: Agent, kind: object) -> list[str]:
    """The unmarked methods in an agent's classes that return an object of a type and take none of it."""
    found: list[str] = []
    for cls in dict.fromkeys(type(each.owner) for each in agent.actions if each.owner is not None):
        for method in (Origin(each, cls) for each in _unmarked_methods(cls)):
            with suppress(DeclarationError):
                taken = [each for name, each in method.hints().items() if name != "return"]
                gifts = (part for exit_ in read_outputs(method).exits for part in exit_)
                if any(fits(each, kind) for each in gifts) and kind not in taken:
                    found.append(f"{cls.__name__}.{method.written.__name__}")
    return found
