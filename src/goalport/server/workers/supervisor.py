"""The supervisor: it accepts connections for its workers, starts another when one ends, and passes signals on.

A listening socket that the workers share would be less work, but Linux wakes the same process again and again: of 16
connections that stay open, 15 went to one of two workers. A socket for each (SO_REUSEPORT) spreads them by chance, and
loses those that a worker which dies had not accepted yet. So the supervisor accepts, and hands each connection to the
worker that has its session, or else the fewest. It loads no workspace, so nothing that agents do can end it.
"""

import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Generator, Sequence, Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import Final

import anyio
from anyio.abc import TaskGroup

from goalport.base.cores import usable_cores
from goalport.base.errors import SettingsError
from goalport.base.hosts import http_url
from goalport.base.observe import log_to_stderr, tell
from goalport.base.words import counted, listed
from goalport.server.workers.channel import METRICS_VARIABLE, SESSION_HEADER, WorkerPlace, WorkerTable, digest_of
from goalport.server.workers.worker import EARLY_SECONDS, Worker
from goalport.workspace.settings import Settings

_INTERRUPTED: Final = 130
"""The exit code of a program that a second signal ended."""
_KILLED: Final = 128
"""What a shell adds to the number of the signal that killed a program."""
_LONGEST_PAUSE: Final = 30.0
_CLOSE_SECONDS: Final = 20.0
"""How long a worker may take to end beside `shutdown_seconds`: it answers what it killed, and closes connections."""
_GRACE_SECONDS: Final = 1.0
"""How long a worker that is replaced still waits for the first requests on its newest connections."""
_MOST_UNROUTED: Final = 1_000
"""The number of connections whose first headers are waited for at once."""
_WATCH_SECONDS: Final = 1.0
"""How often the supervisor looks for workers that hang."""
_SPARE_ROWS: Final = 2
"""The rows of the table beside those for all workers and their successors."""
_PER_CORE: Final = 8
"""How many workers a core may have: each takes 70 MB, and a second of processor time to start."""
_RETRY_SECONDS: Final = 0.05
"""How long the supervisor waits before it tries again, when no worker can take a connection."""


def check_workers(settings: Settings) -> None:
    """Raise `SettingsError` if a server with these settings cannot have several workers."""
    number = settings.worker_count
    if sys.platform == "win32":
        raise SettingsError(
            f"workers was {number}, but several workers need Linux or macOS. Serve with --workers 1 here."
        )
    if number > (most := _PER_CORE * usable_cores()):
        raise SettingsError(f"workers was {number}, and more than {most} would be in each other's way on this machine.")
    if settings.store == "memory":
        raise SettingsError(
            f'workers was {number} with store = "memory", so each worker would know only the processes that it runs'
            " itself: a client that asks for a result, answers a question or cancels could reach another worker. Set"
            ' store = "sqlite" (GOALPORT_STORE=sqlite), which the workers share, or serve with --workers 1.'
        )


async def supervise(settings: Settings, command: Sequence[str]) -> int:
    """Serve with workers that `command` starts, until SIGTERM or Ctrl-C, and return the exit code.

    Raises `SettingsError` if it cannot listen. If the first worker does not get ready, its exit code is returned.
    """
    log_to_stderr(settings.log_level, settings.log_format, process=True)
    with bind(settings) as listener:
        listener.setblocking(False)
        with _metrics_folder(settings) as folder:
            return await _Supervisor(settings, command, listener, folder).run()


@contextmanager
def _metrics_folder(settings: Settings) -> Generator[str]:
    """A folder for the numbers of the workers, unless the environment names one; empty if nobody reads them."""
    if not settings.metrics:
        yield ""
    elif named := os.environ.get(METRICS_VARIABLE):
        yield named
    else:
        with TemporaryDirectory(prefix="goalport-metrics-", ignore_cleanup_errors=True) as folder:
            yield folder


