"""The guard before every door: it refuses requests without a valid credential.

It authenticates callers and does not decide what they may do: that depends on the call, which only the doors read.
Below the site, which mounts it; `verifiers` decide about tokens.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.hosts import source_of
from goalport.base.observe import RateLimitedLog
from goalport.base.words import first_line
from goalport.server.auth.access import CurrentUser, granted
from goalport.server.auth.authentication import Authentication
from goalport.server.auth.verifiers import AmbiguousCredential, Grant, InvalidToken, VerifierUnavailable, token_of

_log = logging.getLogger(__name__)
REVERIFY_SECONDS: Final = 25.0
"""Seconds between two verifications of a stream's token; with the 30 of the introspection cache, less than a minute."""
_GONE: Final[Message] = {"type": "http.disconnect"}
_LISTEN: Final = (b"mcp-method", b"subscriptions/listen")
"""The header of the MCP method whose response is a stream, though it is a POST. The SDK compares it with the body."""
_WELL_KNOWN: Final = ("/.well-known/", "/mcp/.well-known/", "/sse/.well-known/")
"""Paths where clients look for metadata before they have a token: missing pages must be answered with 404, not 401."""


_NOTHING_SENT: Final = (
    "This server needs a token or a key, in the header Authorization: Bearer TOKEN or X-API-Key: KEY."
)

_TWO_CREDENTIALS: Final = "The request has a token, and a user whom a proxy names. Send one of them."


def route_path(scope: Scope) -> str:
    """The path of a request within this app, which another app may have mounted; without a slash at its end."""
    path, root = scope["path"].rstrip("/"), scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if root and f"{path}/".startswith(f"{root}/") else path


async def answer_until(
    ending: asyncio.Event | None, app: ASGIApp, scope: Scope, receive: Receive, send: Send, kind: bytes = b""
) -> None:
    """Answer a request with `app`, which receives `http.disconnect` once the event `ending` is set, if there is one.

    With a `kind`, that happens only during a response whose content type begins with `kind`; without, at any time. If
    `app` then returns before the end of its response, the end is sent; with a `kind`, also if `app` returns by itself.
    """
    in_midst = False

    async def receive_until_end() -> Message:
        if ending is None:
            return await receive()
        hearing, waiting = asyncio.ensure_future(receive()), asyncio.create_task(ending.wait())
        try:
            await asyncio.wait((hearing, waiting), return_when=asyncio.FIRST_COMPLETED)
            return await hearing if hearing.done() or (kind and not in_midst) else _GONE
        finally:
            hearing.cancel()
            waiting.cancel()

    async def note(message: Message) -> None:
        nonlocal in_midst
        if message["type"] == "http.response.start":
            in_midst = not kind or any(value.startswith(kind) for _, value in message.get("headers", ()))
        elif not message.get("more_body"):
            in_midst = False
        await send(message)

    await app(scope, receive_until_end, note)
    if in_midst and (kind or (ending is not None and ending.is_set())):
        await send({"type": "http.response.body"})


