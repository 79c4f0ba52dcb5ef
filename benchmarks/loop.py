"""The process loop in memory: what one async action costs between the caller's input and the goal. No server, no wire.

`python -m benchmarks.loop --profile --length 1` shows where the time of a process of one action goes, and `--against
COMMIT` compares with an earlier goalport: both run at the same time in programs of their own, and take turns.
"""

import argparse
import asyncio
import cProfile
import io
import json
import os
import pstats
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import Table
from benchmarks.servers import ROOT
from goalport import AgentPlatform, ProcessStatus, achieves_goal, action, agent
from goalport.events import Event

__all__ = ["loop"]

_LENGTH = 20
_WINDOW = 1100
"""More processes than a store in memory keeps."""


@dataclass(frozen=True)
class Chain:
    """An agent whose actions each take what the one before made, and its first input."""

    agent: object
    length: int
    first: object


class Listener:
    """Somebody who hears all and does nothing about it."""

    def on_event(self, event: Event, /) -> None:
        """Hear it."""


def chain(length: int) -> Chain:
    """A chain of async actions, declared as a user declares them."""
    kinds: list[type[Any]] = [make_dataclass(f"Part{number}", [("value", int)]) for number in range(length + 1)]
    members: dict[str, object] = {}
    for number in range(length):
        step = _step(kinds[number], kinds[number + 1], f"step_{number}")
        members[step.__name__] = action(step) if number < length - 1 else achieves_goal(description="The end")(step)
    return Chain(agent(description="A chain of actions")(type(f"Chain{length}", (), members)), length, kinds[0](0))


def _step(takes: type[Any], gives: type[Any], name: str) -> Any:
    async def step(_self: object, part: Any) -> Any:
        return gives(part.value + 1)

    step.__name__, step.__qualname__ = name, f"Chain.{name}"
    step.__annotations__ = {"part": takes, "return": gives}
    return step


def loop(*, quick: bool = False) -> Table:
    """The table of the process loop."""
    runs = 10 if quick else 200
    long, short = chain(_LENGTH), chain(1)
    cases = {
        "known": _Case(long),
        "heard": _Case(long, listeners=(Listener(),)),
        "new": _Case(long, anew=True),
        "short": _Case(short),
        "short and new": _Case(short, anew=True),
    }
    taken = asyncio.run(_in_turn(cases, runs))
    rows = [
        (f"one action of a chain of {_LENGTH}", _us(_per_action(taken["known"], taken["short"])), "≤ 150 µs"),
        ("the same with a listener to all events", _us(_per_action(taken["heard"], taken["short"])), ""),
        ("the same in the first process of its kind", _us(_per_action(taken["new"], taken["short and new"])), ""),
        ("a process of one action, from start to end", _us(taken["short"]), ""),
    ]
    note = (
        f"Medians of {runs} processes each, run in turn. An action: a long process less a short one, over the rest. The"
        " first process of its kind plans; later ones remember what the planner answered."
    )
    return Table("loop", "Process loop, in memory", ("what", "takes", "aim"), rows, [note])


@dataclass(frozen=True)
class _Case:
    chain: Chain
    listeners: Sequence[Listener] = ()
    anew: bool = False
    """Whether each run has a platform of its own."""

    def platform(self) -> AgentPlatform:
        return AgentPlatform([self.chain.agent], listeners=self.listeners)


async def _in_turn(cases: dict[str, _Case], runs: int) -> dict[str, float]:
    platforms = {name: case.platform() for name, case in cases.items()}
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(runs + 2):
        for name, case in cases.items():
            platform = case.platform() if case.anew else platforms[name]
            began = time.perf_counter()
            await _run(platform, case.chain)
            if turn >= 2:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in seconds.items()}


def _per_action(long: float, short: float) -> float:
    return (long - short) / (_LENGTH - 1)


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} µs"


async def _run(platform: AgentPlatform, chain: Chain) -> None:
    process = await platform.run(f"Chain{chain.length}", chain.first)
    assert process.status is ProcessStatus.COMPLETED, process.outcome


def against(commit: str, turns: int = 60) -> Table:
    """The table of the process loop today and at an earlier commit."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory(prefix="goalport-before-") as folder, ExitStack() as stack:
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(folder, filter="data")
        programs = [stack.enter_context(_program(tree)) for tree in (ROOT, Path(folder))]
        taken: list[list[dict[str, float]]] = [[], []]
        for turn in range(turns):
            for each in (0, 1) if turn % 2 else (1, 0):
                taken[each].append(_turn_of(programs[each]))
    now, before = taken
    rows = [_compared(name, [each[name] for each in now], [each[name] for each in before]) for name in now[0]]
    note = f"Processor time, medians of {turns} turns; *ratio*: the median of the turns' own."
    return Table("against", "Process loop, in memory", ("what", "now", f"at {commit}", "ratio"), rows, [note])


def _compared(name: str, now: Sequence[float], before: Sequence[float]) -> Sequence[str]:
    ratio = statistics.median(one / other for one, other in zip(now, before, strict=True))
    return name, _us(statistics.median(now)), _us(statistics.median(before)), f"{ratio:.2f}"


def _program(tree: Path) -> "subprocess.Popen[str]":
    """A program with the goalport of a tree, which measures once for each line that it is given."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(ROOT)))}
    command = [sys.executable, "-m", "benchmarks.loop", "--turns"]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _turn_of(program: "subprocess.Popen[str]") -> dict[str, float]:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    return json.loads(program.stdout.readline())


async def _take_turns() -> None:
    """Measure for each line of the standard input, once the store is as full as it gets."""
    long, short = chain(_LENGTH), chain(1)
    platforms = {each.length: _Case(each).platform() for each in (long, short)}
    for _ in range(_WINDOW):
        await _run(platforms[1], short)
    for _ in sys.stdin:
        taken = {each.length: await _processor_time(platforms[each.length], each) for each in (long, short)}
        figures = {"one action of a chain": _per_action(taken[_LENGTH], taken[1]), "a process of one action": taken[1]}
        print(json.dumps(figures), flush=True)


async def _processor_time(platform: AgentPlatform, chain: Chain) -> float:
    taken: list[float] = []
    for _ in range(max(200 // chain.length, 1)):
        began = time.thread_time()
        await _run(platform, chain)
        taken.append(time.thread_time() - began)
    return statistics.median(taken)


async def _profiled(chain: Chain, profile: cProfile.Profile) -> None:
    platform = AgentPlatform([chain.agent])
    for _ in range(50):
        await _run(platform, chain)
    with profile:
        for _ in range(500):
            await _run(platform, chain)


def main() -> None:
    """Print the table, or a profile of the long chain."""
    parser = argparse.ArgumentParser(prog="benchmarks.loop")
    parser.add_argument("--profile", action="store_true", help="show where the time goes instead")
    parser.add_argument("--length", type=int, default=_LENGTH)
    parser.add_argument("--against", metavar="COMMIT", help="compare with that commit instead")
    parser.add_argument("--turns", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turns:
        asyncio.run(_take_turns())
        return
    if options.against:
        print(against(options.against).markdown)
        return
    if not options.profile:
        print(loop().markdown)
        return
    profile = cProfile.Profile()
    asyncio.run(_profiled(chain(options.length), profile))
    pstats.Stats(profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
