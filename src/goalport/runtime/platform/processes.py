"""The processes of a platform: it starts each in a task of its own, finds them by id, continues and ends them.

Below: the process and its repository. Above: the platform, which has one `Processes`.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from logging import getLogger
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from anyio import CancelScope, CapacityLimiter

from goalport.agents.domain import RetryPolicy
from goalport.base.errors import BadInput, GoalportError, StoreError, UnknownName
from goalport.base.observe import RareLog
from goalport.base.secrecy import register_secrets, secrets_in_environment
from goalport.models.llm import AssistantMessage
from goalport.runtime.ai import Engine, Operation
from goalport.runtime.platform.erasure import Erasure
from goalport.runtime.platform.process_engine import Deliveries, ProcessEngine
from goalport.runtime.platform.process_factory import Inputs, ProcessFactory, given_to_child
from goalport.runtime.platform.replicas import Replicas, end_command, execute
from goalport.runtime.platform.steering import ExpiryTimers, Steering, interrupted_in, park, ready_in, update_ancestors
from goalport.runtime.process import (
    AgentProcess,
    AgentProcessRepository,
    Alarm,
    ContextRepository,
    Failed,
    Killed,
    Listeners,
    LoggedEvent,
    PlatformServices,
    ProcessOptions,
    ProcessStatus,
    Scope,
    SpendingHook,
    StoredContexts,
    Stuck,
    Terminated,
    decline,
    drive,
    family_of,
    kill_unreadable,
    retried,
    step,
    with_descendants,
)
from goalport.store import Codec, ProcessRecord, ProcessStore, Seals
from goalport.tools import ToolGroupResolver

_log = getLogger(__name__)
_WRITTEN_WITHIN: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds to wait, again and again, for a process that another program has begun under a key and not written yet."""
_AT_A_TIME: Final = 100
"""How many events are read at a time."""


