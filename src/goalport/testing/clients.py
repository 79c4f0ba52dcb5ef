"""An in-memory MCP client: the official one, connected without a network to the server that goalport would run."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from goalport.platform import AgentPlatform
from goalport.settings import load_settings
from goalport.workspace import Workspace

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["McpClient", "client_of"]

McpClient = Callable[..., "AbstractAsyncContextManager[Client]"]
"""The fixture `mcp_client`: call it with agents, or without any for the workspace under test."""


@asynccontextmanager
async def client_of(
    platform: AgentPlatform, *, workspace: Workspace | None = None, **options: Any
) -> "AsyncGenerator[Client]":
    """A client of a server that publishes the goals of a platform, and the tools that a workspace exports.

    `options` go to `mcp.Client`: `mode`, `elicitation_callback`, … The platform is closed at the end.
    """
    from mcp import Client

    from goalport.publish.publisher import Publisher
    from goalport.serve.server import make_server
    from goalport.serve.state import McpState

    with TemporaryDirectory() as folder:
        root = workspace.root if workspace else Path(folder)
        settings = load_settings(root, data_dir=Path(folder))
        async with platform:
            server, _ = make_server(McpState(Publisher(platform, workspace or Workspace(root), settings)))
            async with Client(server, **options) as client:
                yield client
