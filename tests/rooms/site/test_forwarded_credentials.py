"""The credentials of callers on their way from a request, through a process, to a server that may have them."""

import json
from pathlib import Path

import anyio
import pytest

from tests.rooms.auth.tokens import client_of, spoken
from tests.rooms.rest.web import web
from tests.rooms.upstream.signing_in import Greeter, doorkeeper

SERVER = {"forward_auth": True, "headers": {"Authorization": "Bearer ${caller.token}", "X-User": "${caller.id}"}}
GROUPS = {"doors": {"servers": ["web"], "include": ["hello"], "exports": True}}


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_goal_and_a_tool_reach_the_server_as_the_caller_of_each_request(tmp_path: Path, era: str) -> None:
    async with doorkeeper() as keeper:
        keeper.is_open = True
        config = {"mcpServers": {"web": {"url": f"{keeper.address}/mcp", **SERVER}}, "toolGroups": GROUPS}
        (tmp_path / "mcp_config.json").write_text(json.dumps(config))
        async with web(tmp_path, Greeter, authentication=spoken(), upstream_wait_seconds=20) as served:

            async def visit(name: str) -> None:
                async with client_of(served, name, "goals:write", era=era) as client:
                    for tool, arguments in (
                        ("greet", {"content": "hello"}),
                        ("hello", {}),
                        ("greet", {"content": "x"}),
                    ):
                        result = await client.call_tool(tool, arguments)
                        assert not result.is_error
                        assert "hello" in str(result.content)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(visit, "ada")
                tasks.start_soon(visit, "bob")
            assert served.platform.upstream.reports()[0].callers == 2
    assert keeper.seen == {("", ""), *((each, f"Bearer {each}=goals:write") for each in ("ada", "bob"))}
