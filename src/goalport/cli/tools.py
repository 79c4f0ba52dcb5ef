"""`goalport tools` and `goalport mcp`: list upstream servers, groups and tools, call or trust a tool, try a server.

Each command connects to the servers. No server counts as required: the commands also inspect servers that are down.
"""

import sys
import webbrowser
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import anyio
from anyio import to_thread
from cyclopts import App, Parameter

from goalport.base.caller import OPERATOR
from goalport.base.errors import ToolError, UnknownName
from goalport.base.words import counted
from goalport.cli.options import DONE, FAILED, StructuredResult, WorkspaceFolder, object_of
from goalport.cli.terminal import Format, Record, say, show, show_json, show_result
from goalport.cli.workspace import LoadedWorkspace, open_with_warnings, open_workspace
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import DirectCalls
from goalport.server.publish.exported_tools import FunctionTool
from goalport.server.publish.output import WrittenResult
from goalport.tools.upstream.active_calls import call_hooks
from goalport.tools.upstream.upstream_server import ServerReport, ServerState

Timeout = Annotated[
    float | None, Parameter(help="Seconds that connecting to a server may take. Default: its connectTimeout, or 30.")
]
app = App(name="tools", help_format="plaintext")


@app.default
def tools(
    *,
    format: Format = "text",
    trust: tuple[str, ...] = (),
    timeout: Timeout = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List tool groups, upstream servers, and the tools of the groups; or trust tools that are withheld.

    The servers are connected for it.

    Args:
        trust: SERVER/TOOL or SERVER: allow a withheld tool, or all of a server, as they are now.

    Examples:
        goalport tools
        goalport tools --format json
        goalport tools --trust github/create_issue
    """
    loaded = _opened(workspace)

    async def listed() -> dict[str, list[Record]]:
        async with connected(loaded, timeout) as platform:
            for each in trust:
                _trust(platform, each)
            for warning in platform.upstream.groups.warnings():
                say(f"warning: {warning}")
            servers: list[Record] = [
                {
                    "server": each.name,
                    "state": str(each.state),
                    "transport": each.transport,
                    "place": each.address,
                    "protocol": each.protocol,
                    "tools": each.tools,
                    "resources": each.resources,
                    "prompts": each.prompts,
                    "last_error": each.last_error,
                    "notes": list(each.notes),
                }
                for each in platform.upstream.reports()
            ]
            return {"groups": [*_groups(platform)], "servers": servers, "tools": [*_tools(platform)]}

    lists = anyio.run(listed)
    if format == "json":
        show_json(lists)
        return
    for kind, records in lists.items():
        say(f"{kind.capitalize()}:")
        show(records, format, none="  none")
        say("")


@app.command
def call(
    group: str,
    tool: str,
    given: Annotated[str, Parameter("ARGUMENTS")] = "{}",
    /,
    *,
    structured: StructuredResult = False,
    timeout: Timeout = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Call a tool of a group and print its result.

    Args:
        group: The role of the group.
        tool: The tool's name in the group.
        given: A JSON object, @FILE to read one, or @- for standard input.

    Examples:
        goalport tools call web web_fetch '{"url": "https://example.com"}'
    """
    arguments, loaded = object_of(given, "The argument"), _opened(workspace)

    async def show_progress(progress: float, total: float | None, message: str | None) -> None:
        say(f"{progress:g}{'' if total is None else f'/{total:g}'} {message or ''}".rstrip())

    async def called() -> WrittenResult:
        async with connected(loaded, timeout) as platform:
            found, groups = platform.groups.find(group), platform.groups
            if found is None:
                if why := groups.why_missing(group):
                    raise ToolError(f"The tool group {group!r} cannot be used now. {why}")
                raise UnknownName("tool group", group, [each.role for each in groups.groups])
            tools = {each.name: each for each in found.tools}
            if tool not in tools:
                raise UnknownName("tool", tool, tools)
            # Typing the call is the person's approval.
            function = FunctionTool.of(tools[tool].with_approval("never"))
            site = DirectCalls(OPERATOR, platform.processes.listeners)
            with call_hooks(progress=show_progress):
                return await function.call(dict(arguments), site, tells_errors=True)

    result = anyio.run(called)
    show_result(result.wire, structured=structured)
    return FAILED if result.is_error else DONE


def check(*, timeout: Timeout = None, workspace: WorkspaceFolder = Path()) -> int:
    """Connect to each server of mcp_config.json and print one line on the result.

    If a person has to sign in, a browser is opened. The exit code is 1 if a server does not answer, or the file is
    wrong.

    Examples:
        goalport mcp check
        goalport mcp check --timeout 10
    """
    loaded = open_workspace(workspace)
    upstream = loaded.platform.upstream
    problems = upstream.problems if upstream.config.servers else upstream.config.problems
    for problem in upstream.config.problems:
        say(f"{'problem' if problem in problems else 'warning'}: {problem}")

    async def reported() -> Sequence[ServerReport]:
        async with connected(loaded, timeout) as platform:
            return platform.upstream.reports()

    reports = anyio.run(reported)
    for each in reports:
        told = f"{each.state}, {each.last_error or 'it has not answered yet'}"
        if each.state is ServerState.UP:
            numbers = {"tool": each.tools, "resource": each.resources, "prompt": each.prompts}
            counts = ", ".join(counted(number, what) for what, number in numbers.items() if number or what == "tool")
            notes = "".join(f"; {note}" for note in each.notes)
            told = f"up, {each.transport}, protocol {each.protocol}, {counts}{notes}"
        print(f"{each.name}: {'disabled' if each.state is ServerState.DISABLED else told}")
    if not reports and not problems:
        say(f"There are no servers in {loaded.workspace.root / 'mcp_config.json'}.")
    down = [each for each in reports if each.state not in {ServerState.UP, ServerState.DISABLED}]
    return FAILED if problems or down else DONE


@asynccontextmanager
async def connected(loaded: LoadedWorkspace, seconds: float | None = None) -> AsyncGenerator[AgentPlatform]:
    """The platform of a workspace, after a connection to each server was tried; a server may be down.

    `seconds` is the time limit of each connection; None: each server has the one of its configuration.
    """
    upstream = loaded.platform.upstream
    changes = {"required": False} | ({} if seconds is None else {"connect_timeout": seconds})
    servers = {name: replace(each, **changes) for name, each in upstream.config.servers.items()}
    problems = tuple(replace(each, is_fatal=False) for each in upstream.config.problems)
    upstream.config = replace(upstream.config, servers=servers, problems=problems)
    # A server that does not answer is ended. Its shutdown timeout counts twice: to end by itself, and when told to.
    times = (each.connect_timeout + 2 * each.shutdown_timeout for each in servers.values())
    upstream.start_seconds = max(times, default=0.0) + 1

    async def open_browser(url: str) -> None:
        say(f"Sign in with a browser: {url}")
        await to_thread.run_sync(webbrowser.open, url)

    if sys.stdin.isatty():
        upstream.show_sign_in = open_browser
    async with loaded.platform as platform:
        yield platform


def _trust(platform: AgentPlatform, named: str) -> None:
    """Trust a tool, or all withheld tools of a server. Raises `UnknownName`."""
    known, groups = platform.upstream.config.servers, platform.upstream.groups
    server, _, tool = named.partition("/")
    if server not in known:
        raise UnknownName("server", server, known)
    withheld = [tool] if tool else [name for origin, name in groups.withheld() if origin == server]
    for each in withheld:
        groups.trust(server, each)
        say(f"Trusted: {server}/{each}, as it is now.")
    if not withheld:
        say(f"Nothing of {server} is withheld.")


def _opened(workspace: Path) -> LoadedWorkspace:
    loaded = open_with_warnings(workspace)
    for problem in loaded.platform.upstream.config.problems:
        say(f"warning: {problem}")
    return loaded


def _groups(platform: AgentPlatform) -> Iterator[Record]:
    reports = {each.role: each for each in platform.upstream.groups.reports()}
    for role in sorted({*reports, *(each.role for each in platform.groups.groups)}):
        group, report = platform.groups.find(role), reports.get(role)
        theirs = report if report is not None and report.group is group else None
        yield {
            "group": role,
            "state": theirs.status if theirs else "up",
            "tools": len(group.tools) if group else 0,
            "servers": list(theirs.servers) if theirs else [],
            "permissions": sorted(group.permissions) if group else [],
            "published": bool(group and group.exports),
            "provider": group.provider if group else "",
            "version": group.version if group else "",
            "description": group.description if group else "",
            "problem": theirs.why if theirs else "",
        }


def _tools(platform: AgentPlatform) -> Iterator[Record]:
    """The tools of the groups, and the tools that are withheld because nobody has trusted them."""
    config = platform.upstream.config
    pinned = {
        role
        for role, group in platform.upstream.groups.config.items()
        if group.pin or any(config.servers[each].pin for each in group.servers if each in config.servers)
    }
    found = [
        (each.name, group.role, each.approval, "trusted" if group.role in pinned else "", each.description)
        for group in platform.groups.groups
        for each in group.tools
    ]
    for (server, name), reason in platform.upstream.groups.withheld().items():
        described = f"{reason}; now: {platform.upstream.groups.description(server, name)}"
        found.append((f"{server}/{name}", "", "", "withheld", described))
    for name, role, approval, pin, description in found:
        record = {"tool": name, "group": role, "approve": approval, "pin": pin}
        yield {**record, "description": description.partition("\n")[0]}
