"""Goals and chatbots as MCP tools and prompts: which are published, under which names, and what a call starts.

First, each goal of a platform becomes an `Offer` or a `Refusal`; then each offer becomes a tool. All of this is
immutable data, made at publication; `doors.mcp` runs the tools. One goal tool may stand for several goals of one agent
that share a published name and an output type. How long a call waits, and whether its process outlives it
(`CallPolicy`), depends on the goals alone: a later call with the handle of a process has the policy of the first call.
A call of a chatbot is one turn of a conversation. A prompt is picked by a person from a menu and filled in; the model
gets one message.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import from_json

from goalport.agents.domain import Agent, ChatbotMark, Goal
from goalport.base.errors import BadInput
from goalport.base.words import corrections, type_label, type_name
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, asks_models
from goalport.server.publish.exported_tools import FunctionTool, annotations_of, read_or_note
from goalport.server.publish.handle import CHAT_HANDLE, HANDLE, LARGE, with_alternatives
from goalport.server.publish.output import ChatReply, OutputFormat, may_be_large
from goalport.server.publish.portability import snake_identifier
from goalport.server.publish.published_arguments import PublishedArguments, unknown_fields
from goalport.tools import Tool as ExportedTool

if TYPE_CHECKING:
    from mcp_types import GetPromptResult, Prompt, Tool

_WAIT_SECONDS: Final = 45.0
"""Seconds that a call waits for the result if its client gets no progress: most hosts time out after 60 seconds."""
_PATIENT_WAIT_SECONDS: Final = 240.0
"""The same if its client gets progress or asks a person: some hosts time out after 300 seconds even then."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool to publish: the goals of one agent that share it, and their start types."""

    name: str
    agent: Agent
    goals: tuple[Goal, ...]
    starts: tuple[object, ...]
    description_prefix: str
    """Begins its description, to distinguish it from other tools of the same goals; empty if there are none."""
    may_ask: bool
    """Whether an action may ask a person."""
    asks_models: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """A goal that is not published, or not for one set of its start types, and why."""

    goal: Goal
    agent: Agent
    reason: str
    unreadable: bool = False
    """Whether its export or its types cannot be read, which is a mistake."""


def published_name(agent: Agent, goal: Goal) -> str:
    """The name under which a goal is published, for the first of its sets of start types."""
    return goal.export.name or f"{snake_identifier(agent.name)}_{snake_identifier(goal.short_name)}"


def start_sets(platform: AgentPlatform, goal: Goal) -> tuple[tuple[object, ...], ...]:
    """The sets of types that may start a goal: one for each declared type, or one of all types that are derived."""
    types = platform.starting_types(goal)
    return tuple((kind,) for kind in dict.fromkeys(types)) if goal.export.starting_input_types else (tuple(types),)


def offers_of(platform: AgentPlatform) -> Iterator[Offer | Refusal]:
    """The offers and refusals of every agent, in the order of declaration."""
    configured = platform.upstream.groups.config
    for agent in platform.agents:
        # Goals of one agent that share a published name and an output type become one tool for each set of start types.
        shared: dict[tuple[str, str], dict[tuple[object, ...], list[tuple[Goal, str]]]] = {}
        for goal in agent.goals:
            faults = list[str]()
            found = read_or_note(partial(_starts, platform, agent, goal), faults)
            if found is None:
                yield Refusal(goal, agent, faults[0], unreadable=True)
                continue
            tool, starts, refusals = found
            yield from refusals
            for each, label in starts.items():
                shared.setdefault(tool, {}).setdefault(each, []).append((goal, label))
        if not shared:
            continue
        # An action may ask a person for its output, or while it runs, through a tool of a group that it names.
        actions = platform.agents.scope(agent).actions.values()
        groups = filter(None, (platform.groups.find(role) for each in actions for role in each.roles))
        may_ask = any(each.outputs.may_wait or any(role in configured for role in each.roles) for each in actions)
        may_ask = may_ask or any(tool.may_ask for group in groups for tool in group.tools)
        asks = asks_models(agent)
        for (name, _), together in shared.items():
            for number, (kinds, goals) in enumerate(together.items()):
                own = name if number == 0 else f"{name}_from_{snake_identifier(goals[0][1]) or 'nothing'}"
                prefix = f"From {' and '.join(map(type_name, kinds)) or 'nothing'}: " if len(together) > 1 else ""
                yield Offer(own, agent, tuple(goal for goal, _ in goals), kinds, prefix, may_ask, asks)


