"""Trivial steps in a row, without a model: goalport beside the libraries that people use for graphs of steps.

Each library runs in a program of its own, the peers in an environment of their own (`benchmarks/peers/prepare`), and
they take turns. CPU time is compared, since another program on the machine changes it least.
"""

import json
import statistics
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS, ROOT

__all__ = ["orchestration"]

_PEERS = BENCHMARKS / "peers" / ".venv" / "bin" / "python"
_PROGRAM = BENCHMARKS / "peers" / "flow.py"
_LIBRARIES = ("goalport", "pydantic-graph", "langgraph")
_STEPS = (3, 20)


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
    columns = ("library", "steps", "CPU of a run", "against goalport", "import and build", "first run", "memory")
    if not _PEERS.exists():
        why = f"The peers are not there: run {(BENCHMARKS / 'peers' / 'prepare').relative_to(ROOT)}."
        return Table("orchestration", "Trivial steps, without a model", columns, [], [why])
    turns, runs = (3, 20) if quick else (15, 400)
    rows: list[tuple[str, ...]] = []
    for steps in _STEPS:
        with ExitStack() as stack:
            flows = {library: _Flow(library, steps, stack) for library in _LIBRARIES}
            for _ in range(turns):
                for flow in flows.values():
                    flow.run(runs)
        own = statistics.median(flows["goalport"].cpu)
        for library, flow in flows.items():
            taken = statistics.median(flow.cpu)
            rows.append(
                (
                    library,
                    str(steps),
                    f"{taken * 1e6:.0f} µs",
                    "1" if library == "goalport" else f"{taken / own:.2f} ×",
                    f"{flow.begun['built']:.2f} s",
                    f"{flow.begun['first'] * 1e3:.0f} ms",
                    f"{flow.kilobytes / 1024:.0f} MB",
                )
            )
    note = (
        f"Medians of {turns} turns of {runs} runs each. Every step is an async function that adds one to a number."
        " goalport plans the steps from their types, and keeps the history of each process; the graphs are drawn by"
        " hand, compiled once, and keep nothing. The aim: no more than the leanest peer for three steps."
    )
    return Table("orchestration", "Trivial steps, without a model", columns, rows, [note])
