"""References that a workspace exports: their tools and resources, for whoever calls."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ResourceTemplateReference, TextResourceContents

from goalport.base.caller import Caller
from goalport.base.events import Event, SourcesShown
from goalport.knowledge.rag import SqliteDocumentStore
from goalport.server.publish.report import report_of
from goalport.workspace import load_workspace
from tests.rooms.rag.toy_documents import document
from tests.rooms.rest.web import web
from tests.rooms.serve.served import ERAS, Served, as_caller, served, text_of

ROSES = document(
    "file:///garden/roses.md",
    {"Pruning": "Roses are pruned in spring.", "Watering": "In the evening."},
    title="Roses",
)
POTS = document("file:///garden/pots.md", {"Clay": "Clay pots break in winter."}, title="Pots")
ADA, EVE = Caller("ada", "https://issuer"), Caller("eve")

GARDEN = """
from pathlib import Path
from goalport import tool
from goalport.knowledge.rag import SqliteDocumentStore, ToolishRag
from goalport.tools import McpToolExport, with_confirmation, Tool

store = SqliteDocumentStore(Path(__file__).parent.parent / "garden.db")
garden = McpToolExport.from_llm_reference(ToolishRag("garden", "All about the garden", store))

burn = with_confirmation(Tool.of(lambda: "It burns.", name="burn"), "Burn it?")

@tool(export=True)
async def burn_leaves() -> str:
    '''Burn the leaves.'''
    return (await burn.call({})).text
