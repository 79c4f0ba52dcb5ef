"""The table of two workers on two cores: the same calls to a server of one process and to one of two.

Both keep their processes in a SQLite file and take turns, so that whatever else the machine does hits each of them.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

from benchmarks.calls import Load, loading
from benchmarks.load import Job, Measured
from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS, Server, goalport_serves, started
from benchmarks.wire import ERAS

__all__ = ["workers"]

_CONNECTIONS = 16
_AIM = "≥ 1.5"
_READY = re.compile(r"2 workers ready")
_CORES = 2
_COLUMNS = ("era", "workers", "calls/s", "p50 ms", "p99 ms", "CPU µs", "load µs", "cores", "ratio", "at most", "aim")


def workers(*, quick: bool = False) -> Table:
    """The table of calls to one process and to two workers."""
    rounds, seconds = (1, 0.1) if quick else (7, 0.8)
    with ExitStack() as open_ones:
        command, store = goalport_serves(BENCHMARKS / "workspace"), {"GOALPORT_STORE": "sqlite"}
        one = open_ones.enter_context(started("one", command, settings=store))
        two = open_ones.enter_context(started("two", [*command, "--workers", "2"], settings=store, until=_READY))
        load = open_ones.enter_context(loading())
        rows = [row for era in ERAS for row in _rows(era, (one, two), load, rounds, seconds)]
    note = (
        f"Medians of {rounds} rounds of {seconds:g} s at {_CONNECTIONS} connections, with processes in a SQLite file."
        " *CPU*: processor time per call of all processes of the server, the supervisor's too. *load*: that of the"
        " program that calls, on the same machine. *cores*: how many of the two cores the server had; the load, and"
        " whatever else the machine did, had the rest. *ratio*: calls per second over those of one process, median over"
        " the rounds. *at most*: that ratio on a machine that does nothing else, where one process has a core to itself"
        " and two share theirs with the load."
    )
    return Table("workers", "Two workers on two cores", _COLUMNS, rows, [note])


def _rows(era: str, servers: Sequence[Server], load: Load, rounds: int, seconds: float) -> list[list[str]]:
    found: list[list[Measured]] = [[], []]
    for _ in range(rounds):
        for server, measured in zip(servers, found, strict=True):
            job = Job(server.port, server.pid, era, "greet", {"name": "Ada"}, "Hello, Ada!", seconds=seconds)
            measured.append(load(replace(job, connections=_CONNECTIONS)))
    ratio = median(two.throughput / one.throughput for one, two in zip(*found, strict=True))
    bounds = [bound for one, two in zip(*found, strict=True) if (bound := _bound(one, two))]
    at_most = f"{median(bounds):.2f}" if bounds else ""
    return [[*_row(era, "1", found[0]), "", "", ""], [*_row(era, "2", found[1]), f"{ratio:.2f}", at_most, _AIM]]


def _bound(one: Measured, two: Measured) -> float | None:
    """The ratio of the calls that two workers can answer, with the load on their cores, to those of one process."""
    if one.server_cpu is None or two.server_cpu is None:
        return None
    return _CORES * one.server_cpu / (two.server_cpu + two.client_cpu)


def _row(era: str, number: str, found: Sequence[Measured]) -> list[str]:
    cpu = [each.server_cpu for each in found if each.server_cpu is not None]
    cores = [each.server_cpu * each.throughput / 1e6 for each in found if each.server_cpu is not None]
    return [
        era,
        number,
        f"{median(each.throughput for each in found):.0f}",
        f"{median(each.p50 for each in found):.2f}",
        f"{median(each.p99 for each in found):.1f}",
        f"{median(cpu):.0f}" if cpu else "",
        f"{median(each.client_cpu for each in found):.0f}",
        f"{median(cores):.2f}" if cores else "",
    ]
