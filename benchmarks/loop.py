"""The process loop in memory: what one async action costs between the caller's input and the goal. No server, no wire.

`python -m benchmarks.loop --profile --length 1` shows where the time of a process of one action goes.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any

from benchmarks.report import Table
from goalport import AgentPlatform, Budget, ProcessOptions, ProcessStatus, State, achieves_goal, action, agent
from goalport.base.events import Event

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


@dataclass(frozen=True)
class Rounds:
    """How often to go round."""

    number: int


class Round(State):
    """One round of many; entering the next hides it."""

    number: int

    @action(can_rerun=True)
    async def again(self, rounds: Rounds) -> "Round | Ended":
        return Round(self.number + 1) if self.number < rounds.number else Ended(self.number)


class Ended(State):
    """After the last round."""

    number: int

    @achieves_goal(description="Go round")
    async def told(self) -> int:
        return self.number


@agent(description="Goes round in states")
class GoingRound:
    """A process that runs as many actions as it is told to."""

    @action
    async def begin(self, rounds: Rounds) -> Round:
        return Round(min(1, rounds.number))


async def _rounds(lengths: Sequence[int], runs: int) -> dict[int, float]:
    """The processor time of an action by the length of its process."""
    platform = AgentPlatform([GoingRound])
    taken: dict[int, list[float]] = {length: [] for length in lengths}
    for _ in range(runs):
        for length, seconds in taken.items():
            options = ProcessOptions(budget=Budget(actions=length))
            began = time.thread_time()
            process = await platform.run("GoingRound", Rounds(length - 2), options=options)
            seconds.append((time.thread_time() - began) / length)
            assert process.status is ProcessStatus.COMPLETED, process.outcome
    return {length: statistics.median(each) for length, each in taken.items()}


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
    rounds = asyncio.run(_rounds((50, 200), 1) if quick else _rounds((50, 100, 1_000, 3_000), 7))
    rows += [
        (f"one of {length:,} actions of a loop in states, processor time", _us(each), "≤ 1.2 × one of 50")
        for length, each in rounds.items()
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


async def _take_turns() -> None:
    """Measure for each line of the standard input, once the store is as full as it gets."""
    long, short = chain(_LENGTH), chain(1)
    platforms = {each.length: _Case(each).platform() for each in (long, short)}
    for _ in range(_WINDOW):
        await _run(platforms[1], short)
    for _ in sys.stdin:
        taken = {each.length: await _processor_time(platforms[each.length], each) for each in (long, short)}
        figures = {"one action of a chain": _per_action(taken[_LENGTH], taken[1]), "a process of one action": taken[1]}
        print(json.dumps({f"CPU µs of {what}": 1e6 * each for what, each in figures.items()}), flush=True)


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
    parser.add_argument("--turns", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turns:
        asyncio.run(_take_turns())
        return
    if not options.profile:
        print(loop().markdown)
        return
    profile = cProfile.Profile()
    asyncio.run(_profiled(chain(options.length), profile))
    pstats.Stats(profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
