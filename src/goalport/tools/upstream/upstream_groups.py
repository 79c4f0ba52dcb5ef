"""The tool groups made of upstream servers' tools: which tools can be called now, which cannot, and why.

Each look-up returns the tools that can be called at that moment. If a server is down, only its tools are missing.
Tools are filtered by their servers' names for them, then renamed; a warning reports clashes of names. `servers` owns
the connections; the resolver of roles is above.

Some groups exist without a declaration: one for each server that no group names, and the core roles web, maps,
browser_automation and github (User guide, section 3.24.1). Servers for core roles are recognized by words in their
names, packages and hosts, and their tools by patterns, since lists of names become outdated.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import PurePosixPath
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from goalport.base.errors import ToolError
from goalport.base.words import listed, offer
from goalport.tools import NAMING_STYLES, CoreToolGroups, Permission, Tool, ToolGroup, ToolResult
from goalport.tools.upstream.config import GroupConfig, McpConfig, NamingConfig, ServerConfig
from goalport.tools.upstream.connection import Listing
from goalport.tools.upstream.tool import Pins, UpstreamTool
from goalport.tools.upstream.upstream_server import ServerState, why_unavailable

_GATEWAYS: Final = (("docker", "mcp"), ("mcp", "docker"), ("mcp", "gateway"))
"""Words in names of gateways, which offer the tools of many servers, such as that of Docker's MCP Toolkit."""


