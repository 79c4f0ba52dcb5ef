"""Finds the endpoints that take every method at one path by that path, before the routes are searched for it.

It is the innermost middleware of the site: what it does not find, Starlette's router looks for.
"""

from collections.abc import Sequence

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send


class ExactRoutes:
    """ASGI middleware that calls the ASGI endpoint of a path, if it is the one that the router would find."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self._app = app
        self._routes = {each.path: each for each in routes if _is_exact(each) and _first(routes, each.path) is each}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = None if scope["type"] != "http" or scope.get("root_path") else self._routes.get(scope["path"])
        if route is None:
            await self._app(scope, receive, send)
        else:
            scope["route"], scope["endpoint"], scope["path_params"] = route, route.endpoint, {}
            await route.app(scope, receive, send)


def _is_exact(route: Route) -> bool:
    # Starlette wraps functions, which take a request. All other endpoints are ASGI apps.
    return not route.param_convertors and not route.methods and route.app is route.endpoint


def _first(routes: Sequence[Route], path: str) -> Route | None:
    """The route that the router finds for a path."""
    return next((each for each in routes if each.path_regex.match(path)), None)
