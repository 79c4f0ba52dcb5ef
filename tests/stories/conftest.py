"""One server for all tests of a module that leave it as they found it."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from mcp import Client

from tests.stories import cooks
from tests.stories.servers import Heard, Running, over_stdio, running


@pytest.fixture(scope="module")
def module_files(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """The module's `FILES`; the cooks where it has none of its own."""
    own: dict[str, object] = vars(cast("ModuleType", request.node.obj))
    return cast("Mapping[str, str]", own.get("FILES", cooks.FILES))


@pytest.fixture(scope="module")
async def module_server(
    request: pytest.FixtureRequest, module_files: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Running]:
    """Serves the files of the module with its `SETTINGS`."""
    own: dict[str, object] = vars(cast("ModuleType", request.node.obj))
    settings = cast("Mapping[str, Any]", own.get("SETTINGS", {}))
    async with running(tmp_path_factory.mktemp("workspace"), module_files, **settings) as server:
        yield server


@pytest.fixture
def server(module_server: Running) -> Running:
    """The server of the module; what it said to earlier tests is forgotten."""
    module_server.heard.text = module_server.announced
    return module_server


@pytest.fixture
async def connection(
    server: Running, module_files: Mapping[str, str], tmp_path: Path, transport: str, era: str
) -> AsyncGenerator[tuple[Client, Heard]]:
    """A client over the `transport` and in the `era` of the test, and what its server says.

    Over stdio the server is its own; it serves the same files.
    """
    if transport == "stdio":
        async with over_stdio(tmp_path, module_files, era) as pair:
            yield pair
    else:
        async with server.client(transport, era) as client:
            yield client, server.heard


@pytest.fixture(params=["sqlite", "postgres", "dbos"])
def place(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of a server whose processes survive it, with each store and each engine."""
    if request.param == "sqlite":
        return {"store": "sqlite"}
    engine = "dbos" if request.param == "dbos" else "local"
    return {"store": request.getfixturevalue("postgres").database(), "engine": engine}
