"""The A2A door (`site.app.Door`): its paths, the cards, and the requests, which the SDK reads and writes.

It neither listens nor mounts its routes; `site` does. The handler, and with it the SDK, is imported with the first
request, because importing it takes long. A failure for which the protocol has no error, such as a limit or a store that
cannot be reached, becomes the HTTP status, unless the response has begun. Below: `handler`.
"""

import hashlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

import anyio
from anyio import to_thread
from pydantic_core import from_json
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from goalport.base.errors import SettingsError
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.server.auth import Access, current_caller
from goalport.server.doors.a2a.notifications import KEYS, Notice, Notifications, SigningKey
from goalport.server.publish.publisher import Publisher
from goalport.server.web.endpoint import AnswerStream, Endpoint, HttpDoor, OpenStreams, Problem, call_of, root_of

if TYPE_CHECKING:
    from a2a.types import AgentCard

A2A: Final = "/a2a"
CARD: Final = "/.well-known/agent-card.json"
_AGENT: Final = f"{A2A}/agents/{{agent}}"
_MAX_AGE: Final = 60
_NO_GRPC: Final = "gRPC is not served here. Use JSONRPC or HTTP+JSON, at the addresses of the agent card."
_BUG, _NO_JSON = -32603, -32700
_CODES: Final = {
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: -32005,
    HTTPStatus.BAD_REQUEST: _NO_JSON,
    HTTPStatus.METHOD_NOT_ALLOWED: -32600,
    HTTPStatus.NOT_FOUND: -32601,
}
"""The codes of JSON-RPC for refusals over HTTP."""
Dispatch = Callable[[Request], Awaitable[Response]]


class _OpenEndpoint(Endpoint):
    """A path that needs no scope, or whose handler checks the scopes itself."""

    checked_by_handler = ("GET", "HEAD", "POST", "DELETE")


