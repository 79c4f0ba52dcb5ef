"""Skills that a workspace exports: their tools, their files as resources, and the Skills extension of MCP."""

from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    PaginatedRequestParams,
    Request,
    RequestParams,
    ResourceTemplateReference,
    Result,
    TextResourceContents,
)

from tests.rooms.serve.served import ERAS, Served, served, text_of

HOUSE = """
from pathlib import Path
from goalport.knowledge.skills import Skills
from goalport.tools import McpToolExport, Tool

def wire(amount: float) -> str:
    return "sent"

skills = Skills("House", "How we work").with_local_skills(Path(__file__).parent.parent / "skills")
house = McpToolExport.from_llm_reference(skills.with_tools(Tool.of(wire)))
"""
CASH_FLOW = """---
name: cash-flow
description: For money.
allowed-tools: wire
version: 2
---
Read references/how to.md.
"""
LOGO = b"\x89PNG\0\xff"
ROOT = "skill://house/cash-flow"


class ListSkillsResult(Result):
    skills: list[dict[str, Any]]
    next_cursor: str | None = None
    ttl_ms: int
    cache_scope: str


class GetSkillResult(Result):
    skill: dict[str, Any]


class UriParams(RequestParams):
    uri: str


class ListSkills(Request[PaginatedRequestParams, Literal["skills/list"]]):
    method: Literal["skills/list"] = "skills/list"
    params: PaginatedRequestParams = PaginatedRequestParams()


class GetSkill(Request[UriParams, Literal["skills/get"]]):
    method: Literal["skills/get"] = "skills/get"
    params: UriParams


async def skills(client: Client, cursor: str | None = None) -> ListSkillsResult:
    request = ListSkills(params=PaginatedRequestParams(cursor=cursor))
    return await client.session.send_request(request, ListSkillsResult)


async def skill(client: Client, uri: str) -> dict[str, Any]:
    return (await client.session.send_request(GetSkill(params=UriParams(uri=uri)), GetSkillResult)).skill


def write_skill(root: Path, name: str, text: str, **files: bytes) -> None:
    folder = root / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    for path, content in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)


@asynccontextmanager
async def house(root: Path, **settings: Any) -> AsyncGenerator[Served]:
    """A server that exports the skills of a folder, with one that follows the rules and one that does not."""
    files = {"references/how to.md": "Löse it.".encode(), "assets/logo.png": LOGO}
    write_skill(root, "cash-flow", CASH_FLOW, **files)
    write_skill(root, "Loud", "---\nname: LOUD\ndescription: Its name breaks the rules.\n---\nShout.\n")
    async with served(root, files={"tools/house.py": HOUSE}, **settings) as server:
        yield server


async def contents(client: Client, uri: str) -> TextResourceContents | BlobResourceContents:
    (content,) = (await client.read_resource(uri)).contents
    return content


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_reads_the_files_of_a_skill_that_its_entry_lists(tmp_path: Path, era: str) -> None:
    async with house(tmp_path) as server, server.client(era) as client:
        listing = await skills(client)
        (entry,) = listing.skills
        assert entry["uri"] == f"{ROOT}/SKILL.md"
        assert entry["frontmatter"] == {
            "name": "cash-flow",
            "description": "For money.",
            "allowed-tools": "wire",
            "version": 2,
        }
        uris = [each["uri"] for each in entry["resources"]]
        assert uris == [f"{ROOT}/SKILL.md", f"{ROOT}/assets/logo.png", f"{ROOT}/references/how%20to.md"]
        for file in entry["resources"]:
            content = await contents(client, file["uri"])
            raw = content.text.encode() if isinstance(content, TextResourceContents) else b64decode(content.blob)
            assert (file["digest"], file["size"]) == (f"sha256:{sha256(raw).hexdigest()}", len(raw))
        assert await skill(client, entry["uri"]) == entry
        kinds = [(await contents(client, uri)).mime_type for uri in uris]
    assert kinds == ["text/markdown", "image/png", "text/markdown"]
    assert (listing.ttl_ms, listing.cache_scope, listing.next_cursor) == (5_000, "private", None)


@pytest.mark.parametrize("era", ERAS)
async def test_skills_are_listed_with_the_resources(tmp_path: Path, era: str) -> None:
    async with house(tmp_path) as server, server.client(era) as client:
        listed = {each.uri: each for each in (await client.list_resources()).resources}
        template = f"{'skill://house/'}{{name}}/{{+path}}"
        templates = (await client.list_resource_templates()).resource_templates
        assert template in {each.uri_template for each in templates}
        reference = ResourceTemplateReference(uri=template)
        named = await client.complete(reference, {"name": "name", "value": "cash"})
        given = {"name": "cash-flow"}
        paths = await client.complete(reference, {"name": "path", "value": "a"}, context_arguments=given)
    found = listed[f"{ROOT}/SKILL.md"]
    assert (found.name, found.description, found.mime_type) == ("cash-flow", "For money.", "text/markdown")
    assert found.size == len(CASH_FLOW)
    assert not any("LOUD" in uri for uri in listed)
    assert (named.completion.values, paths.completion.values) == (["cash-flow"], ["assets/logo.png"])


