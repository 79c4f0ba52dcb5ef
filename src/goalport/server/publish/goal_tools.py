"""Goals as MCP tools: which are published, under which names and from which start types, and what a call starts.

First it is decided what the goals of a platform offer (`Offer`, `Refusal`, `UnreadableGoal`), then a tool is made for
each offer. All of it is immutable data, made at publication; `doors.mcp` runs it. One goal tool may stand for several
goals of one agent that share a published name and an output type. How long a call waits, and whether its process
outlives it (`CallPolicy`), depends on the goals alone: a later call with the handle of a process has the policy of the
first call. `publication` is above.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mcp_types import Tool

from goalport.agents.domain import Action, Agent, Goal
from goalport.base.words import type_label, type_name
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, asks_models
from goalport.server.publish.chat_reply import ChatReply, chat_tool_name
from goalport.server.publish.exported_tools import FunctionTool, annotations_of
from goalport.server.publish.faults import Fault, read_or_fault
from goalport.server.publish.handle import HANDLE, LARGE, with_alternatives
from goalport.server.publish.output import OutputFormat
from goalport.server.publish.portability import snake_identifier
from goalport.server.publish.published_arguments import PublishedArguments
from goalport.tools import Tool as ExportedTool

_SECONDS: Final = 45.0
"""How long a call waits for the result when its client gets no progress: most hosts time out after 60 seconds."""
_SECONDS_IF_PATIENT: Final = 240.0
"""How long it waits when its client gets progress or asks a person: some hosts time out after 300 seconds even so."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool to publish: the goals of one agent that share it, and their start types."""

    name: str
    agent: Agent
    goals: tuple[Goal, ...]
    starts: tuple[object, ...]
    description_prefix: str
    """The beginning of its description, which tells it from other tools of its goals; empty if there are none."""
    may_ask: bool
    """Whether an action may ask a person."""
    asks_models: bool

    @property
    def owner(self) -> str:
        """The goals and the agent of the tool, for messages."""
        return " and ".join(f"goal {goal.name} of agent {self.agent.name}" for goal in self.goals)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A goal that is not published, at all or from one of its start types, and why."""

    goal: Goal
    agent: Agent
    reason: str


@dataclass(frozen=True, slots=True)
class UnreadableGoal:
    """A goal whose export or types cannot be read, and why."""

    goal: Goal
    agent: Agent
    reason: str


@dataclass(frozen=True, slots=True)
class _StartingPoint:
    """One set of types that a goal can be started from."""

    goal: Goal
    group: tuple[str, str]
    """The published name and the output type: goals of one agent that share both become one tool."""
    starts: tuple[object, ...]
    kind: str
    """The start types as part of a name."""


def published_name(agent: Agent, goal: Goal) -> str:
    """The name under which a goal is published, for the first of its sets of start types."""
    return goal.export.name or f"{snake_identifier(agent.name)}_{snake_identifier(goal.short_name)}"


def start_sets(platform: AgentPlatform, goal: Goal) -> tuple[tuple[object, ...], ...]:
    """The sets of types that may start a goal: one for each declared type, or one of all types that are derived."""
    types = platform.starting_types(goal)
    return tuple((kind,) for kind in dict.fromkeys(types)) if goal.export.starting_input_types else (tuple(types),)


def offers_of(platform: AgentPlatform) -> Iterator[Offer | Refusal | UnreadableGoal]:
    """The offers, refusals and unreadable goals of every agent, in the order of declaration."""
    for agent in platform.agents:
        groups: dict[tuple[str, str], list[_StartingPoint]] = {}
        for goal in agent.goals:
            match read_or_fault(partial(_starting_points, platform, agent, goal)):
                case Fault(reason):
                    yield UnreadableGoal(goal, agent, reason)
                case points:
                    yield from (each for each in points if isinstance(each, Refusal))
                    for point in (each for each in points if isinstance(each, _StartingPoint)):
                        groups.setdefault(point.group, []).append(point)
        if groups:
            may_ask = any(_may_ask(platform, each) for each in platform.agents.scope(agent).actions.values())
            asks = asks_models(agent)
            for points in groups.values():
                yield from _offers(agent, points, may_ask=may_ask, asks_models=asks)


def _starting_points(platform: AgentPlatform, agent: Agent, goal: Goal) -> list[_StartingPoint | Refusal]:
    """The starting points of a goal, and a refusal for each that does not work. Raises what the goal's types raise."""
    if not goal.export.remote:
        return [Refusal(goal, agent, "it is not remote; Export(remote=True) publishes it")]
    name = published_name(agent, goal)
    points: list[_StartingPoint | Refusal] = []
    helped = platform.agents.scope(agent).may_help_itself
    for starts in start_sets(platform, goal):
        explanation = platform.explain(goal, starts)
        if explanation.plan is not None or explanation.lacks_only_groups or helped:
            hash(starts)  # raises TypeError here, where it becomes a problem of this goal alone
            kind = "_".join(map(type_label, starts))
            points.append(_StartingPoint(goal, (name, repr(goal.output)), starts, kind))
        else:
            where = f"from {' and '.join(map(type_name, starts))} " if starts else ""
            reason = " ".join([explanation.summary(), *explanation.notes])
            points.append(Refusal(goal, agent, f"{where}it cannot be reached. {reason}"))
    return points


