"""All upstream servers of a configuration: connected and ended together, and compared with it again when it changes.

`platform` owns the object and shows its reports; each server has a connection and a task of its own in
`upstream_server`, and a server that gets the credentials of callers one for each credential while it is used. Which
groups the tools of the servers form is the business of `upstream_groups`.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from pydantic import SecretStr

from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import SettingsError, ToolError
from goalport.base.sealing import ProcessSeals, sealing_keys
from goalport.base.secrecy import hide_in, register_secrets
from goalport.tools import CALL_SITE, ToolResult
from goalport.tools.upstream.config import ConfigProblem, McpConfig, ServerConfig
from goalport.tools.upstream.connection import BurstLimit, Listing, Sample, SignIn, Transport
from goalport.tools.upstream.tool import PINS_FILE, Pins, ToolRequest
from goalport.tools.upstream.upstream_groups import UpstreamGroups
from goalport.tools.upstream.upstream_server import ServerReport, ServerState, Timing, UpstreamServer

_TOKEN: Final = "${caller.token}"  # noqa: S105 - the name of a variable
_ID: Final = "${caller.id}"
_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")
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
        self.redirect_uri = ""
        """Where a web server takes the browsers of people who have signed in, for `come_back`; empty: there is none."""
        self.data_dir, self.state_keys = data_dir, state_keys
        self.servers: dict[str, UpstreamServer] = {}
        """By name, in the order of the configuration; empty before they are connected."""
        self._read, self._timing, self._transports = read, timing, transports or {}
        self._callers: dict[str, _CallerServers] = {}
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
        servers = self.servers.values() if self.connected else ()
        return tuple(replace(each.report(), callers=len(self._callers.get(each.name, ()))) for each in servers)

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
        """Read the configuration again, and take it: servers that are the same in both stay connected.

        Nothing happens where it comes from no file. Raises `SettingsError` for a new required server that is not there;
        the configuration is taken all the same.
        """
        if self._read is not None:
            config = await to_thread.run_sync(self._read)
            _refuse_fatal(config)
            await self.apply(config)

    async def apply(self, config: McpConfig) -> None:
        """Take another configuration, as `reload` does."""
        self.config = config
        if self.connected:
            before = self.servers
            self.servers = {name: each for name, each in before.items() if config.servers.get(name) == each.config}
            ended = [each for name, each in before.items() if name not in self.servers]
            # The secrets of those that end now are still to be hidden while they do.
            self._hide_secrets(each.config for each in ended)
            await self._stop(ended)
            await self._start(each for name, each in config.servers.items() if name not in self.servers)
            self.on_change()
        elif self._opened:
            self._opened = False
            await self.open()
            self.on_change()

    def _hide_secrets(self, ended: Iterable[ServerConfig] = ()) -> None:
        register_secrets(self, (each for one in (*self.config.servers.values(), *ended) for each in one.all_secrets()))

    async def _start(self, configs: Iterable[ServerConfig]) -> None:
        assert self._tasks is not None
        self._hide_secrets()
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
        def changed() -> None:
            # It may be another one by the time that it is called.
            self.on_change()

        has_own_tokens = config.oauth is not None and config.oauth.per_caller
        if not (config.forward_auth or has_own_tokens):
            return self._made(config, "", on_change=changed)

        def of_caller(filled: ServerConfig, caller: Caller) -> UpstreamServer:
            return self._made(filled, _owner(caller) if has_own_tokens else "", whose=caller.id)

        assert self._tasks is not None
        callers = self._callers[config.name] = _CallerServers(config, of_caller, self._tasks, self._timing.caller_idle)
        return self._made(config, "", on_change=changed, call=callers.call, list_tools=callers.list_tools)

    def _made(self, config: ServerConfig, owner: str, **more: Any) -> UpstreamServer:
        """A server whose tokens are those of an owner; empty: all callers share them."""
        from goalport.tools.upstream.transports import HttpTransport, StdioTransport

        more |= {"timing": self._timing, "sample": self.sample}
        oauth = config.oauth
        if config.name in self._transports:
            return UpstreamServer(config, self._transports[config.name], **more)
        if config.transport == "stdio":
            return UpstreamServer(config, StdioTransport(config), **more)
        if config.transport == "a2a":
            from goalport.tools.upstream.a2a_agents import AgentConnection

            more["connection"] = AgentConnection
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


def _refuse_fatal(config: McpConfig) -> None:
    if fatal := [str(each) for each in config.problems if each.is_fatal]:
        raise SettingsError("\n".join(fatal))


@dataclass(eq=False)
class _CallerServer:
    """One caller's connection, and how many calls use it now."""

    server: UpstreamServer
    users: int = 0
    used_at: float = 0.0
    forgotten: anyio.Event = field(default_factory=anyio.Event)


