"""Tool groups made of upstream servers' tools: filtered by the tools' own names, renamed, and told where names clash.

Live: each look-up sees the tools that can be called now. A server that is down takes its own tools away and no others.
Above: the hub, and whoever resolves roles.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from goalport.errors import ToolError
from goalport.tools import Approval, Tool, ToolGroup, ToolResult, identity, lower, snake, upper
from goalport.upstream.config import GroupConfig, McpConfig, NamingConfig, ServerConfig
from goalport.upstream.core_roles import CoreRoles
from goalport.upstream.patterns import any_matches, matches
from goalport.upstream.pins import Pins
from goalport.upstream.report import ServerState, absence_of
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
    listed: UpstreamTool
    tool: Tool

    @property
    def own_name(self) -> str:
        return self.listed.name

    @property
    def place(self) -> tuple[str, str]:
        return self.server, self.listed.name


@dataclass(frozen=True)
class _Moment:
    """The groups as they are for as long as no server, list or pin changes."""

    key: object
    groups: tuple[ToolGroup, ...]
    absent: Mapping[str, tuple[Tool, ...]]
    warnings: tuple[str, ...]
    withheld: Mapping[tuple[str, str], str]


@dataclass
class LiveGroups:
    """The groups of a configuration, and the core roles that its servers can play. A `ToolGroupSource`."""

    origins: Origins
    pins: Pins
    _moment: _Moment | None = field(default=None, init=False)
    _core: CoreRoles = field(default_factory=CoreRoles, init=False)
    _assemblies: "Mapping[str, _Assembly]" = field(default_factory=dict[str, "_Assembly"], init=False)

    def groups(self) -> tuple[ToolGroup, ...]:
        """The groups that have a tool to call now, in the order of the configuration."""
        return self._now().groups

    def absent(self) -> Mapping[str, tuple[Tool, ...]]:
        """The tools of groups, by role, that cannot be called now; calling one says why."""
        return self._now().absent

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
        return absence_of(name, server.state, server.retry_at)

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
        pinned = self._pinned()
        for name in pinned:
            prints = {each.name: each.fingerprint for each in self.origins.servers[name].tools}
            found = self.pins.withheld(name, prints)
            withheld |= {(name, tool): reason for tool, reason in found.items()}
        core = self._core.of(self.origins.config)
        guards: dict[str, Guard] = {name: partial(self._guard, name) for name in pinned}
        before = self._assemblies
        made = [
            _Assembly(each, self.origins, withheld, before.get(each.role), is_core=each.role in core, guards=guards)
            for each in self._configs().values()
        ]
        self._assemblies = {each.role: each for each in made}
        warnings = [
            f"The tool {tool!r} of the server {server!r} is withheld: {reason}. Look at it, and trust it with "
            f"`goalport tools --trust {server}/{tool}`."
            for (server, tool), reason in withheld.items()
        ]
        warnings += [line for each in made for line in each.warnings()]
        groups = tuple(each.group() for each in made if each.usable)
        absent = {each.role: each.absent for each in made if each.absent}
        return _Moment(key, groups, absent, tuple(dict.fromkeys(warnings)), withheld)

    def _pinned(self) -> list[str]:
        """The servers whose tools have to be trusted: by themselves, or for a group."""
        config = self.origins.config
        by_groups = {name for each in config.groups.values() if each.pin for name in each.servers}
        by_themselves = {name for name, each in config.servers.items() if each.pin}
        return [each for each in self.origins.servers if each in by_groups | by_themselves]

    def _guard(self, server: str, own_name: str) -> str:
        listed = self.origins.servers[server].tools if server in self.origins.servers else ()
        now = next((each for each in listed if each.name == own_name), None)
        return "" if now is None else self.pins.doubt(server, own_name, now.fingerprint)


Guard = Callable[[str], str]
"""Why a tool must not be called now, by its own name, whatever was so when it was published; empty: it may."""


@dataclass(frozen=True, slots=True)
class _Guarded:
    """The handler of a tool whose server is pinned, which looks at each call whether the tool is still trusted."""

    tool: Tool
    own_name: str
    guard: Guard

    def renamed(self, name: str) -> "_Guarded":
        return replace(self, tool=self.tool.with_name(name))

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        if reason := self.guard(self.own_name):
            raise ToolError(f"{self.tool.name} is withheld until somebody trusts it: {reason}. Do without it.")
        return await self.tool.handler(arguments)


class _Assembly:
    """One group made of the tools that its servers list; what is as it was `before` is taken from there."""

    def __init__(
        self,
        config: GroupConfig,
        origins: Origins,
        withheld: Mapping[tuple[str, str], str],
        before: "_Assembly | None",
        *,
        is_core: bool,
        guards: Mapping[str, Guard],
    ) -> None:
        self.role = config.role
        self.servers = origins.config.servers
        self._config = config
        self._is_core = is_core
        self._guards = guards
        self._known = {name: origins.servers[name] for name in config.servers if name in origins.servers}
        # Of another configuration nothing holds: neither the names nor who has them.
        before = before if before is not None and before.servers is self.servers else None
        self._offered = [
            (name, each)
            for name, server in self._known.items()
            for each in sorted(server.tools, key=lambda tool: tool.name)
            if _is_enabled(self.servers.get(name), name, each.name)
        ]
        kept = [(server, each) for server, each in self._offered if self._keeps(server, each.name)]
        made = before.made if before else {}
        self.made = {(server, each.name): self._made(server, each, made) for server, each in kept}
        self.members: dict[str, _Member] = {}
        """Who has which name, also while the server is down."""
        self._clashes: list[tuple[_Member, _Member]] = []
        for member in self.made.values():
            self._settle(member, before.members if before else {})
        self.usable = tuple(each.tool for each in self.members.values() if self._is_usable(each, withheld))
        self.absent = tuple(each.tool for each in self.members.values() if not self._is_usable(each, withheld))

    def _settle(self, member: _Member, before: Mapping[str, _Member]) -> None:
        """A name stays with the server that had it before, and else goes to the first that has it."""
        name = member.tool.name
        first = self.members.setdefault(name, member)
        if first is not member:
            if name in before and before[name].place == member.place:
                self.members[name], first, member = member, member, first
            self._clashes.append((first, member))

    def _is_usable(self, member: _Member, withheld: Mapping[tuple[str, str], str]) -> bool:
        return self._known[member.server].state is ServerState.UP and member.place not in withheld

    def _made(self, server: str, listed: UpstreamTool, before: Mapping[tuple[str, str], _Member]) -> _Member:
        """The tool as the group has it: the same object as before, while the server says the same of it."""
        known = before.get((server, listed.name))
        if known is not None and known.listed is listed:
            return known
        tool = listed.named(partial(final_name, naming=self._config.naming))
        tool = tool.with_approval(self._approval(server, listed.name))
        if guard := self._guards.get(server):
            tool = replace(tool, handler=_Guarded(tool, listed.name, guard))
        return _Member(server, listed, tool)

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
        names = [each.name for _, each in self._offered]
        written = {
            "include": config.include,
            "exclude": config.exclude,
            "approve": tuple(config.approve_tools),
        }
        for key, patterns in written.items():
            for pattern in patterns:
                if not any(matches(pattern, server, each.name) for server, each in self._offered):
                    yield f"Tool group {config.role!r}: {key} {pattern!r} matches no tool. {_near(pattern, names)}"
        for name in config.naming.rename:
            if name not in names:
                yield f"Tool group {config.role!r}: rename {name!r} is no tool. {_near(name, names)}"

    def _keeps(self, server: str, name: str) -> bool:
        included = not self._config.include or any_matches(self._config.include, server, name)
        return included and not any_matches(self._config.exclude, server, name)

    def _approval(self, server: str, name: str) -> Approval:
        """What the first pattern that means the tool says, else what the group says."""
        for pattern, approval in self._config.approve_tools.items():
            if matches(pattern, server, name):
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


def _near(pattern: str, names: Iterable[str]) -> str:
    return nearest(pattern.strip("*?"), sorted(names))


def _and(names: Iterable[str]) -> str:
    return ", ".join(names)
