"""How people sign in to upstream servers: before a terminal, or because a process asks them while it waits.

A process that calls a tool of a server that wants a person to sign in asks for it by a question with an address. The
browser comes back to the web server of this program where there is one, else to an address of loopback. Then the tokens
are kept, and the call is made again. Above: `servers`. Below, `oauth` knows the flows; it, and the SDK with it, is
imported when the first server needs it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from errno import EADDRINUSE
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, parse_qsl, urlsplit

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from goalport.base.errors import GoalportError, ToolError
from goalport.base.sealing import ProcessSeals
from goalport.tools.upstream.active_calls import Ask, SignInAddress
from goalport.tools.upstream.config import OAuthConfig, ServerConfig
from goalport.tools.upstream.connection import MODERN, SignIn

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.auth import AuthorizationCodeResult

Refusal = Callable[["httpx2.Request"], "httpx2.Response"]
"""The last answer of a server to a request without a token that suffices, as an answer to another request."""
_SECONDS: Final = 30.0
"""Seconds that an answer of an authorization server may take."""
_WORDS: Final = "Sign in, so that it can be called for you."
_PATH: Final = "/callback"
_FIRST_PORT, _PORTS = 20_000, 12_000
"""Where the ports of loopback lie that no system gives to outgoing connections: Linux from 32768, others from 49152."""
_REQUEST: Final = 10.0
"""Seconds in which a browser's request must have come: they also open connections on which they send nothing."""
_LONGEST: Final = 65_536
"""Bytes of a browser's request."""
_ANSWER: Final = (
    b"HTTP/1.1 %s\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"<!doctype html><title>goalport</title><p>%s</p>"
)


class PortTaken(GoalportError):
    """Another program listens on the port to which a person's browser is sent back."""

    def __init__(self, server: str, port: int) -> None:
        super().__init__(
            f"port {port} of 127.0.0.1 is taken, to which the browser comes back after signing in to {server!r}: "
            "end the program that listens there, or set `redirectPort` under `oauth`"
        )


class SignIns:
    """The tokens of servers, and the people who are signing in to them.

    Tokens are kept in `folder`. `redirect_uri` says where the web server of this program takes browsers that come back;
    empty: there is none.
    """

    def __init__(self, folder: Path, seals: ProcessSeals, redirect_uri: Callable[[], str]) -> None:
        self._redirect_uri = redirect_uri
        self._folder = folder
        self._seals = seals
        self._awaited: dict[str, asyncio.Future[Mapping[str, str]]] = {}
        """The browsers that are to come back, by the state that they bring."""
        self._running: dict[tuple[str, str], _SignIn] = {}
        """The sign-ins that are under way, by server and owner."""

    def path(self, server: str, owner: str) -> Path:
        """The file with the tokens of an owner at a server; the owner is empty for those that all callers share."""
        # A hash as well: two names may differ in what a file's name cannot have.
        safe = "".join(each if each.isalnum() or each in "-_" else "_" for each in server)[:60]
        whose = f"{server}\0{owner}" if owner else server
        return self._folder / f"{safe}-{sha256(whose.encode()).hexdigest()[: 32 if owner else 8]}.json"

    def auth(
        self, config: ServerConfig, oauth: OAuthConfig, owner: str, show: SignIn | None, redirect_uri: str = ""
    ) -> "httpx2.Auth":
        """What signs requests for an owner; `show` shows a page to the person before the screen, if there is one.

        The browser comes back to `redirect_uri`, or to loopback without one.
        """
        from goalport.tools.upstream.oauth import TokenFile, signed_requests

        # Always the same one for a server: authorization servers remember where they may send people.
        port = oauth.redirect_port or _FIRST_PORT + int.from_bytes(sha256(config.name.encode()).digest()[:4]) % _PORTS

        async def visit(url: str) -> "AuthorizationCodeResult":
            assert show is not None
            if redirect_uri:
                return await self._visit(url, show)
            async with self._loopback(config.name, port):
                return await self._visit(url, show)

        seal = self._seals.of(f"tokens of {config.name}\0{owner}")
        storage = TokenFile(self.path(config.name, owner), config.url, seal)
        back = redirect_uri or f"http://127.0.0.1:{port}{_PATH}"
        return signed_requests(config, oauth, storage, back, None if show is None else visit)

    def come_back(self, query: Mapping[str, str]) -> bool:
        """Take what a browser brings that comes back. Returns False if nobody waits for it here."""
        received = self._awaited.get(query.get("state", ""))
        if received is None or received.done():
            return False
        received.set_result(query)
        return True

    async def ask(
        self, key: tuple[str, str], ask: Ask, obtain: Callable[[SignIn], Coroutine[None, None, None]]
    ) -> None:
        """Ask a person to sign in to a server for an owner, the `key`, until they or anybody else has done it.

        `obtain` obtains the tokens with what shows the page, once for all who ask meanwhile. Raises `ToolError`.
        """
        if key not in self._running:
            self._running[key] = _SignIn(key[0], obtain)
        running = self._running[key]
        try:
            await running.join(ask)
        finally:
            if not running.joined and self._running.get(key) is running:
                del self._running[key]

    async def obtain_tokens(
        self, config: ServerConfig, oauth: OAuthConfig, owner: str, show: SignIn, refusal: "Refusal"
    ) -> None:
        """Obtain tokens for a server that refused a request. Raises `ToolError`."""
        import httpx2
        from mcp.client.auth import OAuthFlowError

        auth = self.auth(config, oauth, owner, show, self._redirect_uri())
        try:
            await _obtain_tokens(auth, config, refusal)
        except (OAuthFlowError, httpx2.HTTPError, httpx2.StreamError, ValueError) as error:
            # Without the words of the other server: a model reads this.
            reason = type(error).__name__
            raise ToolError(f"nobody could be signed in to the server {config.name!r} ({reason}).") from error
        except PortTaken as error:
            raise ToolError(str(error)) from error

    async def _visit(self, url: str, show: SignIn) -> "AuthorizationCodeResult":
        """Show a person the page where they sign in, and wait for their browser to come back."""
        from mcp.shared.auth import AuthorizationCodeResult

        (state,) = parse_qs(urlsplit(url).query)["state"]
        received: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._awaited[state] = received
        shown = asyncio.ensure_future(show(url))
        try:
            await asyncio.wait({shown, received}, return_when=asyncio.FIRST_COMPLETED)
            if not received.done():
                shown.result()
            query = await received
        finally:
            del self._awaited[state]
            shown.cancel()
            await asyncio.wait({shown})
        return AuthorizationCodeResult(code=query.get("code", ""), state=state, iss=query.get("iss"))

    @asynccontextmanager
    async def _loopback(self, server: str, port: int) -> AsyncGenerator[None]:
        """Take browsers that come back to a port of loopback. Raises `PortTaken`."""
        try:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise
            raise PortTaken(server, port) from error
        async with listener:
            serving = asyncio.ensure_future(listener.serve(self._answer))
            try:
                yield
            finally:
                serving.cancel()
                await asyncio.wait({serving})

    async def _answer(self, stream: SocketStream) -> None:
        """Take what a browser brings, and tell it that it can be closed. There is no other page."""
        with suppress(anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError, ValueError):
            async with stream:
                with anyio.move_on_after(_REQUEST):
                    request = await BufferedByteReceiveStream(stream).receive_until(b"\r\n\r\n", _LONGEST)
                    _, target, _ = request.decode("latin-1").split(" ", 2)
                    parts = urlsplit(target)
                    if parts.path == _PATH and self.come_back(dict(parse_qsl(parts.query))):
                        await stream.send(_ANSWER % (b"200 OK", b"You are signed in. This page can be closed."))
                    else:
                        await stream.send(_ANSWER % (b"404 Not Found", b"Nobody waits for this."))


