"""One upstream server: a task of its own connects it, watches the connection, and connects it again when it is lost.

Its tools are called from any task, through its `ToolClient`, over whichever connection it has. A failing server harms
nobody else: callers get a `ToolError` in words for models, and a `ServerReport` says why. Above: `servers`, which
starts and stops the task. A server that gets the credentials of callers has a connection for each credential, while it
is used, which is an `UpstreamServer` of its own.
"""

import errno
import logging
import math
import random
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from shutil import which
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeVar
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from pydantic import ValidationError

from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import ToolError, causes, leaves
from goalport.base.secrecy import hide, register_secrets
from goalport.base.words import cleaned, counted, error_summary, field_path, one_line, shortened, validation_reason
from goalport.tools import Tool, ToolResult, current_call_site
from goalport.tools.upstream.active_calls import Ask, Call, current_hooks, followed_process, with_renamed_tools
from goalport.tools.upstream.config import ServerConfig, TransportKind
from goalport.tools.upstream.connection import (
    MODERN,
    Connection,
    ConnectionLost,
    Listing,
    NotCalled,
    Sample,
    SignInNeeded,
    Timing,
    Transport,
    Wakeup,
)
from goalport.tools.upstream.tool import ToolRequest, UpstreamTool, cleaned_list, reader_of, result_of, tools_of_list

if TYPE_CHECKING:
    from mcp_types import Tool as Definition

_FOR_PROGRAMMERS: Final = re.compile(
    r" \[type=[^\n]*\]$|^\s*For (?:further|more) information (?:visit|check:) \S*$", re.MULTILINE
)
"""What pydantic and httpx2 add to their messages, also to those that others pass on."""


class ServerState(StrEnum):
    """The state of the connection to a server."""

    CONNECTING = "connecting"
    UP = "up"
    DOWN = "down"
    """It was tried, and will be tried again."""
    SIGN_IN = "sign_in"
    """A person has to sign in first. A call asks for it, where somebody can be asked."""
    DISABLED = "disabled"
    STOPPED = "stopped"

    @property
    def callable(self) -> bool:
        """Whether the tools of such a server can be called."""
        return self in {ServerState.UP, ServerState.SIGN_IN}


