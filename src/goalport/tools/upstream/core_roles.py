"""The groups that nobody declares: the core roles web, maps, browser_automation and github, and one for each server.

Servers are known by words in their names, packages and hosts. Tools are chosen by patterns, since lists of names go out
of date. A role that `toolGroups` declares is left to the declaration. Math, the fifth, needs no server:
`goalport.tools.arithmetic`. User guide, section 3.24.1. A server that no group names is a group by its own name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from goalport.tools import CoreToolGroups, Permission
from goalport.tools.upstream.config import GroupConfig, McpConfig, ServerConfig

_GATEWAYS: Final = (("docker", "mcp"), ("mcp", "docker"), ("mcp", "gateway"))
"""Words of servers that offer the tools of many others, such as the gateway of Docker's MCP Toolkit."""


@dataclass(frozen=True)
class _Kind:
    """Servers of one kind: the words in their names, and patterns of the tools that belong to the role."""

    words: tuple[str, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    in_gateway: tuple[str, ...] | None = None
    """Patterns of the tools of a gateway; None: the same as `include`."""


@dataclass(frozen=True)
class _Role:
    description: str
    kinds: tuple[_Kind, ...]


_ROLES: Final[dict[str, _Role]] = {
    CoreToolGroups.WEB: _Role(
        CoreToolGroups.WEB_DESCRIPTION,
        (
            # A limit on the rate of local search would stop the other searches too.
            _Kind(("brave",), ("brave_*",), ("brave_local_search", "brave_place_search")),
            _Kind(("fetch",), ("fetch*", "*_fetch")),
            _Kind(
                ("wikipedia",),
                ("search_wikipedia", "get_article", "get_summary", "get_related_topics", "wikipedia_*", "wiki_*"),
                ("*connectivity*",),
                ("search_wikipedia", "get_article", "get_summary", "get_related_topics"),
            ),
            _Kind(("tavily",), ("tavily*search", "tavily*extract")),
            _Kind(("duckduckgo",), ("*search*", "fetch_content"), (), ("duckduckgo*", "fetch_content")),
            _Kind(("exa",), ("web_search_exa", "crawling_exa", "*_exa")),
            _Kind(("searxng",), ("*search*", "*url_read*"), (), ("searxng*",)),
        ),
    ),
    CoreToolGroups.MAPS: _Role(
        CoreToolGroups.MAPS_DESCRIPTION,
        (
            _Kind(
                ("maps",),
                ("maps_*", "*geocode*", "*place*", "*direction*", "*route*", "*distance*", "*elevation*"),
                (),
                ("maps_*",),
            ),
        ),
    ),
    CoreToolGroups.BROWSER_AUTOMATION: _Role(
        CoreToolGroups.BROWSER_AUTOMATION_DESCRIPTION,
        (
            _Kind(("playwright",), ("browser_*", "playwright_*"), ("browser_install",)),
            _Kind(("puppeteer",), ("puppeteer_*",)),
        ),
    ),
    CoreToolGroups.GITHUB: _Role(
        CoreToolGroups.GITHUB_DESCRIPTION,
        (
            _Kind(
                ("github",),
                ("*issue*", "*pull_request*"),
                # Merging and deleting cannot be undone; assigning an agent starts other work.
                ("merge_*", "delete_*", "*copilot*"),
            ),
        ),
    ),
}


class CoreRoles:
    """The core roles of the latest configuration, computed once: they are asked for at each look-up of a group."""

    def __init__(self) -> None:
        self._latest = McpConfig()
        self._found: Mapping[str, GroupConfig] = {}

    def of(self, config: McpConfig) -> Mapping[str, GroupConfig]:
        """The groups of `core_groups`, and those of `own_groups` whose roles are free."""
        if self._latest is not config:
            self._found = own_groups(config) | core_groups(config)
            self._latest = config
        return self._found


def own_groups(config: McpConfig) -> dict[str, GroupConfig]:
    """A group for each server that the configuration puts into none, by the name of the server."""
    placed = {name for group in config.groups.values() for name in group.servers}
    free = config.servers.keys() - placed - config.groups.keys()
    return {
        name: GroupConfig(name, (name,), f"The tools of the server {name}") for name in config.servers if name in free
    }


def core_groups(config: McpConfig) -> dict[str, GroupConfig]:
    """The groups of core roles that servers of this configuration can play, without roles that it declares itself.

    Disabled servers count where there are no others, so that a report can say that they have to be enabled.
    """
    servers = config.servers.values()
    enabled, disabled = [[each for each in servers if each.disabled is off] for off in (False, True)]
    wanted = {role: known for role, known in _ROLES.items() if role not in config.groups}
    found = {role: _group(role, known, enabled) for role, known in wanted.items()}
    of_disabled = {role: _group(role, wanted[role], disabled) for role, group in found.items() if not group.servers}
    return {role: group for role, group in (found | of_disabled).items() if group.servers}


def _group(role: str, known: _Role, servers: list[ServerConfig]) -> GroupConfig:
    group = GroupConfig(
        role, (), known.description, permissions=frozenset({Permission.INTERNET_ACCESS}), provider="core"
    )
    for server in servers:
        words = _words(server)
        is_gateway = any(_contains(words, each) for each in _GATEWAYS)
        for kind in known.kinds:
            if is_gateway or any(_contains(words, (word,)) for word in kind.words):
                include = kind.include if kind.in_gateway is None or not is_gateway else kind.in_gateway
                group = replace(
                    group,
                    servers=tuple(dict.fromkeys((*group.servers, server.name))),
                    include=(*group.include, *(f"{server.name}/{each}" for each in include)),
                    exclude=(*group.exclude, *(f"{server.name}/{each}" for each in kind.exclude)),
                )
    return group


def _words(server: ServerConfig) -> tuple[tuple[str, ...], ...]:
    """The words in a server's name in the configuration, in its package, and in its host."""
    names = [server.name]
    if server.transport == "stdio":
        names.append(PurePosixPath(server.command.replace("\\", "/")).name)
        # Arguments may name a package or an image; paths and options do not.
        named = [each for each in server.args if re.fullmatch(r"@?[a-z][\w.@/:~-]*", each, re.IGNORECASE)]
        names.append(" ".join(each for each in named if "=" not in each and not re.match(r"[A-Za-z]:[\\/]", each)))
    else:
        parts = urlsplit(server.url)
        names += [parts.hostname or "", parts.path]
    return tuple(tuple(re.findall(r"[a-z0-9]+", each.lower())) for each in names)


def _contains(names: tuple[tuple[str, ...], ...], words: tuple[str, ...]) -> bool:
    """Whether one of the names has these words in a row."""
    length = len(words)
    return any(name[at : at + length] == words for name in names for at in range(len(name) - length + 1))
