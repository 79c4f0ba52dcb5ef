"""`goalport mcp`: tests the connections to the upstream servers of a workspace.

Below the program; the platform is below it.
"""

from pathlib import Path

import anyio
from cyclopts import App

from goalport.cli.options import WorkspaceFolder
from goalport.cli.terminal import say
from goalport.cli.upstream import Timeout, connected
from goalport.cli.workspace import LoadedWorkspace, open_workspace
from goalport.upstream.report import ServerReport, ServerState

FINE, FAILED = 0, 1

app = App(
    name="mcp",
    help_format="plaintext",
    help_epilogue="""\
Examples:
  goalport mcp check
  goalport mcp check --timeout 10""",
)


@app.command
def check(*, timeout: Timeout = None, workspace: WorkspaceFolder = Path()) -> int:
    """Connect to each server of mcp_config.json and print one line on the result.

    If a person has to sign in, a browser is opened. Exit codes: 0 all servers answer, 1 one does not.
    """
    loaded = open_workspace(workspace)
    upstream = loaded.platform.upstream
    for problem in upstream.config.problems:
        say(f"{'problem' if problem in upstream.problems else 'warning'}: {problem}")
    broken = bool(upstream.problems)
    reports = anyio.run(_tried, loaded, timeout)
    for each in reports:
        print(_line(each))
    if not reports and not broken:
        say(f"There are no servers in {loaded.workspace.root / 'mcp_config.json'}.")
    down = [each for each in reports if each.state not in {ServerState.UP, ServerState.DISABLED}]
    return FAILED if broken or down else FINE


async def _tried(loaded: LoadedWorkspace, seconds: float | None) -> tuple[ServerReport, ...]:
    async with connected(loaded, seconds) as platform:
        return platform.upstream.reports()


def _line(server: ServerReport) -> str:
    match server.state:
        case ServerState.UP:
            number = "1 tool" if server.tools == 1 else f"{server.tools} tools"
            notes = "".join(f"; {each}" for each in server.notes)
            return f"{server.name}: up, {server.transport}, protocol {server.protocol}, {number}{notes}"
        case ServerState.DISABLED:
            return f"{server.name}: disabled"
        case _:
            return f"{server.name}: {server.state}, {server.last_error or 'it has not answered yet'}"
