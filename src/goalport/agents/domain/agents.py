"""An agent that has been read: actions, goals, conditions and costs, as data; and how chatbots are declared.

Nothing here runs or plans. Above: `formulas`, which describes an agent to the planner, and the process, which calls the
functions. A chatbot is an agent whose actions react to messages, turn by turn (User guide, section 3.12.13).
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Protocol, TypeVar, overload

from goalport.agents.blackboard import DEFAULT_BINDING, alternatives, fits
from goalport.agents.domain.checks import require_amount, require_fields, require_settings
from goalport.agents.domain.decorators import ActionMark, AgentMark, Export, GroupRequirement, PlannerType, put_mark
from goalport.agents.domain.signature import Input, Outputs, Parameter, ProvidedInput, inputs_among
from goalport.agents.plan import GroupAvailable
from goalport.base.caller import Caller, require_scopes
from goalport.base.errors import DeclarationError
from goalport.base.introspection import Origin

C = TypeVar("C", bound=type)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatbotMark:
    """How people talk to an agent. The limits hold for one turn: from a message to the end of what it causes."""

    max_actions_per_turn: int = 50
    """The most actions."""
    max_cost_per_turn: float = 2.0
    """The most US dollars for models."""
    max_tokens_per_turn: int = 1_000_000
    """The most tokens of models, of input and output together."""
    seconds_per_turn: float | None = None
    """The most seconds; None: any number."""
    stop_when_reader_leaves: bool = False
    """Whether a reply is cancelled when its reader disconnects; otherwise it is finished and stored."""
    max_history_tokens: int = 100_000
    """How many tokens of the conversation are sent to a model; beyond that, older messages are summarized."""
    scopes: Sequence[str] = ()
    """The scopes that a caller needs to talk to it, where callers are authenticated; empty: the scope to write."""
    context_id: str = ""
    """The id of the caller's context; each conversation begins with the objects in it. Empty: none."""
    context_scope: str = ""
    """All callers with this scope share one context; empty: each caller has a context of their own."""

    def __post_init__(self) -> None:
        for what in ("max_actions_per_turn", "max_tokens_per_turn", "max_history_tokens"):
            number = getattr(self, what)
            if not (isinstance(number, int) and number > 0):
                raise TypeError(f"Expected {what} to be a whole number from 1 up, but got {number!r}.")
        require_amount("max_cost_per_turn", self.max_cost_per_turn)
        if self.seconds_per_turn is not None:
            require_amount("seconds_per_turn", self.seconds_per_turn)
        require_fields(self, "max_cost_per_turn", "context_scope")
        if self.context_scope:
            require_scopes("context_scope", [self.context_scope])


@overload
def chatbot(cls: C, /) -> C: ...
@overload
def chatbot(
    *,
    description: str = "",
    name: str = "",
    provider: str = "",
    version: str = "0.1.0",
    opaque: bool = False,
    access: str | None = None,
    max_actions_per_turn: int = 50,
    max_cost_per_turn: float = 2.0,
    max_tokens_per_turn: int = 1_000_000,
    seconds_per_turn: float | None = None,
    stop_when_reader_leaves: bool = False,
    max_history_tokens: int = 100_000,
    scopes: Sequence[str] = (),
    context_id: str = "",
    context_scope: str = "",
) -> Callable[[C], C]: ...
def chatbot(cls: C | None = None, /, *, version: str = "0.1.0", **settings: Any) -> C | Callable[[C], C]:
    """Mark a class as a chatbot: an agent with the utility planner whose actions react to what people say.

    A message is answered by the action of highest net value that has `can_rerun=True` and takes a `UserMessage`, or has
    it as its trigger. A chatbot needs no goal; reaching one ends the conversation. The first settings are those of
    `@agent`, the others those of `ChatbotMark`. Raises `TypeError` for a setting of a wrong type.
    """
    of_turns = {each.name for each in fields(ChatbotMark)}
    of_agent = {each.name for each in fields(AgentMark)} - {"component", "planner"}
    require_settings("chatbot", settings, (*of_agent, *of_turns))
    mark = ChatbotMark(**{name: value for name, value in settings.items() if name in of_turns})
    others = {name: value for name, value in settings.items() if name in of_agent}
    agent = AgentMark(version=version, planner=PlannerType.UTILITY, **others)

    def put(cls: C) -> C:
        return put_mark(mark, put_mark(agent, cls))

    return put if cls is None else put(cls)


