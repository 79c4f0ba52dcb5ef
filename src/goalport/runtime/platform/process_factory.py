"""Creates the process objects of a platform: new ones with their inputs, and stored ones from their records.

It neither runs nor keeps them. Above: `processes`, which does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from logging import INFO, WARNING, getLogger
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, cast

from goalport.agents.blackboard import DEFAULT_BINDING, Blackboard, Typed, related
from goalport.agents.domain import parts_of
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import NonRetryable, UnknownName, Unreadable, Unstorable
from goalport.base.events import ProcessCreated
from goalport.base.words import listed, type_name
from goalport.runtime.ai import Engine, Operation
from goalport.runtime.platform.deployments import Deployments
from goalport.runtime.process import (
    AgentProcess,
    ContextRepository,
    Definition,
    Listeners,
    ProcessOptions,
    ProcessPlatform,
    ProcessState,
    Scope,
    Spending,
    blackboard_for_child,
    new_id,
    planner_for,
    pruned,
)
from goalport.store import Codec, Json, ProcessRecord
from goalport.tools import ToolGroupResolver

_log = getLogger(__name__)
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class Platform(Protocol):
    """What processes need of the platform to which they belong."""

    agents: Deployments
    groups: ToolGroupResolver

    def service(self, kind: type, /) -> object | None: ...
    def llm_engine(self, operation: Operation, groups: ToolGroupResolver, /) -> Engine: ...


class Inputs(NamedTuple):
    """What a process begins with, its goals, and who started it."""

    objects: Sequence[object] = ()
    bindings: Mapping[str, object] = _NOTHING
    goals: Sequence[str] | None = None
    caller: Caller = ANONYMOUS
    parent: AgentProcess | None = None
    started_by: str = ""
    """The name of the parent's action that starts it."""
    spent: Iterable[Spending] = ()
    """What models have cost for it before it begins."""

    def check(self) -> None:
        """Raise `TypeError` for an input that no process can begin with."""
        for each in self.objects:
            if each is None:
                raise TypeError("Expected an object to begin with, but got None. Leave out what is not there.")
            if isinstance(each, ProcessOptions):
                raise TypeError("Expected an object to begin with, but got ProcessOptions. Write options=….")
        for name, value in self.bindings.items():
            if value is None:
                raise TypeError(f"Expected an object to bind as {name!r}, but got None. Leave out what is not there.")


def given_to_child(
    scope: Scope, parent: AgentProcess, action: str, kind: type, inputs: Sequence[object]
) -> tuple[Inputs, ProcessOptions]:
    """The inputs and options of a process that an action starts to get a result of the type `kind`.

    Raises `NonRetryable` for a type that the agent cannot give, before any model is asked.
    """
    goals = [goal.name for goal in scope.agent.goals_giving(kind)]
    made = (part for each in scope.actions.values() for exit_ in each.outputs.exits for part in exit_)
    if not goals and not any(related(kind, each) for each in (*made, *map(type, inputs))):
        given = listed({type_name(each.output) for each in scope.agent.goals if each.output is not None})
        raise NonRetryable(f"{scope.agent.name} gives no {type_name(kind)}; its goals give {given or 'nothing'}.")
    blackboard = blackboard_for_child(parent.blackboard, scope, called_with_inputs=bool(inputs))
    options = replace(parent.options, blackboard=blackboard, context_id="", listeners=(), planner=None, turns=False)
    return Inputs(inputs, goals=goals or None, caller=parent.caller, parent=parent, started_by=action), options


