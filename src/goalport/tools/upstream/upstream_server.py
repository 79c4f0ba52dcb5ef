"""One upstream server: a task connects it, watches the connection, and connects again after a loss.

Its tools are called from any task, through its `ToolClient`, over the current connection. A failing server does not
affect others: callers get a `ToolError` in words for models, and a `ServerReport` says why. Above: `servers`, which
starts and stops the task, also for each caller whose credentials a server gets.
"""

import errno
import logging
import random
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from shutil import which
from time import monotonic
from typing import Final, Literal, TypeVar
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from pydantic import ValidationError

from goalport.base.errors import ToolError, causes, leaves
from goalport.base.secrecy import hide
from goalport.base.words import cleaned, counted, error_summary, field_path, one_line, shortened, validation_reason
from goalport.tools import Tool, ToolResult
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
    Transport,
)
from goalport.tools.upstream.tool import (
    CallTool,
    ToolRequest,
    UpstreamTool,
    cleaned_list,
    reader_of,
    result_of,
    tools_of_list,
)

_log = logging.getLogger(__name__)
T = TypeVar("T")
_FOR_PROGRAMMERS: Final = re.compile(
    r" \[type=[^\n]*\]$|^\s*For (?:further|more) information (?:visit|check:) \S*$", re.MULTILINE
)
"""Matches what pydantic and httpx2 add to their messages for programmers, also inside of other messages."""
_NO_BACK_CHANNEL: Final = re.compile(
    "server-initiated requests|cannot be sent while serving a request|server.to.client requests are not", re.IGNORECASE
)
"""Matches errors of SDKs and FastMCP when a tool sends its client a request, which the newest revision forbids."""
_ERROR_CHARACTERS: Final = 2_000
_STEADY: Final = 10.0
"""Seconds that a connection must last to reset the delay between attempts."""
_CLOSE_TIMEOUT: Final = 8.0
"""Seconds for a connection to close gracefully."""


class ServerState(StrEnum):
    """The state of the connection to a server."""

    CONNECTING = "connecting"
    UP = "up"
    DOWN = "down"
    """The last attempt failed, or the connection was lost; another attempt follows."""
    SIGN_IN = "sign_in"
    """A person has to sign in first. A call of a tool asks them to, if somebody can be asked."""
    DISABLED = "disabled"
    STOPPED = "stopped"

    @property
    def callable(self) -> bool:
        """Whether the tools of such a server can be called."""
        return self in {ServerState.UP, ServerState.SIGN_IN}


_NOT_COMING: Final = frozenset({ServerState.DISABLED, ServerState.SIGN_IN, ServerState.STOPPED})
"""The states in which a call does not wait for the server to be up."""


def why_unavailable(name: str, state: ServerState, retry_at: float) -> str:
    """Why the tools of a server cannot be called now, in a sentence for models; empty: they can be.

    It does not contain the error, which may quote the server: that is for those who run this program. `retry_at` is in
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


@dataclass(frozen=True)
class Timing:
    """Delays and time-outs of connections, all in seconds."""

    first_delay: float = 0.5
    """Before the first new attempt; doubled with each failure, and reduced at random by up to a half."""
    longest_delay: float = 60.0
    ping_every: float = 30.0
    ping_timeout: float = 10.0
    refresh_gap: float = 0.1
    """Between a notification that a list changed and the request for it, so that a burst causes one request."""
    wait_for_up: float = 5.0
    """How long a call waits for a server that is being connected."""
    caller_idle: float = 120.0
    """How long an unused connection of a caller stays open."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server at one moment."""

    name: str
    transport: TransportKind
    address: str
    """The command, or the URL without user and query."""
    state: ServerState
    protocol: str
    """The negotiated protocol revision; empty: there is no connection."""
    tools: int
    """The number of tools in its last list. `resources` includes templates."""
    resources: int
    prompts: int
    last_error: str
    notes: tuple[str, ...]
    """Sentences that say what is wrong with its lists."""
    calls: int
    failures: int
    """Calls without a result: timeouts, lost connections, protocol errors."""
    connections: int
    """How often it has been connected."""
    required: bool = False
    """Whether this program must not start serving while the server is down."""
    callers: int = 0
    """The number of separate connections for callers, by their credentials or sign-ins."""


