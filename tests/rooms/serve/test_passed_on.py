"""Resources and prompts of upstream servers: read by a tool of their group, and published with its tools."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, TextContent, TextResourceContents
from pydantic import AnyUrl

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
BOTH: dict[str, Any] = {"exports": True, "resources": True, "prompts": True, "naming": {"prefix": "their_"}}


def library(root: Path) -> dict[str, Any]:
    (root / "library.py").write_text(LIBRARY)
    return {"library": {"command": sys.executable, "args": [str(root / "library.py")]}}


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
