"""The guard before every door: who sends no valid credential gets no further.

It authenticates a request and says nothing about what its caller may do: that depends on the call, which the doors
read. Below the site, which mounts it; `verifiers` decide about tokens.
"""

import logging
from collections.abc import Collection

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from goalport.auth.authentication import Authentication
from goalport.auth.credentials import AmbiguousCredential, token_of
from goalport.auth.current import granted
from goalport.auth.verifiers import Grant, InvalidToken, VerifierUnavailable
from goalport.words import first_line

__all__ = ["AuthGuard"]

_log = logging.getLogger(__name__)


class AuthGuard:
    """ASGI middleware that lets requests with a valid credential pass, as those of its caller.

    `open_paths` are answered without one too; a credential that is sent there counts all the same.
    """

    def __init__(self, app: ASGIApp, authentication: Authentication, open_paths: Collection[str]) -> None:
        self._app = app
        self._authentication = authentication
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        challenges = self._authentication.challenges
        try:
            token = token_of(scope["headers"], scope["query_string"])
        except AmbiguousCredential as error:
            await challenges.invalid_request(str(error))(scope, receive, send)
            return
        if token is None:
            await (self._app if self._is_open(scope) else challenges.unauthenticated())(scope, receive, send)
            return
        judged = await self._judge(token)
        if isinstance(judged, Response):
            await judged(scope, receive, send)
            return
        with granted(scope, judged, token):
            await self._app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        return scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/") in self._open_paths

    async def _judge(self, token: str) -> Grant | Response:
        """What a token grants, or the response that refuses it."""
        challenges = self._authentication.challenges
        try:
            return await self._authentication.grant_of(token)
        except InvalidToken as error:
            _log.info("Refused a token: %s", first_line(str(error)))
            return challenges.invalid_token(str(error))
        except VerifierUnavailable as error:
            _log.warning("A caller cannot be authenticated now: %s", first_line(str(error)))
            return challenges.unavailable("Whether the token is valid cannot be said now.", error.retry_seconds)
