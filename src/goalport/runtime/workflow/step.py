"""A step of a workflow: a function of the author, with its parameters read as those of an action are.

A parameter without an annotation, as in a lambda, is filled by its position with what the place of the step offers. An
annotated one is filled as in an action, from the blackboard of the step: a copy of that of the action, on which the
workflow puts what its steps hand on to one another. Below: `domain`, which reads signatures. Above: the builders.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

from goalport.agents.blackboard import fits, matcher
from goalport.agents.domain import Injected, Input, Parameter
from goalport.agents.domain.signature import Resolved, read_parameters
from goalport.base.errors import DeclarationError, NonRetryable
from goalport.base.introspection import Origin
from goalport.base.observe.spans import step_span
from goalport.base.words import with_article
from goalport.runtime.ai import Ai
from goalport.runtime.process import SERVICE_TYPES, ActionContext
from goalport.runtime.process.parameters import fill, missing
from goalport.runtime.workflow.history import History

R = TypeVar("R")
Given = Awaitable[R] | R
"""What a function gives, whether it is async or not."""
Offer = Callable[[ActionContext], object]
"""Gets what a parameter without annotation is filled with."""


def context_itself(context: ActionContext) -> ActionContext:
    """Offers the context of the step."""
    return context


def newest(kind: object) -> Offer:
    """Offers the newest object of a type on the blackboard of the step, or None."""
    return lambda context: context.blackboard.last(kind)


@dataclass(frozen=True, slots=True)
class _ByPosition:
    """Fills the parameters that have no annotation: a `Resolver` of goalport."""

    offers: dict[str, Offer]

    def supports(self, parameter: inspect.Parameter, /) -> bool:
        return parameter.annotation is parameter.empty and parameter.name in self.offers

    def resolve(self, parameter: inspect.Parameter, context: ActionContext, /) -> object:
        return self.offers[parameter.name](context)


class _Bound:
    """Fills parameters without annotation with their default, as in `lambda context, model=model: …`: a `Resolver`."""

    def supports(self, parameter: inspect.Parameter, /) -> bool:
        return parameter.annotation is parameter.empty and parameter.default is not parameter.empty

    def resolve(self, parameter: inspect.Parameter, context: ActionContext, /) -> object:
        return parameter.default


class _Attempts:
    """Fills the parameters that take a `History`: a `Resolver` of goalport."""

    def supports(self, parameter: inspect.Parameter, /) -> bool:
        return parameter.annotation is History or get_origin(parameter.annotation) is History

    def resolve(self, parameter: inspect.Parameter, context: ActionContext, /) -> object:
        return context.last(cast("type[History[Any]]", History)) or History[Any]()


@dataclass(frozen=True, slots=True)
class Step(Generic[R]):
    """A function of a workflow that is ready to run."""

    name: str
    function: Callable[..., object]
    parameters: tuple[Parameter, ...]
    kind: type[R]
    """The type of what it gives."""

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
        return any(map(_leads_to_a_model, self.parameters))

    def wants(self, given: Sequence[object]) -> Iterable[Input]:
        """The inputs that have to be there before the workflow begins; `given` are the types that it makes itself."""
        inputs = (each for each in self.parameters if isinstance(each, Input) and each.required)
        return (each for each in inputs if not any(fits(kind, each.type) for kind in given))

    async def run(self, context: ActionContext) -> R:
        """Call the function as actions are called, on the blackboard of this context.

        Raises `NonRetryable` when an input is missing, or when the result is not of the declared type.
        """
        if lacking := " and ".join(map(with_article, missing(self.parameters, context.blackboard))):
            raise NonRetryable(f"{self.origin} takes {lacking}, which is not on the blackboard.")
        named = await fill(self.parameters, None, context)
        positional = [named.pop(each.name) for each in self.parameters if _by_position_only(each)]
        result = await context.call(partial(self.function, *positional) if positional else self.function, **named)
        if not matcher(self.kind)(result):
            came = "nothing" if result is None else with_article(type(result))
            raise NonRetryable(f"Expected {self.origin} to give {with_article(self.kind)}, but it gave {came}.")
        return cast("R", result)

    def span(self, context: ActionContext, name: str = "") -> AbstractContextManager[object]:
        """A span around a run of the step, where spans are recorded."""
        process = context.process
        if not process.traced:
            return nullcontext()
        return step_span(name or self.name, workflow=context.action, process_id=process.id)


_WITH_AI = frozenset({Ai, *(each for each in SERVICE_TYPES if issubclass(ActionContext, each))})


def _by_position_only(parameter: Parameter) -> bool:
    return isinstance(parameter, Resolved) and parameter.parameter.kind is inspect.Parameter.POSITIONAL_ONLY


def _leads_to_a_model(parameter: Parameter) -> bool:
    match parameter:
        case Injected(type=kind):
            return kind in _WITH_AI
        case Resolved(name=name, resolver=_ByPosition(offers)):
            return offers[name] is context_itself
        case _:
            return False


def read_step(
    function: Callable[..., Given[R]],
    kind: type[R],
    offered: Sequence[Sequence[Offer]],
) -> Step[R]:
    """Read a function of a workflow.

    `offered` says for one parameter without annotation, for two, and so on, what they are filled with. Raises
    `DeclarationError` for a function that actions could not be made of either.
    """
    if not callable(function):
        raise DeclarationError(
            "A workflow",
            expected=f"a function that gives {with_article(kind)}",
            came=f"it is {function!r}",
            fix="Pass the function itself.",
        )
    if not callable(kind) and not get_args(kind):
        raise DeclarationError(
            "A workflow", expected="a type for what its functions give", came=f"it is {kind!r}", fix="Name a class."
        )
    origin = Origin(function)
    if not _has_signature(function):
        raise origin.error(expected="a function with a signature", came="it has none", fix="Call it in a lambda.")
    written = getattr(_inside(function), "__name__", type(function).__name__).strip("<>")
    resolvers = (_ByPosition(_by_position(origin, offered)), _Attempts(), _Bound())
    parameters = read_parameters(origin, SERVICE_TYPES, resolvers=resolvers)
    return Step(written, function, parameters, kind)


def _by_position(origin: Origin, offered: Sequence[Sequence[Offer]]) -> dict[str, Offer]:
    hints = origin.hints()
    signature = inspect.signature(origin.function).parameters.values()
    names = [
        each.name
        for each in signature
        if each.name not in hints and each.name not in origin.filled and each.default is each.empty
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    offers = next((each for each in offered if len(each) == len(names)), ())
    return dict(zip(names, offers, strict=False))


def _has_signature(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function)
    except ValueError:  # of some functions that are written in C
        return False
    return True


def _inside(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function
