"""All upstream servers together: started and ended at once, and told apart again when the configuration changes.

`platform` owns it, and gives it to the resolver of tool groups as a source: its groups are made of what servers list.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import anyio
from anyio.abc import TaskGroup

from goalport.errors import SettingsError
from goalport.tools import Tool, ToolGroup
from goalport.upstream.config import McpConfig, Problem, ServerConfig
from goalport.upstream.connection import Pace, Sample
from goalport.upstream.groups import LiveGroups
from goalport.upstream.oauth import SignIn
from goalport.upstream.pins import PINS_FILE, Pins
from goalport.upstream.report import ServerReport, ServerState
from goalport.upstream.secrecy import Secrecy, keeping_secrets
from goalport.upstream.server import UpstreamServer
from goalport.upstream.targets import Targets
from goalport.upstream.watchdog import Watchdog

__all__ = ["UpstreamHub"]


class UpstreamHub:
    """The servers of a configuration. Entering connects them all, and waits for them no longer than `start_wait`.

    A server that is `required` is waited for until its own time to connect is over; `SettingsError` when it is not
    there then. Enter and leave it in the same task.
    """

    def __init__(
        self,
        config: McpConfig,
        data_dir: Path,
        *,
        start_wait: float = 5.0,
        pace: Pace = Pace(),  # noqa: B008 - a frozen record
        sample: Sample | None = None,
        show_sign_in: SignIn | None = None,
    ) -> None:
        self.config = config
        self.live = LiveGroups(self, Pins(data_dir / PINS_FILE))
        """The groups as they are now, what is odd about them, and trusting tools that are withheld."""
        self.start_wait = start_wait
        """Seconds that entering waits for servers that are not required."""
        self._pace = pace
        self._sample = sample
        self.on_change: Callable[[], None] = lambda: None
        """Called when a server's state or its list of tools is another; it must not raise."""
        self._secrecy = Secrecy(())
        self._watchdog = Watchdog()
        self._targets = Targets(data_dir / "oauth", self._watchdog, show_sign_in)
        self._servers: dict[str, UpstreamServer] = {}
        self._tasks: TaskGroup | None = None
        self._stack = AsyncExitStack()

    @property
    def servers(self) -> Mapping[str, UpstreamServer]:
        """By name, in the order of the configuration."""
        return self._servers

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.config.problems

    def groups(self) -> tuple[ToolGroup, ...]:
        """The groups that have tools to call now."""
        return self.live.groups()

    def absent(self) -> Mapping[str, tuple[Tool, ...]]:
        """The tools of groups, by role, that cannot be called now."""
        return self.live.absent()

    def why_missing(self, role: str) -> str:
        """Why a group, or a part of it, cannot be used; empty: nothing keeps it, or it is not known here."""
        return self.live.why_missing(role)

    def report(self) -> tuple[ServerReport, ...]:
        """How each server is, in the order of the configuration."""
        return tuple(each.report() for each in self._servers.values())

    async def __aenter__(self) -> Self:
        stack = self._stack
        stack.callback(self._watchdog.close)
        stack.enter_context(keeping_secrets(self._secrecy))
        self._tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.push_async_callback(self._stop_all)
        entered = False
        try:
            await self._start(self.config.servers.values())
            entered = True
        finally:
            if not entered:
                await stack.aclose()
        return self

    async def __aexit__(self, *_: object) -> None:
        # Not told of the error of the block: a task group would wrap it.
        await self._stack.aclose()

    async def reload(self, config: McpConfig) -> None:
        """Take another configuration: servers that are the same in both go on as they are.

        Raises SettingsError for a new required server that does not come; the configuration is taken all the same.
        """
        before = self._servers
        kept = {name: each for name, each in before.items() if config.servers.get(name) == each.config}
        self.config = config
        # The secrets of those that end now are still to be hidden while they do.
        self._secrecy.learn([*config.servers.values(), *(each.config for each in before.values())])
        await self._stop(each for name, each in before.items() if name not in kept)
        self._servers = kept
        await self._start(each for name, each in config.servers.items() if name not in kept)
        self.on_change()

    async def _start(self, configs: Iterable[ServerConfig]) -> None:
        assert self._tasks is not None
        self._secrecy.learn(self.config.servers.values())
        started = {config.name: self._server(config) for config in configs}
        known = self._servers | started
        self._servers = {name: known[name] for name in self.config.servers if name in known}
        for each in started.values():
            self._tasks.start_soon(each.run)
        with anyio.move_on_after(self.start_wait):
            for each in started.values():
                await each.settled()
        for each in started.values():
            if each.config.required and not each.config.disabled:
                await self._require(each)

    async def _require(self, server: UpstreamServer) -> None:
        # It bounds its own attempts.
        await server.settled()
        if server.state is not ServerState.UP:
            raise SettingsError(f"The required server {server.name!r} is {server.state}: {server.last_error}.")

    def _server(self, config: ServerConfig) -> UpstreamServer:
        target = self._targets.target(config, self._secrecy.hide)
        return UpstreamServer(
            config,
            target,
            pace=self._pace,
            hide=self._secrecy.hide,
            sample=self._sample,
            on_change=self._change,
        )

    def _change(self) -> None:
        self.on_change()

    async def _stop_all(self) -> None:
        await self._stop(self._servers.values())

    async def _stop(self, servers: Iterable[UpstreamServer]) -> None:
        # Shielded, as every wait in it is bounded: whoever is cancelled must leave no process behind.
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for each in servers:
                    tasks.start_soon(each.stop)
