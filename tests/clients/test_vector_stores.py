"""Vector stores that LangChain knows, behind the tools that a server publishes: Chroma and Qdrant, in the process."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from pydantic import SecretStr

from goalport.server.auth.keys import new_key
from tests.clients.conftest import python_environment
from tests.clients.running import CLIENTS, serving
from tests.docs.fences import fences

PLACE = CLIENTS / "vector_stores"
WAYS = [(store, filters) for store in ("chroma", "qdrant") for filters in ("store", "goalport")]


@dataclass(frozen=True)
class Reader:
    """Somebody who asks the server."""

    client: Client

    async def call(self, name: str, **arguments: Any) -> CallToolResult:
        result = await self.client.call_tool(name, arguments)
        assert isinstance(result, CallToolResult)
        assert not result.is_error, result
        return result

    async def finds(self, query: str, top: int = 3, **more: Any) -> str:
        return str((await self.call("manuals_vectorSearch", query=query, topK=top, **more)).content)

    async def asked(self) -> list[dict[str, Any]]:
        said: dict[str, Any] = (await self.call("asked")).structured_content or {}
        return said["result"]


@asynccontextmanager
async def reader(address: str, key: SecretStr) -> AsyncGenerator[Reader]:
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        yield Reader(client)


@asynccontextmanager
async def readers(
    scratch: Path, store: str, filters: str, workspace: Path = PLACE / "workspace"
) -> AsyncGenerator[tuple[Reader, Reader, Reader]]:
    """Those of the kitchen, of the law and of no team, at a server whose manuals are in that store."""
    (packages,) = (python_environment("vector-stores").parent / "lib").glob("python*/site-packages")
    keys = [
        new_key(name, ("goals:write", *scopes), None) for name, *scopes in (("ann", "kitchen"), ("bo", "law"), ("c",))
    ]
    entries = json.dumps([each.entry.record() for each in keys])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(PLACE))
        patch.setenv("VECTOR_STORES", str(packages))
        patch.setenv("VECTOR_STORE", store)
        patch.setenv("VECTOR_FILTERS", filters)
        with anyio.fail_after(120), serving(workspace, scratch, auth__key_entries=entries) as server:
            address = server.target("http")[0]
            ann, bo, c = (reader(address, each.key) for each in keys)
            async with ann as kitchen, bo as law, c as nobody:
                yield kitchen, law, nobody


@pytest.mark.parametrize(("store", "filters"), WAYS)
async def test_each_caller_finds_what_the_team_may_read(tmp_path: Path, store: str, filters: str) -> None:
    async with readers(tmp_path, store, filters) as (kitchen, law, nobody):
        found = await kitchen.finds("apple and fig", threshold=0)
        assert "1 result" in found
        assert all(part in found for part in ("Hours of ovens", "https://kitchen.example/ovens", "Ovens", "7-21"))
        asked = await kitchen.asked()
        if filters == "store":
            assert asked == [{"k": 3, "filtered": True}]
        else:
            assert asked == [{"k": 3, "filtered": False}, {"k": 30, "filtered": False}, {"k": 300, "filtered": False}]

        found = await law.finds("hours of ovens", top=50, threshold=0)
        assert "40 results" in found
        assert "kitchen.example" not in found
        assert "0 results" in await nobody.finds("hours of ovens", threshold=0)


@pytest.mark.parametrize("store", ["chroma", "qdrant"])
async def test_documents_that_goalport_reads_are_cited_by_section_and_characters(tmp_path: Path, store: str) -> None:
    manual = tmp_path / "mixers.md"
    manual.write_text("# Mixers\n\n## Dough\n\nUuu, uuu: the dough hook hums.\n\n## Cream\n\nWhisk it.\n")
    async with readers(tmp_path, store, "store") as (kitchen, law, _):
        for _ in range(2):  # what is there already is replaced
            taken = await kitchen.call("take_in", path=str(manual), team="kitchen")
            assert taken.structured_content == {"result": 2}
        found = await kitchen.finds("uuu", top=2)
        assert found.count("the dough hook hums") == 1
        start = manual.read_text().index("Uuu")
        assert all(part in found for part in (manual.as_uri(), "Mixers > Dough", f"{start}-{start + 30}"))
        assert "dough" not in await law.finds("uuu", threshold=0)


async def test_the_ten_lines_of_the_docs_publish_a_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = fences("docs/extending.md", "py")
    assert example.path is not None
    file = tmp_path / "workspace" / example.path
    file.parent.mkdir(parents=True)
    file.write_text(example.text)
    monkeypatch.chdir(tmp_path)
    async with readers(tmp_path, "chroma", "store", tmp_path / "workspace") as (kitchen, _, _):
        assert "0 results" in await kitchen.finds("dough")
    assert (tmp_path / "data" / "chroma").is_dir()
