"""A server in memory and its clients, for the tests of this room. No test is in here."""

import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types import CallToolResult, TextContent, Tool

from goalport.base.caller import Caller
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess
from goalport.server.auth import Grant
from goalport.server.auth.access import granted
from goalport.server.doors.mcp.server import GoalServer, make_server
from goalport.server.doors.mcp.state import McpState
from goalport.server.publish.publication import Publication
from goalport.server.publish.publisher import Publisher
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings

ERAS = ("auto", "legacy")
"""How a client begins: with the newest revision, or with a handshake."""


@dataclass(frozen=True)
class Served:
    """A server that runs in the test's own process."""

    state: McpState
    server: GoalServer

    @property
    def platform(self) -> AgentPlatform:
        return self.state.platform

    async def process(self) -> AgentProcess:
        """The only process, which runs or has ended."""
        (record,) = await self.platform.processes.records()
        return await self.platform.process(record.id)

    @asynccontextmanager
    async def client(self, era: str = "auto", **options: Any) -> AsyncGenerator[Client]:
        async with Client(self.server, mode=era, **options) as client:
            yield client


@asynccontextmanager
async def served(
    root: Path, *agents: object, files: Mapping[str, str] | None = None, **settings: Any
) -> AsyncGenerator[Served]:
    """Serve agents, and the modules whose text `files` gives by path, with settings other than the usual ones."""
    state = state_of(root, *agents, files=files, **settings)
    async with state.platform:
        yield Served(state, make_server(state)[0])


def state_of(root: Path, *agents: object, files: Mapping[str, str] | None = None, **settings: Any) -> McpState:
    for name, text in (files or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    given = load_settings(root, **settings)
    workspace = load_workspace(root)
    platform = AgentPlatform.from_workspace(workspace, given)
    for agent in agents:
        platform.deploy(agent)
    return McpState(Publisher(platform, workspace, given))


@contextmanager
def as_admin(name: str) -> Generator[None]:
    """The time in which requests come with the token of an admin, as the guard leaves it."""
    with granted({}, Grant(Caller(name, "https://issuer", admin=True), "app"), "t"):
        yield


@contextmanager
def as_caller(name: str, issuer: str = "https://issuer") -> Generator[None]:
    """The time in which requests come with somebody's token, as the SDK's authentication leaves it."""
    token = AccessToken(token="t", client_id="app", scopes=["run"], subject=name, claims={"iss": issuer})
    before = auth_context_var.set(AuthenticatedUser(token))
    try:
        yield
    finally:
        auth_context_var.reset(before)


def published(root: Path, *agents: object, files: Mapping[str, str] | None = None) -> Publication:
    """What would be served, without state it."""
    state = state_of(root, *agents, files=files)
    return state.publication


def tool_of(publication: Publication, name: str) -> Tool:
    return publication.tools[name].tool


def text_of(result: CallToolResult) -> str:
    """All the text of a result."""
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


class LoggedError(logging.Handler):
    """Waits for a line of the log that tells of an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told = anyio.Event()
        self.words = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.words = record.getMessage()
        self.told.set()


@contextmanager
def logged_error(logger: str) -> Generator[LoggedError]:
    """What this logger tells as an error while the block lasts."""
    handler = LoggedError()
    logging.getLogger(logger).addHandler(handler)
    yield handler
    logging.getLogger(logger).removeHandler(handler)
