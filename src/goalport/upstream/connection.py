"""One connection to a server while it lasts: entering it, its list of tools, its calls, its signs of life.

A connection never comes back; `server` makes a new one. All but `call` is used by the one task that opened it.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import anyio

from goalport.upstream.calls import Call, Calls
from goalport.upstream.cleaning import cleaned
from goalport.upstream.config import ServerConfig
from goalport.upstream.listing import Listing, list_tools

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import ClientRequestContext
    from mcp_types import CallToolResult, CreateMessageRequestParams, CreateMessageResult, ErrorData

__all__ = ["Bell", "Connection", "ConnectionLost", "NotCalled", "Pace", "Sample", "Target"]

MODERN: Final = "2026-07-28"
_LISTEN_AGAIN: Final = 1.0
_LISTEN_AT_LEAST: Final = 60.0
"""Seconds between two streams of news: of those that last, and of those that never do."""
_LISTENED: Final = 10.0
"""Seconds that a stream of news lasts when all is well."""
_NOTE: Final = 200
_PROGRESS: Final = 500
"""Characters of a word about progress."""


class Sample(Protocol):
    """Answers a server that wants one of our models asked."""

    async def __call__(self, server: str, request: "CreateMessageRequestParams", /) -> "CreateMessageResult": ...


class Target(Protocol):
    """How a server is reached."""

    def open(self) -> AbstractAsyncContextManager[Any]: ...
    def because(self) -> str:
        """What is known of why the last thing went wrong; empty: nothing."""
        ...

    def last_words(self) -> str:
        """What the server itself wrote last, for those who run it and nobody else: it may hold a secret."""
        ...

    def forgot_us(self) -> bool:
        """Whether the server said just now that it does not know this connection."""
        ...

    def gave_up(self, request_id: object) -> bool:
        """Whether a request got no answer from the server: what the session is told of it is the transport's word."""
        ...


class ConnectionLost(Exception):
    """The connection is of no use any more; the message says why, as far as that is known."""


class NotCalled(ConnectionLost):
    """As `ConnectionLost`, and the tool was certainly not run."""


@dataclass(frozen=True)
class Pace:
    """How patient connections are; all in seconds."""

    first_delay: float = 0.5
    """Before a server that went away is tried again; doubled with each failure, and up to a half less by chance."""
    longest_delay: float = 60.0
    steady: float = 10.0
    """A connection that lasted so long starts with the first delay again."""
    ping_every: float = 30.0
    ping_timeout: float = 10.0
    refresh_gap: float = 0.1
    """Between the news that a list has changed and asking for it, so that many changes at once are one."""
    wait_for_up: float = 5.0
    """How long a call waits for a server that is coming back."""
    close_timeout: float = 8.0
    """How long a connection may take to end in good order."""


class Bell:
    """Wakes the one task that waits for it; what rang before it waits is not lost."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Whether it rang in that time."""
        with anyio.move_on_after(seconds):
            await self._event.wait()
        rang = self._event.is_set()
        self._event = anyio.Event()
        return rang


class _Watched:
    """One of a session's two streams of messages, which says when the transport has lost the server.

    Only the transport knows that. The code of an error does not tell: servers use -32000 for errors of their own.
    """

    def __init__(self, stream: Any, lost: Callable[[], None], gave_up: Callable[[object], bool]) -> None:
        self._stream = stream
        self._lost = lost
        self._gave_up = gave_up

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> "_Watched":
        return self

    async def __anext__(self) -> Any:
        item = None
        try:
            item = await self._stream.__anext__()
        finally:
            # Whatever ends this but a message, a cancelled reader included, ends the stream.
            if item is None or self._is_given_up(item):
                self._lost()
        return item

    async def send(self, item: Any) -> None:
        try:
            await self._stream.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._lost()
            raise

    def _is_given_up(self, item: Any) -> bool:
        message: Any = getattr(item, "message", None)
        return hasattr(message, "error") and self._gave_up(message.id)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)


