"""One worker as its supervisor sees it: a process and the other end of its channel.

It starts, is handed connections, says when it is ready and what it closed, and ends. When to do what is decided in
`supervisor`, above.
"""

import os
import signal
import socket
from collections.abc import Callable, Sequence, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from subprocess import DEVNULL
from typing import Final

import anyio
from anyio.abc import Process

from goalport.server.workers import channel
from goalport.server.workers.channel import CONNECTION, DIGEST_BYTES, WorkerPlace, WorkerRow, WorkerTable

EARLY_SECONDS: Final = 10.0
"""A worker that ends before it is ready, or sooner than this after that, may do so again and again."""
_MOST_HEARD: Final = 65_536


@dataclass(eq=False)
class Worker:
    """A process that serves connections. `follow` must run as long as it does."""

    process: Process
    channel: socket.socket
    row: WorkerRow
    opened: Callable[["Worker", bytes], None]
    """Called with the digest of each session that it opens."""
    retired: bool = False
    """Whether it gets no more connections, because another one replaces it or the server ends."""
    ready_at: float | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set once it is ready or has ended."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    connections: int = 0
    problems: set[bytes] = field(default_factory=set[bytes])
    """The digests of what it could not load."""
    known: AbstractSet[bytes] | None = None
    """The problems that the workers have which it is to replace: with another one it is not handed connections."""
    _told_to_end: bool = False

    @classmethod
    async def started(
        cls,
        command: Sequence[str],
        place: WorkerPlace,
        table: WorkerTable,
        opened: Callable[["Worker", bytes], None],
        known: AbstractSet[bytes] | None = None,
    ) -> "Worker":
        """A new process of this command, which has the row of the table that its place names. Raises `OSError`.

        Its place gets the descriptors of its channel and of the table.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            place = replace(place, descriptor=theirs.fileno(), table=table.descriptor)
            process = await anyio.open_process(
                command,
                stdin=DEVNULL,
                stdout=None,
                stderr=None,
                env=os.environ | place.environment,
                pass_fds=[place.descriptor, place.table],
                start_new_session=True,  # Ctrl-C signals the supervisor alone, which passes it on
            )
        ours.setblocking(False)
        return cls(process, ours, table.rows[place.row], opened, known=known)

    @property
    def is_serving(self) -> bool:
        """Whether it can be handed connections."""
        return self.ready_at is not None and not self.retired and not self.ended.is_set()

    async def follow(self) -> None:
        """Listen to the process until it has ended."""
        with self.channel:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen)
                await self.process.wait()
                tasks.cancel_scope.cancel()
            self.row.leave()
            self.ended.set()
            self.settled.set()

    def take(self, connection: socket.socket) -> bool:
        """Hand it a connection; False if that is not possible now."""
        try:
            socket.send_fds(self.channel, [CONNECTION], [connection.fileno()])
        except OSError:  # it has just ended, or has not taken the last few hundred yet
            return False
        self.connections += 1
        return True

    @property
    def new_problems(self) -> AbstractSet[bytes]:
        """Those that the workers which it is to replace have not."""
        return set[bytes]() if self.known is None else self.problems - self.known

    @property
    def hangs(self) -> bool:
        """Whether its event loop has not turned lately, so that others answer sooner."""
        return not self.row.state.responds

    def retire(self) -> None:
        """Hand it no more connections."""
        self.retired = True
        self.row.leave()

    def end(self) -> None:
        """Tell it to shut down, once only: a second signal would end its calls."""
        self.retire()
        if not self._told_to_end:
            self._told_to_end = True
            self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.retire()
        self._send(signal.SIGKILL)

    @property
    def ended_early(self) -> bool:
        """Whether it ends so soon that the next one may do the same."""
        return self.ready_at is None or anyio.current_time() - self.ready_at < EARLY_SECONDS

    @property
    def end_in_words(self) -> str:
        """How it ended, as the beginning of a sentence."""
        code = self.process.returncode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"Worker {self.process.pid} {how}"

    async def _listen(self) -> None:
        said = b""
        while True:
            await anyio.wait_readable(self.channel)
            try:
                piece = self.channel.recv(_MOST_HEARD)
            except OSError:
                return
            if not piece:
                return
            said = self._heard(said + piece)

    def _heard(self, said: bytes) -> bytes:
        """Note what it said, and return the beginning of what is not complete yet."""
        at = 0
        while at < len(said):
            match said[at : at + 1]:
                case channel.CLOSED:
                    self.connections -= 1
                case channel.READY:
                    if not self.new_problems:
                        self.ready_at = anyio.current_time()
                        if not self.retired:
                            self.row.join(self.process.pid)
                    self.settled.set()
                case kind:  # a session or a problem
                    if len(said) <= at + DIGEST_BYTES:
                        return said[at:]
                    digest = said[at + 1 : at + 1 + DIGEST_BYTES]
                    if kind == channel.PROBLEM:
                        self.problems.add(digest)
                    else:
                        self.opened(self, digest)
                    at += DIGEST_BYTES
            at += 1
        return b""

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
