"""A workflow, its stages and steps; it becomes an agent to deploy, or runs as a part of an action.

A step is a function of the author, whose parameters are read as those of an action. A parameter without annotation, as
in a lambda, is filled by its position, with objects that the builder's method names. Annotated parameters are filled
from the step's blackboard: a copy of the action's, on which the workflow puts the results of earlier steps. A repeated
step gets the results of earlier rounds by a parameter `history: History[Report]`.

Stages run one after the other. Each is an action of the agent, so that plans show it and it is stored when it has
ended. As part of an action, all stages run in that action. Its journal has the replies of models and the answers of
people, so nothing is paid or asked twice after an interruption. Only the result leaves the workflow. All builders end
here. (User guide, sections 3.6.11, 3.7.)
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Annotated, Any, Generic, cast, get_args, get_origin, overload

from pydantic import Field
from typing_extensions import TypeVar

from goalport.agents.blackboard import Typed, fits, matcher
from goalport.agents.domain import (
    Action,
    ActionMark,
    Agent,
    Export,
    Injected,
    Input,
    Parameter,
    read_goal,
)
from goalport.agents.domain.decorators import GoalMark
from goalport.agents.domain.signature import Resolved, read_outputs, read_parameters
from goalport.base.errors import DeclarationError, InvalidScore, NonRetryable
from goalport.base.introspection import Origin
from goalport.base.observe.spans import step_span
from goalport.base.words import listed, with_article
from goalport.runtime.ai import Ai
from goalport.runtime.process import SERVICE_TYPES, ActionContext
from goalport.runtime.process.execution import fill, missing

R = TypeVar("R")
T = TypeVar("T")
I = TypeVar("I", default=None)  # noqa: E741 - an input
J = TypeVar("J")
Given = Awaitable[R] | R
"""The result of a function, async or not."""
Function = Callable[..., Given[R]]
"""A function of the author, whose parameters are filled as those of an action."""
Offer = Callable[[ActionContext], object]
"""Returns the object for a parameter without annotation."""


def is_number(value: object) -> bool:
    """Whether it is an int or a float, and neither NaN nor a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


@dataclass(frozen=True, slots=True)
class Feedback:
    """An evaluation of an attempt."""  # models read it

    score: Annotated[float, Field(ge=0, le=1, description="How good it is: 0 is useless, 1 is perfect")]
    text: Annotated[str, Field(description="What is good, and what should become better")] = ""

    def __post_init__(self) -> None:
        """Raise `InvalidScore` for a score that is not from 0 to 1."""
        if not is_number(self.score) or not 0 <= self.score <= 1:
            raise InvalidScore(self.score)


@dataclass(frozen=True)  # not slots=True: on Python 3.11 `Attempt[T](…)` fails with it
class Attempt(Generic[T]):
    """An attempt, and what was said of it."""

    result: T
    feedback: Feedback | None = None
    """The feedback of the evaluator; None if there is no evaluator."""
    accepted: Annotated[bool, Field(description="Whether it was good enough, so that no other was made")] = False

    @property
    def score(self) -> float:
        """The score of the feedback; 0 without one."""
        return 0.0 if self.feedback is None else self.feedback.score


@dataclass(frozen=True)  # as above
class History(Generic[T]):
    """Attempts, the oldest first."""  # models read it, too

    attempts: tuple[Attempt[T], ...] = ()

    @property
    def last(self) -> Attempt[T] | None:
        """The newest attempt; None in the first round."""
        return self.attempts[-1] if self.attempts else None

    @property
    def best(self) -> Attempt[T] | None:
        """The accepted attempt, else the newest of those with the best score; None in the first round."""
        return max(reversed(self.attempts), key=lambda each: (each.accepted, each.score), default=None)

    def __len__(self) -> int:
        return len(self.attempts)

    def __iter__(self) -> Iterator[Attempt[T]]:
        return iter(self.attempts)

    def with_attempt(self, attempt: Attempt[T]) -> "History[T]":
        """The history with one attempt more."""
        return History((*self.attempts, attempt))


def context_itself(context: ActionContext) -> ActionContext:
    """Offers the context of the step."""
    return context


def newest(kind: object) -> Offer:
    """Offers the newest object of a type on the blackboard of the step, or None."""
    return lambda context: context.blackboard.last(kind)


@dataclass(frozen=True, slots=True)
class _StepResolver:
    """Fills parameters of a step that are not read as those of an action: a `Resolver` of goalport.

    A parameter without an annotation gets the offered object, or its default, as in `lambda context, model=model: …`; a
    parameter of type `History` gets the attempts.
    """

    offers: dict[str, Offer]
    """The offers by parameter name."""

    def supports(self, parameter: inspect.Parameter, /) -> bool:
        if parameter.annotation is not parameter.empty:
            return (get_origin(parameter.annotation) or parameter.annotation) is History
        return parameter.name in self.offers or parameter.default is not parameter.empty

    def resolve(self, parameter: inspect.Parameter, context: ActionContext, /) -> object:
        if parameter.annotation is not parameter.empty:
            return context.last(cast("type[History[Any]]", History)) or History[Any]()
        return self.offers[parameter.name](context) if parameter.name in self.offers else parameter.default


