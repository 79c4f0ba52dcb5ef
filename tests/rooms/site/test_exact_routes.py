"""Endpoints that are found by their path alone: they are those that the router would find."""

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from goalport.server.site.app import ExactRoutes


class Named:
    """An ASGI endpoint that says which one it is, and what was read from the path."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["endpoint"] is self
        await PlainTextResponse(f"{self.name} {scope['path_params']}")(scope, receive, send)


async def function(_: Request) -> Response:
    return PlainTextResponse("function")


ROUTES = [
    Route("/open", Named("open")),
    Route("/open", Named("second")),
    Route("/of/{name}", Named("of")),
    Route("/of/all", Named("hidden")),
    Route("/get", Named("get"), methods=["GET"]),
    Route("/function", function),
    Route("/deep/of/{name}", Named("deep")),
]
FOUND = {
    "/open": "open {}",
    "/of/all": "of {'name': 'all'}",
    "/of/{name}": "of {'name': '{name}'}",
    "/deep/of/all": "deep {'name': 'all'}",
    "/get": "get {}",
    "/function": "function",
    "/open/": "Not Found",
}


@pytest.mark.parametrize("prefix", ["", "/mounted"])
@pytest.mark.parametrize("exact", [[Middleware(ExactRoutes, routes=ROUTES)], []])
async def test_an_endpoint_is_the_first_one_whose_route_fits(exact: list[Middleware], prefix: str) -> None:
    app = Starlette(routes=ROUTES, middleware=exact)
    app.router.redirect_slashes = False
    outer = Starlette(routes=[Mount(prefix, app)]) if prefix else app
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(outer), base_url="http://here") as client:
        assert {path: (await client.get(f"{prefix}{path}")).text for path in FOUND} == FOUND
        assert (await client.post(f"{prefix}/open")).text == "open {}"
        assert (await client.post(f"{prefix}/get")).status_code == 405
