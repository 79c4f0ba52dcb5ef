"""An agent as a tool: a model that works for an action can run another agent.

The agent runs in a process of its own, as with `ActionContext.as_sub_process`; when it asks a person, the action waits.
Below: `context` starts and finds the process; above: only the authors of agents use it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from goalport.ai.output_type import output_schema
from goalport.blackboard import Typed
from goalport.domain import Agent, read_agent
from goalport.errors import BadInput, DeclarationError, GoalportError, ProcessEnded
from goalport.process.agent_process import AgentProcess
from goalport.process.context import ActionContext
from goalport.process.parameters import SERVICE_TYPES
from goalport.process.scope import Scope
from goalport.tools import Parameter, Tool, ToolResult, snake
from goalport.tools.arguments import listed_arguments
from goalport.words import corrections, type_label, type_name, validation_problems

__all__ = ["agent_tool"]


def agent_tool(
    agent: object, kind: type | None = None, *, takes: type | None = None, name: str = "", description: str = ""
) -> Tool:
    """A tool that runs an agent and returns its result of type `kind`, as JSON and as artifact.

    `agent` is an instance, an `Agent`, or the name of an agent that is deployed on the same platform. The tool takes
    the fields of an object of the type `takes`. An instance shows its inputs and, if its goals have one type, that of
    its result; for a name, `kind`, `takes` and `description` are required. Raises `DeclarationError` when
    one of them is missing or ambiguous.

    The agent works on a copy of the blackboard of the action that calls the tool. Outside of actions, and when the
    agent reaches no result, the tool returns an error for the model.
    """
    if isinstance(agent, str):
        if kind is None or takes is None or not description:
            raise _unclear(agent, "the type of its result, `takes=` and `description=`, since it is a name", "not all")
        source, starts = Agent(agent, description), (takes,)
    else:
        source = agent if isinstance(agent, Agent) else read_agent(agent, SERVICE_TYPES)
        kind = kind or _result(source)
        starts = (takes,) if takes else _starts(source, kind)
    chosen = name or snake(source.name)
    taken = _Taken.of(f"The tool {chosen!r}", starts)
    run = _Running(agent, source.name, kind, taken)
    return Tool(chosen, description or source.description, taken.schema, run, timed=False)


@dataclass(frozen=True, slots=True)
class _Taken:
    """The parameters of the tool: the fields of one object, or objects by name."""

    schema: Mapping[str, object]
    read: Callable[[Mapping[str, object]], Sequence[object]]

    @classmethod
    def of(cls, where: str, starts: Sequence[object]) -> "_Taken":
        if len(starts) == 1:
            adapter: TypeAdapter[object] = TypeAdapter(cast("Any", starts[0]))
            schema = output_schema(adapter, starts[0], None)
            if schema.get("type") == "object":

                def begin(arguments: Mapping[str, object]) -> Sequence[object]:
                    return [Typed(_validated(adapter, arguments), starts[0])]

                plain = {key: value for key, value in schema.items() if key != "title"}
                return cls({"additionalProperties": False} | plain, begin)
        kinds = {snake(type_label(each)): each for each in starts}
        named = listed_arguments(where, [Parameter(*each) for each in kinds.items()])

        def read(arguments: Mapping[str, object]) -> Sequence[object]:
            return [Typed(value, kinds[name]) for name, value in named.bind(arguments)[1].items()]

        return cls(named.schema({}), read)


@dataclass(frozen=True, slots=True)
class _Running:
    """The handler of the tool."""

    agent: object
    name: str
    kind: type
    taken: _Taken

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        inputs = self.taken.read(arguments)
        context = _context()
        if context is None:
            return ToolResult.of_error(
                f"The agent {self.name!r} runs as part of an action, and was called outside of one. "
                "Offer it to a model in an action: `ai.with_tools(…)`."
            )
        try:
            found: object = await context.as_sub_process(cast("type[object]", self.kind), self.agent, *inputs)
        except ProcessEnded as ended:
            return ToolResult.of_error(f"The agent {self.name!r} came to no result: {ended.reason}")
        return ToolResult.of(found)


def _context() -> ActionContext | None:
    """The context of the running action; None outside of actions, and if the action is one of a parent process."""
    try:
        context = ActionContext.current()
    except GoalportError:
        return None
    return context if AgentProcess.current() in (None, context.process) else None


def _result(agent: Agent) -> type:
    kinds = list(dict.fromkeys(goal.output for goal in agent.goals if goal.output is not None))
    if len(kinds) == 1:
        return cast("type", kinds[0])
    raise _unclear(agent.name, "one type of result", " and ".join(map(type_name, kinds)) or "its goals give nothing")


def _starts(agent: Agent, kind: type) -> Sequence[object]:
    """The types that the goal declares as its inputs, else those that no action of the agent makes."""
    said = [each for goal in agent.goals if goal.output == kind for each in goal.export.starting_input_types]
    if len(said) == 1:
        return said
    starts = Scope(agent).unmade
    if starts and not said:
        return starts
    came = f"its goals begin with {' or '.join(map(type_name, said))}" if said else "it begins with nothing"
    raise _unclear(agent.name, "what it begins with", came)


def _validated(adapter: TypeAdapter[object], arguments: Mapping[str, object]) -> object:
    try:
        return adapter.validate_python(dict(arguments))
    except ValidationError as error:
        raise BadInput(corrections(validation_problems(error, arguments))) from None


def _unclear(agent: str, expected: str, came: str) -> DeclarationError:
    return DeclarationError(
        f"The agent {agent!r} as a tool",
        expected=expected,
        came=came,
        fix="Say it: `agent_tool(agent, Result, takes=Input, description='…')`.",
    )