@dataclass(eq=False)
class _Supervisor:
    settings: Settings
    command: Sequence[str]
    listener: socket.socket
    metrics_folder: str = ""
    workers: list[Worker] = field(default_factory=list[Worker])
    exit_code: int = 0

    def __post_init__(self) -> None:
        self._patience = self.settings.shutdown_seconds + _CLOSE_SECONDS
        self._place = WorkerPlace(
            -1, address_of(self.listener), announces=False, patience=self._patience, metrics_folder=self.metrics_folder
        )
        self._terminal = Terminal()
        self._table = WorkerTable.of(2 * self.settings.worker_count + _SPARE_ROWS)
        self._rows = set(range(len(self._table.rows)))
        """Those that no worker has."""
        self._stopping = anyio.Event()
        self._ending = False
        """Whether a signal has told the server to end."""
        self._accepting = anyio.CancelScope()
        self._replacing = anyio.Lock()
        self._routes = SessionRoutes()
        self._unrouted = 0
        """How many connections have been accepted and not been handed over yet."""
        self._services: TaskGroup
        self._keepers: TaskGroup

    async def run(self) -> int:
        """Serve until a signal, or until a worker cannot be started and there is no other."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, *reload_signals()) as signals:
            async with anyio.create_task_group() as self._services:
                self._services.start_soon(self._obey, signals)
                self._services.start_soon(self._hand_over)
                self._services.start_soon(self._watch)
                async with anyio.create_task_group() as self._keepers:
                    await self._start_all()
                self._services.cancel_scope.cancel()
        return self.exit_code

    async def _start_all(self) -> None:
        """Start the first worker alone: it makes what all share, such as keys and tables, and finds what is wrong."""
        first = await self._start(announces=True)
        if first:
            self._keepers.start_soon(self._keep, first)
        if first and first.is_serving:
            async with anyio.create_task_group() as starting:
                for _ in range(self.settings.worker_count - 1):
                    starting.start_soon(self._start_and_keep)
            if not self._stopping.is_set():
                ready = [str(each.process.pid) for each in self.workers if each.is_serving]
                tell(f"  {counted(len(ready), 'worker')} ready: processes {listed(ready)}")

    async def _start_and_keep(self) -> None:
        if worker := await self._start():
            self._keepers.start_soon(self._keep, worker)

    async def _start(self, *, announces: bool = False, known: AbstractSet[bytes] | None = None) -> Worker | None:
        """Start a worker, and wait until it is ready or has ended. None: the server ends before that is possible."""
        while not self._stopping.is_set():
            row = self._rows.pop()
            place = replace(self._place, announces=announces, row=row)
            try:
                worker = await Worker.started(
                    self.command, place, self._table, lambda by, session: self._routes.note(session, by), known
                )
            except OSError as error:  # the machine has no memory or no process ids left
                tell(
                    f"error: No worker can be started ({error.strerror}); the next attempt is in {_LONGEST_PAUSE:g} s."
                )
                self._rows.add(row)
                await self._sleep(_LONGEST_PAUSE)
                continue
            self.workers.append(worker)
            self._services.start_soon(self._follow, worker, row)
            if self.exit_code == _INTERRUPTED:  # it was still being made when a second signal ended the others
                worker.kill()
            elif self._stopping.is_set():
                worker.end()
            await worker.settled.wait()
            return worker
        return None

    async def _follow(self, worker: Worker, row: int) -> None:
        """Listen to a worker until it has ended; what was counted stays, what was open and connected does not."""
        await worker.follow()
        self._rows.add(row)
        if self.metrics_folder:
            from prometheus_client.multiprocess import mark_process_dead  # pyright: ignore[reportUnknownVariableType]

            mark_process_dead(worker.process.pid, self.metrics_folder)

    async def _keep(self, worker: Worker) -> None:
        """Start another worker whenever this one ends by itself."""
        early = 0
        while True:
            await worker.ended.wait()
            self.workers.remove(worker)
            if worker.retired:
                return
            if worker.ready_at is None and not self.workers:
                self._fail(worker)
                return
            early = early + 1 if worker.ended_early else 0
            await self._pause(worker, early)
            another = await self._start()
            if another is None:
                return
            worker = another

    async def _pause(self, worker: Worker, early: int) -> None:
        """Say that a worker ended, and wait before the next one, the longer the more often it ended early."""
        seconds = 0.0 if early <= 1 else min(_LONGEST_PAUSE, 2.0 ** (early - 2))
        then = f"another one starts in {seconds:g} s" if seconds else "another one starts"
        often = (
            f" That is {early} times in a row within {EARLY_SECONDS:g} s of its start; what it wrote above may say why."
        )
        tell(f"error: {worker.end_in_words}; {then}.{often if early > 1 else ''}")
        await self._sleep(seconds)

    async def _sleep(self, seconds: float) -> None:
        """Wait so long, or until the server ends."""
        with anyio.move_on_after(seconds):
            await self._stopping.wait()

    def _fail(self, worker: Worker) -> None:
        """End with the exit code of a worker that did not get ready, and has said why unless it was killed."""
        code = worker.process.returncode or 0
        if code < 0:
            tell(f"error: {worker.end_in_words} before it was ready.")
        self.exit_code = code if code >= 0 else _KILLED - code
        self._stop()

    async def _hand_over(self) -> None:
        """Accept connections and hand them to workers. They wait while there is none."""
        with self._accepting:
            async with anyio.create_task_group() as routing:
                while True:
                    await anyio.wait_readable(self.listener)
                    await self._until(lambda: any(each.is_serving for each in self.workers))
                    try:
                        connection, _ = self.listener.accept()
                    except OSError:  # the client has left, or descriptors run short
                        await anyio.sleep(_RETRY_SECONDS)
                        continue
                    connection.setblocking(False)
                    if not self._taken_at_once(connection):
                        routing.start_soon(self._route, connection)

    def _taken_at_once(self, connection: socket.socket) -> bool:
        """Hand a connection over whose first headers are there already, as is common."""
        try:
            taken = self._take(connection, session_at_hand(connection))
        except BlockingIOError:
            return False
        if taken:
            connection.close()
        return taken

    async def _watch(self) -> None:
        """Say which workers hang, and which of them go on."""
        hanging = set[Worker]()
        while True:
            await anyio.sleep(_WATCH_SECONDS)
            now = {each for each in self.workers if each.is_serving and each.hangs}
            some_respond = any(each.is_serving and not each.hangs for each in self.workers)
            then = "new connections go to the others" if some_respond else "no other does either, so requests wait"
            for each in now - hanging:
                tell(f"error: Worker {each.process.pid} does not respond; {then}.")
            for each in hanging - now:
                if each.is_serving:
                    tell(f"  Worker {each.process.pid} responds again.")
            hanging = now

    async def _route(self, connection: socket.socket) -> None:
        """Hand a connection to the worker that has its session, or else to the one that has the fewest."""
        self._unrouted += 1
        try:
            with connection:
                session = await first_session_of(connection) if self._unrouted < _MOST_UNROUTED else None
                await self._until(lambda: self._take(connection, session))
        finally:
            self._unrouted -= 1

    def _take(self, connection: socket.socket, session: bytes | None) -> bool:
        owner = self._routes.worker_of(session)
        if owner and not owner.hangs:
            return owner.take(connection)
        serving = (each for each in self.workers if each.is_serving)
        for each in sorted(serving, key=lambda each: (each.hangs, each is not owner, each.connections)):
            if each.take(connection):
                if session:
                    self._routes.note(session, each)
                return True
        return False

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():  # noqa: ASYNC110 - rare, and what it waits for has no event: room in a channel
            await anyio.sleep(_RETRY_SECONDS)

    async def _obey(self, signals: AsyncIterator[signal.Signals]) -> None:
        async def stop(seconds: float) -> None:
            """Have no worker be ready for so long, while connections are still accepted; then stop."""
            if seconds:
                tell(DRAINING.format(seconds))
                for each in self._table.rows:
                    each.drain()
                await anyio.sleep(seconds)
            self._stop()

        async for number in signals:
            replaces = number is signal.SIGHUP and not self._terminal.is_closed
            if replaces:
                if not self._ending:
                    self._keepers.start_soon(self._replace)
            elif not self._ending:
                self._ending = True
                self._services.start_soon(stop, self.settings.drain_seconds * (number is signal.SIGTERM))
            else:
                self._stop()
                tell("Ended at once by a second signal.")
                self.exit_code = _INTERRUPTED
                for each in self.workers:
                    each.kill()

    def _stop(self) -> None:
        """Accept no more connections, and let every worker shut down."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._accepting.cancel()
        self.listener.close()
        for each in self.workers:
            self._services.start_soon(self._end, each)

    async def _end(self, worker: Worker) -> None:
        """Let a worker shut down, and kill it if it takes too long."""
        worker.end()
        with anyio.move_on_after(self._patience):
            await worker.ended.wait()
            return
        tell(f"error: Worker {worker.process.pid} did not shut down within {self._patience:g} s, so it is killed.")
        worker.kill()

    async def _replace(self) -> None:
        """Replace the workers one after the other.

        If a new one does not get ready, or cannot load what the earlier ones have loaded, those stay.
        """
        async with self._replacing:
            serving = [each for each in self.workers if each.is_serving]
            known = {problem for each in serving for problem in each.problems}
            for number, old in enumerate(serving):
                new = await self._start(announces=number == 0, known=known)
                if new is None:
                    return
                if new.new_problems:
                    self.workers.remove(new)
                    await self._end(new)
                    what = counted(len(new.new_problems), "load problem")
                    tell(f"error: Worker {new.process.pid} had {what} that the earlier workers had not; they go on.")
                    return
                if new.ended.is_set():
                    self.workers.remove(new)
                    if not self._stopping.is_set():
                        tell(f"error: {new.end_in_words} before it was ready; the earlier workers go on.")
                    return
                self._keepers.start_soon(self._keep, new)
                if old.ended.is_set():  # and another one has replaced it
                    await self._end(new)
                    continue
                old.retire()
                await anyio.sleep(_GRACE_SECONDS)
                await self._end(old)
            if not self._stopping.is_set():
                tell("  The workers are replaced.")


