"""Tools that belong to the action that calls them: an agent as a tool, and tools that may wait for a person.

The agent runs in a process of its own, as with `ActionContext.as_sub_process`; while it asks a person, the action
waits. A waiting tool asks a question that depends on the call, or on what is missing on the blackboard. The question
and its answer are recorded in the action's journal, so that nothing is asked twice. If a person only has to approve a
call, use `goalport.tools.with_confirmation`. Below: `context`. Above: only the authors of agents use it. (User guide,
"Awaiting tools".)
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError

from goalport.agents.blackboard import Typed
from goalport.agents.domain import Agent, WaitFor, read_agent
from goalport.agents.plan import Available
from goalport.base.errors import BadInput, DeclarationError, ProcessEnded
from goalport.base.words import corrections, type_label, type_name, validation_problems
from goalport.runtime.ai.output_type import output_schema
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.context import CONTEXT, ActionContext
from goalport.runtime.process.execution import SERVICE_TYPES
from goalport.runtime.process.scope import Scope
from goalport.tools import Parameter, Tool, ToolResult, snake
from goalport.tools.functions import listed_arguments

Decider: TypeAlias = Callable[
    [Mapping[str, object], ActionContext], WaitFor[Any] | Awaitable[WaitFor[Any] | None] | None
]
"""Receives a call's arguments and the action's context. Returns the question to ask first; None: no question."""


def agent_tool(
    agent: object, kind: type | None = None, *, takes: type | None = None, name: str = "", description: str = ""
) -> Tool:
    """A tool that runs an agent and returns its result of type `kind`, as JSON and as artifact.

    `agent` is an instance, an `Agent`, or the name of an agent that is deployed on the same platform. The tool's
    arguments are the fields of the type `takes`. Unless `agent` is a name, its inputs and its result type are derived
    from its goals if they are unambiguous; for a name, `kind`, `takes` and `description` are required. Raises
    `DeclarationError` when one of them is missing or ambiguous.

    The agent works on a copy of the blackboard of the action that calls the tool. Outside of actions, and when the
    agent reaches no result, the tool returns an error for the model.
    """
    if isinstance(agent, str):
        if kind is None or takes is None or not description:
            raise _unclear(agent, "the type of its result, `takes=` and `description=`, since it is a name", "not all")
        source, starts = Agent(agent, description), (takes,)
    else:
        source = agent if isinstance(agent, Agent) else read_agent(agent, SERVICE_TYPES)
        if kind is None:
            kinds = list(dict.fromkeys(goal.output for goal in source.goals if goal.output is not None))
            if len(kinds) != 1:
                came = " and ".join(map(type_name, kinds)) or "its goals give nothing"
                raise _unclear(source.name, "one type of result", came)
            kind = cast("type", kinds[0])
        starts = (takes,) if takes else _starting_types(source, kind)
    chosen = name or snake(source.name)
    schema, read = _inputs(f"The tool {chosen!r}", starts)

    async def run(arguments: Mapping[str, object]) -> ToolResult:
        inputs = read(arguments)
        context = CONTEXT.get()
        if context is None or AgentProcess.current() not in (None, context.process):  # or one of a parent process
            return ToolResult.of_error(
                f"The agent {source.name!r} runs as part of an action, and was called outside of one. "
                "Offer it to a model in an action: `ai.with_tools(…)`."
            )
        try:
            found: object = await context.as_sub_process(cast("type[object]", kind), agent, *inputs)
        except ProcessEnded as ended:
            return ToolResult.of_error(f"The agent {source.name!r} came to no result: {ended.reason}")
        return ToolResult.of(found)

    return Tool(chosen, description or source.description, schema, run, timed=False, in_process=True)


def _inputs(
    where: str, starts: Sequence[object]
) -> tuple[Mapping[str, object], Callable[[Mapping[str, object]], Sequence[object]]]:
    """The tool's JSON Schema, and a function that reads the input objects from a call's arguments."""
    if len(starts) == 1:
        adapter: TypeAdapter[object] = TypeAdapter(cast("Any", starts[0]))
        schema = output_schema(adapter, starts[0], None)
        if schema.get("type") == "object":

            def read_one(arguments: Mapping[str, object]) -> Sequence[object]:
                try:
                    return [Typed(adapter.validate_python(dict(arguments)), starts[0])]
                except ValidationError as error:
                    raise BadInput(corrections(validation_problems(error, arguments))) from None

            plain = {key: value for key, value in schema.items() if key != "title"}
            return {"additionalProperties": False} | plain, read_one
    kinds = {snake(type_label(each)): each for each in starts}
    named = listed_arguments(where, [Parameter(*each) for each in kinds.items()])

    def read(arguments: Mapping[str, object]) -> Sequence[object]:
        return [Typed(value, kinds[name]) for name, value in named.bind(arguments)[1].items()]

    return named.schema({}), read


def _starting_types(agent: Agent, kind: type) -> Sequence[object]:
    """The types that the goal declares as its inputs, else the types that no action of the agent produces."""
    said = [each for goal in agent.goals if goal.output == kind for each in goal.export.starting_input_types]
    if len(said) == 1:
        return said
    starts = Scope(agent).unmade
    if starts and not said:
        return starts
    came = f"its goals begin with {' or '.join(map(type_name, said))}" if said else "it begins with nothing"
    raise _unclear(agent.name, "what it begins with", came)


def _unclear(agent: str, expected: str, came: str) -> DeclarationError:
    return DeclarationError(
        f"The agent {agent!r} as a tool",
        expected=expected,
        came=came,
        fix="Say it: `agent_tool(agent, Result, takes=Input, description='…')`.",
    )


def with_awaiting(tool: Tool, decider: Decider) -> Tool:
    """A copy of a tool that calls `decider` before each call, to get the question that a person has to answer first.

    The process waits for the answer. The object in the answer is put on the blackboard, and then the tool runs; after a
    no it does not run, and the model gets an error. `decider` is called once for each call, in a worker thread unless
    it is async.
    """
    # The inner tool asks for approval, and calls its server, by itself.
    handler = _AwaitingHandler(tool, decider)
    asking = replace(tool, handler=handler, approval="never", server="", checks_arguments=True, asks_people=True)
    return replace(asking, in_process=True)


def require_type(tool: Tool, kind: object, message: str = "") -> Tool:
    """A copy of a tool that needs an object of a type on the blackboard; if there is none, a person is asked for it.

    The object is put on the blackboard. The tool can take the blackboard or the process as a parameter. `message` is
    the question. Raises `TypeError` for a type that no form can be made of.
    """
    words = message or f"The tool {tool.name!r} needs {Available(kind)}."
    wait = WaitFor[Any].form_submission(words, cast("type[Any]", kind))

    async def decide(_: Mapping[str, object], context: ActionContext) -> WaitFor[Any] | None:
        return wait if context.blackboard.last(kind) is None else None

    return with_awaiting(tool, decide)


@dataclass(frozen=True, slots=True)
class _AwaitingHandler:
    """The handler of a tool that may have to wait."""

    tool: Tool
    decider: Decider

    def check(self, arguments: Mapping[str, object]) -> None:
        self.tool.check(arguments)

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        self.check(arguments)  # do not ask a person about an invalid call
        context = CONTEXT.get()
        if context is None:
            return ToolResult.of_error(
                f"The tool {self.tool.name!r} may have to ask a person, and nobody can be asked here."
            )
        name = context.names.next("await")
        asked = context.journal.questions.get(name)
        wait = await context.call(partial(self.decider, arguments, context)) if asked is None else asked.wait
        if wait is not None:
            if not isinstance(wait, WaitFor):
                raise TypeError(f"Expected the question to be a WaitFor, or None, but got {wait!r}.")
            answer: object = await context.asked(name, cast("WaitFor[Any]", wait))
            # An earlier run of the action may have put the answer on the blackboard.
            if not any(each is answer for each in context.blackboard.history):
                context.add(answer)
        return await self.tool.call(arguments)
