"""One upstream server: a task of its own connects it, watches the connection, and connects it again when it is lost.

Its tools are called from any task, through its `ToolClient`, over whichever connection it has. A failing server harms
nobody else: callers get a `ToolError` in words for models, and `status` says why. Above: `servers`, which starts and
stops the task. A server that gets the credentials of callers has a connection for each credential, while it is used,
which is an `UpstreamServer` of its own.
"""

import logging
import math
import random
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import ToolError, leaves
from goalport.base.secrecy import hide, register_secrets
from goalport.base.words import counted
from goalport.tools import Tool, ToolResult, current_call_site
from goalport.tools.upstream.config import ServerConfig
from goalport.tools.upstream.connection import (
    Connection,
    ConnectionLost,
    Listing,
    Sample,
    SignInNeeded,
    Timing,
    Transport,
    Wakeup,
)
from goalport.tools.upstream.status import ServerReport, ServerState, failure_reason, why_unavailable
from goalport.tools.upstream.tool import ToolRequest, UpstreamTool, cleaned_list, reader_of, tools_of_list
from goalport.tools.upstream.tool_client import ToolClient

if TYPE_CHECKING:
    from mcp_types import Tool as Definition

_log = logging.getLogger(__name__)
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
    ) -> None:
        self.config = config
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
        self._connections = 0

    @property
    def was_up(self) -> bool:
        """Whether it has been connected, now or before."""
        return self._connections > 0

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
            resources=len(self.listing.resources) + len(self.listing.templates),
            prompts=len(self.listing.prompts),
            last_error=self.last_error,
            notes=self._notes,
            calls=self.client.calls,
            failures=self.client.failures,
            connections=self._connections,
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
                        pause = max(pause, self._transport.retry_after())
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
                listed = [(each.uri, each) for each in self.listing.resources]
                listed += [(each.uri_template, each) for each in self.listing.templates]
                lines = [f"- {uri}: {each.title or each.name}. {each.description or ''}" for uri, each in listed]
                lines = [" ".join(each.split()) for each in lines]
                return ToolResult.of_text("\n".join(lines) or "It lists no resources; links in results may have some.")
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
        connection = Connection(self.config, self._transport, self._wakeup, self._sample)
        try:
            with anyio.fail_after(self.config.connect_timeout) as limit:
                async with connection.opened() as listing:
                    limit.deadline = float("inf")
                    up_since = monotonic()
                    self._connections += 1
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
            self._fail(hide(why), ServerState.SIGN_IN if needs_sign_in else ServerState.DOWN)
        finally:
            self._connection = None
        return monotonic() - up_since if up_since and not connection.flooded else 0.0

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
                seconds = self._timing.ping_timeout
                try:
                    with anyio.fail_after(seconds):
                        await connection.ping()
                except TimeoutError:
                    raise ConnectionLost(f"it gave no sign of life within {seconds:g} s") from None

    async def _accept(self, listing: Listing) -> None:
        # In a thread: ten thousand tools take a second, in which others are served.
        found, call = listing.definitions, self._call
        self.tools, withheld = await to_thread.run_sync(tools_of_list, self.name, found, call, self.tools)
        cleaned = await to_thread.run_sync(_cleaned, listing)
        self.listing = self.listing if cleaned == self.listing else cleaned
        if listing.has_resources and self.reader is None:
            self.reader = reader_of(self.name, self._read_or_list)
        notes = (*listing.notes, *withheld, *cleaned.notes)
        if notes != self._notes:
            for note in notes[:10]:
                _log.warning("Upstream server %r: %s", self._shown, note)
        self._notes = notes
        self._on_change()

    def _fail(self, reason: str, state: ServerState) -> None:
        # A reason that repeats is logged once as a warning.
        level = logging.DEBUG if reason == self.last_error else logging.WARNING
        _log.log(level, "Upstream server %r is down: %s", self._shown, reason)
        self.last_error = reason
        self._decided = self._begun
        if not self._stopping:
            self._set_state(state)

    def _set_state(self, state: ServerState) -> None:
        self.state = state
        self._state_changed.set()
        self._state_changed = anyio.Event()
        self._on_change()


def _cleaned(listing: Listing) -> Listing:
    """What a list has beside tools, and a note of how much of it is left out."""
    resources, templates = cleaned_list(listing.resources), cleaned_list(listing.templates)
    prompts = cleaned_list(listing.prompts)
    left_out = sum(map(len, (listing.resources, listing.templates, listing.prompts)))
    left_out -= sum(map(len, (resources, templates, prompts)))
    why = "they are there twice or too long, or have an address that is empty or cannot be seen"
    notes = (f"{left_out} of its resources, templates and prompts are left out: {why}",) if left_out else ()
    return Listing(notes=notes, resources=resources, templates=templates, prompts=prompts)


