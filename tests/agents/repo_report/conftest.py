"""Reports as a client gets them: `report_repository` called over MCP, in memory."""

from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from mcp_types import CallToolResult, TextContent

from agents.repo_report.agent import Limits, RepositoryReporter
from agents.repo_report.report import RepositoryReport
from goalport.events import ActionFinished, Event
from goalport.testing import McpClient
from goalport.workspace.settings import load_settings
from tests.agents.repo_report.folders import Folder, Repository


@dataclass
class Reporting:
    """A server with one allowed folder, and a client of it."""

    root: Path
    connect: McpClient
    limits: Limits = field(default_factory=Limits)
    steps: list[str] = field(default_factory=list[str])
    """The steps of the last report; one that declined has a question mark."""
    messages: list[str] = field(default_factory=list[str])

    def on_event(self, event: Event) -> None:
        if isinstance(event, ActionFinished):
            mark = "" if event.status == "succeeded" else "?"
            self.steps.append(event.action.rpartition(".")[2] + mark)

    async def call(self, **arguments: object) -> CallToolResult:
        self.steps.clear()
        agent, settings = RepositoryReporter(self.limits), load_settings(self.root)
        with anyio.fail_after(60):
            async with self.connect(agent, services=[settings], listeners=[self]) as client:
                return await client.call_tool("report_repository", arguments, progress_callback=self._on_progress)

    async def report(self, path: str = ".", **arguments: object) -> RepositoryReport:
        result = await self.call(path=path, **arguments)
        assert not result.is_error, result.content
        report = RepositoryReport.model_validate(result.structured_content)
        assert [block.text for block in result.content if isinstance(block, TextContent)] == [report.content]
        return report

    async def refusal(self, path: str = ".", **arguments: object) -> str:
        result = await self.call(path=path, **arguments)
        assert result.is_error
        (block,) = result.content
        assert isinstance(block, TextContent)
        return block.text

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.messages.append(message or "")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder that may be reported on; the server's user has no git configuration."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def reporting(root: Path, mcp_client: McpClient) -> Reporting:
    return Reporting(root, mcp_client)


@pytest.fixture
def folder(root: Path) -> Folder:
    return Folder(root)


@pytest.fixture
def repository(root: Path, tmp_path: Path) -> Repository:
    return Repository.make(root, tmp_path / "home")
