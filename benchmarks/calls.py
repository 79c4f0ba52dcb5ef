"""The tables of calls over HTTP: one-action goals against the same tool elsewhere, and many calls at once.

All servers are up side by side and take turns, so that whatever else the machine does hits each of them. One process
makes the load (`load`), one at a time answers it.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median

from benchmarks.load import Job, Measured
from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS, FASTMCP, ROOT, Server, goalport_serves, started
from benchmarks.wire import ERAS, HANDSHAKE, MODERN

__all__ = ["calls", "crowd", "progress"]

OURS = "goalport"
_TUNED = "SDK tuned"
OTHERS = {
    "SDK as shipped": [sys.executable, "-m", "benchmarks.bare"],
    _TUNED: [sys.executable, "-m", "benchmarks.bare", "--tuned"],
    "FastMCP": [str(FASTMCP), str(BENCHMARKS / "fastmcp_server.py")],
}
AIMS: dict[tuple[str, str, int], str] = {
    (_TUNED, HANDSHAKE, 1): "≥ 0.8",
    (_TUNED, HANDSHAKE, 16): "≥ 0.9",
    (_TUNED, MODERN, 1): "≥ 0.8",
    (_TUNED, MODERN, 16): "≥ 1.0",
    **{("FastMCP", era, connections): "≥ 1.8" for era in ERAS for connections in (1, 16)},
}
"""What the ratio is to reach, by server, era and connections."""
_MEDIANS = (
    "Medians of {rounds} rounds of {seconds:g} s. *ratio*: goalport's calls per second over this server's, median over"
    " the rounds. *CPU*: the server's processor time per call; the load took {client:.0f} µs of its own, on the other"
    " core. goalport keeps its processes in a SQLite file, as it does by default, which it writes after the answer."
)
_SERVERS = (
    "*SDK as shipped*: the MCP SDK's low-level server with a constant tool, on asyncio and h11. *SDK tuned*: the same"
    " with what goalport gives itself: uvloop, httptools, a frozen heap, `json_response`, no access log, no server"
    " header, `get_tool_input_schema`, no tracing middleware. Neither checks arguments or writes a result."
    " *FastMCP*: a typed function, served by its `http_app` as it is."
)

_COLUMNS = ("era", "connections", "server", "calls/s", "p50 ms", "p99 ms", "CPU µs", "ratio", "aim")

Load = Callable[[Job], Measured]


@dataclass(frozen=True)
class _Cell:
    era: str
    connections: int
    progress: bool = False


@dataclass(frozen=True)
class _Length:
    rounds: int
    seconds: float
    warm_up: float


def calls(*, quick: bool = False) -> Table:
    """The table of `tools/call` of a one-action goal against other servers."""
    cells = [_Cell(era, connections) for era in ERAS for connections in (1, 16)]
    rows, note = _compared(cells, _Length(1, 0.1, 0.02) if quick else _Length(7, 0.6, 0.1))
    return Table("calls", "`tools/call` of a one-action goal", _COLUMNS, rows, [note, _SERVERS, *_missing()])


def progress(*, quick: bool = False) -> Table:
    """The table of the same calls when they ask for progress, of which goalport alone has some to tell."""
    cells = [_Cell(era, 16, progress=True) for era in ERAS]
    length = _Length(1, 0.1, 0.02) if quick else _Length(5, 0.6, 0.1)
    rows, note = _compared(cells, length, left_out=(_TUNED,))
    title = "The same, asking for progress"
    said = f"*{_TUNED}* is left out: it answers in one piece, in which no progress can be told."
    return Table("progress", title, _COLUMNS[:-1], [row[:-1] for row in rows], [note, said, *_missing()])


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


def _commands(left_out: Sequence[str]) -> dict[str, list[str]]:
    missing = () if FASTMCP.is_file() else ("FastMCP",)
    commands = {OURS: goalport_serves(BENCHMARKS / "workspace"), **OTHERS}
    return {name: command for name, command in commands.items() if name not in {*left_out, *missing}}


def _missing() -> list[str]:
    return [] if FASTMCP.is_file() else ["FastMCP was left out: `make clients` prepares it."]


def _compared(cells: Sequence[_Cell], length: _Length, left_out: Sequence[str] = ()) -> tuple[list[list[str]], str]:
    """The rows of a table, and what is to be said of them."""
    with ExitStack() as open_ones:
        servers = [open_ones.enter_context(started(name, command)) for name, command in _commands(left_out).items()]
        measured = _in_turn(servers, cells, length, open_ones.enter_context(loading()))
    rows = [_row(measured, cell, server.name) for cell in cells for server in servers]
    client = median(each.client_cpu for each in measured[cells[-1], OURS])
    return rows, _MEDIANS.format(rounds=length.rounds, seconds=length.seconds, client=client)


def _in_turn(
    servers: Sequence[Server], cells: Sequence[_Cell], length: _Length, load: Load
) -> dict[tuple[_Cell, str], list[Measured]]:
    found: dict[tuple[_Cell, str], list[Measured]] = {(cell, each.name): [] for cell in cells for each in servers}
    for turn in range(length.rounds):
        for cell in cells:
            for number in range(len(servers)):
                server = servers[(turn + number) % len(servers)]
                found[cell, server.name].append(_loaded(server, cell, length, load))
    return found


def _loaded(server: Server, cell: _Cell, length: _Length, load: Load) -> Measured:
    job = Job(server.port, server.pid, cell.era, "greet", {"name": "Ada"}, "Hello, Ada!", progress=cell.progress)
    done = load(replace(job, connections=cell.connections, seconds=length.seconds, warm_up=length.warm_up))
    if done.errors or not done.calls:
        raise RuntimeError(f"{server.name} gave {done.errors} wrong answers in {done.calls}, {cell}.")
    return done


def _row(measured: Mapping[tuple[_Cell, str], Sequence[Measured]], cell: _Cell, name: str) -> list[str]:
    own, found = measured[cell, OURS], measured[cell, name]
    ratio = median(ours.throughput / theirs.throughput for ours, theirs in zip(own, found, strict=True))
    cpu = [each.server_cpu for each in found if each.server_cpu is not None]
    return [
        cell.era,
        str(cell.connections),
        name,
        f"{median(each.throughput for each in found):.0f}",
        f"{median(each.p50 for each in found):.2f}",
        f"{median(each.p99 for each in found):.1f}",
        f"{median(cpu):.0f}" if cpu else "",
        "" if name == OURS else f"{ratio:.2f}",
        AIMS.get((name, cell.era, cell.connections), ""),
    ]
