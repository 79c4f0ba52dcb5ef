"""The processes of a platform: each runs in a task of its own, and is found, continued and ended by its id.

If another program runs a process, that program gets a command. An answer or an object for a process is stored before
its sender goes on. Below: the process and its repository. Above: the platform, which has one `Processes`.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from functools import partial
from logging import ERROR, WARNING, getLogger
from typing import Final, cast
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

import anyio
from anyio import CancelScope, CapacityLimiter

from goalport.agents.domain import RetryPolicy
from goalport.base.caller import Caller
from goalport.base.errors import BadInput, GoalportError, StoreError, UnknownName, Unreadable, Unstorable
from goalport.base.observe import RateLimitedLog
from goalport.base.secrecy import register_secrets, secrets_in_environment
from goalport.models.llm import AssistantMessage
from goalport.runtime.chat import ConversationTurns
from goalport.runtime.platform.process_factory import (
    Inputs,
    Platform,
    ProcessFactory,
    begin_with_context,
    given_to_child,
)
from goalport.runtime.platform.replicas import Command, ProcessEngine, Replicas
from goalport.runtime.process import (
    AgentProcess,
    AgentProcessRepository,
    Alarm,
    ContextRepository,
    Failed,
    Killed,
    Listeners,
    LoggedEvent,
    ProcessOptions,
    ProcessPlatform,
    ProcessStatus,
    Scope,
    StoredContexts,
    Stuck,
    Terminated,
    decline,
    drive,
    find_question,
    kill_unreadable,
    retried,
    settle,
)
from goalport.runtime.process.listeners import event_of
from goalport.store import Json, ProcessStore, Sealed, Seals, StoredTypes

_log = getLogger(__name__)
_WRITTEN_WITHIN: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds to wait, in turn, until another program has stored the process that it began with the same key."""
_AT_A_TIME: Final = 100
"""How many events are read at a time."""
_STORE_SECONDS: Final = 5.0
"""The most seconds that the sender of an answer or an object waits until it is stored."""
_END_SECONDS: Final = 5.0
"""The most seconds that the sender of a command to end a process waits until it has stopped."""
_MOST_SKEW: Final = 120.0
"""The most seconds that the clock of a database may be ahead of ours."""


