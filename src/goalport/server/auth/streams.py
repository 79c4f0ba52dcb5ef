"""Streams end when their credential does, or when it loses a scope: an open one is verified again every now and then.

A call that runs is not such a stream: it ends with its answer, though its token expires before. Below `guard`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.server.auth.verifiers import Grant, InvalidToken, VerifierUnavailable

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
