"""Tools that may wait for a person; what is asked depends on the call, or on what the blackboard lacks.

The question and its answer are recorded in the action's journal, so that nothing is asked twice. If a person only has
to approve a call, use `goalport.tools.with_confirmation`. User guide, "Awaiting tools".
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
"""Returns the question for a person before a call, given its arguments and the calling action's context; None: none."""


def with_awaiting(tool: Tool, decider: Decider) -> Tool:
    """A copy of a tool; before each call `decider` says whether a person has to be asked, and what.

    The process waits for the answer. The object in the answer is put on the blackboard, and then the tool runs; after a
    no it does not run, and the model is told so. `decider` is called once for each call, in a worker thread unless it
    is async.
    """
    return _awaiting(tool, decider)


def require_type(tool: Tool, kind: object, message: str = "") -> Tool:
    """A copy of a tool that needs an object of a type on the blackboard; if there is none, a person is asked for it.

    The object is put on the blackboard, which the tool can take as a parameter, as it can the process. `message` is
    the question. Raises `TypeError` for a type that no form can be made of.
    """
    words = message or f"The tool {tool.name!r} needs {Available(kind)}."
    wait = WaitFor[Any].form_submission(words, cast("type[Any]", kind))

    async def decide(_: Mapping[str, object], context: ActionContext) -> WaitFor[Any] | None:
        return wait if context.blackboard.last(kind) is None else None

    return _awaiting(tool, decide)


def _awaiting(tool: Tool, decider: Decider) -> Tool:
    # The inner tool asks for approval, and calls its server, by itself.
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
        self.check(arguments)  # do not ask a person about an invalid call
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
        """The answer of a person; None when nobody had to be asked. Raises `Parked` while there is no answer."""
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
    """Put an answer on the blackboard, unless an earlier run of the action has put it there."""
    if not any(each is answer for each in context.blackboard.history):
        context.add(answer)
