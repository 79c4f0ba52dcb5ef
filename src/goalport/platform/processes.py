"""The processes of a platform: it starts each in a task of its own, finds them by id, continues and ends them.

Below: the process and its repository. Above: the platform, which has one `Processes`.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from logging import getLogger
from weakref import WeakKeyDictionary, WeakSet

from anyio import CapacityLimiter

from goalport.ai import Engine, Operation
from goalport.domain import RetryPolicy
from goalport.errors import BadInput, UnknownName
from goalport.platform.process_factory import Inputs, ProcessFactory
from goalport.process import (
    AgentProcess,
    AgentProcessRepository,
    ContextRepository,
    Listeners,
    PlatformServices,
    ProcessOptions,
    ProcessStatus,
    Question,
    Scope,
    answer,
    blackboard_for_child,
    decline,
    drive,
    family_of,
    find_question,
    step,
)
from goalport.secrecy import register_secrets, secrets_in_environment
from goalport.store import ProcessRecord, ProcessStore, Seals
from goalport.tools import ToolGroupResolver

_log = getLogger(__name__)

__all__ = ["Processes"]


class _ThreadLimits:
    """Limits how many worker threads are busy at once, on each event loop.

    A limiter belongs to the event loop on which it is waited for, and a platform may be used on several, one by one.
    """

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._known: WeakKeyDictionary[asyncio.AbstractEventLoop, CapacityLimiter] = WeakKeyDictionary()

    def here(self) -> CapacityLimiter:
        """The limiter of the running event loop."""
        loop = asyncio.get_running_loop()
        known = self._known.get(loop)
        if known is None:
            known = self._known[loop] = CapacityLimiter(self._max_threads)
        return known


class Processes:
    """The processes that this platform runs or still keeps."""

    def __init__(
        self,
        store: ProcessStore,
        contexts: ContextRepository,
        max_threads: int,
        service: Callable[[type], object | None],
        scope_of: Callable[[object], Scope],
        groups: Callable[[], ToolGroupResolver],
        engine: Callable[[Operation, ToolGroupResolver], Engine],
        retry: RetryPolicy,
        seals: Seals | None = None,
    ) -> None:
        self._thread_limits = _ThreadLimits(max_threads)
        self._service = service
        self._scope_of = scope_of
        self._engine = engine
        self._retry = retry
        self._warned_of_blocking: set[str] = set()
        self._running: dict[asyncio.Task[None], AgentProcess] = {}
        self._timed: WeakSet[AgentProcess] = WeakSet()
        """The processes whose questions expire in time."""
        register_secrets(self, secrets_in_environment(os.environ))
        self.tells_errors = True
        """Whether the messages of unexpected exceptions are shown to callers, and not only written to the log."""
        self.listeners = Listeners()
        """The listeners for every event of the platform and of its processes."""
        self._factory = ProcessFactory(contexts, self._services, self.listeners, scope_of, groups)
        self._repository = AgentProcessRepository(store, self._factory, seals)

    def create(self, scope: Scope, inputs: Inputs, options: ProcessOptions, groups: ToolGroupResolver) -> AgentProcess:
        """A process that has not begun; it is found by its id once it has."""
        return self._factory.create(scope, inputs, options, groups)

    def _services(self, groups: ToolGroupResolver) -> PlatformServices:
        return PlatformServices(
            self._thread_limits.here(),
            groups,
            self._service,
            self._start_child,
            self._engine,
            self._ended_idle,
            self.resume,
            self._step,
            self._retry,
            self.tells_errors,
            self._warned_of_blocking,
        )

    def answer(self, process: AgentProcess, question_id: str | None, response: object, declined: str) -> None:
        """Settle a question of a process, or of one that it started, and continue what waited for it.

        `declined` is the reason why a person says no; empty: `response` is the answer. Raises `UnknownName`, `BadInput`
        and `AlreadyAnswered`, as `AgentPlatform.answer` says.
        """
        asker, question = find_question(process, question_id)
        if asker.status.ended and question.status == "open":
            raise BadInput(f"Process {asker.id} has ended: {asker.status}. Nothing more can be answered.")
        if declined:
            decline(asker, question, declined)
        else:
            answer(asker, question, response)
        self._go_on(asker)

    def _start_child(
        self, parent: AgentProcess, action: str, agent: object, kind: type, inputs: Sequence[object]
    ) -> AgentProcess:
        scope = self._scope_of(agent)
        goals = [goal.name for goal in scope.agent.goals_giving(kind)]
        blackboard = blackboard_for_child(parent.blackboard, scope, called_with_inputs=bool(inputs))
        options = replace(parent.options, blackboard=blackboard, context_id="", listeners=(), planner=None)
        given = Inputs(inputs, {}, goals or None, parent.caller, parent, action)
        process = self.create(scope, given, options, parent.services.groups)
        self.begin(process)
        return process

    async def find(self, process_id: str) -> AgentProcess:
        """The process of that id. Raises `UnknownName`."""
        found = await self._repository.find(process_id)
        if found is None:
            # The ids of processes are secrets of those who started them.
            raise UnknownName("process", process_id, None)
        for each in family_of(found):
            if each.status is ProcessStatus.WAITING and each not in self._timed:
                self._wake_at_expiry(each)  # it was made of its records: no timer has run meanwhile
                if any(map(_is_expired, each.questions)):
                    self._expire(each)
        return found

    def renew_types(self) -> None:
        """Find the classes of stored objects anew, because a workspace was loaded again."""
        self._repository.renew_types()

    async def records(self) -> Sequence[ProcessRecord]:
        """What is known of all processes that are still kept, oldest first."""
        return await self._repository.records()

    async def counts(self) -> Mapping[str, int]:
        """How many processes that are still kept have each status."""
        return await self._repository.counts()

    @property
    def running(self) -> Sequence[AgentProcess]:
        """The processes that run in this program, oldest first."""
        return tuple(self._running.values())

    async def close(self) -> None:
        """Kill the processes that run, and wait until they have ended; on other event loops they end later.

        Those that wait are killed too, unless the store outlives the program: then they can be answered afterwards.
        """
        here, running = asyncio.get_running_loop(), dict(self._running)
        left = [] if self._repository.store.durable else [each for each in await self.records() if not each.ended]
        waiting = [await self._repository.find(each.id) for each in left]
        for process in (*running.values(), *waiting):
            if process is not None and not process.status.ended:
                process.kill("The platform was closed.")
        await asyncio.gather(*(task for task in running if task.get_loop() is here), return_exceptions=True)
        if self._repository.store.durable:
            await self._repository.save_all()

    def resume(self, process: AgentProcess, *objects: object) -> None:
        """Continue a process that waits or is stuck, with more objects on its blackboard; any other is not changed.

        The processes that wait for it count as running again. Callable from any thread.
        """

        def go_on() -> None:
            if process.idle:
                for value in objects:
                    process.blackboard.add(value)
                self.begin(process)

        process.on_loop(go_on)

    def _go_on(self, process: AgentProcess) -> None:
        """Continue a process that need not wait any more; one that runs step by step is ready for the next step."""
        if not process.stepped:
            self.resume(process)
        elif process.status is ProcessStatus.WAITING and process.idle:
            process.reopen()

    async def _step(self, process: AgentProcess) -> None:
        # When the wait is cancelled, the step continues, as any process does.
        await asyncio.wait([self.begin(process, stepped=True)])

    def begin(self, process: AgentProcess, *, stepped: bool = False) -> asyncio.Task[None]:
        """Run a process from now on in a task of the running event loop; with `stepped` it takes one step only."""

        async def run(process: AgentProcess) -> None:
            await self._repository.claim(process)
            if self._repository.store.durable:
                process.tell_when_stored(ends=self._repository.is_stored(process))
            try:
                await (step if stepped else drive)(process)
            finally:
                if process.outcome is not None and not process.driven:
                    self._continue_others(process)
                    await self._save(process)
                else:
                    process.stored()

        def forget(task: asyncio.Task[None]) -> None:
            del self._running[task]

        task = process.launch(run, forget, stepped=stepped)
        self._running[task] = process
        self._repository.hold(process)
        _update_ancestors(process)
        return task

    def _ended_idle(self, process: AgentProcess) -> None:
        self._continue_others(process)
        if self._repository.store.durable:
            process.tell_when_stored(ends=True)
        process.beside(self._save(process))

    def _continue_others(self, process: AgentProcess) -> None:
        """Continue what waited for a process that has ended now, or waits."""
        _update_ancestors(process)
        if process.status is ProcessStatus.WAITING:
            self._wake_at_expiry(process)
        elif process.parent is not None and process.parent.progress.unpark(process):
            self._go_on(process.parent)

    async def _save(self, process: AgentProcess) -> None:
        try:
            await self._repository.save(process)
        finally:
            process.stored()
        if process.status is not ProcessStatus.WAITING:
            return
        store = self._repository.store
        for surplus in await store.surplus():
            longest = await self._repository.find(surplus)
            if longest is not None:
                longest.terminate(f"More than {store.max_waiting:,} processes wait, and it had waited longest.")

    def _wake_at_expiry(self, process: AgentProcess) -> None:
        self._timed.add(process)
        times = [each.expires_at.timestamp() for each in process.questions.open if each.expires_at is not None]
        if times:
            delay = max(min(times) - time.time(), 0)
            asyncio.get_running_loop().call_later(delay, self._expire, process)

    def _expire(self, process: AgentProcess) -> None:
        for question in process.questions.open:
            if _is_expired(question):
                decline(process, question, "Nobody answered in time.", "expired")
        self._go_on(process)


def _is_expired(question: Question) -> bool:
    return question.status == "open" and question.expires_at is not None and question.expires_at <= datetime.now(UTC)


def _update_ancestors(process: AgentProcess) -> None:
    """Update the processes above that wait for this one, as far as their status changes with its status."""
    above = process.parent
    while above is not None and above.follow_children():
        above = above.parent
