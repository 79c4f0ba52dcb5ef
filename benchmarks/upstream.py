"""Tools of other servers: what a call costs beside the SDK's client, and how soon many servers are ready.

Both clients call the same tool of servers made by the same program, over stdio, and take turns.
"""

import gc
import re
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from benchmarks.report import Table
from benchmarks.servers import ROOT
from goalport import AgentPlatform
from goalport.runtime.platform import UpstreamServers
from goalport.tools.upstream import GroupConfig, McpConfig, ServerConfig

__all__ = ["upstream"]

_SERVER = ROOT / "tests" / "rooms" / "upstream" / "plain_server.py"
_COMMAND = (sys.executable, "-S", "-E", str(_SERVER))
_ARGUMENTS: dict[str, object] = {"text": "hello"}
_NOTE = (
    "Medians of {rounds} rounds of {seconds:g} s; the figure is the median of the rounds' own. The servers are small "
    "programs over stdio that share this machine with their clients. Where a start is all work and no waiting, many "
    "take as long as the cores need for all of them."
)
Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class _Round:
    """Calls one after the other, or so many at once."""

    per_second: float
    p50: float
    """Milliseconds."""


def upstream(*, quick: bool = False) -> Table:
    """The table of calls of upstream tools, of starting servers, and of memory."""
    rounds, seconds, servers = (1, 0.05, 3) if quick else (9, 0.5, 20)
    memory = anyio.run(_memory, servers)  # first: later there is memory that was used before
    rows = anyio.run(_calls, rounds, seconds)
    rows += anyio.run(_starting, servers, 1 if quick else 3, 0.1 if quick else 1.0)
    rows += memory
    columns = ("what", "goalport", "SDK's client", "figure", "aim")
    return Table("upstream", "Tools of other servers", columns, rows, [_NOTE.format(rounds=rounds, seconds=seconds)])


async def _calls(rounds: int, seconds: float) -> list[tuple[str, ...]]:
    async with AsyncExitStack() as stack:
        platform = await stack.enter_async_context(_platform(1))
        target = stdio_client(StdioServerParameters(command=_COMMAND[0], args=list(_COMMAND[1:])))
        client = await stack.enter_async_context(Client(target, mode="legacy"))
        group = platform.groups.find("all")
        assert group is not None
        tool = next(each for each in group.tools if each.name == "echo")

        async def through_the_hub() -> None:
            if (await tool.call(_ARGUMENTS)).text != "hello":
                raise RuntimeError("The tool gave something else than what it was sent.")

        async def directly() -> None:
            if (await client.call_tool("echo", dict(_ARGUMENTS))).is_error:
                raise RuntimeError("The tool failed.")

        rows: list[tuple[str, ...]] = []
        for at_once in (1, 16):
            pairs = [await _pair(through_the_hub, directly, at_once, seconds) for _ in range(rounds)]
            rows += _compared(at_once, pairs)
        return rows


async def _pair(ours: Call, theirs: Call, at_once: int, seconds: float) -> tuple[_Round, _Round]:
    gc.collect()
    return await _round(ours, at_once, seconds), await _round(theirs, at_once, seconds)


async def _round(call: Call, at_once: int, seconds: float) -> _Round:
    took: list[float] = []
    began = time.perf_counter()

    async def caller() -> None:
        while (start := time.perf_counter()) - began < seconds:
            await call()
            took.append(time.perf_counter() - start)

    async with anyio.create_task_group() as tasks:
        for _ in range(at_once):
            tasks.start_soon(caller)
    return _Round(len(took) / (time.perf_counter() - began), 1_000 * median(took))


def _compared(at_once: int, pairs: list[tuple[_Round, _Round]]) -> list[tuple[str, ...]]:
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    ratio = median(mine.per_second / other.per_second for mine, other in pairs)
    added = median(mine.p50 - other.p50 for mine, other in pairs)
    where = f"{at_once} at once" if at_once > 1 else "one after the other"
    rates = [f"{median(each.per_second for each in side):.0f}" for side in (ours, theirs)]
    waits = [f"{median(each.p50 for each in side):.2f} ms" for side in (ours, theirs)]
    return [
        (f"calls per second, {where}", *rates, f"{ratio:.2f}", "≥ 0.8"),
        (f"median of a call, {where}", *waits, f"{added:+.2f} ms", "≤ 1 ms" if at_once == 1 else ""),
    ]


async def _starting(servers: int, times: int, delay: float) -> list[tuple[str, ...]]:
    """All servers at once beside one alone: some that wait before they serve, and some that need the processor only."""
    rows: list[tuple[str, ...]] = []
    for seconds, which in ((delay, f"that wait for {delay:g} s first"), (0.0, "that start at once")):
        together = [await _ready(servers, seconds) for _ in range(times)]
        alone = [max([await _ready(1, seconds) for _ in range(3)]) for _ in range(times)]
        figure = median(all_ / one for all_, one in zip(together, alone, strict=True))
        rows.append((f"{servers} servers ready {which}", f"{median(together):.2f} s", "", f"{figure:.2f}", "≤ 1.5"))
        rows.append(("the slowest of three of these, alone", f"{median(alone):.2f} s", "", "", ""))
    return rows


async def _ready(servers: int, delay: float) -> float:
    began = time.perf_counter()
    async with _platform(servers, delay):
        return time.perf_counter() - began


async def _memory(servers: int) -> list[tuple[str, ...]]:
    async with _platform(1):
        gc.collect()
        before = _resident()
        async with _platform(servers):
            gc.collect()
            each = (_resident() - before) / servers
    return [("memory of an idle connection here, without the server's own", f"{each:.0f} kB", "", "", "")]


def _resident() -> float:
    """Resident kB; 0 where the machine does not tell."""
    try:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    except OSError:
        return 0.0
    return float(found[1]) if found else 0.0


def _platform(servers: int, delay: float = 0.0) -> AgentPlatform:
    names = tuple(f"server_{number}" for number in range(servers))
    command = ("/bin/sh", "-c", f'sleep {delay}; exec "$@"', "sh", *_COMMAND) if delay else _COMMAND
    configs = {name: ServerConfig(name, "stdio", command=command[0], args=command[1:]) for name in names}
    config = McpConfig(configs, {"all": GroupConfig("all", names[:1])})
    return AgentPlatform(upstream=UpstreamServers(config, Path("/nonexistent"), start_seconds=60))