class AuthGuard:
    """ASGI middleware that passes on requests with a valid credential, with its caller as the current one.

    `open_paths` need no credential; if one is sent, it is verified all the same. The credential of a stream is verified
    again every `stream_seconds`.
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
        self._rate_limited_log = RateLimitedLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with CurrentUser(None):  # a server starts a pipelined request within the context of the one before it
            await self._authenticate(scope, receive, send)

    async def _authenticate(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Verify the credential of a request, and answer or refuse it."""
        path = route_path(scope)
        challenges = self._authentication.challenges.at(path)
        answer, grant, token = self._app, None, None
        address = (scope.get("client") or ("",))[0]
        try:
            token = token_of(scope["headers"], scope["query_string"])
            proxies = self._authentication.proxies
            by_proxy = None if proxies is None else proxies.grant_of(scope)
            if by_proxy is not None and token is not None:
                raise AmbiguousCredential(_TWO_CREDENTIALS)  # noqa: TRY301 - as what `token_of` raises
            grant = by_proxy
            if token is not None:
                grant = await self._authentication.grant_of(token, partial(self._failed.too_many, address))
            elif grant is None and path not in self._open_paths and not path.startswith(_WELL_KNOWN):
                answer = challenges.refusal("", _NOTHING_SENT)
        except AmbiguousCredential as error:
            answer = challenges.refusal("invalid_request", str(error))
        except InvalidToken as error:
            self._tell(_log.info, "Refused a credential: %s", error)
            answer = challenges.refusal("invalid_token", str(error))
            if not error.was_valid and (seconds := self._failed.add(address)):
                text = "Too many credentials from %s are not valid: more of them are answered with status 429."
                self._rate_limited_log.log(_log.warning, f"of {source_of(address)}", text, address)
                wait = math.ceil(seconds)
                reason = f"{error} Too many credentials from your address were not valid: try again in {wait} s."
                answer = _retry_later(HTTPStatus.TOO_MANY_REQUESTS, "too_many_requests", reason, wait)
        except VerifierUnavailable as error:
            self._tell(_log.warning, "A caller cannot be authenticated now: %s", error)
            reason = "Whether the token is valid cannot be said now."
            answer = _retry_later(
                HTTPStatus.SERVICE_UNAVAILABLE, "temporarily_unavailable", reason, error.retry_seconds
            )
        if grant is None:
            await answer(scope, receive, send)
            return
        with granted(scope, grant, token or ""):
            # Only a GET and `subscriptions/listen` may be answered by a stream that does not end by itself.
            if token is None or (scope["method"] != "GET" and _LISTEN not in scope["headers"]):
                await self._app(scope, receive, send)
                return
            ended = asyncio.Event()
            watcher = asyncio.create_task(self._watch(grant, token, ended))
            try:
                await answer_until(ended, self._app, scope, receive, send)
            finally:
                watcher.cancel()

    async def _watch(self, grant: Grant, token: str, ended: asyncio.Event) -> None:
        """End the stream once its credential is invalid, grants fewer scopes, or cannot be verified."""
        scopes, seconds = grant.caller.scopes, self._stream_seconds
        try:
            while scopes <= grant.caller.scopes:
                left = seconds if grant.expires_at is None else grant.expires_at - time.time()
                await asyncio.sleep(max(0.0, min(left, seconds)))
                grant = await self._authentication.grant_of(token)
            _log.info("Ended a stream: its credential grants less than when it was opened.")
        except (InvalidToken, VerifierUnavailable) as error:
            _log.info("Ended a stream: %s", error)
        ended.set()

    def _tell(self, log: Callable[..., None], text: str, error: Exception) -> None:
        """Log why a token is refused, each reason once in a minute, so that many bad tokens do not flood the log."""
        reason = first_line(str(error))
        self._rate_limited_log.log(log, reason, text, reason)


def _retry_later(status: HTTPStatus, error: str, reason: str, seconds: int) -> Response:
    return JSONResponse({"error": error, "error_description": reason}, status, {"Retry-After": str(seconds)})


_MAX_BURST: Final = 20
_SECONDS_PER_FAILURE: Final = 0.25
"""Seconds after which an address may fail once more."""
_MOST_COUNTED: Final = 40
"""The most failed attempts that count against an address; further ones do not make it wait longer."""
_MOST_ADDRESSES: Final = 10_000


class FailedAttempts:
    """Counts the failed attempts of each address. If there are too many addresses, the oldest failures are forgotten.

    `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._clear_at: dict[str, float] = {}
        """By address: when the last of its failed attempts is forgiven; each takes `_SECONDS_PER_FAILURE`."""

    def add(self, address: str) -> float:
        """Count a failed attempt, and return the seconds until the next one is allowed; 0: at once."""
        source, now = source_of(address), self._clock()
        clear_at = max(self._clear_at.pop(source, now), now) + _SECONDS_PER_FAILURE
        self._clear_at[source] = min(clear_at, now + _MOST_COUNTED * _SECONDS_PER_FAILURE)
        if len(self._clear_at) > _MOST_ADDRESSES:
            del self._clear_at[next(iter(self._clear_at))]
        return max(0.0, self._clear_at[source] - now - _MAX_BURST * _SECONDS_PER_FAILURE)

    def too_many(self, address: str) -> bool:
        """Whether one more failed attempt of an address would be too many."""
        clear_at = self._clear_at.get(source_of(address), 0.0)
        return clear_at - self._clock() > (_MAX_BURST - 1) * _SECONDS_PER_FAILURE
