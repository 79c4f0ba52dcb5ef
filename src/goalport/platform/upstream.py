"""The upstream servers of a platform: made of what it was given, or of a workspace's file, and judged before they run.

What connects them is `goalport.upstream`, below; the platform opens and closes them. Values of variables in a file come
from the environment and, in a workspace, from its `.env`.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from goalport.settings import Settings, environment_of
from goalport.tools import ToolGroup, ToolGroupResolver
from goalport.tools.groups import Requirement
from goalport.upstream import McpConfig, read_config
from goalport.upstream.connection import Sample
from goalport.upstream.groups import UpstreamGroups
from goalport.upstream.servers import UpstreamServers
from goalport.workspace import Workspace

__all__ = ["CONFIG_FILE", "ExpectedGroups", "upstream_of", "workspace_upstream"]

CONFIG_FILE: Final = "mcp_config.json"
"""Its name in a workspace."""
_DATA: Final = Path(".goalport")
"""Where pins and tokens are kept when a program does not say."""


class ExpectedGroups(ToolGroupResolver):
    """The groups by which plans are judged before anything is connected: a configured group counts as there."""

    def __init__(self, groups: Iterable[ToolGroup], upstream: UpstreamGroups) -> None:
        super().__init__(groups, [upstream])
        self._upstream = upstream

    def unmet(self, requirement: Requirement) -> str | None:
        return None if self._upstream.expects(requirement.role) else super().unmet(requirement)


def upstream_of(given: UpstreamServers | McpConfig | Path | str, sample: Sample) -> UpstreamServers:
    """The servers that a platform was given; a path is that of a file such as `mcp_config.json`."""
    match given:
        case UpstreamServers():
            found = given
        case Path() | str():
            found = UpstreamServers(read_config(Path(given), os.environ), _DATA)
        case McpConfig():
            found = UpstreamServers(given, _DATA)
    found.sample = found.sample or sample
    return found


def workspace_upstream(workspace: Workspace, settings: Settings) -> UpstreamServers:
    """The upstream servers of a workspace, as its `mcp_config.json` says; `reload` reads the file again."""

    def read() -> McpConfig:
        return read_config(workspace.root / CONFIG_FILE, environment_of(settings.workspace))

    return UpstreamServers(read(), settings.data_dir, settings.upstream_wait_seconds, read=read)
