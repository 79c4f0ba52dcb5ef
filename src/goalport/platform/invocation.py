"""Invocations: running an agent by the type of the result that is wanted (user guide, section 3.16.2).

Above: programs. Below: the platform.
"""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from goalport.domain import Agent
from goalport.errors import GoalportError
from goalport.platform.agent_platform import AgentPlatform
from goalport.process import AgentProcess, ProcessOptions
from goalport.words import type_name

__all__ = ["AgentInvocation", "Invoked"]

T = TypeVar("T")
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
    """`AgentInvocation.on(platform).returning(Writeup).invoke(person)`: the first agent, by name, with such a goal."""

    platform: AgentPlatform
    kind: type[T]
    options: ProcessOptions | None = None

    @staticmethod
    def on(platform: AgentPlatform) -> "AgentInvocation[object]":
        """An invocation of agents of this platform."""
        return AgentInvocation(platform, object)

    def returning(self, kind: type[R]) -> "AgentInvocation[R]":
        """The same invocation, for a result of this type."""
        return AgentInvocation(self.platform, kind, self.options)

    def with_options(self, options: ProcessOptions) -> "AgentInvocation[T]":
        """The same invocation, with these options."""
        return replace(self, options=options)

    async def invoke(self, *inputs: object, **named: object) -> T:
        """Run to the end and return the result; `named` inputs are bound under their names.

        The first agent, by name, that has goals with such a result is run, and it pursues only these goals. Raises
        `ProcessStuck`, `ProcessFailed`, `ProcessTerminated` or `ProcessKilled` when there is no result, and
        `GoalportError` when no agent has a goal of the type.
        """
        agent, goals = self._agent_and_goals()
        process = await self.platform.run(agent, *inputs, bindings=named, goals=goals, options=self.options)
        return process.result_of_type(self.kind)

    def invoke_async(self, *inputs: object, **named: object) -> Invoked[T]:
        """Start a process and return at once; await the returned object for the result. Needs a running event loop.

        Raises `GoalportError` when no agent has a goal of the type.
        """
        agent, goals = self._agent_and_goals()
        process = self.platform.start(agent, *inputs, bindings=named, goals=goals, options=self.options)
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

    def _agent_and_goals(self) -> tuple[Agent, list[str]]:
        for agent in sorted(self.platform.agents, key=lambda each: each.name):
            if goals := agent.goals_giving(self.kind):
                return agent, [each.name for each in goals]
        offered = ", ".join(dict.fromkeys(type_name(goal.output) for _, goal in self.platform.agents.goals))
        raise GoalportError(
            f"No agent has a goal that gives {type_name(self.kind)}. Goals here give: {offered or 'nothing'}."
        )
