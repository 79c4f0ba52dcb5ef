"""`python -m benchmarks compare COMMIT`: this goalport beside that of an earlier commit, as ratios.

Both run at the same time, on the same interpreter and libraries, and take turns of a fraction of a second, so that
whatever else the machine does hits both. Processor time says most, since other programs change it least. The agents,
the load and the measuring are those of today, so the earlier library has to know what they use. Its sources are
unpacked into a temporary folder, which is removed when the program ends.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from types import MappingProxyType

from benchmarks.auth import issuer_here, ways_to_know
from benchmarks.calls import Load, loaded, loading
from benchmarks.load import Job, processor_seconds
from benchmarks.payloads import payload_jobs
from benchmarks.report import Table, write_json
from benchmarks.servers import BENCHMARKS, ROOT, Server, goalport_serves, started
from benchmarks.startup import workspace_of
from benchmarks.wire import ERAS

__all__ = ["earlier", "main", "sources_of"]

_GREET = Job(0, 0, "", "greet", {"name": "Ada"}, "Hello, Ada!", warm_up=0.02, calls=64)
_GREET_16 = replace(_GREET, connections=16, calls=8)
_AGENTS = 100
_IN_MEMORY = MappingProxyType({"GOALPORT_STORE": "memory"})
"""Where processes are kept unless a case says otherwise: SQLite's writes would hide what else has changed."""

Taken = Mapping[str, float]
"""What one turn took, by the name of the figure."""
Turn = Callable[[], Taken]


@dataclass(frozen=True)
class Case:
    """Something that is done again and again, by today's library and by the earlier one."""

    what: str
    now: Turn
    then: Turn


Cases = Callable[[Sequence[Path], ExitStack], Sequence[Case]]
"""Starts what a table needs, with the sources of today and the earlier ones, until the stack is left."""


def _calls(trees: Sequence[Path], stack: ExitStack) -> Sequence[Case]:
    jobs = {
        f"{era}, {what}": replace(job, era=era)
        for era in ERAS
        for what, job in (("1 connection", _GREET), ("16 connections", _GREET_16))
    }
    stored = {f"{era}, 16 connections, SQLite": replace(_GREET_16, era=era) for era in ERAS}
    return [*_served(trees, stack, jobs), *_served(trees, stack, stored, {"GOALPORT_STORE": "sqlite"})]


def _progress(trees: Sequence[Path], stack: ExitStack) -> Sequence[Case]:
    jobs = {f"{era}, 16 connections": replace(_GREET_16, era=era, progress=True) for era in ERAS}
    return _served(trees, stack, jobs)


def _auth(trees: Sequence[Path], stack: ExitStack) -> Sequence[Case]:
    cases: list[Case] = []
    for way in list(ways_to_know(stack.enter_context(issuer_here())))[1:]:
        known = replace(_GREET_16, tokens=(way.token,))
        jobs = {f"{era}, {way.name}, 16 connections": replace(known, era=era) for era in ERAS}
        cases += _served(trees, stack, jobs, {**_IN_MEMORY, **way.environment})
    return cases


def _payloads(trees: Sequence[Path], stack: ExitStack) -> Sequence[Case]:
    jobs = {", ".join(labels): job for labels, job in payload_jobs().items()}
    return _served(trees, stack, jobs)


def sources_of(tree: Path) -> Mapping[str, str]:
    """The variable by which a program imports the library of a tree, and the benchmarks of today."""
    return {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(ROOT)))}


def _served(
    trees: Sequence[Path], stack: ExitStack, jobs: Mapping[str, Job], settings: Mapping[str, str] = _IN_MEMORY
) -> Sequence[Case]:
    """The jobs, each done to a server of today and to an earlier one."""
    command = goalport_serves(BENCHMARKS / "workspace")
    now, then = (
        stack.enter_context(started(str(tree), command, settings={**settings, **sources_of(tree)})) for tree in trees
    )
    load = stack.enter_context(loading())
    return [
        Case(what, partial(_loaded, now, job, load), partial(_loaded, then, job, load)) for what, job in jobs.items()
    ]


def _loaded(server: Server, job: Job, load: Load) -> Taken:
    done = loaded(server, job, load)
    cpu = {} if done.server_cpu is None else {"CPU µs": done.server_cpu}
    return {**cpu, "calls/s": done.throughput}


