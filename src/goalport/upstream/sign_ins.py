"""How people sign in to upstream servers: before a terminal, or because a process asks them while it waits.

A process that calls a tool of a server that wants a person to sign in asks for it by a question with an address. The
browser comes back to the web server of this program where there is one, else to an address of loopback. Then the tokens
are kept, and the call is made again. Above: `servers`. Below, `oauth` knows the flows.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from pydantic import ValidationError

from goalport.bounded_answers import bounded_client
from goalport.errors import ToolError
from goalport.sealing import ProcessSeals
from goalport.upstream.active_calls import Ask, SignInAddress
from goalport.upstream.config import OAuthConfig, ServerConfig
from goalport.upstream.connection import MODERN, SignIn
from goalport.upstream.http_transport import Challenge
from goalport.upstream.loopback_page import LoopbackPage, PortTaken, until_back
from goalport.upstream.oauth import SignInPage, signed_requests
from goalport.upstream.token_file import TokenFile

__all__ = ["SignIns"]

_SECONDS: Final = 30.0
"""Seconds that an answer of an authorization server may take."""
_WORDS: Final = "Sign in, so that it can be called for you."


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

    def auth(self, config: ServerConfig, oauth: OAuthConfig, owner: str, show: SignIn | None) -> httpx2.Auth:
        """What signs requests for an owner; `show` shows a page to the person before the screen, if there is one."""
        page = LoopbackPage(config.name, oauth.redirect_port, show)
        return signed_requests(config, oauth, self._tokens(config, owner), page, attended=show is not None)

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
        self, config: ServerConfig, oauth: OAuthConfig, owner: str, show: SignIn, challenge: Challenge
    ) -> None:
        """Obtain tokens for a server that refused a request with this challenge. Raises `ToolError`."""
        page: SignInPage = LoopbackPage(config.name, oauth.redirect_port, show)
        if uri := self._redirect_uri():
            page = _WebPage(uri, self._awaited, show)
        auth = signed_requests(config, oauth, self._tokens(config, owner), page, attended=True)
        try:
            await _obtain_tokens(auth, config, challenge)
        except (OAuthFlowError, httpx2.HTTPError, httpx2.StreamError, ValidationError) as error:
            # Without the words of the other server: a model reads this.
            reason = type(error).__name__
            raise ToolError(f"nobody could be signed in to the server {config.name!r} ({reason}).") from error
        except PortTaken as error:
            raise ToolError(str(error)) from error

    def _tokens(self, config: ServerConfig, owner: str) -> TokenFile:
        seal = self._seals.of(f"tokens of {config.name}\0{owner}")
        return TokenFile(self._folder, config.name, config.url, seal, owner)


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


class _WebPage:
    """Shows a person where they sign in, and waits for their browser to come back to this program's web server."""

    def __init__(
        self, redirect_uri: str, awaited: dict[str, "asyncio.Future[Mapping[str, str]]"], show: SignIn
    ) -> None:
        self.redirect_uri = redirect_uri
        self._awaited = awaited
        self._show = show

    async def visit(self, url: str) -> AuthorizationCodeResult:
        (state,) = parse_qs(urlsplit(url).query)["state"]
        received: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._awaited[state] = received
        try:
            query = await until_back(self._show(url), received)
        finally:
            del self._awaited[state]
        return AuthorizationCodeResult(code=query.get("code", ""), state=state, iss=query.get("iss"))


async def _obtain_tokens(auth: httpx2.Auth, config: ServerConfig, challenge: Challenge) -> None:
    """Have the flow obtain tokens, as if a request had been answered with the challenge; the request is not sent."""
    request = httpx2.Request("POST", config.url, headers={MCP_PROTOCOL_VERSION_HEADER: MODERN})
    flow = auth.async_auth_flow(request)
    refused = False
    with suppress(StopAsyncIteration):
        async with bounded_client(_SECONDS) as client:
            try:
                outgoing = await anext(flow)
                while not (outgoing is request and refused):
                    if outgoing is request:
                        response = challenge.response(request)
                    else:
                        response = await client.send(outgoing)
                    refused = True
                    outgoing = await flow.asend(response)
            finally:
                await flow.aclose()
