"""The metadata of this server as a protected resource (RFC 9728): which providers issue tokens for it.

It is published only where there is such a provider: where keys are all that is taken, several hosts would ignore the
key that they were configured with and try to sign in. Above: the site, which has its routes; beside `challenges`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
"""The doors that are resources of their own, since a client takes the address that it was given for the resource; what
is posted to `/messages` belongs to the stream of `/sse`. All else is a part of the server's own address."""
_OFFLINE: Final = "offline_access"
"""A scope for clients and not for resources: one that wants refresh tokens asks for it by itself."""


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """What clients are told about who issues tokens for this server."""

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
        scopes = auth.scopes_supported or (auth.read_scope, auth.write_scope)
        return cls(settings.address, settings.name, issuers, [each for each in scopes if each != _OFFLINE])

    def url_for(self, path: str) -> str:
        """Where the metadata is of the resource that a path of this server belongs to."""
        return f"{self.address}{WELL_KNOWN}{_resource_of(path)}"

    @property
    def routes(self) -> Iterator[Route]:
        """Below the server's own address, and where RFC 9728 has it for an address with a path."""
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


def _resource_of(path: str) -> str:
    return next((door for prefix, door in _DOORS.items() if path == prefix or path.startswith(f"{prefix}/")), "")