def _loop(trees: Sequence[Path], stack: ExitStack) -> Sequence[Case]:
    now, then = (stack.enter_context(_program(tree)) for tree in trees)
    return [Case("process loop, in memory", partial(_turn_of, now), partial(_turn_of, then))]


def _program(tree: Path) -> "subprocess.Popen[str]":
    """A program with the goalport of a tree, which measures once for each line that it is given."""
    environment = {**os.environ, **sources_of(tree)}
    command = [sys.executable, "-m", "benchmarks.loop", "--turns"]
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _turn_of(program: "subprocess.Popen[str]") -> Taken:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    return json.loads(program.stdout.readline())


def _startup(trees: Sequence[Path], stack: ExitStack) -> Sequence[Case]:
    workspace = stack.enter_context(workspace_of(_AGENTS))
    now, then = (partial(_until_ready, tree, workspace) for tree in trees)
    for first in (now, then):
        first()  # It compiles the sources, which later ones need not.
    return [Case(f"`goalport serve` with {_AGENTS} agents, until it is ready", now, then)]


def _until_ready(tree: Path, workspace: Path) -> Taken:
    settings = {**sources_of(tree), "PYTHONDONTWRITEBYTECODE": ""}
    with started(str(tree), goalport_serves(workspace), settings=settings) as server:
        return {"CPU ms": 1e3 * processor_seconds(server.pid), "MB": server.memory}


TABLES: Mapping[str, Cases] = {
    "calls": _calls,
    "progress": _progress,
    "auth": _auth,
    "payloads": _payloads,
    "loop": _loop,
    "startup": _startup,
}


def main(arguments: Sequence[str]) -> None:
    """Compare with a commit: all tables, unless some are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare", description="Compare with an earlier commit.")
    parser.add_argument("commit", metavar="COMMIT")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="5 rounds instead of 15")
    parser.add_argument("--rounds", type=int, metavar="N", help="so many rounds, at least 2")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here too, as JSON")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        parser.error(f"there is no table {unknown[0]!r}; the tables are {', '.join(TABLES)}")
    rounds = options.rounds or (5 if options.quick else 15)
    if rounds < 2:
        parser.error(f"expected at least 2 rounds, which a spread needs, but got {rounds}")
    found = _git("rev-parse", "--verify", "--quiet", "--short", f"{options.commit}^{{commit}}")
    if found.returncode:
        parser.error(f"there is no commit {options.commit!r} in {ROOT}")
    commit, tables = found.stdout.decode().strip(), list[Table]()
    with earlier(commit) as then:
        for name in options.tables or TABLES:
            tables.append(_compared(commit, name, then, rounds))
            print(f"{tables[-1].markdown}\n", flush=True)
    if options.json:
        write_json(tables, options.json)


@contextmanager
def earlier(commit: str) -> Generator[Path]:
    """The tree of a commit with the sources of the library, in a folder that goes when the block ends."""
    archive = _git("archive", commit, "src")
    archive.check_returncode()
    with tempfile.TemporaryDirectory(prefix="goalport-then-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
            packed.extractall(folder, filter="data")
        yield Path(folder)


def _git(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)


def _compared(commit: str, name: str, then: Path, rounds: int) -> Table:
    with ExitStack() as stack:
        cases = TABLES[name]((ROOT, then), stack)
        taken = [[_both(case, turn) for case in cases] for turn in range(rounds)]
    rows = [row for number, case in enumerate(cases) for row in _rows(case.what, [each[number] for each in taken])]
    note = (
        f"Medians of {rounds} rounds, in which both took turns. *now / then*: the median of the rounds' own ratios;"
        " *middle half*: between which two half of them lie."
    )
    columns = ("what", "figure", "now", "then", "now / then", "middle half")
    return Table(name, f"{name}: now, and then at {commit}", columns, rows, [note])


def _both(case: Case, turn: int) -> tuple[Taken, Taken]:
    """What one round took now and then; who is first changes with each round."""
    if turn % 2:
        then = case.then()
        return case.now(), then
    return case.now(), case.then()


def _rows(what: str, rounds: Sequence[tuple[Taken, Taken]]) -> Generator[Sequence[str]]:
    for figure in rounds[0][0]:
        ratios = [now[figure] / then[figure] for now, then in rounds]
        lower, middle, upper = quantiles(ratios, n=4, method="inclusive")
        both = (median(each[side][figure] for each in rounds) for side in (0, 1))
        yield what, figure, *(f"{each:.0f}" for each in both), f"{middle:.2f}", f"{lower:.2f} to {upper:.2f}"
