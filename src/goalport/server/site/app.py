"""The ASGI app: the routes of every door and `/health`, behind the guard and the limit of bodies.

It does not listen: `listener` or any ASGI server does. A new door is one more entry of `DOORS`.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.caller import ANONYMOUS
from goalport.base.observe import REQUEST_ID
from goalport.base.observe.spans import in_trace_of
from goalport.runtime.platform import AgentPlatform
from goalport.server.auth import Access, Authentication, AuthGuard, current_caller, current_principal
from goalport.server.doors.a2a import A2aDoor
from goalport.server.doors.agui import AguiDoor
from goalport.server.doors.mcp.door import McpDoor
from goalport.server.doors.openai import OpenAiDoor
from goalport.server.doors.rest import RestDoor
from goalport.server.publish.calls import new_request_id
from goalport.server.publish.publisher import Publisher
from goalport.server.site.guard import BodyLimit, EndedStreams, HostGuard, LocalCallers, first_part
from goalport.server.site.health import HEALTH_PATHS, METRICS_PATH, Health, MetricsPage
from goalport.server.site.protocol import RETRY_SECONDS
from goalport.workspace import Workspace
from goalport.workspace.settings import Settings, load_settings

SIGN_IN_PATH: Final = "/oauth/callback"
REQUEST_ID_HEADER: Final = "X-Request-Id"
_INDEX: Final = "/"
_DENIALS: Final = frozenset({401, 403})
_TOO_MANY: Final = 429
"""For a known caller, this status is a limit and no denial; for others, it means too many invalid credentials."""


class Door(Protocol):
    """A protocol's entry to the server, such as the MCP server. It knows neither the site nor other doors.

    It is constructed with the publisher and with `Access`, which says what callers may do. It subscribes to changes of
    the publication, such as a reload, and enters `Publisher.calls.of(…)` for each call, so that a shutdown waits for
    the call and the log has a line for it.

    For every door, the site checks Host and Origin and adds the headers for web pages (`HostGuard`), and limits bodies
    (`BodyLimit`: a door may read the whole body); the listener limits connections, headers and slow clients. If callers
    are authenticated, only requests with a valid credential pass (`AuthGuard`); otherwise only requests of this machine
    (`LocalCallers`).

    A door does by itself:

    - It notices when a client leaves before its answer, and then kills the process of the call, unless its goal is
      detached (`CallPolicy.detached`) or another call waits for it; a process that waits for a person goes on.
    - It lists and looks up only what is in `Access.publication`, which is what the caller may use. It refuses a request
      whose caller lacks scopes (`Access.lacks`): every request needs the base scope, except calls of what has separate
      scopes, and requests that only show that the server is there.
    - It starts each process with `current_caller()`, and lets no other caller follow, answer or cancel it.
    - It answers a bug in one request with an error of its protocol. It may catch everything in one place, which is
      listed in `EDGES` of `tests/house/failures.py`; all other errors it catches by name.
    """

    @property
    def routes(self) -> Sequence[Route]:
        """The endpoints, without a slash at the end; the site adds each with one too."""
        ...

    @property
    def exposed_headers(self) -> Iterable[str]:
        """The response headers that web pages may read."""
        ...

    def report(self, address: str) -> Iterable[str]:
        """How clients connect, in lines for the startup report; `address` is the URL of the server."""
        ...

    def refusal(self, status: HTTPStatus, kind: str, detail: str, /) -> Response:
        """The answer to a request for one of the routes that the site refuses, in the error format of the protocol.

        `kind` is the end of the `type` of problem details, and `detail` says in a sentence or two what to do.
        """
        ...


@runtime_checkable
class RunningDoor(Protocol):
    """A door with resources that are open while the server runs."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """A context in which requests can be answered."""
        ...

    def close(self) -> None:
        """Close what would stay open at a shutdown, such as streams."""
        ...


DOORS: Final[Sequence[Callable[[Publisher, Access], Door]]] = (McpDoor, RestDoor, AguiDoor, OpenAiDoor, A2aDoor)
"""All doors of a server; the report names the first route of the first one as the server's address."""