@dataclass(frozen=True, slots=True)
class Step(Generic[R]):
    """A function of a workflow that is ready to run."""

    name: str
    function: Callable[..., object]
    parameters: tuple[Parameter, ...]
    kind: type[R]
    """The type of its result."""

    @property
    def label(self) -> str:
        """Its name in a sentence."""
        return "a lambda" if self.name == "lambda" else self.name

    @property
    def origin(self) -> Origin:
        """Where the function is declared."""
        return Origin(self.function)

    @property
    def asks_a_model(self) -> bool:
        """Whether it may ask a model: it takes an `Ai`, or a context, which has one."""
        for each in self.parameters:
            match each:
                case Injected(type=kind) if kind in _WITH_AI:
                    return True
                case Resolved(name=name, resolver=_StepResolver(offers)) if offers.get(name) is context_itself:
                    return True
                case _:
                    pass
        return False

    def wants(self, given: Sequence[object]) -> Iterable[Input]:
        """The inputs that must exist before the workflow begins; `given` are the types that it produces itself."""
        inputs = (each for each in self.parameters if isinstance(each, Input) and each.required)
        return (each for each in inputs if not any(fits(kind, each.type) for kind in given))

    async def run(self, context: ActionContext) -> R:
        """Call the function as actions are called, on the blackboard of this context.

        Raises `NonRetryable` when an input is missing, or when the result is not of the declared type.
        """
        if lacking := " and ".join(map(with_article, missing(self.parameters, context.blackboard))):
            raise NonRetryable(f"{self.origin} takes {lacking}, which is not on the blackboard.")
        named = await fill(self.parameters, None, context)
        positional = [
            named.pop(each.name)
            for each in self.parameters
            if isinstance(each, Resolved) and each.parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        ]
        result = await context.call(partial(self.function, *positional) if positional else self.function, **named)
        if not matcher(self.kind)(result):
            came = "nothing" if result is None else with_article(type(result))
            raise NonRetryable(f"Expected {self.origin} to give {with_article(self.kind)}, but it gave {came}.")
        return cast("R", result)

    def span(self, context: ActionContext, name: str = "") -> AbstractContextManager[object]:
        """A span around a run of the step, where spans are recorded."""
        process = context.process
        known = {"workflow": context.action, "process_id": process.id}
        return step_span(name or self.name, **known) if process.traced else nullcontext()


_WITH_AI = frozenset({Ai, *(each for each in SERVICE_TYPES if issubclass(ActionContext, each))})