def reload_signals() -> Sequence[signal.Signals]:
    """The signals that ask for it: none on Windows, and none under `nohup`, which has a program ignore SIGHUP."""
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ()
    return (signal.SIGHUP,)


class Terminal:
    """The terminal that this program has when it starts, if it has one."""

    def __init__(self) -> None:
        self._was_there = _is_there()

    @property
    def is_closed(self) -> bool:
        """Whether it was there and is not any more: then SIGHUP says so, and asks for nothing else."""
        return self._was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open(os.ctermid(), os.O_RDWR))
    except OSError:
        return False
    return True


DRAINING: Final = "Not ready any more; connections are refused in {:g} s (drain_seconds). A second signal ends at once."

_OPEN: Final = (
    "The host is {!r}, so other machines could call this server, and nobody would be authenticated. Make a key for each"
    " who is to call it: goalport keys new NAME. Or, where everybody who reaches it may do everything, say so:"
    " --insecure-no-auth (GOALPORT_AUTH__INSECURE_NO_AUTH=true, or insecure_no_auth = true under [auth] in"
    " server/settings.toml)."
)


def bind(settings: Settings) -> socket.socket:
    """A socket that listens on the host and port of the settings.

    Raises `SettingsError` if that is not possible, and if others could call there while nobody is authenticated.
    """
    if settings.open_to_others and not settings.auth.insecure_no_auth:
        raise SettingsError(_OPEN.format(settings.host))
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


