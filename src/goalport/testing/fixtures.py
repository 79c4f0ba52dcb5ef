"""The values of the pytest plugin's fixtures: the workspace under test, platforms, clients and scripted models.

`plugin` declares the fixtures and imports this module when a test first uses one: most tests use none.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from goalport.platform import AgentPlatform
from goalport.settings import load_settings
from goalport.testing.clients import McpClient, client_of
from goalport.testing.models import ScriptedModels
from goalport.workspace import Workspace

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["clients_for", "models_for_a_test", "platform_of"]


def models_for_a_test() -> Iterator[ScriptedModels]:
    """Scripted models, which are verified after the test."""
    models = ScriptedModels()
    yield models
    models.rules.verify_expected()


def platform_of(request: pytest.FixtureRequest) -> AgentPlatform:
    """A platform that serves the workspace under test, with the scripted models of the test if it has any."""
    workspace: Workspace = request.getfixturevalue("goalport_workspace")
    return AgentPlatform.from_workspace(workspace, load_settings(workspace.root), models=_scripted(request))


def clients_for(request: pytest.FixtureRequest) -> McpClient:
    """A function that connects clients to the workspace under test, or to the agents that it is given."""

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
    """The scripted models of the test, if it uses that fixture; requesting the fixture here would create them."""
    return request.getfixturevalue("scripted_models") if "scripted_models" in request.fixturenames else None
