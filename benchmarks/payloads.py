"""The table of large results and large arguments: goalport beside typed functions of the SDK.

Both check the arguments and write the result, so what is compared is the price of each byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from benchmarks.calls import Cell, in_turn, loading, microseconds
from benchmarks.load import Job, Measured
from benchmarks.report import Table
from benchmarks.rivals import OURS, SQLITE, TYPED, serving
from benchmarks.wire import ERAS

__all__ = ["payload_jobs", "payloads"]

_SIZES = (100_000, 400_000)
_COLUMNS = ("era", "payload", "server", "calls/s", "p50 ms", "CPU µs", "CPU ratio", "aim")
_CALL = Job(0, 0, "", "", {}, "", warm_up=0.05, calls=12)


def payload_jobs() -> Mapping[tuple[str, str], Job]:
    """The calls, by era and by what is large."""
    jobs: dict[tuple[str, str], Job] = {}
    for era in ERAS:
        for size in _SIZES:
            result = replace(_CALL, era=era, tool="page", arguments={"characters": size}, expect='xxx"')
            argument = replace(_CALL, era=era, tool="count", arguments={"text": "x" * size}, expect=str(size))
            jobs[era, f"result of {size // 1000} kB"] = result
            jobs[era, f"argument of {size // 1000} kB"] = argument
    return jobs


def payloads(*, quick: bool = False) -> Table:
    """The table of large results and arguments."""
    rounds = 1 if quick else 15
    cells = [Cell(labels, job, {TYPED: "≤ 1.3"}) for labels, job in payload_jobs().items()]
    with serving((OURS, SQLITE, TYPED)) as rivals, loading() as load:
        measured = in_turn(rivals.servers, cells, rounds, load)
    rows = [_row(measured, cell, server.name) for cell in cells for server in rivals.servers]
    note = (
        f"Medians of {rounds} rounds of {_CALL.calls} calls over one connection, in which the servers take turns. *CPU"
        " ratio*: goalport's processor time per call over this server's, median over the rounds."
    )
    return Table("payloads", "Large results and arguments", _COLUMNS, rows, [note, *rivals.notes])


def _row(measured: Mapping[tuple[tuple[str, ...], str], Sequence[Measured]], cell: Cell, name: str) -> list[str]:
    own, found = measured[cell.labels, OURS], measured[cell.labels, name]
    pairs = zip(own, found, strict=True)
    ratios = [each.server_cpu / other.server_cpu for each, other in pairs if each.server_cpu and other.server_cpu]
    return [
        *cell.labels,
        name,
        f"{median(each.throughput for each in found):.0f}",
        f"{median(each.p50 for each in found):.2f}",
        microseconds(found),
        "" if name == OURS or not ratios else f"{median(ratios):.2f}",
        cell.aims.get(name, ""),
    ]