class _CallerServers:
    """Calls the tools of one server, each over the connection of the caller on whose behalf it is made.

    No two callers share one, nor two tokens of one caller, as they may grant different things. Nothing of a credential
    is kept but in the connection made for it, and it is hidden in whatever is logged meanwhile.

    `make` makes the server that the configuration of a caller describes, `tasks` runs them, and after `idle` seconds
    without a call they end.
    """

    def __init__(
        self,
        config: ServerConfig,
        make: Callable[[ServerConfig, Caller], UpstreamServer],
        tasks: TaskGroup,
        idle: float,
    ) -> None:
        self._config, self._make, self._tasks, self._idle = config, make, tasks, idle
        self._servers: dict[tuple[object, ...], _CallerServer] = {}

    def __len__(self) -> int:
        return len(self._servers)

    async def call(self, request: ToolRequest) -> ToolResult:
        """Call a tool as the caller. Raises `ToolError`, also where there is nothing to tell the server who calls."""
        async with AsyncExitStack() as stack:
            try:
                server = await stack.enter_async_context(self._server())
            except ToolError as error:
                raise ToolError(f"{request.shown}: {error}") from None
            return await server.client.call(request)

    async def list_tools(self) -> Listing:
        """What the server lists for the caller, who signs in first if need be. Raises `ToolError`."""
        async with self._server() as server:
            await server.client.connect()
            return Listing(tuple(each.definition for each in server.tools))

    def stop(self, caller: Caller | None = None) -> None:
        """End the connections of a caller, or all."""
        for key in [*self._servers]:
            if caller is None or key[:2] == caller.identity:
                self._servers.pop(key).forgotten.set()

    def _headers(self, caller: Caller) -> dict[str, str]:
        """The headers that say who calls. Raises `ToolError` where that cannot be said."""
        from mcp.server.auth.middleware.auth_context import get_access_token

        templates, oauth, server = self._config.caller_headers, self._config.oauth, self._config.name
        is_nobody = caller.same_as(ANONYMOUS)
        token = get_access_token()
        issuer = str((token.claims or {}).get("iss", "")) if token else ""
        is_own = token is not None and caller.same_as(Caller(token.subject or token.client_id, issuer))
        known = {_ID: "" if is_nobody else caller.id, _TOKEN: token.token if token and is_own else ""}
        known = {name: value for name, value in known.items() if any(name in each for each in templates.values())}
        wrong = next((name for name, value in known.items() if not _SENDABLE.fullmatch(value)), None)
        if is_nobody and (wrong or (oauth is not None and oauth.per_caller)):
            raise ToolError(
                f"the server {server!r} wants to know who calls, and this call is nobody's: authenticate the caller."
            )
        if wrong and known[wrong]:
            raise ToolError(
                f"the server {server!r} gets {wrong} in a header, and there is a character in it that none can have."
            )
        if wrong:
            raise ToolError(
                f"the server {server!r} gets the token of whoever calls, and the token of {caller.id!r} is not here: "
                "this goes on without the request that it came with. The same caller has to call again, or to answer a "
                "question."
            )
        # In one pass: a value may look like a variable.
        variables = re.compile("|".join(map(re.escape, known)))
        return {name: variables.sub(lambda found: known[found[0]], each) for name, each in templates.items()}

    @asynccontextmanager
    async def _server(self) -> AsyncGenerator[UpstreamServer]:
        """The connection of the caller of the running code. Raises `ToolError` where there is none."""
        site = CALL_SITE.get()
        caller = ANONYMOUS if site is None else site.caller
        headers = self._headers(caller)
        key = (*caller.identity, *sorted(headers.items()))
        if (own := self._servers.get(key)) is None:
            if len(self._servers) >= self._config.max_callers:
                unused = {each.used_at: known for known, each in self._servers.items() if not each.users}
                if not unused:
                    raise ToolError(f"the server {self._config.name!r} is busy with other callers. Try again later.")
                self._servers.pop(unused[min(unused)]).forgotten.set()
            config = replace(
                self._config,
                headers={**self._config.headers, **headers},
                listing_headers={},
                caller_headers={},
                secrets=(*self._config.secrets, *(each.rpartition(" ")[2] for each in headers.values())),
            )
            own = self._servers[key] = _CallerServer(self._make(config, caller))
            register_secrets(own.server, config.all_secrets())
            self._tasks.start_soon(self._run, key, own)
        own.users += 1
        try:
            await own.server.wait_first_attempt()
            if not (own.server.state.callable or own.server.connections):
                self._forget(key, own)
                raise ToolError(
                    f"the server {self._config.name!r} did not let this caller in, or is down. Do without it, or make "
                    "a call with another credential."
                )
            yield own.server
        finally:
            own.users -= 1
            own.used_at = anyio.current_time()

    async def _run(self, key: tuple[object, ...], own: _CallerServer) -> None:
        """Own a connection until nobody has used it for a while."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(own.server.run)
            while not own.forgotten.is_set():
                with anyio.move_on_at((anyio.current_time() if own.users else own.used_at) + self._idle):
                    await own.forgotten.wait()
                if not own.users and anyio.current_time() >= own.used_at + self._idle:
                    self._forget(key, own)
            await own.server.stop()

    def _forget(self, key: tuple[object, ...], own: _CallerServer) -> None:
        if self._servers.get(key) is own:
            del self._servers[key]
        own.forgotten.set()


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
