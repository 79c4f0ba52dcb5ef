"""One tool group made of upstream servers' tools: which of them it has, and under which names.

Tools are filtered by the names that their servers give them, then renamed, and told where two names clash. Above:
`groups`, which makes a group again when a server, its list of tools or the configuration changes.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, Protocol

from goalport.errors import ToolError
from goalport.tools import NAMING_STYLES, Approval, Tool, ToolGroup, ToolResult
from goalport.upstream.config import GroupConfig, McpConfig, NamingConfig, ServerConfig
from goalport.upstream.report import ServerState
from goalport.upstream.tool import UpstreamTool
from goalport.words import offer

__all__ = ["Guard", "LiveGroup", "ToolServer", "ToolServers", "final_name", "matches"]

_LONGEST: Final = 64
"""Characters of a name of a tool that every model takes."""
_HASH: Final = 8
"""Characters of the hash at the end of a longer name."""
_NOT_PORTABLE: Final = re.compile(r"[^A-Za-z0-9_-]")
_GLOB: Final = re.compile(r"[*?\[]")


class ToolServer(Protocol):
    """A server, as far as groups know it: `server.UpstreamServer`."""

    @property
    def tools(self) -> Sequence[UpstreamTool]: ...
    @property
    def state(self) -> ServerState: ...
    @property
    def retry_at(self) -> float: ...


class ToolServers(Protocol):
    """All servers, as far as groups know them: `servers.UpstreamServers`."""

    @property
    def config(self) -> McpConfig: ...
    @property
    def connected(self) -> bool: ...
    @property
    def servers(self) -> Mapping[str, ToolServer]: ...


Guard = Callable[[str], str]
"""Takes the own name of a tool, and says why it must not be called now; empty: it may be."""


@dataclass(frozen=True, slots=True)
class _Guarded:
    """The handler of a tool of a pinned server. It checks at each call whether the tool is still trusted."""

    tool: Tool
    own_name: str
    guard: Guard

    def renamed(self, name: str) -> "_Guarded":
        return replace(self, tool=self.tool.with_name(name))

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        if reason := self.guard(self.own_name):
            raise ToolError(f"{self.tool.name} is withheld until somebody trusts it: {reason}. Do without it.")
        return await self.tool.handler(arguments)


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
    def key(self) -> tuple[str, str]:
        return self.server, self.listed.name


class LiveGroup:
    """One group made of the tools that its servers list.

    Tools that have not changed since `before`, the group's last form, are the same objects as there. `guards` are by
    server, for those that are pinned; `withheld` has the tools that are not trusted, by server and own name.
    """

    def __init__(
        self,
        config: GroupConfig,
        servers: ToolServers,
        withheld: Mapping[tuple[str, str], str],
        before: "LiveGroup | None",
        *,
        is_core: bool,
        guards: Mapping[str, Guard],
    ) -> None:
        self.role = config.role
        self.configs = servers.config.servers
        self._config = config
        self._is_core = is_core
        self._guards = guards
        self._servers = {name: servers.servers[name] for name in config.servers if name in servers.servers}
        # With another configuration, both the names and who has them are decided anew.
        before = before if before is not None and before.configs is self.configs else None
        self._offered = [
            (name, each)
            for name, server in self._servers.items()
            for each in sorted(server.tools, key=lambda tool: tool.name)
            if name not in self.configs or _is_enabled(self.configs[name], each.name)
        ]
        include, exclude = config.include, config.exclude
        kept = [each for each in self._offered if _selects(include, exclude, each[0], each[1].name)]
        made = before.made if before else {}
        self.made = {(server, each.name): self._made(server, each, made) for server, each in kept}
        self.members: dict[str, _Member] = {}
        """The tools by their names in the group, also those whose server is down."""
        self._clashes: list[tuple[_Member, _Member]] = []
        for member in self.made.values():
            self._add(member, before.members if before else {})
        self.usable = tuple(each.tool for each in self.members.values() if self._is_usable(each, withheld))
        self.absent = tuple(each.tool for each in self.members.values() if not self._is_usable(each, withheld))

    def _add(self, member: _Member, before: Mapping[str, _Member]) -> None:
        """Where two tools have one name, it stays with the server that had it before, else with the first."""
        name = member.tool.name
        first = self.members.setdefault(name, member)
        if first is not member:
            if name in before and before[name].key == member.key:
                self.members[name], first, member = member, member, first
            self._clashes.append((first, member))

    def _is_usable(self, member: _Member, withheld: Mapping[tuple[str, str], str]) -> bool:
        return self._servers[member.server].state is ServerState.UP and member.key not in withheld

    def _made(self, server: str, listed: UpstreamTool, before: Mapping[tuple[str, str], _Member]) -> _Member:
        """The tool as the group has it: the same object as before, while its definition is the same."""
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
        """What is probably not meant; of patterns only while the lists of all its servers are there to be searched."""
        for first, second in self._clashes:
            yield (
                f"Tool group {self._config.role!r}: {first.own_name!r} of the server {first.server!r} and "
                f"{second.own_name!r} of {second.server!r} are both called {first.tool.name!r}; the former is used. "
                "Rename one, or exclude it."
            )
        all_listed = set(self._servers) == set(self._config.servers) and all(
            each.state is ServerState.UP for each in self._servers.values()
        )
        if all_listed and self._servers and not self._is_core:
            yield from self._unmatched()

    def _unmatched(self) -> Iterator[str]:
        """A sentence for each pattern that matches nothing."""
        config = self._config
        names = sorted(each.name for _, each in self._offered)
        written = {
            "include": config.include,
            "exclude": config.exclude,
            "approve": tuple(config.approve_tools),
        }
        for key, patterns in written.items():
            for pattern in patterns:
                if not any(matches(pattern, server, each.name) for server, each in self._offered):
                    hint = offer(pattern.strip("*?"), names)
                    yield f"Tool group {config.role!r}: {key} {pattern!r} matches no tool. {hint}"
        for name in config.naming.rename:
            if name not in names:
                yield f"Tool group {config.role!r}: rename {name!r} is no tool. {offer(name.strip('*?'), names)}"

    def _approval(self, server: str, name: str) -> Approval:
        """The approval by the first pattern that means the tool, else the group's."""
        for pattern, approval in self._config.approve_tools.items():
            if matches(pattern, server, name):
                return approval
        return self._config.approve