class Connection:
    """A server that answers."""

    def __init__(self, config: ServerConfig, target: Target, bell: Bell, sample: Sample | None) -> None:
        self.calls = Calls(config.name, cleaned)
        self.broken = False
        """Whether it is known to be of no use any more."""
        self.changed = False
        """Whether the list of tools may not be what it was."""
        self._config = config
        self._target = target
        self._bell = bell
        self._sample = sample if config.sampling else None
        self._client: Client | None = None
        self._listing = Listing()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Listing]:
        """Connect, in whichever revision of the protocol the server speaks, and list its tools."""
        from mcp import Client

        client = Client(
            self._streams(),
            client_info=_ourselves(),
            elicitation_callback=self.calls.elicit,
            sampling_callback=None if self._sample is None else self._answer_sampling,
            message_handler=self._hear,
            cache=None,
        )
        async with client, anyio.create_task_group() as tasks:
            self._client = client
            self._listing = listing = await list_tools(client)
            capability = client.server_capabilities.tools
            if client.protocol_version >= MODERN and capability is not None and capability.list_changed:
                tasks.start_soon(self._listen, client)
            try:
                yield listing
            finally:
                tasks.cancel_scope.cancel()

    @property
    def protocol_version(self) -> str:
        return self._client.protocol_version if self._client else ""

    async def call(self, name: str, arguments: Mapping[str, object], call: Call) -> "CallToolResult":
        assert self._client is not None
        hear = call.hooks.progress

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            if hear is not None:
                await hear(progress, total, None if message is None else cleaned(message, _PROGRESS))

        return await self._client.call_tool(name, dict(arguments), progress_callback=None if hear is None else progress)

    async def list(self) -> Listing:
        """The tools as they are listed now; those of before, where the server answers with an error."""
        from mcp import MCPError

        assert self._client is not None
        self.changed = False
        try:
            self._listing = await list_tools(self._client)
        except MCPError as error:
            if self.broken:
                raise
            note = f"its list of tools changed and could not be read again: {cleaned(error.message, _NOTE)}"
            self._listing = Listing(self._listing.definitions, note)
        return self._listing

    async def ping(self) -> None:
        """Make sure that somebody is there: the old revisions have a ping, the newer ones are asked who they are."""
        from mcp import MCPError

        assert self._client is not None
        try:
            if self._client.protocol_version >= MODERN:
                await self._client.session.send_discover(self._client.protocol_version)
            else:
                await self._client.session.send_ping()
        except MCPError:
            # An answer like any other, unless it is the transport's.
            if self.broken:
                raise

    def lose(self) -> None:
        """The connection turned out to be of no use."""
        if not self.broken:
            self.broken = True
            self._bell.ring()

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Any]:
        target = self._target
        async with target.open() as (reading, writing):
            yield _Watched(reading, self.lose, target.gave_up), _Watched(writing, self.lose, target.gave_up)

    async def _hear(self, message: object) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._change()

    def _change(self) -> None:
        self.changed = True
        self._bell.ring()

    async def _listen(self, client: "Client") -> None:
        """Hear of changes as the newer revisions tell them; a stream that ends is opened again."""
        from mcp import MCPError
        from mcp.client.subscriptions import SubscriptionLost

        pause = _LISTEN_AGAIN
        while True:
            began = anyio.current_time()
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    # Nobody told of what changed between the listing and now.
                    self._change()
                    async for _ in changes:
                        self._change()
            except SubscriptionLost:
                pass
            except MCPError:
                # It does not do that, or it is gone; asking for the list tells which.
                self._change()
                return
            # Each new stream costs a list: of one that never lasts, less and less often.
            lasted = anyio.current_time() - began > _LISTENED
            pause = _LISTEN_AGAIN if lasted else min(2 * pause, _LISTEN_AT_LEAST)
            await anyio.sleep(pause)

    async def _answer_sampling(
        self, context: "ClientRequestContext", params: "CreateMessageRequestParams"
    ) -> "CreateMessageResult | ErrorData":
        from mcp_types import INTERNAL_ERROR, ErrorData

        from goalport.errors import GoalportError

        assert self._sample is not None
        try:
            return await self._sample(self._config.name, params)
        except GoalportError as error:
            return ErrorData(code=INTERNAL_ERROR, message=str(error))


def _ourselves() -> Any:
    from mcp_types import Implementation

    from goalport import __version__

    return Implementation(name="goalport", version=__version__)
