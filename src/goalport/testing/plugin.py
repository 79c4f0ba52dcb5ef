"""The pytest plugin of goalport: fixtures for the agents of the workspace under test, and its import hook.

Tests below a folder with `agents/` or `tools/` can import `goalport_workspace.agents.…`, as the server does.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from goalport.platform import AgentPlatform
from goalport.settings import load_settings
from goalport.testing.clients import McpClient, client_of
from goalport.workspace import Workspace, install_importer, load_workspace

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["agent_platform", "goalport_workspace", "mcp_client"]


def pytest_configure(config: pytest.Config) -> None:
    if any((config.rootpath / name).is_dir() for name in ("agents", "tools")):
        install_importer(config.rootpath)


@pytest.fixture(scope="session")
def goalport_workspace(pytestconfig: pytest.Config) -> Workspace:
    """The workspace at pytest's root folder, loaded once."""
    return load_workspace(pytestconfig.rootpath)


@pytest.fixture
def agent_platform(goalport_workspace: Workspace) -> AgentPlatform:
    """A platform that serves the workspace under test."""
    return AgentPlatform.from_workspace(goalport_workspace, load_settings(goalport_workspace.root))


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest) -> McpClient:
    """Clients in memory, of the workspace under test or of agents that are given.

    `async with mcp_client() as client` connects to the workspace; `mcp_client(Hello(), services=[…])` serves just these
    agents: keyword arguments go to `AgentPlatform`, and those in `options` to `mcp.Client`.
    """

    @asynccontextmanager
    async def connect(
        *agents: object, options: dict[str, Any] | None = None, **settings: Iterable[Any]
    ) -> "AsyncGenerator[Client]":
        if agents:
            opened = client_of(AgentPlatform(agents, **settings), **(options or {}))  # type: ignore[arg-type]
        else:
            platform: AgentPlatform = request.getfixturevalue("agent_platform")
            workspace: Workspace = request.getfixturevalue("goalport_workspace")
            opened = client_of(platform, workspace=workspace, **(options or {}))
        async with opened as client:
            yield client

    return connect