def _starts(
    platform: AgentPlatform, agent: Agent, goal: Goal
) -> tuple[tuple[str, str], Mapping[tuple[object, ...], str], Sequence[Refusal]]:
    """The published name and the output type of a goal, the sets of start types, and refusals of the other sets.

    Each set is mapped to its label, a part of a tool's name. Raises what the goal's types raise.
    """
    if not goal.export.remote:
        return ("", ""), {}, [Refusal(goal, agent, "it is not remote; Export(remote=True) publishes it")]
    found, refusals = dict[tuple[object, ...], str](), list[Refusal]()
    helped = platform.agents.scope(agent).may_help_itself
    for starts in start_sets(platform, goal):
        explanation = platform.explain(goal, starts)
        if explanation.plan is not None or explanation.lacks_only_groups or helped:
            # A type that cannot be hashed raises TypeError here, so that it is a problem of this goal alone.
            found[starts] = "_".join(map(type_label, starts))
        else:
            where = f"from {' and '.join(map(type_name, starts))} " if starts else ""
            reason = " ".join([explanation.summary(), *explanation.notes])
            refusals.append(Refusal(goal, agent, f"{where}it cannot be reached. {reason}"))
    return (published_name(agent, goal), repr(goal.output)), found, refusals


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
    """Seconds that a call waits for the result, if an export sets them; None: see `seconds`."""
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
        """The policy of the turns of the chatbot `agent`."""
        stops = agent.chat is not None and agent.chat.stop_when_reader_leaves
        name, output = f"chat_{snake_identifier(agent.name)}", OutputFormat.of(ChatReply)
        return cls(name, output, detached=not stops, may_give_handle=True)

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
        return self.wait_budget or (_PATIENT_WAIT_SECONDS if patient else _WAIT_SECONDS)


@dataclass(frozen=True, slots=True)
class GoalTool:
    """A tool that starts a process of one agent from objects of one set of start types."""

    tool: "Tool"
    agent: Agent
    goals: tuple[str, ...]
    """The full names of the goals; the process is done when it has reached one of them."""
    arguments: PublishedArguments
    policy: CallPolicy
    is_tool: bool = False
    """Whether it is an exported tool that needs a process: each call starts one, which calls the tool."""

    @classmethod
    def of_tool(cls, exported: ExportedTool, agent: Agent) -> "GoalTool":
        """The tool that runs `agent`, which calls `exported`. Raises `TypeError` if its output schema holds bytes."""
        tool, policy = FunctionTool.of(exported).tool, CallPolicy.of(exported.name, agent.goals, may_wait=True)
        schema = with_alternatives(tool.output_schema, HANDLE, LARGE)
        goals = tuple(each.name for each in agent.goals)
        arguments = PublishedArguments.of_tool(exported)
        return cls(tool.model_copy(update={"output_schema": schema}), agent, goals, arguments, policy, is_tool=True)

    @classmethod
    def of(cls, offer: Offer) -> "GoalTool":
        """The tool of an offer. Raises `DeclarationError` for a type that JSON cannot express."""
        from mcp_types import Tool

        policy = CallPolicy.of(offer.name, offer.goals, may_wait=offer.may_ask, asks_models=offer.asks_models)
        first, arguments, output = offer.goals[0], PublishedArguments.of(offer.starts), policy.output
        others = [*([HANDLE] if policy.may_give_handle else ()), *([LARGE] if may_be_large(output.schema) else ())]
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
        """The name of the only required argument, if it takes free text, else None."""
        required, properties = self.arguments.schema.get("required", ()), self.arguments.schema.get("properties", {})
        if len(required) != 1:
            return None
        field = properties.get(required[0], {})
        free = field.get("type") == "string" and not {"enum", "const", "format", "pattern"} & field.keys()
        return required[0] if free else None


_GOES_ON: Final = (
    "Gives its reply and a conversationId. Give that with the next message to go on with the same conversation, which"
    " the chatbot remembers; without it, a new conversation begins."
)


def _said(message: str) -> str:
    if not message.strip():
        raise ValueError("should not be empty")
    return message


class ChatCall(BaseModel):
    """The arguments of a call that says something to a chatbot."""

    model_config = ConfigDict(frozen=True)

    message: Annotated[str, AfterValidator(_said)] = Field(
        min_length=1, description="What to say to the chatbot, in the person's words"
    )
    conversation_id: str | None = Field(
        None,
        alias="conversationId",
        description="The conversationId of an earlier answer, to go on with that conversation",
    )