class _SignIn:
    """One sign-in to a server. Several calls may join it: each asks a person of its own, and the first who goes there
    is enough.
    """

    def __init__(self, server: str, run: Callable[[SignIn], Coroutine[None, None, None]]) -> None:
        self.joined = 0
        self._server = server
        self._url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(run(self._show))

    async def join(self, ask: Ask) -> None:
        """Ask somebody, and wait until anybody has signed in. Raises `ToolError` if not."""
        self.joined += 1
        asking = asyncio.ensure_future(self._ask(ask))
        try:
            await asyncio.wait({asking, self._task}, return_when=asyncio.FIRST_COMPLETED)
            (self._task if self._task.done() else asking).result()
        finally:
            self.joined -= 1
            asking.cancel()
            if not self.joined:
                self._task.cancel()
            await asyncio.wait({asking})

    async def _show(self, url: str) -> None:
        self._url.set_result(url)
        await asyncio.Event().wait()

    async def _ask(self, ask: Ask) -> None:
        if await ask(_WORDS, SignInAddress(await asyncio.shield(self._url))) is None:
            raise ToolError(f"a person was asked to sign in to the server {self._server!r} and declined.")
        # Where somebody says that it is done, the browser is about to come back.
        await asyncio.sleep(_SECONDS)
        raise ToolError(f"a person said that they had signed in to the server {self._server!r}, and had not.")


async def _obtain_tokens(auth: "httpx2.Auth", config: ServerConfig, refusal: "Refusal") -> None:
    """Have the flow obtain tokens, as if a request had been refused; it is not sent."""
    import httpx2
    from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER

    from goalport.base.bounded_answers import bounded_client

    request = httpx2.Request("POST", config.url, headers={MCP_PROTOCOL_VERSION_HEADER: MODERN})
    flow = auth.async_auth_flow(request)
    refused = False
    with suppress(StopAsyncIteration):
        async with bounded_client(_SECONDS) as client:
            try:
                outgoing = await anext(flow)
                while not (outgoing is request and refused):
                    response = refusal(request) if outgoing is request else await client.send(outgoing)
                    refused = True
                    outgoing = await flow.asend(response)
            finally:
                await flow.aclose()
