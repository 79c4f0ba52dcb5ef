"""Calling the tools of one server, whichever of its connections there is now; what goes wrong is worded for models.

`server` says which connection that is; `calls` knows what is under way on it.
"""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio

from goalport.errors import ToolError
from goalport.tools import ToolResult
from goalport.upstream.calls import Call
from goalport.upstream.cleaning import cleaned
from goalport.upstream.config import ServerConfig
from goalport.upstream.connection import Connection, ConnectionLost, NotCalled, Target
from goalport.upstream.handles import handle_of, in_names_of
from goalport.upstream.tool import ToolRequest, result_of
from goalport.upstream.wording import said_of

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["Calling"]

_QUESTION: Final = 4_000
"""Characters of a question that a person is shown."""
_ERROR: Final = 2_000
"""Characters of an error that a model reads: the words in it are the server's."""


class Calling:
    """Calls a server's tools, not more at once than it is good for."""

    def __init__(
        self,
        config: ServerConfig,
        connected: Callable[[], Awaitable[Connection]],
        target: Target,
        hide: Callable[[str], str],
    ) -> None:
        self.calls = 0
        self.failures = 0
        self.latency = 0.0
        """Seconds that the last call took."""
        self._config = config
        self._connected = connected
        self._target = target
        self._hide = hide
        self._turns = anyio.Semaphore(config.concurrency, fast_acquire=True)

    async def call(self, request: ToolRequest) -> ToolResult:
        """Call a tool. It is tried a second time only where the server went away and doing it twice does no harm.

        Raises ToolError when there is no result, in words for the model that called.
        """
        self.calls += 1
        started = monotonic()
        try:
            try:
                return await self._once(request)
            except ConnectionLost as lost:
                if not (request.repeatable or isinstance(lost, NotCalled)):
                    raise
                return await self._once(request)
        except (ConnectionLost, ToolError) as error:
            self.failures += 1
            raise ToolError(cleaned(self._hide(f"{request.shown}: {error}"), _ERROR)) from None
        finally:
            self.latency = monotonic() - started

    async def _once(self, request: ToolRequest) -> ToolResult:
        connection = await self._connected()
        seconds = self._config.timeout
        await self._turn(seconds)
        try:
            if connection.broken:
                raise NotCalled(f"the server {self._config.name!r} went away before the call.")
            with connection.calls.begin(seconds) as call:
                return await self._ask(connection, request, call)
        except TimeoutError:
            raise ToolError(
                f"the server {self._config.name!r} gave nothing within {seconds:g} s, and was told to stop. "
                "Ask for less, or do without it."
            ) from None
        finally:
            self._turns.release()

    async def _turn(self, seconds: float) -> None:
        """Wait until the server may get one more call; nearly always that is at once."""
        try:
            self._turns.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(seconds) as scope:
                await self._turns.acquire()
            if scope.cancelled_caught:
                name = self._config.name
                raise ToolError(f"the server {name!r} is busy with other calls. Try again later.") from None

    async def _ask(self, connection: Connection, request: ToolRequest, call: Call) -> ToolResult:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        server = self._config.name
        try:
            result = await connection.call(request.own_name, request.arguments, call)
            result = await self._followed(connection, result, call)
        except MCPError as error:
            if self._target.forgot_us():
                connection.lose()
                raise NotCalled(f"the server {server!r} was started anew, and knows us no more.") from error
            # The code alone says nothing: it is what the SDK says of a lost connection, and what servers say of errors.
            if error.code == CONNECTION_CLOSED and connection.broken:
                why = self._target.because() or error.message
                raise ConnectionLost(
                    f"the server {server!r} went away during the call ({why}). Whether it did what it was "
                    "asked to is not known; it is being connected again."
                ) from error
            why = "; ".join(filter(None, (error.message, self._target.because())))
            raise ToolError(f"the server {server!r} refused the call: {why}") from error
        except (RuntimeError, ValueError, OSError) as error:
            # The SDK speaks of the tool by the name that the server knows.
            said = said_of(error).replace(f"tool {request.own_name}", f"tool {request.shown}")
            raise ToolError(f"what the server {server!r} answered is no result: {said}") from error
        note = f"(The server asked a question meanwhile, which was declined: {call.unanswered}.)"
        return result_of(in_names_of(result, request.rename), note if call.unanswered else "")

    async def _followed(self, connection: Connection, result: "CallToolResult", call: Call) -> "CallToolResult":
        """The result that a handle of another goalport leads to, its questions put to whoever is asked for this call.

        Where nobody is, or a question cannot be put, the handle is the result: who called can follow it.
        """
        ask = call.hooks.ask
        while ask is not None and (handle := handle_of(result)) is not None:
            tool, arguments = handle.tool, handle.arguments
            if handle.question is not None:
                answer = None
                try:
                    with call.waiting():
                        answer = await ask(cleaned(handle.message, _QUESTION), handle.form)
                except ToolError as error:
                    call.unanswered = str(error)
                    return result
                tool, arguments = handle.answered(answer)
            call.renew()
            result = await connection.call(tool, arguments, call)
        return result
