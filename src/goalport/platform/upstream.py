"""The upstream servers of a platform: connected when it is entered, and left with it.

One task owns the connections from their beginning to their end, so that whoever opens and whoever closes need not be
the same. Below is the hub, which is made when there is something to connect; above, the platform and those who show it.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from anyio import CancelScope, to_thread

from goalport.errors import SettingsError
from goalport.settings import Settings, environment_of
from goalport.tools import Tool, ToolGroup, ToolGroupResolver
from goalport.tools.groups import Requirement
from goalport.upstream import GroupConfig, McpConfig, Problem, read_config
from goalport.upstream.connection import Sample
from goalport.upstream.core_roles import CoreRoles
from goalport.upstream.groups import LiveGroups
from goalport.upstream.hub import UpstreamHub
from goalport.upstream.oauth import SignIn
from goalport.upstream.pins import PINS_FILE, Pins
from goalport.upstream.report import ServerReport
from goalport.workspace import Workspace

__all__ = [
    "CONFIG_FILE",
    "Foreseen",
    "GroupReport",
    "Upstream",
    "upstream_of",
    "workspace_upstream",
]

CONFIG_FILE: Final = "mcp_config.json"
"""Its name in a workspace."""
_DATA: Final = Path(".goalport")
"""Where pins and tokens are kept when a program does not say."""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """How a group of upstream tools is at one moment."""

    role: str
    status: Literal["up", "degraded", "down"]
    """Whether all, some or none of its servers can be called."""
    servers: tuple[str, ...]
    group: ToolGroup | None
    """The tools that can be called; None: none can."""
    why: str
    """What is wrong, in sentences without secrets."""


class Upstream:
    """The servers of a configuration and the groups that they play. A `ToolGroupSource`, also before it is opened."""

    def __init__(
        self,
        given: McpConfig | UpstreamHub,
        data_dir: Path,
        start_seconds: float = 5.0,
        *,
        read: Callable[[], McpConfig] | None = None,
        show_sign_in: SignIn | None = None,
    ) -> None:
        self.config = given.config if isinstance(given, UpstreamHub) else given
        self.pins = Pins(data_dir / PINS_FILE)
        self._data_dir = data_dir
        self.start_seconds = start_seconds
        """How long opening waits for servers that are not required."""
        self._read = read
        """Reads the configuration anew, where it comes from a file of a workspace."""
        self.show_sign_in = show_sign_in
        """Shows a person the page where they sign in to a server; None: there is nobody."""
        self.sample: Sample | None = None
        """Answers servers that may have a model asked; None: they may not."""
        self._hub = given if isinstance(given, UpstreamHub) else None
        self._live: LiveGroups | None = None
        self._core = CoreRoles()
        self._opened = False
        self._held: _Held | None = None
        self.on_change: Callable[[], None] = lambda: None
        """Called when a server's state or its list of tools is another; it must not raise."""

    @property
    def connected(self) -> bool:
        """Whether the servers are looked after, up or not."""
        return self._live is not None

    @property
    def groups_config(self) -> Mapping[str, GroupConfig]:
        """The groups by role: those of the configuration, and the core roles that its servers play by themselves."""
        return {**self.config.groups, **self._core.of(self.config)}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What keeps a server, or all of them, from being used."""
        return tuple(each for each in self.config.problems if each.server or not self.config.is_readable)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else is probably not meant, in the file or in what the servers list."""
        written = (str(each) for each in self.config.problems if each not in self.problems)
        return (*written, *(self._live.warnings() if self._live else ()))

    def groups(self) -> tuple[ToolGroup, ...]:
        """The groups that have a tool to call now."""
        return self._live.groups() if self._live else ()

    def absent(self) -> Mapping[str, tuple[Tool, ...]]:
        """The tools of groups, by role, that cannot be called now; who calls one is told why."""
        return self._live.absent() if self._live else {}

    def why_missing(self, role: str) -> str:
        """What keeps a group, or a part of it, from being used; empty: nothing, or it is not known here."""
        if self._live is not None:
            return self._live.why_missing(role)
        if role in self.groups_config:
            return "The upstream servers are not connected: enter the platform with `async with`."
        return ""

    def expects(self, role: str) -> bool:
        """Whether a group is configured of which nobody can know yet what is in it."""
        return self._live is None and role in self.groups_config

    def servers(self) -> tuple[ServerReport, ...]:
        """How each server is; none before they are connected."""
        return self._hub.report() if self._hub and self._live else ()

    def reports(self) -> Iterator[GroupReport]:
        """How each group is."""
        playing = {each.role: each for each in self.groups()}
        for role, config in self.groups_config.items():
            group, why = playing.get(role), self.why_missing(role)
            status = "down" if group is None else "degraded" if why else "up"
            yield GroupReport(role, status, config.servers, group, why)

    def withheld(self) -> Mapping[tuple[str, str], str]:
        """The tools that wait to be trusted, by server and own name: the reason, and what they are said to be now."""
        if (live := self._live) is None:
            return {}
        return {at: f"{reason}; now: {live.description(*at)}" for at, reason in live.withheld().items()}

    async def open(self) -> None:
        """Connect the servers. They are waited for as long as was said, those that are required until they are there.

        Raises `SettingsError` for a required one that cannot be had. Opening what is open does nothing.
        """
        if self._opened:
            return
        _refuse_fatal(self.config)
        self._opened = True
        if self._hub is None and (self.config.servers or self.config.groups):
            self._hub = UpstreamHub(
                self.config,
                self._data_dir,
                start_wait=self.start_seconds,
                sample=self.sample,
                show_sign_in=self.show_sign_in,
            )
        if self._hub is not None:
            self._hub.on_change = lambda: self.on_change()  # noqa: PLW0108 - it may be another one by then
            self._live = LiveGroups(self._hub, self.pins)
            self._held = _Held(self._hub)
            entered = False
            try:
                await self._held.entered()
                entered = True
            finally:
                if not entered:
                    await self.close()

    async def reload(self) -> None:
        """Read the workspace's configuration again; servers that are in both as they were stay connected.

        Raises `SettingsError` for a new required server that is not there; the configuration is taken all the same.
        """
        if self._read is None:
            return
        config = await to_thread.run_sync(self._read)
        _refuse_fatal(config)
        self.config = config
        if self._hub is None and self._opened:
            self._opened = False
            await self.open()
            self.on_change()
        elif self._held is not None and self._hub is not None:
            await self._hub.reload(config)
        elif self._hub is not None:
            self._hub.config = config

    async def close(self) -> None:
        """End the connections and the processes of the servers. From any task of the event loop that opened them."""
        if self._held is not None:
            await self._held.left()
        self._held, self._live, self._opened = None, None, False


