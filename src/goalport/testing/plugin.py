"""The pytest plugin of goalport: fixtures for the agents of the workspace under test, and its import hook.

Tests below a folder with `agents/` or `tools/` can import `goalport_workspace.agents.…`, as the server does.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from goalport.platform import AgentPlatform
from goalport.settings import load_settings
from goalport.testing.clients import McpClient, client_of
from goalport.testing.models import ScriptedModels
from goalport.workspace import Workspace, install_importer, load_workspace

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["agent_platform", "goalport_workspace", "mcp_client", "scripted_models"]


def pytest_configure(config: pytest.Config) -> None:
    if any((config.rootpath / name).is_dir() for name in ("agents", "tools")):
        install_importer(config.rootpath)


@pytest.fixture(scope="session")
def goalport_workspace(pytestconfig: pytest.Config) -> Workspace:
    """The workspace at pytest's root folder, loaded once."""
    return load_workspace(pytestconfig.rootpath)


@pytest.fixture
def scripted_models() -> Iterator[ScriptedModels]:
    """Models that say what the test wants; `agent_platform` and `mcp_client` ask them where a test has them.

    A test in which they were asked for something that has no rule does not pass, even if its agent found another way.
    """
    models = ScriptedModels()
    yield models
    models.rules.verify_expected()


@pytest.fixture
def agent_platform(request: pytest.FixtureRequest, goalport_workspace: Workspace) -> AgentPlatform:
    """A platform that serves the workspace under test, with `scripted_models` where the test has them."""
    settings = load_settings(goalport_workspace.root)
    return AgentPlatform.from_workspace(goalport_workspace, settings, models=_scripted(request))


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest) -> McpClient:
    """Clients in memory, of the workspace under test or of agents that are given.

    `async with mcp_client() as client` connects to the workspace; `mcp_client(Hello(), services=[…])` serves just these
    agents: keyword arguments go to `AgentPlatform`, and those in `options` to `mcp.Client`.
    """

    @asynccontextmanager
    async def connect(
        *agents: object, options: dict[str, Any] | None = None, **settings: Any
    ) -> "AsyncGenerator[Client]":
        if agents:
            setup: dict[str, Any] = {"models": _scripted(request), **settings}
            opened = client_of(AgentPlatform(agents, **setup), **(options or {}))
        else:
            platform: AgentPlatform = request.getfixturevalue("agent_platform")
            workspace: Workspace = request.getfixturevalue("goalport_workspace")
            opened = client_of(platform, workspace=workspace, **(options or {}))
        async with opened as client:
            yield client

    return connect


def _scripted(request: pytest.FixtureRequest) -> ScriptedModels | None:
    """The models of the test, if it has any; asking for them would give it some."""
    return request.getfixturevalue("scripted_models") if "scripted_models" in request.fixturenames else None
