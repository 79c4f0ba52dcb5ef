"""All upstream servers of a configuration: connected and stopped together, and updated when the configuration changes.

`platform` owns the object and shows its reports. Each server has a separate connection and task, see `upstream_server`;
a server that gets the credentials of callers has a connection for each credential in use. `upstream_groups` makes tool
groups of the servers' tools.
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
"""The most records from one line of a library's code that are logged in ten seconds."""
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
"""Loggers of libraries that log URLs, headers or messages."""
_TRACEBACK_LOGGERS: Final = frozenset({"mcp.client.auth.oauth2", "mcp.client.sse", "mcp.client.streamable_http"})
"""Those of them that log a traceback when a connection is lost, or a sign-in fails."""


class UpstreamServers:
    """The servers of a configuration, connected from `open` to `close`; their tools are in `groups`.

    Pins and tokens are stored in `data_dir`; the tokens are encrypted with `state_keys`, or with a key that is created
    there. `read` reads the configuration file again; None: there is no file. `transports` replace the transports in the
    configuration, by name of the server. An internal task owns the connections, so any task may open and close.
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
        """The tool groups made of the servers' tools, and the tools that are withheld until they are trusted."""
        self.start_seconds = start_seconds
        """Seconds for which `open` waits for servers that are not required."""
        self.sample = sample
        """Answers `sampling/createMessage` of servers; None: no server may use our models."""
        self.show_sign_in = show_sign_in
        """Shows a person the page where they sign in to a server; None: nobody can be shown a page."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a server's state or its list of tools has changed; it must not raise."""
        self.redirect_uri = ""
        """The redirect URI of our web server, which calls `SignIns.accept_redirect`; empty: there is no web server."""
        self.data_dir, self.state_keys = data_dir, state_keys
        self.servers: dict[str, UpstreamServer] = {}
        """The servers by name, in the order of the configuration; empty before `open`."""
        self._read, self._timing, self._transports = read, timing, transports or {}
        self._callers: dict[str, _CallerServers] = {}
        """The connections of callers, by name of the server that gets their credentials."""
        self._tasks: TaskGroup | None = None
        self._opened = False
        self._task: asyncio.Task[None] | None = None
        self._connected: asyncio.Future[None]
        self._disconnecting: asyncio.Event

    @cached_property
    def sign_ins(self) -> Any:
        """Tokens and current sign-ins: a `SignIns` of the module `oauth`, which imports the SDK."""
        from goalport.tools.upstream.oauth import SignIns

        seals = ProcessSeals(lambda: sealing_keys(self))
        return SignIns(self.data_dir / "oauth", seals, lambda: self.redirect_uri)

    @property
    def connected(self) -> bool:
        """Whether the task that connects the servers runs, even if no server is up."""
        return self._task is not None

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """The problems for which a server, or the whole file, cannot be used."""
        return tuple(each for each in self.config.problems if each.server or not self.config.is_readable)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Other probable mistakes, in the file or in the lists of the servers."""
        written = (str(each) for each in self.config.problems if each not in self.problems)
        return (*written, *self.groups.warnings())

    def reports(self) -> tuple[ServerReport, ...]:
        """The state of each server, in the order of the configuration; empty unless `connected`."""
        servers = self.servers.values() if self.connected else ()
        return tuple(replace(each.report(), callers=len(self._callers.get(each.name, ()))) for each in servers)

    def sign_ins_of(self, caller: Caller, *, end: bool = False) -> int:
        """The number of servers for which a caller has separate tokens; `end` deletes them and ends the connections."""
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
        """Connect the servers. Waits `start_seconds` for them, and for required servers until the first attempt ends.

        Raises `SettingsError` if a required server is not up then. A second call does nothing.
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
                # Not with the error of the block, which a task group would wrap.
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
        """End the connections and processes of the servers. Call it on the event loop of `open`, from any task."""
        # If the event loop has ended, its connections have ended too.
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._disconnecting.set()
            if not self._connected.done():
                self._task.cancel()
            # Each wait is bounded, and no process of a server must be left behind.
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task])
        self._task, self._opened = None, False

    async def reload(self) -> None:
        """Read the configuration file again and apply it: servers whose settings are the same stay connected.

        Without a file nothing happens. Raises `SettingsError` for a new required server that is not up; the new
        configuration is applied nevertheless.
        """
        if self._read is not None:
            config = await to_thread.run_sync(self._read)
            _refuse_fatal(config)
            await self.apply(config)

    async def apply(self, config: McpConfig) -> None:
        """Apply another configuration, as `reload` does."""
        self.config = config
        if self.connected:
            before = self.servers
            self.servers = {name: each for name, each in before.items() if config.servers.get(name) == each.config}
            ended = [each for name, each in before.items() if name not in self.servers]
            # The secrets of servers that stop now must be hidden until they have stopped.
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
                # Without a time limit here: the server limits its own attempts.
                await each.wait_first_attempt()
                if each.state is not ServerState.UP:
                    raise SettingsError(f"The required server {each.name!r} is {each.state}: {each.last_error}.")

    def _server(self, config: ServerConfig) -> UpstreamServer:
        def changed() -> None:
            # `on_change` may be replaced later, so it is looked up at each call.
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
        """Create a server with the tokens of `owner`; empty: the tokens that all callers share."""
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
        # Shielded, since no process must be left behind after a cancellation; each wait is bounded.
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
    """The connection of one caller, and the number of calls that use it now."""

    server: UpstreamServer
    users: int = 0
    used_at: float = 0.0
    forgotten: anyio.Event = field(default_factory=anyio.Event)


class _CallerServers:
    """Calls the tools of one server, each call over the connection of its caller.

    There is a connection for each caller and token, since tokens of one caller may grant different rights. A credential
    is stored only in its connection, and hidden in all logs while that exists.

    `make` creates the server for the configuration of a caller, and `tasks` runs it. It stops after `idle` seconds
    without a call.
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
        """Call a tool with the caller's credentials. Raises `ToolError`, also if there are none."""
        async with AsyncExitStack() as stack:
            try:
                server = await stack.enter_async_context(self._server())
            except ToolError as error:
                raise ToolError(f"{request.shown}: {error}") from None
            return await server.client.call(request)

    async def list_tools(self) -> Listing:
        """The server's list of tools for the caller, who signs in first if necessary. Raises `ToolError`."""
        async with self._server() as server:
            await server.client.connect()
            return Listing(tuple(each.definition for each in server.tools))

    def stop(self, caller: Caller | None = None) -> None:
        """End the connections of a caller; None: of all callers."""
        for key in [*self._servers]:
            if caller is None or key[:2] == caller.identity:
                self._servers.pop(key).forgotten.set()

    def _headers(self, caller: Caller) -> dict[str, str]:
        """The headers with the caller's id or token. Raises `ToolError` if it is missing or cannot be in a header."""
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
        # In one pass, since a value may contain the text of a variable.
        variables = re.compile("|".join(map(re.escape, known)))
        return {name: variables.sub(lambda found: known[found[0]], each) for name, each in templates.items()}

    @asynccontextmanager
    async def _server(self) -> AsyncGenerator[UpstreamServer]:
        """A block with the connection of the current caller. Raises `ToolError` if it cannot be opened."""
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
        """Run a connection until it was unused for `idle` seconds, or is forgotten."""
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
    """A block in which secrets are hidden in the logs of libraries, and bursts of records from one line are cut.

    A server could cause any number of records. Tracebacks of lost connections are dropped unless DEBUG is logged:
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
