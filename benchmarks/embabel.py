"""The planner of Embabel, whose Python counterpart goalport is: on a warm JVM, on the problems of goalport's planner.

`jvm/Planning.java` runs it, from source: a JDK compiles it at each start, and Maven fetches Embabel's libraries into
its own cache. Where either is missing, the table is one line. A problem that takes too long is given up.
"""

import json
import os
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.planner import anew, chain_with_irrelevant, crime, layers, planned, platform_of_agents, random_dag
from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS
from goalport.agents.plan import Fact, Problem

__all__ = ["embabel"]

_JVM = BENCHMARKS / "jvm"
_FETCHING = 300.0
_STARTING = 60.0
_RUNS = 5
_OLDEST = 21
"""The version of Java for which Embabel is compiled."""
_FAMILIES: Mapping[str, Callable[[], Problem]] = {
    "chain of 10": lambda: chain_with_irrelevant(irrelevant=0),
    "chain of 10 among 10 irrelevant actions": lambda: chain_with_irrelevant(irrelevant=10),
    "chain of 10 among 20 irrelevant actions": lambda: chain_with_irrelevant(irrelevant=20),
    "chain of 10 among 60 irrelevant actions": chain_with_irrelevant,
    "5 agents of 4 actions from one input": lambda: platform_of_agents(5),
    "50 agents of 4 actions from one input": platform_of_agents,
    "crime domain": crime,
    "crime domain among 300 random actions": lambda: crime(random_actions=300),
    "layers of 10 types, 3 deep, 2 ways to each": lambda: layers(3, 10),
    "1,000 actions over 2,000 conditions": random_dag,
}
_COLUMNS = ("problem", "goalport", "steps", "cost", "Embabel", "steps", "cost", "Embabel over goalport")


@dataclass(frozen=True)
class _Answer:
    milliseconds: float = 0.0
    steps: int = -1
    cost: float = 0.0
    failed: str = ""
    """Why there is no answer."""

    @property
    def cells(self) -> tuple[str, str, str]:
        if self.failed:
            return self.failed, "", ""
        taken = f"{self.milliseconds:.2f} ms"
        return (taken, "no plan", "") if self.steps < 0 else (taken, str(self.steps), f"{self.cost:.1f}")


def embabel(*, quick: bool = False) -> Table:
    """The table of Embabel's planner."""
    title = "Embabel's planner, on a warm JVM"
    java = _java()
    if java is None or shutil.which("mvn") is None:
        return Table("embabel", title, _COLUMNS, [], [f"Left out: it needs a JDK of version {_OLDEST}, and Maven."])
    libraries = _libraries()
    if not libraries:
        return Table("embabel", title, _COLUMNS, [], ["Left out: Maven could not fetch Embabel's libraries."])
    families = list(_FAMILIES.items())[: 1 if quick else None]
    patience = 15.0
    jvm = _Embabel([str(java), "-Xmx2g", "-cp", libraries, str(_JVM / "Planning.java")], patience)
    try:
        rows = [_row(name, family(), jvm) for name, family in families]
    finally:
        jvm.end()
    note = (
        "embabel-agent 0.3.0 from Maven Central, its `AStarGoapPlanner`, with 2 GB of memory."
        f" Medians of {_RUNS} runs: Embabel's after it has planned the problem for a second, goalport's each over a"
        f" planning system of its own that remembers nothing. After {patience:g} s for all runs together, Embabel is"
        " ended."
    )
    return Table("embabel", title, _COLUMNS, rows, [note])


def _java() -> Path | None:
    """The `java` of a JDK that is new enough: of JAVA_HOME, of the path, or where Debian installs them."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    if found := shutil.which("java"):
        homes.append(Path(found).resolve().parents[1])
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    return next((home / "bin" / "java" for home in homes if _version(home) >= _OLDEST), None)


def _version(home: Path) -> int:
    """The version of the JDK in a folder; 0 where there is none."""
    if not (home / "bin" / "javac").is_file():
        return 0
    release = home / "release"
    found = re.search(r'JAVA_VERSION="(\d+)', release.read_text(encoding="utf-8")) if release.is_file() else None
    return int(found[1]) if found else 0


def _libraries() -> str:
    """The class path of Embabel, fetched by Maven where it is not in its cache. Empty when it cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "libraries"
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={said}"]
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(_JVM / "pom.xml"), *goal]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_FETCHING)
        except subprocess.SubprocessError:
            return ""
        return said.read_text(encoding="utf-8").strip()


class _Embabel:
    """A JVM that plans; it is ended, and started anew for the next problem, when it takes too long."""

    def __init__(self, command: Sequence[str], patience: float) -> None:
        self._command = command
        self._patience = patience
        self._process: subprocess.Popen[str] | None = None

    def plan(self, problem: Problem) -> _Answer:
        """What it answers for a problem."""
        process = self._process or self._started()
        assert process.stdin is not None
        process.stdin.write(json.dumps(_written(problem)) + "\n")
        process.stdin.flush()
        line = _line(process, self._patience)
        if not line:
            self.end()
            return _Answer(failed=f"none in {self._patience:g} s")
        return _Answer(**json.loads(line))

    def end(self) -> None:
        """End the JVM, if one runs."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        if not _line(self._process, _STARTING):
            raise RuntimeError(f"The JVM ended, or was not ready after {_STARTING:g} s: {' '.join(self._command)}")
        return self._process


def _line(process: "subprocess.Popen[str]", patience: float) -> str:
    """The next line that a program writes; empty when it ends, or takes too long."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], patience)
    return process.stdout.readline() if readable else ""


def _written(problem: Problem) -> Mapping[str, Any]:
    """A problem as JSON: facts become names of conditions, and what is said of none of them is false at the start."""
    operators, goal = problem.system.operators, problem.goals[0]
    facts = {fact for each in operators for fact in (*each.requires, *each.effects)} | set(goal.requires)
    return {
        "actions": [
            {"name": each.name, "requires": _named(each.requires), "effects": _named(each.effects)}
            for each in operators
        ],
        "costs": {each.name: each.cost for each in operators},
        "goal": _named(goal.requires),
        "state": _named({fact: fact in problem.start.true for fact in facts}),
    }


def _named(facts: Mapping[Fact, bool]) -> Mapping[str, bool]:
    return {str(fact): value for fact, value in facts.items()}


def _row(name: str, problem: Problem, jvm: _Embabel) -> Sequence[str]:
    ours, theirs = _own(problem), jvm.plan(problem)
    ratio = "" if theirs.failed or theirs.steps < 0 else f"{theirs.milliseconds / ours.milliseconds:,.1f} ×"
    return name, *ours.cells, *theirs.cells, ratio


def _own(problem: Problem) -> _Answer:
    taken: list[float] = []
    for _ in range(_RUNS):
        began = perf_counter()
        planned(anew(problem))
        taken.append(1e3 * (perf_counter() - began))
    found = planned(problem)
    return _Answer(median(taken), len(found.steps), sum(step.cost for step in found.steps))
