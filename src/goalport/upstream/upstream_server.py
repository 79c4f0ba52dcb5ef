"""One upstream server: a task of its own connects it, watches the connection, and connects it again when it is lost.

Its tools are called from any task, through its `ToolClient`, over whichever connection it has. A failing server harms
nobody else: callers get a `ToolError` in words for models, and `status` says why. Above: `servers`, which starts and
stops the task.
"""

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, Protocol

import anyio
from anyio import to_thread

from goalport.errors import ToolError, leaves
from goalport.secrecy import hide
from goalport.tools import Tool, ToolResult
from goalport.upstream.config import ServerConfig
from goalport.upstream.connection import (
    Connection,
    ConnectionLost,
    Listing,
    Sample,
    SignInNeeded,
    Timing,
    Transport,
    Wakeup,
)
from goalport.upstream.status import ServerReport, ServerState, failure_reason, why_unavailable
from goalport.upstream.tool import ToolRequest, UpstreamTool, cleaned_list, reader_of, tools_of_list
from goalport.upstream.tool_client import ToolClient
from goalport.words import counted

if TYPE_CHECKING:
    from mcp_types import Tool as Definition

_log = logging.getLogger(__name__)
_NOT_COMING: Final = frozenset({ServerState.DISABLED, ServerState.SIGN_IN, ServerState.STOPPED})
"""The states in which a server is not being connected."""


class CallerConnections(Protocol):
    """The connections of callers to one server: the `CallerServers`."""

    async def call(self, request: ToolRequest, /) -> ToolResult:
        """Call a tool as the caller of the running code. Raises `ToolError`."""
        ...

    async def definitions(self) -> "Iterable[Definition]":
        """The tools that the server lists for the caller, who signs in first if need be. Raises `ToolError`."""
        ...


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
        callers: CallerConnections | None = None,
        whose: str = "",
    ) -> None:
        self.config = config
        self.name = config.name
        self.client = ToolClient(config, self._connected, transport)
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
            why = failure_reason(self.config, error, self._transport.last_error(), self._transport.stderr_tail())
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
