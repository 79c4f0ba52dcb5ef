"""One path of a door over HTTP: it finds the handler of a method, and answers every failure as the door words it.

Only this module of the room catches every exception: a bug becomes a response with status 500 and a line of the log.
The handlers are above.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from goalport.base.errors import BadInput, HandedOver, StoreError, Unreadable
from goalport.base.observe.spans import note_response, request_span
from goalport.base.words import corrections, validation_problems
from goalport.server.auth import Access, current_caller
from goalport.server.publish.calls import Call
from goalport.server.publish.faults import logged, unavailable_words
from goalport.server.publish.limits import LimitReached
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.scopes import Scopes
from goalport.server.web.event_streams import AnswerStream
from goalport.server.web.problems import Problem, invalid, limit_reached, mistakes, unavailable

_CALL: Final = "goalport.call"
_STATUSES: Final[Mapping[int, str]] = {
    HTTPStatus.INTERNAL_SERVER_ERROR: "error",
    HTTPStatus.SERVICE_UNAVAILABLE: "unavailable",
}
"""How calls end by the status of their response, where that is no refusal."""
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
T = TypeVar("T", bound=BaseModel)
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class HttpDoor:
    """What the endpoints of one door share."""

    name: str
    """In the log, the metrics and the audit log."""
    path: str
    """Below which its paths are."""
    publisher: Publisher
    access: Access
    refusal: Callable[[Problem], Response] = Problem.response
    """How a refusal looks."""
    here: str = "{root}/openapi.json describes every path of this server."
    """A sentence that says which paths there are; `{root}` is the path under which the server is mounted."""

    def require(self, needed: Scopes) -> None:
        """Raise `Problem` (403, with a challenge) if the caller lacks any of these scopes."""
        access = self.access
        if access.challenges is not None and access.lacks(needed):
            words = access.refusal(needed)
            headers = access.challenges.at(self.path).for_scopes(needed, words)
            raise Problem(HTTPStatus.FORBIDDEN, "insufficient-scope", words, headers, scopes=sorted(needed))


class Endpoint:
    """An ASGI app that answers the requests for one path, as routes have it, whatever their method is.

    Each needs the base scope, except those whose methods are `checked_by_handler`.
    """

    checked_by_handler: Collection[str] = ()

    def __init__(self, door: HttpDoor, path: str, **handlers: Handler) -> None:
        self._door = door
        self._path = path
        self._handlers = handlers

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
                response = await self._answer(request)
                note_response(span, response.status_code)
                if response.status_code >= HTTPStatus.BAD_REQUEST and not _ended(call):
                    call.status = _STATUSES.get(response.status_code, "refused")
                if isinstance(response, AnswerStream):
                    await response(scope, request.receive, send)
                    return
        except ClientDisconnect:
            return
        await response(scope, request.receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handled(request)
        except Problem as refusal:
            return self._door.refusal(refusal)

    async def _handled(self, request: Request) -> Response:
        handler = self._handlers.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            return self._without_handler(request)
        try:
            if request.method not in self.checked_by_handler:
                self._door.require(self._door.access.base)
            return await handler(request)
        except BadInput as error:
            raise mistakes(error) from None
        except LimitReached as error:
            raise limit_reached(error) from None
        except (HandedOver, StoreError, Unreadable) as error:
            raise unavailable(unavailable_words(error)) from None
        except ClientDisconnect:
            call_of(request).status = "cancelled"
            raise
        except Problem:
            raise
        except Exception as bug:
            what = f"{request.method} {request.url.path}"
            words = logged(what, bug, tells_errors=self._door.publisher.settings.show_errors)
            raise Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "bug", words) from None

    def _without_handler(self, request: Request) -> Response:
        if not self._handlers:
            detail = f"There is nothing here. {self._door.here.format(root=root_of(request))}"
            raise Problem(HTTPStatus.NOT_FOUND, "unknown-path", detail)
        allowed = ", ".join([*self._handlers, *(["HEAD"] if "GET" in self._handlers else []), "OPTIONS"])
        if request.method == "OPTIONS":
            return Response(status_code=HTTPStatus.NO_CONTENT, headers={"Allow": allowed})
        detail = f"Expected one of the methods {allowed}, but got {request.method}."
        raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, "wrong-method", detail, {"Allow": allowed})


class StartEndpoint(Endpoint):
    """A path where something named in the body is started, which says what scopes that needs."""

    checked_by_handler = ("POST",)


def call_of(request: Request) -> Call:
    """The call that the request is, to say more about it."""
    return request.scope[_CALL]


def _ended(call: Call) -> bool:
    """Whether the call is about a process that has ended, whose status says more than that of the response."""
    return call.process is not None and call.process.status.ended


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


def read(kind: type[T], value: Mapping[str, Any]) -> T:
    """The parameters of a request. Raises `Problem` with an entry for each field that is wrong."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        known = [each.alias or name for name, each in kind.model_fields.items()]
        problems = validation_problems(error, value, known)
        raise invalid(problems, corrections(problems)) from None
