"""Servers on one store behind a proxy: each answers every call, and any of them may go."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextResourceContents

from tests.stories.cooks import session
from tests.stories.fleets import FILES, KEYS, Fleet, fleet
from tests.stories.servers import running

ERAS = ["legacy", "auto"]


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    with anyio.fail_after(60):
        return await client.call_tool(tool, arguments)


async def handle_of(client: Client, tool: str, content: str) -> dict[str, Any]:
    handle = (await call(client, tool, content=content)).structured_content
    assert handle is not None
    return handle


async def view_of(client: Client, process_id: str) -> dict[str, Any]:
    contents = (await client.read_resource(f"goalport://processes/{process_id}")).contents[0]
    assert isinstance(contents, TextResourceContents)
    return json.loads(contents.text)


@pytest.fixture(scope="module")
async def module_fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Fleet]:
    async with fleet(tmp_path_factory.mktemp("fleet")) as servers:
        yield servers


@pytest.fixture
def smithy(module_fleet: Fleet) -> Fleet:
    """Two servers; nothing is written and no iron is hot yet."""
    for name in ("done.txt", "hot"):
        (module_fleet.folder / "agents" / name).unlink(missing_ok=True)
    return module_fleet


@pytest.mark.parametrize("era", ERAS)
async def test_a_process_that_runs_at_one_server_is_followed_at_the_others(smithy: Fleet, era: str) -> None:
    told: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(f"{progress:g}/{total} {message}")
        if len(told) == 1:
            (smithy.folder / "agents/hot").touch()

    async with smithy.client(era) as client:
        handle = await handle_of(client, "forge", "Excalibur")
        await smithy.done("forge Excalibur")
        views = [await view_of(client, handle["processId"]) for _ in smithy.servers]
        assert [(view["status"], len(view["history"])) for view in views] == [("running", 1)] * 2
        for _ in smithy.servers:
            with anyio.fail_after(60):
                ended = await client.call_tool(
                    "process_status", {"processId": handle["processId"], "waitSeconds": 20}, progress_callback=note
                )
            assert ended.structured_content == {"name": "Excalibur"}
        views = [await view_of(client, handle["processId"]) for _ in smithy.servers]
        assert [(view["status"], len(view["history"])) for view in views] == [("completed", 2)] * 2
        assert smithy.lines() == ["melt Excalibur", "forge Excalibur"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_process_is_cancelled_at_any_server(smithy: Fleet, era: str) -> None:
    async with smithy.client(era) as client:
        for name in ("one", "two"):
            handle = await handle_of(client, "forge", name)
            await smithy.done(f"forge {name}")
            if name == "two":
                await client.list_tools()
            said = await call(client, "process_cancel", processId=handle["processId"])
            assert "was stopped" in str(said.content)
            await smithy.done(f"stop {name}", seconds=20)
            for _ in smithy.servers:
                status = await call(client, "process_status", processId=handle["processId"])
                assert "was stopped" in str(status.content)


def message(method: str, identity: int | None = None, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, **({} if identity is None else {"id": identity})}


@pytest.mark.parametrize("tool", ["forge_patiently", "forge_anyway"])
@pytest.mark.parametrize("soon", [True, False])
async def test_a_call_of_a_session_is_cancelled_at_any_server(smithy: Fleet, tool: str, *, soon: bool) -> None:
    one, other = smithy.servers
    answer, streaming = "", anyio.Event()
    async with session(one) as (http, headers), anyio.create_task_group() as calls:

        async def forge() -> None:
            nonlocal answer
            body = message("tools/call", 7, name=tool, arguments={"content": tool})
            async with http.stream("POST", "/mcp", json=body, headers=headers) as response:
                streaming.set()  # An answer that takes more than a second begins with a ping.
                answer = "".join([text async for text in response.aiter_text()])

        calls.start_soon(forge)
        await smithy.done(f"forge {tool}")
        if not soon:
            await streaming.wait()
        cancelled = message("notifications/cancelled", requestId=7)
        assert (await http.post(f"{other.address}/mcp", json=cancelled, headers=headers)).status_code == 202
        if tool == "forge_anyway":
            (smithy.folder / "agents/hot").touch()
        else:
            await smithy.done(f"stop {tool}", seconds=20)
    assert ("was stopped" in answer) == (tool == "forge_patiently")


async def test_a_server_that_ends_waits_for_no_process_that_another_one_runs(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store": "sqlite", "state_keys": KEYS, "shutdown_seconds": "300", "rest": "true"}
    async with running(tmp_path, FILES, **settings) as one, running(tmp_path, FILES, **settings) as other:
        async with one.client("http", "auto") as client:
            handle = await handle_of(client, "forge", "Excalibur")
        process_id, answers = handle["processId"], list[str]()
        async with (
            other.client("http", "auto") as client,
            httpx2.AsyncClient(base_url=other.address, timeout=60) as http,
            anyio.create_task_group() as callers,
        ):

            async def follow() -> None:
                answers.append(str(await call(client, "process_status", processId=process_id, waitSeconds=25)))

            async def wait() -> None:
                answers.append((await http.get(f"/api/v1/process/{process_id}", params={"wait": 25})).text)

            callers.start_soon(wait)
            callers.start_soon(follow)
            with anyio.fail_after(20):
                while (await http.get("/health")).json()["openCalls"] < 1:
                    pass
                other.process.terminate()
                assert await other.process.wait() == 0
        assert process_id in answers[0]
        assert process_id in answers[1]
        (tmp_path / "agents/hot").touch()
