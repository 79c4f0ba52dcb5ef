"""The publisher: it holds what is offered now, publishes anew when that changes, and tells the doors of it.

One publisher serves all doors of a server. It starts no process and knows no client; `publication` is below it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Literal

import anyio
from anyio import to_thread

from goalport.errors import SettingsError
from goalport.platform import AgentPlatform
from goalport.publish.group_tools import exported_groups
from goalport.publish.publication import Publication, publish
from goalport.settings import Settings
from goalport.workspace import Workspace

__all__ = ["ListKind", "Publisher"]

ListKind = Literal["tools", "prompts", "resources"]

_log = logging.getLogger(__name__)
_GAP: Final = 0.05
"""Seconds in which changes of several servers become one."""


class Publisher:
    """What one server offers while it runs. Raises `SettingsError` for a role whose model is not ready."""

    def __init__(self, platform: AgentPlatform, workspace: Workspace, settings: Settings) -> None:
        if problems := platform.models.problems():
            raise SettingsError("\n".join(f"[models] {each}" for each in problems))
        platform.processes.tells_errors = settings.show_errors
        self.platform = platform
        self.workspace = workspace
        self.settings = settings
        self.publication: Publication = publish(platform, workspace, settings)
        self._publishing = asyncio.Lock()
        self._subscribers: list[Callable[..., Awaitable[None]]] = []

    def subscribe(self, tell: Callable[..., Awaitable[None]]) -> None:
        """Call `tell` with the kinds of the lists that changed, whenever some did, for as long as the server runs."""
        self._subscribers.append(tell)

    async def adopt(self, workspace: Workspace) -> None:
        """Offer a workspace that was loaded anew; calls that are open finish with what they began with."""
        self.platform.load(workspace)
        self.workspace = workspace
        try:
            await self.platform.upstream.reload()
        except SettingsError as error:
            _log.error("The upstream servers are not all as they should be: %s", error)
        await self.republish("tools", "prompts", "resources")

    async def republish(self, *kinds: ListKind) -> None:
        """Publish what platform and workspace offer now, and say that the lists of these kinds changed."""
        # In a thread: for a hundred agents it takes half a second, in which others are served.
        async with self._publishing:
            before = self.publication.of_groups
            self.publication = await to_thread.run_sync(publish, self.platform, self.workspace, self.settings, before)
        await self._tell(*kinds)

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        """The time in which upstream servers are connected, and what is published follows what they list."""
        upstream = self.platform.upstream
        changed = asyncio.Event()
        upstream.on_change = changed.set
        changed.set()
        try:
            if not upstream.connected:
                await upstream.open()
                await self.republish()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow, changed)
                yield
                tasks.cancel_scope.cancel()
        finally:
            upstream.on_change = lambda: None

    async def _follow(self, changed: asyncio.Event) -> None:
        """Publish anew whenever exported tools are others, until cancelled."""
        while True:
            await changed.wait()
            await anyio.sleep(_GAP)
            changed.clear()
            before = self.publication
            # In a thread, as publishing is: thousands of tools take long to look through.
            if await to_thread.run_sync(exported_groups, self.platform) != before.of_groups.groups:
                await self.republish()
                if self.publication.tool_list != before.tool_list:
                    await self._tell("tools")
                self._log_what_is_new(before)

    async def _tell(self, *kinds: ListKind) -> None:
        for tell in self._subscribers:
            await tell(*kinds)

    def _log_what_is_new(self, before: Publication) -> None:
        """Log the problems and warnings that another publication did not have."""
        known = {*before.problems, *before.warnings}
        for each in (*self.publication.problems, *self.publication.warnings):
            if each not in known:
                _log.warning("%s", each)
