"""One path of a door over HTTP: it finds the handler of a method, and answers every failure in the door's format.

A refusal is data, a `Problem`. Each door has a format for it; problem details (RFC 9457) are the usual one.

A request that starts or answers something needs a place among the requests that are answered at the same time. A stream
reads the next event only when the client has received the one before it, so a slow client has no queue here; its
heartbeat keeps proxies from closing an idle stream. Only this module of the room catches every exception: a bug becomes
a response with status 500 and a line of the log. Above: the handlers.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

import anyio
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, HandedOver, StoreError, Unreadable
from goalport.base.observe.spans import note_response, request_span
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, corrections, validation_problems
from goalport.server.auth import Access, current_caller
from goalport.server.publish.calls import Call, logged, unavailable_words
from goalport.server.publish.limits import LimitReached, Limits
from goalport.server.publish.publication import Scopes
from goalport.server.publish.publisher import Publisher
from goalport.workspace.settings import Settings

MEDIA_TYPE: Final = "application/problem+json"
_RETRY_SECONDS: Final = 5


class Problem(Exception):
    """The refusal of a request: the status, the end of the problem's `type`, and a sentence that says what to do."""

    def __init__(
        self, status: HTTPStatus, kind: str, detail: str, headers: Mapping[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers = status, kind, detail, headers
        self.members: Mapping[str, Any] = members
        """Further members of the problem details."""

    def response(self) -> JSONResponse:
        """The refusal as problem details."""
        return problem(self.status, self.kind, self.detail, self.headers, **self.members)


def problem(
    status: HTTPStatus, kind: str, detail: str, headers: Mapping[str, str] | None = None, **members: Any
) -> JSONResponse:
    """A response with problem details (RFC 9457); `kind` is the end of their `type`, which programs compare."""
    content = {
        "type": f"urn:goalport:problem:{kind}",
        "title": status.phrase,
        "status": int(status),
        "detail": cleaned(hide_known(detail)),
        **members,
    }
    return JSONResponse(content, status, headers, media_type=MEDIA_TYPE)


def invalid(problems: Iterable[str], detail: str, *, within: str = "") -> Problem:
    """The refusal of values; each problem is a line that begins with the field, `within` is the field around them."""
    errors: list[dict[str, str]] = []
    for line in problems:
        field, colon, reason = line.partition(": ")
        if not colon or "; came " in field:  # a line about the whole, which may end with the value that came
            field, reason = "", line
        errors.append({"field": ".".join(filter(None, (within, field))), "detail": cleaned(hide_known(reason))})
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-value", detail, errors=errors)


def unavailable(detail: str, status: HTTPStatus = HTTPStatus.SERVICE_UNAVAILABLE) -> Problem:
    """The refusal of a request that may succeed a little later."""
    return Problem(status, "unavailable", detail, {"Retry-After": str(_RETRY_SECONDS)})


T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Handler = Callable[[Request], Awaitable[Response]]
_CALL: Final = "goalport.call"
_STATUSES: Final[Mapping[int, str]] = {
    HTTPStatus.INTERNAL_SERVER_ERROR: "error",
    HTTPStatus.SERVICE_UNAVAILABLE: "unavailable",
}
"""The status of a call by the status of its response; all other errors are `refused`."""
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class OpenStreams:
    """How many streams are open, in all and of each caller."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.max_event_streams
        self._most_of_one = settings.max_event_streams_per_caller or max(1, self._most * 3 // 4)
        self._of: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def one_of(self, caller: Caller) -> Generator[None]:
        """Counts a stream of a caller for as long as the block lasts. Raises `Problem` if too many are open."""
        who = caller.identity
        if self._of[who] >= self._most_of_one:
            detail = f"You have {self._most_of_one} streams of events open, as many as you may. Close one first."
            raise unavailable(detail, HTTPStatus.TOO_MANY_REQUESTS)
        if self._of.total() >= self._most:
            raise unavailable(f"{self._most} streams of events are open, as many as may be. Try again later.")
        self._of[who] += 1
        try:
            yield
        finally:
            self._of[who] -= 1
            if not self._of[who]:
                del self._of[who]


class EventStream(EventSourceResponse):
    """A response of server-sent events, with a comment every `beat` seconds; `place` is closed at its end."""

    def __init__(
        self,
        events: AsyncIterator[ServerSentEvent],
        beat: float,
        place: AsyncExitStack,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        heartbeat = partial(ServerSentEvent, comment="still here", sep="\n")
        super().__init__(events, headers=headers, ping=beat, ping_message_factory=heartbeat, sep="\n")  # pyright: ignore[reportUnknownMemberType]
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._place:
            await super().__call__(scope, receive, send)


class AnswerStream(EventStream):
    """A stream that is the answer to a call: the call is open until it has been sent, and a shutdown waits for it."""


@asynccontextmanager
async def admitted(limits: Limits, request: Request, *, begins: bool) -> AsyncGenerator[None]:
    """A context in which a request has its place, for which it may wait; its body has to be read before.

    `begins`: it starts something, and does not only continue it. Raises `LimitReached`, `StoreError`, and
    `ClientDisconnect` if the client disconnects while the request waits.
    """
    place = await limits.admit(current_caller(), begins=begins)
    try:
        if not place.held:
            await while_client_stays(request, place.wait())
        yield
    finally:
        place.leave()


async def while_client_stays(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled if the client disconnects; the request's body has to be read before.

    Raises `ClientDisconnect`.
    """
    working, leaving = asyncio.create_task(work), asyncio.create_task(client_disconnected(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        leaving.cancel()
        if working.cancel():
            with anyio.CancelScope(shield=True):
                await asyncio.wait((working,))


async def client_disconnected(request: Request) -> None:
    """Wait until the client of a request has disconnected. Its body has to be read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@dataclass(frozen=True, slots=True)
class HttpDoor:
    """What the endpoints of one door share."""

    name: str
    """Its name in the log, the metrics and the audit log."""
    path: str
    """The prefix of its paths."""
    publisher: Publisher
    access: Access
    refusal: Callable[[Problem], Response] = Problem.response
    """Makes the response of a refusal."""
    help_text: str = "{root}/openapi.json describes every path of this server."
    """A sentence that says which paths there are; `{root}` is the path under which the server is mounted."""

    def require(self, needed: Scopes) -> None:
        """Raise `Problem` (403, with a challenge) if the caller lacks any of these scopes."""
        access = self.access
        if access.challenges is not None and access.lacks(needed):
            words = access.refusal(needed)
            headers = access.challenges.at(self.path).for_scopes(needed, words)
            raise Problem(HTTPStatus.FORBIDDEN, "insufficient-scope", words, headers, scopes=sorted(needed))

    def route(self, path: str, /, **handlers: Handler) -> Route:
        """A route with a handler for each method, all of which need the base scope."""
        return Route(path, Endpoint(self, path, **handlers))

    def start_route(self, path: str, /, **handlers: Handler) -> Route:
        """A route where POST starts something that the body names; its handler checks the scopes for that."""
        endpoint = Endpoint(self, path, **handlers)
        endpoint.checked_by_handler = ("POST",)
        return Route(path, endpoint)


class Endpoint:
    """An ASGI app that answers the requests for one path, whatever their method is.

    Each request needs the base scope, unless its method is in `checked_by_handler`.
    """

    checked_by_handler: Collection[str] = ()

    def __init__(self, door: HttpDoor, path: str, **handlers: Handler) -> None:
        self._door, self._path, self._handlers = door, path, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, door = Request(scope, receive), self._door
        try:
            with (
                request_span(request.method, self._path) as span,
                door.publisher.calls.of(door.name, f"{request.method} {self._path}", current_caller()) as call,
            ):
                scope[_CALL] = call
                call.known = request.method in self._handlers
                call.level = logging.DEBUG if request.method in _READING else logging.INFO
                try:
                    response = await self._handled(request)
                except Problem as refusal:
                    response = door.refusal(refusal)
                note_response(span, response.status_code)
                # The status of a process that has ended says more than that of the response.
                ended = call.process is not None and call.process.status.ended
                if response.status_code >= HTTPStatus.BAD_REQUEST and not ended:
                    call.status = _STATUSES.get(response.status_code, "refused")
                if isinstance(response, AnswerStream):
                    await response(scope, request.receive, send)
                    return
        except ClientDisconnect:
            return
        await response(scope, request.receive, send)

    async def _handled(self, request: Request) -> Response:
        method, handlers = request.method, self._handlers
        handler = handlers.get("GET" if method == "HEAD" else method)
        try:
            if handler is not None:
                if method not in self.checked_by_handler:
                    self._door.require(self._door.access.base)
                return await handler(request)
        except BadInput as error:
            raise invalid(error.problems, str(error)) from None
        except LimitReached as error:
            after = {"Retry-After": str(error.retry_seconds)}
            status = HTTPStatus.TOO_MANY_REQUESTS
            raise Problem(status, "limit-reached", str(error), after, limit=error.kind) from None
        except (HandedOver, StoreError, Unreadable) as error:
            raise unavailable(unavailable_words(error)) from None
        except ClientDisconnect:
            call_of(request).status = "cancelled"
            raise
        except Problem:
            raise
        except Exception as bug:
            what, tells = f"{method} {request.url.path}", self._door.publisher.settings.show_errors
            words = logged(what, bug, tells_errors=tells)
            raise Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "bug", words) from None
        if not handlers:
            detail = f"There is nothing here. {self._door.help_text.format(root=root_of(request))}"
            raise Problem(HTTPStatus.NOT_FOUND, "unknown-path", detail)
        allowed = ", ".join([*handlers, *(["HEAD"] if "GET" in handlers else []), "OPTIONS"])
        if method == "OPTIONS":
            return Response(status_code=HTTPStatus.NO_CONTENT, headers={"Allow": allowed})
        detail = f"Expected one of the methods {allowed}, but got {method}."
        raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, "wrong-method", detail, {"Allow": allowed})


def call_of(request: Request) -> Call:
    """The `Call` of a request, for handlers to add what is logged of it."""
    return request.scope[_CALL]


async def body_of(request: Request) -> Mapping[str, Any]:
    """The JSON object in the body of a request. Raises `Problem`: 415, 400 if it is no JSON, 422 if it is no object."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        came = repr(media[:100]) if media else "none"
        detail = f"Expected the header Content-Type: application/json, but got {came}. Send JSON."
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "no-json", detail)
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        detail = f"Expected a body as it is, but got the header Content-Encoding: {encoding[:100]!r}. Send plain JSON."
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "encoded", detail)
    try:
        value = from_json(await request.body(), allow_inf_nan=False)
    except ValueError as error:
        detail = f"The body is not JSON in UTF-8: {error}. Correct it there."
        raise Problem(HTTPStatus.BAD_REQUEST, "no-json", detail) from None
    if not isinstance(value, dict):
        raise invalid(["should be a JSON object"], "Expected a JSON object as the body. /openapi.json describes it.")
    return cast("dict[str, Any]", value)


def root_of(request: Request) -> str:
    """The path under which another app, or a proxy, has mounted the server; usually empty."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def read(kind: type[M], value: Mapping[str, Any]) -> M:
    """The parameters of a request. Raises `Problem` with an entry for each field that is wrong."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        known = [each.alias or name for name, each in kind.model_fields.items()]
        problems = validation_problems(error, value, known)
        raise invalid(problems, corrections(problems)) from None