@dataclass(frozen=True, slots=True)
class ChatTool:
    """A tool that says something to a chatbot."""

    tool: "Tool"
    chatbot: str
    """The name of the chatbot."""
    mark: ChatbotMark
    arguments: PublishedArguments
    policy: CallPolicy

    @classmethod
    def of(cls, agent: Agent) -> "ChatTool":
        """The tool of the chatbot `agent`."""
        from mcp_types import Tool, ToolAnnotations

        policy, arguments = CallPolicy.of_chatbot(agent), PublishedArguments.of_model(ChatCall)
        tool = Tool(
            name=policy.name,
            description=f"{(agent.description.strip() or f'Talk to {agent.name}').rstrip('.')}. {_GOES_ON}",
            input_schema=arguments.schema,
            output_schema=with_alternatives(policy.output.schema, CHAT_HANDLE),
            annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=False),
        )
        return cls(tool, agent.name, agent.chat or ChatbotMark(), arguments, policy)

    def read(self, arguments: Mapping[str, Any]) -> ChatCall:
        """What a call says. Raises `BadInput` with one line for each mistake."""
        (call,) = self.arguments.read(arguments)
        assert isinstance(call, ChatCall)
        return call


@dataclass(frozen=True, slots=True)
class GoalPrompt:
    """A prompt that asks a model to call the tool of a goal or of a chatbot with the given values."""

    prompt: "Prompt"
    goal: GoalTool | ChatTool

    @classmethod
    def of(cls, name: str, goal: GoalTool | ChatTool) -> "GoalPrompt":
        """The prompt for one tool, with one argument for each argument of the tool."""
        from mcp_types import Prompt, PromptArgument

        schema, arguments = goal.arguments.schema, list[PromptArgument]()
        for each, inner in schema.get("properties", {}).items():
            text, kinds = inner.get("description") or each.replace("_", " ").capitalize(), _kinds_and_values(inner)[0]
            if not kinds <= {"string", "null"}:
                text = f"{text} ({' or '.join(sorted(kinds - {'null'}))} as JSON)"
            arguments.append(PromptArgument(name=each, description=text, required=each in schema.get("required", ())))
        prompt = Prompt(name=name, title=goal.tool.title, description=goal.tool.description, arguments=arguments)
        return cls(prompt, goal)

    def message(self, given: Mapping[str, str]) -> "GetPromptResult":
        """The message with these values. A value that is not valid JSON stays text, since the tool validates it.

        Some hosts ask for the message once, with `$1` and `$2` in place of values. Raises `BadInput` for unknown
        arguments and for required arguments that are missing.
        """
        from mcp_types import GetPromptResult, PromptMessage, TextContent

        schema, goal, tool = self.goal.arguments.schema, self.goal, self.goal.tool.name
        required, lines = schema.get("required", ()), list[str]()
        missing = (f"{name}: required, but missing" for name in required if name not in given)
        if problems := [*unknown_fields(((name,) for name in given), schema, given), *missing]:
            raise BadInput(corrections(problems))
        for name, text in given.items():
            if text or name in required:
                shown = text
                if "string" not in _kinds_and_values(schema.get("properties", {}).get(name, {}))[0]:
                    with suppress(ValueError):
                        value = cast("object", from_json(text))
                        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                lines.append(f"- {name}: {shown}")
        errand = f"Reach the goal {tool}"
        if isinstance(goal, ChatTool):
            errand = f"Talk to the chatbot {goal.chatbot} and show the person what it replies"
        begin = f"Call the tool {tool} once{' with these values:' if lines else '; it needs no values.'}"
        words = "\n".join([f"{errand}: {self.prompt.description}", begin, *lines])
        message = PromptMessage(role="user", content=TextContent(type="text", text=words))
        return GetPromptResult(description=self.prompt.description, messages=[message])

    def options(self, argument: str) -> list[str]:
        """The values of an argument that is an enum, a constant or a boolean; empty for other types."""
        return _kinds_and_values(self.goal.arguments.schema.get("properties", {}).get(argument, {}))[1]


def _kinds_and_values(schema: Mapping[str, Any]) -> tuple[set[str], list[str]]:
    """The JSON types of a schema and of the members of its unions, and their values if these are listed."""
    kinds, values, members = set[str](), list[str](), [schema]
    for each in members:
        members += [*each.get("anyOf", ()), *each.get("oneOf", ())]
        if "enum" in each or "const" in each:
            for value in each.get("enum", [each.get("const")]):
                kinds.add("string" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number")
                values.append(value if isinstance(value, str) else json.dumps(value))
        else:
            kind = each.get("type", [])
            kinds |= {kind} if isinstance(kind, str) else {*kind}
            values += ["true", "false"] if kind == "boolean" else []
    return kinds, values
