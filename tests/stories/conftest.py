"""One server for all tests of a module that leave it as they found it."""

from collections.abc import AsyncGenerator, Mapping
from types import ModuleType
from typing import cast

import pytest

from tests.stories import cooks
from tests.stories.servers import Running, running


@pytest.fixture(scope="module")
async def module_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Running]:
    """Serves the module's `FILES` with its `SETTINGS`; the cooks and the usual ones where it has none of its own."""
    own: dict[str, object] = vars(cast("ModuleType", request.node.obj))
    files = cast("Mapping[str, str]", own.get("FILES", cooks.FILES))
    settings = cast("Mapping[str, str]", own.get("SETTINGS", {}))
    async with running(tmp_path_factory.mktemp("workspace"), files, **settings) as server:
        yield server


@pytest.fixture
def server(module_server: Running) -> Running:
    """The server of the module; what it said to earlier tests is forgotten."""
    module_server.heard.text = ""
    return module_server