class A2aDoor:
    """Goals and chatbots as agents for other agents. Raises `SettingsError` without the SDK, or for an unusable key."""

    exposed_headers: Sequence[str] = ("Retry-After", "ETag")
    """The response headers that a web page needs as a client."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        if find_spec("a2a") is None:
            raise SettingsError("a2a = true needs a library that is not installed. Run pip install 'goalport[a2a]'.")
        self._settings = publisher.settings
        self._key = SigningKey.of(publisher.settings)
        help_text = "The agent card at {root}" + CARD + " says which interfaces there are."
        rest, rpc = (
            HttpDoor("a2a", A2A, publisher, access, refusal, help_text) for refusal in (_refused, _refused_rpc)
        )
        self._door, self._streams = rest, OpenStreams(publisher.settings)
        self._notifications = Notifications(publisher, self._key, self._notice_of)
        self._handlers: tuple[Any, Dispatch, Sequence[Route]] | None = None
        """Our handler, and the SDK's for JSON-RPC and for HTTP+JSON; None until the SDK is imported."""
        self._changed: dict[str, tuple[str, str]] = {}
        """For each agent, the ETag of its public card, and the time since which it has that ETag."""
        self.routes: Sequence[Route] = [
            Route(CARD, _OpenEndpoint(rest, CARD, GET=self._card)),
            Route(KEYS, _OpenEndpoint(rest, KEYS, GET=self._keys)),
            *(Route(f"{each}{CARD}", Endpoint(rest, f"{each}{CARD}", GET=self._card)) for each in (A2A, _AGENT)),
            *(Route(each, _OpenEndpoint(rpc, each, POST=self._rpc)) for each in (A2A, _AGENT)),
            *(
                Route(path, _OpenEndpoint(rest, path, GET=self._rest, POST=self._rest, DELETE=self._rest))
                for path in (f"{_AGENT}/{{rest:path}}", f"{A2A}/{{rest:path}}")
            ),
        ]

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        yield f"A2A: {address}{A2A} (agent card at {address}{CARD})"

    def refusal(self, status: HTTPStatus, kind: str, detail: str, /) -> Response:
        """A refusal by the site, in the format of the protocol's errors over HTTP."""
        return _refused(Problem(status, kind, detail))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """A context in which push notifications are sent."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._notifications.run)
            yield
            tasks.cancel_scope.cancel()

    def close(self) -> None:
        """Do nothing: a stream ends with its task, with the platform or with the listener."""

    def _offers(self, request: Request) -> Any:
        """What the requested address offers to the caller. Raises `Problem` for an unknown agent."""
        from goalport.server.doors.a2a.skills import Offers

        offers = Offers(self._door, str(request.path_params.get("agent", "")))
        if offers.agent and not offers.skills:
            told = f"There is no agent {offers.agent[:100]!r} here, or you may not use it."
            raise Problem(HTTPStatus.NOT_FOUND, "unknown-agent", told)
        return offers

    def _card_of(self, request: Request, offers: Any) -> "AgentCard":
        from goalport.server.doors.a2a.skills import card_of

        address = self._settings.public_url.rstrip("/") or str(request.base_url).rstrip("/")
        url = f"{address}{A2A}" + (f"/agents/{quote(offers.agent, safe='')}" if offers.agent else "")
        return card_of(offers, self._settings, url, self._key, f"{address}{KEYS}")

    async def _card(self, request: Request) -> Response:
        await self._made()
        from a2a.server.request_handlers.response_helpers import agent_card_to_dict

        call_of(request).known = True
        offers = self._offers(request)
        agent, content = offers.agent, agent_card_to_dict(self._card_of(request, offers))
        # A new signature of a card is no new content.
        unsigned = json.dumps({name: each for name, each in content.items() if name != "signatures"}, sort_keys=True)
        etag = f'W/"{hashlib.sha256(unsigned.encode()).hexdigest()[:32]}"'
        if self._changed.get(agent, ("",))[0] != etag:
            self._changed[agent] = etag, format_datetime(datetime.now(UTC), usegmt=True)
        is_of_caller = self._settings.authenticates and offers.skills
        headers = {
            "Cache-Control": f"{'private' if is_of_caller else 'public'}, max-age={_MAX_AGE}",
            "ETag": etag,
            "Last-Modified": self._changed[agent][1],
            "Vary": "Authorization, X-API-Key",
        }
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return JSONResponse(content, headers=headers)

    async def _keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [] if self._key is None else [self._key.public]})

    async def _notice_of(self, task_id: str) -> Notice | None:
        return await (await self._made())[0].notice_of(task_id)

    async def _made(self) -> tuple[Any, Dispatch, Sequence[Route]]:
        if self._handlers is None:
            self._handlers = await to_thread.run_sync(self._make)
        return self._handlers

    def _make(self) -> tuple[Any, Dispatch, Sequence[Route]]:
        from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
        from a2a.server.routes.rest_routes import create_rest_routes

        from goalport.server.doors.a2a.handler import A2aHandler

        for noisy in ("a2a.server.routes", "a2a.compat.v0_3", "a2a.utils"):
            logging.getLogger(noisy).setLevel(logging.CRITICAL)  # they log each mistake of a client, with a traceback
        handler = A2aHandler(self._door, self._streams, self._notifications, self._card_of)
        routes = create_rest_routes(handler, handler, enable_v0_3_compat=True)
        rpc = JsonRpcDispatcher(handler, handler, enable_v0_3_compat=True).handle_requests
        return handler, rpc, [each for each in routes if isinstance(each, Route)]

    async def _rpc(self, request: Request) -> Response:
        await _check_body(request)
        return await self._done(request, request, (await self._made())[1])

    async def _rest(self, request: Request) -> Response:
        if request.method == "POST" and await request.body():
            await _check_body(request)
        scope = {**request.scope, "path": f"/{request.path_params['rest']}".rstrip("/"), "root_path": ""}
        allowed: list[str] = []
        for route in (await self._made())[2]:
            match, found = route.matches(scope)
            if match is Match.FULL:
                inner = Request({**scope, **found}, request.receive)
                inner._body = await request.body()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
                return await self._done(request, inner, route.endpoint)
            allowed += sorted(route.methods or ()) if match is Match.PARTIAL else []
        if allowed:
            detail = f"Expected one of the methods {', '.join(allowed)}, but got {request.method}."
            raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, "wrong-method", detail, {"Allow": ", ".join(allowed)})
        help_text = self._door.help_text.format(root=root_of(request))
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-path", f"There is nothing here. {help_text}")

    async def _done(self, outer: Request, request: Request, dispatch: Dispatch) -> Response:
        """The response of the SDK to `request`: that is `outer`, with the path that the SDK's routes expect."""
        from goalport.server.doors.a2a.handler import WORK, RequestWork

        self._door.require(self._door.access.base)
        offers = self._offers(outer)
        async with AsyncExitStack() as place:
            work = request.scope[WORK] = RequestWork(self._door, outer, offers, call_of(outer), current_caller(), place)
            response = await dispatch(request)
            if work.failure is not None:
                raise work.failure
            if not isinstance(response, EventSourceResponse):
                body = bytes(response.body)
                if b'"code":-32603' in body and json.loads(body).get("error", {}).get("code") == _BUG:
                    # The SDK could not read it, such as a number that is too large. Our own failures were raised above.
                    response.body = body.replace(b'"code":-32603', b'"code":-32602')
                elif b'"parseError"' in body or b"is not supported by this handler" in body:
                    response = _with_reason(response, json.loads(body))
                if request.headers.get("content-type", "").startswith("application/json"):
                    response.headers["content-type"] = "application/json"  # and not application/a2a+json
                return response
            events = cast("AsyncIterator[ServerSentEvent]", cast("Any", response).body_iterator)
            return AnswerStream(events, self._settings.heartbeat_seconds, place.pop_all())
        raise AssertionError


