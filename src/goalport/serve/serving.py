"""The state of one server while it serves: what it publishes now, whom it tells of changes, which calls are open.

Handlers find it as the SDK's lifespan context. It composes; the work is done in `calls`, `resources` and `server`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import anyio
from anyio import to_thread
from mcp.server.context import ServerRequestContext

from goalport.caller import Caller
from goalport.errors import SettingsError, UnknownName
from goalport.platform import AgentPlatform
from goalport.process import AgentProcess
from goalport.publish.answers import Answers
from goalport.publish.group_tools import exported_groups
from goalport.publish.publication import Publication, publish
from goalport.serve.changes import Changes, Kind
from goalport.serve.runs import Runs
from goalport.settings import Settings
from goalport.workspace import Workspace

__all__ = ["Context", "Serving", "connected"]

_log = logging.getLogger(__name__)
_GAP: Final = 0.05
"""Seconds in which changes of several servers become one."""


class Serving:
    """One server's state; each replica has its own. Raises `SettingsError` for a role whose model is not ready."""

    def __init__(self, platform: AgentPlatform, workspace: Workspace, settings: Settings) -> None:
        if problems := platform.models.problems():
            raise SettingsError("\n".join(f"[models] {each}" for each in problems))
        self.platform = platform
        platform.processes.tells_errors = settings.show_errors
        self.workspace = workspace
        self.settings = settings
        self.publication: Publication = publish(platform, workspace, settings)
        self.changes = Changes()
        self.runs = Runs()
        self.answers = Answers(settings.max_result_bytes)
        self.open_calls = 0
        self._publishing = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()

    async def adopt(self, workspace: Workspace) -> None:
        """Serve a workspace that was loaded anew; calls that are open finish with what they began with."""
        self.platform.load(workspace)
        self.workspace = workspace
        try:
            await self.platform.upstream.reload()
        except SettingsError as error:
            _log.error("The upstream servers are not all as they should be: %s", error)
        await self.republish("tools", "prompts", "resources")

    async def republish(self, *kinds: Kind) -> None:
        """Publish what platform and workspace offer now, and tell the clients which lists changed."""
        # In a thread: for a hundred agents it takes half a second, in which others are served.
        async with self._publishing:
            before = self.publication.of_groups
            self.publication = await to_thread.run_sync(publish, self.platform, self.workspace, self.settings, before)
        await self.changes.announce(*kinds)

    def say_what_is_new(self, before: Publication) -> None:
        """Log the problems and warnings that another publication did not have."""
        known = {*before.problems, *before.warnings}
        for each in (*self.publication.problems, *self.publication.warnings):
            if each not in known:
                _log.warning("%s", each)

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


Context = ServerRequestContext[Serving, Any]


@asynccontextmanager
async def connected(serving: Serving) -> AsyncGenerator[None]:
    """The time in which upstream servers are connected, and what is published follows what they list."""
    upstream = serving.platform.upstream
    bell = asyncio.Event()
    upstream.on_change = bell.set
    bell.set()
    try:
        if not upstream.connected:
            await upstream.open()
            await serving.republish()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_follow, serving, bell)
            yield
            tasks.cancel_scope.cancel()
    finally:
        upstream.on_change = lambda: None


async def _follow(serving: Serving, bell: asyncio.Event) -> None:
    """Publish anew whenever exported tools are others, until cancelled."""
    while True:
        await bell.wait()
        await anyio.sleep(_GAP)
        bell.clear()
        before = serving.publication
        # In a thread, as publishing is: thousands of tools take long to look through.
        if await to_thread.run_sync(exported_groups, serving.platform) != before.of_groups.groups:
            await serving.republish()
            if serving.publication.tool_list != before.tool_list:
                await serving.changes.announce("tools")
            serving.say_what_is_new(before)
