"""The state of one MCP server: what it offers now, whom it notifies of changes, which calls are open.

Handlers find it as the SDK's lifespan context. It composes; the work is done in `calls`, `resources` and `server`.
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
    """One server's state; each replica has its own."""

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
        """What is offered now."""
        return self.publisher.publication

    def process(self, process_id: str, caller: Caller) -> AgentProcess | None:
        """A process of this caller; None when it is unknown or somebody else's, which nobody else shall learn."""
        try:
            found = self.platform.process(process_id)
        except UnknownName:
            return None
        return found if (found.caller.id, found.caller.issuer) == (caller.id, caller.issuer) else None

    @contextmanager
    def call(self) -> Generator[None]:
        """The time in which a call is answered; a shutdown waits for it."""
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
