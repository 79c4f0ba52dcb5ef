"""The deployed agents: their names, their compiled scopes, and finding agents and goals by name.

A class is read when it is deployed, and never again. It is instantiated, with the platform's services as arguments of
its constructor. Nothing runs here. Below: the reader of classes. Above: the platform.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from threading import Lock
from typing import Any

from goalport.agents.blackboard import alternatives, fits
from goalport.agents.domain import (
    Action,
    Agent,
    Export,
    Goal,
    Injected,
    Input,
    ProvidedInput,
    achieves_goal,
    agent,
    is_state,
    read_agent,
)
from goalport.agents.domain.decorators import ActionMark
from goalport.agents.domain.signature import Outputs
from goalport.agents.domain.wait_for import promised
from goalport.base.errors import DeclarationError, DeploymentError, NonRetryable, UnknownName
from goalport.base.introspection import class_place, constructor
from goalport.base.words import type_name
from goalport.models.llm import UserMessage
from goalport.runtime.ai import AgenticTool, Ai
from goalport.runtime.platform.declared_services import DeclaredServices, parameters_of
from goalport.runtime.process import SERVICE_TYPES, ArgumentResolver, Scope
from goalport.store import StoredTypes, persistent, storable
from goalport.tools import Tool, ToolResult
from goalport.tools.functions import FunctionHandler

KEEPER = "goalport_result"
"""The name of the agent that keeps results."""
_UNDEPLOYED = 64
"""The most cached scopes of agents that run without being deployed."""


class Deployments:
    """Agents and components by name, in the order in which they were deployed."""

    def __init__(
        self,
        platform: type,
        service: Callable[[type], object | None],
        resolvers: Sequence[ArgumentResolver],
        declared: DeclaredServices,
    ) -> None:
        self._injected = SERVICE_TYPES | declared.types | {platform}
        self._declared, self._resolvers, self._service = declared, resolvers, service
        self.of_tools: Mapping[str, Agent] = {}
        """The agents that call exported tools, by name; they are not deployed."""
        self.front: Agent | None = None
        """The agent that takes a sentence and finds the goal that fits; it need not be deployed."""
        self._changing = Lock()
        """Locked by the thread that changes the deployed agents."""
        self._set({})

    def _set(self, by_name: Mapping[str, Agent]) -> None:
        """Deploy these agents in place of all others; another thread sees either the old ones or the new ones."""
        self._by_name, self.all = by_name, tuple(by_name.values())
        self.components = tuple(each for each in self.all if each.component)
        """The components: every agent may use their actions and conditions."""
        self._agents = tuple(each for each in self.all if not each.component)
        self.goals = tuple((agent, goal) for agent in self._agents for goal in agent.goals)
        """Every goal with its agent, in order."""
        # Replaced last, so that no scope of an earlier agent is kept for a new one.
        self._scopes: dict[str | int, tuple[object, Scope]] = {}
        """Scopes by the name of an agent, or the `id` of an object, which is kept too so that its id is not reused."""

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    def add(self, declared: object) -> Agent:
        """Read an agent and keep it. Raises `DeclarationError` or `DeploymentError`, and then nothing is changed."""
        agent = self._read(declared)
        twin = self._by_name.get(agent.name)
        if twin is not None:
            raise DeploymentError(
                f"Expected agents of different names, but {_place(agent)} and {_place(twin)} are both called"
                f' {agent.name!r}. Name one of them: @agent(name="…").'
            )
        figured = (each for action in agent.actions for each in (action.cost, action.value) if each is not None)
        for each in chain(agent.actions, agent.conditions, figured):
            wanted = (every.type for every in each.parameters if isinstance(every, ProvidedInput) and every.required)
            for kind in wanted:
                known = isinstance(each.owner, kind) or kind in self._declared.types
                if not known and self._service(kind) is None:
                    raise DeploymentError(
                        f"{each.origin} wants a provided {kind.__name__}, but the platform has no such service."
                        f" Give one: mark it with @service in a workspace; AgentPlatform(services=[…]) in a program."
                    )
        # An agent and a component may use one name for different things: this raises `DeclarationError` then.
        components = (*self.components, agent) if agent.component else self.components
        for each in (*self, Agent("", "", source=agent.source)) if agent.component else (agent,):
            if not each.opaque:
                each.with_components(components)
        with self._changing:
            self._set({**self._by_name, agent.name: agent})
        return agent

    def remove(self, name: str) -> Agent:
        """Remove an agent; its running processes go on. Raises `UnknownName`."""
        agent = self.named(name)
        with self._changing:
            self._set({key: each for key, each in self._by_name.items() if each is not agent})
        return agent

    def named(self, name: str) -> Agent:
        """The agent or component of that name. Raises `UnknownName`."""
        known = self._by_name
        if name not in known:
            if name == KEEPER:
                return self._read(ResultKeeper)
            if name in self.of_tools:
                return self.of_tools[name]
            if self.front is not None and name == self.front.name:
                return self.front
            raise UnknownName("agent", name, known)
        return known[name]

    def goal(self, name: str | Goal) -> tuple[Agent, Goal]:
        """A goal with its agent: by its full name, its published name, or its method's name where only one has it.

        Raises `UnknownName`, or `DeploymentError` when several goals bear the name.
        """
        if isinstance(name, Goal):
            same = next((pair for pair in self.goals if pair[1] == name), None)
            if same is not None:
                return same
            name = name.name
        for names in ("name", "export.name", "short_name"):
            name_of = attrgetter(names)
            found = [pair for pair in self.goals if name_of(pair[1]) == name]
            if len(found) == 1:
                return found[0]
            if found:
                raise DeploymentError(
                    f"The goal name {name!r} may mean {' or '.join(goal.name for _, goal in found)}. Use the full name."
                )
        raise UnknownName("goal", name, [goal.export.name or goal.name for _, goal in self.goals])

    def scope(self, declared: object) -> Scope:
        """The actions for plans of an agent: its own and the components'. `declared` is its name or its declaration.

        It is compiled once. Raises `UnknownName`, and `DeclarationError` for an object that declares no agent.
        """
        scopes = self._scopes
        if isinstance(declared, Agent) and self._by_name.get(declared.name) is declared:
            declared = declared.name
        key = declared if isinstance(declared, str) else id(declared)
        known = scopes.get(key)
        if known is None:
            agent = self.named(declared) if isinstance(declared, str) else self._read(declared)
            known = scopes[key] = (declared, Scope(agent, self._shared_with(agent)))
            if len(scopes) > len(self._by_name) + _UNDEPLOYED:
                del scopes[next(each for each in scopes if not isinstance(each, str))]
        return known[1]

    def _shared_with(self, agent: Agent) -> tuple[Agent, ...]:
        """The agents and components whose actions an agent may use in addition to its own."""
        if agent.opaque:
            return ()
        others = (each for each in self if not (each.opaque or each.open or each is agent))
        shared = (*self.components, *others) if agent.open else self.components
        # A chatbot that chooses an agent for each message has no use for the actions of all if none reacts to messages.
        if not (agent.open and agent.actions):
            return shared
        actions = [action for each in shared for action in each.actions]
        takes = ((each.settings.trigger, *(one.type for one in each.inputs if one.required)) for each in actions)
        return shared if any(kind is not None and fits(UserMessage, kind) for each in takes for kind in each) else ()

    def _read(self, declared: object) -> Agent:
        made = self._constructed(declared) if isinstance(declared, type) else declared
        return read_agent(made, self._injected, self._resolvers)

    def _constructed(self, declared: type) -> object:
        """An instance of a class whose constructor takes services; the class itself if it takes no services.

        A class gets an `Ai`, for example, by asking for one in its constructor (user guide, section 2.4). Raises
        `DeclarationError` for a constructor that asks for an object of a single run, and `DeploymentError` for a
        service that cannot be created.
        """
        if not constructor(declared).parameters:
            return declared
        try:
            parameters = parameters_of(declared)
        except DeclarationError:
            return declared
        if (made := self._declared.instance(declared)) is not None:
            return made
        arguments = self._declared.arguments(parameters)
        for name, (hint, required) in parameters.items():
            if not required or name in arguments:
                continue
            if not (isinstance(hint, type) and hint in SERVICE_TYPES):
                return declared
            raise DeclarationError(
                class_place(declared),
                expected="a constructor that takes what is the same for all runs",
                came=f"{name!r} is of the type {hint.__name__}, of which there is one for each run only",
                fix=f"Take it where it is used: `def an_action(self, …, {name}: {hint.__name__})`.",
            )
        return declared(**arguments) if arguments else declared


def _place(agent: Agent) -> str:
    owners = (type(each.owner) for each in agent.actions if each.owner is not None)
    return next(map(class_place, owners), agent.source or "an agent built by hand")


def unstorable_in(agents: Iterable[Agent], *, sealed: bool) -> tuple[str, ...]:
    """A sentence for each type whose objects surely cannot be stored: where it is used, why, and the fix.

    `sealed`: whether there is a key that encrypts secrets.
    """
    held: list[tuple[object, object, str]] = []  # types, each with where it is used; outputs of actions come first
    for each_agent in agents:
        for action in each_agent.actions:
            held += [(kind, action.origin, "makes") for exit_ in action.outputs.exits for kind in exit_]
            if action.outputs.may_wait:  # the types of questions may have fields of their own
                declared = alternatives(action.origin.hints()["return"])
                held += [(each, action.origin, "asks") for each in declared if promised(each) is not None]
        held += [(each.type, action.origin, "takes") for action in each_agent.actions for each in action.inputs]
        for goal in each_agent.goals:
            starts = goal.export.starting_input_types
            if isinstance(starts, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - reported when it is published
                held += [(kind, f"The goal {goal.name}", "starts from") for kind in starts]
    types, found = StoredTypes(), dict[object, str]()
    for kind, by, verb in held:
        if kind not in found:
            why = storable(kind, types, sealed=sealed)
            found[kind] = f"{by} {verb} {type_name(kind)}, so its process ends with the program: {why}" if why else ""
            if why and isinstance(kind, type) and is_state(kind):
                found[kind] += " Take services as parameters of its methods: `Annotated[Service, Provided]`."
    return tuple(filter(None, found.values()))


@persistent("goalport.platform.tool_agents:ToolCall")
@dataclass(frozen=True)
class ToolCall:
    """The input of a process that calls a tool."""

    arguments: dict[str, Any]


def agents_of_tools(tools: Iterable[Tool]) -> Mapping[str, Agent]:
    """The agents of the exported tools that work only in a process, or may have to ask a person, by their names.

    Each has one action, which calls the tool, so that each call of a client is a process. They are not deployed, but
    found by name, so that stored processes can be restored. The tools of other servers ask people by themselves.
    """
    in_process = (each for each in tools if each.in_process or (each.may_ask and not each.server))
    return {agent.name: agent for agent in map(_agent_of_tool, in_process)}


def _agent_of_tool(tool: Tool) -> Agent:
    """The agent whose only goal is the result of a call of the tool."""

    async def call(call: ToolCall, **_: Ai) -> ToolResult:
        result = await (tool.call if tool.needs_approval else tool.run_raising)(call.arguments)
        if result.is_error:
            raise NonRetryable(result.text) from result.error
        return replace(result, artifact=None)  # only code uses it, and perhaps it cannot be stored

    name, marked = f"tools.{tool.name}", ActionMark(description=tool.description, read_only=tool.read_only is True)
    # A tool that surely asks a model declares it, so that a missing model is reported.
    arguments = tool.handler.arguments if isinstance(tool.handler, FunctionHandler) else None
    asks_models = arguments is not None and Ai in arguments.injected
    asks = (Injected("ai", Ai),) if asks_models or isinstance(tool, AgenticTool) else ()
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


@persistent("goalport.platform.kept_results:KeptResult")
@dataclass(frozen=True)
class KeptResult:
    """The result of a tool, as a text."""

    text: str


@agent(name=KEEPER, description="Keeps a result of a tool that is too large for one answer", opaque=True)
class ResultKeeper:
    """Not deployed, but found by its name, so that its stored processes can be restored."""

    @achieves_goal(description="The result of a tool")
    async def keep(self, kept: KeptResult) -> str:
        return kept.text
