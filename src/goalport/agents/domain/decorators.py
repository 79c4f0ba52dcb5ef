"""The decorators `@agent`, `@action`, `@condition`, `@cost`, `@achieves_goal`, `@component`, and their settings.

They attach a record of their settings, a mark, and return the class or function unchanged. The marks are read later, in
one place: by `reader`, when the agent is deployed. (User guide, section 3.6.)
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from itertools import repeat
from typing import Any, Literal, Never, Protocol, Self, TypeVar, cast, get_args, overload

from goalport.agents.domain.checks import (
    require_access,
    require_amount,
    require_fields,
    require_limit,
    require_settings,
)
from goalport.base.caller import require_scopes
from goalport.base.errors import BadInput, ModelError, NonRetryable, ProcessEnded, Retryable, causes, leaves

_ANY_NUMBER = sys.maxsize


class PlannerType(StrEnum):
    """How the next action is chosen (user guide, section 3.18).

    Each member is defined by its name, the numbers of goals that such an agent may have, and whether it asks a model.
    """

    GOAP = "goap", range(1, _ANY_NUMBER), False
    """Takes the first step of the cheapest plan to a goal."""
    UTILITY = "utility", range(_ANY_NUMBER), False
    """Takes the possible action of the greatest net value."""
    SUPERVISOR = "supervisor", range(1, 2), True
    """Lets a model choose among the possible actions."""

    goal_counts: range
    """The numbers of goals that an agent with this planner may have; `range(1, 2)` is exactly one."""
    asks_models: bool

    def __new__(cls, name: str, goal_counts: range, asks_models: bool) -> Self:  # noqa: FBT001 - of a member
        member = str.__new__(cls, name)
        member._value_ = name
        member.goal_counts, member.asks_models = goal_counts, asks_models
        return member

    @classmethod
    def written(cls, *, goals: int | None = None) -> str:
        """The members as code, for messages; with `goals`, only those that allow this number of goals."""
        return " or ".join(f"PlannerType.{each.name}" for each in cls if goals is None or goals in each.goal_counts)


_DEEPEST = 5
"""The deepest nesting of exception groups that is inspected."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often an action is tried, and the waits in between. By default only transient failures are retried."""

    attempts: int = 3
    """The number of attempts in all; 1: no retry."""
    first_delay: float = 0.2
    """Seconds before the second attempt."""
    factor: float = 5.0
    """Each further wait is this many times as long as the previous one."""
    max_delay: float = 60.0
    """The longest wait, in seconds."""
    every_error: bool = False
    """Retry after any failure, not only after a transient one."""

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise TypeError(f"Expected attempts to be a whole number from 1 up, but got {self.attempts!r}.")
        require_amount("first_delay", self.first_delay, "a number of seconds")
        require_amount("max_delay", self.max_delay, "a number of seconds")
        require_amount("factor", self.factor)

    def delays(self) -> Iterator[float]:
        """The waits before the second attempt, the third, and so on; as many as there are attempts left."""
        delay = self.first_delay
        for _ in repeat(None, self.attempts - 1):
            yield min(delay, self.max_delay)
            delay *= self.factor

    def retries(self, error: Exception) -> bool:
        """Whether to try again after this failure; a `Retryable` or `NonRetryable` among its causes decides."""
        marked = _marked(error)
        return (self.every_error or transient(error)) if marked is None else marked


def transient(error: BaseException, depth: int = 0) -> bool:
    """Whether a failure is transient.

    The nearest `Retryable` or `NonRetryable` among its causes decides. Without one, time-outs and errors of transports
    are transient, also if they are causes.
    """
    if (marked := _marked(error, depth)) is not None:
        return marked
    # Only loaded libraries can have raised; importing them here would slow down every start.
    modules = (sys.modules.get(each) for each in ("httpx2", "httpx"))
    transports = tuple(each.TransportError for each in modules if each is not None)
    for each in causes(error):
        if isinstance(each, (ModelError, ProcessEnded)):
            # It was tried again already: as often as the provider's settings say, or in the sub-process.
            return False
        if isinstance(each, BaseExceptionGroup):
            parts = leaves(cast("BaseException", each))
            return depth < _DEEPEST and all(transient(leaf, depth + 1) for leaf in parts)
        if isinstance(each, (TimeoutError, ConnectionError, *transports)):
            return True
    return False