def why_unavailable(name: str, state: ServerState, retry_at: float) -> str:
    """Why the tools of a server cannot be called now, in a sentence for models; empty: they can.

    The error itself is left out, as it may hold what the server wrote: it is for those who run us. `retry_at` is in
    seconds of the monotonic clock.
    """
    if state is ServerState.UP:
        return ""
    seconds = retry_at - monotonic()
    reasons = {
        ServerState.SIGN_IN: "wants a person to sign in",
        ServerState.DISABLED: "is disabled in mcp_config.json: remove its `disabled`",
        ServerState.CONNECTING: "is being connected",
        ServerState.DOWN: f"is down; it is tried again {f'in {seconds:.0f} s' if seconds >= 1 else 'at once'}",
        ServerState.STOPPED: "is stopped",
    }
    return f"The server {name!r} {reasons[state]}."


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server at one moment."""

    name: str
    transport: TransportKind
    address: str
    """The command, or the address without user and query."""
    state: ServerState
    protocol: str
    """The revision that was agreed on; empty: there is no connection."""
    tools: int
    """How many it listed when it was last asked, as for resources (with templates) and prompts."""
    resources: int
    prompts: int
    last_error: str
    notes: tuple[str, ...]
    """What is wrong with its list of tools."""
    calls: int
    failures: int
    """Calls that gave no result: time-outs, a server that went away, errors of the protocol."""
    connections: int
    """How often it has been connected."""
    required: bool = False
    """Whether nothing may be served without it."""
    callers: int = 0
    """Connections of callers whose credentials it gets, or who signed in to it themselves."""


def failure_reason(config: ServerConfig, error: BaseException, *known: str) -> str:
    """Why a connection could not be made, or ended, in a line for those who run us.

    `known` is what the transport knows of it; what the error says already is not repeated.
    """
    match error := next(leaves(error)):
        case ConnectionLost():
            words = str(error)
        case TimeoutError():
            words = f"its tools were not listed within {config.connect_timeout:g} s"
        case OSError(errno=errno.ENOENT) if config.cwd is not None and not config.cwd.is_dir():
            words = f"there is no folder {str(config.cwd)!r} to start it in"
        case OSError(errno=errno.ENOENT) if config.transport == "stdio":
            has_arguments = which(config.command.partition(" ")[0])
            fix = "move its arguments to `args`" if has_arguments else "install it, or give its full path"
            words = f"there is no command {config.command!r}: {fix}"
        case OSError(errno=errno.EACCES | errno.ENOEXEC) if config.transport == "stdio":
            words = f"the command {config.command!r} is no program, or may not be run"
        case _ if type(error).__name__ in {"ConnectError", "ConnectTimeout"}:
            host, words = urlsplit(config.url).hostname, f"nothing answers at {config.shown_address}"
            for each in causes(error, implicit=True):
                if isinstance(each, ssl.SSLCertVerificationError):
                    words = (
                        f"the certificate of {host} is not trusted ({each.verify_message}): if it is right, "
                        "name a file with the certificate of its authority in `caFile`"
                    )
                elif isinstance(each, ssl.SSLError):
                    reason = f"({each.reason}): look at the scheme and port of its url"
                    words = f"there is no TLS connection with {host} {reason}"
                elif isinstance(each, socket.gaierror):
                    advice = f"({each.strerror}): look at its url, or at the DNS of this machine"
                    words = f"the name {host} is not known {advice}"
                else:
                    continue
                break
        case ValidationError():
            words = f"it does not keep to the protocol: {error_text(error)}"
        case _:
            words = error_summary(error)
    more = (each for each in known if each and each not in words)
    plain = (_FOR_PROGRAMMERS.sub("", each).rstrip() for each in (words, *more))
    return one_line("; ".join(filter(None, plain)), 500)


def error_text(error: Exception) -> str:
    """The message of an error; of a message that breaks the protocol, its first faults."""
    if not isinstance(error, ValidationError):
        return str(error)
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    # Without what came: it is the server's, and may be a secret.
    lines = [f"{field_path(each['loc'])}: {validation_reason(each['msg'])}" for each in faults]
    return "; ".join(shortened(lines, 3))


_log = logging.getLogger(__name__)
T = TypeVar("T")
_NO_BACK_CHANNEL: Final = re.compile(
    "server-initiated requests|cannot be sent while serving a request|server.to.client requests are not", re.IGNORECASE
)
"""What the SDKs and FastMCP say if a tool asks the client during a call, as the newest revision does not let it."""
_ERROR_CHARACTERS: Final = 2_000


class ToolClient:
    """Calls the tools of one server, at most `ServerConfig.concurrency` at once, besides those that wait for a person.

    `connected` waits for the connection and raises `ToolError` where there is none. A server may be another goalport,
    which answers a long or waiting call with the process that it began; the client follows the process to its result.
    """

    def __init__(self, config: ServerConfig, connected: Callable[[], Awaitable[Connection]]) -> None:
        self.calls = 0
        self.failures = 0
        """Calls that gave no result."""
        self.ask_to_sign_in: Callable[[Ask], Awaitable[None]] | None = None
        """Has a person sign in and the server connected again; None: nobody can."""
        self._config = config
        self._connected = connected
        self._turns = anyio.Semaphore(config.concurrency, fast_acquire=True)

    async def call(self, request: ToolRequest) -> ToolResult:
        """Call a tool. It is called a second time only where the connection was lost and a repetition does no harm.

        Raises `ToolError` when there is no result, in words for the model that called, and the `Signal` that somebody
        who was asked during the call raised.
        """

        async def called() -> ToolResult:
            try:
                return await self._call_once(request)
            except ConnectionLost as lost:
                if not (request.repeatable or isinstance(lost, NotCalled)):
                    raise
                return await self._call_once(request)

        self.calls += 1
        try:
            return await self._with_sign_in(called)
        except (ConnectionLost, SignInNeeded, ToolError) as error:
            self.failures += 1
            raise ToolError(cleaned(hide(f"{request.shown}: {error}"), _ERROR_CHARACTERS)) from None

    async def connect(self) -> None:
        """Wait until the server is connected; the person behind the call signs in if that is what it wants.

        Raises `ToolError` if it is not connected then.
        """
        try:
            await self._with_sign_in(self._connected)
        except SignInNeeded as error:
            raise ToolError(str(error)) from None

    async def _with_sign_in(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Do something, after the person behind the call has signed in if that is needed.

        Raises `SignInNeeded` if there is nobody.
        """
        try:
            return await operation()
        except SignInNeeded:
            hooks = current_hooks()
            ask = hooks.ask if hooks.lasting else None
            if ask is None or self.ask_to_sign_in is None:
                raise SignInNeeded(self._config.name) from None
            await self.ask_to_sign_in(ask)
            return await operation()

    async def _call_once(self, request: ToolRequest) -> ToolResult:
        connection = await self._connected()
        server, seconds = self._config.name, self._config.timeout
        with anyio.move_on_after(seconds) as scope:
            await self._turns.acquire()
        if scope.cancelled_caught:
            raise ToolError(f"the server {server!r} is busy with other calls. Try again later.")
        try:
            with connection.calls.begin(seconds, self._turns) as call:
                if connection.broken:
                    raise NotCalled(f"the server {server!r} went away before the call.")
                return await self._request(connection, request, call)
        except TimeoutError:
            raise ToolError(
                f"the server {server!r} gave nothing within {seconds:g} s, and was told to stop. "
                "Ask for less, or do without it."
            ) from None

    async def _request(self, connection: Connection, request: ToolRequest, call: Call) -> ToolResult:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        server = self._config.name
        try:
            if request.kind == "tool":
                result = await connection.call(request.own_name, request.arguments, call)
                result = await followed_process(result, call, connection.call)
            else:
                result = await connection.fetch(request)
        except MCPError as error:
            if call.sign_in_needed:
                connection.mark_broken()
                raise SignInNeeded(server) from error
            if connection.transport.session_expired:
                connection.mark_broken()
                raise NotCalled(f"the server {server!r} was started anew, and knows us no more.") from error
            # The code alone says nothing: it is what the SDK says of a lost connection, and what servers say of errors.
            if error.code == CONNECTION_CLOSED and connection.broken:
                if call.reached is False:
                    raise NotCalled(f"the server {server!r} went away before the call.") from error
                why = connection.last_error or error.message
                raise ConnectionLost(
                    f"the server {server!r} went away during the call ({why}). Whether it did what it was "
                    "asked to is not known; it is being connected again."
                ) from error
            why = "; ".join(filter(None, (error.message, connection.transport.last_error())))
            raise ToolError(f"the server {server!r} refused the call: {why}{self._help(connection, why)}") from error
        except (RuntimeError, ValueError, OSError) as error:
            # The SDK speaks of the tool by the name that the server knows.
            message = error_text(error).replace(f"tool {request.own_name}", f"tool {request.shown}")
            raise ToolError(f"what the server {server!r} answered is no result: {message}") from error
        note = f"(The server asked a question meanwhile, which was declined: {call.unanswered}.)"
        renamed = with_renamed_tools(result, request.rename, [each.name for each in connection.listing.definitions])
        said = " ".join(each.text for each in result.content if each.type == "text") if result.is_error else ""
        return result_of(renamed, note if call.unanswered else self._help(connection, said).lstrip())

    def _help(self, connection: Connection, said: str) -> str:
        """What helps against an error in which a server says that it cannot ask its client; empty for any other."""
        if not _NO_BACK_CHANNEL.search(said) or connection.protocol_version < MODERN:
            return ""
        return (
            f" (The tool asks its client during a call. Revision {MODERN} has no way for that: set"
            f' "protocolVersion": "2025-11-25" for {self._config.name!r} in the configuration of servers.)'
        )


