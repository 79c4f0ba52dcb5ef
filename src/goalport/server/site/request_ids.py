"""The id of a request: that of the proxy before the server, or a new one; in the answer, and in all lines of the log.

It is the outermost middleware, so that refusals have one too. What is done for the request is also a part of the trace
that its headers name; the trace in `_meta` of an MCP message goes before that, see `serve.server`.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.observe import REQUEST_ID
from goalport.base.observe.spans import in_trace_of
from goalport.server.publish.calls import new_request_id

REQUEST_ID_HEADER: Final = "X-Request-Id"
_HEADER: Final = REQUEST_ID_HEADER.lower().encode()
_VALID: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
"""What is taken of others: ids as proxies and trace systems make them, which need no escaping anywhere."""


class RequestIds:
    """ASGI middleware that gives each request an id. One that comes twice, or has odd characters, is not taken."""

    def __init__(self, app: ASGIApp, on_response: Callable[[Scope, int], None]) -> None:
        """`on_response` is called with each request that is answered, and the status of its response."""
        self._app = app
        self._on_response = on_response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == _HEADER]
        valid = len(given) == 1 and _VALID.fullmatch(given[0])
        identity = given[0].decode() if valid else new_request_id()
        header = _HEADER, identity.encode()

        def with_id(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                self._on_response(scope, message["status"])
                message = {**message, "headers": [*message.get("headers", ()), header]}
            return send(message)

        token = REQUEST_ID.set(identity)
        try:
            with in_trace_of(scope["headers"]):
                await self._app(scope, receive, with_id)
        finally:
            REQUEST_ID.reset(token)
