"""Refusals of requests, with their OAuth challenges, and the metadata that says who issues tokens for this server.

RFC 6750, section 3, defines challenges, and RFC 9728 the metadata of a protected resource. By MCP's authorization page,
one challenge names all the scopes that an operation needs. The metadata is published only if a provider issues tokens:
with API keys alone, several hosts would ignore the key in their configuration and try to sign in. Above: the guard, the
doors, and the site, which has the routes of the metadata.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from goalport.base.errors import SettingsError
from goalport.base.hosts import is_wildcard
from goalport.workspace.settings import Settings

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_DOORS: Final = {"/mcp": "/mcp", "/sse": "/sse", "/messages": "/sse"}
"""By path: the protected resource that it belongs to. A client takes the URL that it connects to for the resource, and
messages that are posted to `/messages` belong to the stream of `/sse`. Other paths belong to the server's own URL."""
_QUOTE: Final = "'"
_QUOTED: Final = re.compile(r'[^ -~]|["\\]')
_OFFLINE: Final = "offline_access"
"""The scope for refresh tokens. Clients that want them ask for it by themselves, so a resource does not list it."""


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The metadata of this server as a protected resource: who issues tokens for it, and with which scopes."""

    address: str
    name: str
    issuers: Sequence[str]
    scopes: Sequence[str]

    @classmethod
    def of(cls, settings: Settings) -> "ProtectedResource | None":
        """The metadata that settings ask for; None without a provider. Raises `SettingsError` without an address."""
        auth = settings.auth
        issuers = list(dict.fromkeys(each.issuer for each in (*auth.issuers, *auth.introspection)))
        if not issuers:
            return None
        if not settings.public_url and (is_wildcard(settings.host) or not settings.port):
            raise SettingsError(
                "Set public_url to the address by which clients reach this server: tokens are issued for that address,"
                f" and it does not follow from host = {settings.host!r} and port = {settings.port}."
            )
        scopes = auth.scopes_supported or (auth.scope("read"), auth.scope("write"))
        return cls(settings.address, settings.name, issuers, [each for each in scopes if each != _OFFLINE])

    def url_for(self, path: str) -> str:
        """The URL of the metadata of the resource to which a path of this server belongs."""
        of = next((door for prefix, door in _DOORS.items() if f"{path}/".startswith(f"{prefix}/")), "")
        return f"{self.address}{WELL_KNOWN}{of}"

    @property
    def routes(self) -> Iterator[Route]:
        """The routes of the metadata, for the server's own URL and, as in RFC 9728, for resources with a path."""
        yield Route(WELL_KNOWN, self._answer)
        yield Route(f"{WELL_KNOWN}/{{path:path}}", self._answer)

    async def _answer(self, request: Request) -> Response:
        path = f"/{request.path_params.get('path', '')}".rstrip("/")
        path = path.removeprefix(urlsplit(self.address).path)
        if path and path not in _DOORS.values():
            return Response(status_code=404)
        content = {
            "resource": f"{self.address}{path}",
            "authorization_servers": self.issuers,
            "scopes_supported": self.scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": self.name,
        }
        return JSONResponse(content, headers={"Cache-Control": "max-age=3600"})


@dataclass(frozen=True, slots=True)
class Challenges:
    """Makes the refusals of one server; their bodies are OAuth errors (RFC 6750)."""

    base_scope: str
    """The scope that a client without a token asks for at first."""
    resource: ProtectedResource | None = None
    """The server's metadata, whose URL is in each challenge; None: there is none, as with API keys alone."""
    path: str = "/mcp"
    """The path that a request is for; its door may be a resource of its own."""

    def at(self, path: str) -> "Challenges":
        """The refusals of requests for a path."""
        return self if self.resource is None else replace(self, path=path)

    def refusal(self, error: str, reason: str) -> JSONResponse:
        """The refusal of a request whose credential is missing, invalid, in a wrong place, or there twice.

        `error` is an error code of RFC 6750; empty: the credential is missing.
        """
        if error == "invalid_request":
            return self._response(HTTPStatus.BAD_REQUEST, error, reason)
        return self._response(HTTPStatus.UNAUTHORIZED, error, reason, self.base_scope if self.resource else "")

    def insufficient_scope(self, needed: Iterable[str], reason: str) -> JSONResponse:
        """The refusal of a call whose token lacks scopes; `needed` are all that the call needs."""
        return self._response(HTTPStatus.FORBIDDEN, "insufficient_scope", reason, " ".join(sorted(needed)))

    def for_scopes(self, needed: Iterable[str], reason: str) -> dict[str, str]:
        """The header of `insufficient_scope`, for a refusal whose body is of another kind."""
        return self._header("insufficient_scope", reason, " ".join(sorted(needed)))

    def _response(self, status: HTTPStatus, error: str, reason: str, scope: str = "") -> JSONResponse:
        content = {"error": error or "unauthorized", "error_description": reason, **({"scope": scope} if scope else {})}
        return JSONResponse(content, status, self._header(error, reason, scope))

    def _header(self, error: str, reason: str, scope: str) -> dict[str, str]:
        fields = {
            "error": error,
            "error_description": reason if error else "",
            "scope": scope,
            "resource_metadata": self.resource.url_for(self.path) if self.resource else "",
        }
        # A quoted string of a header has printable ASCII without quotes and backslashes.
        said = ", ".join(f'{name}="{_QUOTED.sub(_QUOTE, value)}"' for name, value in fields.items() if value)
        return {"WWW-Authenticate": f"Bearer {said}".rstrip()}