_NOT_COMING: Final = frozenset({ServerState.DISABLED, ServerState.SIGN_IN, ServerState.STOPPED})
"""The states in which a server is not being connected."""
_TOKEN: Final = "${caller.token}"  # noqa: S105 - the name of a variable
_ID: Final = "${caller.id}"
_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")


class UpstreamServer:
    """One server of the configuration. `run` belongs to one task, everything else may be used from any.

    `on_change` is called when the state or the list of tools has changed. If there are connections of
    `callers`, they call its tools. `whose` names the caller in the log whom the connection belongs to; empty: it is
    nobody's own.
    """

    def __init__(
        self,
        config: ServerConfig,
        transport: Transport,
        *,
        timing: Timing,
        sample: Sample | None = None,
        on_change: Callable[[], None] = lambda: None,
        callers: "CallerServers | None" = None,
        whose: str = "",
        connection: type[Connection] = Connection,
    ) -> None:
        self.config = config
        self._new_connection = connection
        self.name = config.name
        self.client = ToolClient(config, self._connected)
        self._callers = callers
        self._call = self.client.call if callers is None else callers.call
        self.sign_in = Tool(
            f"sign_in_{config.name}",
            f"Have a person sign in to the server {config.name!r}, so that its tools can be listed",
            {"type": "object", "properties": {}},
            self._sign_in,
            server=config.name,
        )
        """Gets the list of tools of a server that wants a person to sign in; no model is offered it."""
        self._shown = f"{config.name} (for {whose})" if whose else config.name
        self.tools: tuple[UpstreamTool, ...] = ()
        """The tools of the last list, also while the server is down."""
        self.listing = Listing()
        """What else was in the last lists: resources, templates and prompts."""
        self.reader: UpstreamTool | None = None
        """Lists and reads the resources; None: it has none."""
        self.state = ServerState.DISABLED if config.disabled else ServerState.CONNECTING
        self.last_error = ""
        self.retry_at = 0.0
        """When a server that is down is tried again, in seconds of the monotonic clock."""
        self._transport = transport
        self._timing = timing
        self._sample = sample
        self._on_change = on_change
        self._wakeup = Wakeup()
        self._connection: Connection | None = None
        self._scope = anyio.CancelScope()
        self._state_changed = anyio.Event()
        self._ended = anyio.Event()
        self._stopping = False
        self._begun = self._decided = 0
        """The number of the last attempt to connect that has begun, and of the last that has succeeded or failed."""
        self._notes: tuple[str, ...] = ()
        self.connections = 0

    def report(self) -> ServerReport:
        """The state of the server now."""
        up = self._connection if self.state is ServerState.UP else None
        return ServerReport(
            name=self.name,
            transport=self.config.transport,
            address=hide(self.config.shown_address),
            state=self.state,
            protocol=up.protocol_version if up else "",
            tools=len(self.tools),
            resources=len((*self.listing.resources, *self.listing.templates)),
            prompts=len(self.listing.prompts),
            last_error=self.last_error,
            notes=self._notes,
            calls=self.client.calls,
            failures=self.client.failures,
            connections=self.connections,
            required=self.config.required,
        )

    async def run(self) -> None:
        """Own the connection until `stop`: connect, watch, and connect again after a delay that grows with failures."""
        delay = self._timing.first_delay
        try:
            with self._scope:
                while not (self._stopping or self.config.disabled):
                    lasted = await self._connect_once()
                    delay = self._timing.first_delay if lasted > self._timing.steady else delay
                    if not self._stopping:
                        pause = delay * random.uniform(0.5, 1)  # noqa: S311 - not a secret
                        pause = max(pause, self._transport.retry_after)
                        self.retry_at = monotonic() + pause
                        # Notifications from before were about the connection that is gone, and must not end the pause.
                        self._wakeup = Wakeup()
                        await self._wakeup.wait(pause)
                    delay = min(delay * 2, self._timing.longest_delay)
        finally:
            if self.state is not ServerState.DISABLED:
                self._set_state(ServerState.STOPPED)
            self._ended.set()

    async def reconnect(self) -> None:
        """Connect again at once, as somebody has signed in, and wait until that has succeeded or failed."""
        begun = self._begun
        with anyio.move_on_after(self.config.connect_timeout):
            # What has begun before does not know of the sign-in, also where it succeeds.
            while self._decided <= begun and self.state is not ServerState.STOPPED:
                if self._connection is not None:
                    self._connection.mark_broken()
                self._wakeup.notify()
                await self._state_changed.wait()

    async def fetch(self, kind: Literal["resource", "prompt"], name: str, arguments: Mapping[str, str]) -> ToolResult:
        """The contents of a resource, named by its URI, as blocks; or a prompt as structured content.

        Raises `ToolError`.
        """
        return await self._call(ToolRequest(name, arguments, repeatable=True, kind=kind))

    async def stop(self) -> None:
        """End the connection: in good order within `Timing.close_timeout`, else by cancelling."""
        self._stopping = True
        if self.state is not ServerState.UP:
            self._scope.cancel()
        self._wakeup.notify()
        with anyio.move_on_after(self._timing.close_timeout):
            await self._ended.wait()
        self._scope.cancel()

    async def wait_first_attempt(self) -> None:
        """Wait until the first attempt has succeeded or failed."""
        while self.state is ServerState.CONNECTING:
            await self._state_changed.wait()

    async def _sign_in(self, _: Mapping[str, object]) -> ToolResult:
        if self._callers is None:
            await self.client.connect()
        else:
            definitions = await self._callers.definitions()
            # The list is the same for all callers, so the first who is let in gets it for all.
            if not self.tools:
                await self._accept(Listing(tuple(definitions)))
        return ToolResult.of_text(f"The server {self.name!r} lists {counted(len(self.tools), 'tool')}.")

    async def _read_or_list(self, request: ToolRequest) -> ToolResult:
        """Answer a call of the reader. Raises `ToolError`."""
        match request.arguments.get("uri"):
            case None | "":
                resources = ((each.uri, each) for each in self.listing.resources)
                templates = ((each.uri_template, each) for each in self.listing.templates)
                lines = (
                    f"- {uri}: {each.title or each.name}. {each.description or ''}".split()
                    for uri, each in (*resources, *templates)
                )
                return ToolResult.of_text(
                    "\n".join(map(" ".join, lines)) or "It lists no resources; links in results may have some."
                )
            case str() as uri:
                return await self._call(replace(request, own_name=uri, arguments={}, kind="resource"))
            case _:
                raise ToolError(f"{request.shown}: uri should be a text.")

    async def _connected(self) -> Connection:
        """The connection. A call waits `Timing.wait_for_up` for it; raises `ToolError` when there is none by then."""
        with anyio.move_on_after(self._timing.wait_for_up):
            while (self._connection is None or self._connection.broken) and self.state not in _NOT_COMING:
                await self._state_changed.wait()
        if self._connection is not None and not self._connection.broken:
            return self._connection
        if self.state is ServerState.SIGN_IN:
            raise SignInNeeded(self.name)
        why = why_unavailable(self.name, self.state, self.retry_at)
        raise ToolError(f"{why[:1].lower()}{why[1:]} Call it again after that, or do without it.")

    async def _connect_once(self) -> float:
        """One connection from its beginning to its end; the seconds that it was up, 0 if the server flooded it."""
        up_since = 0.0
        self._begun += 1
        self._wakeup = Wakeup()
        connection = self._new_connection(self.config, self._transport, self._wakeup, self._sample)
        try:
            with anyio.fail_after(self.config.connect_timeout) as limit:
                async with connection.opened() as listing:
                    limit.deadline = float("inf")
                    up_since = monotonic()
                    self.connections += 1
                    self._connection = connection
                    await self._accept(listing)
                    tools, revision = len(self.tools), connection.protocol_version
                    _log.info("Upstream server %r is up: %d tools, %s", self._shown, tools, revision)
                    self.last_error = ""
                    self._decided = self._begun
                    self._set_state(ServerState.UP)
                    try:
                        await self._watch(connection)
                    finally:
                        connection.broken = True
                        limit.deadline = anyio.current_time() + self._timing.close_timeout
        except Exception as error:
            why = failure_reason(self.config, error, connection.last_error, self._transport.stderr_tail())
            needs_sign_in = any(isinstance(each, SignInNeeded) for each in leaves(error))
            # A reason that repeats is logged once as a warning.
            reason = hide(why)
            level = logging.DEBUG if reason == self.last_error else logging.WARNING
            _log.log(level, "Upstream server %r is down: %s", self._shown, reason)
            self.last_error = reason
            self._decided = self._begun
            if not self._stopping:
                self._set_state(ServerState.SIGN_IN if needs_sign_in else ServerState.DOWN)
        finally:
            self._connection = None
        return monotonic() - up_since if up_since and not connection.flood else 0.0

    async def _watch(self, connection: Connection) -> None:
        """Watch a connection until it is lost: list the tools again when they changed, ping it when it is quiet."""
        while not self._stopping:
            notified = await self._wakeup.wait(self._timing.ping_every)
            if self._stopping:
                return
            if connection.broken:
                raise ConnectionLost(connection.last_error or "the connection ended")
            if connection.changed:
                await anyio.sleep(self._timing.refresh_gap)
                with anyio.fail_after(self.config.connect_timeout):
                    await self._accept(await connection.list())
            elif not notified and not connection.calls:
                try:
                    with anyio.fail_after(self._timing.ping_timeout):
                        await connection.ping()
                except TimeoutError:
                    seconds = self._timing.ping_timeout
                    raise ConnectionLost(f"it gave no sign of life within {seconds:g} s") from None

    async def _accept(self, listing: Listing) -> None:
        # In a thread: ten thousand tools take a second, in which others are served.
        found, call = listing.definitions, self._call
        self.tools, withheld = await to_thread.run_sync(tools_of_list, self.name, found, call, self.tools)
        others = await to_thread.run_sync(
            lambda: Listing(
                resources=cleaned_list(listing.resources),
                templates=cleaned_list(listing.templates),
                prompts=cleaned_list(listing.prompts),
            )
        )
        left_out = listing.others - others.others
        if left_out:
            why = "they are there twice or too long, or have an address that is empty or cannot be seen"
            withheld = (*withheld, f"{left_out} of its resources, templates and prompts are left out: {why}")
        self.listing = self.listing if others == self.listing else others
        if listing.has_resources and self.reader is None:
            self.reader = reader_of(self.name, self._read_or_list)
        notes = (*listing.notes, *withheld)
        if notes != self._notes:
            for note in notes[:10]:
                _log.warning("Upstream server %r: %s", self._shown, note)
        self._notes = notes
        self._on_change()

    def _set_state(self, state: ServerState) -> None:
        self.state = state
        self._state_changed.set()
        self._state_changed = anyio.Event()
        self._on_change()


