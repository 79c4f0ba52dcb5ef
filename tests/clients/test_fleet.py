"""Every client through a proxy before two servers on one store: a call reaches the one that does not run its process.

The clients, and what they say, are those of the other modules, which reach one server by the other transports.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import (
    test_fastmcp,
    test_inspector,
    test_mcp_remote,
    test_mcpo,
    test_python,
    test_typescript,
)
from tests.clients.running import CLIENTS, ROOT, Served, serving_twice
from tests.clients.test_inspector import Inspect, inspect
from tests.postgres import PostgresServer

__all__ = ["inspect"]

ERAS = ["legacy", "modern"]
SDKS = [("1", "legacy"), ("2", "legacy"), ("2", "modern")]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The small workspace whose goal is to shout."""
    with serving_twice(CLIENTS / "workspace", tmp_path_factory.mktemp("fleet")) as server:
        yield server


@pytest.fixture(scope="module")
def shipped_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The repository's own workspace."""
    with serving_twice(ROOT, tmp_path_factory.mktemp("shipped_fleet")) as server:
        yield server


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_python_client(fleet: Served, shipped_fleet: Served, tmp_path: Path, era: str) -> None:
    await test_python.test_the_python_client_has_the_whole_conversation(fleet, tmp_path, "http", era)
    await test_python.test_the_python_client_plays_the_adventure(shipped_fleet, tmp_path, "http", era)


async def test_the_python_client_with_postgresql(postgres: PostgresServer, tmp_path: Path) -> None:
    with serving_twice(ROOT, tmp_path, postgres.database()) as server:
        await test_python.test_the_python_client_plays_the_adventure(server, tmp_path, "http", "legacy")


@pytest.mark.parametrize(("sdk", "era"), SDKS)
def test_a_typescript_client(
    node: str, fleet: Served, shipped_fleet: Served, tmp_path: Path, sdk: str, era: str
) -> None:
    test_typescript.test_a_typescript_client_has_the_whole_conversation(node, fleet, tmp_path, "http", sdk, era)
    test_typescript.test_a_typescript_client_plays_the_adventure(node, shipped_fleet, tmp_path, "http", sdk, era)


@pytest.mark.parametrize("era", ERAS)
def test_the_client_of_fastmcp(
    fastmcp_python: str, fleet: Served, shipped_fleet: Served, tmp_path: Path, era: str
) -> None:
    test_fastmcp.test_the_client_of_fastmcp_has_the_whole_conversation(fastmcp_python, fleet, tmp_path, "http", era)
    test_fastmcp.test_the_client_of_fastmcp_plays_the_adventure(fastmcp_python, shipped_fleet, tmp_path, "http", era)


def test_what_goes_through_mcpo(mcpo: str, fleet: Served, shipped_fleet: Served, tmp_path: Path) -> None:
    with test_mcpo.bridged(mcpo, "http", fleet, tmp_path) as bridge:
        test_mcpo.test_mcpo_passes_on_the_text_of_a_goal(bridge)
        test_mcpo.test_mcpo_says_what_was_wrong_with_an_argument(bridge)
    test_mcpo.test_the_adventure_is_played_through_mcpo(mcpo, shipped_fleet, tmp_path, "http")


@pytest.mark.parametrize("era", ERAS[:1])
async def test_what_goes_through_mcp_remote(
    node: str, fleet: Served, shipped_fleet: Served, tmp_path: Path, era: str
) -> None:
    await test_mcp_remote.test_the_conversation_passes_through_mcp_remote(node, fleet, tmp_path, "http", era)
    await test_mcp_remote.test_the_adventure_is_played_through_mcp_remote(node, shipped_fleet, tmp_path, era)


@pytest.mark.parametrize("era", ERAS[:1])
def test_the_inspector(inspect: Inspect, fleet: Served, shipped_fleet: Served, era: str) -> None:
    test_inspector.test_the_inspector_reaches_a_goal(inspect, fleet, "http", era)
    test_inspector.test_the_inspector_reads_a_resource(inspect, fleet, era)
    test_inspector.test_the_inspector_plays_the_adventure_with_a_connection_for_each_call(inspect, shipped_fleet, era)