D = TypeVar("D", "Action", "Condition")


class ActionRule(Protocol):
    """A rule about who may run an action."""

    @property
    def text(self) -> str:
        """The rule as it is written."""
        ...

    def lacking(self, caller: Caller, arguments: Mapping[str, object]) -> str:
        """What is missing for a caller to run the action with these arguments, in words; empty: nothing."""
        ...


class _Declared:
    """A declaration with a function, perhaps bound to an owner."""

    __slots__ = ()

    function: Callable[..., object]
    parameters: tuple[Parameter, ...]
    owner: object

    @property
    def origin(self) -> Origin:
        """The place of the declaration. The method of a state is unbound: its class is the type of its first input."""
        name = getattr(self.function, "__name__", "")
        first = [each.type for each in self.parameters[:1] if isinstance(each, Input)]
        if first and isinstance(first[0], type) and getattr(first[0], name, None) is self.function:
            return Origin(self.function, first[0])
        return Origin(self.function, type(self.owner) if self.owner is not None else None)


@dataclass(frozen=True, slots=True)
class Action(_Declared):
    """A step: what it needs, what it gives, and the function to call."""

    name: str
    """Unique on the platform: `Class.method`."""
    function: Callable[..., object]
    parameters: tuple[Parameter, ...]
    outputs: Outputs
    settings: ActionMark = field(default_factory=ActionMark)
    owner: object = None
    """The instance that the function is bound to."""
    cost: "Cost | None" = None
    """The method that computes the cost on each planning; None: the cost is `settings.cost`."""
    value: "Cost | None" = None
    """The method that computes the value on each planning; None: the value is `settings.value`."""
    access: tuple[ActionRule, ...] = ()
    """The rules that the caller has to satisfy before the action runs: those of its class, and its own."""

    @property
    def short_name(self) -> str:
        """The method's name."""
        return self.name.rpartition(".")[2]

    @property
    def description(self) -> str:
        """What the step does, for people and models."""
        # The docstring of a partial object is that of `functools.partial`.
        documented = self.origin.written if isinstance(self.function, partial) else self.function
        return self.settings.description or inspect.getdoc(documented) or self.short_name

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The parameters that are filled from the blackboard."""
        return inputs_among(self.parameters)

    @property
    def output_binding(self) -> str:
        """The name under which the output is bound."""
        return self.settings.output_binding or DEFAULT_BINDING

    @property
    def read_only(self) -> bool:
        """Whether the step promises to change nothing."""
        return self.settings.read_only

    @property
    def requirements(self) -> tuple[GroupRequirement, ...]:
        """The tool groups without which the step cannot run."""
        settings = self.settings
        return (*map(GroupAvailable, settings.required_tool_groups), *settings.tool_group_requirements)

    @property
    def roles(self) -> tuple[str, ...]:
        """The tool groups that the step names, each once."""
        named, required = self.settings.tool_groups, self.requirements
        return tuple(dict.fromkeys([*named, *(each.role for each in required)])) if named or required else ()


@dataclass(frozen=True, slots=True)
class Goal:
    """A result that a process can be asked for: the completion of one action."""

    name: str
    """The name of the action that reaches it."""
    description: str
    output: object = None
    """The type of the result; None if the goal only requires that the action has run."""
    output_binding: str = DEFAULT_BINDING
    value: float = 0.0
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    export: Export = field(default_factory=Export)

    @property
    def action(self) -> str:
        """The name of the action that reaches the goal."""
        return self.name

    @property
    def short_name(self) -> str:
        """The method's name."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Condition(_Declared):
    """A named question about the state of the world, and the function that answers it."""

    name: str
    function: Callable[..., object]
    parameters: tuple[Parameter, ...]
    owner: object = None
    may_be_unknown: bool = False
    """Whether the function may return None for "unknown". An exception means the same, and is logged."""
    cost: float = 0.0
    """The cost of asking, by convention from 0 to 1: of several conditions the cheapest is asked first."""


