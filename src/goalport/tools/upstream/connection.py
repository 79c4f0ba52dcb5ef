"""One connection to a server: opening it, its list of tools, its calls, and pings.

A lost connection is never reopened; `upstream_server`, above, opens a new one. Below are the transports, which the
connection knows only by the `Transport` protocol. All methods but `call` are used by the task that opened it.
"""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, cast

import anyio
from anyio import to_thread
from pydantic_core import to_json

from goalport import __version__
from goalport.base.errors import GoalportError
from goalport.base.words import cleaned, shortened
from goalport.tools import NotChecked, problems_in_time, schema_fault
from goalport.tools.upstream.active_calls import PREFERS_HANDLE, ActiveCalls, Call
from goalport.tools.upstream.config import ServerConfig
from goalport.tools.upstream.tool import LISTS, MOST_OF_RESULT, ToolRequest, valid_entries

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import ClientRequestContext
    from mcp_types import (
        CallToolResult,
        CreateMessageRequestParams,
        CreateMessageResult,
        ErrorData,
        Prompt,
        Resource,
        ResourceTemplate,
        Tool as Definition,
    )

_log = logging.getLogger(__name__)
MODERN: Final = "2026-07-28"
_RESUBSCRIBE: Final = 10.0
"""Seconds before an ended subscription is opened again; each new one costs a request for the lists."""
_MESSAGE_BURST: Final = 25_000
_MESSAGES_PER_SECOND: Final = 500
_PROGRESS: Final = 1_000
"""The most progress notifications of one call that are passed on in ten seconds."""
_BURST_SECONDS: Final = 10.0
_NOTE_CHARACTERS: Final = 200
_PROGRESS_CHARACTERS: Final = 500
_CHECK: Final = 1.0
"""The most CPU seconds for validating a result against the output schema of its tool."""
_MOST_PROBLEMS: Final = 3
_MOST_TOOLS: Final = 10_000
_MOST_PAGES: Final = 1_000
_MOST_OTHERS: Final = 1_000
"""The most resources of a server, and the most templates and prompts."""
_OTHERS_TIMEOUT: Final = 5.0
"""The most seconds for listing these; a server can be used without them."""


SignIn = Callable[[str], Awaitable[None]]
"""Shows a person the page at a URL, where they sign in to a server."""


class Sample(Protocol):
    """Answers a server's request for a completion by one of our models (`sampling/createMessage`)."""

    async def __call__(self, server: str, request: "CreateMessageRequestParams", /) -> "CreateMessageResult": ...


class Transport(Protocol):
    """How a server is reached: opens the two message streams of a session, and records errors."""

    error: str = ""
    """Why the last operation failed; empty: it succeeded, or the reason is not known."""
    stderr: str = ""
    """The last line of the server's stderr, only for those who run it: it may contain a secret."""
    session_expired: bool = False
    """Whether the server's last answer was that it does not know the session, as after a restart."""
    retry_after: float = 0.0
    """The seconds of the server's last `Retry-After`; 0: there was none."""
    unanswered: Collection[object] = ()
    """The ids of requests that the server left unanswered; the transport sends the session an error for each."""

    def open(self) -> AbstractAsyncContextManager[Any]: ...


class ConnectionLost(Exception):
    """The connection cannot be used any more; the message says why, if that is known."""


class NotCalled(ConnectionLost):
    """The connection was lost before the call was sent, so the tool has certainly not run."""


class SignInNeeded(GoalportError):
    """A person has to sign in to the server, and nobody can be shown the page."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"the server {server!r} wants a person to sign in: run `goalport mcp check` in a terminal, "
            "answer the question of a process that needs its tools, or set `clientId` and `clientSecret` under `oauth`"
        )


@dataclass(frozen=True, slots=True)
class Listing:
    """The lists of a server: tools, resources, templates and prompts."""

    definitions: "tuple[Definition, ...]" = ()
    """The definitions of its tools."""
    notes: tuple[str, ...] = ()
    """Sentences that say why something is missing; empty: the lists are complete."""
    resources: "tuple[Resource, ...]" = ()
    templates: "tuple[ResourceTemplate, ...]" = ()
    prompts: "tuple[Prompt, ...]" = ()
    has_resources: bool = False
    """Whether the server has the capability `resources`, even if it lists none."""

    @property
    def others(self) -> int:
        """How many resources, templates and prompts there are."""
        return len(self.resources) + len(self.templates) + len(self.prompts)


class BurstLimit:
    """Lets at most `limit` records of one kind through in ten seconds: a server could cause any number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._since = 0.0
        self._counts: Counter[object] = Counter()

    def allows(self, kind: object = None) -> bool:
        """Whether one more record of this kind is let through now."""
        if monotonic() - self._since > _BURST_SECONDS:
            self._since, self._counts = monotonic(), Counter()
        self._counts[kind] += 1
        return self._counts[kind] <= self._limit