def _offers(agent: Agent, points: Sequence[_StartingPoint], *, may_ask: bool, asks_models: bool) -> Iterator[Offer]:
    """The offers for the goals of one group: one for each set of start types."""
    together: dict[tuple[object, ...], list[_StartingPoint]] = {}
    for point in points:
        together.setdefault(point.starts, []).append(point)
    for number, same in enumerate(together.values()):
        name, kind = same[0].group[0], same[0].kind
        goals = tuple(point.goal for point in same)
        own = name if number == 0 else f"{name}_from_{snake_identifier(kind) or 'nothing'}"
        prefix = f"From {' and '.join(map(type_name, same[0].starts)) or 'nothing'}: " if len(together) > 1 else ""
        yield Offer(own, agent, goals, same[0].starts, prefix, may_ask, asks_models)


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How a goal's process relates to the calls that wait for it, and how its output is written."""

    name: str
    """The name of the tool that was called."""
    output: OutputFormat
    detached: bool
    """Whether the process outlives the request that waits for it."""
    may_give_handle: bool
    """Whether a call may be answered with a handle in place of the result."""
    wait_budget: float | None = None
    """Seconds that a call waits for the result, if an export says so."""
    task_required: bool = False
    """Whether only clients that can follow a task may call it."""

    @classmethod
    def of(cls, name: str, goals: Sequence[Goal], *, may_wait: bool, asks_models: bool = False) -> "CallPolicy":
        """The policy of goals that share one tool; `asks_models` is the default where an export does not set `long`."""
        exports = [goal.export for goal in goals]
        task_required = any(each.task_required for each in exports)
        return cls(
            name,
            OutputFormat.of(goals[0].output),
            any(each.on_disconnect == "detach" for each in exports),
            may_wait or task_required or any(asks_models if each.long is None else each.long for each in exports),
            next((each.wait_budget for each in exports if each.wait_budget is not None), None),
            task_required,
        )

    @classmethod
    def of_chatbot(cls, agent: Agent) -> "CallPolicy":
        """The policy of the turns of the chatbot that an agent is."""
        stops = agent.chat is not None and agent.chat.stop_when_reader_leaves
        return cls(chat_tool_name(agent.name), OutputFormat.of(ChatReply), detached=not stops, may_give_handle=True)

    @classmethod
    def of_process(cls, process: AgentProcess) -> "CallPolicy":
        """The policy of a process that a caller follows by its handle."""
        if process.options.turns:
            return cls.of_chatbot(process.agent)
        goals = [process.scope.goals[name] for name in process.goals]
        return cls.of(published_name(process.agent, goals[0]), goals, may_wait=True)

    def seconds(self, *, patient: bool) -> float | None:
        """Seconds that a request waits before it is answered with the handle; None means without limit.

        `patient`: its client gets progress, or shows a person a question meanwhile.
        """
        if not self.may_give_handle:
            return None
        return self.wait_budget or (_SECONDS_IF_PATIENT if patient else _SECONDS)


@dataclass(frozen=True, slots=True)
class GoalTool:
    """A tool that starts a process of one agent from objects of one set of start types."""

    tool: Tool
    agent: Agent
    goals: tuple[str, ...]
    """The full names of the goals; the process is done when it has reached one of them."""
    arguments: PublishedArguments
    policy: CallPolicy
    is_tool: bool = False
    """Whether it stands for an exported tool, each call of which is a process."""

    @classmethod
    def of_tool(cls, exported: ExportedTool, agent: Agent) -> "GoalTool":
        """The tool of an exported tool that `agent` calls. Raises `TypeError` if its output schema holds bytes."""
        tool, policy = FunctionTool.of(exported).tool, CallPolicy.of(exported.name, agent.goals, may_wait=True)
        if tool.output_schema is not None:
            schema = with_alternatives(tool.output_schema, HANDLE, LARGE)
            tool = tool.model_copy(update={"output_schema": schema})
        goals = tuple(each.name for each in agent.goals)
        return cls(tool, agent, goals, PublishedArguments.of_tool(exported), policy, is_tool=True)

    @classmethod
    def of(cls, offer: Offer) -> "GoalTool":
        """The tool of an offer. Raises `DeclarationError` for a type that JSON cannot express."""
        policy = CallPolicy.of(offer.name, offer.goals, may_wait=offer.may_ask, asks_models=offer.asks_models)
        first, arguments, output = offer.goals[0], PublishedArguments.of(offer.starts), policy.output
        others = [*([HANDLE] if policy.may_give_handle else ()), *([LARGE] if output.may_be_large else ())]
        tool = Tool(
            name=policy.name,
            title=first.export.title or None,
            # The prefix comes first: some hosts show the model only the beginning of a description.
            description=offer.description_prefix + (first.export.description or first.description),
            input_schema=arguments.schema,
            output_schema=with_alternatives(output.schema, *others),
            annotations=annotations_of(first.export),
        )
        return cls(tool, offer.agent, tuple(goal.name for goal in offer.goals), arguments, policy)

    @property
    def text_field(self) -> str | None:
        """The argument that takes a sentence: the only one that is required, if it is a free text."""
        required, properties = self.arguments.schema.get("required", ()), self.arguments.schema.get("properties", {})
        if len(required) != 1:
            return None
        field = properties.get(required[0], {})
        free = field.get("type") == "string" and not {"enum", "const", "format", "pattern"} & field.keys()
        return required[0] if free else None

    @property
    def errand(self) -> str:
        """What a model is asked to do with it, in a prompt."""
        return f"Reach the goal {self.tool.name}"


def is_tool(published: object) -> bool:
    """Whether something published is an exported tool, and no goal, although each of its calls is a process."""
    return isinstance(published, GoalTool) and published.is_tool


def _may_ask(platform: AgentPlatform, action: Action) -> bool:
    """Whether an action may ask a person: by its output, or in its middle by a tool of a group that it names."""
    configured = platform.upstream.groups.config
    groups = filter(None, map(platform.groups.find, action.roles))
    return (
        action.outputs.may_wait
        or any(role in configured for role in action.roles)
        or any(tool.may_ask for group in groups for tool in group.tools)
    )
