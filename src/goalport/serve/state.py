"""The state of one MCP server: its publication, its notifications, its runs and its open calls.

Handlers get it as the SDK's lifespan context. It only holds these; `calls`, `resources` and `server` do the work.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from mcp.server.context import ServerRequestContext

from goalport.caller import Caller
from goalport.errors import UnknownName
from goalport.process import AgentProcess
from goalport.publish.answers import AnswerFormat
from goalport.publish.publication import Publication
from goalport.publish.publisher import Publisher
from goalport.serve.notifications import Notifications
from goalport.serve.runs import Runs

__all__ = ["Context", "McpState"]


class McpState:
    """The state of one server; each replica has its own."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.platform = publisher.platform
        self.settings = publisher.settings
        self.notifications = Notifications()
        self.runs = Runs()
        self.answers = AnswerFormat(self.settings.max_result_bytes)
        self.open_calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        publisher.subscribe(self.notifications.announce)

    @property
    def publication(self) -> Publication:
        """The current publication."""
        return self.publisher.publication

    def process(self, process_id: str, caller: Caller) -> AgentProcess | None:
        """A process of this caller; None if there is none, or, without a difference, if it is another caller's."""
        try:
            found = self.platform.process(process_id)
        except UnknownName:
            return None
        return found if (found.caller.id, found.caller.issuer) == (caller.id, caller.issuer) else None

    @contextmanager
    def call(self) -> Generator[None]:
        """A context in which a call counts as open; a shutdown waits for open calls."""
        self.open_calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.open_calls -= 1
            if not self.open_calls:
                self._idle.set()

    async def idle(self) -> None:
        """Wait until no call is open."""
        await self._idle.wait()


Context = ServerRequestContext[McpState, Any]