class _MonitoredStream:
    """The stream of a session's incoming messages. It calls `lost` at its end, and drops messages not `wanted`.

    A proxy of the SDK's stream, whose other attributes give the SDK the context of each message.
    """

    def __init__(self, stream: Any, wanted: Callable[[Any], bool], lost: Callable[[], None]) -> None:
        self._stream, self._wanted, self._lost = stream, wanted, lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        found = None
        try:
            while found is None:
                item = await anext(self._stream)
                found = item if self._wanted(item) else None
            return found
        finally:
            # Unless a message was found, the stream has ended, also if the reader was cancelled.
            if found is None:
                self._lost()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)


class Connection:
    """A session with a server. `wake` is called when it breaks or a list changes, to wake the task that owns it."""

    def __init__(
        self, config: ServerConfig, transport: Transport, sample: Sample | None, wake: Callable[[], None]
    ) -> None:
        self.calls = ActiveCalls(config.name)
        self.transport = transport
        self.broken = False
        """Whether the connection is known to be unusable."""
        self.changed = False
        """Whether a list may have changed since it was read."""
        self.flood = ""
        """Why it has to end because the server sent too many messages; empty: it did not."""
        self.listing = Listing()
        """The server's last lists."""
        self._config, self._wake = config, wake
        self._sample = sample if config.sampling else None
        self._left, self._counted_at = float(_MESSAGE_BURST), monotonic()
        self._progress = BurstLimit(_PROGRESS)
        self._client: Client | None = None
        self._schema_faults: dict[str, str] = {}
        """Why an output schema is invalid, or "", by name of the tool, for tools called since the last list."""
        self._invalid: list[str] = []
        """A sentence for each invalid entry that was omitted from the lists."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Listing]:
        """Connect, in the configured revision of MCP or the newest that the server supports, and list its tools."""
        from mcp import Client
        from mcp_types import Implementation

        @asynccontextmanager
        async def streams() -> AsyncGenerator[Any]:
            async with self.transport.open() as (reading, writing):
                yield _MonitoredStream(reading, self._wants, self.mark_broken), writing

        async def on_message(message: object) -> None:
            if str(getattr(message, "method", "")).endswith("/list_changed"):
                self.mark_changed()

        client = Client(
            streams(),
            client_info=Implementation(name="goalport", version=__version__),
            elicitation_callback=self.calls.elicit,
            sampling_callback=None if self._sample is None else self._answer_sampling,
            message_handler=on_message,
            cache=None,
            mode="legacy" if "" < self._config.protocol_version < MODERN else "auto",
        )
        async with client, anyio.create_task_group() as tasks:
            self._client = client
            # The SDK's own check matches patterns of an untrusted schema with an engine that may take hours.
            client.session.validate_tool_result = self._check_result
            listing = await self._read_list(client)
            of = client.server_capabilities
            changing = any(each is not None and each.list_changed for each in (of.tools, of.resources, of.prompts))
            if client.protocol_version >= MODERN and changing:
                tasks.start_soon(self._subscribe, client)
            try:
                yield listing
            finally:
                tasks.cancel_scope.cancel()

    @property
    def protocol_version(self) -> str:
        return self._client.protocol_version if self._client else ""

    @property
    def last_error(self) -> str:
        """Why the connection ended, or its last operation failed; empty: not known."""
        return self.flood or self.transport.error

    async def call(self, name: str, arguments: Mapping[str, object], call: Call) -> "CallToolResult":
        assert self._client is not None
        report = call.hooks.progress

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            if report is not None:
                await report(progress, total, None if message is None else cleaned(message, _PROGRESS_CHARACTERS))

        told = None if report is None else progress
        return await self._client.call_tool(name, dict(arguments), progress_callback=told, meta={PREFERS_HANDLE: True})

    async def fetch(self, request: ToolRequest) -> "CallToolResult":
        """Read a resource or get a prompt, and return it as a tool result: as blocks, or as structured content."""
        from mcp_types import CallToolResult, EmbeddedResource

        assert self._client is not None
        if request.kind == "resource":
            read = await self._client.read_resource(request.own_name, cache_mode="refresh")
            return CallToolResult(content=[EmbeddedResource(type="resource", resource=each) for each in read.contents])
        arguments = {key: str(value) for key, value in request.arguments.items()}
        prompt = await self._client.get_prompt(request.own_name, arguments)
        return CallToolResult(
            content=[], structured_content=prompt.model_dump(mode="json", by_alias=True, exclude={"meta"})
        )

    async def list(self) -> Listing:
        """Read the lists again. If the server answers with an error, the last lists are returned, with a note."""
        from mcp import MCPError

        assert self._client is not None
        self.changed = False
        try:
            await self._read_list(self._client)
        except MCPError as error:
            if self.broken:
                raise
            note = f"its list of tools changed and could not be read again: {cleaned(error.message, _NOTE_CHARACTERS)}"
            self.listing = replace(self.listing, notes=(note,))
        return self.listing

    async def _read_list(self, client: "Client") -> Listing:
        """Read the lists of tools, resources, templates and prompts; a note says which, other than tools, failed."""
        from mcp import MCPError
        from mcp_types import METHOD_NOT_FOUND
        from pydantic import ValidationError

        self._invalid.clear()
        of, notes, found = client.server_capabilities, list[str](), dict[str, Any]()
        tools: Sequence[Definition] = ()
        if of.tools is not None:
            tools = await _pages(client.list_tools, "tools", _MOST_TOOLS, notes)
        seconds = min(_OTHERS_TIMEOUT, self._config.connect_timeout / 2)

        async def read(what: str, attribute: str, listing: Callable[..., Awaitable[Any]]) -> None:
            try:
                with anyio.fail_after(seconds):
                    found[what] = tuple(await _pages(listing, attribute, _MOST_OTHERS, notes))
            except (MCPError, ValidationError, TimeoutError) as error:
                # Some servers have resources, but not the method that lists templates.
                if not isinstance(error, MCPError) or error.code != METHOD_NOT_FOUND:
                    why = cleaned(str(error), _NOTE_CHARACTERS) or f"no answer within {seconds:g} s"
                    notes.append(f"its {what} could not be listed: {why}")

        # Concurrently: a list without an answer must not use up the time of the others.
        async with anyio.create_task_group() as tasks:
            if of.resources is not None:
                tasks.start_soon(read, "resources", "resources", client.list_resources)
                tasks.start_soon(read, "templates", "resource_templates", client.list_resource_templates)
            if of.prompts is not None:
                tasks.start_soon(read, "prompts", "prompts", client.list_prompts)
        self._schema_faults.clear()
        notes += self._invalid
        self.listing = Listing(tuple(tools), tuple(notes), has_resources=of.resources is not None, **found)
        return self.listing

    async def ping(self) -> None:
        """Check that the server answers: to `ping` in old revisions of MCP, to `server/discover` in newer ones."""
        from mcp import MCPError

        assert self._client is not None
        try:
            if self._client.protocol_version >= MODERN:
                await self._client.session.send_discover(self._client.protocol_version)
            else:
                await self._client.session.send_ping()
        except MCPError:
            # An error is an answer too, unless the transport made it.
            if self.broken:
                raise

    async def _check_result(self, name: str, result: "CallToolResult") -> None:
        """Raise `ValueError` if a result does not fit its tool's output schema, unless the check takes too long."""
        schema = next((each.output_schema for each in self.listing.definitions if each.name == name), None)
        content: object = result.structured_content
        if schema is None or len(to_json(content)) > MOST_OF_RESULT:
            return
        if content is None and "structured_content" not in result.model_fields_set:
            raise ValueError(f"tool {name} has an output schema, and gave no structured content")
        if name not in self._schema_faults:
            self._schema_faults[name] = await to_thread.run_sync(lambda: schema_fault(schema, formats=False))
        if fault := self._schema_faults[name]:
            raise ValueError(f"tool {name}: its output schema is no JSON Schema: {fault}")
        try:
            # In a thread: a megabyte takes seconds, which must not block the event loop.
            problems = await to_thread.run_sync(lambda: problems_in_time(schema, content, seconds=_CHECK))
        except NotChecked as error:
            _log.info("What %s of the server %r gave is not checked: %s", name, self._config.name, error)
            return
        if problems:
            words = "; ".join(shortened(problems, _MOST_PROBLEMS))
            raise ValueError(f"tool {name}: its structured content does not fit: {words}")

    def mark_broken(self) -> None:
        if not self.broken:
            self.broken = True
            self._wake()

    def mark_changed(self) -> None:
        self.changed = True
        self._wake()

    def _wants(self, item: Any) -> bool:
        """Whether a message is passed on to the session. Raises `StopAsyncIteration` if there are too many.

        The session creates a task for each notification, request and invalid message, so a server that sends them
        without end would keep a core busy for ever. Answers to our requests do not count.
        """
        message: Any = getattr(item, "message", None)
        if message is None or hasattr(message, "method"):
            now = monotonic()
            self._left = min(_MESSAGE_BURST, self._left + (now - self._counted_at) * _MESSAGES_PER_SECOND) - 1
            self._counted_at = now
        if self._left < 0:
            many = f"{_MESSAGE_BURST:,} messages of its own at once, or {_MESSAGES_PER_SECOND} a second for long"
            self.flood = f"it sent more than {many}"
            raise StopAsyncIteration
        if getattr(message, "method", "") == "notifications/progress":
            params: Any = getattr(message, "params", None) or {}
            return self._progress.allows(str(params.get("progressToken")))
        # The error code alone does not show a lost server: servers use -32000 for other errors too.
        if hasattr(message, "error") and getattr(message, "id", None) in self.transport.unanswered:
            self.mark_broken()
        found = getattr(message, "result", None)
        page = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        for key in LISTS if self._client is not None else ():
            # Remove invalid entries of a page, since the SDK would refuse the whole page.
            if isinstance(page.get(key), list):
                page[key], notes = valid_entries(page, key, self.protocol_version, _MOST_TOOLS)
                self._invalid.extend(notes)
        return True

    async def _subscribe(self, client: "Client") -> None:
        """Subscribe to changes of the lists, which newer revisions of MCP offer; reopen a subscription that ends."""
        from mcp import MCPError
        from mcp.client.subscriptions import SubscriptionLost

        while True:
            try:
                async with client.listen(
                    tools_list_changed=True, resources_list_changed=True, prompts_list_changed=True
                ) as changes:
                    # A list may have changed between reading it and subscribing.
                    self.mark_changed()
                    async for _ in changes:
                        self.mark_changed()
            except SubscriptionLost:
                pass
            except MCPError:
                # The server has no subscriptions, or is gone; a request for the lists will show which.
                self.mark_changed()
                return
            await anyio.sleep(_RESUBSCRIBE)

    async def _answer_sampling(
        self, context: "ClientRequestContext", params: "CreateMessageRequestParams"
    ) -> "CreateMessageResult | ErrorData":
        from mcp_types import INTERNAL_ERROR, ErrorData

        assert self._sample is not None
        try:
            return await self._sample(self._config.name, params)
        except GoalportError as error:
            return ErrorData(code=INTERNAL_ERROR, message=str(error))


async def _pages(listing: Callable[..., Awaitable[Any]], attribute: str, most: int, notes: list[str]) -> Sequence[Any]:
    """Read a list page by page. A list that is too long or endless is cut, with a note."""
    what = attribute.replace("_", " ")
    found: list[Any] = []
    cursors: set[str | None] = set()
    cursor: str | None = None
    while len(cursors) < _MOST_PAGES:
        cursors.add(cursor)
        page = await listing(cursor=cursor, cache_mode="refresh")
        found.extend(getattr(page, attribute))
        cursor = page.next_cursor
        if len(found) > most:
            notes.append(f"it lists more than {most:,} {what}, of which the first {most:,} are used")
            return found[:most]
        if cursor is None:
            return found
        if cursor in cursors:
            break
    notes.append(f"its list of {what} {'goes round in a circle' if cursor in cursors else 'does not end'}, and was cut")
    return found