class ProcessFactory:
    """Creates the processes of a platform: `runner` runs them, and `listeners` receive their events."""

    def __init__(self, platform: Platform, runner: ProcessPlatform, listeners: Listeners) -> None:
        self._platform, self._runner, self._listeners = platform, runner, listeners
        self._encoded: tuple[ProcessOptions, Json] | None = None
        """The options that were encoded last, and their encoding: most processes have those of the platform."""

    def create(self, scope: Scope, inputs: Inputs, options: ProcessOptions) -> AgentProcess:
        """A process that has not begun. Raises `TypeError` for an input that none can begin with, and `UnknownName`."""
        inputs.check()
        goals = tuple(scope.goals if inputs.goals is None else inputs.goals)
        for name in goals:
            if name not in scope.goals:
                raise UnknownName("goal", name, scope.goals)
        for name in goals if inputs.goals or len(goals) == 1 else ():
            options = options.within(**limits) if (limits := scope.goals[name].export.limits) else options
        labels = [scope.agent.name] if options.agent_name_in_id else []
        if options.version_in_id:
            labels.append(scope.agent.version)
        groups = self._platform.groups if inputs.parent is None else inputs.parent.groups
        process = self._made(new_id(*labels), Definition(scope, options, groups), goals, inputs)
        if process.listeners.attentive:
            process.emit(ProcessCreated(scope.agent.name, inputs.caller.id, process_id=process.id))
        for value in inputs.objects:
            process.blackboard.add(value)
            for part, declared in parts_of(Typed.value_of(value)):
                process.blackboard.declare(DEFAULT_BINDING, part, declared)
        for name, value in inputs.bindings.items():
            process.blackboard.bind(name, value)
        for each in inputs.spent:
            process.charge(replace(each, process_id=process.id))
        return process

    def restored(self, record: ProcessRecord, parent: AgentProcess | None, codec: Codec) -> AgentProcess:
        """A process from its record, with an empty blackboard. Raises `Unreadable`."""
        state, definition = cast("ProcessState", record.state), record.definition
        if not isinstance(definition, Definition):
            try:
                scope = self._platform.agents.scope(record.agent)
            except UnknownName as unknown:
                raise Unreadable(record.agent, f"the agent of process {record.id} is not here.", str(unknown)) from None
            if gone := [each for each in state.goals if each not in scope.goals]:
                fix = f"Give it back its name, or cancel the process. Its goals are now: {listed(scope.goals)}."
                raise Unreadable(record.agent, f"it has no goal {gone[0]!r} any more.", fix)
            options = cast("ProcessOptions", codec.decode(cast("dict[str, Json]", definition)["options"]))
            definition = Definition(scope, options, self._platform.groups)
        given = Inputs(caller=record.caller, parent=parent, started_by=state.started_by)
        return self._made(record.id, definition, state.goals, given)

    def _made(self, process_id: str, definition: Definition, goals: tuple[str, ...], inputs: Inputs) -> AgentProcess:
        """A process with its listeners and an empty blackboard."""
        (scope, options, groups), parent = definition, inputs.parent
        process = AgentProcess(
            process_id,
            scope,
            options,
            inputs.caller,
            self._runner,
            groups,
            goals=goals,
            parent=parent,
            started_by=inputs.started_by,
        )
        if parent is not None:
            process.listeners.add(parent.listeners)
        else:
            process.listeners.add(self._listeners)
            for each in options.verbosity.listeners:
                process.listeners.add(each)
        return process

    def definition_of(self, process: AgentProcess, codec: Codec) -> Json:
        """The definition of a process, as JSON data: the name of the agent and the options, without listeners.

        Raises `Unstorable` for an agent that is not deployed, and for options that cannot be written.
        """
        name = process.agent.name
        try:
            self._platform.agents.scope(name)
        except UnknownName:
            fix = "Deploy it, so that its processes can be continued by another program."
            raise Unstorable(name, f"it is an agent that is not deployed. {fix}") from None
        if self._encoded is None or self._encoded[0] is not process.options:
            self._encoded = process.options, codec.encode(replace(process.options, listeners=(), blackboard=None))
        return {"agent": name, "options": self._encoded[1]}


async def begin_with_context(process: AgentProcess, contexts: ContextRepository) -> None:
    """Put the objects of its context on the blackboard of a new process; then, with `prune`, drop useless actions.

    Raises what the repository of contexts raises.
    """
    options = process.options
    if options.context_id:
        context = await contexts.find(options.context_id, process.caller, scope=options.context_scope)
        if context is None and process.caller.admin and not options.context_scope:
            context = await contexts.find(options.context_id)
        if context is None:
            # A conversation may be the first of its context, which is saved after its turns.
            level = INFO if options.turns else WARNING
            told = "There is no context %r for %s: process %s begins without it."
            _log.log(level, told, options.context_id, process.caller.id, process.id)
        else:
            earlier = Blackboard(process.listeners.binding_listener(process.id))
            earlier.infer_types_by(process.scope.infer_type)
            context.populate(earlier)
            process.blackboard.begin_with(earlier)
    if options.prune and planner_for(process.agent, options).looks_ahead:
        process.scope = pruned(process.scope, process.blackboard, process.goals, process.groups)
        process.agent = process.scope.agent
        process.blackboard.infer_types_by(process.scope.infer_type)