@dataclass(frozen=True, slots=True)
class Cost(_Declared):
    """The cost or the value of an action, computed by a function on each planning."""

    name: str
    function: Callable[..., object]
    parameters: tuple[Parameter, ...]
    owner: object = None


def _unique(declared: Iterable[D]) -> tuple[D, ...]:
    """Remove duplicates: a state that several agents use was read once for each of them.

    A declaration with a provided parameter belongs to one agent only, so it is no duplicate.
    """
    found: dict[tuple[object, ...], D] = {}
    for each in declared:
        personal = any(isinstance(parameter, ProvidedInput) for parameter in each.parameters)
        found.setdefault((each.name, each.function, id(each) if personal else None), each)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Agent:
    """Actions and goals that are planned together, under one name.

    Read from a class, or built by hand from `Action` and `Goal` objects. Raises `DeclarationError` when names clash
    or a goal names no action.
    """

    name: str
    description: str
    provider: str = ""
    version: str = "0.1.0"
    opaque: bool = False
    component: bool = False
    actions: tuple[Action, ...] = ()
    goals: tuple[Goal, ...] = ()
    conditions: tuple[Condition, ...] = ()
    source: str = ""
    """Where it was declared: module and class."""
    planner: PlannerType = PlannerType.GOAP
    """The default planner of its processes."""
    chat: ChatbotMark | None = None
    """How people talk to it; None: it is no chatbot."""
    open: bool = False
    """Whether it may use the actions of all agents that are not opaque, and not only components' actions."""

    def __post_init__(self) -> None:
        where = self.source or f"Agent {self.name!r}"
        for kind, named in (("actions", self.actions), ("conditions", self.conditions)):
            seen: dict[str, Action | Condition] = {}
            for each in named:
                twin = seen.setdefault(each.name, each)
                if twin is not each:
                    raise DeclarationError(
                        where,
                        expected=f"{kind} of different names",
                        came=f"{Origin(twin.function)} and {Origin(each.function)} are both called {each.name!r}",
                        fix="Rename one.",
                    )
        names = {each.name for each in self.actions}
        goals: dict[str, Goal] = {}
        for goal in self.goals:
            if goals.setdefault(goal.name, goal) is not goal:
                raise DeclarationError(
                    where,
                    expected="goals of different names",
                    came=f"two are called {goal.name!r}",
                    fix="Keep one: an action reaches one goal, which is published once.",
                )
            if goal.action not in names:
                raise DeclarationError(
                    where,
                    expected=f"goal {goal.name!r} to be named after the action that reaches it",
                    came="there is no such action",
                    fix=f"Actions here: {', '.join(sorted(names)) or 'none'}.",
                )

    def action(self, name: str) -> Action:
        """The action of that name, which must be there."""
        return next(each for each in self.actions if each.name == name)

    def goals_giving(self, kind: object) -> tuple[Goal, ...]:
        """The goals whose output is of a type; if there are none, those with an alternative of it in a union."""
        typed = [each for each in self.goals if each.output is not None]
        certain = tuple(each for each in typed if fits(each.output, kind))
        return certain or tuple(each for each in typed if any(fits(some, kind) for some in alternatives(each.output)))

    def with_components(self, components: Sequence["Agent"]) -> "Agent":
        """This agent with the actions and conditions of components; a state that several of them share counts once."""
        others = [each for each in components if each.name != self.name]
        if not others:
            return self
        own = {each.name for each in self.conditions}
        answers = [each for agent in others for each in agent.conditions if each.name not in own]
        return replace(
            self,
            actions=_unique((*self.actions, *(action for each in others for action in each.actions))),
            conditions=_unique((*self.conditions, *answers)),
        )