@dataclass(eq=False)
class _Lent:
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
        self._lent: dict[tuple[object, ...], _Lent] = {}

    def __len__(self) -> int:
        return len(self._lent)

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
        for key, each in [*self._lent.items()]:
            if caller is None or key[:2] == caller.identity:
                self._forget(key, each)

    def _headers(self, caller: Caller) -> dict[str, str]:
        """The headers that say who calls. Raises `ToolError` where that cannot be said."""
        templates, oauth = self._config.caller_headers, self._config.oauth
        if oauth is not None and oauth.per_caller and caller.same_as(ANONYMOUS):
            raise ToolError(self._unknown(_ID, caller, ""))
        known: dict[str, str] = {}
        if any(_ID in each for each in templates.values()):
            known[_ID] = "" if caller.same_as(ANONYMOUS) else caller.id
        if any(_TOKEN in each for each in templates.values()):
            known[_TOKEN] = _token_of(caller)
        for variable, value in known.items():
            if not _SENDABLE.fullmatch(value):
                raise ToolError(self._unknown(variable, caller, value))
        return {name: _filled(template, known) for name, template in templates.items()}

    def _unknown(self, variable: str, caller: Caller, value: str) -> str:
        server = self._config.name
        if caller.same_as(ANONYMOUS):
            return f"the server {server!r} wants to know who calls, and this call is nobody's: authenticate the caller."
        if value:
            return (
                f"the server {server!r} gets {variable} in a header, and there is a character in it that none can have."
            )
        return (
            f"the server {server!r} gets the token of whoever calls, and the token of {caller.id!r} is not here: this "
            "goes on without the request that it came with. The same caller has to call again, or to answer a question."
        )

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[UpstreamServer]:
        """The connection of the caller of the running code. Raises `ToolError` where there is none."""
        site = current_call_site()
        caller = ANONYMOUS if site is None else site.caller
        headers = self._headers(caller)
        key = (*caller.identity, *sorted(headers.items()))
        lent = self._lent.get(key) or self._open(key, caller, headers)
        lent.users += 1
        lent.unused_since = math.inf
        try:
            await lent.server.wait_first_attempt()
            if not (lent.server.state.callable or lent.server.was_up):
                self._forget(key, lent)
                raise ToolError(
                    f"the server {self._config.name!r} did not let this caller in, or is down. Do without it, or make "
                    "a call with another credential."
                )
            yield lent.server
        finally:
            lent.users -= 1
            if not lent.users:
                lent.unused_since = anyio.current_time()
                lent.changed.set()

    def _open(self, key: tuple[object, ...], caller: Caller, headers: Mapping[str, str]) -> _Lent:
        if len(self._lent) >= self._config.max_callers:
            unused = [(each.unused_since, known) for known, each in self._lent.items() if not each.users]
            if not unused:
                raise ToolError(f"the server {self._config.name!r} is busy with other callers. Try again later.")
            _, oldest = min(unused, key=lambda each: each[0])
            self._forget(oldest, self._lent[oldest])
        secrets = tuple(each.rpartition(" ")[2] for each in headers.values())
        config = replace(
            self._config,
            headers={**self._config.headers, **headers},
            listing_headers={},
            caller_headers={},
            secrets=(*self._config.secrets, *secrets),
        )
        lent = self._lent[key] = _Lent(self._make(config, caller))
        register_secrets(lent.server, config.all_secrets())
        self._tasks.start_soon(self._run, key, lent)
        return lent

    async def _run(self, key: tuple[object, ...], lent: _Lent) -> None:
        """Own a connection until nobody has used it for a while."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lent.server.run)
            while self._lent.get(key) is lent:
                lent.changed = anyio.Event()
                with anyio.move_on_at(lent.unused_since + self._idle):
                    await lent.changed.wait()
                if not lent.users and anyio.current_time() >= lent.unused_since + self._idle:
                    self._forget(key, lent)
            await lent.server.stop()

    def _forget(self, key: tuple[object, ...], lent: _Lent) -> None:
        if self._lent.get(key) is lent:
            del self._lent[key]
        lent.changed.set()


def _filled(template: str, known: Mapping[str, str]) -> str:
    """A template with its variables filled, in one pass: a value may look like a variable."""
    return re.sub("|".join(map(re.escape, known)), lambda found: known[found[0]], template)


def _token_of(caller: Caller) -> str:
    """The token of the present request, if it is this caller's; empty: it is not."""
    from mcp.server.auth.middleware.auth_context import get_access_token

    token = get_access_token()
    if token is None:
        return ""
    issuer = str((token.claims or {}).get("iss", ""))
    return token.token if caller.same_as(Caller(token.subject or token.client_id, issuer)) else ""
