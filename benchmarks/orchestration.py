"""Trivial steps in a row, without a model: goalport beside the libraries that people use for graphs of steps.

Each library runs in a program of its own, the peers in an environment of their own (`benchmarks/peers/prepare`), and
they take turns. CPU time is compared, since another program on the machine changes it least.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.peers.flow import LIBRARIES
from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS, ROOT

__all__ = ["orchestration"]

_PEERS = BENCHMARKS / "peers" / ".venv" / "bin" / "python"
_PROGRAM = BENCHMARKS / "peers" / "flow.py"
_COLUMNS = (
    "library",
    "steps",
    "CPU of a run",
    "against goalport",
    "aim",
    "import and build",
    "first run",
    "kept of a run",
    "memory",
)
_STEPS = (3, 20)
_AIMS = {("pydantic-graph", 3): "≥ 1", ("langgraph", 3): "≥ 2"}


class _Flow:
    """A program that runs one flow as often as it is told."""

    def __init__(self, library: str, steps: int, stack: ExitStack) -> None:
        own = library == "goalport"
        command = [sys.executable, "-m", "benchmarks.peers.flow"] if own else [str(_PEERS), str(_PROGRAM)]
        self._program = stack.enter_context(
            subprocess.Popen(
                [*command, library, str(steps)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
        )
        stack.callback(self._program.kill)
        self.begun = self._read()
        self.cpu: list[float] = []
        self.kilobytes = 0

    def run(self, runs: int) -> None:
        assert self._program.stdin is not None
        self._program.stdin.write(f"{runs}\n")
        self._program.stdin.flush()
        found = self._read()
        self.cpu.append(found["cpu"])
        self.kilobytes = found["kilobytes"]

    def _read(self) -> Any:
        assert self._program.stdout is not None
        return json.loads(self._program.stdout.readline())


def orchestration(*, quick: bool = False) -> Table:
    """The table of flows of trivial steps."""
    title = "Trivial steps, without a model"
    if not _PEERS.exists():
        why = f"The peers are not there: run {(BENCHMARKS / 'peers' / 'prepare').relative_to(ROOT)}."
        return Table("orchestration", title, _COLUMNS, [], [why])
    turns, runs = (2, 10) if quick else (15, 40)
    rows = [row for steps in _STEPS for row in _in_turn(steps, turns, runs)]
    note = (
        f"Medians of {turns} turns of {runs} runs each. Every step is an async function that adds one to a number."
        " *against goalport*: processor time over goalport's. *kept of a run*: what Python's memory has more of after"
        " each of the first runs. goalport plans the steps from their types, and keeps the history of each process, up"
        " to `max_processes`; google-adk keeps the events of each session, and is given a new one for each run. The"
        " others are graphs drawn by hand, compiled once, that keep nothing."
    )
    return Table("orchestration", title, _COLUMNS, rows, [note])


def _in_turn(steps: int, turns: int, runs: int) -> list[Sequence[str]]:
    with ExitStack() as stack:
        flows = {library: _Flow(library, steps, stack) for library in LIBRARIES}
        for _ in range(turns):
            for flow in flows.values():
                flow.run(runs)
    own = statistics.median(flows["goalport"].cpu)
    return [_row(library, steps, flow, own) for library, flow in flows.items()]


def _row(library: str, steps: int, flow: _Flow, own: float) -> Sequence[str]:
    taken = statistics.median(flow.cpu)
    return (
        library,
        str(steps),
        f"{taken * 1e6:.0f} µs",
        "1" if library == "goalport" else f"{taken / own:.2f} ×",
        _AIMS.get((library, steps), ""),
        f"{flow.begun['built']:.2f} s",
        f"{flow.begun['first'] * 1e3:.0f} ms",
        f"{flow.begun['kept'] / 1024:.1f} kB",
        f"{flow.kilobytes / 1024:.0f} MB",
    )
