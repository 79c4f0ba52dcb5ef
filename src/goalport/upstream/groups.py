"""The tool groups made of upstream servers' tools, as they are now: what can be called, what cannot, and why.

Each look-up sees the tools that can be called at that moment. A server that is down takes away its own tools and no
others. `servers` owns the connections; `live_group` makes one group; whoever resolves roles is above.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from goalport.tools import Tool, ToolGroup
from goalport.upstream.config import GroupConfig
from goalport.upstream.core_roles import CoreRoles
from goalport.upstream.live_group import Guard, LiveGroup, ToolServers
from goalport.upstream.pins import Pins
from goalport.upstream.report import GroupReport, why_unavailable
from goalport.words import listed

__all__ = ["UpstreamGroups"]


@dataclass(frozen=True)
class _Snapshot:
    """The groups as they are for as long as no server, list or pin changes."""

    key: object = None
    groups: tuple[ToolGroup, ...] = ()
    absent: Mapping[str, tuple[Tool, ...]] = field(default_factory=dict[str, tuple[Tool, ...]])
    warnings: tuple[str, ...] = ()
    withheld: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    live: Mapping[str, LiveGroup] = field(default_factory=dict[str, LiveGroup])
    """By role, to begin the next snapshot with."""


class UpstreamGroups:
    """The groups of a configuration, and the core roles that its servers can play. A `ToolGroupSource`.

    While the servers are not connected, it has the groups' configuration and no tools.
    """

    def __init__(self, servers: ToolServers, pins: Pins) -> None:
        self._servers = servers
        self._pins = pins
        self._core = CoreRoles()
        self._snapshot = _Snapshot()

    @property
    def config(self) -> Mapping[str, GroupConfig]:
        """The groups by role: those of the configuration, and the core roles that its servers play by themselves."""
        config = self._servers.config
        return {**config.groups, **self._core.of(config)}

    def groups(self) -> tuple[ToolGroup, ...]:
        """The groups that have a tool to call now, in the order of the configuration."""
        return self._current().groups

    def absent(self) -> Mapping[str, tuple[Tool, ...]]:
        """The tools of groups, by role, that cannot be called now; calling one raises `ToolError` with the reason."""
        return self._current().absent

    def warnings(self) -> tuple[str, ...]:
        """What is probably not meant: clashes of names, patterns that match nothing, tools that are withheld."""
        return self._current().warnings

    def reports(self) -> Iterator[GroupReport]:
        """The state of each group."""
        usable = {each.role: each for each in self.groups()}
        for role, config in self.config.items():
            group, why = usable.get(role), self.why_missing(role)
            status = "down" if group is None else "degraded" if why else "up"
            yield GroupReport(role, status, config.servers, group, why)

    def withheld(self) -> Mapping[tuple[str, str], str]:
        """The tools that are not trusted, by server and own name, with the reason."""
        return self._current().withheld

    def description(self, server: str, tool: str) -> str:
        """What a server says of a tool now, withheld or not, in one line; empty: it does not list it."""
        tools = self._servers.servers[server].tools
        return next((" ".join(each.tool.description.split()) for each in tools if each.name == tool), "")

    def trust(self, server: str, tool: str) -> None:
        """Let a withheld tool be used as it is now. Raises `UnknownName` for one that was never seen."""
        self._pins.trust(server, tool)

    def expects(self, role: str) -> bool:
        """Whether a group is configured whose tools are not known yet, because no server is connected."""
        return not self._servers.connected and role in self.config

    def why_missing(self, role: str) -> str:
        """What keeps a group, or a part of it, from being used; empty: nothing, or the role is not known here."""
        config = self.config.get(role)
        if config is None:
            return ""
        if not self._servers.connected:
            return "The upstream servers are not connected: enter the platform with `async with`."
        reasons = [reason for name in config.servers if (reason := self._why_unavailable(name))]
        waiting = [f"{server}/{tool}" for server, tool in self.withheld() if server in config.servers]
        if waiting:
            reasons.append(f"Withheld until trusted: {listed(waiting)}.")
        if not reasons and role not in {each.role for each in self.groups()}:
            reasons.append(
                f"None of the tools of {listed(config.servers)} is in it: look at its include and exclude."
                if config.servers
                else "There is no server in mcp_config.json that it could have tools of."
            )
        return " ".join(reasons)

    def _why_unavailable(self, name: str) -> str:
        """Why the tools of a server cannot be called now; empty: they can."""
        server = self._servers.servers.get(name)
        if server is not None:
            return why_unavailable(name, server.state, server.retry_at)
        problem = next((each for each in self._servers.config.problems if each.server == name), None)
        if problem is None:
            return f"There is no server {name!r} in mcp_config.json."
        return f"{problem.message[:1].upper()}{problem.message[1:]}"

    def _current(self) -> _Snapshot:
        if not self._servers.connected:
            self._snapshot = _Snapshot()
            return self._snapshot
        # The very objects, not their ids: equal at once while they are the same, and never mistaken for later ones.
        states = tuple((name, each.tools, each.state) for name, each in self._servers.servers.items())
        key = (self._servers.config, states, self._pins.stamp)
        if self._snapshot.key != key:
            self._snapshot = self._taken(key)
        return self._snapshot

    def _taken(self, key: object) -> _Snapshot:
        pinned = self._pinned()
        withheld = {(name, tool): reason for name in pinned for tool, reason in self._untrusted(name).items()}
        guards: dict[str, Guard] = {name: partial(self._why_untrusted, name) for name in pinned}
        core, before = self._core.of(self._servers.config), self._snapshot.live
        live = [
            LiveGroup(each, self._servers, withheld, before.get(role), is_core=role in core, guards=guards)
            for role, each in self.config.items()
        ]
        warnings = [
            f"The tool {tool!r} of the server {server!r} is withheld: {reason}. Look at it, and trust it with "
            f"`goalport tools --trust {server}/{tool}`."
            for (server, tool), reason in withheld.items()
        ]
        warnings += [line for each in live for line in each.warnings()]
        return _Snapshot(
            key,
            tuple(each.group() for each in live if each.usable),
            {each.role: each.absent for each in live if each.absent},
            tuple(dict.fromkeys(warnings)),
            withheld,
            {each.role: each for each in live},
        )

    def _pinned(self) -> list[str]:
        """The servers whose tools have to be trusted: by themselves, or for a group."""
        config = self._servers.config
        by_groups = {name for each in config.groups.values() if each.pin for name in each.servers}
        by_themselves = {name for name, each in config.servers.items() if each.pin}
        return [each for each in self._servers.servers if each in by_groups | by_themselves]

    def _untrusted(self, server: str) -> Mapping[str, str]:
        """The tools of a pinned server that are not trusted, by own name, with the reason."""
        return self._pins.withheld(
            server, {each.name: each.fingerprint for each in self._servers.servers[server].tools}
        )

    def _why_untrusted(self, server: str, own_name: str) -> str:
        """Why a tool must not be called now, whatever was so when it was published; empty: it may."""
        listed = self._servers.servers[server].tools if server in self._servers.servers else ()
        now = next((each for each in listed if each.name == own_name), None)
        return "" if now is None else self._pins.why_untrusted(server, own_name, now.fingerprint)