class _Held:
    """A hub in the hands of a task that enters it at once, and leaves it when it is told to."""

    def __init__(self, hub: UpstreamHub) -> None:
        self._entered, self._leaving = asyncio.Event(), asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._hold(hub), name="upstream servers")

    async def entered(self) -> None:
        """Wait until the hub is entered. Raises what it raises instead."""
        entered = asyncio.ensure_future(self._entered.wait())
        try:
            await asyncio.wait([self._task, entered], return_when=asyncio.FIRST_COMPLETED)
        finally:
            entered.cancel()
        if self._task.done():
            self._task.result()

    async def left(self) -> None:
        """Wait until the hub is left; one that belongs to an event loop of the past has been left with that."""
        if self._task.get_loop() is asyncio.get_running_loop():
            self._leaving.set()
            if not self._entered.is_set():
                self._task.cancel()
            # Every wait of a hub that ends is bounded, and its processes are not to be left behind.
            with CancelScope(shield=True):
                await asyncio.wait([self._task])

    async def _hold(self, hub: UpstreamHub) -> None:
        async with hub:
            self._entered.set()
            await self._leaving.wait()


def _refuse_fatal(config: McpConfig) -> None:
    if fatal := [str(each) for each in config.problems if each.is_fatal]:
        raise SettingsError("\n".join(fatal))


class Foreseen(ToolGroupResolver):
    """The groups as plans are judged before anything is connected: a configured group counts as there."""

    def __init__(self, groups: Iterable[ToolGroup], upstream: Upstream) -> None:
        super().__init__(groups, [upstream])
        self._upstream = upstream

    def unmet(self, requirement: Requirement) -> str | None:
        return None if self._upstream.expects(requirement.role) else super().unmet(requirement)


def upstream_of(given: Upstream | UpstreamHub | McpConfig | Path | str, sample: Sample) -> Upstream:
    """What a platform was given, as its upstream servers; variables in a file come from the environment."""
    match given:
        case Upstream():
            found = given
        case Path() | str():
            found = Upstream(read_config(Path(given), os.environ), _DATA)
        case _:
            found = Upstream(given, _DATA)
    found.sample = found.sample or sample
    return found


def workspace_upstream(workspace: Workspace, settings: Settings) -> Upstream:
    """The upstream servers of a workspace, as its file says; variables come from the environment and `.env`."""

    def read() -> McpConfig:
        return read_config(workspace.root / CONFIG_FILE, environment_of(settings.workspace))

    return Upstream(read(), settings.data_dir, settings.upstream_wait_seconds, read=read)