class Processes:
    """The processes that this platform runs or still keeps."""

    def __init__(
        self,
        store: ProcessStore,
        contexts: ContextRepository | None,
        max_threads: int,
        service: Callable[[type], object | None],
        scope_of: Callable[[object], Scope],
        groups: Callable[[], ToolGroupResolver],
        engine: Callable[[Operation, ToolGroupResolver], Engine],
        retry: RetryPolicy,
        lease_seconds: float,
        seals: Seals | None = None,
        process_engine: ProcessEngine | None = None,
    ) -> None:
        self._thread_limits = ThreadLimits(max_threads)
        self._service = service
        self._scope_of = scope_of
        self._engine = engine
        self._retry = retry
        self._closed = False
        self._lent: tuple[object, PlatformServices[AgentProcess]] | None = None
        """What the last process was lent, after all of it that may be different for the next."""
        self._rare_log = RareLog()
        self.on_spending = SpendingHook()
        self._running: dict[asyncio.Task[None], AgentProcess] = {}
        self._timers = ExpiryTimers(self.expire)
        self.drives = True
        register_secrets(self, secrets_in_environment(os.environ))
        self.tells_errors = True
        """Whether the messages of unexpected exceptions are shown to callers, and not only written to the log."""
        self.keep_journals = False  # `AgentPlatform` says what it means
        self.max_object_bytes = 64 * 1024 * 1024
        self.prepare: Callable[[Sequence[type], object], Awaitable[None]] | None = None
        """Enters what services have to be entered for an action."""
        self.listeners = Listeners()
        """The listeners for every event of the platform and of its processes."""
        self.contexts = contexts or StoredContexts(store, self.codec)
        """The stores of objects that outlive processes, by id."""
        self._factory = ProcessFactory(self.contexts, self._services, self.listeners, scope_of, groups)
        self._durable = store.durable
        self.turns = Turns()
        """What happens around the turns of a process that talks to people."""
        self._repository = AgentProcessRepository(store, self._factory, seals)
        self.page_of_records = self._repository.lists.page
        self.counts = self._repository.lists.counts
        steering = Steering(self, self._repository, lambda: self._replicas)
        self.answer, self.go_on = steering.answer, steering.go_on
        self.tell, self.stop_turn, self.recover = steering.tell, steering.stop_turn, steering.recover
        self._replicas = Replicas(self._repository, self._continue_family, partial(execute, self), lease_seconds)
        self.erase = Erasure(self.find, self._repository, self._replicas).erase
        self._deliveries = Deliveries(process_engine, self._repository, self._continue_family, lease_seconds)

    async def open(self) -> None:
        """Go on with what other programs have left in the store, and run what an engine delivers, until closed."""
        self._closed = False
        self._replicas.start()
        await self._deliveries.open()

    def stand_aside(self, *, drive: bool) -> None:
        """From now on, take nothing over that others left in a store; without `drive`, leave to them what can go on."""
        self._replicas.takes_over, self.drives = False, drive
        self._deliveries.stand_aside()

    def create(self, scope: Scope, inputs: Inputs, options: ProcessOptions, groups: ToolGroupResolver) -> AgentProcess:
        """A process that has not begun; it is found by its id once it has. Raises `GoalportError` after `close`."""
        self._refuse_if_closed()
        process = self._factory.create(scope, inputs, options, groups)
        if self._durable and not options.ephemeral:
            parent = inputs.parent
            lasts = not scope.lasting_goals.isdisjoint(process.goals) if parent is None else parent.lasting
            if lasts or options.turns or self.keep_journals:
                process.store_each_step()
        if inputs.parent is None and (process.lasting or options.keep_events):
            self._repository.events.open(process, new=True)
        return process

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise GoalportError("This platform is closed. Start processes inside its `async with`, or make a new one.")

    async def once(self, key: str, digest: str, process: AgentProcess) -> AgentProcess | None:
        """Begin a process, stored; or find the one that began under its key, if any. None: that has another digest.

        A process that was killed, or is not known any more, has no result: then the given one takes its place. Raises
        `StoreError`.
        """
        if self._durable:
            process.store_each_step()
            self._repository.events.open(process, new=True)
        waits, instead_of = iter(_WRITTEN_WITHIN if self._durable else ()), ""
        while True:
            joined = self._repository.store.join(key, digest, process.id, instead_of=instead_of) if key else None
            known_digest, known_id = await joined if joined else (digest, process.id)
            if known_id == process.id:
                self.begin(process)
                return await self._repository.once_stored(process)
            if known_digest != digest:
                return None
            found = await self._repository.find(known_id)
            if found is not None and not isinstance(found.outcome, Killed) and found.end_requested is None:
                return await self._repository.once_stored(found)
            if found is None and (pause := next(waits, None)) is not None:
                await asyncio.sleep(pause)
            else:
                instead_of = known_id

    def _services(self, groups: ToolGroupResolver) -> PlatformServices[AgentProcess]:
        """What a process is lent, shared with those before it to which the same was lent."""
        limiter = self._thread_limits.here()
        differs = limiter, groups, self.tells_errors, self.keep_journals, self.max_object_bytes, self.prepare
        if self._lent is not None and self._lent[0] == differs:
            return self._lent[1]
        services = PlatformServices(
            limiter,
            groups,
            self._service,
            self._start_child,
            self._engine,
            self._ended_idle,
            self.resume,
            self._step,
            self._repository.checkpoint,
            self._repository.store_steps,
            self._retry,
            self.tells_errors,
            self.keep_journals,
            self.on_spending,
            self._rare_log,
            self.turns.send,
            self.max_object_bytes,
            self._repository.let_go,
            self.prepare,
        )
        self._lent = differs, services
        return services

    def codec(self, owner: str) -> Codec:
        """What reads and writes the values of a process, by its id, or of what else has values of its own."""
        return self._repository.records_of.codec(owner)

    async def _continue_family(self, root: AgentProcess) -> None:
        """Go on with a family that nobody ran, or whose time to wake has come; this program has its lease."""
        family = family_of(root)
        for each in family:
            if any(question.expired for question in each.questions):
                self.expire(each)
        if self.go_on_with(family) or not self._timers.set_soon(family):
            await self._repository.save(root)

    def go_on_with(self, family: Sequence[AgentProcess]) -> bool:
        """Go on with what a program left in the middle of its work. Returns whether there is anything.

        What it had been asked to end, and had not yet, ends now.
        """
        for each in family:
            each.end_as_requested()
        interrupted, ready = interrupted_in(family), ready_in(family)
        for each in ready:
            park(each, interrupted) if interrupted else self.begin(each)
        return bool(ready)

    def _start_child(
        self, parent: AgentProcess, action: str, agent: object, kind: type, inputs: Sequence[object]
    ) -> AgentProcess:
        scope = self._scope_of(agent)
        given, options = given_to_child(scope, parent, action, kind, inputs)
        process = self.create(scope, given, options, parent.services.groups)
        self.begin(process)
        return process

    async def find(self, process_id: str) -> AgentProcess:
        """The process of that id. Raises `UnknownName`, and `Unreadable` if today's classes cannot take it."""
        self._replicas.start()
        found = await self.look_at(process_id)
        for each in family_of(found):
            if not self._durable and each.status is ProcessStatus.WAITING and each not in self._timers:
                self._timers.set(each)  # it was made of its records: no timer has run meanwhile
                if any(question.expired for question in each.questions):
                    self.expire(each)
        return found

    def live(self, process_id: str) -> AgentProcess | None:
        """The process of that id that is in the memory of this program, as this program knows it."""
        return self._repository.live(process_id)

    async def look_at(self, process_id: str) -> AgentProcess:
        """The process of that id as the store has it now; nothing follows from that. Raises as `find` does."""
        found = await self._repository.find(process_id)
        if found is None:
            raise UnknownName("process", process_id, None)  # ids are secrets of those who started the processes
        return found

    async def kill_unreadable(self, process_id: str, reason: str) -> None:
        """End a process that today's classes cannot read, and its family, whoever runs it. Raises `StoreError`."""
        kill = partial(kill_unreadable, self._repository.store, process_id, reason)
        if not await kill():
            await self._replicas.send_to(process_id, end_command(Killed(reason)), kill)

    async def events(self, process: AgentProcess, after: int) -> AsyncGenerator[LoggedEvent]:
        """The events of a process, and of those that it started, after the one of that number, as they happen."""
        self._replicas.start()
        root = process.root
        unsubscribe = root.subscribe(Alarm(root.notify_waiters))
        try:
            while True:
                ended, version = process.status.ended and not process.untold, self._repository.version(root)
                found = await self._repository.events.read(root, after, _AT_A_TIME)
                members = {each.id for each in with_descendants(process)}
                for number, event in found:
                    after = number
                    if event is not None and (process is root or event.process_id in members):
                        yield LoggedEvent(number, event)
                if found or version != self._repository.version(root):
                    continue
                if ended:
                    return
                await root.changed()
        finally:
            unsubscribe()

    def renew_types(self) -> None:
        """Find the classes of stored objects anew, because a workspace was loaded again."""
        self._repository.records_of.renew_types()
        self._replicas.renew()

    async def records(self) -> Sequence[ProcessRecord]:
        """What is known of all processes that are still kept, oldest first."""
        return await self._repository.lists.records()

    @property
    def taken_over(self) -> int:
        """How many families go on in this program whose own program had ended in the middle of their work."""
        return self._replicas.taken_over

    @property
    def running(self) -> Sequence[AgentProcess]:
        """The processes that run in this program, oldest first."""
        return tuple(self._running.values())

    def leave_to_others(self) -> None:
        """Tell who waits here for processes that other programs run to ask again there, since this program ends."""
        for process in self._repository.watched if self._durable else ():
            if process.status is ProcessStatus.RUNNING and not process.active:
                process.leave(gone=True)

    async def close(self) -> None:
        """Kill the processes that run, and wait until they have ended; on other event loops they end later.

        Those that wait are killed too. In a store that outlives the program those stay as they are that were stored:
        another program goes on with them, or this one when it starts again.
        """
        here, self._closed = asyncio.get_running_loop(), True
        await self._deliveries.close()
        await self._replicas.stop()
        running = dict(self._running)
        left = [] if self._durable else [each for each in await self.records() if not each.ended]
        waiting = [await self._repository.find(each.id) for each in left]
        for process in (*running.values(), *waiting, *self._repository.watched):
            if process is not None and self._durable and self._repository.may_be_stored(process):
                process.leave(gone=True)
            elif process is not None and not process.status.ended:
                process.kill("The platform was closed.")
        await asyncio.gather(*(task for task in running if task.get_loop() is here), return_exceptions=True)
        await self.turns.close()
        if self._durable:
            await self._repository.save_all()

    def resume(self, process: AgentProcess, *objects: object) -> None:
        """Continue a process that waits or is stuck, with more objects on its blackboard; any other is not changed.

        The processes that wait for it count as running again. Callable from any thread. Raises `BadInput` for one in
        which an action was interrupted that may not be repeated: see `go_on`; and `GoalportError` after `close` for one
        that has not begun.
        """
        if process.status is ProcessStatus.NOT_STARTED:
            self._refuse_if_closed()
        if process.progress.interrupted:
            raise BadInput(f"Process {process.id} has to be told whether what was interrupted begins again.")

        def go_on() -> None:
            if process.idle and self._repository.has(process):
                for value in objects:
                    process.blackboard.add(value)
                self.begin(process)

        def start() -> None:
            if self._repository.has(process):
                go_on()
            else:
                process.beside(self._repository.claim_for(process, process.expect(go_on)))

        process.on_loop(start)

    def let_go_on(self, process: AgentProcess) -> None:
        """Continue a process that need not wait any more; one that runs step by step is ready for the next step."""
        if not process.stepped and self.drives:
            self.resume(process)
        elif process.status is ProcessStatus.WAITING and process.idle:
            process.reopen()

    async def _step(self, process: AgentProcess) -> None:
        self._refuse_if_closed()
        await asyncio.wait([self.begin(process, stepped=True)])  # a step goes on when the wait is cancelled

    def begin(self, process: AgentProcess, *, stepped: bool = False) -> asyncio.Task[None]:
        """Run a process from now on in a task of the running event loop; with `stepped` it takes one step only."""

        async def run(process: AgentProcess) -> None:
            if not await self._enter(process):
                return
            if self._deliveries.wanted(process):
                await self._deliveries.hand_over(process)
                return
            if process.options.turns and not await self.turns.prepare(process):
                await (self._repository.release(process) if process.elsewhere else self._save(process))
                return
            if self._durable:
                process.tell_when_stored(ends=self._repository.is_stored(process))
            try:
                await (step if stepped else drive)(process)
            finally:
                if process.options.turns:
                    await self.turns.keep(process)
                if process.elsewhere:
                    await self._repository.release(process)
                elif process.outcome is not None and not process.driven:
                    self._continue_others(process)
                    await self._save(process)
                elif stepped and self._repository.is_stored(process):
                    await self._repository.save(process)
                process.stored()

        def forget(task: asyncio.Task[None]) -> None:
            del self._running[task]
            process.release_frames()

        task = process.launch(run, forget, stepped=stepped)
        self._running[task] = process
        self._repository.hold(process)
        self._replicas.start()
        update_ancestors(process)
        return task

    async def _enter(self, process: AgentProcess) -> bool:
        """Prepare a process that begins to run, and the store for it. Returns False if it cannot run here."""
        wants_more = process.options.context_id or process.options.prune
        begins = wants_more and process.status is ProcessStatus.NOT_STARTED and not self._repository.is_stored(process)
        if begins and not await self._equip(process):
            return False
        try:
            entered = await self._repository.enter(process)
        except StoreError as error:  # nothing has been done yet, and nobody would know of it later
            _log.warning("Process %s did not begin: %s", process.id, error)
            process.settle(Failed(f"It did not begin. Try again later. {error.told}", not_begun=True))
            self._continue_others(process)
            self._repository.drop(process)
            return False
        if entered and not process.over:
            process.notify_waiters()
            return True
        process.release()
        process.notify_waiters()
        return False

    async def _equip(self, process: AgentProcess) -> bool:
        """Give a process what it begins with besides its inputs. Returns False if that cannot be had."""
        try:
            await self._factory.equip(process)
        except Exception as error:
            if not isinstance(error, GoalportError):
                _log.exception("Process %s did not begin.", process.id)
            words = process.words_for(error)
            if isinstance(error, StoreError):
                _log.warning("Process %s did not begin: %s", process.id, error)
                words = f"Try again later. {error.told}"
            process.settle(Failed(f"It did not begin. {words}", not_begun=isinstance(error, StoreError)))
            self._continue_others(process)
            await self._save(process)
            return False
        return True

    def _ended_idle(self, process: AgentProcess) -> None:
        if self._durable:
            process.tell_when_stored(ends=True)
        if self._repository.has(process):
            self._continue_others(process)
            process.beside(self._save(process))
        else:
            process.beside(self._end_idle(process))

    async def _end_idle(self, process: AgentProcess) -> None:
        """End a process that was ended here, and of which another program may have the lease."""
        wanted = process.end_requested
        assert isinstance(wanted, Killed | Terminated)

        async def taken() -> bool:
            return await self._repository.claim(process) or not await self._replicas.send(process, end_command(wanted))

        try:
            mine = await retried(process, taken)
            if mine and process.over:
                self._continue_others(process)
                await self._save(process)
        finally:
            process.stored()
        if mine and not process.over:  # the store knew something newer of it, from which it was made again
            process.end(wanted)

    def _continue_others(self, process: AgentProcess) -> None:
        """Continue what waited for a process that has ended now, or waits."""
        update_ancestors(process)
        if process.status is ProcessStatus.WAITING:
            if not self._repository.is_stored(process) or not self._durable:
                self._timers.set(process)
        elif process.parent is not None and process.parent.progress.unpark(process):
            self.let_go_on(process.parent)

    async def _save(self, process: AgentProcess) -> None:
        try:
            await self._repository.save(process)
        finally:
            process.stored()
        store = self._repository.store
        for overflow in await store.overflow() if process.status is ProcessStatus.WAITING else ():
            longest = await self._repository.find(overflow)
            if longest is not None:
                longest.terminate(f"More than {store.max_waiting:,} processes wait, and it had waited longest.")

    def expire(self, process: AgentProcess) -> None:
        for question in process.questions.open:
            if question.expired:
                decline(process, question, "Nobody answered in time.", "expired")
        self.let_go_on(process)


