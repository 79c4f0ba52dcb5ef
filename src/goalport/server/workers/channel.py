"""A worker's end of the socket pair that connects it to its supervisor.

The supervisor sends accepted connections, and the worker says when it is ready and how many connections it has closed.
The pair is also how each learns of the other's death, however sudden. `supervisor` has the other end.
"""

import ctypes
import json
import mmap
import os
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from threading import Thread
from typing import Any, ClassVar, Final, NamedTuple, Self, cast

_HANGS_SECONDS: Final = 5.0
"""A worker that has written nothing for so long does not respond; one that does writes every second."""


class WorkerState(NamedTuple):
    """What is known of a worker that is handed connections."""

    pid: int
    ready: bool
    """Whether it can answer calls."""
    open_calls: int
    responds: bool
    """Whether its event loop has turned lately."""


class WorkerRow(ctypes.Structure):
    """One worker's row."""

    _pid: int
    _ready: int
    _open_calls: int
    _draining: int
    _seen: float
    _fields_: ClassVar = [
        ("_pid", ctypes.c_int64),
        ("_ready", ctypes.c_int64),
        ("_open_calls", ctypes.c_int64),
        ("_draining", ctypes.c_int64),
        ("_seen", ctypes.c_double),
    ]

    def join(self, pid: int) -> None:
        """From now on, the worker with this process id is handed connections; it has just responded."""
        self._seen = time.monotonic()
        self._pid = pid

    def leave(self) -> None:
        """It is not any more."""
        self._pid = 0

    def drain(self) -> None:
        """Its server is about to end: it is not ready, whatever it says."""
        self._draining = 1

    def tell(self, *, ready: bool, open_calls: int) -> None:
        """Note the state of this worker, which responds now."""
        self._ready, self._open_calls, self._seen = int(ready), open_calls, time.monotonic()

    @property
    def state(self) -> WorkerState:
        """What the row says."""
        responds = time.monotonic() - self._seen < _HANGS_SECONDS
        ready = bool(self._ready) and not self._draining
        return WorkerState(self._pid, ready, self._open_calls, responds)


class WorkerTable:
    """The rows of all workers; another process finds them by the descriptor, which it has to inherit."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        memory = mmap.mmap(descriptor, 0)
        self.rows = (WorkerRow * (len(memory) // ctypes.sizeof(WorkerRow))).from_buffer(memory)

    @classmethod
    def of(cls, rows: int) -> Self:
        """An empty table of so many rows."""
        if sys.platform == "linux":
            descriptor = os.memfd_create("goalport-workers")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, rows * ctypes.sizeof(WorkerRow))
        return cls(descriptor)

    @property
    def states(self) -> Sequence[WorkerState]:
        """The states of the workers that are handed connections."""
        return [state for each in self.rows if (state := each.state).pid]


READY: Final = b"r"
"""From a worker: it answers requests from now on."""
CLOSED: Final = b"c"
"""From a worker: one of its connections is closed."""
PROBLEM: Final = b"p"
"""From a worker: it could not load something, and the digest of why follows."""
SESSION: Final = b"s"
"""From a worker: it has opened a session, whose digest follows."""
DIGEST_BYTES: Final = 16
SESSION_HEADER: Final = b"mcp-session-id"
"""The header in which a response names the session that it opens, and a request the one that it belongs to."""
CONNECTION: Final = b"+"
"""To a worker: the byte that a connection comes with."""
METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable in which prometheus_client finds the folder."""
_VARIABLE: Final = "GOALPORT_WORKER_CHANNEL"


@dataclass(frozen=True)
class WorkerPlace:
    """What a supervisor tells a worker that it starts."""

    descriptor: int
    """The worker's end of the channel, as an inherited file descriptor."""
    address: str
    """The URL of the server."""
    announces: bool
    """Whether this worker prints the startup report and the warnings, which are the same in each."""
    patience: float
    """Seconds after which a worker ends whose supervisor is gone, whatever it does then."""

    table: int = -1
    """The table of the workers' states, as an inherited file descriptor."""
    row: int = 0
    """The number of this worker's row in it."""
    metrics_folder: str = ""
    """Where the workers write their numbers, which any of them adds up; empty: nobody reads them."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables in which a worker, and prometheus_client in it, find this."""
        folder = {METRICS_VARIABLE: self.metrics_folder} if self.metrics_folder else {}
        return {_VARIABLE: json.dumps(asdict(self)), **folder}


class WorkerChannel:
    """The channel of this process, which is a worker."""

    def __init__(self, place: WorkerPlace) -> None:
        # Programs that actions start must not hold the channel open.
        os.set_inheritable(place.descriptor, False)
        self.socket = socket.socket(fileno=place.descriptor)
        self.socket.setblocking(False)
        self.address = place.address
        table = WorkerTable(place.table)
        os.close(place.table)
        self._row, self._table = table.rows[place.row], table
        self.announces = place.announces
        Thread(target=_end_without_supervisor, args=(place,), name="supervisor watch", daemon=True).start()

    @classmethod
    def inherited(cls) -> "WorkerChannel | None":
        """The channel that a supervisor gave to this process, if one did; programs started from here do not see it."""
        given = os.environ.pop(_VARIABLE, None)
        return cls(WorkerPlace(**cast("dict[str, Any]", json.loads(given)))) if given else None

    def ready(self, problems: Iterable[str]) -> None:
        """Tell the supervisor that requests are answered from now on, and what could not be loaded."""
        self._send(b"".join(PROBLEM + digest_of(each.encode()) for each in problems) + READY)

    def closed(self, number: int) -> None:
        """Tell the supervisor that so many connections have been closed."""
        self._send(CLOSED * number)

    def tell(self, *, ready: bool, open_calls: int) -> None:
        """Tell all workers and the supervisor the state of this one; once a second, or it counts as hanging."""
        self._row.tell(ready=ready, open_calls=open_calls)

    @property
    def states(self) -> Sequence[WorkerState]:
        """The states of all workers that are handed connections."""
        return self._table.states

    @property
    def speaks(self) -> bool:
        """Whether this is the one worker that says what is the same in each."""
        return next((each.pid for each in self.states), 0) in {0, os.getpid()}

    def opened(self, session: bytes) -> None:
        """Tell the supervisor that this worker has opened a session, so that it gets its other connections too."""
        self._send(SESSION + digest_of(session))

    def connections(self) -> Iterator[socket.socket]:
        """The connections that have arrived; each belongs to the caller."""
        while True:
            try:
                said, descriptors, _, _ = socket.recv_fds(self.socket, 1, 1)
            except (BlockingIOError, ConnectionError):
                return
            if not said:
                return
            yield from (socket.socket(fileno=each) for each in descriptors)

    def _send(self, said: bytes) -> None:
        try:
            self.socket.send(said)
        except OSError:
            return  # the supervisor is gone, of which `_end_without_supervisor` learns


def digest_of(said: bytes) -> bytes:
    """What the supervisor knows a session or a problem by: ids are long, and open the session."""
    return blake2b(said, digest_size=DIGEST_BYTES).digest()


def _end_without_supervisor(place: WorkerPlace) -> None:
    """Wait for the end of the supervisor, then shut this process down: gracefully, and in any case after a while.

    This is a thread, so that it works while modules are loading and while an action blocks the event loop.
    """
    end = select.poll()
    end.register(place.descriptor, 0)  # a hang-up is always reported
    end.poll()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(place.patience)
    os._exit(1)