def create_app(
    platform: AgentPlatform, workspace: Workspace | None = None, settings: Settings | None = None
) -> Starlette:
    """The app for any ASGI server. At the end of its lifespan it closes the platform and kills running processes.

    An app that mounts it has to enter its lifespan. Without a workspace, only what the platform has is published;
    without settings, those of the current folder are read.
    Raises `SettingsError` for a role whose model is not ready, and for keys that cannot be read.
    """
    settings = settings or load_settings(Path.cwd())
    return Site(Publisher(platform, workspace or Workspace(settings.workspace), settings)).app


class Site:
    """The app, with its doors. Callers are authenticated by `authentication`; without one, as the settings say."""

    def __init__(self, publisher: Publisher, authentication: Authentication | None = None) -> None:
        self.publisher, settings = publisher, publisher.settings
        self._authentication = authentication = authentication or Authentication.of(settings)
        access = Access(publisher, authentication)
        is_open: dict[object, bool] = {
            RestDoor: settings.serves("rest"),
            AguiDoor: settings.serves("agui"),
            OpenAiDoor: settings.serves("openai_api"),
            A2aDoor: settings.serves("a2a"),
        }
        self.doors: Sequence[Door] = [door(publisher, access) for door in DOORS if is_open.get(door, True)]
        open_details = authentication is None and settings.on_loopback
        self.health = Health(
            publisher,
            shows_details=lambda: open_details or (current_principal() is not None and not access.lacks(access.base)),
        )
        has_metrics = settings.metrics is not False
        self.metrics = MetricsPage(publisher, authentication, self.health) if has_metrics else None
        routes, closing = list(self._routes()), publisher.calls.closing
        exposed = dict.fromkeys(header for door in self.doors for header in door.exposed_headers)
        refusals = {first_part(route.path): door.refusal for door in self.doors for route in door.routes}
        open_paths = HEALTH_PATHS | {_INDEX.rstrip("/")}  # the guards compare paths without a slash at the end
        if settings.metrics == "open":
            open_paths |= {METRICS_PATH}
        guards: list[Middleware] = []
        if authentication is not None:
            paths = open_paths | {SIGN_IN_PATH}
            guards = [Middleware(AuthGuard, authentication=authentication, open_paths=paths)]
        elif not settings.auth.insecure_no_auth:
            guards = [Middleware(LocalCallers, open_paths=open_paths)]
        self.app = Starlette(
            routes=routes,
            middleware=[
                Middleware(RequestIds, on_response=self._note_response),
                Middleware(EndedStreams, closing=closing),
                Middleware(HostGuard, settings=settings, exposed_headers=[REQUEST_ID_HEADER, *exposed]),
                Middleware(BodyLimit, max_bytes=settings.max_body_bytes, refusals=refusals),
                *guards,
                Middleware(ExactRoutes, routes=routes),
            ],
            lifespan=self._lifespan,
        )
        self.app.router.redirect_slashes = False

    def end_waits(self) -> None:
        """End what a shutdown need not wait for: streams of notifications, and calls that wait for other programs."""
        for each in self.doors:
            if isinstance(each, RunningDoor):
                each.close()
        self.publisher.platform.processes.hand_over_waits()

    async def close(self) -> None:
        """Close the doors' open streams and kill the processes that run."""
        self.end_waits()
        await self.publisher.platform.aclose()

    def _note_response(self, scope: Scope, status: int) -> None:
        if self.metrics is not None:
            self.metrics.metrics.response(status)
        if status in _DENIALS or (status == _TOO_MANY and self._authentication and current_caller() == ANONYMOUS):
            self.publisher.audit_trail.denied(current_caller(), status, scope["path"])

    def _routes(self) -> Iterator[Route]:
        """Each route with and without a slash at its end, since a redirect loses bodies or is refused by clients."""
        own = [*self.health.routes(), Route(SIGN_IN_PATH, self._sign_in, methods=["GET"])]
        own.append(Route(_INDEX, self._show_addresses, methods=["GET"]))
        if self.metrics is not None:
            own.append(Route(METRICS_PATH, self.metrics.show, methods=["GET"]))
        for each in (*(route for door in self.doors for route in door.routes), *own):
            yield each
            yield Route(f"{each.path}/", each.endpoint, methods=each.methods)
        if self._authentication is not None and self._authentication.resource is not None:
            yield from self._authentication.resource.routes

    async def _show_addresses(self, request: Request) -> Response:
        address = self.publisher.settings.public_url.rstrip("/") or str(request.base_url).rstrip("/")
        lines = [line for door in self.doors for line in door.report(address)]
        return PlainTextResponse("\n".join(["This is a goalport server.", *lines, f"Health: {address}/health", ""]))

    async def _sign_in(self, request: Request) -> Response:
        """The page that ends a sign-in to an upstream server."""
        text, status = "You are signed in. This page can be closed.", HTTPStatus.OK
        if not self.publisher.platform.upstream.sign_ins.accept_redirect(dict(request.query_params)):
            text = "Nobody waits for this sign-in any more. Answer the question again to get a new page."
            status = HTTPStatus.NOT_FOUND
        # The address holds a code, which is not for caches and other pages.
        headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
        return HTMLResponse(f"<!doctype html><title>goalport</title><p>{text}", status, headers)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        settings = self.publisher.settings
        async with AsyncExitStack() as stack:
            if self._authentication is not None:
                await stack.enter_async_context(self._authentication.running())
            for each in self.doors:
                if isinstance(each, RunningDoor):
                    await stack.enter_async_context(each.running())
            if settings.public_url or (settings.on_loopback and settings.port):
                self.publisher.platform.upstream.redirect_uri = f"{settings.address}{SIGN_IN_PATH}"
            await stack.enter_async_context(self.publisher.connected())
            if self.metrics is not None:
                await stack.enter_async_context(self.metrics.measuring())
            try:
                yield
            finally:
                await self.close()


