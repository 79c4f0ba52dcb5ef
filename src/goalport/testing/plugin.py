"""The pytest plugin of goalport: fixtures for the agents of the workspace under test, and its import hook.

Tests below a folder with `agents/` or `tools/` can import `goalport_workspace.agents.…`, as the server can. Every run
of pytest where goalport is installed loads this module, so it imports the rest only when a test needs it.
"""

from collections.abc import Iterator

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if any((config.rootpath / name).is_dir() for name in ("agents", "tools")):
        from goalport.workspace import install_importer

        install_importer(config.rootpath)


@pytest.fixture(scope="session")
def goalport_workspace(pytestconfig: pytest.Config) -> object:
    """The workspace at pytest's root folder, loaded once: a `goalport.workspace.Workspace`."""
    from goalport.workspace import load_workspace

    return load_workspace(pytestconfig.rootpath)


@pytest.fixture
def scripted_models() -> Iterator[object]:
    """Models that reply by the rules of the test, a `ScriptedModels`; `agent_platform` and `mcp_client` use them.

    The test fails if a request matched no rule, even if its agent found another way.
    """
    from goalport.testing.models import ScriptedModels

    models = ScriptedModels()
    yield models
    models.verify_expected()


@pytest.fixture
def replaced_services() -> object:
    """Services and settings that take the place of those of the workspace under test; a test module overrides it."""
    return ()


@pytest.fixture
def agent_platform(request: pytest.FixtureRequest) -> object:
    """An `AgentPlatform` that serves the workspace under test, with `scripted_models` where the test has them."""
    from goalport.testing.platforms import platform_of

    return platform_of(request)


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest) -> object:
    """Connects clients in memory to the workspace under test, or to agents in the call: a `goalport.testing.McpClient`.

    `async with mcp_client() as client` connects to the workspace, `mcp_client(services=[…])` with these in place of its
    own; `mcp_client(Hello(), services=[…])` serves just these agents: keyword arguments go to `AgentPlatform`, and
    those in `options` to `mcp.Client`.
    """
    from goalport.testing.platforms import clients_for

    return clients_for(request)