async def _check_body(request: Request) -> None:
    """Raise `Problem` for a body that is not valid JSON in UTF-8, or whose Content-Type is not JSON.

    The SDK reports bytes that are no UTF-8, lone surrogates and deep nesting as its own bugs.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        detail = f"Expected the header Content-Type: application/json, but got {media[:100]!r}. Send JSON."
        told = _NO_GRPC if media.startswith("application/grpc") else detail
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "content-type-not-supported", told)
    try:
        from_json(await request.body())
    except ValueError as error:
        told = f"The body is not JSON in UTF-8: {error}. Correct it there."
        raise Problem(HTTPStatus.BAD_REQUEST, "invalid-argument", told) from None


def _with_reason(response: Response, content: dict[str, Any]) -> Response:
    """A response of the SDK whose error says in words what could not be read, or which header is missing."""
    match content:
        case {"error": {"message": str(told)}} if "Expected version '1.0'" in told:
            content["error"]["message"] = f"{told} Send the header A2A-Version: 1.0."
        case {"error": {"message": str(), "data": [{"metadata": {"parseError": str(why)}}, *_]}}:
            content["error"]["message"] += f": {cleaned(hide_known(why)).rstrip('.')}"
        case _:
            return response
    return JSONResponse(content, response.status_code)


def _refused(problem: Problem) -> Response:
    """A refusal in the error format of HTTP+JSON, which is that of Google's APIs."""
    kind, words = problem.kind.upper().replace("-", "_"), cleaned(hide_known(problem.detail))
    content = {"error": {"code": int(problem.status), "status": kind, "message": words}}
    return JSONResponse(content, problem.status, problem.headers)


def _refused_rpc(problem: Problem) -> Response:
    """A refusal as a JSON-RPC error."""
    code = _CODES.get(problem.status, _BUG)
    error = {"code": code, "message": cleaned(hide_known(problem.detail))}
    status = HTTPStatus.OK if code == _NO_JSON else problem.status
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, problem.headers)
