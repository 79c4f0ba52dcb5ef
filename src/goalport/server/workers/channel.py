"""A worker's end of the socket pair that connects it to its supervisor, on which each message is a line of JSON.

The worker says when it is ready and, each second, how it is. The supervisor lets it accept connections, tells it how
all workers are, and passes on what one of them tells the others. The pair is also how each learns of the other's death,
however sudden. `supervisor` has the other end.
"""

import asyncio
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from threading import Thread
from typing import Any, Final, NamedTuple

LONGEST_LINE: Final = 16 * 1024 * 1024
"""The bytes of a line at most; one of a client's message may have `max_body_bytes`."""
METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable in which prometheus_client finds the folder."""
_VARIABLE: Final = "GOALPORT_WORKER_CHANNEL"


class WorkerState(NamedTuple):
    """What is known of a worker that accepts connections."""

    pid: int
    ready: bool
    """Whether it can answer calls."""
    open_calls: int
    connections: int
    responds: bool
    """Whether its event loop has turned lately."""


@dataclass(frozen=True)
class WorkerPlace:
    """What a supervisor tells a worker that it starts."""

    channel: int
    """The worker's end of the channel, as an inherited file descriptor."""
    listener: int
    """The listening socket, which all workers share, as an inherited file descriptor."""
    address: str
    """The URL of the server."""
    announces: bool
    """Whether this worker prints the startup report and the warnings, which are the same in each."""
    patience: float
    """Seconds after which a worker ends whose supervisor is gone, whatever it does then."""
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
        # Programs that actions start must not hold them open.
        for each in (place.channel, place.listener):
            os.set_inheritable(each, False)
        self.place = place
        self.listener = socket.socket(fileno=place.listener)
        self.states: Sequence[WorkerState] = ()
        """How the workers are that accept connections."""
        self._socket = socket.socket(fileno=place.channel)
        self._socket.setblocking(False)
        self._writer: asyncio.StreamWriter | None = None
        Thread(target=_end_without_supervisor, args=(place,), name="supervisor watch", daemon=True).start()

    @classmethod
    def inherited(cls) -> "WorkerChannel | None":
        """The channel that a supervisor gave to this process, if one did; programs started from here do not see it."""
        given = os.environ.pop(_VARIABLE, None)
        return cls(WorkerPlace(**json.loads(given))) if given else None

    @property
    def speaks(self) -> bool:
        """Whether this is the one worker that says what is the same in each."""
        return not self.states or self.states[0].pid == os.getpid()

    async def serve(
        self, problems: Iterable[str], accept: Callable[[], None], hear: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Say that this worker is ready and what it could not load, and obey the supervisor until cancelled.

        `accept` is called once it may accept connections, and `hear` with what other workers tell.
        """
        reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=LONGEST_LINE)
        self._send({"problems": [*problems]})
        while line := await reader.readline():
            message: dict[str, Any] = json.loads(line)
            if "workers" in message:
                self.states = [WorkerState(*each) for each in message["workers"]]
            elif "told" in message:
                hear(message["told"])
            else:
                accept()

    def report(self, *, ready: bool, open_calls: int, connections: int) -> None:
        """Say how this worker is; once a second, or it counts as hanging."""
        self._send({"ready": ready, "openCalls": open_calls, "connections": connections})

    def tell_others(self, told: Mapping[str, Any]) -> None:
        """Tell the other workers something, which they `hear`."""
        self._send({"tell": told})

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._writer is not None:
            write_line(self._writer, message)


def write_line(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    """Send a message, unless the other end is gone, or has not read for long."""
    if not writer.is_closing() and writer.transport.get_write_buffer_size() < LONGEST_LINE:
        writer.write(json.dumps(message).encode() + b"\n")


def _end_without_supervisor(place: WorkerPlace) -> None:
    """Wait for the end of the supervisor, then shut this process down: gracefully, and in any case after a while.

    This is a thread, so that it works while modules are loading and while an action blocks the event loop.
    """
    end = select.poll()
    end.register(place.channel, 0)  # a hang-up is always reported
    end.poll()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(place.patience)
    os._exit(1)