async def test_the_server_declares_that_it_has_skills(tmp_path: Path) -> None:
    async with house(tmp_path) as server, server.client() as client:
        capabilities = client.session.server_capabilities
        assert capabilities is not None
        assert (capabilities.extensions or {})["io.modelcontextprotocol/skills"] == {}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "path",
    [
        "cash-flow/none.md",
        "cash-flow/../cash-flow/SKILL.md",
        "cash-flow/%2e%2e/secret.txt",
        "cash-flow/link.txt",
        "cash-flow/.hidden",
        "cash-flow",
        "none/SKILL.md",
        "LOUD/SKILL.md",
    ],
)
async def test_what_is_no_file_of_a_skill_is_not_there(tmp_path: Path, era: str, path: str) -> None:
    async with house(tmp_path) as server, server.client(era) as client:
        (tmp_path / "skills" / "secret.txt").write_text("secret")
        (tmp_path / "skills" / "cash-flow" / ".hidden").write_text("secret")
        (tmp_path / "skills" / "cash-flow" / "link.txt").symlink_to(tmp_path / "skills" / "secret.txt")
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"skill://house/{path}")
        assert caught.value.code == INVALID_PARAMS
        with pytest.raises(MCPError) as caught:
            await skill(client, f"skill://house/{path}")
        assert caught.value.code == INVALID_PARAMS


async def test_the_tools_of_skills_are_exported_without_those_that_a_skill_unlocks(tmp_path: Path) -> None:
    async with house(tmp_path) as server, server.client() as client:
        tools = {each.name: each for each in (await client.list_tools()).tools if each.name.startswith("house_")}
        assert sorted(tools) == ["house_activate", "house_listResources", "house_readResource"]
        assert all(each.annotations is not None and each.annotations.read_only_hint for each in tools.values())
        activated = text_of(await client.call_tool("house_activate", {"name": "cash-flow"}))
    assert "Read references/how to.md." in activated
    assert "It allows tools that are not among those of the skills here: wire." in activated


@pytest.mark.parametrize("era", ERAS)
async def test_many_skills_are_listed_page_by_page(tmp_path: Path, era: str) -> None:
    for name in ("a", "b", "d", "e"):
        write_skill(tmp_path, name, f"---\nname: {name}\ndescription: One of many.\n---\nDo.\n")
    async with house(tmp_path, page_size=2) as server, server.client(era) as client:
        found: list[str] = []
        page = await skills(client)
        found += [each["frontmatter"]["name"] for each in page.skills]
        while page.next_cursor is not None and len(found) < 10:
            page = await skills(client, page.next_cursor)
            found += [each["frontmatter"]["name"] for each in page.skills]
        assert found == ["a", "b", "cash-flow", "d", "e"]
        with pytest.raises(MCPError, match="not one of the list of skills"):
            await skills(client, (await client.list_resources()).next_cursor)


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_without_skills_lists_none(tmp_path: Path, era: str) -> None:
    async with served(tmp_path) as server, server.client(era) as client:
        assert (await skills(client)).skills == []


async def test_a_skill_that_cannot_be_given_to_clients_leaves_the_others_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(tmp_path, "infinite", "---\nname: infinite\ndescription: Odd.\nlimit: .inf\n---\nDo.\n")
    write_skill(tmp_path, "bytes", "---\nname: bytes\ndescription: Odd.\nlogo: !!binary /+8=\n---\nDo.\n")
    write_skill(tmp_path, "quoted", "---\nname: quoted\ndescription: Use when: asked.\n---\nDo.\n")
    write_skill(
        tmp_path, "many", "---\nname: many\ndescription: Odd.\n---\nDo.\n", **dict.fromkeys(map(str, range(512)), b"")
    )
    write_skill(tmp_path, "named", "---\nname: named\ndescription: Odd.\n---\nDo.\n", **{"\udcff.md": b"Do."})
    async with house(tmp_path) as server, server.client() as client:
        assert [each["uri"] for each in (await skills(client)).skills] == [f"{ROOT}/SKILL.md"]
        assert [each["uri"] for each in (await skills(client)).skills] == [f"{ROOT}/SKILL.md"]
        listed = [each.uri for each in (await client.list_resources()).resources]
        assert [each for each in listed if each.startswith("skill:")] == [f"{ROOT}/SKILL.md"]
    told = [each for each in caplog.messages if "is not given to clients" in each]
    why = {each.split("'")[1]: each.partition("given to clients: ")[2] for each in told}
    assert sorted(why) == ["LOUD", "bytes", "infinite", "many", "named", "quoted"]
    assert why["LOUD"].startswith("It breaks a rule of agentskills.io; `goalport skills check ")
    assert why["many"] == "It has more than 512 files or 16,777,216 bytes."
    assert why["infinite"] == why["named"] == "Its head has values, or its files have names, that JSON cannot express."


async def test_a_skill_that_has_changed_since_it_was_trusted_is_not_there(tmp_path: Path) -> None:
    trusting = """
from pathlib import Path
from goalport.knowledge.skills import Skills, SkillTrust
from goalport.tools import McpToolExport

root = Path(__file__).parent.parent
trust = SkillTrust(root / "trust.json")
trust.trust(root / ".agents/skills/cash-flow")
house = McpToolExport.from_llm_reference(Skills("house", "How we work").with_project_skills(root, trust))
"""
    write_skill(tmp_path / ".agents", "cash-flow", CASH_FLOW)
    async with served(tmp_path, files={"tools/house.py": trusting}) as server, server.client() as client:
        assert [each["uri"] for each in (await skills(client)).skills] == [f"{ROOT}/SKILL.md"]
        (tmp_path / ".agents" / "skills" / "cash-flow" / "more.md").write_text("Send money.")
        assert (await skills(client)).skills == []
        with pytest.raises(MCPError):
            await client.read_resource(f"{ROOT}/SKILL.md")
