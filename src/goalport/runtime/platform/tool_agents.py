"""Agents of one action, which calls an exported tool that works only in a process: so each call of a client is one.

They are deployed nowhere, and known by their names, so that their processes are found again. Above: the platform, and
`publish`, which makes MCP tools of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from goalport.agents.domain import Action, Agent, Export, Goal, Injected, Input, achieves_goal, agent
from goalport.agents.domain.decorators import ActionMark
from goalport.agents.domain.signature import Outputs
from goalport.base.errors import NonRetryable
from goalport.runtime.ai import AgenticTool, Ai
from goalport.store import persistent
from goalport.tools import Tool, ToolResult
from goalport.tools.functions import FunctionHandler


@dataclass(frozen=True)
class ToolCall:
    """What a process that calls a tool begins with."""

    arguments: dict[str, Any]


def agents_of_tools(tools: Iterable[Tool]) -> Mapping[str, Agent]:
    """The agents of the exported tools that work only in a process, or may have to ask a person, by their names.

    A tool of another server asks by itself.
    """
    agents = (agent_of_tool(each) for each in tools if each.in_process or (each.may_ask and not each.server))
    return {each.name: each for each in agents}


def agent_of_tool(tool: Tool) -> Agent:
    """The agent whose only goal is the result of a call of the tool."""

    async def call(call: ToolCall, **_: Ai) -> ToolResult:
        result = await (tool.call if tool.needs_approval else tool.carry_out)(call.arguments)
        if result.is_error:
            raise NonRetryable(result.text) from result.error
        return replace(result, artifact=None)  # for code alone, and perhaps nothing that a store can write

    name, marked = f"tools.{tool.name}", ActionMark(description=tool.description, read_only=tool.read_only is True)
    asks = (Injected("ai", Ai),) if _asks_models(tool) else ()
    outputs = Outputs(((ToolResult,),), ToolResult)
    action = Action(name, call, (Input("call", ToolCall), *asks), outputs, marked)
    export = Export(
        name=tool.name,
        remote=True,
        long=True,
        starting_input_types=[ToolCall],
        title=tool.title,
        read_only=tool.read_only,
        destructive=tool.destructive,
        idempotent=tool.idempotent,
        open_world=tool.open_world,
        scopes=tool.scopes,
    )
    goal = Goal(name, tool.description, ToolResult, export=export)
    return Agent(name, tool.description, opaque=True, actions=(action,), goals=(goal,))


def _asks_models(tool: Tool) -> bool:
    """Whether a tool surely asks a model, so that it is said when none is ready."""
    handler = tool.handler
    return isinstance(tool, AgenticTool) or (isinstance(handler, FunctionHandler) and Ai in handler.arguments.injected)


KEEPER = "goalport_result"


@persistent("goalport.platform.kept_results:KeptResult")
@dataclass(frozen=True)
class KeptResult:
    """What a tool gave, as a text."""

    text: str


@agent(name=KEEPER, description="Keeps a result of a tool that is too large for one answer", opaque=True)
class ResultKeeper:
    """It is deployed nowhere, and known by its name, so that its processes are found again."""

    @achieves_goal(description="The result of a tool")
    async def keep(self, kept: KeptResult) -> str:
        return kept.text
