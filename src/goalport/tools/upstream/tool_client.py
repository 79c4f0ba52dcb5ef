"""Calls of one server's tools: who waits for a turn, what is called a second time, and when a person has to sign in.

Above: `upstream_server`, which owns the connection that calls go over.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

import anyio

from goalport.base.errors import ToolError
from goalport.base.secrecy import hide
from goalport.base.words import cleaned
from goalport.tools import ToolResult
from goalport.tools.upstream.active_calls import MOST_ASKED, Ask, Call, current_hooks
from goalport.tools.upstream.config import ServerConfig
from goalport.tools.upstream.connection import MODERN, Connection, ConnectionLost, NotCalled, SignInNeeded
from goalport.tools.upstream.remote_process import remote_process, with_renamed_tools
from goalport.tools.upstream.status import error_text
from goalport.tools.upstream.tool import ToolRequest, result_of

if TYPE_CHECKING:
    from mcp_types import CallToolResult

T = TypeVar("T")
_NO_BACK_CHANNEL: Final = re.compile(
    "server-initiated requests|cannot be sent while serving a request|server.to.client requests are not", re.IGNORECASE
)
"""What the SDKs and FastMCP say if a tool asks the client during a call, as the newest revision does not let it."""
_MOST_OF_ERROR: Final = 2_000
"""Characters of an error that a model reads: the words in it are the server's."""


class ToolClient:
    """Calls the tools of one server, at most `ServerConfig.concurrency` at once, besides those that wait for a person.

    `connected` waits for the connection and raises `ToolError` where there is none. A server may be another goalport,
    which answers a long or waiting call with the process that it began; the client follows the process to its result.
    """

    def __init__(
        self,
        config: ServerConfig,
        connected: Callable[[], Awaitable[Connection]],
    ) -> None:
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
        self.calls += 1
        try:
            return await self._with_sign_in(partial(self._twice, request))
        except (ConnectionLost, SignInNeeded, ToolError) as error:
            self.failures += 1
            raise ToolError(cleaned(hide(f"{request.shown}: {error}"), _MOST_OF_ERROR)) from None

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

    async def _twice(self, request: ToolRequest) -> ToolResult:
        try:
            return await self._once(request)
        except ConnectionLost as lost:
            if not (request.repeatable or isinstance(lost, NotCalled)):
                raise
            return await self._once(request)

    async def _once(self, request: ToolRequest) -> ToolResult:
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
                result = await self._followed(connection, result, call)
            else:
                result = await connection.fetch(request)
        except MCPError as error:
            if call.sign_in_needed:
                connection.mark_broken()
                raise SignInNeeded(server) from error
            if connection.transport.session_expired():
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
        renamed = with_renamed_tools(result, request.rename, connection.tool_names)
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

    async def _followed(self, connection: Connection, result: "CallToolResult", call: Call) -> "CallToolResult":
        """The result of a process on another goalport; its questions are put to the person behind the call.

        Where there is nobody to ask, the answer that names the process is the result: the caller can follow it.
        """
        ask = call.hooks.ask if call.hooks.lasting else None
        while ask is not None and (process := remote_process(result)) is not None:
            tool, arguments = process.tool, process.arguments
            if process.question is not None:
                answer = None
                try:
                    with call.waiting():
                        given = await ask(cleaned(process.message, MOST_ASKED), process.form)
                        answer = cast("Mapping[str, object] | None", given)
                except ToolError as error:
                    call.unanswered = str(error)
                    return result
                tool, arguments = process.answered(answer)
            call.renew()
            result = await connection.call(tool, arguments, call)
        return result
