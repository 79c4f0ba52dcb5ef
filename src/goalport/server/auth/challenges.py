"""The refusals of the guard and of the doors, with the challenge by which a client learns what it needs.

RFC 6750 section 3 says what a challenge holds, RFC 9728 where its metadata is, and MCP's authorization page that one
challenge names all the scopes that an operation needs. Above: `guard`, and the doors for what a call needs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse

from goalport.server.auth.metadata import ProtectedResource

_NOTHING_SENT: Final = (
    "This server needs a token or a key, in the header Authorization: Bearer TOKEN or X-API-Key: KEY."
)


@dataclass(frozen=True, slots=True)
class Challenges:
    """The refusals of one server. Their bodies are errors as OAuth has them (RFC 6750)."""

    base_scope: str
    """The scope that a client without a token asks for at first."""
    resource: ProtectedResource | None = None
    """What says where the metadata of the server is; None: it has none, as with keys alone."""
    path: str = "/mcp"
    """The path that a request is for; its door may be a resource of its own."""

    def at(self, path: str) -> "Challenges":
        """The refusals of requests for a path."""
        return self if self.resource is None else replace(self, path=path)

    def unauthenticated(self) -> JSONResponse:
        """The refusal of a request that has no credential."""
        scope = self.base_scope if self.resource else ""
        return self._refusal(HTTPStatus.UNAUTHORIZED, "", _NOTHING_SENT, scope)

    def invalid_token(self, reason: str) -> JSONResponse:
        """The refusal of a token that is not valid."""
        scope = self.base_scope if self.resource else ""
        return self._refusal(HTTPStatus.UNAUTHORIZED, "invalid_token", reason, scope)

    def invalid_request(self, reason: str) -> JSONResponse:
        """The refusal of a request whose credential stands in a wrong place, or is there twice."""
        return self._refusal(HTTPStatus.BAD_REQUEST, "invalid_request", reason)

    def insufficient_scope(self, needed: Iterable[str], reason: str) -> JSONResponse:
        """The refusal of a call whose token lacks scopes; `needed` are all that the call needs."""
        return self._refusal(HTTPStatus.FORBIDDEN, "insufficient_scope", reason, " ".join(sorted(needed)))

    def for_scopes(self, needed: Iterable[str], reason: str) -> dict[str, str]:
        """The header of `insufficient_scope`, for a refusal whose body is of another kind."""
        return {"WWW-Authenticate": self._challenge("insufficient_scope", reason, " ".join(sorted(needed)))}

    def too_many(self, reason: str, retry_seconds: int) -> JSONResponse:
        """The refusal of a token that is not valid, from an address that has sent too many of them."""
        told = f"{reason} Too many credentials from your address were not valid: try again in {retry_seconds} s."
        content = {"error": "too_many_requests", "error_description": told}
        return JSONResponse(content, HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(retry_seconds)})

    def unavailable(self, reason: str, retry_seconds: int) -> JSONResponse:
        """The answer while nobody can say whether a token is valid."""
        content = {"error": "temporarily_unavailable", "error_description": reason}
        return JSONResponse(content, HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": str(retry_seconds)})

    def _refusal(self, status: HTTPStatus, error: str, reason: str, scope: str = "") -> JSONResponse:
        content = {"error": error or "unauthorized", "error_description": reason}
        if scope:
            content["scope"] = scope
        return JSONResponse(content, status, {"WWW-Authenticate": self._challenge(error, reason, scope)})

    def _challenge(self, error: str, reason: str, scope: str) -> str:
        fields = {
            "error": error,
            "error_description": reason if error else "",
            "scope": scope,
            "resource_metadata": self.resource.url_for(self.path) if self.resource else "",
        }
        said = ", ".join(f'{name}="{_quotable(value)}"' for name, value in fields.items() if value)
        return f"Bearer {said}".rstrip()


def _quotable(text: str) -> str:
    """A text as a quoted string of a header may have it."""
    return "".join(each if each.isascii() and each.isprintable() and each not in '"\\' else "'" for each in text)
