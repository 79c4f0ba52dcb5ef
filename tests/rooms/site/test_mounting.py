"""The app of a server inside another app: its paths, links and guard under a prefix, and its lifespan."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Mount

from goalport import AgentPlatform, Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.errors import GoalportError
from goalport.server.site import create_app
from goalport.workspace.settings import load_settings

HOST = "http://127.0.0.1:8000"


@dataclass(frozen=True)
class Consent:
    given: bool


@dataclass(frozen=True)
class Greeting:
    content: str


@agent(description="Greets")
class Greeter:
    @achieves_goal(description="Greet", export=Export(remote=True, name="greet"))
    def greet(self, user_input: UserInput) -> Greeting:
        return Greeting(f"Hello, {user_input.content}!")


@agent(description="Greets those who want it")
class Asker:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Consent]:
        return WaitFor.form_submission(f"Greet {user_input.content}?", Consent)

    @achieves_goal(description="Greet politely", export=Export(remote=True, name="greet_politely"))
    def greet(self, user_input: UserInput, consent: Consent) -> Greeting:
        return Greeting(f"Hello, {user_input.content}!")


def mounted(root: Path, **settings: Any) -> tuple[Starlette, Starlette]:
    """An app that mounts a server under /agents, without its lifespan; and the server's app."""
    inner = create_app(AgentPlatform([Greeter, Asker]), settings=load_settings(root, **settings))
    return Starlette(routes=[Mount("/agents", inner)]), inner


@asynccontextmanager
async def http(root: Path, **settings: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    outer, inner = mounted(root, **settings)
    async with (
        inner.router.lifespan_context(inner),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(outer), base_url=HOST) as client,
    ):
        yield client


async def test_an_mcp_client_calls_a_goal_of_a_mounted_server(tmp_path: Path) -> None:
    async with (
        http(tmp_path) as client,
        Client(streamable_http_client(f"{HOST}/agents/mcp", http_client=client)) as mcp,
    ):
        result = await mcp.call_tool("greet", {"content": "Ada"})
        assert result.structured_content == {"content": "Hello, Ada!"}


async def test_every_link_of_a_mounted_server_leads_back_to_it(tmp_path: Path) -> None:
    async with http(tmp_path) as client:
        begun = await client.post(
            "/agents/api/v1/process", json={"goal": "greet_politely", "input": {"content": "Ada"}}
        )
        assert begun.status_code == 202
        state = await client.get(begun.headers["Location"])
        page = await client.get("/agents/api/v1/processes")
        info = await client.get("/agents/api/v1/platform-info")

        assert state.json()["status"] == "waiting"
        assert state.json()["links"] == begun.json()["links"] == page.json()["processes"][0]["links"]
        for link in info.json()["links"].values():
            assert (await client.get(link)).status_code == 200
        ended = await client.post(begun.json()["links"]["continue"], json={"response": {"given": True}})
        assert ended.json()["result"] == {"content": "Hello, Ada!"}
        assert (await client.get(ended.json()["links"]["self"])).json()["status"] == "completed"


async def test_the_openapi_document_says_where_the_server_is_mounted(tmp_path: Path) -> None:
    async with http(tmp_path) as client:
        assert (await client.get("/agents/openapi.json")).json()["servers"] == [{"url": "/agents"}]
        unknown = (await client.get("/agents/api/v1/nothing")).json()
        assert unknown["detail"].startswith("There is nothing here. /agents/openapi.json")


async def test_the_guard_protects_a_mounted_server_and_leaves_its_health_open(tmp_path: Path) -> None:
    async with http(tmp_path) as client:
        assert (await client.get("/agents/api/v1/platform-info", headers={"Host": "evil.example"})).status_code == 421
        page = {"Origin": "http://evil.example"}
        assert (await client.get("/agents/api/v1/platform-info", headers=page)).status_code == 403
        assert (await client.get("/agents/health", headers=page)).json()["goals"] == 2


async def test_a_mounted_server_without_its_lifespan_says_what_is_missing(tmp_path: Path) -> None:
    outer, _ = mounted(tmp_path)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(outer), base_url=HOST) as client:
        with pytest.raises(GoalportError, match="lifespan_context"):
            await client.post("/agents/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})


async def test_settings_of_the_current_folder_are_read_where_none_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOALPORT_NAME", "embedded")
    app = create_app(AgentPlatform([Greeter]))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=HOST) as client:
        assert (await client.get("/health")).json()["name"] == "embedded"
