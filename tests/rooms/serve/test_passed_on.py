"""Resources and prompts of upstream servers: read by a tool of their group, and published with its tools."""

import base64
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, ReadResourceResult, TextContent, TextResourceContents
from pydantic import AnyUrl

from goalport.server.auth import Access
from goalport.server.auth.access import granted
from goalport.server.doors.mcp.server import GoalServer, make_server
from goalport.server.doors.mcp.state import McpState
from tests.rooms.auth.tokens import spoken
from tests.rooms.serve.served import ERAS, text_of
from tests.rooms.serve.test_upstream import until, wired

LIBRARY = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ResourceLink

library = MCPServer("library")

@library.resource("demo://greeting", description="A \\u202egreeting")
def greeting() -> str:
    return "Hello!"

@library.resource("demo://logo", mime_type="application/octet-stream")
def logo() -> bytes:
    return b"\\x00\\x01"

@library.resource("demo://long")
def long() -> str:
    return "x" * 2_000_000

@library.resource("goalport://goals")
def goals() -> str:
    return "not ours"

@library.resource("demo://notes/{name}", description="A note")
def note(name: str) -> str:
    return f"Note {name}"

@library.prompt(description="Greet somebody")
def greet(name: str) -> str:
    return f"Greet {name}."

@library.tool()
def link() -> ResourceLink:
    return ResourceLink(type="resource_link", uri="demo://notes/7", name="seven")

@library.tool()
async def grow(context: Context) -> str:
    library.prompt(name="grown")(lambda: "More.")
    await context.session.send_prompt_list_changed()
    return "grown"

library.run("stdio")
"""
READER = """
from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent
from pydantic import BaseModel

class Read(BaseModel):
    content: str

@agent(description="Reads")
class Reader:
    @achieves_goal(description="Read", export=Export(remote=True, name="read", starting_input_types=[UserInput]))
    @action(tool_groups=["theirs"])
    async def read(self, said: UserInput, context: ActionContext) -> Read:
        tool = next(each for each in context.tools if each.name.endswith("read_resource_of_library"))
        result = await tool.call({"uri": said.content} if said.content != "list" else {})
        text = str(result.text or [each.model_dump() for each in result.blocks])
        return Read(content=text if len(text) < 2_000 else f"{len(text)} characters, at the end {text[-200:]}")
"""
SECOND = """
from mcp.server import MCPServer

second = MCPServer("second")

@second.resource("demo://drafts/{name}")
def draft(name: str) -> str:
    return f"Draft {name}"

@second.resource("demo://greeting")
def greeting() -> str:
    return "Another!"