def final_name(name: str, naming: NamingConfig) -> str:
    """The name of a tool in a group: renamed or in the style, then with prefix and suffix, and valid for every model.

    Models take 64 characters of `[A-Za-z0-9_-]`; the end of a longer name is replaced by a hash of the whole.
    """
    chosen = naming.rename.get(name) or NAMING_STYLES[naming.style](name)
    whole = _NOT_PORTABLE.sub("_", f"{naming.prefix}{chosen}{naming.suffix}")
    if len(whole) <= _LONGEST:
        return whole
    return f"{whole[: _LONGEST - _HASH - 1]}_{hashlib.sha256(whole.encode()).hexdigest()[:_HASH]}"


def _is_enabled(server: ServerConfig, name: str) -> bool:
    return _selects(server.enabled_tools, server.disabled_tools, server.name, name)


def _selects(include: Sequence[str], exclude: Sequence[str], server: str, name: str) -> bool:
    """Whether a tool matches a pattern of `include` (no pattern: every tool does) and none of `exclude`."""
    included = not include or any(matches(each, server, name) for each in include)
    return included and not any(matches(each, server, name) for each in exclude)


def matches(pattern: str, server: str, name: str) -> bool:
    """Whether a pattern of a configuration means a tool of a server, by the name that the server gives it.

    `*`, `?` and `[…]` are as in file names; upper and lower case differ. A bare word means the tool of that name, and
    those whose names end in it: `weather` also means `get_weather`. In front of either, `SERVER/` means that server's.
    """
    own = pattern.removeprefix(f"{server}/")
    return any(_matches(each, name) for each in {pattern, own})


def _matches(pattern: str, name: str) -> bool:
    if _GLOB.search(pattern):
        return fnmatchcase(name, pattern)
    return bool(pattern) and name.endswith(pattern)
