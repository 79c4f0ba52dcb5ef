"""Invocations: running an agent by the type of the result that is wanted (user guide, sections 3.16.2 and 3.18.2).

Above: programs. Below: the platform.
"""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, cast

from typing_extensions import TypeVar

from goalport.agents.blackboard import fits
from goalport.agents.domain import Agent, Goal, PlannerType
from goalport.base.errors import GoalportError
from goalport.base.words import type_name
from goalport.models.llm import LlmOptions
from goalport.runtime.platform.agent_platform import AgentPlatform
from goalport.runtime.process import AgentProcess, ProcessOptions

T = TypeVar("T", default=object)
R = TypeVar("R")


@dataclass(frozen=True)
class Invoked(Generic[T]):
    """A process that was started by an invocation and runs in the background."""

    process: AgentProcess
    kind: type[T]

    async def result(self) -> T:
        """Wait for the result. Raises a `ProcessEnded` if there is none. Cancelling this does not end the process."""
        await self.process.wait()
        return self.process.result_of_type(self.kind)

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()

    def cancel(self) -> None:
        """Kill the process."""
        self.process.kill("The invocation was cancelled.")


@dataclass(frozen=True)
class AgentInvocation(Generic[T]):
    """`AgentInvocation.on(platform).returning(Writeup).invoke(person)`: runs the first agent with such a goal.

    Agents are looked through in the order of their names, and only goals that give such a result are pursued.
    """

    platform: AgentPlatform
    kind: type[T]
    options: ProcessOptions | None = None

    @classmethod
    def on(cls, platform: AgentPlatform) -> Self:
        """An invocation of agents of this platform, or of the actions that are deployed on it."""
        return cls(platform, cast("type[T]", object))

    def returning(self, kind: type[R]) -> "AgentInvocation[R]":
        """The same invocation, for a result of this type."""
        return AgentInvocation(self.platform, kind, self.options)

    def with_options(self, options: ProcessOptions) -> Self:
        """The same invocation, with these options."""
        return replace(self, options=options)

    async def invoke(self, *inputs: object, **named: object) -> T:
        """Run to the end and return the result; `named` inputs are bound under their names.

        Raises `ProcessStuck`, `ProcessFailed`, `ProcessTerminated`, `ProcessKilled` or `ProcessWaiting` when there is
        no result, and `GoalportError` when nothing that it may run gives the type.
        """
        agent, goals, options = self._chosen()
        process = await self.platform.run(agent, *inputs, bindings=named, goals=goals, options=options)
        return process.result_of_type(self.kind)

    def invoke_async(self, *inputs: object, **named: object) -> Invoked[T]:
        """Start a process and return at once; await the returned object for the result. Needs a running event loop.

        Raises `GoalportError` when nothing that it may run gives the type.
        """
        agent, goals, options = self._chosen()
        process = self.platform.start(agent, *inputs, bindings=named, goals=goals, options=options)
        return Invoked(process, self.kind)

    def invoke_sync(self, *inputs: object, **named: object) -> T:
        """`invoke` for programs without an event loop. Raises `GoalportError` where one is running."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.invoke(*inputs, **named))
        raise GoalportError(
            "invoke_sync was called while an event loop is running here. Write `await invocation.invoke(…)`."
        )

    def _chosen(self) -> tuple[Agent, list[str], ProcessOptions | None]:
        """The agent to run, the names of the goals that count, and the options."""
        for agent in sorted(self.platform.agents, key=lambda each: each.name):
            if goals := agent.goals_giving(self.kind):
                return agent, [each.name for each in goals], self.options
        offered = ", ".join(dict.fromkeys(type_name(goal.output) for _, goal in self.platform.agents.goals))
        raise GoalportError(
            f"No agent has a goal that gives {type_name(self.kind)}. Goals here give: {offered or 'nothing'}."
        )


@dataclass(frozen=True)
class _ScopedInvocation(AgentInvocation[T]):
    """An invocation that assembles an agent of the actions in its scope."""

    planner: ClassVar[PlannerType]
    scope: tuple[object, ...] = ()
    name: str = "Platform"

    def with_scope(self, *declared: object) -> Self:
        """The same invocation, with the actions of these only: instances of marked classes, agents, or their names.

        Without a scope, all actions that are deployed on the platform count, except those of opaque agents.
        """
        return replace(self, scope=declared)

    def named(self, name: str) -> Self:
        """The same invocation, with this name for the agent that it assembles."""
        return replace(self, name=name)

    def _chosen(self) -> tuple[Agent, list[str], ProcessOptions | None]:
        agents = self.platform.agents
        declared = self.scope or [each for each in (*agents, *agents.components) if not each.opaque]
        first, *others = [agents.scope(each).agent for each in declared] or [Agent(self.name, "")]
        together = first.with_components(others)
        goals = [goal for each in (first, *others) for goal in each.goals_giving(self.kind)]
        goals = list({each.name: each for each in goals}.values()) or [  # no goal is declared
            Goal(each.name, each.description, each.outputs.type, each.output_binding)
            for each in together.actions
            if each.outputs.type is not None and fits(each.outputs.type, self.kind)
        ]
        if not goals:
            gives = ", ".join(dict.fromkeys(type_name(each.outputs.type) for each in together.actions))
            raise GoalportError(
                f"No action in the scope gives {type_name(self.kind)}. They give: {gives or 'nothing'}."
            )
        assembled = replace(
            together,
            name=self.name,
            description=goals[0].description,
            goals=tuple(goals),
            opaque=True,
            component=False,
            source="",
            planner=self.planner,
        )
        return assembled, [each.name for each in goals], self.options and self.options.with_(planner=None)


@dataclass(frozen=True)
class SupervisorInvocation(_ScopedInvocation[T]):
    """`SupervisorInvocation.on(platform).returning(Meal).with_scope(Stages()).invoke(order)`: a model chooses actions.

    The goals are those of the scope that give such a result or, if there are none, the actions that do. The process is
    not stored by a store on disk, because the agent that it runs is not deployed.
    """

    planner = PlannerType.SUPERVISOR

    def returning(self, kind: type[R]) -> "SupervisorInvocation[R]":
        """The same invocation, for a result of this type."""
        return SupervisorInvocation(self.platform, kind, self.options, self.scope, self.name)

    def with_llm(self, llm: LlmOptions) -> Self:
        """The same invocation, with this model as the one that chooses."""
        return self.with_options((self.options or self.platform.options).with_(supervisor_llm=llm))


@dataclass(frozen=True)
class UtilityInvocation(_ScopedInvocation[T]):
    """`UtilityInvocation.on(platform).returning(Report).invoke(ticket)`: runs the most valuable actions to get it.

    As with `SupervisorInvocation`, the actions are those of the scope, and the process is not stored on disk.
    """

    planner = PlannerType.UTILITY

    def returning(self, kind: type[R]) -> "UtilityInvocation[R]":
        """The same invocation, for a result of this type."""
        return UtilityInvocation(self.platform, kind, self.options, self.scope, self.name)
