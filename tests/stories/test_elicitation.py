"""Clients that show forms, over real connections: every transport, without sessions, and with two servers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from tests.stories.fleets import fleet
from tests.stories.servers import WAYS, connected, running
from tests.stories.test_waiting import BAKER

FILES = {"agents/bakers.py": BAKER}
CROWN = {"content": "blue for Ada"}


class Person:
    """Answers each form with the same fields."""

    def __init__(self, **content: Any) -> None:
        self.asked: list[str] = []
        self._content = content

    async def __call__(self, _: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult(action="accept", content=self._content)


async def call(client: Client, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
    with anyio.fail_after(30):
        return await client.call_tool(tool, dict(arguments))


@pytest.mark.parametrize(("transport", "era"), WAYS)
async def test_a_form_is_answered_in_one_call_over_every_transport(tmp_path: Path, transport: str, era: str) -> None:
    person = Person(cake="plum")
    async with connected(tmp_path, FILES, transport, era, elicitation_callback=person) as (client, _):
        result = await call(client, "bake_cake", {"guests": 3})
    assert result.structured_content == {"content": "plum for 3"}
    assert person.asked == ["Which cake?"]


async def test_without_sessions_only_the_newest_revision_shows_forms(tmp_path: Path) -> None:
    person = Person(cake="plum")
    async with running(tmp_path, FILES, stateless="true") as server:
        async with server.client("http", "auto", elicitation_callback=person) as client:
            result = await call(client, "bake_cake", {"guests": 3})
            assert result.structured_content == {"content": "plum for 3"}
        async with server.client("http", "legacy", elicitation_callback=person) as client:
            result = await call(client, "bake_cake", {"guests": 3})
            assert result.structured_content is not None
            assert result.structured_content["status"] == "waiting"
    assert person.asked == ["Which cake?"]


async def test_the_repeated_call_is_answered_by_the_other_server(tmp_path: Path) -> None:
    person = Person(colour="blue")
    async with fleet(tmp_path) as servers:
        async with servers.client("auto", elicitation_callback=person) as client:
            results = [await call(client, "crown", {"content": "Ada"}) for _ in range(2)]
        assert [each.structured_content for each in results] == [CROWN, CROWN]
        assert person.asked == ["Which gem?"] * 2
