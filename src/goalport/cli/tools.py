"""`goalport tools`: lists tool groups, their servers and their tools under their final names, and calls a tool.

Below the program; platform and publish are below it.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
from cyclopts import App, Parameter

from goalport.cli.options import WorkspaceFolder, object_of
from goalport.cli.terminal import Format, Record, say, show, show_result
from goalport.cli.upstream import Timeout, connected
from goalport.cli.workspace import LoadedWorkspace, open_with_warnings
from goalport.errors import ToolError, UnknownName
from goalport.platform import AgentPlatform
from goalport.publish.exported_tools import FunctionTool
from goalport.publish.output import Wire
from goalport.tools import Tool
from goalport.upstream import GroupConfig
from goalport.upstream.calls import call_hooks

DONE, FAILED = 0, 1

app = App(
    name="tools",
    help_format="plaintext",
    help_epilogue="""\
Examples:
  goalport tools
  goalport tools --format json
  goalport tools --trust github/create_issue
  goalport tools call web web_fetch '{"url": "https://example.com"}'""",
)


@app.default
def tools(
    *,
    format: Format = "text",  # noqa: A002 - the option's name
    trust: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="SERVER/TOOL or SERVER: allow a withheld tool, or all of a server, as they are now.",
        ),
    ] = (),
    timeout: Timeout = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List tool groups, upstream servers, and the tools of the groups; or trust tools that are withheld.

    The servers are connected for it.
    """
    loaded = _opened(workspace)
    anyio.run(_list, loaded, format, trust, timeout)


@app.command
def call(
    group: Annotated[str, Parameter(help="The role of the group.")],
    tool: Annotated[str, Parameter(help="The tool's name in the group.")],
    arguments: Annotated[str, Parameter(help="A JSON object, @FILE to read one, or @- for standard input.")] = "{}",
    /,
    *,
    structured: Annotated[
        bool, Parameter(name="--json", negative="", help="Print the result as structured data.", show_default=False)
    ] = False,
    timeout: Timeout = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Call a tool of a group and print its result.

    Exit codes: 0 success, 1 the tool failed or its group cannot be used, 2 wrong usage.
    """
    given = object_of(arguments, "The argument")
    wire = anyio.run(partial(_call, _opened(workspace), group, tool, timeout, given))
    show_result(wire, structured=structured)
    return FAILED if wire.get("isError") else DONE


def _opened(workspace: Path) -> LoadedWorkspace:
    loaded = open_with_warnings(workspace)
    for problem in loaded.platform.upstream.config.problems:
        say(f"warning: {problem}")
    return loaded


async def _list(loaded: LoadedWorkspace, chosen: Format, trusted: tuple[str, ...], seconds: float | None) -> None:
    async with connected(loaded, seconds) as platform:
        for each in trusted:
            _trust(platform, each)
        for warning in platform.upstream.groups.warnings():
            say(f"warning: {warning}")
        found = {
            "groups": list(_groups(platform)),
            "servers": list(_servers(platform)),
            "tools": [*_tools(platform), *_withheld(platform)],
        }
    if chosen == "json":
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for kind, records in found.items():
        say(f"{kind.capitalize()}:")
        show(records, chosen, none="  none")
        say("")


def _trust(platform: AgentPlatform, named: str) -> None:
    """Trust a tool, or all withheld tools of a server. Raises `UnknownName`."""
    upstream = platform.upstream
    server, _, tool = named.partition("/")
    if server not in upstream.config.servers:
        raise UnknownName("server", server, upstream.config.servers)
    withheld = [name for origin, name in upstream.groups.withheld() if origin == server]
    for each in [tool] if tool else withheld:
        upstream.groups.trust(server, each)
        say(f"Trusted: {server}/{each}, as it is now.")
    if not tool and not withheld:
        say(f"Nothing of {server} is withheld.")


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


def _servers(platform: AgentPlatform) -> Iterator[Record]:
    for each in platform.upstream.reports():
        yield {
            "server": each.name,
            "state": str(each.state),
            "transport": each.transport,
            "place": each.address,
            "protocol": each.protocol,
            "tools": each.tools,
            "last_error": each.last_error,
            "notes": list(each.notes),
        }


def _tools(platform: AgentPlatform) -> Iterator[Record]:
    pinned = {role for role, group in platform.upstream.config.groups.items() if _is_pinned(platform, group)}
    for group in platform.groups.groups:
        for tool in group.tools:
            pin = "trusted" if group.role in pinned else ""
            yield _tool_record(tool.name, group.role, tool.approval, pin, tool.description)


def _withheld(platform: AgentPlatform) -> Iterator[Record]:
    groups = platform.upstream.groups
    for (server, name), reason in groups.withheld().items():
        described = f"{reason}; now: {groups.description(server, name)}"
        yield _tool_record(f"{server}/{name}", "", "", "withheld", described)


def _tool_record(name: str, group: str, approval: str, pin: str, description: str) -> Record:
    return {
        "tool": name,
        "group": group,
        "approve": approval,
        "pin": pin,
        "description": description.partition("\n")[0],
    }


def _is_pinned(platform: AgentPlatform, group: GroupConfig) -> bool:
    servers = platform.upstream.config.servers
    return group.pin or any(servers[each].pin for each in group.servers if each in servers)


async def _call(
    loaded: LoadedWorkspace,
    role: str,
    name: str,
    seconds: float | None,
    arguments: Mapping[str, Any],
) -> Wire:
    async with connected(loaded, seconds) as platform:
        with call_hooks(progress=_tell):
            return await FunctionTool.of(_tool(platform, role, name)).call(dict(arguments), tells_errors=True)


async def _tell(progress: float, total: float | None, message: str | None) -> None:
    say(f"{progress:g}{'' if total is None else f'/{total:g}'} {message or ''}".rstrip())


def _tool(platform: AgentPlatform, role: str, name: str) -> Tool:
    group = platform.groups.find(role)
    if group is None:
        if why := platform.groups.why_missing(role):
            raise ToolError(f"The tool group {role!r} cannot be used now. {why}")
        raise UnknownName("tool group", role, [each.role for each in platform.groups.groups])
    found = {each.name: each for each in group.tools}
    if name not in found:
        raise UnknownName("tool", name, found)
    # Typing the call is the person's approval.
    return found[name].with_approval("never")