second.run("stdio")
"""
ASKING = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

asking = MCPServer("asking")

class Name(BaseModel):
    name: str

@asking.resource("demo://asked/{number}")
async def asked(number: str, context: Context) -> str:
    return (await context.elicit("Who?", Name)).action

@asking.prompt()
def hello() -> str:
    return "Hello."

asking.run("stdio")
"""
LISTS = """
import json, sys

kinds = {"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}
LISTED = json.load(open(sys.argv[1]))
for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            result = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "l", "version": "1"}}
            result["capabilities"] = {"tools": {}, "resources": {}, "prompts": {}}
        case "tools/list":
            result = {"tools": LISTED.get("tools", [{"name": "here", "inputSchema": {"type": "object"}}])}
        case ("resources/list" | "resources/templates/list" | "prompts/list") as method:
            found = LISTED.get(kinds[method], [])
            if found == "never":
                continue
            start = int((asked.get("params") or {}).get("cursor", 0))
            result = {kinds[method]: found[start : start + 1_000]}
            if start + 1_000 < len(found):
                result["nextCursor"] = str(start + 1_000)
        case _:
            result = None
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "not known"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
"""A server with what a file lists, and with one tool if there is none in it."""
BOTH: dict[str, Any] = {"exports": True, "resources": True, "prompts": True, "naming": {"prefix": "their_"}}


def library(root: Path) -> dict[str, Any]:
    (root / "library.py").write_text(LIBRARY)
    return {"library": {"command": sys.executable, "args": [str(root / "library.py")]}}


@asynccontextmanager
async def caller_with(server: GoalServer, *scopes: str) -> AsyncGenerator[Client]:
    with granted({}, await spoken().grant_of(f"ada={'+'.join(scopes)}"), "token"):
        async with Client(server) as client:
            yield client


def text_at(read: ReadResourceResult) -> str:
    (content,) = read.contents
    assert isinstance(content, TextResourceContents)
    return content.text


def listing(root: Path, listed: object, **more: object) -> dict[str, Any]:
    (root / "lists.py").write_text(LISTS)
    (root / "listed.json").write_text(json.dumps(listed))
    arguments = [str(root / "lists.py"), str(root / "listed.json")]
    return {"lists": {"command": sys.executable, "args": arguments, **more}}


async def test_an_action_reads_what_is_listed_and_what_results_have_links_to(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "reader.py").write_text(READER)
    groups = {"theirs": {"resources": True, "include": ["link"]}}
    async with wired(tmp_path, groups, library(tmp_path)) as server, server.client() as client:

        async def read(uri: str) -> str:
            return text_of(await client.call_tool("read", {"content": uri}))

        listed = await read("list")
        assert "- demo://greeting: greeting. A greeting\n" in listed
        assert "- demo://notes/{name}: note. A note" in listed
        assert "Hello!" in await read("demo://greeting")
        assert "Note 7" in await read("demo://notes/7")
        long = await read("demo://long")
        assert long.startswith("1000")
        assert "not all of it is here" in long
        refused = await client.call_tool("read", {"content": "demo://nowhere"})
        assert "read_resource_of_library: the server 'library' refused" in text_of(refused)
        assert not [each for each in (await client.list_resources()).resources if str(each.uri).startswith("demo:")]
        assert [each.name for each in (await client.list_prompts()).prompts] == ["read"]


@pytest.mark.parametrize("era", ERAS)
async def test_an_exported_group_publishes_resources_templates_and_prompts(tmp_path: Path, era: str) -> None:
    async with wired(tmp_path, {"theirs": BOTH}, library(tmp_path)) as server, server.client(era) as client:
        resources = {str(each.uri): each for each in (await client.list_resources()).resources}
        assert resources["demo://greeting"].description == "A greeting"
        assert resources["goalport://goals"].description == "Every goal and its tools"
        templates = {each.uri_template for each in (await client.list_resource_templates()).resource_templates}
        assert {"demo://notes/{name}", "demo:{+rest}"} <= templates
        assert (await client.read_resource("demo://greeting")).contents == [
            TextResourceContents(uri="demo://greeting", mime_type="text/plain", text="Hello!")
        ]
        (logo,) = (await client.read_resource("demo://logo")).contents
        assert isinstance(logo, BlobResourceContents)
        assert base64.b64decode(logo.blob) == b"\x00\x01"
        (link,) = (await client.call_tool("their_link", {})).content
        assert link.type == "resource_link"
        (note,) = (await client.read_resource(link.uri)).contents
        assert isinstance(note, TextResourceContents)
        assert note.text == "Note 7"
        assert "Note 7" in str(
            (await client.call_tool("their_read_resource_of_library", {"uri": "demo://notes/7"})).content
        )

        (prompt,) = [each for each in (await client.list_prompts()).prompts if each.name == "their_greet"]
        assert [each.name for each in prompt.arguments or ()] == ["name"]
        (message,) = (await client.get_prompt("their_greet", {"name": "Ada"})).messages
        assert message.content == TextContent(type="text", text="Greet Ada.")


@pytest.mark.parametrize("era", ERAS)
async def test_what_cannot_be_read_is_said(tmp_path: Path, era: str) -> None:
    async with wired(tmp_path, {"theirs": BOTH}, library(tmp_path)) as server, server.client(era) as client:
        with pytest.raises(MCPError, match="the server 'library' refused the call"):
            await client.read_resource("demo://nowhere")
        with pytest.raises(MCPError, match="demo://long is too long to be passed on"):
            await client.read_resource("demo://long")
        with pytest.raises(MCPError, match="the server 'library' refused the call"):
            await client.get_prompt("their_greet", {})


async def test_a_resource_whose_server_asked_something_that_was_declined_is_read(tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(ASKING)
    entry = {"command": sys.executable, "args": [str(tmp_path / "asking.py")], "protocolVersion": "2025-11-25"}
    async with wired(tmp_path, {"theirs": BOTH}, {"asking": entry}) as server, server.client() as client:
        assert text_at(await client.read_resource("demo://asked/7")) == "decline"
        answer = await client.get_prompt("their_hello", {})
        assert (answer.meta or {})["io.modelcontextprotocol/serverInfo"]["name"] == "goalport"


async def test_resources_that_a_person_has_to_approve_are_not_published(tmp_path: Path) -> None:
    groups = {
        "theirs": {**BOTH, "approve": {"read_resource_*": "always", "*": "never"}, "exclude": ["read_resource_*"]},
    }
    async with wired(tmp_path, groups, library(tmp_path)) as server, server.client() as client:
        assert "their_link" in server.state.publication.tools
        assert "read_resource_of_library of the tool group theirs is not published" in str(
            server.state.publication.problems
        )
        assert [each.name for each in (await client.list_prompts()).prompts] == ["their_greet"]
        assert [str(each.uri) for each in (await client.list_resources()).resources] == ["goalport://goals"]
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource("demo://greeting")
        (warning,) = server.state.publication.warnings
        assert "exclude 'read_resource_*' matches no tool" in warning


async def test_prompts_follow_the_server(tmp_path: Path) -> None:
    async with wired(tmp_path, {"theirs": BOTH}, library(tmp_path)) as server, server.client() as client:
        await client.call_tool("their_grow", {})
        await until(lambda: "their_grown" in server.state.publication.prompts)


async def test_resources_and_prompts_are_counted_but_not_published_unless_the_group_says_so(tmp_path: Path) -> None:
    groups = {"theirs": {"exports": True}, "own": {**BOTH, "exports": False}}
    async with wired(tmp_path, groups, library(tmp_path)) as server, server.client() as client:
        (report,) = server.platform.upstream.reports()
        assert (report.resources, report.prompts) == (5, 1)
        assert not [each for each in (await client.list_resources()).resources if str(each.uri).startswith("demo:")]
        assert not (await client.list_prompts()).prompts
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource(str(AnyUrl("demo://greeting")))


async def test_a_prompt_of_others_never_displaces_one_of_ours(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "reader.py").write_text(READER.replace('name="read"', 'name="greet"'))
    groups: dict[str, Any] = {"theirs": {**BOTH, "naming": {}}}
    async with wired(tmp_path, groups, library(tmp_path)) as server, server.client() as client:
        (prompt,) = (await client.list_prompts()).prompts
        assert prompt.description == "Read"
        assert "another one is called 'greet'" in str(server.state.publication.problems)


@pytest.mark.parametrize("roles", [("a", "b"), ("b", "a")])
async def test_servers_with_one_scheme_keep_their_templates_and_their_scopes(
    tmp_path: Path, roles: tuple[str, str]
) -> None:
    (tmp_path / "second.py").write_text(SECOND)
    servers = {**library(tmp_path), "second": {"command": sys.executable, "args": [str(tmp_path / "second.py")]}}
    closed, free = roles
    reached = "the server 'second' refused" if free == "a" else "needs the scope cook"
    groups = {
        closed: {**BOTH, "servers": ["library"], "scopes": ["cook"]},
        free: {**BOTH, "servers": ["second"], "scopes": ["goals:read"]},
    }
    async with wired(tmp_path, groups, servers) as server:
        publisher = server.state.publisher
        guarded, _ = make_server(McpState(publisher, Access(publisher, spoken())))
        async with caller_with(guarded, "goals:read") as client:
            assert text_at(await client.read_resource("demo://drafts/7")) == "Draft 7"
            with pytest.raises(MCPError, match="needs the scope cook"):
                await client.read_resource("demo://notes/7")
            for uri in ("demo://unlisted", "demo://drafts/a/b"):
                with pytest.raises(MCPError, match=reached):
                    await client.read_resource(uri)
            templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
            assert "demo://notes/{name}" not in templates
        async with caller_with(guarded, "goals:read", "cook") as client:
            assert text_at(await client.read_resource("demo://notes/7")) == "Note 7"
            assert text_at(await client.read_resource("demo://drafts/7")) == "Draft 7"
            templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
            assert len(templates) == len({*templates})
        (problem,) = server.state.publication.problems
        assert problem == (
            "Two resources are at demo://greeting; the first is published. Give the other another address."
        )


async def test_what_breaks_the_protocol_in_a_list_is_left_out_and_the_rest_is_there(tmp_path: Path) -> None:
    listed = {
        "resources": [{"uri": "demo://a", "name": "a"}, {"uri": 5, "name": "five"}, {"name": "nowhere"}],
        "resourceTemplates": ["none", {"uriTemplate": "demo://{a}", "name": "a"}],
        "prompts": [{"name": "good"}, {"name": "bad", "arguments": "none"}],
    }
    async with wired(tmp_path, {"theirs": {**BOTH, "naming": {}}}, listing(tmp_path, listed)) as server:
        (report,) = server.platform.upstream.reports()
        assert (report.tools, report.resources, report.prompts) == (1, 2, 1)
        assert [note.partition(":")[0] for note in report.notes] == [
            "the resource 'five' is left out",
            "the resource 'nowhere' is left out",
            "the template number 1 of its list is left out",
            "the prompt 'bad' is left out",
        ]


async def test_resources_and_prompts_that_are_not_fit_to_be_published_are_left_out(tmp_path: Path) -> None:
    listed = {
        "resources": [
            {"uri": "demo://a", "name": "a", "title": "A\n- demo://b: forged"},
            {"uri": "demo://a", "name": "again"},
            {"uri": "demo://long", "name": "n" * 100_000},
            {"uri": "demo://" + "u" * 100_000, "name": "u"},
            {"uri": "demo://\u202ehidden\n", "name": "h"},
        ],
        "prompts": [{"name": ""}, {"name": "p"}, {"name": "q" * 100_000}],
    }
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "reader.py").write_text(READER.replace("_library", "_lists"))
    groups: dict[str, Any] = {"theirs": {**BOTH, "naming": {}}}
    async with wired(tmp_path, groups, listing(tmp_path, listed)) as server, server.client() as client:
        (report,) = server.platform.upstream.reports()
        assert (report.resources, report.prompts) == (1, 1)
        assert not server.state.publication.problems
        said = text_of(await client.call_tool("read", {"content": "list"}))
        assert "- demo://a: A - demo://b: forged" in said


async def test_descriptions_in_lists_hide_secrets(tmp_path: Path) -> None:
    secret = "a-token-of-ours"
    listed = {
        "tools": [{"name": "t", "description": secret, "inputSchema": {"type": "object", "description": secret}}],
        "resources": [{"uri": "demo://a", "name": "a", "title": secret}],
        "prompts": [{"name": "p", "arguments": [{"name": "a", "description": secret}]}],
    }
    servers = listing(tmp_path, listed, env={"TOKEN": secret})
    async with wired(tmp_path, {"theirs": BOTH}, servers) as server, server.client() as client:
        lists = [await client.list_tools(), await client.list_resources(), await client.list_prompts()]
        assert ["***" in str(each) for each in lists] == [True, True, True]
        assert secret not in str(lists)


async def test_lists_that_never_come_or_are_long_keep_no_server_from_being_used(tmp_path: Path) -> None:
    listed = {
        "resources": "never",
        "resourceTemplates": "never",
        "prompts": [{"name": f"p{each}"} for each in range(2_500)],
    }
    servers = listing(tmp_path, listed, connectTimeout=4)
    async with wired(tmp_path, {"theirs": BOTH}, servers) as server:
        (report,) = server.platform.upstream.reports()
        assert (report.state, report.prompts) == ("up", 1_000)
        assert sorted(report.notes) == [
            "it lists more than 1,000 prompts, of which the first 1,000 are used",
            "its resources could not be listed: no answer within 2 s",
            "its templates could not be listed: no answer within 2 s",
        ]
