"""All upstream servers of a configuration: connected and ended together, and compared with it again when it changes.

`platform` owns the object and shows its reports; each server has a connection and a task of its own in
`upstream_server`. Which groups the tools of the servers form is the business of `upstream_groups`.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from pydantic import SecretStr

from goalport.base.caller import Caller
from goalport.base.errors import SettingsError
from goalport.base.sealing import ProcessSeals, sealing_keys
from goalport.base.secrecy import hide_in, register_secrets
from goalport.tools.upstream.config import ConfigProblem, McpConfig, ServerConfig
from goalport.tools.upstream.connection import BurstLimit, Sample, SignIn, Timing, Transport
from goalport.tools.upstream.tool import PINS_FILE, Pins
from goalport.tools.upstream.upstream_groups import UpstreamGroups
from goalport.tools.upstream.upstream_server import CallerServers, ServerReport, ServerState, UpstreamServer

_BURST: Final = 20
"""Records from one line of a library that are logged in one period."""
_LIBRARY_LOGGERS: Final = (
    # The session of the MCP SDK logs under this name.
    "client",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpx2",
    "mcp.client.auth.oauth2",
    "mcp.client.client",
    "mcp.client.sse",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
"""Loggers of libraries that write addresses, headers or messages."""
_TRACEBACK_LOGGERS: Final = frozenset({"mcp.client.auth.oauth2", "mcp.client.sse", "mcp.client.streamable_http"})
"""Those of them that write a traceback when a connection is lost, or nobody could be signed in."""


class UpstreamServers:
    """The servers of a configuration, connected from `open` to `close`; their tools are in `groups`.

    `data_dir` is where pins and tokens are kept; the tokens are encrypted with `state_keys`, or with a key that is made
    there. `read` reads the configuration again, where it comes from a file. `transports` are those of servers, by
    name, that are not reached as their configuration says. One task owns the connections from their beginning to their
    end, so that any task of the event loop may open and close.
    """

    def __init__(
        self,
        config: McpConfig,
        data_dir: Path,
        start_seconds: float = 5.0,
        *,
        read: Callable[[], McpConfig] | None = None,
        timing: Timing = Timing(),  # noqa: B008 - a frozen record
        sample: Sample | None = None,
        show_sign_in: SignIn | None = None,
        state_keys: Sequence[SecretStr] = (),
        transports: Mapping[str, Transport] | None = None,
    ) -> None:
        self.config = config
        self.groups = UpstreamGroups(self, Pins(data_dir / PINS_FILE))
        """The tool groups made of the servers' tools, and the tools that wait to be trusted."""
        self.start_seconds = start_seconds
        """Seconds that opening waits for servers that are not required."""
        self.sample = sample
        """Answers servers that may have a model asked; None: they may not."""
        self.show_sign_in = show_sign_in
        """Shows a person the page where they sign in to a server; None: there is nobody."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a server's state or its list of tools has changed; it must not raise."""
        self._read = read
        self._timing = timing
        self._transports = transports or {}
        self.redirect_uri = ""
        """Where a web server takes the browsers of people who have signed in, for `come_back`; empty: there is none."""
        self.data_dir, self.state_keys = data_dir, state_keys
        self.servers: dict[str, UpstreamServer] = {}
        """By name, in the order of the configuration; empty before they are connected."""
        self._callers: dict[str, CallerServers] = {}
        """The connections of callers to the servers that get their credentials."""
        self._tasks: TaskGroup | None = None
        self._opened = False
        self._task: asyncio.Task[None] | None = None
        self._connected: asyncio.Future[None]
        self._disconnecting: asyncio.Event

    @cached_property
    def sign_ins(self) -> Any:
        """The people who are signing in, and their tokens: a `SignIns` of `oauth`, which imports the SDK."""
        from goalport.tools.upstream.oauth import SignIns

        seals = ProcessSeals(lambda: sealing_keys(self))
        return SignIns(self.data_dir / "oauth", seals, lambda: self.redirect_uri)

    @property
    def connected(self) -> bool:
        """Whether the servers are looked after, up or not."""
        return self._task is not None

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """What keeps a server, or all of them, from being used."""
        return tuple(each for each in self.config.problems if each.server or not self.config.is_readable)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else is probably not meant, in the file or in what the servers list."""
        written = (str(each) for each in self.config.problems if each not in self.problems)
        return (*written, *self.groups.warnings())

    def reports(self) -> tuple[ServerReport, ...]:
        """The state of each server, in the order of the configuration; none while they are not connected."""
        if not self.connected:
            return ()
        return tuple(
            replace(each.report(), callers=len(self._callers.get(each.name, ()))) for each in self.servers.values()
        )

    def sign_ins_of(self, caller: Caller, *, end: bool = False) -> int:
        """At how many servers a caller is signed in with tokens of their own; `end`: they are signed out here."""
        paths = {each: self.sign_ins.path(each, _owner(caller)) for each in self.config.servers}
        found = [name for name, path in paths.items() if path.exists()]
        for name in found if end else ():
            if name in self._callers:
                self._callers[name].stop(caller)
            paths[name].unlink(missing_ok=True)
        return len(found)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect the servers. Waits `start_seconds` for them, and for a required one until its first attempt ends.

        Raises `SettingsError` for a required server that is not up then. Opening what is open does nothing.
        """
        if self._opened:
            return
        _refuse_fatal(self.config)
        self._opened = True
        if not (self.config.servers or self.config.groups):
            return

        async def connect() -> None:
            # One task connects and disconnects, as a task group has to be exited by the task that entered it.
            stack = AsyncExitStack()
            stack.enter_context(_filtered_library_logs())
            self._tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.push_async_callback(lambda: self._stop(self.servers.values()))
            try:
                await self._start(self.config.servers.values())
                self._connected.set_result(None)
                await self._disconnecting.wait()
            finally:
                # Without the error of the block, which a task group would wrap.
                await stack.aclose()

        loop = asyncio.get_running_loop()
        self._connected, self._disconnecting = loop.create_future(), asyncio.Event()
        self._task = loop.create_task(connect(), name="upstream servers")
        try:
            await asyncio.wait([self._task, self._connected], return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                self._task.result()
        finally:
            if not self._connected.done():
                await self.close()

    async def close(self) -> None:
        """End the connections and the processes of the servers. From any task of the event loop that opened them."""
        # The connections of an event loop that has ended have ended with it.
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._disconnecting.set()
            if not self._connected.done():
                self._task.cancel()
            # Every wait of servers that end is bounded, and their processes are not to be left behind.
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task])
        self._task, self._opened = None, False

    async def reload(self) -> None:
        """Read the configuration again, and take it as `apply` does; nothing where it comes from no file.

        Raises `SettingsError` for a new required server that is not there; the configuration is taken all the same.
        """
        if self._read is not None:
            config = await to_thread.run_sync(self._read)
            _refuse_fatal(config)
            await self.apply(config)

    async def apply(self, config: McpConfig) -> None:
        """Take another configuration: servers that are the same in both stay connected.

        Raises `SettingsError` for a new required server that does not come; the configuration is taken all the same.
        """
        self.config = config
        if self.connected:
            before = self.servers
            kept = {name: each for name, each in before.items() if config.servers.get(name) == each.config}
            # The secrets of those that end now are still to be hidden while they do.
            known = (*config.servers.values(), *(each.config for each in before.values()))
            register_secrets(self, (each for one in known for each in one.all_secrets()))
            await self._stop(each for name, each in before.items() if name not in kept)
            self.servers = kept
            await self._start(each for name, each in config.servers.items() if name not in kept)
            self.on_change()
        elif self._opened:
            self._opened = False
            await self.open()
            self.on_change()

    async def _start(self, configs: Iterable[ServerConfig]) -> None:
        assert self._tasks is not None
        register_secrets(self, (each for config in self.config.servers.values() for each in config.all_secrets()))
        started = {config.name: self._server(config) for config in configs}
        known = self.servers | started
        self.servers = {name: known[name] for name in self.config.servers if name in known}
        for each in started.values():
            self._tasks.start_soon(each.run)
        with anyio.move_on_after(self.start_seconds):
            for each in started.values():
                await each.wait_first_attempt()
        for each in started.values():
            if each.config.required and not each.config.disabled:
                # It bounds its own attempts.
                await each.wait_first_attempt()
                if each.state is not ServerState.UP:
                    raise SettingsError(f"The required server {each.name!r} is {each.state}: {each.last_error}.")

    def _server(self, config: ServerConfig) -> UpstreamServer:
        own_tokens = config.oauth is not None and config.oauth.per_caller
        callers = None
        if config.forward_auth or own_tokens:
            assert self._tasks is not None

            def of_caller(filled: ServerConfig, caller: Caller) -> UpstreamServer:
                return self._made(filled, _owner(caller) if own_tokens else "", whose=caller.id)

            callers = CallerServers(config, of_caller, self._tasks, self._timing.caller_idle)
            self._callers[config.name] = callers

        def changed() -> None:
            # It may be another one by the time that it is called.
            self.on_change()

        return self._made(config, "", on_change=changed, callers=callers)

    def _made(self, config: ServerConfig, owner: str, **more: Any) -> UpstreamServer:
        """A server whose tokens are those of an owner; empty: all callers share them."""
        from goalport.tools.upstream.transports import HttpTransport, StdioTransport

        more |= {"timing": self._timing, "sample": self.sample}
        if config.name in self._transports:
            return UpstreamServer(config, self._transports[config.name], **more)
        if config.transport == "stdio":
            return UpstreamServer(config, StdioTransport(config), **more)
        if config.transport == "a2a":
            from goalport.tools.upstream.a2a_agents import AgentConnection

            more["connection"] = AgentConnection
        oauth = config.oauth
        if oauth is None or (oauth.per_caller and config.listing_headers):
            return UpstreamServer(config, HttpTransport(config), **more)
        web = HttpTransport(config, lambda: self.sign_ins.auth(config, oauth, owner, self.show_sign_in))
        server = UpstreamServer(config, web, **more)

        async def obtain(show: SignIn) -> None:
            await self.sign_ins.obtain_tokens(config, oauth, owner, show, web.refusal)
            await server.reconnect()

        server.client.ask_to_sign_in = lambda ask: self.sign_ins.ask((config.name, owner), ask, obtain)
        return server

    async def _stop(self, servers: Iterable[UpstreamServer]) -> None:
        # Shielded, as every wait in it is bounded: whoever is cancelled must leave no process behind.
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for each in servers:
                    if (callers := self._callers.pop(each.name, None)) is not None:
                        callers.stop()
                    tasks.start_soon(each.stop)


def _owner(caller: Caller) -> str:
    return f"{caller.issuer}\0{caller.id}"


@contextmanager
def _filtered_library_logs() -> Generator[None]:
    """Hide what looks like a secret in what the libraries below log, and cut bursts of equal records.

    A server decides how many are written. Tracebacks of lost connections are dropped unless DEBUG is logged:
    `UpstreamServer` logs such a loss in one line, with the reason.
    """
    limit = BurstLimit(_BURST)

    def is_logged(record: logging.LogRecord) -> bool:
        is_traceback = record.name in _TRACEBACK_LOGGERS and bool(record.exc_info)
        if is_traceback and not logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return False
        if not limit.allows((record.name, record.lineno)) and not record.name.startswith("http"):
            return False
        hide_in(record)
        return True

    loggers = [logging.getLogger(name) for name in _LIBRARY_LOGGERS]
    for each in loggers:
        each.addFilter(is_logged)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(is_logged)


def _refuse_fatal(config: McpConfig) -> None:
    if fatal := [str(each) for each in config.problems if each.is_fatal]:
        raise SettingsError("\n".join(fatal))