_HEADER: Final = re.compile(rb"\r\n" + SESSION_HEADER + rb":[ \t]*([!-~]+)[ \t]*\r\n", re.IGNORECASE)
_MOST_BYTES: Final = 16_384
"""The number of bytes of a connection in which headers are looked for."""
_SECONDS: Final = 1.0
"""How long the first headers of a connection are waited for."""
_PIECE_SECONDS: Final = 0.01
"""How long the rest of incomplete headers is waited for at a time."""
_MOST: Final = 100_000
"""The number of sessions that are remembered; the one that was used longest ago is forgotten first."""


class SessionRoutes:
    """The workers that have sessions, by the digests of their ids."""

    def __init__(self) -> None:
        self._workers: dict[bytes, Worker] = {}

    def note(self, session: bytes, worker: Worker) -> None:
        """From now on, this worker has the session."""
        self._workers.pop(session, None)
        self._workers[session] = worker
        if len(self._workers) > _MOST:
            del self._workers[next(iter(self._workers))]

    def worker_of(self, session: bytes | None) -> Worker | None:
        """The worker that has the session, if one that serves has it."""
        worker = self._workers.get(session) if session else None
        return worker if worker and worker.is_serving else None


def session_at_hand(connection: socket.socket) -> bytes | None:
    """The digest of the session that the first request on a connection names; None if it names none.

    Raises `BlockingIOError` as long as its headers have not arrived.
    """
    try:
        seen = connection.recv(_MOST_BYTES, socket.MSG_PEEK)
    except BlockingIOError:
        raise
    except OSError:  # the client has left
        return None
    head, end, _ = seen.partition(b"\r\n\r\n")
    if found := _HEADER.search(head + end):
        return digest_of(found[1])
    if end or not seen or len(seen) == _MOST_BYTES:
        return None
    raise BlockingIOError


async def first_session_of(connection: socket.socket) -> bytes | None:
    """The same, once the headers have arrived; None also if they come late."""
    with anyio.move_on_after(_SECONDS):
        while True:
            await anyio.wait_readable(connection)
            with suppress(BlockingIOError):
                return session_at_hand(connection)
            await anyio.sleep(_PIECE_SECONDS)
    return None
