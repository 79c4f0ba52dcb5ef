"""The process loop in memory: what one async action costs between the caller's input and the goal. No server, no wire.

`python -m benchmarks.loop --profile` shows where the time goes.
"""

import argparse
import asyncio
import cProfile
import pstats
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any

from benchmarks.report import Table
from goalport import AgentPlatform, ProcessStatus, achieves_goal, action, agent
from goalport.events import Event

__all__ = ["loop"]

_LENGTH = 20


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
    measured = asyncio.run(_in_turn({"long": (long, ()), "heard": (long, (Listener(),)), "short": (short, ())}, runs))
    per_action = {name: (measured[name] - measured["short"]) / (_LENGTH - 1) for name in ("long", "heard")}
    rows = [
        (f"one action of a chain of {_LENGTH}", f"{1e6 * per_action['long']:.0f} µs", "≤ 150 µs"),
        ("the same with a listener to all events", f"{1e6 * per_action['heard']:.0f} µs", ""),
        ("a process of one action, from start to end", f"{1e6 * measured['short']:.0f} µs", ""),
    ]
    notes = [
        f"Medians of {runs} processes each, run in turn. One more action: a long run less a short one, over the rest."
    ]
    return Table("loop", "Process loop, in memory", ("what", "takes", "aim"), rows, notes)


async def _in_turn(cases: dict[str, tuple[Chain, Sequence[Listener]]], runs: int) -> dict[str, float]:
    platforms = {name: AgentPlatform([chain.agent], listeners=heard) for name, (chain, heard) in cases.items()}
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(runs + 2):
        for name, (chain, _) in cases.items():
            began = time.perf_counter()
            await _run(platforms[name], chain)
            if turn >= 2:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in seconds.items()}


async def _run(platform: AgentPlatform, chain: Chain) -> None:
    process = await platform.run(f"Chain{chain.length}", chain.first)
    assert process.status is ProcessStatus.COMPLETED, process.outcome


async def _many(chain: Chain, runs: int) -> None:
    platform = AgentPlatform([chain.agent])
    for _ in range(runs):
        await _run(platform, chain)


def main() -> None:
    """Print the table, or a profile of the long chain."""
    parser = argparse.ArgumentParser(prog="benchmarks.loop")
    parser.add_argument("--profile", action="store_true", help="show where the time goes instead")
    parser.add_argument("--length", type=int, default=_LENGTH)
    options = parser.parse_args()
    if not options.profile:
        print(loop().markdown)
        return
    with cProfile.Profile() as profile:
        asyncio.run(_many(chain(options.length), 100))
    pstats.Stats(profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
