"""References that a workspace exports: their tools and resources, for whoever calls."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goalport.caller import Caller
from goalport.events import Event, SourcesShown
from goalport.rag import SqliteDocumentStore
from tests.rooms.rag.toy_documents import document
from tests.rooms.serve.served import ERAS, Served, as_caller, served, text_of

ROSES = document("file:///garden/roses.md", {"Pruning": "Roses are pruned in spring."}, title="Roses")
POTS = document("file:///garden/pots.md", {"Clay": "Clay pots break in winter."}, title="Pots")
ADA = Caller("ada", "https://issuer")

GARDEN = """
from pathlib import Path
from goalport import tool
from goalport.rag import SqliteDocumentStore, ToolishRag
from goalport.tools import McpToolExport, with_confirmation, Tool

store = SqliteDocumentStore(Path(__file__).parent.parent / "garden.db")
garden = McpToolExport.from_llm_reference(ToolishRag("garden", "All about the garden", store))

burn = with_confirmation(Tool.of(lambda: "It burns.", name="burn"), "Burn it?")

@tool(export=True)
async def burn_leaves() -> str:
    '''Burn the leaves.'''
    return (await burn.call({})).text
"""


@asynccontextmanager
async def garden(root: Path) -> AsyncGenerator[Served]:
    """A server that exports documents, of which Ada alone may read the one about pots."""
    async with SqliteDocumentStore(root / "garden.db") as store:
        await store.put(*ROSES)
        await store.put(*POTS, readers=[ADA])
    async with served(root, files={"tools/garden.py": GARDEN}) as server:
        yield server


@pytest.mark.parametrize("era", ERAS)
async def test_an_exported_tool_searches_on_behalf_of_whoever_calls_it(tmp_path: Path, era: str) -> None:
    async with garden(tmp_path) as server:
        with as_caller("ada"):
            async with server.client(era) as client:
                found = await client.call_tool("garden_textSearch", {"query": "clay pots", "topK": 3})
                assert "Clay pots break in winter." in text_of(found)
        for name in ("bob", ""):
            with as_caller(name):
                async with server.client(era) as client:
                    found = await client.call_tool("garden_textSearch", {"query": "clay pots", "topK": 3})
                    assert text_of(found) == "0 results:"


async def test_the_listeners_of_the_platform_hear_what_a_client_was_shown(tmp_path: Path) -> None:
    shown: list[Event] = []

    class Shown:
        def on_event(self, event: Event, /) -> None:
            shown.append(event)

    async with garden(tmp_path) as server, server.client() as client:
        server.platform.subscribe(Shown())
        await client.call_tool("garden_textSearch", {"query": "roses", "topK": 3})
    (event,) = shown
    assert isinstance(event, SourcesShown)
    assert (event.reference, event.tool, event.query, event.process_id) == ("garden", "textSearch", "roses", "")
    assert [each["uri"] for each in event.sources] == ["file:///garden/roses.md"]


async def test_a_direct_call_can_ask_nobody_also_for_tools_that_its_tool_calls(tmp_path: Path) -> None:
    async with garden(tmp_path) as server, server.client() as client:
        answer = text_of(await client.call_tool("burn_leaves", {}))
    assert answer == "A person has to agree to calls of 'burn', and nobody can be asked here."