class ExactRoutes:
    """ASGI middleware that calls the ASGI endpoint of an exact path without the router, which would find the same."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self._app = app
        self._routes: dict[str, Route] = {}
        for each in routes:
            # Starlette wraps functions, which take a request. All other endpoints are ASGI apps.
            is_exact = not each.param_convertors and not each.methods and each.app is each.endpoint
            if is_exact and next(other for other in routes if other.path_regex.match(each.path)) is each:
                self._routes[each.path] = each

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = None if scope["type"] != "http" or scope.get("root_path") else self._routes.get(scope["path"])
        if route is None:
            await self._app(scope, receive, send)
        else:
            scope["route"], scope["endpoint"], scope["path_params"] = route, route.endpoint, {}
            await route.app(scope, receive, send)


_HEADER: Final = REQUEST_ID_HEADER.lower().encode()
_VALID: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
"""The ids that are accepted: those that proxies and trace systems generate, which need no escaping anywhere."""
_UNAVAILABLE: Final = 503
_RETRY_AFTER: Final = (b"retry-after", b"%d" % RETRY_SECONDS)


class RequestIds:
    """ASGI middleware that gives each request an id: that of its header, unless that is there twice or is not valid.

    It also adds `Retry-After` to responses with status 503 that lack it.
    """

    def __init__(self, app: ASGIApp, on_response: Callable[[Scope, int], None]) -> None:
        """`on_response` is called with the ASGI scope of each request and the status of its response."""
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
                headers = [*message.get("headers", ()), header]
                if message["status"] == _UNAVAILABLE and all(name.lower() != _RETRY_AFTER[0] for name, _ in headers):
                    headers.append(_RETRY_AFTER)
                message = {**message, "headers": headers}
            return send(message)

        token = REQUEST_ID.set(identity)
        try:
            with in_trace_of(scope["headers"]):
                await self._app(scope, receive, with_id)
        finally:
            REQUEST_ID.reset(token)
