"""The guard before every door: who sends no valid credential gets no further.

It authenticates a request and says nothing about what its caller may do: that depends on the call, which the doors
read. Below the site, which mounts it; `verifiers` decide about tokens.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

import anyio
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.hosts import source_of
from goalport.base.observe import RareLog
from goalport.base.words import first_line
from goalport.server.auth.authentication import Authentication
from goalport.server.auth.challenges import Challenges
from goalport.server.auth.current import granted, nobody
from goalport.server.auth.verifiers import AmbiguousCredential, Grant, InvalidToken, VerifierUnavailable, token_of

_log = logging.getLogger(__name__)


REVERIFY_SECONDS: Final = 25.0
"""Seconds between two verifications: with the 30 of a verifier that asks its provider, less than a minute."""
_LISTEN: Final = (b"mcp-method", b"subscriptions/listen")
"""The header of the method whose answer is a stream, though it is a POST. The SDK compares it with the body."""
_GONE: Final[Message] = {"type": "http.disconnect"}


def is_stream(scope: Scope) -> bool:
    """Whether the answer to a request may be a stream that has no end of its own."""
    return scope["method"] == "GET" or _LISTEN in scope["headers"]


class GuardedStream:
    """The answer to one request, which `app` ends when it is told that the client is gone.

    `verify` says what the credential of the request grants now, every `seconds` and when it expires.
    """

    def __init__(self, app: ASGIApp, grant: Grant, verify: Callable[[], Awaitable[Grant]], seconds: float) -> None:
        self._app = app
        self._grant = grant
        self._verify = verify
        self._seconds = seconds
        self._receiving = set[anyio.CancelScope]()
        self._ended = self._begun = self._complete = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_until_end() -> Message:
            with anyio.CancelScope() as waiting:
                self._receiving.add(waiting)
                try:
                    return _GONE if self._ended else await receive()
                finally:
                    self._receiving.discard(waiting)
            return _GONE

        async def note(message: Message) -> None:
            self._begun = True
            self._complete = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        watcher = asyncio.create_task(self._watch())
        try:
            await self._app(scope, receive_until_end, note)
        finally:
            watcher.cancel()
        if self._ended and self._begun and not self._complete:
            await send({"type": "http.response.body", "body": b""})

    async def _watch(self) -> None:
        """Wait until the credential grants less or is no longer valid, or nobody can say, and end the stream."""
        scopes = self._grant.caller.scopes
        try:
            while scopes <= self._grant.caller.scopes:
                expires_at = self._grant.expires_at
                left = self._seconds if expires_at is None else expires_at - time.time()
                await asyncio.sleep(max(0.0, min(left, self._seconds)))
                self._grant = await self._verify()
            _log.info("Ended a stream: its credential grants less than when it was opened.")
        except (InvalidToken, VerifierUnavailable) as error:
            _log.info("Ended a stream: %s", error)
        self._ended = True
        for each in list(self._receiving):
            each.cancel()


_WELL_KNOWN: Final = ("/.well-known/", "/mcp/.well-known/", "/sse/.well-known/")
"""Where clients look for metadata before they have a token: what is not there has to be missing, and not forbidden."""


def route_path(scope: Scope) -> str:
    """The path of a request within this app, which another app may have mounted; without a slash at its end."""
    path, root = scope["path"].rstrip("/"), scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if root and f"{path}/".startswith(f"{root}/") else path


class AuthGuard:
    """ASGI middleware that lets requests with a valid credential pass, as those of its caller.

    `open_paths` are answered without one too; a credential that is sent there counts all the same. The credential of a
    stream is verified again every `stream_seconds`.
    """

    def __init__(
        self,
        app: ASGIApp,
        authentication: Authentication,
        open_paths: Collection[str],
        stream_seconds: float = REVERIFY_SECONDS,
    ) -> None:
        self._app = app
        self._authentication = authentication
        self._open_paths = frozenset(open_paths)
        self._stream_seconds = stream_seconds
        self._failed = FailedAttempts()
        self._rare_log = RareLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with nobody():
            await self._authenticate(scope, receive, send)

    async def _authenticate(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as that of the caller whom its credential stands for."""
        path = route_path(scope)
        challenges = self._authentication.challenges.at(path)
        try:
            token = token_of(scope["headers"], scope["query_string"])
            by_proxy = self._authentication.grant_by_proxy(scope, token)
        except AmbiguousCredential as error:
            await challenges.invalid_request(str(error))(scope, receive, send)
            return
        if by_proxy is not None:
            with granted(scope, by_proxy, ""):
                await self._app(scope, receive, send)
        elif token is not None:
            await self._answer(token, challenges, scope, receive, send)
        else:
            is_open = path in self._open_paths or path.startswith(_WELL_KNOWN)
            await (self._app if is_open else challenges.unauthenticated())(scope, receive, send)

    async def _answer(self, token: str, challenges: Challenges, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with a token, as far as the token is valid."""
        judged = await self._judge(token, challenges, (scope.get("client") or ("",))[0])
        if isinstance(judged, Response):
            await judged(scope, receive, send)
            return
        app = self._app
        if is_stream(scope):
            verify = partial(self._authentication.grant_of, token)
            app = GuardedStream(app, judged, verify, self._stream_seconds)
        with granted(scope, judged, token):
            await app(scope, receive, send)

    async def _judge(self, token: str, challenges: Challenges, address: str) -> Grant | Response:
        """What a token from an address grants, or the response that refuses it."""
        try:
            return await self._authentication.grant_of(token, partial(self._failed.too_many, address))
        except InvalidToken as error:
            self._tell(_log.info, "Refused a credential: %s", error)
            seconds = 0.0 if error.was_valid else self._failed.add(address)
            if not seconds:
                return challenges.invalid_token(str(error))
            text = "Too many credentials from %s are not valid: more of them are answered with status 429."
            self._rare_log.log(_log.warning, f"of {source_of(address)}", text, address)
            return challenges.too_many(str(error), math.ceil(seconds))
        except VerifierUnavailable as error:
            self._tell(_log.warning, "A caller cannot be authenticated now: %s", error)
            return challenges.unavailable("Whether the token is valid cannot be said now.", error.retry_seconds)

    def _tell(self, log: Callable[..., None], text: str, error: Exception) -> None:
        """Log why a token does not pass, each reason once in a minute: whoever sends many must not flood the log."""
        reason = first_line(str(error))
        self._rare_log.log(log, reason, text, reason)


_AT_ONCE: Final = 20
_SECONDS: Final = 0.25
"""Seconds after which an address may fail once more."""
_MOST_COUNTED: Final = 40
"""Failed attempts that count against an address; more, which were begun before, do not make it wait for longer."""
_MOST_ADDRESSES: Final = 10_000


class FailedAttempts:
    """The failed attempts of each address; of too many addresses, those that failed longest ago are forgotten.

    `clock` gives seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._forgiven_at: dict[str, float] = {}
        """When all failed attempts of an address are forgiven, one after the other."""

    def add(self, address: str) -> float:
        """Count a failed attempt; the value is after how many seconds one would not be too many, so 0 if it is not."""
        source, now = source_of(address), self._clock()
        forgiven_at = max(self._forgiven_at.pop(source, now), now) + _SECONDS
        self._forgiven_at[source] = min(forgiven_at, now + _MOST_COUNTED * _SECONDS)
        if len(self._forgiven_at) > _MOST_ADDRESSES:
            del self._forgiven_at[next(iter(self._forgiven_at))]
        return max(0.0, self._forgiven_at[source] - now - _AT_ONCE * _SECONDS)

    def too_many(self, address: str) -> bool:
        """Whether one more failed attempt of an address would be too many."""
        forgiven_at = self._forgiven_at.get(source_of(address), 0.0)
        return forgiven_at - self._clock() > (_AT_ONCE - 1) * _SECONDS