def read_step(function: Function[R], kind: type[R], *offered: Sequence[Offer]) -> Step[R]:
    """Read a function of a workflow.

    `offered` lists the objects for functions with one parameter without annotation, with two, and so on. Raises
    `DeclarationError` for a function that could not be an action either.
    """
    if not callable(function):
        expected, came, fix = f"a function that gives {with_article(kind)}", function, "Pass the function itself."
        raise DeclarationError("A workflow", expected=expected, came=f"it is {came!r}", fix=fix)
    if not callable(kind) and not get_args(kind):
        expected = "a type for what its functions give"
        raise DeclarationError("A workflow", expected=expected, came=f"it is {kind!r}", fix="Name a class.")
    origin = Origin(function)
    try:
        signature = inspect.signature(function).parameters.values()
    except ValueError:  # of some functions that are written in C
        fix = "Call it in a lambda."
        raise origin.error(expected="a function with a signature", came="it has none", fix=fix) from None
    hints = origin.hints()
    names = [
        each.name
        for each in signature
        if each.name not in hints and each.name not in origin.filled and each.default is each.empty
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    offers = next((each for each in offered if len(each) == len(names)), ())
    resolver = _StepResolver(dict(zip(names, offers, strict=False)))
    inside: Any = function
    while isinstance(inside, partial):
        inside = inside.func
    name = getattr(inside, "__name__", type(function).__name__).strip("<>")
    return Step(name, function, read_parameters(origin, SERVICE_TYPES, resolvers=[resolver]), kind)


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a workflow that is an action of its agent."""

    name: str
    description: str
    kind: object
    """The type of its result."""
    steps: Sequence[Step[Any]]
    """The functions that it may call."""
    made: Sequence[object]
    """The types that the stage itself puts on the blackboards of its steps."""
    run: Callable[[ActionContext], Awaitable[object]]
    inputs: tuple[Input, ...] = ()
    """Inputs of the stage itself, in addition to those of its steps."""

    @property
    def wants(self) -> tuple[Input, ...]:
        """The inputs that must exist when the stage begins, each once."""
        wanted = chain(self.inputs, *(each.wants(self.made) for each in self.steps))
        return tuple({(repr(each.type), each.binding): each for each in wanted}.values())

    def action(self, agent: str) -> Action:
        """The stage as an action of an agent. Raises `DeclarationError` if no action can return its type."""

        async def run(context: ActionContext, **_: object) -> object:
            return await self.run(context.on_copy())

        def give() -> None:
            """Stands for the function of an action."""

        give.__annotations__ = {"return": self.kind}
        give.__qualname__ = f"{agent}.{self.name}"
        give.__module__ = next((each.origin.written.__module__ for each in self.steps), give.__module__)
        injected = [Injected("context", ActionContext)]
        injected += [Injected("ai", Ai)] if any(each.asks_a_model for each in self.steps) else []
        inputs = (replace(each, name=f"input_{number}") for number, each in enumerate(self.wants, start=1))
        settings = ActionMark(description=self.description)
        return Action(f"{agent}.{self.name}", run, (*injected, *inputs), read_outputs(Origin(give)), settings)


@dataclass(frozen=True)
class Workflow(Generic[R]):
    """A workflow: `build_agent` makes an agent of it, and `as_sub_process` runs it inside an action."""

    kind: type[R]
    """The type of the result."""
    stages: Sequence[Stage] = field(repr=False)

    def build_agent(
        self,
        name: str,
        description: str,
        *,
        export: Export | None = None,
        goal: str = "",
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        provider: str = "",
        version: str = "0.1.0",
    ) -> Agent:
        """An agent that runs the workflow; it is deployed as any other, at the top level of a module in `agents/`.

        `goal` describes what it achieves, by default as `description` does; `export` says how the goal is published.
        The agent is opaque: no other agent plans with its actions. Its processes continue after a restart if it is
        deployed again under the same name. Raises `DeclarationError` for an empty name or description.
        """
        for what, text in (("name", name), ("description", description)):
            if not text.strip():
                raise DeclarationError(
                    f"The agent {name!r}",
                    expected=f"a {what} of the agent",
                    came="it is empty",
                    fix='Write build_agent("name", "What it is for, to people and models").',
                )
        published = export or Export()
        mark = GoalMark(description=goal or description, value=0.0, tags=tags, examples=examples, export=published)
        actions = tuple(each.action(name) for each in self.stages)
        goals = (read_goal(actions[-1], mark),)
        described = name, description, provider, version
        return Agent(*described, opaque=True, actions=actions, goals=goals, source=self._source)

    async def as_sub_process(self, context: ActionContext, *inputs: object) -> R:
        """Run the workflow in the action of this context, on a copy of its blackboard to which `inputs` are added.

        Raises `NonRetryable` before it begins if an input is missing, and the errors of its steps.
        """
        own, made = context.on_copy(*inputs), list[object]()
        for stage in self.stages:
            wanted = [each for each in stage.wants if each.type not in made]
            if lacking := missing(wanted, own.blackboard):
                raise NonRetryable(
                    f"The workflow of {self._source} takes {listed(map(with_article, lacking))}, which is not on the"
                    " blackboard. Pass it: as_sub_process(context, …)."
                )
            made.append(stage.kind)
        result: object = None
        for stage in self.stages:
            result = await stage.run(own)
            own = own.on_copy(Typed(result, stage.kind))
        return cast("R", result)

    @property
    def _source(self) -> str:
        steps = (step for stage in self.stages for step in stage.steps)
        return next((str(each.origin) for each in steps), "")


@dataclass(frozen=True)
class SimpleAgentBuilder(Generic[R, I]):
    """The simplest agent, with one function.

    `SimpleAgentBuilder.returning(Joke).running(tell).build_agent("Joker", "Tells a joke")`.
    """

    kind: type[R]
    inputs: tuple[type[Any], ...] = ()

    @staticmethod
    def returning(kind: type[T]) -> "SimpleAgentBuilder[T]":
        """Begin a workflow with a result of this type."""
        return SimpleAgentBuilder(kind)

    def consuming(self, kind: type[J]) -> "SimpleAgentBuilder[R, J]":
        """Add an input type, an object of which must exist when the workflow begins; call it once for each type."""
        return SimpleAgentBuilder(self.kind, (*self.inputs, kind))

    @overload
    def running(self, function: Callable[[ActionContext], Given[R]], /) -> Workflow[R]: ...
    @overload
    def running(self, function: Callable[[I, ActionContext], Given[R]] | Function[R], /) -> Workflow[R]: ...
    def running(self, function: Function[R], /) -> Workflow[R]:
        """Run this function, whose parameters are filled as those of an action.

        The parameters of a lambda are the context, or the last of the inputs and the context.
        """
        last = [[newest(each), context_itself] for each in self.inputs[-1:]]
        step = read_step(function, self.kind, [context_itself], *last)

        async def run(context: ActionContext) -> R:
            with step.span(context):
                return await step.run(context)

        inputs = tuple(Input(f"consumed_{number}", kind) for number, kind in enumerate(self.inputs))
        return Workflow(step.kind, [Stage("run", f"Runs {step.label}", step.kind, [step], (), run, inputs)])