"""


NAMESPACE = "goalport://documents/garden/"


@asynccontextmanager
async def garden(root: Path, *, exports: str = GARDEN, **settings: Any) -> AsyncGenerator[Served]:
    """A server that exports documents, of which only Ada and Eve may read the one about pots."""
    await plant(root)
    async with served(root, files={"tools/garden.py": exports}, **settings) as server:
        yield server


async def plant(root: Path) -> None:
    async with SqliteDocumentStore(root / "garden.db") as store:
        await store.put(*ROSES)
        await store.put(*POTS, readers=[ADA, EVE])


async def listed(client: Client) -> dict[str, str]:
    """The documents in the list of resources, with their names, by all pages of it."""
    found: dict[str, str] = {}
    cursor = None
    for _ in range(20):
        page = await client.list_resources(cursor=cursor)
        found |= {each.uri: each.name for each in page.resources}
        cursor = page.next_cursor
        if cursor is None:
            break
    return {uri: name for uri, name in found.items() if uri.startswith(NAMESPACE)}


async def read(client: Client, uri: str) -> TextResourceContents:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content


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
                    assert text_of(found).startswith("0 results: try other words")


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
    assert {(each["uri"], each["resource"]) for each in event.sources} == {
        ("file:///garden/roses.md", f"{NAMESPACE}{section.id}") for section in ROSES[0].children
    }


async def test_a_direct_call_can_ask_nobody_also_for_tools_that_its_tool_calls(tmp_path: Path) -> None:
    async with garden(tmp_path) as server, server.client() as client:
        answer = text_of(await client.call_tool("burn_leaves", {}))
    assert answer == "A person has to agree to calls of 'burn', and nobody can be asked here."


@pytest.mark.parametrize("era", ERAS)
async def test_documents_are_listed_and_read_by_those_who_may_read_them(tmp_path: Path, era: str) -> None:
    roses, pots = (f"{NAMESPACE}{each.id}" for each, _ in (ROSES, POTS))
    async with garden(tmp_path) as server:
        with as_caller("ada"):
            async with server.client(era) as client:
                assert await listed(client) == {pots: "Pots", roses: "Roses"}
                assert (await read(client, pots)).text == "# Pots\n\n## Clay\n\nClay pots break in winter."
        with as_caller("bob"):
            async with server.client(era) as client:
                assert await listed(client) == {roses: "Roses"}
                with pytest.raises(MCPError) as caught:
                    await client.read_resource(pots)
                with pytest.raises(MCPError) as unknown:
                    await client.read_resource(f"{NAMESPACE}none")
    assert caught.value.error.data == {"uri": pots}
    assert caught.value.code == unknown.value.code == INVALID_PARAMS
    assert caught.value.message.replace(POTS[0].id, "none") == unknown.value.message


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_search_shows_names_a_section_that_the_client_can_read(tmp_path: Path, era: str) -> None:
    section = ROSES[0].children[1]
    async with garden(tmp_path) as server, server.client(era) as client:
        found = await client.call_tool("garden_textSearch", {"query": "evening", "topK": 1})
        assert f'resource="{NAMESPACE}{section.id}"' in text_of(found)
        content = await read(client, f"{NAMESPACE}{section.id}")
    assert (content.text, content.mime_type) == ("# Roses\n\n## Watering\n\nIn the evening.", "text/markdown")


async def test_a_client_says_how_well_a_passage_has_to_fit(tmp_path: Path) -> None:
    async with garden(tmp_path) as server, server.client() as client:
        roses = {"query": "roses prune watering", "topK": 3}
        assert "pruned in spring" in text_of(await client.call_tool("garden_textSearch", roses))
        least = await client.call_tool("garden_textSearch", {**roses, "threshold": 0.99})
        assert text_of(least).startswith("0 results")
        refused = await client.call_tool("garden_textSearch", {**roses, "threshold": 2})
        assert refused.is_error


@pytest.mark.parametrize("era", ERAS)
async def test_documents_are_listed_page_by_page_after_all_other_resources(tmp_path: Path, era: str) -> None:
    async with garden(tmp_path, page_size=1) as server:
        async with SqliteDocumentStore(tmp_path / "garden.db") as store:
            for number in range(5):
                await store.put(*document(f"file:///garden/{number}.md", {"One": "Two."}, title=f"Bed {number}"))
        async with server.client(era) as client:
            first = await client.list_resources()
            assert [each.uri for each in first.resources] == ["goalport://goals"]
            assert list((await listed(client)).values()) == [*(f"Bed {number}" for number in range(5)), "Roses"]


async def test_a_cursor_of_the_documents_is_none_of_the_tools(tmp_path: Path) -> None:
    async with garden(tmp_path, page_size=1) as server, server.client() as client:
        cursor = (await client.list_resources()).next_cursor
        with pytest.raises(MCPError, match="not one of the list of tools"):
            await client.list_tools(cursor=cursor)


async def test_a_long_document_is_read_in_pages_that_name_the_next(tmp_path: Path) -> None:
    lines = "".join(f"Rose number {number:06d} is red.\n" for number in range(9_000))
    long, chunks = document("file:///garden/long.md", {"Many": lines}, title="Long", size=10_000)
    async with garden(tmp_path) as server:
        async with SqliteDocumentStore(tmp_path / "garden.db") as store:
            await store.put(long, chunks)
        async with server.client() as client:
            uri, texts, pages = f"{NAMESPACE}{long.id}", list[str](), set[object]()
            while uri:
                content = await read(client, uri)
                pages.add((content.meta or {})["goalport/pages"])
                text, _, more = content.text.partition("\n\n(This is page ")
                texts.append(text)
                uri = more.rpartition("The next is at ")[2].removesuffix(")")
            assert (pages, len(texts)) == ({3}, 3)
            assert "".join(texts).rstrip() == f"# Long\n\n## Many\n\n{lines}".rstrip()
            with pytest.raises(MCPError, match="It has the pages 1 to 3"):
                await client.read_resource(f"{NAMESPACE}{long.id}?page=4")


async def test_the_filter_of_a_reference_holds_for_its_resources_too(tmp_path: Path) -> None:
    filtered = GARDEN.replace("store)", "store, filter=UriPrefix('file:///garden/r'))").replace(
        "ToolishRag\n", "ToolishRag, UriPrefix\n"
    )
    async with garden(tmp_path, exports=filtered) as server:
        with as_caller("ada"):
            async with server.client() as client:
                assert list((await listed(client)).values()) == ["Roses"]
                with pytest.raises(MCPError):
                    await client.read_resource(f"{NAMESPACE}{POTS[0].id}")


@pytest.mark.parametrize("era", ERAS)
async def test_a_document_is_found_by_completing_its_title(tmp_path: Path, era: str) -> None:
    async with garden(tmp_path) as server, server.client(era) as client:
        templates = (await client.list_resource_templates()).resource_templates
        (template,) = [each for each in templates if each.uri_template.startswith(NAMESPACE)]
        assert template.uri_template == f"{NAMESPACE}{{id}}"
        reference = ResourceTemplateReference(uri=template.uri_template)
        found = [(await client.complete(reference, {"name": "id", "value": typed})) for typed in ("ros", "pots", "zz")]
    assert [each.completion.values for each in found] == [[ROSES[0].id], [], []]


async def test_a_document_is_completed_wherever_it_stands_among_thousands(tmp_path: Path) -> None:
    async with garden(tmp_path) as server, server.client() as client:
        async with SqliteDocumentStore(tmp_path / "garden.db") as store:
            for number in range(1_000):
                await store.put(*document(f"file:///garden/bed-{number}.md", {"One": "Two."}))
        reference = ResourceTemplateReference(uri=f"{NAMESPACE}{{id}}")
        found = await client.complete(reference, {"name": "id", "value": "roses"})
    assert found.completion.values == [ROSES[0].id]


async def test_an_index_that_cannot_be_read_leaves_the_other_resources_listed(tmp_path: Path) -> None:
    async with garden(tmp_path) as server, server.client() as client:
        (tmp_path / "garden.db").write_bytes(b"This is no index of documents." * 200)
        uris = [each.uri for each in (await client.list_resources()).resources]
        assert uris == ["goalport://goals"]
        with pytest.raises(MCPError, match=r"garden\.db"):
            await client.read_resource(f"{NAMESPACE}{ROSES[0].id}")


async def test_of_two_references_with_one_name_the_first_is_published(tmp_path: Path) -> None:
    twice = f"{GARDEN}\nother = McpToolExport.from_llm_reference(ToolishRag('garden', 'Others', store))\n"
    async with garden(tmp_path, exports=twice) as server:
        problems = server.state.publication.problems
    assert any(
        each == f"Two exports have resources at {NAMESPACE}; those of the first are published. Give the other reference"
        " another name."
        for each in problems
    )


async def test_of_two_references_whose_tools_would_have_the_same_names_the_first_is_published(tmp_path: Path) -> None:
    entry = "- {type: Documents, name: NAME, description: All of it, publish: true}\n"
    files = {"references.yml": entry.replace("NAME", "my garden") + entry.replace("NAME", "my-garden")}
    async with served(tmp_path, files=files, data_dir=tmp_path / "data") as server:
        (problem,) = server.state.publication.problems
        assert problem == (
            "The reference my-garden is not published: the names of its tools would begin with my_garden_, as those of"
            " my garden do. Give one of them another name."
        )
        assert "my_garden_textSearch" in server.state.publication.tools
        assert [*server.state.publication.providers] == ["goalport://documents/my%20garden/"]


BROKEN = """
from goalport.tools import McpToolExport, ResourceTemplate

