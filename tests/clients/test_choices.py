"""The choices of the shipped adventure, as every client shows them that has forms: as an enumeration."""

from pathlib import Path

import anyio
import pytest
from mcp import Client

from tests.agents.adventure.nights import DOOR, EGYPT, GAMES, LID, PRINT, TO_TEA, UP
from tests.clients.conversation import REVISIONS
from tests.clients.playing import PLAY, Heard, Request, Script, follow, follow_async
from tests.clients.python_client import MODES, Person, tools_of
from tests.clients.running import CLIENTS, Served, obeying

PROGRAMS = {
    "fastmcp": ("fastmcp_python", "fastmcp_client.py"),
    "typescript 1": ("node", "node/client_1.mjs"),
    "typescript 2": ("node", "node/client_2.mjs"),
}
"""The fixture that runs each client, and its script."""


def a_night_with_forms() -> Script:
    """The guard's night: two choices, and a yes."""
    *choices, yes = GAMES["guard"]
    heard = yield Request(PLAY, {"name": "Ada"}, [*({"choice": each} for each in choices), {"confirmed": yes}])
    assert heard.structured is not None, heard
    assert heard.structured["ending"] == "guard"
    hall, room, lid = (each["requestedSchema"] for each in heard.asked)
    assert hall["properties"]["choice"]["enum"] == [DOOR, EGYPT, TO_TEA, UP]
    assert room["properties"]["choice"]["enum"][:2] == [LID, PRINT]
    assert hall["required"] == room["required"] == ["choice"]
    assert lid["properties"]["confirmed"]["type"] == "boolean"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_the_python_client_shows_the_choices_of_the_adventure(
    shipped: Served, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    mode, person = MODES["modern" if revision == REVISIONS["modern"] else "legacy"], Person()
    monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", revision)
    with anyio.fail_after(60):
        async with Client(shipped.target("http")[0], mode=mode, elicitation_callback=person) as client:
            await follow_async(a_night_with_forms(), tools_of(client, person))


@pytest.mark.parametrize(
    ("name", "task", "era"),
    [
        ("fastmcp", "show", "legacy"),
        ("fastmcp", "follow", "modern"),
        ("typescript 1", "show", "legacy"),
        ("typescript 2", "show", "modern"),
    ],
)
def test_a_client_of_others_shows_the_choices_of_the_adventure(
    request: pytest.FixtureRequest, shipped: Served, tmp_path: Path, name: str, task: str, era: str
) -> None:
    fixture, script = PROGRAMS[name]
    program = [request.getfixturevalue(fixture), str(CLIENTS / script)]
    with obeying([*program, task, "http", era, *shipped.target("http")], tmp_path) as tell:
        follow(a_night_with_forms(), lambda request: Heard.told(tell(request.wire)))
