"""The load: keep-alive MCP connections that call one tool again and again, in a process of their own.

`python -m benchmarks.load` reads one job per line from standard input (JSON, the fields of `Job`) and answers each with
one line (the fields of `Measured`). It is written on bare sockets so that it costs far less than any server that it
measures, and it knows nothing of goalport: only the wire. `calls` is above.
"""

import json
import selectors
import statistics
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.wire import Connection, Wire

__all__ = ["Job", "Measured", "measure", "processor_seconds"]

_PATIENCE = 30.0
"""Seconds after which a server that does not answer is given up."""


@dataclass(frozen=True)
class Job:
    """What to do to which server."""

    port: int
    pid: int
    era: str
    """The protocol revision, which decides between sessions and none."""
    tool: str
    arguments: dict[str, Any]
    expect: str
    """What each answer must contain; one that does not is an error."""
    progress: bool = False
    connections: int = 1
    seconds: float = 1.0
    warm_up: float = 0.1
    calls: int = 0
    """When not 0: each connection makes so many calls, however long they take."""
    tokens: Sequence[str] = ("",)
    """The credentials of the callers, of whom each has as many connections as the others; empty: none."""


@dataclass(frozen=True)
class Measured:
    """What came of a job."""

    calls: int
    errors: int
    seconds: float
    p50: float
    """Milliseconds, as all latencies."""
    p99: float
    longest: float
    server_cpu: float | None
    """Microseconds of the server's processor time per call; None where the machine does not tell."""
    client_cpu: float
    """The same of this process: far below the server's, or it is itself what is measured."""

    @property
    def throughput(self) -> float:
        """Calls per second."""
        return self.calls / self.seconds


@dataclass
class _Tally:
    latencies: list[float] = field(default_factory=list[float])
    errors: int = 0


def measure(job: Job) -> Measured:
    """Do one job over fresh connections, and close them."""
    wires = [Wire(job.port, job.era, job.tool, job.arguments, job.progress, token) for token in job.tokens]
    with _connected(wires, job.connections) as connections:
        if job.warm_up:
            _call(connections, replace(job, calls=0), until=time.perf_counter() + job.warm_up)
        cpu, own, began = processor_seconds(job.pid), time.process_time(), time.perf_counter()
        tally = _call(connections, job, until=began + (_PATIENCE if job.calls else job.seconds))
        seconds = time.perf_counter() - began
        own, spent = time.process_time() - own, processor_seconds(job.pid) - cpu
    return _measured(tally, seconds, spent, own)


def _measured(tally: _Tally, seconds: float, server_cpu: float, client_cpu: float) -> Measured:
    times = sorted(1e3 * each for each in tally.latencies) or [0.0]
    count = max(1, len(tally.latencies))
    return Measured(
        calls=len(tally.latencies),
        errors=tally.errors,
        seconds=seconds,
        p50=statistics.median(times),
        p99=times[min(len(times) - 1, int(0.99 * len(times)))],
        longest=times[-1],
        server_cpu=1e6 * server_cpu / count if server_cpu else None,
        client_cpu=1e6 * client_cpu / count,
    )


@contextmanager
def _connected(wires: Sequence[Wire], count: int) -> Generator[list[Connection]]:
    connections = [wires[number % len(wires)].connect() for number in range(count)]
    try:
        yield connections
    finally:
        for each in connections:
            with suppress(OSError):
                each.close()


def _call(connections: Sequence[Connection], job: Job, until: float) -> _Tally:
    """Keep a call open on each connection until the time is over or all calls are made; wait for the last ones."""
    tally, expected, clock = _Tally(), job.expect.encode(), time.perf_counter
    left = dict.fromkeys(connections, job.calls)
    with selectors.DefaultSelector() as selector:
        for each in connections:
            selector.register(each.socket, selectors.EVENT_READ, each)
            each.send()
        waiting = len(connections)
        while waiting:
            ready = selector.select(_PATIENCE)
            if not ready:
                raise TimeoutError(f"Expected answers from port {job.port}, but none came within {_PATIENCE:g} s.")
            for key, _ in ready:
                connection: Connection = key.data
                if not connection.receive():
                    continue
                now = clock()
                tally.latencies.append(now - connection.sent_at)
                tally.errors += not connection.answered(expected)
                left[connection] -= 1
                if now < until and left[connection]:
                    connection.send()
                else:
                    waiting -= 1
    return tally


def processor_seconds(pid: int) -> float:
    """Seconds of processor time that a process and its children have used; 0 where one cannot ask about others."""
    if sys.platform != "linux":
        return 0.0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return _own_cpu(pid) + sum(processor_seconds(int(child)) for child in children)


def _own_cpu(pid: int) -> float:
    # Linux's number for another process's CPU clock (clock_getcpuclockid): nanoseconds, where /proc counts hundredths.
    return time.clock_gettime(((~pid) << 3) | 2)


def main() -> None:
    """Do jobs until the input ends."""
    for line in sys.stdin:
        print(json.dumps(asdict(measure(Job(**json.loads(line))))), flush=True)


if __name__ == "__main__":
    main()
