"""Where the browsers of people come back to who have signed in to an upstream server, as a question asked them to.

The page wants no token: a browser has none, and the state that it brings is known to nobody else. Below `app`; the
upstream servers of the platform, further below, wait for it.
"""

from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from goalport.server.publish.publisher import Publisher

SIGN_IN_PATH: Final = "/oauth/callback"
_HEADERS: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
"""The address holds a code, which is not for caches and other pages."""
_PAGE: Final = "<!doctype html><title>goalport</title><p>{}</p>"
_DONE: Final = "You are signed in. This page can be closed."
_UNKNOWN: Final = "Nobody waits for this sign-in any more. Answer the question again to get a new page."


class SignInCallback:
    """The page that ends a sign-in."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def routes(self) -> Iterator[Route]:
        yield Route(SIGN_IN_PATH, self._come_back, methods=["GET"])

    def announce(self) -> None:
        """Have upstream servers send people here, if the settings say by which address they reach it."""
        settings = self._publisher.settings
        if settings.public_url or (settings.on_loopback and settings.port):
            self._publisher.platform.upstream.redirect_uri = f"{settings.address}{SIGN_IN_PATH}"

    async def _come_back(self, request: Request) -> Response:
        known = self._publisher.platform.upstream.sign_ins.come_back(dict(request.query_params))
        return HTMLResponse(_PAGE.format(_DONE if known else _UNKNOWN), 200 if known else 404, _HEADERS)
