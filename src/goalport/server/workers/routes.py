"""Which worker has which session, so that all connections of a client with a session come to the same one.

Only the worker that runs a call can receive its cancellation and the client's answer to a question asked during it, and
clients send these over any of their connections. So the supervisor looks at the first headers of a connection before it
hands it over, without taking them out of the socket. A worker says which sessions it opened. If it hangs, another opens
them again, and passes on what it can by the store. `supervisor` is above.
"""

import re
import socket
from contextlib import suppress
from typing import Final

import anyio

from goalport.server.workers.channel import SESSION_HEADER, digest_of
from goalport.server.workers.worker import Worker

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
