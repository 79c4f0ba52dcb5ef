"""What the workers of a server say of themselves, in memory that they share, so that each can answer for all.

Each worker has a row. The supervisor writes whose it is, for as long as that worker is handed connections; the worker
writes the rest, and all read. No lock is needed: each value is written at once. `channel` tells a worker its row;
`supervisor` hands no connections to workers that hang, and `site`, above, shows the states.
"""

import ctypes
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple, Self

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
