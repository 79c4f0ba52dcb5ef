"""The connections of callers to one server that gets their credentials: one for each credential, while it is used.

No two callers share one, nor two tokens of one caller, as they may grant different things. Nothing of a credential is
kept but in the connection made for it, and it is hidden in whatever is logged meanwhile. Above: `servers`. Below, each
connection is an `UpstreamServer` of its own.
"""

import math
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup

from goalport.caller import ANONYMOUS, Caller
from goalport.errors import ToolError
from goalport.secrecy import register_secrets
from goalport.tools import ToolResult, current_call_site
from goalport.upstream.config import ServerConfig
from goalport.upstream.tool import ToolRequest
from goalport.upstream.upstream_server import UpstreamServer

if TYPE_CHECKING:
    from mcp_types import Tool as Definition

_TOKEN: Final = "${caller.token}"  # noqa: S105 - the name of a variable
_ID: Final = "${caller.id}"
_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(eq=False)
class _Lent:
    """One caller's connection, and how many calls use it now."""

    server: UpstreamServer
    users: int = 0
    unused_since: float = math.inf
    changed: anyio.Event = field(default_factory=anyio.Event)


class CallerServers:
    """Calls the tools of one server, each over the connection of the caller on whose behalf it is made.

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