class Processes(ProcessPlatform):
    """The processes that a platform runs or still keeps; `AgentPlatform` says what the parameters mean."""

    turns: ConversationTurns
    """What is done before and after each run of a process that talks to people."""

    def __init__(
        self,
        platform: Platform,
        store: ProcessStore,
        *,
        contexts: ContextRepository | None,
        max_threads: int,
        retry: RetryPolicy,
        lease_seconds: float,
        seals: Seals | None,
        engine: ProcessEngine | None,
        keep_journals: bool,
        max_object_bytes: int,
    ) -> None:
        self._platform, self.service, self.engine = platform, platform.service, platform.llm_engine
        self._max_threads, self._durable, self._closed = max_threads, store.durable, False
        self.retry, self.keep_journals, self.max_object_bytes = retry, keep_journals, max_object_bytes
        self._limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, CapacityLimiter] = WeakKeyDictionary()
        self._running: dict[asyncio.Task[None], AgentProcess] = {}
        self._timed: WeakSet[AgentProcess] = WeakSet()
        """Processes with timers for their questions: their store does not wake them, or its clock is ahead of ours."""
        self.drives = True
        """Whether this program runs processes; otherwise it leaves them to others."""
        register_secrets(self, secrets_in_environment(os.environ))
        self.tells_errors, self.rate_limited_log, self.prepare = True, RateLimitedLog(), None
        self.on_spending = lambda _: None
        self.on_model_request: Callable[[str, float, bool], None] = lambda _model, _seconds, _failed: None
        """Called after each request to a model with its name, the seconds, and whether it failed; must not raise."""
        self.listeners = Listeners()
        """The listeners for every event of the platform and of its processes."""
        self._factory = ProcessFactory(platform, self, self.listeners)
        self._repository = repository = AgentProcessRepository(
            store, self._factory.definition_of, self._factory.restored, seals
        )
        self.codec = repository.family_records.codec
        """Gives the codec that reads and writes stored values, by the id of the process or context that owns them."""
        self.contexts = contexts or StoredContexts(store, self.codec)
        """The stores of objects that outlive processes, by id."""
        self.checkpoint, self.store_steps = repository.checkpoint, repository.store_steps
        self.unfollowed, self.live = repository.release_from_memory, repository.live
        self.records, self.counts = repository.records, repository.counts
        self.page_of_records = repository.page_of_records
        self._replicas = Replicas(repository, self._continue_family, self._execute, lease_seconds, engine)

    async def open(self) -> None:
        """Go on with what other programs have left in the store, and run what an engine delivers, until closed."""
        self._closed = False
        await self._replicas.open()

    def disable_takeover(self, *, drive: bool) -> None:
        """From now on, take nothing over from other programs; without `drive`, leave them what can go on."""
        self.drives = drive
        self._replicas.disable_takeover()

    @property
    def limiter(self) -> CapacityLimiter:
        """How many worker threads may be busy at once on the running event loop; a limiter belongs to one loop.

        Raises `GoalportError` where none is running.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise GoalportError(
                "Expected a running event loop, in which processes run, but there is none. Call this in an `async def`"
                " that asyncio.run(…) runs, or use AgentInvocation.on(platform).returning(…).invoke_sync(…)."
            ) from None
        known = self._limiters.get(loop)
        if known is None:
            known = self._limiters[loop] = CapacityLimiter(self._max_threads)
        return known

    # What begins.

    def create(self, scope: Scope, inputs: Inputs, options: ProcessOptions) -> AgentProcess:
        """A process that has not begun; it can be found by its id once it has begun.

        Raises `GoalportError` after `close`, and where no event loop is running; `TypeError` for an input that no
        process can begin with, and `UnknownName`.
        """
        self._refuse_if_closed()
        _ = self.limiter  # there is one only where an event loop runs
        process, parent = self._factory.create(scope, inputs, options), inputs.parent
        if self._durable and not options.ephemeral:
            lasts = not scope.durable_goals.isdisjoint(process.goals) if parent is None else parent.durable
            process.durable = lasts or options.turns or self.keep_journals
        if parent is None and (process.durable or options.keep_events):
            self._repository.open_log(process, new=True)
        return process

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise GoalportError("This platform is closed. Start processes inside its `async with`, or make a new one.")

    async def begin_or_join(self, key: str, digest: str, process: AgentProcess) -> AgentProcess | None:
        """Begin and store a process, or find the process that began with the same key. None: that has another digest.

        If the earlier process was killed, or is not known any more, it has no result: the new one takes its place.
        Raises `StoreError`.
        """
        if self._durable:
            process.durable = True
            self._repository.open_log(process, new=True)
        waits, instead_of = iter(_WRITTEN_WITHIN if self._durable else ()), ""
        while True:
            joined = self._repository.store.join(key, digest, process.id, instead_of=instead_of) if key else None
            known_digest, known_id = await joined if joined else (digest, process.id)
            if known_id == process.id:
                self.begin(process)
                return await self._repository.when_stored(process)
            if known_digest != digest:
                return None
            found = await self._repository.find(known_id)
            if found is not None and not isinstance(found.outcome, Killed) and found.end_requested is None:
                return await self._repository.when_stored(found)
            if found is None and (pause := next(waits, None)) is not None:
                await asyncio.sleep(pause)
            else:
                instead_of = known_id

    def start_child(
        self, parent: AgentProcess, action: str, agent: object, kind: type, inputs: Sequence[object], /
    ) -> AgentProcess:
        scope = self._platform.agents.scope(agent)
        given, options = given_to_child(scope, parent, action, kind, inputs)
        process = self.create(scope, given, options)
        self.begin(process)
        return process

    async def send_message(
        self, process: AgentProcess, message_id: str, message: AssistantMessage, /
    ) -> AssistantMessage:
        return await self.turns.send(process, message_id, message)

    # What is known of them.

    async def find(self, process_id: str) -> AgentProcess:
        """The process of that id. Raises `UnknownName`, and `Unreadable` if its record does not fit today's classes."""
        self._replicas.start()
        found = await self.peek(process_id)
        for each in found.family:
            if not self._durable and each.status is ProcessStatus.WAITING and each not in self._timed:
                self._set_timer(each)  # it was restored from its records: no timer has run meanwhile
                if any(question.expired for question in each.questions) and await self._repository.claim(each):
                    self._expire(each)
        return found

    async def peek(self, process_id: str) -> AgentProcess:
        """The process of that id as the store has it now. It sets no timer, and raises what `find` raises."""
        found = await self._repository.find(process_id)
        if found is None:
            raise UnknownName("process", process_id, None)  # ids are secrets of those who started the processes
        return found

    async def events(self, process: AgentProcess, after: int) -> AsyncGenerator[LoggedEvent]:
        """The events of a process, and of those that it started, after the event with that number, as they happen."""
        self._replicas.start()
        root = process.root
        unsubscribe = root.subscribe(Alarm(root.notify_waiters))
        try:
            while True:
                ended, version = process.status.ended and not process.withheld, root.version or 0
                found = await self._repository.events(root, after, _AT_A_TIME)
                members = {each.id for each in process.subtree}
                for record in found:
                    after, event = record.number, event_of(record)
                    if event is not None and (process is root or event.process_id in members):
                        yield LoggedEvent(after, event)
                if found or version != (root.version or 0):
                    continue
                if ended:
                    return
                await root.changed()
        finally:
            unsubscribe()

    def renew_types(self) -> None:
        """Look up the classes of stored objects again, because a workspace was loaded again."""
        self._repository.family_records.types = StoredTypes()
        self._replicas.retry_at.clear()  # families that could not go on here are tried again

    @property
    def taken_over(self) -> int:
        """How many families this program has continued whose own program had ended in the middle of their work."""
        return self._replicas.taken_over

    @property
    def running(self) -> Sequence[AgentProcess]:
        """The processes that run in this program, oldest first."""
        return tuple(self._running.values())

    def hand_over_waits(self) -> None:
        """End the waits here for processes of other programs, since this one ends: callers ask them instead."""
        for process in self._repository.watched if self._durable else ():
            if process.status is ProcessStatus.RUNNING and not process.active:
                process.detach(closing=True)

    async def close(self) -> None:
        """Kill the processes that run, and wait until they have ended; on other event loops they end later.

        Processes that wait are killed too. Processes in a store that outlives the program stay as they are: another
        program continues them, or this one when it starts again.
        """
        here, self._closed = asyncio.get_running_loop(), True
        await self._replicas.stop()
        running = dict(self._running)
        left = [] if self._durable else [each for each in await self.records() if not each.ended]
        waiting = [await self._repository.find(each.id) for each in left]
        for process in (*running.values(), *waiting, *self._repository.watched):
            if process is not None and self._durable and self._repository.may_be_stored(process):
                process.detach(closing=True)
            elif process is not None and not process.status.ended:
                process.kill("The platform was closed.")
        await asyncio.gather(*(task for task in running if task.get_loop() is here), return_exceptions=True)
        await self.turns.close()
        if self._durable:
            await self._repository.save_all()

    # What runs.

    def resume(self, process: AgentProcess, /, *objects: object) -> None:
        """Continue a process that waits or is stuck, with more objects on its blackboard; any other is not changed.

        The processes that wait for it count as running again. Callable from any thread. Raises `BadInput` if an action
        was interrupted that may not be repeated (see `go_on`), and `GoalportError` after `close` for a process that has
        not begun.
        """
        if process.status is ProcessStatus.NOT_STARTED:
            self._refuse_if_closed()
        if process.progress.interrupted:
            raise BadInput(f"Process {process.id} has to be told whether what was interrupted begins again.")

        def go_on() -> None:
            if process.idle and self._repository.may_run(process):
                for value in objects:
                    process.blackboard.add(value)
                self.begin(process)

        process.on_loop(lambda: self._after_claim(process, go_on))

    def _after_claim(self, process: AgentProcess, change: Callable[[], None]) -> None:
        """Change a process as soon as this program has its lease, or knows that another program has it."""
        if self._repository.may_run(process):
            change()
        else:
            process.in_background(self._repository.claim_for(process, process.expect(change)))

    def _let_go_on(self, process: AgentProcess) -> None:
        """Continue a process that need not wait any more; one that runs step by step is ready for the next step."""
        if not process.stepped and self.drives:
            self.resume(process)
        elif process.status is ProcessStatus.WAITING and process.idle:
            process.reopen()

    async def step(self, process: AgentProcess, /) -> None:
        self._refuse_if_closed()
        await asyncio.wait([self.begin(process, stepped=True)])  # a step goes on when the wait is cancelled

    def begin(self, process: AgentProcess, *, stepped: bool = False) -> asyncio.Task[None]:
        """Run a process from now on in a task of the running event loop; with `stepped` it takes one step only."""
        if not process.idle:
            raise GoalportError(
                f"Expected a process that nobody drives and that may go on: {process.id} is {process.status}."
            )
        if process.status is not ProcessStatus.NOT_STARTED:
            process.reopen()
        process.driven, process.stepped = True, stepped

        def forget(task: asyncio.Task[None]) -> None:
            del self._running[task]
            process.release_frames()

        task = process.in_background(self._run(process, stepped=stepped), forget)
        self._running[task] = process
        self._repository.keep_in_memory(process)
        self._replicas.start()
        if process.parent is not None:
            process.parent.follow_children()
        return task

    async def _run(self, process: AgentProcess, *, stepped: bool = False) -> None:
        if not await self._enter(process):
            return
        if self._replicas.engine_decides(process):
            await self._replicas.hand_over(process)
            return
        has_turns = process.options.turns
        if has_turns and not await self._begin_turn(process):
            await (self._repository.release(process) if process.remote else self._save(process))
            return
        if self._durable:
            process.withholds_outcome, process.withholds_final = True, self._repository.is_stored(process)
        try:
            await drive(process, stepped=stepped)
        finally:
            if has_turns and not process.remote:
                try:
                    await retried(process, lambda: self.turns.after_run(process))
                except Exception as error:
                    unexpected = None if isinstance(error, GoalportError) else error
                    _log.warning("What process %s has said was not kept: %s", process.id, error, exc_info=unexpected)
            if process.remote:
                await self._repository.release(process)
            elif process.outcome is not None and not process.driven:
                self._continue_others(process)
                await self._save(process)
            elif stepped and self._repository.is_stored(process):
                await self._repository.save(process)
            process.publish_outcome()

    async def _begin_turn(self, process: AgentProcess) -> bool:
        """Prepare a turn of a process. Returns False if it does not run: it is stuck, or another program has it.

        A request to end the process or its turn does not wait for this: the run ends as soon as it has begun.
        """
        try:
            with CancelScope() as process.cancel_scope:
                if process.end_requested is None:
                    await retried(process, lambda: self.turns.before_run(process))
        except Exception as error:
            expected = isinstance(error, GoalportError)
            if not expected:
                _log.exception("The turn of process %s did not begin.", process.id)
            if process.end_requested is None and not process.remote:
                words = error if expected else process.words_for(error)
                process.settle(Stuck(f"It cannot go on. {words}", turn_failed=True))
                return False
        finally:
            process.cancel_scope = None
        if process.remote:
            process.release()
        return not process.remote

    async def _enter(self, process: AgentProcess) -> bool:
        """Prepare a process that begins to run, and the store for it. Returns False if it cannot run here.

        The process fails if the store cannot be reached, or its context cannot be read.
        """
        wants_more, has_context = process.options.context_id or process.options.prune, False
        try:
            if wants_more and process.status is ProcessStatus.NOT_STARTED and not self._repository.is_stored(process):
                await begin_with_context(process, self.contexts)
            has_context = True
            entered = await self._repository.enter(process)
        except Exception as error:
            is_away = isinstance(error, StoreError)
            if has_context and not is_away:
                raise
            if is_away or not isinstance(error, GoalportError):
                level, trace = (WARNING, None) if is_away else (ERROR, error)
                _log.log(level, "Process %s did not begin: %s", process.id, error, exc_info=trace)
            words = (
                f"Try again later. {error.client_message}"
                if isinstance(error, StoreError)
                else process.words_for(error)
            )
            process.settle(Failed(f"It did not begin. {words}", not_begun=is_away))
            self._continue_others(process)
            if has_context:  # nothing has been done yet, and nobody would know of it later
                self._repository.drop(process)
            else:
                await self._save(process)
            return False
        if not entered or process.over:
            process.release()
            entered = False
        process.notify_waiters()
        return entered

    async def _continue_family(self, root: AgentProcess) -> None:
        """Go on with a family that nobody ran, or whose time to wake has come; this program has its lease."""
        family = root.family
        for each in family:
            if any(question.expired for question in each.questions):
                self._expire(each)
        early = [each for each in family if (left := _seconds_left(each)) is not None and left < _MOST_SKEW]
        if not self._continue_ready(family) and early:  # the clock of the store is ahead of this one
            for each in early:
                self._set_timer(each)
        else:
            await self._repository.save(root)

    def _continue_ready(self, family: Sequence[AgentProcess]) -> bool:
        """Continue the processes that a program left in the middle of their work. Returns whether there are any.

        Processes that it had been asked to end, and had not ended yet, end now.
        """
        for each in family:
            each.end_as_requested()
        interrupted, ready = _interrupted_in(family), _ready_in(family)
        for each in ready:
            if interrupted:
                told = "; ".join(interrupted)
                _log.warning("Process %s is stuck: the program had ended in the middle of %s.", each.id, told)
                each.settle(
                    Stuck(
                        f"The program ended in the middle of an action that may not be repeated: {told}. Look at what"
                        f" it has done, then run `goalport resume {each.id}` with `--retry` or `--skip`."
                    )
                )
            else:
                self.begin(each)
        return bool(ready)

    def _continue_others(self, process: AgentProcess) -> None:
        """Continue the parent of a process that has ended, or update the parent of one that waits now."""
        if process.parent is not None:
            process.parent.follow_children()
        if process.status is ProcessStatus.WAITING:
            if not self._repository.is_stored(process) or not self._durable:
                self._set_timer(process)
        elif process.parent is not None and process.parent.progress.unpark(process):
            self._let_go_on(process.parent)

    async def _save(self, process: AgentProcess) -> None:
        try:
            await self._repository.save(process)
        finally:
            process.publish_outcome()
        store = self._repository.store
        for overflow in await store.overflow() if process.status is ProcessStatus.WAITING else ():
            longest = await self._repository.find(overflow)
            if longest is not None:
                longest.terminate(f"More than {store.max_waiting:,} processes wait, and it had waited longest.")

    def _set_timer(self, process: AgentProcess) -> None:
        """Set a timer that declines the next question of a process when it expires."""
        self._timed.add(process)
        if (left := _seconds_left(process)) is not None:
            asyncio.get_running_loop().call_later(max(left, 0), self._expire, process)

    def _expire(self, process: AgentProcess) -> None:
        """Decline the questions that have expired, as soon as this program has the process, and let it go on."""

        def expire() -> None:
            for question in process.questions.open if self._repository.may_run(process) else ():
                if question.expired:
                    decline(process, question, "Nobody answered in time.", "expired")
            self._let_go_on(process)

        self._after_claim(process, expire)

    # What ends.

    def ended_idle(self, process: AgentProcess, /) -> None:
        if self._durable:
            process.withholds_outcome = process.withholds_final = True
        if self._repository.may_run(process):
            self._continue_others(process)
            process.in_background(self._save(process))
        else:
            # Callers that wait for the parent wait until the parent knows of this end.
            told = (process.parent or process).expect(lambda: None)
            process.in_background(self._end_idle(process, told))

    async def _end_idle(self, process: AgentProcess, told: Callable[[], None]) -> None:
        """Complete the end of a process that was ended here, while another program may have its lease."""
        wanted = process.end_requested
        assert isinstance(wanted, Killed | Terminated)

        async def taken() -> bool:
            return await self._repository.claim(process) or not await self._replicas.send(process, _end_command(wanted))

        try:
            try:
                mine = await retried(process, taken)
                if mine and process.over:
                    self._continue_others(process)
            finally:
                told()
            if mine and process.over:
                await self._save(process)
        finally:
            process.publish_outcome()
        if mine and not process.over:  # it was restored from a newer state in the store
            process.end(wanted)

    async def kill_unreadable(self, process_id: str, reason: str) -> None:
        """End a process that today's classes cannot read, and its family, whoever runs it. Raises `StoreError`."""
        kill = partial(kill_unreadable, self._repository.store, process_id, reason)
        if not await kill():
            await self._replicas.send_to(process_id, _end_command(Killed(reason)), kill)

    async def erase(self, process_id: str, reason: str) -> None:
        """End a process that a caller started, with its family, and drop all that is stored of them, for good.

        Nothing happens if there is none of that id. Raises `StoreError`.
        """
        if self._repository.live(process_id):
            with suppress(UnknownName, Unreadable):
                process = await self.find(process_id)
                process.kill(reason)
                await process.rest()
        erased = partial(self._repository.erase, process_id)
        while not await erased() and await self._replicas.send_to(process_id, _end_command(Killed(reason)), erased):
            pass  # the program that ran it has ended it, and gives its lease back next

    # Answers and new objects.

    async def answer(self, process: AgentProcess, question_id: str | None, response: object, declined: str) -> None:
        """Settle a question of a process, or of one that it started, and continue the processes that waited for it.

        The answer is stored when this returns. Raises what `AgentPlatform.answer` says, and `StoreError`.
        """
        had = self._repository.may_run(process)
        if not await self._repository.claim(process):
            codec = self.codec(process.id)
            try:  # the response is encrypted if there is a key, as it may be a password
                given = codec.encode(Sealed(response))
            except Unstorable:
                given = codec.encode(response)
            command = {"do": "answer", "question": question_id, "response": given, "declined": declined}
            if await self._replicas.send(process, command):
                return
        if not had and self.drives:
            self._continue_ready(process.family)
        try:
            asker, question = find_question(process, question_id)
            if question.expired:
                self._expire(asker)
            settle(asker, question, response, declined)
        except GoalportError:
            await self._repository.release(process)
            raise
        await self._store_and_continue(asker)

    async def tell(
        self, process: AgentProcess, objects: Sequence[object], caller: Caller | None = None, token: str = ""
    ) -> None:
        """Begin a turn of a process with more objects, as soon as it rests; they are stored when this returns.

        `token` identifies the objects: they are added once, even if two programs try while one takes over the process.
        Raises `BadInput` if the process has ended for good, or an action of it was interrupted; `Unstorable` and
        `StoreError`.
        """
        token = token or uuid4().hex
        if process.status is ProcessStatus.NOT_STARTED and process.idle and not self._repository.is_stored(process):
            process.begin_turn(objects, caller, token)
            self.begin(process)
            await self._repository.when_stored(process)
            return
        while True:
            had = self._repository.may_run(process)
            if not await self._repository.claim(process):
                codec = self.codec(process.id)
                written, by = [codec.encode(each) for each in objects], codec.encode(caller)
                if await self._replicas.send(process, {"do": "tell", "objects": written, "caller": by, "token": token}):
                    return
                had = False  # its program is gone, and this one has it now
            if not had and self.drives and self._continue_ready(process.family):
                continue  # a program had ended in the middle of its turn
            if not process.active:
                break
            await process.rest()
        refusal = ""
        if process.over:
            refusal = f"Process {process.id} has ended: {process.status}. Nothing more can be told."
        elif process.progress.interrupted:
            refusal = (
                f"Process {process.id} was interrupted in an action that may not be repeated. Look at what it has done,"
                f" then run `goalport resume {process.id}` with `--retry` or `--skip`."
            )
        if refusal or not process.begin_turn(objects, caller, token):
            await self._repository.release(process)
            if refusal:
                raise BadInput(refusal)
            return
        await self._store_and_continue(process)

    async def _store_and_continue(self, process: AgentProcess) -> None:
        """Continue a process once its new answer or objects are stored. Raises `StoreError` if that takes too long."""
        if not self._repository.is_stored(process):
            self._let_go_on(process)
            return
        # While something is expected of the process, this program keeps its family.
        go_on = process.expect(lambda: self._let_go_on(process) if self.drives else None)

        async def store() -> None:
            try:
                if process.idle:
                    process.reopen()
                await self._repository.checkpoint(process)
            finally:
                go_on()
            if not self.drives:
                await self._repository.release(process)

        storing = process.in_background(store())
        if not (await asyncio.wait([storing], timeout=_STORE_SECONDS))[0]:
            told = f"What the process was told could not be stored within {_STORE_SECONDS:g} s."
            look = (
                "It is kept in memory, and stored as soon as that works. Look at the process before you send it again."
            )
            raise StoreError("of processes", told, look, unknown=True)
        await storing

    async def recover(self, process: AgentProcess) -> None:
        """Go on with a process whose program ended in the middle of its work; not if another program runs it.

        Programs that take over processes do this by themselves, after a while. Raises `StoreError`, `Unreadable`.
        """
        if self._repository.may_run(process) or not self.drives:
            return
        if await self._repository.claim(process) and not self._continue_ready(process.family):
            await self._repository.release(process)

    async def go_on(self, process: AgentProcess, *, retry: bool) -> None:
        """Go on with a family in which actions were interrupted that may not be repeated.

        `retry`: they begin again; otherwise they are left out. Raises `BadInput` if none was interrupted.
        """
        held = await self._repository.claim(process)
        if not held and await self._replicas.send(process, {"do": "go on", "retry": retry}):
            return
        family = process.family
        if not any(each.driven for each in family):
            _interrupted_in(family)  # no program may have looked since the one that ran it ended
        if not any(each.progress.interrupted for each in family):
            await self._repository.release(process)
            raise BadInput(f"Process {process.id} is {process.status}: no action of it was interrupted.")
        for progress in (each.progress for each in family):
            for action in progress.interrupted:
                if retry:
                    progress.journals[action].running = False
                else:
                    progress.end(action, f"{action} was interrupted, and the process goes on without it.")
                    progress.left_out[action] = f"{action} was interrupted, and somebody decided to go on without it."
            progress.interrupted = frozenset()
        ready = [each for each in family if each.status is ProcessStatus.STUCK and each.idle] + _ready_in(family)
        for each in ready:
            self.begin(each) if self.drives else each.reopen()
        if not self.drives:
            await self._repository.save(process)

    async def stop_turn(self, process: AgentProcess, reason: str) -> None:
        """Stop the turn of a process, in any program; nothing happens if no program runs it. Raises `StoreError`."""
        if process.driven or await self._repository.claim(process):
            process.stop_turn(reason)
            await self._repository.release(process)
        else:
            await self._replicas.send(process, {"do": "stop turn", "reason": reason})

    async def _execute(self, process_id: str, command: Command) -> None:
        """Carry out a command of another program. Raises the error that refuses it."""
        process, codec = await self.find(process_id), self.codec(process_id)
        match command:
            case {"do": "answer", "question": str() | None as question, "declined": str(declined)}:
                await self.answer(process, question, codec.decode(command["response"]), declined)
            case {"do": "end", "kill": bool(kill), "reason": str(reason)}:
                process.end(Killed(reason) if kill else Terminated(reason))
                with anyio.move_on_after(_END_SECONDS):
                    await process.rest()
            case {"do": "go on", "retry": bool(retry)}:
                await self.go_on(process, retry=retry)
            case {"do": "tell", "caller": caller, "token": str(token)}:
                told = [codec.decode(each) for each in cast("list[Json]", command["objects"])]
                await self.tell(process, told, cast("Caller | None", codec.decode(caller)), token)
            case {"do": "stop turn", "reason": str(reason)}:
                process.stop_turn(reason)
            case _:
                raise BadInput(f"Process {process_id} runs in a program that does not know this command.")