class Broken:
    name, description, namespace = "broken", "Broken", "broken://"

    def tools(self):
        return []

    def templates(self):
        return [ResourceTemplate(uri="broken://{id}", name="broken", description="Broken")]

    async def list_resources(self, caller, *, limit, after=""):
        raise RuntimeError("Its password is 1234.")

    async def complete(self, variable, typed, given, caller):
        raise RuntimeError("Its password is 1234.")

broken = McpToolExport((), resources=(Broken(),))
"""


@pytest.mark.parametrize("era", ERAS)
async def test_a_provider_with_a_bug_leaves_the_other_resources_listed(tmp_path: Path, era: str) -> None:
    await plant(tmp_path)
    files = {"tools/garden.py": GARDEN, "tools/broken.py": BROKEN}
    async with served(tmp_path, files=files) as server, server.client(era) as client:
        assert list((await listed(client)).values()) == ["Roses"]
        reference = ResourceTemplateReference(uri="broken://{id}")
        assert (await client.complete(reference, {"name": "id", "value": ""})).completion.values == []


@pytest.mark.parametrize("era", ERAS)
async def test_over_http_each_request_reads_with_the_rights_of_its_caller(tmp_path: Path, era: str) -> None:
    await plant(tmp_path)
    found: dict[str, list[str]] = {}
    async with web(tmp_path, files={"tools/garden.py": GARDEN}) as server:
        namespaces = (await server.http.get("/health", headers={"Documented": "no"})).json()["resourceNamespaces"]
        for name in ("eve", "bob"):
            async with (
                httpx2.AsyncClient(headers={"Caller": name}, timeout=20) as http,
                Client(streamable_http_client(f"{server.http.base_url}/mcp", http_client=http), mode=era) as client,
            ):
                searched = await client.call_tool("garden_textSearch", {"query": "clay pots", "topK": 1})
                found[name] = [*(await listed(client)).values(), text_of(searched)[:8]]
    assert found == {"eve": ["Pots", "Roses", "1 result"], "bob": ["Roses", "0 result"]}
    assert namespaces == [NAMESPACE]


async def test_the_report_names_what_is_published(tmp_path: Path) -> None:
    async with garden(tmp_path) as server:
        report = list(report_of(server.state.publication, server.platform))
    assert f"  {NAMESPACE}: resources, All about the garden" in report


YAML = """
- {type: Documents, name: garden, description: All about the garden, publish: true}
- {type: LocalSkills, name: house, description: How we work, path: skills, publish: true}
- {type: LiteralText, name: tone, description: How we talk, notes: Be brief., publish: true}
- {type: LocalDirectory, path: data, description: Prices, publish: true}
- {type: LiteralText, name: secret, description: Only for agents, notes: Never say it.}
"""


@pytest.mark.parametrize("era", ERAS)
async def test_references_of_the_workspace_are_published_if_the_file_says_so(tmp_path: Path, era: str) -> None:
    skill = "---\nname: pruning\ndescription: For roses.\n---\nCut above a bud.\n"
    files = {"references.yml": YAML, "data/oil.csv": "71.5\n", "skills/pruning/SKILL.md": skill}
    async with served(tmp_path, files=files, data_dir=tmp_path / "data_dir") as server:
        await server.platform.documents.put(*ROSES)
        async with server.client(era) as client:
            assert server.state.publication.problems == ()
            resources = {each.uri: each.name for each in (await client.list_resources()).resources}
            tools = {each.name: each.description or "" for each in (await client.list_tools()).tools}
            assert {each.partition("_")[0] for each in tools} == {"garden", "house", "data", "helloBanner"}
            assert tools["garden_textSearch"].startswith("All about the garden. Find passages by the words in them.")
            assert tools["house_activate"].startswith("How we work. ")
            assert resources == {
                "goalport://goals": "goals",
                f"{NAMESPACE}{ROSES[0].id}": "Roses",
                "goalport://references/data": "data",
                "goalport://references/tone": "tone",
                "skill://house/pruning/SKILL.md": "pruning",
            }
            assert (await read(client, "goalport://references/tone")).text == "Be brief."
            assert (await read(client, "skill://house/pruning/SKILL.md")).text == skill
            found = await client.call_tool("garden_textSearch", {"query": "spring", "topK": 1})
            assert f'resource="{NAMESPACE}' in text_of(found)
            of_agents = server.platform.references["garden"]
            assert any(each is of_agents for each in server.platform.references.published)
            (search,) = [each for each in of_agents.tools() if each.name == "textSearch"]
            assert f'resource="{NAMESPACE}' in (await search.call({"query": "spring", "topK": 1})).text
            with pytest.raises(MCPError):
                await client.read_resource("goalport://references/secret")
            reference = ResourceTemplateReference(uri="goalport://references/{name}")
            completed = await client.complete(reference, {"name": "name", "value": "t"})
            assert completed.completion.values == ["tone"]


async def test_what_is_published_follows_the_file_when_the_workspace_is_loaded_again(tmp_path: Path) -> None:
    entry = "- {type: LiteralText, name: NAME, description: How we talk, notes: Be brief., publish: true}\n"
    files = {"references.yml": entry.replace("NAME", "tone")}
    async with served(tmp_path, files=files) as server, server.client() as client:
        assert (await read(client, "goalport://references/tone")).text == "Be brief."
        (tmp_path / "references.yml").write_text(entry.replace("NAME", "voice"))
        await server.state.publisher.adopt(load_workspace(tmp_path))
        assert (await read(client, "goalport://references/voice")).text == "Be brief."
        with pytest.raises(MCPError):
            await client.read_resource("goalport://references/tone")


async def test_a_secret_that_the_server_knows_is_in_no_resource(tmp_path: Path) -> None:
    key = "s3cret" * 8
    entry = f"- {{type: LiteralText, name: tone, description: How we talk, notes: The key is {key}., publish: true}}\n"
    async with (
        served(tmp_path, files={"references.yml": entry}, state_keys=[key]) as server,
        server.client() as client,
    ):
        assert (await read(client, "goalport://references/tone")).text == "The key is ***."
