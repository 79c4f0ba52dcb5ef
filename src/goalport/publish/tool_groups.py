"""What a server says of its tool groups and of the upstream servers behind them: at start, and in `/health`.

Nothing here tells a secret. `report` is above, and the health page of `site`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from goalport.platform import AgentPlatform, UpstreamServers
from goalport.publish.texts import counted, one_line
from goalport.tools import Tool

__all__ = ["groups_in_words", "groups_of", "servers_of", "switched_off"]


@dataclass(frozen=True, slots=True)
class _State:
    """A group as people are told of it."""

    role: str
    status: str
    tools: tuple[Tool, ...]
    exports: bool
    why: str = ""


def groups_of(platform: AgentPlatform) -> dict[str, Any]:
    """Each tool group by role: whether it can be used, and how many tools it has. What is wrong stands in the log."""
    return {each.role: {"status": each.status, "tools": len(each.tools)} for each in _states(platform)}


def servers_of(platform: AgentPlatform) -> dict[str, Any]:
    """Each upstream server by name: how it is reached, and how it is; none of what it says, which may hold a secret."""
    return {
        each.name: {
            "status": each.state,
            "transport": each.transport,
            "protocol": each.protocol or None,
            "tools": each.tools,
            "calls": each.calls,
            "failures": each.failures,
        }
        for each in platform.upstream.reports()
    }


def groups_in_words(platform: AgentPlatform) -> Iterator[str]:
    """A line for each tool group, and one for each upstream server."""
    for each in _states(platform):
        exported = ", published" if each.exports else ""
        why = "" if each.status == "up" else f". {one_line(each.why)}"
        yield f"tool group {each.role}: {each.status}, {counted(len(each.tools), 'tool')}{exported}{why}"
    for server in platform.upstream.reports():
        said = f", {server.protocol}, {counted(server.tools, 'tool')}" if server.protocol else ""
        why = f": {one_line(server.last_error)}" if server.last_error else ""
        yield f"upstream server {server.name}: {server.state}{said}{why}"


def _states(platform: AgentPlatform) -> Iterator[_State]:
    """Each role that somebody plays or should, by name; what is built in is no news to anybody."""
    found: dict[str, _State] = {}
    reports = {each.role: each for each in platform.upstream.groups.reports()}
    for group in platform.groups.groups:
        report = reports.get(group.role)
        if report is not None and report.group is group:
            found[group.role] = _State(group.role, report.status, group.tools, group.exports, report.why)
        elif not group.is_default:
            found[group.role] = _State(group.role, "up", group.tools, group.exports)
    for role, report in reports.items():
        if platform.groups.find(role) is None:
            found[role] = _State(role, report.status, (), exports=False, why=report.why)
    return iter([found[role] for role in sorted(found)])


def switched_off(upstream: UpstreamServers) -> Iterator[str]:
    """A sentence for each group all of whose servers are disabled: it only has to be wanted."""
    servers = upstream.config.servers
    for role, group in upstream.groups.config.items():
        known = [servers[name] for name in group.servers if name in servers]
        if known and all(each.disabled for each in known):
            names = ", ".join(repr(each.name) for each in known)
            yield f"tool group {role}: not ready. In mcp_config.json, take the `disabled` of {names} away."
