"""The servers that goalport is compared with over HTTP, and what each of them does and leaves out.

They are the same in every table; `calls` and `payloads` are above. One that is not installed is left out with a line.
"""

import sys
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from benchmarks.servers import BENCHMARKS, FASTMCP, Server, goalport_serves, started

__all__ = ["CONSTANT", "FASTMCP_FUNCTION", "OURS", "SHIPPED", "SQLITE", "TYPED", "Rivals", "serving"]

OURS = "goalport"
SQLITE = "goalport, SQLite"
SHIPPED = "SDK as shipped"
CONSTANT = "SDK tuned, constant"
TYPED = "SDK tuned, typed"
FASTMCP_FUNCTION = "FastMCP"


@dataclass(frozen=True)
class _Rival:
    name: str
    command: Sequence[str]
    said: str
    """What it does, and what it leaves out that goalport does."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    missing: str = ""
    """Why it is left out; empty: it is there."""


def _rivals() -> Sequence[_Rival]:
    serve = goalport_serves(BENCHMARKS / "workspace")
    return [
        _Rival(
            OURS,
            serve,
            "*goalport* checks the arguments, plans, runs a process that can be looked at and ended, keeps its history"
            " and its result, and writes the result by its schema. Processes are kept in memory.",
            {"GOALPORT_STORE": "memory"},
        ),
        _Rival(
            SQLITE,
            serve,
            "*goalport, SQLite* keeps them in a file, as it does by default, and writes it after the answer.",
        ),
        _Rival(
            SHIPPED,
            [sys.executable, "-m", "benchmarks.bare"],
            "*SDK as shipped* is the MCP SDK's low-level server with a tool that answers with one constant object, on"
            " asyncio and h11. It checks no arguments, calls no function, writes no result, and keeps nothing.",
        ),
        _Rival(
            CONSTANT,
            [sys.executable, "-m", "benchmarks.bare", "--tuned"],
            "*SDK tuned, constant* is the same with what goalport gives itself: uvloop, httptools, a frozen heap,"
            " `json_response`, no access log, no server header, `get_tool_input_schema`, no tracing middleware.",
        ),
        _Rival(
            TYPED,
            [sys.executable, "-m", "benchmarks.typed"],
            "*SDK tuned, typed* is a typed function of the SDK's `MCPServer` with structured output, tuned in the same"
            " way. It checks the arguments and writes the result as goalport does, and plans and keeps nothing.",
        ),
        _Rival(
            FASTMCP_FUNCTION,
            [str(FASTMCP), str(BENCHMARKS / "fastmcp_server.py")],
            "*FastMCP* is a typed function too, served by its `http_app` as it is; it keeps nothing either.",
            missing="" if FASTMCP.is_file() else "FastMCP was left out: `make clients` prepares it.",
        ),
    ]


@dataclass(frozen=True)
class Rivals:
    """Servers that are up."""

    servers: Sequence[Server]
    notes: Sequence[str]
    """What is to be said of them below a table, and which are missing."""


@contextmanager
def serving(names: Collection[str]) -> Generator[Rivals]:
    """The servers of these names that this machine has, side by side, until the block ends."""
    wanted = [each for each in _rivals() if each.name in names]
    present = [each for each in wanted if not each.missing]
    with ExitStack() as stack:
        servers = [stack.enter_context(started(each.name, each.command, settings=each.settings)) for each in present]
        described = "\n".join(f"- {each.said}" for each in present)
        yield Rivals(servers, [described, *(each.missing for each in wanted if each.missing)])
