"""The way of docs/knowledge.md from a folder of PDFs to a client: its files and commands, and the official client."""

import re
from pathlib import Path
from typing import Final

import pytest
from mcp_types import CallToolResult, TextResourceContents

from goalport import AgentPlatform
from goalport.cli import execute
from goalport.models import ModelCall, Models
from goalport.testing import ScriptedModel, calls_tool, client_of
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings
from tests.docs.fences import fences, write_files
from tests.rooms.documents.files import pdf

PAGE: Final = "docs/knowledge.md"
_RESOURCE: Final = re.compile(r'resource="([^"]+)"')


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A workspace as the page leaves it; of two documents one can be read."""
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "magic.pdf").write_bytes(pdf("Magic numbers", "A magic number is matched at an offset."))
    (papers / "locked.pdf").write_bytes(pdf("Secret", "Nobody knows.", encrypted=True))
    workspace = tmp_path / "my-library"
    assert execute(["new", str(workspace)]) == 0
    (workspace / "references.yml").write_text(next(fences(PAGE, "yaml")).text)
    example = tmp_path / "example"
    example.mkdir()
    write_files(PAGE, example)
    (example / "agents" / "librarian.py").rename(workspace / "agents" / "librarian.py")
    monkeypatch.chdir(workspace)
    assert execute(["ingest", str(papers)]) == 1
    assert "locked.pdf cannot be read: it is protected by a password." in capsys.readouterr().err
    assert execute(["check"]) == 0
    return workspace


async def test_a_stranger_asks_a_folder_of_pdfs_from_a_client(library: Path) -> None:
    def answer(call: ModelCall) -> object:
        assert "A magic number is matched at an offset." in str(call.messages[-1])
        return {"content": "At an offset (magic.pdf).", "open_questions": []}

    model = ScriptedModel([calls_tool("papers_textSearch", query="magic numbers", topK=5), answer])
    workspace = load_workspace(library)
    platform = AgentPlatform.from_workspace(workspace, load_settings(library), models=Models(models=[model]))
    async with client_of(platform, workspace=workspace) as client:
        found = await client.call_tool("papers_textSearch", {"query": "how are magic numbers matched", "topK": 3})
        assert isinstance(found, CallToolResult)
        place = _RESOURCE.search(str(found.content))
        assert place is not None
        (read,) = (await client.read_resource(place[1])).contents
        assert isinstance(read, TextResourceContents)
        assert "A magic number is matched at an offset." in read.text
        asked = await client.call_tool("ask_papers", {"content": "How are magic numbers matched?"})
        assert isinstance(asked, CallToolResult)
        assert asked.structured_content == {"content": "At an offset (magic.pdf).", "open_questions": []}
