"""A newspaper on this machine, and the tools by which a workspace reads it. No test is in here."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

HEADLINE = "Otters elect a mayor"
WEB = '''
"""The web, as far as this workspace goes: one newspaper."""

import re

import httpx2

from goalport import ToolGroup, tool
from goalport.errors import ToolError

PAPER = "{address}"


@tool(read_only=True)
async def search(query: str) -> str:
    """Search the news for a few words."""
    return await _text("/search", {{"q": query}})


@tool(read_only=True)
async def read_page(url: str) -> str:
    """Read a page that a search has found."""
    if not url.startswith(PAPER):
        raise ToolError(f"Only pages of {{PAPER}} can be read.")
    return await _text(url.removeprefix(PAPER), {{}})


async def _text(path: str, query: dict[str, str]) -> str:
    async with httpx2.AsyncClient(base_url=PAPER, timeout=30, trust_env=False) as http:
        response = await http.get(path, params=query)
    if response.is_error:
        raise ToolError(f"The paper answered {{response.status_code}}.")
    return re.sub(r"<(?!a |/a)[^>]+>", " ", response.text)


web = ToolGroup.of("web", search, read_page, description="Search and read the news")
'''
"""`tools/web.py` of a workspace, once its address is filled in."""


@dataclass
class Paper:
    """A newspaper that can be searched."""

    address: str = ""
    asked: list[str] = field(default_factory=list[str])
    """The paths and queries that came."""

    @property
    def story(self) -> str:
        """Where its one story is."""
        return f"{self.address}/otters"

    @property
    def tools(self) -> str:
        """The module with the tools that read it."""
        return WEB.format(address=self.address)

    async def search(self, request: Request) -> HTMLResponse:
        self.asked.append(f"search {request.query_params['q']}")
        return HTMLResponse(f'<ul><li><a href="{self.story}">{HEADLINE}</a></li></ul>')

    async def otters(self, request: Request) -> HTMLResponse:
        self.asked.append("otters")
        return HTMLResponse(f"<h1>{HEADLINE}</h1><p>Her programme is more fish and fewer boats.</p>")


@asynccontextmanager
async def newspaper() -> AsyncGenerator[Paper]:
    """A newspaper that appears until the block ends."""
    paper = Paper()
    app = Starlette(routes=[Route("/search", paper.search), Route("/otters", paper.otters)])
    web = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        paper.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(web.serve, [listener])
            try:
                yield paper
            finally:
                web.should_exit = True
