"""The supervisor of workers, and its channel to each: it opens the port, and starts, watches and replaces workers.

The workers share the listening socket. All of them are woken for a new connection, and the worker with the fewest
connections accepts it (`site.listener`). So no connection is lost when a worker dies, hangs or is replaced. The
supervisor loads no workspace, so nothing that agents do can end it.

The channel is a socket pair; each message is a line of JSON. A worker reports when it is ready, and its state each
second. The supervisor lets it accept connections, sends it the states of all workers, and forwards messages between
workers. If either process dies, however suddenly, the other one sees the pair close.
"""

import asyncio
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Final, NamedTuple

import anyio
from anyio.abc import Process, TaskGroup

from goalport.base.cores import usable_cores
from goalport.base.errors import SettingsError
from goalport.base.hosts import http_url
from goalport.base.observe import log_to_stderr, print_status
from goalport.base.words import counted, listed
from goalport.workspace.settings import Settings

LONGEST_LINE: Final = 16 * 1024 * 1024
"""The most bytes of a line; a line with a client's message may be as long as `max_body_bytes`."""
METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable in which prometheus_client finds the folder that the workers share."""
_VARIABLE: Final = "GOALPORT_WORKER_CHANNEL"


class WorkerState(NamedTuple):
    """The state of a worker that accepts connections."""

    pid: int
    ready: bool
    """Whether it can answer calls."""
    open_calls: int
    connections: int
    responds: bool
    """Whether it has reported its state lately, so that its event loop is not blocked."""


@dataclass(frozen=True)
class WorkerSetup:
    """What a supervisor passes to a worker that it starts."""

    channel: int
    """The worker's end of the channel, as an inherited file descriptor."""
    listener: int
    """The listening socket, which all workers share, as an inherited file descriptor."""
    address: str
    """The URL of the server."""
    announces: bool
    """Whether this worker prints the startup report and the warnings, which are the same for all workers."""
    patience: float
    """Seconds in which a worker may shut down when its supervisor has died; then it exits at once."""


