"""The tables of calls over HTTP: one-action goals against the same tool elsewhere, and many calls at once.

All servers are up side by side and take turns, so that whatever else the machine does hits each of them. One process
makes the load (`load`), one at a time answers it.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median

from benchmarks.load import Job, Measured
from benchmarks.report import Table
from benchmarks.rivals import CONSTANT, FASTMCP_FUNCTION, OURS, SHIPPED, SQLITE, TYPED, serving
from benchmarks.servers import BENCHMARKS, ROOT, Server, goalport_serves, started
from benchmarks.wire import ERAS, HANDSHAKE, MODERN

__all__ = ["OURS", "Cell", "Load", "calls", "crowd", "in_turn", "loaded", "loading", "microseconds", "progress"]

AIMS: Mapping[tuple[str, int], Mapping[str, str]] = {
    (HANDSHAKE, 1): {CONSTANT: "≥ 0.8", TYPED: "≥ 1.3", FASTMCP_FUNCTION: "≥ 1.8"},
    (HANDSHAKE, 16): {CONSTANT: "≥ 0.9", TYPED: "≥ 1.3", FASTMCP_FUNCTION: "≥ 1.8"},
    (MODERN, 1): {CONSTANT: "≥ 0.8", TYPED: "≥ 1.3", FASTMCP_FUNCTION: "≥ 1.8"},
    (MODERN, 16): {CONSTANT: "≥ 1.0", TYPED: "≥ 1.3", FASTMCP_FUNCTION: "≥ 1.8"},
}
"""What the ratio is to reach, by era and connections, and by server."""
_COLUMNS = ("era", "connections", "server", "calls/s", "p50 ms", "p99 ms", "CPU µs", "ratio", "aim")
_GREET = Job(0, 0, "", "greet", {"name": "Ada"}, "Hello, Ada!")

Load = Callable[[Job], Measured]


@dataclass(frozen=True)
class Cell:
    """A call that all servers answer in turn: a row of a table for each of them."""

    labels: tuple[str, ...]
    """What its first columns say."""
    job: Job
    aims: Mapping[str, str]
    """What is to be reached, by the server that goalport is compared with."""


def calls(*, quick: bool = False) -> Table:
    """The table of `tools/call` of a one-action goal against other servers."""
    cells = [
        Cell((era, str(number)), replace(_GREET, era=era, connections=number), aims)
        for (era, number), aims in AIMS.items()
    ]
    names = (OURS, SQLITE, SHIPPED, CONSTANT, TYPED, FASTMCP_FUNCTION)
    rows, notes = _compared(cells, names, rounds=1 if quick else 7, quick=quick)
    return Table("calls", "`tools/call` of a one-action goal", _COLUMNS, rows, notes)


def progress(*, quick: bool = False) -> Table:
    """The table of the same calls when they ask for progress, of which goalport alone has some to tell."""
    jobs = [replace(_GREET, era=era, connections=16, progress=True) for era in ERAS]
    cells = [Cell((job.era, "16"), job, {SHIPPED: "≥ 0.9"}) for job in jobs]
    rows, notes = _compared(cells, (OURS, SHIPPED, FASTMCP_FUNCTION), rounds=1 if quick else 5, quick=quick)
    said = "The tuned servers are left out: they answer in one piece, in which no progress can be told."
    return Table("progress", "The same, asking for progress", _COLUMNS, rows, [*notes, said])


def crowd(*, quick: bool = False) -> Table:
    """The table of many calls at once of a goal that sleeps."""
    many, seconds = (20, 0.1) if quick else (200, 1.0)
    job = Job(0, 0, "", "sleep", {"seconds": seconds}, "Slept", connections=many, warm_up=0, calls=1)
    with started(OURS, goalport_serves(BENCHMARKS / "workspace")) as server, loading() as load:
        load(replace(job, port=server.port, pid=server.pid, era=HANDSHAKE, connections=2))
        found = {era: load(replace(job, port=server.port, pid=server.pid, era=era)) for era in ERAS}
    rows = [
        (era, f"{each.seconds:.2f} s", f"{each.p50:.0f} ms", f"{each.longest:.0f} ms", str(each.errors))
        for era, each in found.items()
    ]
    columns = ("era", "all answered in", "p50", "slowest", "errors")
    return Table("crowd", f"{many} calls at once of a goal that sleeps {seconds:g} s", columns, rows)


@contextmanager
def loading() -> Generator[Load]:
    """The process that makes the load, as a function of a job."""
    command = [sys.executable, "-m", "benchmarks.load"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        writer, reader = process.stdin, process.stdout

        def load(job: Job) -> Measured:
            writer.write(json.dumps(asdict(job)) + "\n")
            writer.flush()
            answer = reader.readline()
            if not answer:
                raise RuntimeError(f"The load ended in the middle of {job}; standard error says why.")
            return Measured(**json.loads(answer))

        yield load
        writer.close()


def in_turn(
    servers: Sequence[Server], cells: Sequence[Cell], rounds: int, load: Load
) -> Mapping[tuple[tuple[str, ...], str], Sequence[Measured]]:
    """What came of each call to each server, round by round, by the labels of the cell and the name of the server."""
    found: dict[tuple[tuple[str, ...], str], list[Measured]] = defaultdict(list)
    for turn in range(rounds):
        for cell in cells:
            for number in range(len(servers)):
                server = servers[(turn + number) % len(servers)]
                found[cell.labels, server.name].append(loaded(server, cell.job, load))
    return found


def loaded(server: Server, job: Job, load: Load) -> Measured:
    """What came of a job done to a server. Raises `RuntimeError` for wrong answers."""
    done = load(replace(job, port=server.port, pid=server.pid))
    if done.errors or not done.calls:
        raise RuntimeError(f"{server.name} gave {done.errors} wrong answers in {done.calls}, {job!r:.500}.")
    return done


def _compared(
    cells: Sequence[Cell], names: Sequence[str], *, rounds: int, quick: bool
) -> tuple[list[list[str]], list[str]]:
    """The rows of a table, and what is to be said of them."""
    seconds, warm_up = (0.1, 0.02) if quick else (0.6, 0.1)
    timed = [replace(cell, job=replace(cell.job, seconds=seconds, warm_up=warm_up)) for cell in cells]
    with serving(names) as rivals, loading() as load:
        measured = in_turn(rivals.servers, timed, rounds, load)
    rows = [_row(measured, cell, server.name) for cell in timed for server in rivals.servers]
    client = median(each.client_cpu for each in measured[cells[-1].labels, OURS])
    note = (
        f"Medians of {rounds} rounds of {seconds:g} s, in which the servers take turns. *ratio*: goalport's calls per"
        " second over this server's, median over the rounds. *CPU*: the server's processor time per call; the load took"
        f" {client:.0f} µs of its own, on the other core."
    )
    return rows, [note, *rivals.notes]


def _row(measured: Mapping[tuple[tuple[str, ...], str], Sequence[Measured]], cell: Cell, name: str) -> list[str]:
    own, found = measured[cell.labels, OURS], measured[cell.labels, name]
    ratio = median(ours.throughput / theirs.throughput for ours, theirs in zip(own, found, strict=True))
    return [
        *cell.labels,
        name,
        f"{median(each.throughput for each in found):.0f}",
        f"{median(each.p50 for each in found):.2f}",
        f"{median(each.p99 for each in found):.1f}",
        microseconds(found),
        "" if name == OURS else f"{ratio:.2f}",
        cell.aims.get(name, ""),
    ]


def microseconds(found: Sequence[Measured]) -> str:
    """The server's processor time per call; nothing where the machine does not tell."""
    cpu = [each.server_cpu for each in found if each.server_cpu is not None]
    return f"{median(cpu):.0f}" if cpu else ""