def _end_command(wanted: Killed | Terminated) -> Command:
    """The command to end a process."""
    return {"do": "end", "kill": isinstance(wanted, Killed), "reason": wanted.reason}


def _seconds_left(process: AgentProcess) -> float | None:
    """The seconds until the next of its open questions expires; None: none expires."""
    times = [each.expires_at.timestamp() for each in process.questions.open if each.expires_at is not None]
    return min(times) - time.time() if times else None


def _interrupted_in(family: Sequence[AgentProcess]) -> list[str]:
    """The actions, each with its process, that were interrupted by the end of a program and may not be repeated."""
    for process in family:
        if process.outcome is None and not process.driven:
            for action, journal in process.progress.journals.items():
                if journal.running and not process.scope.actions[action].settings.repeatable:
                    process.progress.interrupted |= {action}
    return [f"{action} of process {each.id}" for each in family for action in sorted(each.progress.interrupted)]


def _ready_in(family: Sequence[AgentProcess]) -> list[AgentProcess]:
    """The processes of a family that nobody runs and that can go on by themselves."""
    for each in family:
        if each.parent is not None and each.status.ended:
            each.parent.progress.unpark(each)
    return [
        each for each in family if each.outcome is None and each.idle and not each.stepped and not each.progress.parked
    ]
