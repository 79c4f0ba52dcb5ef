"""The processes of a platform: each in a task of its own, found again by id, told of, and ended together."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter

from goalport.caller import ANONYMOUS, Caller
from goalport.domain import objects_of
from goalport.errors import UnknownName
from goalport.events import ProcessCreated
from goalport.process import (
    AgentProcess,
    AgentProcessRepository,
    Audience,
    ProcessOptions,
    Scope,
    Surroundings,
    drive,
    new_id,
)
from goalport.tools import ToolGroupResolver

__all__ = ["Inputs", "Processes"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a process begins with, and what counts as its end."""

    objects: Sequence[object] = ()
    bindings: Mapping[str, object] = field(default_factory=dict[str, object])
    goals: Sequence[str] | None = None
    caller: Caller = ANONYMOUS


class Processes:
    """Every process that this platform runs or still remembers."""

    def __init__(
        self, repository: AgentProcessRepository, max_threads: int, service: Callable[[type], object | None]
    ) -> None:
        self._repository = repository
        self._max_threads = max_threads
        self._service = service
        self._limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, CapacityLimiter] = WeakKeyDictionary()
        self._running: dict[asyncio.Task[None], AgentProcess] = {}
        self.audience = Audience()
        """Those who hear every event of the platform and of what it runs."""

    def start(self, scope: Scope, inputs: Inputs, options: ProcessOptions, groups: ToolGroupResolver) -> AgentProcess:
        """A process that runs from now on in a task of the running event loop."""
        loop = asyncio.get_running_loop()
        surroundings = Surroundings(self._limiter(loop), groups, self._service)
        process = AgentProcess(new_id(), scope, options, inputs.caller, surroundings)
        process.goals = _chosen(scope, inputs.goals)
        process.subscribe(self.audience)
        if process.audience.attentive:
            process.emit(ProcessCreated(scope.agent.name, inputs.caller.id, process_id=process.id))
        _put(process, inputs)
        self._repository.save(process)
        task = loop.create_task(drive(process), name=process.id)
        self._running[task] = process
        task.add_done_callback(self._ended)
        return process

    def find(self, process_id: str) -> AgentProcess:
        """The process of that id. Raises `UnknownName`."""
        found = self._repository.find(process_id)
        if found is None:
            # The ids of processes are secrets of those who started them.
            raise UnknownName("process", process_id, None)
        return found

    def all(self) -> tuple[AgentProcess, ...]:
        """The processes that are still remembered, oldest first."""
        return self._repository.all()

    async def close(self) -> None:
        """Kill what runs and wait until it has ended; what runs on another event loop ends soon after."""
        here, running = asyncio.get_running_loop(), dict(self._running)
        for process in running.values():
            process.kill("The platform was closed.")
        await asyncio.gather(*(task for task in running if task.get_loop() is here), return_exceptions=True)

    def _limiter(self, loop: asyncio.AbstractEventLoop) -> CapacityLimiter:
        # A limiter belongs to the loop in which it is waited on, and a platform may be used from several, one by one.
        known = self._limiters.get(loop)
        if known is None:
            known = self._limiters[loop] = CapacityLimiter(self._max_threads)
        return known

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._repository.save(self._running.pop(task))


def _chosen(scope: Scope, goals: Iterable[str] | None) -> tuple[str, ...]:
    if goals is None:
        return tuple(scope.goals)
    for name in goals:
        if name not in scope.goals:
            raise UnknownName("goal", name, scope.goals)
    return tuple(goals)


def _put(process: AgentProcess, inputs: Inputs) -> None:
    for value in inputs.objects:
        for each in objects_of(value):
            process.blackboard.add(each)
    for name, value in inputs.bindings.items():
        process.blackboard.bind(name, value)