@dataclass(eq=False)
class _CallerConnection:
    """One caller's connection, and how many calls use it now."""

    server: UpstreamServer
    users: int = 0
    unused_since: float = math.inf
    changed: anyio.Event = field(default_factory=anyio.Event)


class CallerServers:
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
        self._config = config
        self._make = make
        self._tasks = tasks
        self._idle = idle
        self._connections: dict[tuple[object, ...], _CallerConnection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    async def call(self, request: ToolRequest) -> ToolResult:
        """Call a tool as the caller. Raises `ToolError`, also where there is nothing to tell the server who calls."""
        async with AsyncExitStack() as stack:
            try:
                server = await stack.enter_async_context(self._connection())
            except ToolError as error:
                raise ToolError(f"{request.shown}: {error}") from None
            return await server.client.call(request)

    async def definitions(self) -> "list[Definition]":
        """The tools that the server lists for the caller, who signs in first if need be. Raises `ToolError`."""
        async with self._connection() as server:
            await server.client.connect()
            return [each.definition for each in server.tools]

    def stop(self, caller: Caller | None = None) -> None:
        """End the connections of a caller, or all."""
        for key, each in [*self._connections.items()]:
            if caller is None or key[:2] == caller.identity:
                self._forget(key, each)

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
    async def _connection(self) -> AsyncGenerator[UpstreamServer]:
        """The connection of the caller of the running code. Raises `ToolError` where there is none."""
        site = current_call_site()
        caller = ANONYMOUS if site is None else site.caller
        headers = self._headers(caller)
        key = (*caller.identity, *sorted(headers.items()))
        held = self._connections.get(key)
        if held is None:
            if len(self._connections) >= self._config.max_callers:
                unused = [(each.unused_since, known) for known, each in self._connections.items() if not each.users]
                if not unused:
                    raise ToolError(f"the server {self._config.name!r} is busy with other callers. Try again later.")
                _, oldest = min(unused, key=lambda each: each[0])
                self._forget(oldest, self._connections[oldest])
            config = replace(
                self._config,
                headers={**self._config.headers, **headers},
                listing_headers={},
                caller_headers={},
                secrets=(*self._config.secrets, *(each.rpartition(" ")[2] for each in headers.values())),
            )
            held = self._connections[key] = _CallerConnection(self._make(config, caller))
            register_secrets(held.server, config.all_secrets())
            self._tasks.start_soon(self._run, key, held)
        held.users += 1
        held.unused_since = math.inf
        try:
            await held.server.wait_first_attempt()
            if not (held.server.state.callable or held.server.connections):
                self._forget(key, held)
                raise ToolError(
                    f"the server {self._config.name!r} did not let this caller in, or is down. Do without it, or make "
                    "a call with another credential."
                )
            yield held.server
        finally:
            held.users -= 1
            if not held.users:
                held.unused_since = anyio.current_time()
                held.changed.set()

    async def _run(self, key: tuple[object, ...], held: _CallerConnection) -> None:
        """Own a connection until nobody has used it for a while."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(held.server.run)
            while self._connections.get(key) is held:
                held.changed = anyio.Event()
                with anyio.move_on_at(held.unused_since + self._idle):
                    await held.changed.wait()
                if not held.users and anyio.current_time() >= held.unused_since + self._idle:
                    self._forget(key, held)
            await held.server.stop()

    def _forget(self, key: tuple[object, ...], held: _CallerConnection) -> None:
        if self._connections.get(key) is held:
            del self._connections[key]
        held.changed.set()
