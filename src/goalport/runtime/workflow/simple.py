"""`SimpleAgentBuilder`: the simplest agent, which is one function.

(User guide, section 3.7.1.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from goalport.agents.domain import Input
from goalport.runtime.process import ActionContext
from goalport.runtime.workflow.step import Given, Step, context_itself, newest, read_step
from goalport.runtime.workflow.workflow import Stage, Workflow

R = TypeVar("R")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an input
J = TypeVar("J")


@dataclass(frozen=True, slots=True)
class SimpleAgentBuilder(Generic[R]):
    """`SimpleAgentBuilder.returning(Joke).running(tell).build_agent("Joker", "Tells a joke")`."""

    kind: type[R]

    @staticmethod
    def returning(kind: type[T]) -> "SimpleAgentBuilder[T]":
        """Begin a workflow with a result of this type."""
        return SimpleAgentBuilder(kind)

    def consuming(self, kind: type[I]) -> "ConsumingAgentBuilder[I, R]":
        """Let the workflow begin with an object of this type; several may be named, one after the other."""
        return ConsumingAgentBuilder(self.kind, (kind,))

    @overload
    def running(self, function: Callable[[ActionContext], Given[R]], /) -> Workflow[R]: ...
    @overload
    def running(self, function: Callable[..., Given[R]], /) -> Workflow[R]: ...
    def running(self, function: Callable[..., Given[R]], /) -> Workflow[R]:
        """Run this function, whose parameters are filled as those of an action; a lambda's one is the context."""
        return _workflow(read_step(function, self.kind, [[context_itself]]), ())


@dataclass(frozen=True, slots=True)
class ConsumingAgentBuilder(Generic[I, R]):
    """A `SimpleAgentBuilder` that takes inputs."""

    kind: type[R]
    inputs: tuple[type[Any], ...]

    def consuming(self, kind: type[J]) -> "ConsumingAgentBuilder[J, R]":
        """Let the workflow begin with an object of this type too."""
        return ConsumingAgentBuilder(self.kind, (*self.inputs, kind))

    @overload
    def running(self, function: Callable[[ActionContext], Given[R]], /) -> Workflow[R]: ...
    @overload
    def running(self, function: Callable[[I, ActionContext], Given[R]], /) -> Workflow[R]: ...
    @overload
    def running(self, function: Callable[..., Given[R]], /) -> Workflow[R]: ...
    def running(self, function: Callable[..., Given[R]], /) -> Workflow[R]:
        """Run this function; the parameters of a lambda are the last of the inputs and the context, or the context."""
        offered = [[context_itself], [newest(self.inputs[-1]), context_itself]]
        return _workflow(read_step(function, self.kind, offered), self.inputs)


def _workflow(step: Step[R], consumed: tuple[type[Any], ...]) -> Workflow[R]:
    async def run(context: ActionContext) -> R:
        with step.span(context):
            return await step.run(context)

    inputs = tuple(Input(f"consumed_{number}", kind) for number, kind in enumerate(consumed))
    return Workflow(step.kind, [Stage("run", f"Runs {step.label}", step.kind, [step], (), run, inputs)])
