"""Tool groups made of upstream servers' tools: filtered by the tools' own names, renamed, and told where names clash.

Live: each look-up sees the tools that can be called now. A server that is down takes its own tools away and no others.
Above: the hub, and whoever resolves roles.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Protocol

from goalport.tools import Approval, Tool, ToolGroup, identity, lower, snake, upper
from goalport.upstream.config import GroupConfig, McpConfig, NamingConfig, ServerConfig
from goalport.upstream.core_roles import CoreRoles
from goalport.upstream.patterns import any_matches, matches
from goalport.upstream.pins import Pins
from goalport.upstream.report import ServerState
from goalport.upstream.section import nearest
from goalport.upstream.tool import UpstreamTool

__all__ = ["LiveGroups", "Origin", "Origins", "final_name"]

_LONGEST: Final = 64
_HASH: Final = 8
_NOT_PORTABLE: Final = re.compile(r"[^A-Za-z0-9_-]")
_STYLES: Final = {"identity": identity, "lower": lower, "upper": upper, "snake": snake}


class Origin(Protocol):
    """A server, as far as groups look at it."""

    @property
    def tools(self) -> Sequence[UpstreamTool]: ...
    @property
    def state(self) -> ServerState: ...
    @property
    def last_error(self) -> str: ...
    @property
    def retry_at(self) -> float: ...


class Origins(Protocol):
    """All servers: the hub."""

    @property
    def config(self) -> McpConfig: ...
    @property
    def servers(self) -> Mapping[str, Origin]: ...


@dataclass(frozen=True)
class _Member:
    """A tool in a group under its final name."""

    server: str
    own_name: str
    tool: Tool


@dataclass(frozen=True)
class _Moment:
    """The groups as they are for as long as no server, list or pin changes."""

    key: object
    groups: tuple[ToolGroup, ...]
    warnings: tuple[str, ...]
    withheld: Mapping[tuple[str, str], str]


@dataclass
class LiveGroups:
    """The groups of a configuration, and the core roles that its servers can play. A `ToolGroupSource`."""

    origins: Origins
    pins: Pins
    _moment: _Moment | None = field(default=None, init=False)
    _core: CoreRoles = field(default_factory=CoreRoles, init=False)

    def groups(self) -> tuple[ToolGroup, ...]:
        """The groups that have a tool to call now, in the order of the configuration."""
        return self._now().groups

    def warnings(self) -> tuple[str, ...]:
        """What is probably not meant: clashes of names, patterns that match nothing, tools that are withheld."""
        return self._now().warnings

    def withheld(self) -> Mapping[tuple[str, str], str]:
        """The tools that are not trusted, by server and own name, with the reason."""
        return self._now().withheld

    def description(self, server: str, tool: str) -> str:
        """What a server says of a tool now, withheld or not, in one line; empty: it does not list it."""
        tools = self.origins.servers[server].tools
        return next((" ".join(each.tool.description.split()) for each in tools if each.name == tool), "")

    def trust(self, server: str, tool: str) -> None:
        """Let a withheld tool be used as it is now. Raises `UnknownName` for one that was never seen."""
        self.pins.trust(server, tool)

    def why_missing(self, role: str) -> str:
        """What keeps a group, or a part of it, from being used; empty: nothing, or the role is not known here."""
        config = self._configs().get(role)
        if config is None:
            return ""
        reasons = [reason for name in config.servers if (reason := self._absence(name))]
        waiting = [f"{server}/{tool}" for server, tool in self.withheld() if server in config.servers]
        if waiting:
            reasons.append(f"Withheld until trusted: {_and(waiting)}.")
        if not reasons and role not in {each.role for each in self.groups()}:
            reasons.append(
                f"None of the tools of {_and(config.servers)} is in it: look at its include and exclude."
                if config.servers
                else "There is no server in mcp_config.json that it could have tools of."
            )
        return " ".join(reasons)

    def _absence(self, name: str) -> str:
        """Why the tools of a server cannot be called now; empty: they can."""
        config = self.origins.config
        server = self.origins.servers.get(name)
        if server is None:
            problem = next((each for each in config.problems if each.server == name), None)
            return (
                f"{problem.message[:1].upper()}{problem.message[1:]}"
                if problem
                else f"There is no server {name!r} in mcp_config.json."
            )
        why = f" ({server.last_error.rstrip('.')})" if server.last_error else ""
        match server.state:
            case ServerState.UP:
                return ""
            case ServerState.DISABLED:
                return f"The server {name!r} is disabled in mcp_config.json: take its `disabled` away."
            case ServerState.CONNECTING:
                return f"The server {name!r} is being connected{why}."
            case ServerState.DOWN:
                seconds = max(0.0, server.retry_at - monotonic())
                return f"The server {name!r} is down{why}; it is tried again {_soon(seconds)}."
            case ServerState.STOPPED:
                return f"The server {name!r} is stopped{why}."

    def _configs(self) -> dict[str, GroupConfig]:
        config = self.origins.config
        return {**config.groups, **self._core.of(config)}

    def _now(self) -> _Moment:
        servers = self.origins.servers
        # The very objects, not their ids: equal at once while they are the same, and never mistaken for later ones.
        states = tuple((name, each.tools, each.state) for name, each in servers.items())
        key = (self.origins.config, states, self.pins.stamp)
        if self._moment is None or self._moment.key != key:
            self._moment = self._look(key)
        return self._moment

    def _look(self, key: object) -> _Moment:
        withheld: dict[tuple[str, str], str] = {}
        for name in self._pinned():
            definitions = [each.definition for each in self.origins.servers[name].tools]
            found = self.pins.withheld(name, definitions)
            withheld |= {(name, tool): reason for tool, reason in found.items()}
        core = self._core.of(self.origins.config)
        made = [_Assembly(each, self.origins, withheld, is_core=each.role in core) for each in self._configs().values()]
        warnings = [
            f"The tool {tool!r} of the server {server!r} is withheld: {reason}. Look at it, and trust it with "
            f"`goalport tools --trust {server}/{tool}`."
            for (server, tool), reason in withheld.items()
        ]
        warnings += [line for each in made for line in each.warnings()]
        groups = tuple(each.group() for each in made if each.usable)
        return _Moment(key, groups, tuple(dict.fromkeys(warnings)), withheld)

    def _pinned(self) -> Iterator[str]:
        """The servers whose tools have to be trusted: by themselves, or for a group."""
        config = self.origins.config
        for name in self.origins.servers:
            server = config.servers.get(name)
            by_group = any(each.pin and name in each.servers for each in config.groups.values())
            if by_group or (server is not None and server.pin):
                yield name


class _Assembly:
    """One group made of the tools that its servers list."""

    def __init__(
        self, config: GroupConfig, origins: Origins, withheld: Mapping[tuple[str, str], str], *, is_core: bool
    ) -> None:
        self._config = config
        self._is_core = is_core
        self._known = {name: origins.servers[name] for name in config.servers if name in origins.servers}
        self._offered = [
            (name, each.tool)
            for name, server in self._known.items()
            for each in sorted(server.tools, key=lambda tool: tool.name)
            if _is_enabled(origins.config.servers.get(name), name, each.name)
        ]
        kept = [each for each in self._offered if self._keeps(*each)]
        members = [_Member(server, tool.name, self._made(server, tool)) for server, tool in kept]
        self._members: dict[str, _Member] = {}
        self._clashes: list[tuple[_Member, _Member]] = []
        for each in members:
            # A name stays with the server that has it first, also while that server is down.
            first = self._members.setdefault(each.tool.name, each)
            if first is not each:
                self._clashes.append((first, each))
        self.usable = tuple(
            each.tool
            for each in self._members.values()
            if self._known[each.server].state is ServerState.UP and (each.server, each.own_name) not in withheld
        )

    def group(self) -> ToolGroup:
        config = self._config
        return ToolGroup(
            config.role,
            self.usable,
            config.description,
            provider=config.provider,
            version=config.version,
            permissions=config.permissions,
            exports=config.exports,
            is_default=self._is_core,
        )

    def warnings(self) -> Iterator[str]:
        """What is probably not meant. Of patterns only when all lists are there to look through."""
        for first, second in self._clashes:
            yield (
                f"Tool group {self._config.role!r}: {first.own_name!r} of the server {first.server!r} and "
                f"{second.own_name!r} of {second.server!r} are both called {first.tool.name!r}; the former is used. "
                "Rename one, or exclude it."
            )
        all_listed = set(self._known) == set(self._config.servers) and all(
            each.state is ServerState.UP for each in self._known.values()
        )
        if all_listed and self._known and not self._is_core:
            yield from self._idle()

    def _idle(self) -> Iterator[str]:
        """A sentence for each pattern that matches nothing."""
        config = self._config
        names = [tool.name for _, tool in self._offered]
        written = {
            "include": config.include,
            "exclude": config.exclude,
            "approve": tuple(config.approve_tools),
        }
        for key, patterns in written.items():
            for pattern in patterns:
                if not any(matches(pattern, server, tool.name) for server, tool in self._offered):
                    yield f"Tool group {config.role!r}: {key} {pattern!r} matches no tool. {_near(pattern, names)}"
        for name in config.naming.rename:
            if name not in names:
                yield f"Tool group {config.role!r}: rename {name!r} is no tool. {_near(name, names)}"

    def _keeps(self, server: str, tool: Tool) -> bool:
        included = not self._config.include or any_matches(self._config.include, server, tool.name)
        return included and not any_matches(self._config.exclude, server, tool.name)

    def _made(self, server: str, tool: Tool) -> Tool:
        return tool.with_name(final_name(tool.name, self._config.naming)).with_approval(self._approval(server, tool))

    def _approval(self, server: str, tool: Tool) -> Approval:
        """What the first pattern that means the tool says, else what the group says."""
        for pattern, approval in self._config.approve_tools.items():
            if matches(pattern, server, tool.name):
                return approval
        return self._config.approve


def final_name(name: str, naming: NamingConfig) -> str:
    """What a tool is called in a group: renamed or in the style, then with prefix and suffix, and fit for every model.

    Models take 64 of `[A-Za-z0-9_-]`; of a longer name the end gives way to a hash of the whole.
    """
    chosen = naming.rename.get(name) or _STYLES[naming.style](name)
    whole = _NOT_PORTABLE.sub("_", f"{naming.prefix}{chosen}{naming.suffix}")
    if len(whole) <= _LONGEST:
        return whole
    return f"{whole[: _LONGEST - _HASH - 1]}_{hashlib.sha256(whole.encode()).hexdigest()[:_HASH]}"


def _is_enabled(server: ServerConfig | None, name: str, tool: str) -> bool:
    if server is None:
        return True
    enabled = not server.enabled_tools or any_matches(server.enabled_tools, name, tool)
    return enabled and not any_matches(server.disabled_tools, name, tool)


def _soon(seconds: float) -> str:
    return f"in {seconds:.0f} s" if seconds >= 1 else "at once"


def _near(pattern: str, names: Iterable[str]) -> str:
    return nearest(pattern.strip("*?"), sorted(names))


def _and(names: Iterable[str]) -> str:
    return ", ".join(names)
