"""The requests of the A2A door: each is read and written by the SDK, and done by `handler`. Cards are served here too.

A failure that is no error of the protocol, such as a limit or a store that is away, becomes the status of the response
if the response has not begun. Above: the door.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any, Final, cast

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.server.routes.rest_routes import create_rest_routes
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from goalport.server.auth import current_caller
from goalport.server.doors.a2a.cards import card_of, etag_of, written
from goalport.server.doors.a2a.handler import A2aHandler
from goalport.server.doors.a2a.messages import Offers
from goalport.server.doors.a2a.received import Work
from goalport.server.doors.a2a.signing import CardKey
from goalport.server.web.endpoint import AnswerStream, HttpDoor, OpenStreams, call_of, root_of
from goalport.server.web.problems import Problem

_WORK: Final = "goalport.a2a"
_MAX_AGE: Final = 60
_NO_GRPC: Final = "gRPC is not served here. Use JSONRPC or HTTP+JSON, at the addresses of the agent card."
for _noisy in ("a2a.server.routes", "a2a.compat.v0_3", "a2a.utils"):
    logging.getLogger(_noisy).setLevel(logging.CRITICAL)  # they log each mistake of a client, with a traceback
Dispatch = Callable[[Request], Awaitable[Response]]


class A2aRequests:
    """The handlers of requests."""

    def __init__(self, door: HttpDoor, streams: OpenStreams, key: CardKey | None) -> None:
        self._door, self._key, self._settings = door, key, door.publisher.settings
        handler, contexts = A2aHandler(door, streams, self._card_of), _Contexts()
        self._dispatch_rpc = JsonRpcDispatcher(handler, contexts, enable_v0_3_compat=True).handle_requests
        routes = create_rest_routes(handler, contexts, enable_v0_3_compat=True)
        self._routes = [each for each in routes if isinstance(each, Route)]
        self._changed: dict[str, tuple[str, str]] = {}
        """For each address, the ETag of its public card, and since when it is so."""

    def _card_of(self, request: Request, agent: str) -> Any:
        address = self._settings.public_url.rstrip("/") or f"{str(request.base_url).rstrip('/')}"
        return card_of(Offers(self._door, agent), self._settings, address, self._key)

    async def card(self, request: Request) -> Response:
        """The card of the server, or of an agent."""
        call_of(request).known = True
        agent = str(request.path_params.get("agent", ""))
        self._known(agent)
        content = written(self._card_of(request, agent))
        etag = etag_of(content)
        if self._changed.get(agent, ("",))[0] != etag:
            self._changed[agent] = etag, format_datetime(datetime.now(UTC), usegmt=True)
        shared = "private" if self._settings.authenticates and agent else "public"
        headers = {
            "Cache-Control": f"{shared}, max-age={_MAX_AGE}",
            "ETag": etag,
            "Last-Modified": self._changed[agent][1],
            "Vary": "Authorization, X-API-Key",
        }
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return JSONResponse(content, headers=headers)

    async def rpc(self, request: Request) -> Response:
        """A request by JSON-RPC."""
        _check_media(request)
        return await self._dispatched(request, request, self._dispatch_rpc)

    async def rest(self, request: Request) -> Response:
        """A request by HTTP+JSON."""
        if request.method == "POST" and await request.body():
            _check_media(request)
        scope = {**request.scope, "path": f"/{request.path_params['rest']}".rstrip("/"), "root_path": ""}
        allowed: list[str] = []
        for route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                inner = Request({**scope, **found}, request.receive)
                inner._body = await request.body()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
                return await self._dispatched(request, inner, route.endpoint)
            allowed += sorted(route.methods or ()) if match is Match.PARTIAL else []
        if allowed:
            detail = f"Expected one of the methods {', '.join(allowed)}, but got {request.method}."
            raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, "wrong-method", detail, {"Allow": ", ".join(allowed)})
        here = self._door.here.format(root=root_of(request))
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-path", f"There is nothing here. {here}")

    def _known(self, agent: str) -> None:
        """Raises `Problem` for an agent that there is not, or with which the caller may do nothing."""
        if agent and not Offers(self._door, agent).skills:
            told = f"There is no agent {agent[:100]!r} here, or you may not use it."
            raise Problem(HTTPStatus.NOT_FOUND, "unknown-agent", told)

    async def _dispatched(self, outer: Request, request: Request, dispatch: Dispatch) -> Response:
        agent = str(outer.path_params.get("agent", ""))
        self._door.require(self._door.access.base)
        self._known(agent)
        async with AsyncExitStack() as place:
            work = Work(outer, agent, call_of(outer), current_caller(), place)
            request.scope[_WORK] = work
            response = await dispatch(request)
            if work.failure is not None:
                raise work.failure
            if not isinstance(response, EventSourceResponse):
                if request.headers.get("content-type", "").startswith("application/json"):
                    response.headers["content-type"] = "application/json"  # and not application/a2a+json
                return response
            beat = self._settings.heartbeat_seconds
            events = cast("AsyncIterator[ServerSentEvent]", cast("Any", response).body_iterator)
            return AnswerStream(events, beat, place.pop_all())
        raise AssertionError


class _Contexts(ServerCallContextBuilder):
    """Hands the request on to the handler."""

    def build(self, request: Request) -> ServerCallContext:
        work: Work = request.scope[_WORK]
        return ServerCallContext(state={"headers": dict(request.headers), "work": work})


def _check_media(request: Request) -> None:
    """Raises `Problem` for a body that does not say that it is JSON."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == "application/json" or media.endswith("+json"):
        return
    detail = f"Expected the header Content-Type: application/json, but got {media[:100]!r}. Send JSON."
    told = _NO_GRPC if media.startswith("application/grpc") else detail
    raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "content-type-not-supported", told)