def _marked(error: BaseException, depth: int = 0) -> bool | None:
    """Whether to retry, by the nearest marker among the causes; None: no marker. In a group, one no is enough."""
    given_up = False
    for each in causes(error):
        if isinstance(each, (BadInput, NonRetryable)):
            return False
        if isinstance(each, Retryable) and not given_up:
            return True
        given_up = given_up or isinstance(each, ProcessEnded)  # the sub-process has already retried it
        if isinstance(each, BaseExceptionGroup) and depth < _DEEPEST:
            said = {_marked(leaf, depth + 1) for leaf in leaves(cast("BaseException", each))}
            if False in said or said == {True}:
                return False not in said
    return None


OnDisconnect = Literal["kill", "detach"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """How `@achieves_goal(export=…)` publishes a goal (user guide, section 3.24.1)."""

    name: str = ""
    """The tool's name; by default `<agent>_<method>` in snake case."""
    remote: bool = False
    """Offer the goal over MCP."""
    starting_input_types: Sequence[type] = ()
    """The types from which the goal can be started: each becomes a tool. By default the types that its plan needs and
    no action produces."""
    title: str = ""
    """A title for people, shown by hosts instead of the name."""
    description: str = ""
    """What the tool does, for the model that may call it; by default the goal's description."""
    read_only: bool | None = None
    """A hint for hosts: reaching the goal changes nothing."""
    destructive: bool | None = None
    """A hint for hosts: reaching the goal may destroy something."""
    idempotent: bool | None = None
    """A hint for hosts: reaching the goal again with the same input changes nothing more."""
    open_world: bool | None = None
    """A hint for hosts: reaching the goal touches the world outside."""
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs, all of them, to start the goal, to answer its questions and to end it. None: the
    scope to read for a goal that is `read_only`, else the scope to write. An empty list: any valid credential."""
    on_disconnect: OnDisconnect = "kill"
    """Whether a disconnect of its client ends the process ("kill"), or the process goes on without it ("detach")."""
    long: bool | None = None
    """Reaching the goal may take longer than hosts wait, or may involve a question of another agent to a person: after
    `wait_budget` a request returns a handle for following the process. None: true if an action of its agent takes an
    `Ai`, or if a model supervises it. A goal whose own agent may ask a person always counts as long."""
    durable: bool = False
    """Store each step of its processes, as is done for goals that are long or ask people; otherwise a process is stored
    once, at its end."""
    wait_budget: float | None = None
    """Seconds after which a request to a `long` goal returns; by default 45, or 240 if the caller asked for progress or
    shows a person a form. A client that declares the Tasks extension gets a task then; by default at once."""
    max_cost: float = 0
    """The most US dollars that reaching it may cost; 0: no limit of its own. For this and the next three, the smallest
    limit counts: this one, that of the platform, and that of the caller."""
    max_tokens: int = 0
    """The most tokens, of input and output together."""
    max_actions: int = 0
    """The most actions that may run."""
    max_seconds: float = 0
    """The seconds after which the process is terminated."""
    task_required: bool = False
    """Only MCP clients that declare the Tasks extension may call it; others are refused. It counts as `long`."""

    def __post_init__(self) -> None:
        require_fields(self, "max_cost", "max_seconds")
        require_scopes("scopes", self.scopes)
        if self.on_disconnect not in get_args(OnDisconnect):
            raise ValueError(f'Expected on_disconnect to be "kill" or "detach", but got {self.on_disconnect!r}.')
        for what in ("max_cost", "max_tokens", "max_actions", "max_seconds"):
            require_limit(what, getattr(self, what), whole=what in {"max_tokens", "max_actions"})
        if self.wait_budget is not None and not 0 < self.wait_budget < math.inf:
            raise ValueError(f"Export(wait_budget=…) was expected to be seconds above 0, not {self.wait_budget!r}.")

    @property
    def limits(self) -> Mapping[str, Any]:
        """The limits of its processes, by the names that `ProcessOptions.within` has for them."""
        names = ("cost", "tokens", "actions", "seconds")
        return {name: limit for name in names if (limit := getattr(self, f"max_{name}"))}


F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
M = TypeVar("M")
_ATTRIBUTE = "__goalport_marks__"


class GroupRequirement(Protocol):
    """A tool group that an action needs, and tools that the group must contain."""

    @property
    def role(self) -> str:
        """The name of the role by which the group is found."""
        ...

    @property
    def tools(self) -> Sequence[str]:
        """The names of tools that must be in it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentMark:
    """The settings of `@agent` or `@component` for a class."""

    name: str = ""
    description: str = ""
    provider: str = ""
    version: str = ""
    opaque: bool = False
    component: bool = False
    planner: PlannerType = PlannerType.GOAP
    access: str | None = None

    def __post_init__(self) -> None:
        require_fields(self)
        require_access(self.access)
        if not isinstance(self.planner, PlannerType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"Expected planner to be a PlannerType, but got {self.planner!r}. Write {PlannerType.written()}."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionMark:
    """The settings of `@action` for a method."""

    description: str = ""
    pre: Sequence[str] = ()
    post: Sequence[str] = ()
    can_rerun: bool = False
    clear_blackboard: bool = False
    cost: float = 0.0
    value: float = 0.0
    cost_method: str = ""
    value_method: str = ""
    tool_groups: Sequence[str] = ()
    required_tool_groups: Sequence[str] = ()
    tool_group_requirements: Sequence[GroupRequirement] = ()
    output_binding: str = ""
    trigger: type | None = None
    read_only: bool = False
    repeatable: bool = True
    """Whether it may run again if the program ended while it ran."""
    retry: RetryPolicy | None = None
    """How often a failure is tried again; None: the policy of the platform."""
    access: str | None = None
    """Who may run it: scopes, or an expression over the caller and the inputs (`AccessRule`); None: everybody."""

    def __post_init__(self) -> None:
        require_fields(self)
        require_access(self.access)
        if self.output_binding and not self.output_binding.strip():
            raise TypeError(
                f"Expected output_binding to be a name, but got {self.output_binding!r}. Leave it out for none."
            )
        for each in self.tool_group_requirements:
            if not hasattr(each, "role") or not hasattr(each, "tools"):
                raise TypeError(
                    "Expected tool_group_requirements to be a list of ToolGroupRequirement, but it holds"
                    f' {each!r}. Write required_tool_groups=["web"], or ToolGroupRequirement("web", tools=("search",)).'
                )
        if self.retry is not None and type(self.retry) is not RetryPolicy:
            raise TypeError(
                f"Expected retry to be a RetryPolicy, but got {self.retry!r}. Write RetryPolicy(attempts=…)."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class GoalMark:
    """The settings of `@achieves_goal` for a method."""

    description: str
    value: float
    tags: Sequence[str]
    examples: Sequence[str]
    export: Export

    def __post_init__(self) -> None:
        require_fields(self)
        if type(self.export) is not Export:
            raise TypeError(f"Expected export to be an Export, but got {self.export!r}. Write Export(remote=True).")


@dataclass(frozen=True, slots=True)
class ConditionMark:
    """The settings of `@condition` for a method."""

    name: str
    cost: float = 0.0

    def __post_init__(self) -> None:
        require_fields(self, "cost")
        require_amount("cost", self.cost)


@dataclass(frozen=True, slots=True)
class CostMark:
    """The settings of `@cost` for a method."""

    name: str

    def __post_init__(self) -> None:
        require_fields(self)


@overload
def agent(cls: C, /) -> C: ...
@overload
def agent(
    *,
    description: str = "",
    name: str = "",
    provider: str = "",
    version: str = "0.1.0",
    opaque: bool = False,
    planner: PlannerType = PlannerType.GOAP,
    access: str | None = None,
) -> Callable[[C], C]: ...
def agent(cls: C | None = None, /, *, version: str = "0.1.0", **settings: Any) -> C | Callable[[C], C]:
    """Mark a class as an agent: actions and at least one goal, planned together.

    `description` says what the agent is for, to people and to models that choose among agents, and defaults to the
    class's docstring; `name` defaults to the class's name. Other agents cannot use the actions of an `opaque` agent.
    `planner` chooses the next action; a utility agent needs no goal. `access` is a rule about who may run its actions,
    as in `@action`; both rules have to hold. The class is read when an instance is deployed.
    """
    require_settings("agent", settings, (each.name for each in fields(AgentMark) if each.name != "component"))
    mark = AgentMark(version=version, component=False, **settings)
    return partial(put_mark, mark) if cls is None else put_mark(mark, cls)


@overload
def component(cls: C, /) -> C: ...
@overload
def component(*, name: str = "", description: str = "", access: str | None = None) -> Callable[[C], C]: ...
def component(
    cls: C | None = None, /, *, name: str = "", description: str = "", access: str | None = None
) -> C | Callable[[C], C]:
    """Mark a class whose actions and conditions every agent of the platform may use; it needs no goal of its own.

    `access` is the same as in `@agent`.
    """
    mark = AgentMark(name=name, description=description, component=True, access=access)
    return partial(put_mark, mark) if cls is None else put_mark(mark, cls)


@overload
def action(function: F, /) -> F: ...
@overload
def action(
    *,
    description: str = "",
    pre: Sequence[str] = (),
    post: Sequence[str] = (),
    can_rerun: bool = False,
    clear_blackboard: bool = False,
    cost: float = 0.0,
    value: float = 0.0,
    cost_method: str = "",
    value_method: str = "",
    tool_groups: Sequence[str] = (),
    required_tool_groups: Sequence[str] = (),
    tool_group_requirements: Sequence[GroupRequirement] = (),
    output_binding: str = "",
    trigger: type | None = None,
    read_only: bool = False,
    repeatable: bool = True,
    retry: RetryPolicy | None = None,
    access: str | None = None,
) -> Callable[[F], F]: ...
def action(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Mark a method as a step that the planner may take.

    Parameters of domain types are its preconditions and its return type is its effect. `description`: for people and
    models. `pre`, `post`: names of conditions that must hold before, and may hold after. `can_rerun`: may run again in
    the same process. `clear_blackboard`: remove all objects but the output. `cost`, `value`: by convention from 0 to 1,
    or computed on each planning by the `@cost` method named in `cost_method`, `value_method`. `tool_groups`: roles
    whose tools the action uses if available; `required_tool_groups`: roles without whose group it cannot run;
    `tool_group_requirements`: the same, with the names of tools that the group must have. `output_binding`: the name of
    the output. `trigger`: run only when the newest object is of this type. `read_only`: changes nothing. `repeatable`:
    begins again after a crash while it ran, with the same `context.key`; otherwise the process is stuck until somebody
    decides. `retry`: how often a failure is tried again; None: as the platform says. `access`: the scopes that the
    caller of the process needs, such as "finance:write", or an expression such as "expr: caller.has('finance:write')
    and order.total < 100"; if access is denied, the process fails. (User guide, 3.6.2.)
    """
    require_settings("action", settings, (each.name for each in fields(ActionMark)))
    mark = ActionMark(**settings)
    return partial(put_mark, mark) if function is None else put_mark(mark, function)


@overload
def condition(function: F, /) -> F: ...
@overload
def condition(*, name: str = "", cost: float = 0.0) -> Callable[[F], F]: ...
def condition(function: Callable[..., Any] | None = None, /, *, name: str = "", cost: float = 0.0) -> Any:
    """Mark a method that returns whether a condition holds; `name` defaults to the method's name.

    It is called only when its answer can change the plan, but perhaps often, so it must have no side effects. Of
    several conditions that a plan depends on, the one of least `cost` is called first. While an object that it needs is
    missing, the condition is false. (User guide, section 3.6.3.)
    """
    mark = ConditionMark(name, cost)
    return partial(put_mark, mark) if function is None else put_mark(mark, function)


@overload
def cost(function: F, /) -> F: ...
@overload
def cost(*, name: str = "") -> Callable[[F], F]: ...
def cost(function: Callable[..., Any] | None = None, /, *, name: str = "") -> Any:
    """Mark a method that computes a cost or value while planning; `name` defaults to the method's name.

    All its domain parameters must be optional: they are None while the object is missing. (User guide, section 3.6.2.)
    """
    mark = CostMark(name)
    return partial(put_mark, mark) if function is None else put_mark(mark, function)


@overload
def achieves_goal(
    *,
    description: str,
    value: float = 0.0,
    tags: Sequence[str] = (),
    examples: Sequence[str] = (),
    export: Export | None = None,
) -> Callable[[F], F]: ...
@overload
def achieves_goal(undescribed: Never, /) -> Never: ...
def achieves_goal(
    undescribed: object = None,
    /,
    *,
    description: str | None = None,
    value: float = 0.0,
    tags: Sequence[str] = (),
    examples: Sequence[str] = (),
    export: Export | None = None,
) -> Any:
    """Mark a method whose completion achieves a goal; the method needs no `@action` besides.

    `description` says what is achieved, for people and for the model that calls the published tool. `value` is the
    value of the goal compared with other goals. `export` says whether and how it is published. (User guide, 3.6.9.)
    """
    if description is None or undescribed is not None:
        raise TypeError(
            "Expected a description of the goal by its name, but there is none."
            ' Write @achieves_goal(description="…"), with parentheses.'
        )
    mark = GoalMark(description=description, value=value, tags=tags, examples=examples, export=export or Export())
    return partial(put_mark, mark)


def marks_of(marked: object) -> Mapping[type, object]:
    """The marks of an object itself, not of its bases, by their class."""
    # Some objects raise arbitrary exceptions on access to a missing attribute.
    own = vars(marked) if type(marked).__dictoffset__ else {}
    return own.get(_ATTRIBUTE, {})


def mark_of(marked: object, kind: type[M]) -> M | None:
    """The mark of one class that an object has, or None."""
    mark = marks_of(marked).get(kind)
    return mark if isinstance(mark, kind) else None


def is_marked(cls: type) -> bool:
    """Whether a class itself, not a base of it, is marked as an agent or a component."""
    return mark_of(cls, AgentMark) is not None


def lacks_mark(cls: type) -> bool:
    """Whether a class has actions, but is no agent or component, and neither is a base or a subclass of it."""
    return any(map(_acts, cls.__mro__)) and not cls.__subclasses__() and not any(map(is_marked, cls.__mro__))


@lru_cache(maxsize=64)
def _acts(cls: type) -> bool:
    """Whether a class itself has actions. Cached for the bases that all models share, which have many members."""
    # Only callables: other members, such as pydantic's, may raise on access to attributes.
    return any({ActionMark, GoalMark} & marks_of(each).keys() for each in vars(cls).values() if callable(each))


def put_mark(mark: object, marked: Any) -> Any:
    """Add a mark to an object, in addition to its marks of other classes, and return the object."""
    if isinstance(marked, (property, cached_property)):
        raise TypeError("Expected a method to mark, but got a property, which nobody calls. Make a method of it.")
    if isinstance(marked, str):
        raise TypeError(f'Expected settings by their names, but got {marked!r}. Write description="…".')
    setattr(marked, _ATTRIBUTE, {**marks_of(marked), type(mark): mark})
    return marked