class ThreadLimits:
    """Limits how many worker threads are busy at once, on each event loop.

    A limiter belongs to the event loop on which it is waited for, and a platform may be used on several, one by one.
    """

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._known: WeakKeyDictionary[asyncio.AbstractEventLoop, CapacityLimiter] = WeakKeyDictionary()

    def here(self) -> CapacityLimiter:
        """The limiter of the running event loop. Raises `GoalportError` where none is running."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise GoalportError(
                "Expected a running event loop, in which processes run, but there is none. Call this in an `async def`"
                " that asyncio.run(…) runs, or use AgentInvocation.on(platform).returning(…).invoke_sync(…)."
            ) from None
        known = self._known.get(loop)
        if known is None:
            known = self._known[loop] = CapacityLimiter(self._max_threads)
        return known


class TurnHooks(Protocol):
    """What is called around the runs of a process that goes on from turn to turn."""

    async def before_run(self, process: AgentProcess, /) -> None:
        """Prepare a process that is going to run."""
        ...

    async def after_run(self, process: AgentProcess, /) -> None:
        """Keep what a process has done that rests now, before it is stored."""
        ...

    async def send(self, process: AgentProcess, message_id: str, message: AssistantMessage, /) -> AssistantMessage:
        """Keep a message that an action sends, and return it as it is kept."""
        ...

    async def close(self) -> None:
        """End what is done beside the turns."""
        ...


class Turns:
    """Calls the hooks, and waits for the store as long as it takes."""

    def __init__(self) -> None:
        self.hooks: TurnHooks | None = None
        """What is called; None: nothing happens around turns."""

    async def prepare(self, process: AgentProcess) -> bool:
        """Prepare a process that is going to run. Returns False if it does not: it is stuck, or another program has it.

        Who ends the process or its turn meanwhile need not wait for this: the run ends as soon as it has begun.
        """
        hooks = self.hooks
        try:
            with CancelScope() as process.cancel_scope:
                if hooks is not None and process.end_requested is None:
                    await retried(process, lambda: hooks.before_run(process))
        except Exception as error:
            expected = isinstance(error, GoalportError)
            if not expected:
                _log.exception("The turn of process %s did not begin.", process.id)
            if process.end_requested is None and not process.elsewhere:
                words = error if expected else process.words_for(error)
                process.settle(Stuck(f"It cannot go on. {words}", turn_failed=True))
                return False
        finally:
            process.cancel_scope = None
        if process.elsewhere:
            process.release()
        return not process.elsewhere

    async def keep(self, process: AgentProcess) -> None:
        """Keep what a process has done that rests now."""
        hooks = self.hooks
        try:
            if hooks is not None and not process.elsewhere:
                await retried(process, lambda: hooks.after_run(process))
        except Exception as error:
            unexpected = None if isinstance(error, GoalportError) else error
            _log.warning("What process %s has said was not kept: %s", process.id, error, exc_info=unexpected)

    async def send(self, process: AgentProcess, message_id: str, message: AssistantMessage, /) -> AssistantMessage:
        """Keep a message that an action sends, and return it as it is kept."""
        return message if self.hooks is None else await self.hooks.send(process, message_id, message)

    async def close(self) -> None:
        """End what is done beside the turns."""
        if self.hooks is not None:
            await self.hooks.close()
