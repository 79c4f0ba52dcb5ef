"""Tools that may have to wait for a person: what is asked depends on the call, or on what the process lacks.

The question and its answer stand in the action's journal, so that nothing is asked twice. Whether a person agrees to a
call is simpler: `goalport.tools.with_confirmation`. User guide, "Awaiting tools".
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from goalport.domain import WaitFor
from goalport.errors import GoalportError
from goalport.plan import Available
from goalport.process.context import ActionContext
from goalport.tools import Tool, ToolResult

__all__ = ["Decider", "require_type", "with_awaiting"]

Decider: TypeAlias = Callable[
    [Mapping[str, object], ActionContext], WaitFor[Any] | Awaitable[WaitFor[Any] | None] | None
]
"""What a person has to be asked before a call, of its arguments and the action that calls; None: nothing."""


def with_awaiting(tool: Tool, decider: Decider) -> Tool:
    """A copy of a tool before each call of which `decider` says whether a person has to be asked, and what.

    The process waits for the answer. What the answer comes to is put on the blackboard, and then the tool runs; after a
    no it does not, and a model is told so. `decider` is called once for each call, in a worker thread unless it is
    async.
    """
    return _awaiting(tool, decider)


def require_type(tool: Tool, kind: object, message: str = "") -> Tool:
    """A copy of a tool that runs only with an object of a type on the blackboard: otherwise a person is asked for it.

    The object is put on the blackboard, where the tool finds it by the process or the blackboard that it takes.
    `message` is the question. Raises `TypeError` for a type of which no form can be made.
    """
    words = message or f"The tool {tool.name!r} needs {Available(kind)}."
    wait = WaitFor[Any].form_submission(words, cast("type[Any]", kind))

    async def decide(_: Mapping[str, object], context: ActionContext) -> WaitFor[Any] | None:
        return wait if context.blackboard.last(kind) is None else None

    return _awaiting(tool, decide)


def _awaiting(tool: Tool, decider: Decider) -> Tool:
    # The tool inside asks for approval, and speaks to its server, itself.
    handler = _Awaiting(tool, decider)
    return replace(tool, handler=handler, approval="never", server="", checks_arguments=True, asks_people=True)


@dataclass(frozen=True, slots=True)
class _Awaiting:
    """The handler of a tool that may have to wait."""

    tool: Tool
    decider: Decider

    def check(self, arguments: Mapping[str, object]) -> None:
        self.tool.check(arguments)

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        self.check(arguments)  # no person is asked about what cannot be called
        try:
            context = ActionContext.current()
        except GoalportError:
            return ToolResult.of_error(
                f"The tool {self.tool.name!r} may have to ask a person, and nobody can be asked here."
            )
        if (answer := await self._answer(arguments, context)) is not None:
            _keep(context, answer)
        return await self.tool.call(arguments)

    async def _answer(self, arguments: Mapping[str, object], context: ActionContext) -> object | None:
        """What a person answered; None: nobody had to be asked. Raises `Parked` while there is no answer."""
        questions, name = context.journal.questions, context.names.next("await")
        if name in questions:
            return await context.asked(questions, name, questions[name].wait)
        wait = await context.call(partial(self.decider, arguments, context))
        if wait is None:
            return None
        if not isinstance(wait, WaitFor):
            raise TypeError(f"Expected the question to be a WaitFor, or None, but got {wait!r}.")
        return await context.asked(questions, name, cast("WaitFor[Any]", wait))


def _keep(context: ActionContext, answer: object) -> None:
    """Put an answer on the blackboard, unless it is there since the action began before."""
    if not any(each is answer for each in context.blackboard.history):
        context.add(answer)
