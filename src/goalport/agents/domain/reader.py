"""Reading a marked class into an `Agent`: once, when it is deployed, with every mistake explained.

The states that its actions may lead to are read with it. The reader looks at marks and signatures and calls nothing but
the constructor of a class without an instance. (User guide, section 3.6.)
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence

from goalport.agents.blackboard import fits
from goalport.agents.domain.agents import Action, Agent
from goalport.agents.domain.chatbots import ChatbotMark
from goalport.agents.domain.decorators import AgentMark, mark_of, marks_of
from goalport.agents.domain.members import Members, read_members
from goalport.agents.domain.planner_type import PlannerType
from goalport.agents.domain.signature import Resolver, read_outputs
from goalport.agents.domain.values import State, is_state
from goalport.base.errors import DeclarationError
from goalport.base.introspection import Origin, class_place, constructor
from goalport.base.words import class_name


def read_agent(declared: object, services: frozenset[type] = frozenset(), resolvers: Sequence[Resolver] = ()) -> Agent:
    """The agent or component that an object declares.

    `declared` is an instance of a marked class, a marked class that can be constructed without arguments, or an
    `Agent` built by hand. `services` are the types that are injected; `resolvers` fill the parameters that
    they claim. Raises `DeclarationError`.
    """
    if isinstance(declared, Agent):
        return declared
    instance = _construct(declared) if isinstance(declared, type) else declared
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
    own = read_members(cls, instance, services, resolvers=resolvers)
    members = _with_states(own, instance, services, resolvers)
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


def _with_states(members: Members, owner: object, services: frozenset[type], resolvers: Sequence[Resolver]) -> Members:
    """The members of an agent and those of every state that its actions may lead to, at whatever depth."""
    found, seen = members, set[type]()
    while fresh := [each for each in _reachable_states(found.actions) if each not in seen]:
        for kind in fresh:
            seen.add(kind)
            found += read_members(kind, owner, services, members.costs, resolvers)
    return found


def _reachable_states(actions: Iterable[Action]) -> Iterator[type]:
    """The states that the results of actions may turn out to be, each once.

    Raises `DeclarationError` for a class that could not be found again when a stored process is resumed.
    """
    seen: dict[type, None] = {}
    kinds = (kind for action in actions for exit_ in action.outputs.exits for kind in exit_)
    waiting = [kind for kind in kinds if isinstance(kind, type)]
    while waiting:
        kind = waiting.pop(0)
        if kind not in seen and kind is not State:
            seen[kind] = None
            # `@dataclass(slots=True)` makes a class anew, and the first one lives on for a while.
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
        raise DeclarationError(
            class_place(cls),
            expected="exactly one goal" if len(allowed) == 1 else "at least one goal",
            came=f"{count} methods achieve one" if count else f"no method achieves one{_unmarked(cls)}",
            fix='Put @achieves_goal(description="…") on the last action, or use @component or '
            f"{PlannerType.written(goals=count)}.",
        )


def _unmarked(cls: type) -> str:
    names = [each.__name__ for each in _unmarked_methods(cls)]
    return f", and {' and '.join(names)} {'has' if len(names) == 1 else 'have'} no decorator" if names else ""


def _unmarked_methods(cls: type) -> list[Callable[..., object]]:
    """The methods of the class that look like actions which nobody marked."""
    return [
        each
        for name, each in vars(cls).items()
        if inspect.isfunction(each) and not name.startswith("_") and "return" in each.__annotations__
        if not marks_of(each)
    ]


def unmarked_givers(agent: Agent, kind: object) -> list[str]:
    """The methods without a mark, in the classes of an agent, that would give an object of a type and take none."""
    classes = dict.fromkeys(type(each.owner) for each in agent.actions if each.owner is not None)
    methods = [Origin(each, cls) for cls in classes for each in _unmarked_methods(cls)]
    return [f"{each.owner.__name__}.{each.written.__name__}" for each in methods if each.owner and _gives(each, kind)]


def _gives(method: Origin, kind: object) -> bool:
    try:
        taken, outputs = method.hints(), read_outputs(method)
    except DeclarationError:
        return False
    gifts = [part for exit_ in outputs.exits for part in exit_]
    return any(fits(each, kind) for each in gifts) and kind not in [taken[name] for name in taken if name != "return"]


def _construct(cls: type) -> object:
    try:
        constructor(cls).bind()
    except TypeError as error:
        raise DeclarationError(
            class_place(cls),
            expected="an instance at module level, or a class that can be constructed without arguments",
            came=f"its constructor reports: {error}",
            fix=f"Deploy an instance: `{cls.__name__.lower()} = {cls.__name__}(…)`, or mark with @service or @settings"
            " what gives it.",
        ) from error
    return cls()