def failure_reason(config: ServerConfig, error: BaseException, *known: str) -> str:
    """Why a connection failed or ended, in one line for those who run this program; `known` are further details."""
    is_process = config.transport == "stdio"
    match error := next(leaves(error)):
        case ConnectionLost():
            words = str(error)
        case TimeoutError():
            words = f"its tools were not listed within {config.connect_timeout:g} s"
        case OSError(errno=errno.ENOENT) if config.cwd is not None and not config.cwd.is_dir():
            words = f"there is no folder {str(config.cwd)!r} to start it in"
        case OSError(errno=errno.ENOENT) if is_process:
            has_arguments = which(config.command.partition(" ")[0])
            fix = "move its arguments to `args`" if has_arguments else "install it, or give its full path"
            words = f"there is no command {config.command!r}: {fix}"
        case OSError(errno=errno.EACCES | errno.ENOEXEC) if is_process:
            words = f"the command {config.command!r} is no program, or may not be run"
        case _ if type(error).__name__ in {"ConnectError", "ConnectTimeout"}:
            host = urlsplit(config.url).hostname
            reasons = (_why_unreachable(each, host) for each in causes(error, implicit=True))
            words = next(filter(None, reasons), f"nothing answers at {config.shown_address}")
        case ValidationError():
            words = f"it does not keep to the protocol: {_text_of(error)}"
        case _:
            words = error_summary(error)
    more = (each for each in known if each and each not in words)
    plain = (_FOR_PROGRAMMERS.sub("", each).rstrip() for each in (words, *more))
    return one_line("; ".join(filter(None, plain)), 500)


def _why_unreachable(error: BaseException, host: str | None) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return (
                f"the certificate of {host} is not trusted ({error.verify_message}): if it is right, "
                "name a file with the certificate of its authority in `caFile`"
            )
        case ssl.SSLError():
            return f"there is no TLS connection with {host} ({error.reason}): look at the scheme and port of its url"
        case socket.gaierror():
            return f"the name {host} is not known ({error.strerror}): look at its url, or at the DNS of this machine"
        case _:
            return ""


def _text_of(error: Exception) -> str:
    """The message of an error; for a `ValidationError` of a protocol message, its first problems."""
    if not isinstance(error, ValidationError):
        return str(error)
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    # Without the server's values, which may be secret.
    return "; ".join(shortened([f"{field_path(each['loc'])}: {validation_reason(each['msg'])}" for each in faults], 3))


class ToolClient:
    """Calls the tools of one server, at most `ServerConfig.concurrency` at once, without calls that wait for people.

    `connected` waits for the connection, and raises `ToolError` if there is none. A server may be another goalport,
    which answers a long or waiting call with a handle of its process; the client follows the process to its result.
    """

    def __init__(self, config: ServerConfig, connected: Callable[[], Awaitable[Connection]]) -> None:
        self.calls = 0
        self.failures = 0
        """The number of calls without a result."""
        self.ask_to_sign_in: Callable[[Ask], Awaitable[None]] | None = None
        """Asks a person to sign in, and connects the server again; None: the server has no sign-in."""
        self._config = config
        self._connected = connected
        self._turns = anyio.Semaphore(config.concurrency, fast_acquire=True)

    async def call(self, request: ToolRequest) -> ToolResult:
        """Call a tool. The call is repeated once if the connection was lost and a repetition does no harm.

        Raises `ToolError`, in words for the calling model, if there is no result; and a `Signal` that `Ask` raised
        during the call.
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
        """Wait until the server is connected; the person behind the call signs in if necessary. Raises `ToolError`."""
        try:
            await self._with_sign_in(self._connected)
        except SignInNeeded as error:
            raise ToolError(str(error)) from None

    async def _with_sign_in(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Call `operation`, and once more after a sign-in if that is needed. Raises `SignInNeeded` if nobody can."""
        try:
            return await operation()
        except SignInNeeded:
            hooks = current_hooks()
            if hooks.ask is None or not hooks.lasting or self.ask_to_sign_in is None:
                raise
            await self.ask_to_sign_in(hooks.ask)
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
            # The code alone does not tell: the SDK uses it for a lost connection, and servers for other errors.
            if error.code == CONNECTION_CLOSED and connection.broken:
                if call.reached is False:
                    raise NotCalled(f"the server {server!r} went away before the call.") from error
                why = connection.last_error or error.message
                raise ConnectionLost(
                    f"the server {server!r} went away during the call ({why}). Whether it did what it was "
                    "asked to is not known; it is being connected again."
                ) from error
            why = "; ".join(filter(None, (error.message, connection.transport.error)))
            raise ToolError(f"the server {server!r} refused the call: {why}{self._help(connection, why)}") from error
        except (RuntimeError, ValueError, OSError) as error:
            # The SDK's messages contain the server's name of the tool.
            message = _text_of(error).replace(f"tool {request.own_name}", f"tool {request.shown}")
            raise ToolError(f"what the server {server!r} answered is no result: {message}") from error
        note = f"(The server asked a question meanwhile, which was declined: {call.unanswered}.)"
        renamed = with_renamed_tools(result, request.rename, [each.name for each in connection.listing.definitions])
        said = " ".join(each.text for each in result.content if each.type == "text") if result.is_error else ""
        return result_of(renamed, note if call.unanswered else self._help(connection, said).lstrip())

    def _help(self, connection: Connection, said: str) -> str:
        """Advice if a server's error says that it cannot send requests to its client; empty for other errors."""
        if not _NO_BACK_CHANNEL.search(said) or connection.protocol_version < MODERN:
            return ""
        return (
            f" (The tool asks its client during a call. Revision {MODERN} has no way for that: set"
            f' "protocolVersion": "2025-11-25" for {self._config.name!r} in the configuration of servers.)'
        )