@dataclass(frozen=True)
class _Kind:
    """Servers of one kind: words in their names, and patterns of their tools that belong to a core role."""

    words: tuple[str, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    in_gateway: tuple[str, ...] | None = None
    """Patterns of the tools of a gateway; None: the same as `include`."""


_WIKIPEDIA: Final = ("search_wikipedia", "get_article", "get_summary", "get_related_topics")
_MAPS: Final = ("maps_*", "*geocode*", "*place*", "*direction*", "*route*", "*distance*", "*elevation*")
_ROLES: Final[Mapping[str, tuple[str, list[_Kind]]]] = {
    CoreToolGroups.WEB: (
        CoreToolGroups.WEB_DESCRIPTION,
        [
            # A limit on the rate of local search would stop the other searches too.
            _Kind(("brave",), ("brave_*",), ("brave_local_search", "brave_place_search")),
            _Kind(("fetch",), ("fetch*", "*_fetch")),
            _Kind(("wikipedia",), (*_WIKIPEDIA, "wikipedia_*", "wiki_*"), ("*connectivity*",), _WIKIPEDIA),
            _Kind(("tavily",), ("tavily*search", "tavily*extract")),
            _Kind(("duckduckgo",), ("*search*", "fetch_content"), (), ("duckduckgo*", "fetch_content")),
            _Kind(("exa",), ("web_search_exa", "crawling_exa", "*_exa")),
            _Kind(("searxng",), ("*search*", "*url_read*"), (), ("searxng*",)),
        ],
    ),
    CoreToolGroups.MAPS: (CoreToolGroups.MAPS_DESCRIPTION, [_Kind(("maps",), _MAPS, (), ("maps_*",))]),
    CoreToolGroups.BROWSER_AUTOMATION: (
        CoreToolGroups.BROWSER_AUTOMATION_DESCRIPTION,
        [
            _Kind(("playwright",), ("browser_*", "playwright_*"), ("browser_install",)),
            _Kind(("puppeteer",), ("puppeteer_*",)),
        ],
    ),
    CoreToolGroups.GITHUB: (
        CoreToolGroups.GITHUB_DESCRIPTION,
        # Merging and deleting cannot be undone; assigning an agent starts other work.
        [_Kind(("github",), ("*issue*", "*pull_request*"), ("merge_*", "delete_*", "*copilot*"))],
    ),
}


def core_groups(config: McpConfig) -> dict[str, GroupConfig]:
    """The groups of core roles that servers of this configuration can fill, except roles that it declares.

    Disabled servers are used if there are no others, so that a report can say that they have to be enabled.
    """
    found: dict[str, GroupConfig] = {}
    for role in _ROLES:
        for disabled in (False, True) if role not in config.groups else ():
            group = _core_group(role, [each for each in config.servers.values() if each.disabled is disabled])
            if group.servers:
                found.setdefault(role, group)
    return found


def _core_group(role: str, servers: list[ServerConfig]) -> GroupConfig:
    description, kinds = _ROLES[role]
    group = GroupConfig(role, (), description, permissions=frozenset({Permission.INTERNET_ACCESS}), provider="core")
    for server in servers:
        names = [server.name]
        if server.transport == "stdio":
            names.append(PurePosixPath(server.command.replace("\\", "/")).name)
            # Arguments may be the name of a package or an image; paths and options are not.
            named = [each for each in server.args if re.fullmatch(r"@?[a-z][\w.@/:~-]*", each, re.IGNORECASE)]
            names.append(" ".join(each for each in named if "=" not in each and not re.match(r"[A-Za-z]:[\\/]", each)))
        else:
            parts = urlsplit(server.url)
            names += [parts.hostname or "", parts.path]
        words = tuple(tuple(re.findall(r"[a-z0-9]+", each.lower())) for each in names)
        is_gateway = any(_contains(words, each) for each in _GATEWAYS)
        for kind in kinds:
            if is_gateway or any(_contains(words, (word,)) for word in kind.words):
                include = kind.include if kind.in_gateway is None or not is_gateway else kind.in_gateway
                group = replace(
                    group,
                    servers=tuple(dict.fromkeys((*group.servers, server.name))),
                    include=(*group.include, *(f"{server.name}/{each}" for each in include)),
                    exclude=(*group.exclude, *(f"{server.name}/{each}" for each in kind.exclude)),
                )
    return group


def _contains(names: tuple[tuple[str, ...], ...], words: tuple[str, ...]) -> bool:
    """Whether one of the names contains these words in sequence."""
    length = len(words)
    return any(name[at : at + length] == words for name in names for at in range(len(name) - length + 1))


_LONGEST: Final = 64
"""The longest name of a tool that all model providers accept."""
_HASH_CHARACTERS: Final = 8
_NOT_PORTABLE: Final = re.compile(r"[^A-Za-z0-9_-]")


class ToolServer(Protocol):
    """The part of an `UpstreamServer` that groups use."""

    name: str
    tools: tuple[UpstreamTool, ...]
    reader: UpstreamTool | None
    listing: Listing
    state: ServerState
    retry_at: float
    sign_in: Tool

    async def fetch(
        self, kind: Literal["resource", "prompt"], name: str, arguments: Mapping[str, str], /
    ) -> ToolResult: ...


class ToolServers(Protocol):
    """The part of `UpstreamServers` that groups use."""

    @property
    def config(self) -> McpConfig: ...
    @property
    def connected(self) -> bool: ...
    @property
    def servers(self) -> Mapping[str, ToolServer]: ...


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A group of upstream tools at one moment."""

    role: str
    status: Literal["up", "degraded", "down", "disabled"]
    """up: nothing is missing; degraded: a part is; down: no tool can be called; disabled: all its servers are."""
    servers: tuple[str, ...]
    group: ToolGroup | None
    """The tools that can be called; None: no tool can be."""
    why: str
    """What is wrong, in sentences without secrets; empty: nothing."""


_Member = tuple[UpstreamTool, Tool]
"""A tool of a server, and the `Tool` with its name in a group."""


class LiveGroup:
    """One group, made of the tools that its servers list now.

    Tools that have not changed since `before`, the group's previous version, are the same objects. `guards` has, for
    each pinned server, a function that says why a tool is not trusted. `withheld` has the reasons for untrusted tools,
    by server and the server's name of the tool.
    """

    def __init__(
        self,
        config: GroupConfig,
        servers: ToolServers,
        withheld: Mapping[tuple[str, str], str],
        before: "LiveGroup | None",
        *,
        is_core: bool,
        guards: Mapping[str, Callable[[str], str]],
    ) -> None:
        self.config, self.configs, self._is_core = config, servers.config.servers, is_core
        self._servers = {name: servers.servers[name] for name in config.servers if name in servers.servers}
        self._offered = [
            each
            for name, server in self._servers.items()
            for each in sorted(server.tools, key=lambda tool: tool.name)
            if name not in self.configs
            or _selects(each, self.configs[name].enabled_tools, self.configs[name].disabled_tools)
        ]
        kept = [each for each in self._offered if _selects(each, config.include, config.exclude)]
        readers = (each.reader for each in self._servers.values() if config.resources)
        self._readers = [each for each in readers if each is not None]
        # After a change of the configuration, names are assigned anew.
        same = before if before is not None and before.configs is self.configs else None
        made = same.made if same else {}
        self.made: dict[tuple[str, str], _Member] = {}
        for each in (*kept, *self._readers):
            known = made.get(each.key)
            if known is None or known[0] is not each:
                known = each, self._tool(each, guards.get(each.server))
            self.made[each.key] = known
        had = same.members if same else {}
        self.members: dict[str, _Member] = {}
        """The tools by their names in the group, also tools of servers that are down."""
        self._clashes: list[tuple[_Member, _Member]] = []
        for member in self.made.values():
            # If two tools have the same name, the tool that had it before keeps it, else the first one gets it.
            name, second = member[1].name, member
            first = self.members.setdefault(name, second)
            if first is not second:
                if name in had and had[name][0].key == second[0].key:
                    self.members[name], first, second = second, second, first
                self._clashes.append((first, second))
        found: dict[bool, list[Tool]] = {True: [], False: []}
        for each, tool in self.members.values():
            found[self._servers[each.server].state.callable and each.key not in withheld].append(tool)
        self.usable, self.absent = tuple(found[True]), tuple(found[False])

    def _tool(self, listed: UpstreamTool, why_untrusted: Callable[[str], str] | None) -> Tool:
        """The tool with its name in the group. If its server is pinned, each call checks that it is still trusted."""
        ways, approval = dict(self.config.approve), self.config.approve.get("*", "never")
        for pattern in reversed(ways):
            # The first pattern that matches is used, and `*` only if no other does.
            approval = ways[pattern] if pattern != "*" and matches(pattern, *listed.key) else approval
        tool = listed.named(partial(final_name, naming=self.config.naming)).with_approval(approval)
        if why_untrusted is None:
            return tool

        async def call(inside: Tool, arguments: Mapping[str, object]) -> ToolResult:
            if reason := why_untrusted(listed.name):
                raise ToolError(f"{inside.name} is withheld until somebody trusts it: {reason}. Do without it.")
            return await inside.handler(arguments)

        return tool.with_layer(call)

    def group(self) -> ToolGroup:
        config = self.config
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
        """Probable mistakes; patterns are checked only while all servers of the group are up."""
        config, group = self.config, f"Tool group {self.config.role!r}"
        for (first, tool), (second, _) in self._clashes:
            yield (
                f"{group}: {first.name!r} of the server {first.server!r} and {second.name!r} of {second.server!r} are "
                f"both called {tool.name!r}; the former is used. Rename one, or exclude it."
            )
        are_up = self._servers and all(each.state is ServerState.UP for each in self._servers.values())
        if self._is_core or not are_up or set(self._servers) != set(config.servers):
            return
        offered = [*self._offered, *self._readers]
        names = sorted(each.name for each in offered)
        written = {"include": config.include, "exclude": config.exclude}
        asked = {"approve": [each for each in config.approve if each != "*"]}
        lines = (*_unmatched(written, self._offered), *_unmatched(asked, offered))
        yield from (f"{group}: {each}" for each in lines)
        for name in config.naming.rename:
            if name not in names:
                yield f"{group}: rename {name!r} is no tool. {offer(name.strip('*?'), names)}"

    def reads_unasked(self, server: str) -> bool:
        """Whether the group has the resources of a server, and reading them needs no approval."""
        return any(each.server == server and not self.made[each.key][1].may_ask for each in self._readers)


def final_name(name: str, naming: NamingConfig) -> str:
    """The name of a tool in a group: by `rename` or `style`, with prefix and suffix, and valid for all model providers.

    Providers accept 64 characters of `[A-Za-z0-9_-]`; the end of a longer name is replaced by a hash of all of it.
    """
    chosen = naming.rename.get(name) or NAMING_STYLES[naming.style](name)
    whole = _NOT_PORTABLE.sub("_", f"{naming.prefix}{chosen}{naming.suffix}")
    if len(whole) <= _LONGEST:
        return whole
    return f"{whole[: _LONGEST - _HASH_CHARACTERS - 1]}_{hashlib.sha256(whole.encode()).hexdigest()[:_HASH_CHARACTERS]}"


def _selects(tool: UpstreamTool, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Whether a tool matches a pattern of `include` (no pattern: every tool does) and none of `exclude`."""
    included = not include or any(matches(each, *tool.key) for each in include)
    return included and not any(matches(each, *tool.key) for each in exclude)


def matches(pattern: str, server: str, name: str) -> bool:
    """Whether a pattern of the configuration matches a tool, by the server's full name of it.

    `*`, `?` and `[…]` are as in file names; case matters. The prefix `SERVER/` restricts it to that server's tools.
    """
    return any(fnmatchcase(name, each) for each in {pattern, pattern.removeprefix(f"{server}/")})


def _unmatched(written: Mapping[str, Sequence[str]], offered: Iterable[UpstreamTool]) -> Iterator[str]:
    """A sentence for each pattern that matches none of these tools. `written` has the patterns by key in the file."""
    keys = [each.key for each in offered]
    for key, pattern in ((key, each) for key, patterns in written.items() for each in patterns):
        if not any(matches(pattern, *each) for each in keys):
            head, slash, end = pattern.rpartition("/")
            wider = f"{head}{slash}*{end}"
            ends = sorted({name for server, name in keys if end and matches(wider, server, name)})
            hint = f"Patterns are of whole names: write {wider!r} for {listed(ends)}."
            hint = hint if ends else offer(pattern.strip("*?"), sorted(name for _, name in keys))
            yield f"{key} {pattern!r} matches no tool. {hint}"


@dataclass(frozen=True)
class _Snapshot:
    """The groups, valid until a server, a list or a pin changes."""

    key: object = None
    groups: tuple[ToolGroup, ...] = ()
    absent: Mapping[str, tuple[Tool, ...]] = field(default_factory=dict[str, tuple[Tool, ...]])
    warnings: tuple[str, ...] = ()
    withheld: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    live: Mapping[str, LiveGroup] = field(default_factory=dict[str, LiveGroup])
    """The groups by role, from which the next snapshot takes unchanged tools."""


class UpstreamGroups:
    """The groups of a configuration, and the core roles that its servers can fill. A `ToolGroupSource`.

    While the servers are not connected, it has the configuration of the groups, but no tools.
    """

    def __init__(self, servers: ToolServers, pins: Pins) -> None:
        self._servers, self._pins = servers, pins
        self._latest = McpConfig()
        self._undeclared: Mapping[str, GroupConfig] = {}
        """The groups that exist without a declaration in the latest configuration."""
        self._snapshot = _Snapshot()

    @property
    def config(self) -> Mapping[str, GroupConfig]:
        """The groups by role: those of the configuration, one for each server in no group, and the core roles."""
        config = self._servers.config
        if self._latest is not config:
            placed = {name for group in config.groups.values() for name in group.servers}
            alone = {
                name: GroupConfig(name, (name,), f"The tools of the server {name}")
                for name in config.servers
                if name not in placed and name not in config.groups
            }
            self._latest, self._undeclared = config, alone | core_groups(config)
        return {**config.groups, **self._undeclared}

    def groups(self) -> tuple[ToolGroup, ...]:
        """The groups with at least one tool that can be called now, in the order of the configuration."""
        return self._current().groups

    def absent(self) -> Mapping[str, tuple[Tool, ...]]:
        """The tools of groups, by role, that cannot be called now; calling one raises `ToolError` with the reason."""
        return self._current().absent

    def warnings(self) -> tuple[str, ...]:
        """Probable mistakes: clashes of names, patterns that match nothing, and withheld tools."""
        return self._current().warnings

    def withheld(self) -> Mapping[tuple[str, str], str]:
        """Why tools are not trusted, by server and the server's name of the tool."""
        return self._current().withheld

    def listings(self, role: str) -> "Iterator[tuple[ToolServer, Listing]]":
        """The resources and prompts of a group's servers that are published now, by the settings of the group."""
        config = self.config[role]
        for name in config.servers if config.exports else ():
            server = self._servers.servers.get(name)
            if server is not None and server.state.callable:
                live = self._current().live.get(role)
                resources = server.listing if live is not None and live.reads_unasked(name) else Listing()
                yield server, replace(resources, prompts=server.listing.prompts if config.prompts else ())

    def reports(self) -> Iterator[GroupReport]:
        """The state of each group."""
        usable = {each.role: each for each in self.groups()}
        for role, config in self.config.items():
            group, why = usable.get(role), self.why_missing(role)
            status = "degraded" if group and why else "up" if group else "down"
            if {each.state for each in self._servers_of(role)} == {ServerState.DISABLED}:
                status = "disabled"
            yield GroupReport(role, status, config.servers, group, why)

    def description(self, server: str, tool: str) -> str:
        """A server's current description of a tool, withheld or not, in one line; empty: the tool is not listed."""
        tools = self._servers.servers[server].tools
        return next((" ".join(each.tool.description.split()) for each in tools if each.name == tool), "")

    def trust(self, server: str, tool: str) -> None:
        """Trust the current definition of a withheld tool. Raises `UnknownName` for a tool that was never seen."""
        self._pins.trust(server, tool)

    def sign_ins(self, role: str) -> tuple[Tool, ...]:
        """Tools that ask a person to sign in to those servers of a group whose tools are not known yet."""
        servers = self._servers_of(role)
        return tuple(each.sign_in for each in servers if each.state is ServerState.SIGN_IN and not each.tools)

    def expects(self, role: str) -> bool:
        """Whether a group with this role is configured, but its tools are not known because no server is connected."""
        return not self._servers.connected and role in self.config

    def why_missing(self, role: str, *, unasked: bool = True) -> str:
        """Why a group, or a part of it, cannot be used; empty: it can be, or the role is not known here.

        With `unasked=False`, nothing is said of disabled servers, nor of servers with known tools that only need a
        person to sign in at a call.
        """
        config = self.config.get(role)
        if config is None:
            return ""
        if not self._servers.connected:
            return "The upstream servers are not connected: enter the platform with `async with`."
        reasons: list[str] = []
        problems = {each.server: each.message for each in reversed(self._servers.config.problems)}
        for name in config.servers:
            if server := self._servers.servers.get(name):
                is_meant = server.state is ServerState.DISABLED or (server.state.callable and server.tools)
                if unasked or not is_meant:
                    reasons.append(why_unavailable(name, server.state, server.retry_at))
            else:
                problem = problems.get(name, f"there is no server {name!r} in mcp_config.json.")
                reasons.append(f"{problem[:1].upper()}{problem[1:]}")
        reasons = [each for each in reasons if each]
        # By names in the group, since models read this, and the server's names may be any text.
        absent = self.absent().get(role, ())
        if waiting := [each.name for each in absent if self._servers.servers[each.server].state.callable]:
            reasons.append(f"Withheld until trusted: {listed(waiting)}.")
        if not reasons and role not in {each.role for each in self.groups()}:
            reasons.append(
                f"None of the tools of {listed(config.servers)} is in it: look at its include and exclude."
                if config.servers
                else "There is no server in mcp_config.json that it could have tools of."
            )
        return " ".join(reasons)

    def _servers_of(self, role: str) -> list[ToolServer]:
        named = self.config[role].servers if role in self.config else ()
        return [self._servers.servers[each] for each in named if each in self._servers.servers]

    def _current(self) -> _Snapshot:
        if not self._servers.connected:
            self._snapshot = _Snapshot()
            return self._snapshot
        config, servers = self._servers.config, self._servers.servers
        # The objects, not their ids: identical objects compare fast, and an id may be reused for another object.
        states = tuple((name, each.tools, each.reader, each.state) for name, each in servers.items())
        key = (config, states, self._pins.stamp)
        if self._snapshot.key == key:
            return self._snapshot
        pinned = {name for name, each in config.servers.items() if each.pin}
        pinned |= {name for each in config.groups.values() if each.pin for name in each.servers}
        guards = {name: partial(self._why_untrusted, name) for name in servers if name in pinned}
        withheld = {
            (name, tool): reason
            for name in guards
            for tool, reason in self._pins.withheld(
                name, {each.name: each.fingerprint for each in servers[name].tools}
            ).items()
        }
        groups, before = self.config, self._snapshot.live
        live = {
            role: LiveGroup(
                each, self._servers, withheld, before.get(role), is_core=role in self._undeclared, guards=guards
            )
            for role, each in groups.items()
        }
        warnings = [
            f"The tool {tool!r} of the server {server!r} is withheld: {reason}. Look at it, and trust it with "
            f"`goalport tools --trust {server}/{tool}`."
            for (server, tool), reason in withheld.items()
        ]
        for name, server in servers.items():
            if server.state is ServerState.UP and name in config.servers:
                own = config.servers[name]
                written = {"enabledTools": own.enabled_tools, "disabledTools": own.disabled_tools}
                warnings += [f"Server {name!r}: {each}" for each in _unmatched(written, server.tools)]
        warnings += [line for each in live.values() for line in each.warnings()]
        self._snapshot = _Snapshot(
            key,
            tuple(each.group() for each in live.values() if each.usable),
            {role: each.absent for role, each in live.items() if each.absent},
            tuple(dict.fromkeys(warnings)),
            withheld,
            live,
        )
        return self._snapshot

    def _why_untrusted(self, server: str, own_name: str) -> str:
        """Why a tool must not be called now, by its current definition; empty: it may be called."""
        tools = self._servers.servers[server].tools if server in self._servers.servers else ()
        now = next((each for each in tools if each.name == own_name), None)
        return "" if now is None else self._pins.why_untrusted(server, own_name, now.fingerprint)
