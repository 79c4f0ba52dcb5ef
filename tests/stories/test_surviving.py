"""A goal waits for a person, the server is killed without warning, and the answer goes to the next one."""

from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp_types import CallToolResult

from tests.stories.servers import running
from tests.stories.test_waiting import BAKER

FILES = {"agents/bakers.py": BAKER}


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    with anyio.fail_after(30):
        return await client.call_tool(tool, arguments)


async def test_a_goal_that_waits_survives_a_server_that_is_killed(tmp_path: Path, place: dict[str, Any]) -> None:
    era = "legacy" if place["store"].startswith("postgresql") else "auto"  # each with one of the databases
    async with running(tmp_path, FILES, **place) as first:
        async with first.client("http", era) as client:
            handle = (await call(client, "bake_cake", guests=3)).structured_content
        assert handle is not None
        first.process.kill()
        await first.process.wait()
    async with running(tmp_path, {}, **place) as second, second.client("http", era) as client:
        status = await call(client, "process_status", processId=handle["processId"])
        assert status.structured_content == handle
        answer = {"processId": handle["processId"], "formData": {"cake": "carrot"}}
        result = await call(client, "submitFormAndResumeProcess", **answer)
        assert result.structured_content == {"content": "carrot for 3"}
        assert "It is done" in str((await call(client, "submitFormAndResumeProcess", **answer)).content)
    async with running(tmp_path, {}, **place) as third, third.client("http", era) as client:
        status = await call(client, "process_status", processId=handle["processId"])
        assert status.structured_content == {"content": "carrot for 3"}