class WorkerChannel:
    """The channel of this process, which is a worker."""

    def __init__(self, setup: WorkerSetup) -> None:
        # Programs that actions start must not inherit them: they would keep the channel and the port open.
        for each in (setup.channel, setup.listener):
            os.set_inheritable(each, False)
        self.setup = setup
        self.listener = socket.socket(fileno=setup.listener)
        self.states: Sequence[WorkerState] = ()
        """The states of all workers that accept connections, as the supervisor sent them last."""
        self._socket = socket.socket(fileno=setup.channel)
        self._socket.setblocking(False)
        self._writer: asyncio.StreamWriter | None = None

        def end_without_supervisor() -> None:
            # Gracefully at first, then in any case: modules may be loading, or an action may block the event loop.
            end = select.poll()
            end.register(setup.channel, 0)  # a hang-up is always reported
            end.poll()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(setup.patience)
            os._exit(1)

        Thread(target=end_without_supervisor, name="supervisor watch", daemon=True).start()

    @classmethod
    def inherited(cls) -> "WorkerChannel | None":
        """The channel to the supervisor that started this process, or None; its child processes do not see it."""
        given = os.environ.pop(_VARIABLE, None)
        return cls(WorkerSetup(**json.loads(given))) if given else None

    @property
    def is_first(self) -> bool:
        """Whether this is the one worker that logs what all workers have in common."""
        return not self.states or self.states[0].pid == os.getpid()

    async def serve(
        self, problems: Iterable[str], accept: Callable[[], None], on_message: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Report that this worker is ready, with its load problems, and obey the supervisor until cancelled.

        `accept` is called once the worker may accept connections, and `on_message` with each message of another worker.
        """
        reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=LONGEST_LINE)
        self._send({"problems": [*problems]})
        while line := await reader.readline():
            message: dict[str, Any] = json.loads(line)
            if "workers" in message:
                self.states = [WorkerState(*each) for each in message["workers"]]
            elif "broadcast" in message:
                on_message(message["broadcast"])
            else:
                accept()

    def report(self, *, ready: bool, open_calls: int, connections: int) -> None:
        """Report the state of this worker: once a second, or it counts as hanging."""
        self._send({"ready": ready, "openCalls": open_calls, "connections": connections})

    def tell_others(self, message: Mapping[str, Any]) -> None:
        """Send a message to all other workers, which pass it to their `on_message`."""
        self._send({"broadcast": message})

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._writer is not None:
            write_line(self._writer, message)


def write_line(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    """Send a message, unless the other end is gone, or has not read for long."""
    if not writer.is_closing() and writer.transport.get_write_buffer_size() < LONGEST_LINE:
        writer.write(json.dumps(message).encode() + b"\n")


DRAINING: Final = "Not ready any more; connections are refused in {:g} s (drain_seconds). A second signal ends at once."
_INTERRUPTED: Final = 130
"""The exit code of a program that a second signal ended."""
_KILLED: Final = 128
"""What a shell adds to the number of the signal that killed a program."""
_LONGEST_PAUSE: Final = 30.0
_EARLY_SECONDS: Final = 10.0
"""A worker that ends before it accepts connections, or within these seconds after, is restarted with growing pauses."""
_CLOSE_SECONDS: Final = 20.0
"""Seconds that a worker has after `shutdown_seconds`, to answer the calls that it killed and to close connections."""
_WATCH_SECONDS: Final = 0.1
"""Seconds between two looks for workers that hang, and between two updates of the workers on changed states."""
_HANGS_SECONDS: Final = 5.0
"""Seconds without a message after which a worker counts as hanging; workers report every second."""
_PER_CORE: Final = 8
"""The most workers per core: each takes 70 MB, and a second of processor time to start."""


def check_workers(settings: Settings) -> None:
    """Raise `SettingsError` if a server with these settings cannot have several workers."""
    number, most = settings.worker_count, _PER_CORE * usable_cores()
    if sys.platform == "win32":
        problem = f"workers was {number}, but several workers need Linux or macOS. Serve with --workers 1 here."
    elif number > most:
        problem = f"workers was {number}, and more than {most} would be in each other's way on this machine."
    elif settings.store == "memory":
        problem = (
            f'workers was {number} with store = "memory", so each worker would know only the processes that it runs'
            " itself: a client that asks for a result, answers a question or cancels could reach another worker. Set"
            ' store = "sqlite" (GOALPORT_STORE=sqlite), which the workers share, or serve with --workers 1.'
        )
    else:
        return
    raise SettingsError(problem)


def bind(settings: Settings) -> socket.socket:
    """A socket that listens on the host and port of the settings.

    Raises `SettingsError` if it cannot listen, or if other machines could call while nobody is authenticated.
    """
    if settings.open_to_others and not settings.auth.insecure_no_auth:
        raise SettingsError(
            f"The host is {settings.host!r}, so other machines could call this server, and nobody would be"
            " authenticated. Make a key for each who is to call it: goalport keys new NAME. Or, where everybody who"
            " reaches it may do everything, say so: --insecure-no-auth (GOALPORT_AUTH__INSECURE_NO_AUTH=true, or"
            " insecure_no_auth = true under [auth] in server/settings.toml)."
        )
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingsError(
            f"Cannot listen on {settings.host} port {settings.port}: {reason}."
            " Choose another with --port (0 takes a free one) and --host, or stop the program that has it."
        ) from None


def address_of(listener: socket.socket) -> str:
    """The URL of a server on this socket, for a client on this machine."""
    bound: tuple[str, int] = listener.getsockname()[:2]
    return http_url(*bound)


def reload_signals() -> Sequence[signal.Signals]:
    """The signals that ask for a reload: none on Windows, and none under `nohup`, which has programs ignore SIGHUP."""
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ()
    return (signal.SIGHUP,)


def closed_terminal() -> Callable[[], bool]:
    """A function that returns whether this program's terminal was closed since: then SIGHUP asks for no reload."""

    def is_there() -> bool:
        try:
            os.close(os.open(os.ctermid(), os.O_RDWR))
        except OSError:
            return False
        return True

    was_there = is_there()
    return lambda: was_there and not is_there()


async def supervise(settings: Settings, command: Sequence[str]) -> int:
    """Serve with workers that `command` starts, until SIGTERM or Ctrl-C, and return the exit code.

    Raises `SettingsError` if it cannot listen. If the first worker does not get ready, its exit code is returned.
    """
    log_to_stderr(settings.log_level, settings.log_format, process=True)
    with bind(settings) as listener, ExitStack() as stack:
        listener.setblocking(False)
        # A temporary folder for the metrics of the workers, unless the environment names one; empty without metrics.
        folder = os.environ.get(METRICS_VARIABLE, "") if settings.metrics else ""
        if settings.metrics and not folder:
            temporary = TemporaryDirectory(prefix="goalport-metrics-", ignore_cleanup_errors=True)
            folder = stack.enter_context(temporary)
        return await _Supervisor(settings, command, listener, folder).run()


@dataclass(eq=False)
class Worker:
    """A process that serves connections, as its supervisor sees it."""

    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    retired: bool = False
    """Whether it is to accept no more connections, because another one replaces it or the server ends."""
    accepts_since: float | None = None
    ready_or_ended: anyio.Event = field(default_factory=anyio.Event)
    """Set once it is ready or has ended."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    problems: AbstractSet[str] = frozenset()
    """What it could not load."""
    heard_at: float = field(default_factory=anyio.current_time)
    ready: bool = False
    open_calls: int = 0
    connections: int = 0

    @classmethod
    async def started(cls, command: Sequence[str], setup: WorkerSetup, metrics_folder: str) -> "Worker":
        """Start a process of this command, with the worker's end of a new channel. Raises `OSError`."""
        folder = {METRICS_VARIABLE: metrics_folder} if metrics_folder else {}
        ours, theirs = socket.socketpair()
        with theirs:
            setup = replace(setup, channel=theirs.fileno())
            process = await anyio.open_process(
                command,
                stdin=DEVNULL,
                stdout=None,
                stderr=None,
                env={**os.environ, _VARIABLE: json.dumps(asdict(setup)), **folder},
                pass_fds=[setup.channel, setup.listener],
                start_new_session=True,  # Ctrl-C signals the supervisor alone, which passes it on
            )
        ours.setblocking(False)
        return cls(process, *await asyncio.open_connection(sock=ours, limit=LONGEST_LINE))

    @property
    def is_serving(self) -> bool:
        return self.accepts_since is not None and not self.retired and not self.ended.is_set()

    @property
    def state(self) -> WorkerState:
        responds = anyio.current_time() - self.heard_at < _HANGS_SECONDS
        return WorkerState(self.process.pid, self.ready, self.open_calls, self.connections, responds)

    @property
    def end_in_words(self) -> str:
        """How it ended, as the beginning of a sentence."""
        code = self.process.returncode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"Worker {self.process.pid} {how}"

    def send(self, message: Mapping[str, Any]) -> None:
        write_line(self.writer, message)

    def signal(self, number: signal.Signals) -> None:
        self.retired = True
        with suppress(ProcessLookupError):
            self.process.send_signal(number)


class _Supervisor:
    def __init__(
        self, settings: Settings, command: Sequence[str], listener: socket.socket, metrics_folder: str
    ) -> None:
        self._settings, self._command, self._listener = settings, command, listener
        self._metrics_folder = metrics_folder
        self._patience = settings.shutdown_seconds + _CLOSE_SECONDS
        self._setup = WorkerSetup(-1, listener.fileno(), address_of(listener), announces=False, patience=self._patience)
        self._workers: list[Worker] = []
        self._exit_code = 0
        self._terminal_is_closed = closed_terminal()
        self._stopping = anyio.Event()
        self._ending = False
        """Whether a signal has asked the server to shut down."""
        self._draining = False
        """Whether all workers count as not ready, though they still accept connections."""
        self._sent_states = list[WorkerState]()
        self._replacing = anyio.Lock()
        self._services: TaskGroup
        self._keepers: TaskGroup

    async def run(self) -> int:
        """Serve until a signal, or until a worker cannot be started and there is no other."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, *reload_signals()) as signals:
            async with anyio.create_task_group() as self._services:
                self._services.start_soon(self._handle_signals, signals)
                self._services.start_soon(self._watch)
                async with anyio.create_task_group() as self._keepers:
                    # The first worker starts alone: it creates what all share, such as tables, and reports problems.
                    first = await self._start_and_keep(announces=True)
                    if first and first.is_serving:
                        async with anyio.create_task_group() as starting:
                            for _ in range(self._settings.worker_count - 1):
                                starting.start_soon(self._start_and_keep)
                        if not self._stopping.is_set():
                            ready = [str(each.process.pid) for each in self._workers if each.is_serving]
                            print_status(f"  {counted(len(ready), 'worker')} ready: processes {listed(ready)}")
                self._services.cancel_scope.cancel()
        return self._exit_code

    async def _start_and_keep(self, *, announces: bool = False) -> Worker | None:
        worker = await self._start(announces=announces)
        if worker:
            self._keepers.start_soon(self._keep, worker)
        return worker

    async def _start(self, *, announces: bool = False, known: AbstractSet[str] | None = None) -> Worker | None:
        """Start a worker, and wait until it is ready or has ended. None: the server ends before a worker can start.

        If it has a load problem that is not among the `known` ones, it does not accept connections.
        """
        while not self._stopping.is_set():
            try:
                setup = replace(self._setup, announces=announces)
                worker = await Worker.started(self._command, setup, self._metrics_folder)
            except OSError as error:  # the machine has no memory or no process ids left
                seconds = _LONGEST_PAUSE
                print_status(
                    f"error: No worker can be started ({error.strerror}); the next attempt is in {seconds:g} s."
                )
                await self._sleep(seconds)
                continue
            self._workers.append(worker)
            self._services.start_soon(self._read_messages, worker, known)
            if self._stopping.is_set():  # it was still being created when a signal, or a second one, ended the others
                worker.signal(signal.SIGKILL if self._exit_code == _INTERRUPTED else signal.SIGTERM)
            await worker.ready_or_ended.wait()
            return worker
        return None

    async def _read_messages(self, worker: Worker, known: AbstractSet[str] | None) -> None:
        """Read a worker's messages until it has ended. Of its metrics, counters stay, and gauges are removed."""

        async def listen() -> None:
            with suppress(ConnectionError):
                while line := await worker.reader.readline():
                    worker.heard_at = anyio.current_time()
                    self._handle_message(worker, json.loads(line), known)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await worker.process.wait()
            tasks.cancel_scope.cancel()
        worker.writer.close()
        worker.ended.set()
        worker.ready_or_ended.set()
        self._send_states()
        if self._metrics_folder:
            from prometheus_client.multiprocess import mark_process_dead  # pyright: ignore[reportUnknownVariableType]

            mark_process_dead(worker.process.pid, self._metrics_folder)

    def _handle_message(self, worker: Worker, said: Mapping[str, Any], known: AbstractSet[str] | None) -> None:
        """Act on a message of a worker."""
        if "problems" in said:
            worker.problems, worker.ready = frozenset[str](said["problems"]), True
            if known is None or worker.problems <= known:
                worker.accepts_since = anyio.current_time()
                worker.send({"accept": True})
            self._send_states()
            worker.ready_or_ended.set()
        elif "broadcast" in said:
            for each in self._workers:
                if each is not worker:
                    each.send({"broadcast": said["broadcast"]})
        else:
            worker.ready, worker.open_calls = said["ready"], said["openCalls"]
            worker.connections = said["connections"]

    async def _keep(self, worker: Worker) -> None:
        """Start another worker whenever this one ends by itself."""
        early = 0
        while True:
            await worker.ended.wait()
            self._workers.remove(worker)
            if worker.retired:
                return
            some_serve = any(each.is_serving for each in self._workers)
            if worker.accepts_since is None and not some_serve and (early > 1 or not self._workers):
                # The worker has printed why, unless it was killed.
                code = worker.process.returncode or 0
                if code < 0:
                    print_status(f"error: {worker.end_in_words} before it was ready.")
                self._exit_code = code if code >= 0 else _KILLED - code
                self._stop()
                return
            is_early = worker.accepts_since is None or anyio.current_time() - worker.accepts_since < _EARLY_SECONDS
            early = early + 1 if is_early else 0
            seconds = 0.0 if early <= 1 else min(_LONGEST_PAUSE, 2.0 ** (early - 2))
            then = f"another one starts in {seconds:g} s" if seconds else "another one starts"
            often = f"{early} times in a row within {_EARLY_SECONDS:g} s of its start; what it wrote above may say why."
            print_status(f"error: {worker.end_in_words}; {then}.{f' That is {often}' if early > 1 else ''}")
            await self._sleep(seconds)
            another = await self._start()
            if another is None:
                return
            worker = another

    async def _sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until the server ends."""
        with anyio.move_on_after(seconds):
            await self._stopping.wait()

    async def _watch(self) -> None:
        """Print which workers hang and which respond again, and send changed states to all workers."""
        hanging = set[Worker]()
        while True:
            await anyio.sleep(_WATCH_SECONDS)
            serving = [each for each in self._workers if each.is_serving]
            now = {each for each in serving if not each.state.responds}
            all_hang = len(now) == len(serving)
            then = "no other does either, so requests wait" if all_hang else "new connections go to the others"
            for each in now - hanging:
                print_status(f"error: Worker {each.process.pid} does not respond; {then}.")
            for each in hanging - now:
                if each.is_serving:
                    print_status(f"  Worker {each.process.pid} responds again.")
            hanging = now
            self._send_states()

    def _send_states(self) -> None:
        states = [each.state for each in self._workers if each.is_serving]
        if self._draining:
            states = [each._replace(ready=False) for each in states]
        if states != self._sent_states:
            self._sent_states = states
            for each in self._workers:
                each.send({"workers": states})

    async def _handle_signals(self, signals: AsyncIterator[signal.Signals]) -> None:
        async for number in signals:
            if number is signal.SIGHUP and not self._terminal_is_closed():
                if not self._ending:
                    self._keepers.start_soon(self._replace)
            elif not self._ending:
                self._ending = True
                self._services.start_soon(self._drain, self._settings.drain_seconds * (number is signal.SIGTERM))
            else:
                self._stop()
                print_status("Ended at once by a second signal.")
                self._exit_code = _INTERRUPTED
                for each in self._workers:
                    each.signal(signal.SIGKILL)

    async def _drain(self, seconds: float) -> None:
        """Count all workers as not ready for `seconds`, while they still accept connections; then stop."""
        if seconds:
            print_status(DRAINING.format(seconds))
            self._draining = True
            self._send_states()
            await anyio.sleep(seconds)
        self._stop()

    def _stop(self) -> None:
        """Ask every worker to shut down."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._listener.close()
            for each in self._workers:
                self._services.start_soon(self._end, each)

    async def _end(self, worker: Worker) -> None:
        """Ask a worker to shut down, and kill it if it takes too long."""
        if not worker.retired:  # a second signal would end its calls
            worker.signal(signal.SIGTERM)
        with anyio.move_on_after(self._patience):
            await worker.ended.wait()
            return
        print_status(
            f"error: Worker {worker.process.pid} did not shut down within {self._patience:g} s, so it is killed."
        )
        worker.signal(signal.SIGKILL)

    async def _replace(self) -> None:
        """Replace the workers one after the other.

        If a new worker does not get ready, or has load problems that the earlier workers do not have, those stay.
        """
        async with self._replacing:
            serving = [each for each in self._workers if each.is_serving]
            known = frozenset(problem for each in serving for problem in each.problems)
            for number, old in enumerate(serving):
                new = await self._start(announces=number == 0, known=known)
                if new is None:
                    return
                if new.accepts_since is None:
                    self._workers.remove(new)
                    if new.ended.is_set():
                        why = f"{new.end_in_words} before it was ready; the earlier workers go on."
                    else:
                        await self._end(new)
                        what = counted(len(new.problems - known), "load problem")
                        why = f"Worker {new.process.pid} had {what} that the earlier workers had not; they go on."
                    if not self._stopping.is_set():
                        print_status(f"error: {why}")
                    return
                self._keepers.start_soon(self._keep, new)
                await self._end(new if old.ended.is_set() else old)  # `_keep` has replaced one that died meanwhile
            if not self._stopping.is_set():
                print_status("  The workers are replaced.")