class UpstreamServer:
    """One server of the configuration. One task calls `run`; any task may use all else.

    `on_change` is called when the state or the list of tools has changed. If each caller has a connection, `call` calls
    tools over the caller's, and `list_tools` lists its tools, after a sign-in if necessary. `whose` is the id of the
    caller of this connection, for the log; empty: it is for all callers.
    """

    def __init__(
        self,
        config: ServerConfig,
        transport: Transport,
        *,
        timing: Timing,
        sample: Sample | None = None,
        on_change: Callable[[], None] = lambda: None,
        call: CallTool | None = None,
        list_tools: Callable[[], Awaitable[Listing]] | None = None,
        whose: str = "",
        connection: type[Connection] = Connection,
    ) -> None:
        self.config = config
        self.name = config.name
        self.client = ToolClient(config, self._connected)
        self.sign_in = Tool(
            f"sign_in_{config.name}",
            f"Have a person sign in to the server {config.name!r}, so that its tools can be listed",
            {"type": "object", "properties": {}},
            self._sign_in,
            server=config.name,
        )
        """A tool that asks a person to sign in, and then lists the server's tools; models are not offered it."""
        self.tools: tuple[UpstreamTool, ...] = ()
        """The tools of the last list, even while the server is down."""
        self.listing = Listing()
        """The resources, templates and prompts of the last lists, without tools."""
        self.reader: UpstreamTool | None = None
        """A tool that lists and reads the server's resources; None: it has none."""
        self.state = ServerState.DISABLED if config.disabled else ServerState.CONNECTING
        self.last_error = ""
        self.retry_at = 0.0
        """When the next attempt to connect begins, in seconds of the monotonic clock."""
        self.connections = 0
        self._call, self._list_tools = call or self.client.call, list_tools
        self._shown = f"{config.name} (for {whose})" if whose else config.name
        self._transport, self._timing, self._sample, self._on_change = transport, timing, sample, on_change
        self._new_connection = connection
        self._connection: Connection | None = None
        self._scope = anyio.CancelScope()
        self._woken, self._state_changed, self._ended = anyio.Event(), anyio.Event(), anyio.Event()
        self._stopping = False
        self._begun = self._decided = 0
        """The number of the last attempt to connect that was started, and of the last that has succeeded or failed."""
        self._notes: tuple[str, ...] = ()

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
        """Connect, watch the connection, and connect again after a delay that grows with failures, until `stop`."""
        delay = self._timing.first_delay
        try:
            with self._scope:
                while not (self._stopping or self.config.disabled):
                    if await self._connect_once() > _STEADY:
                        delay = self._timing.first_delay
                    if not self._stopping:
                        pause = max(delay * random.uniform(0.5, 1), self._transport.retry_after)  # noqa: S311
                        self.retry_at = monotonic() + pause
                        # A wake-up for the connection that is gone must not end the pause.
                        self._woken = anyio.Event()
                        await self._sleep(pause)
                    delay = min(delay * 2, self._timing.longest_delay)
        finally:
            if self.state is not ServerState.DISABLED:
                self._set_state(ServerState.STOPPED)
            self._ended.set()

    async def _sleep(self, seconds: float) -> bool:
        """Wait so many seconds, or until `_wake` is called. Returns whether it was called, also before the wait."""
        with anyio.move_on_after(seconds):
            await self._woken.wait()
        woken = self._woken.is_set()
        self._woken = anyio.Event()
        return woken

    def _wake(self) -> None:
        self._woken.set()

    async def reconnect(self) -> None:
        """Connect again at once, after a sign-in, and wait until that has succeeded or failed."""
        begun = self._begun
        with anyio.move_on_after(self.config.connect_timeout):
            # An attempt that began earlier does not use the new tokens, even if it succeeds.
            while self._decided <= begun and self.state is not ServerState.STOPPED:
                if self._connection is not None:
                    self._connection.mark_broken()
                self._wake()
                await self._state_changed.wait()

    async def fetch(self, kind: Literal["resource", "prompt"], name: str, arguments: Mapping[str, str]) -> ToolResult:
        """The contents of a resource as blocks, by its URI; or a prompt as data. Raises `ToolError`."""
        return await self._call(ToolRequest(name, arguments, repeatable=True, kind=kind))

    async def stop(self) -> None:
        """End the connection: gracefully if that is quick, else by cancellation."""
        self._stopping = True
        if self.state is not ServerState.UP:
            self._scope.cancel()
        self._wake()
        with anyio.move_on_after(_CLOSE_TIMEOUT):
            await self._ended.wait()
        self._scope.cancel()

    async def wait_first_attempt(self) -> None:
        """Wait until the first attempt has succeeded or failed."""
        while self.state is ServerState.CONNECTING:
            await self._state_changed.wait()

    async def _sign_in(self, _: Mapping[str, object]) -> ToolResult:
        if self._list_tools is None:
            await self.client.connect()
        else:
            listing = await self._list_tools()
            # The list is the same for all callers, so that of the first who signs in is used for all.
            if not self.tools:
                await self._accept(listing)
        return ToolResult.of_text(f"The server {self.name!r} lists {counted(len(self.tools), 'tool')}.")

    async def _read_or_list(self, request: ToolRequest) -> ToolResult:
        """Handle a call of `reader`. Raises `ToolError`."""
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
        """The connection, after at most `Timing.wait_for_up`. Raises `ToolError` or `SignInNeeded` if there is none."""
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
        """Open a connection and watch it to its end. Returns the seconds that it was up; 0 if the server flooded it."""
        up_since = 0.0
        self._begun += 1
        self._woken = anyio.Event()
        connection = self._new_connection(self.config, self._transport, self._sample, self._wake)
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
                        limit.deadline = anyio.current_time() + _CLOSE_TIMEOUT
        except Exception as error:
            # If the reason is the same as before, the warning is not repeated.
            stderr = f"its stderr ends with {self._transport.stderr!r}" if self._transport.stderr else ""
            reason = hide(failure_reason(self.config, error, connection.last_error, stderr))
            level = logging.DEBUG if reason == self.last_error else logging.WARNING
            _log.log(level, "Upstream server %r is down: %s", self._shown, reason)
            self.last_error = reason
            self._decided = self._begun
            if not self._stopping:
                needs_sign_in = any(isinstance(each, SignInNeeded) for each in leaves(error))
                self._set_state(ServerState.SIGN_IN if needs_sign_in else ServerState.DOWN)
        finally:
            self._connection = None
        return monotonic() - up_since if up_since and not connection.flood else 0.0

    async def _watch(self, connection: Connection) -> None:
        """Watch a connection until it is lost: read changed lists again, and ping the server when it is quiet."""
        while not self._stopping:
            woken = await self._sleep(self._timing.ping_every)
            if self._stopping:
                return
            if connection.broken:
                raise ConnectionLost(connection.last_error or "the connection ended")
            if connection.changed:
                await anyio.sleep(self._timing.refresh_gap)
                with anyio.fail_after(self.config.connect_timeout):
                    await self._accept(await connection.list())
            elif not woken and not connection.calls:
                try:
                    with anyio.fail_after(self._timing.ping_timeout):
                        await connection.ping()
                except TimeoutError:
                    seconds = self._timing.ping_timeout
                    raise ConnectionLost(f"it gave no sign of life within {seconds:g} s") from None

    async def _accept(self, listing: Listing) -> None:
        def cleaned_lists() -> tuple[tuple[UpstreamTool, ...], tuple[str, ...], Listing]:
            tools, rejected = tools_of_list(self.name, listing.definitions, self._call, self.tools)
            others = Listing(
                resources=cleaned_list(listing.resources),
                templates=cleaned_list(listing.templates),
                prompts=cleaned_list(listing.prompts),
            )
            if left_out := listing.others - others.others:
                why = "they are there twice or too long, or have an address that is empty or cannot be seen"
                rejected = (*rejected, f"{left_out} of its resources, templates and prompts are left out: {why}")
            return tools, rejected, others

        # In a thread: ten thousand tools take a second, which must not block the event loop.
        self.tools, rejected, others = await to_thread.run_sync(cleaned_lists)
        self.listing = self.listing if others == self.listing else others
        if listing.has_resources and self.reader is None:
            self.reader = reader_of(self.name, self._read_or_list)
        notes = (*listing.notes, *rejected)
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
