"""Who calls: the authenticated caller of the current request, for every door. Floor 9.

The MCP SDK's middleware verifies a bearer token and keeps it while a request is handled, whichever door answers.
"""

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components

from goalport.caller import ANONYMOUS, Caller

__all__ = ["Principal", "current_caller", "current_principal"]

Principal = tuple[str, str | None, str | None]
"""Whom a session belongs to: the client, the issuer and the subject of the access token that it was opened with."""


def current_caller() -> Caller:
    """The authenticated caller of the current request; `ANONYMOUS` without authentication."""
    token = get_access_token()
    if token is None:
        return ANONYMOUS
    issuer = (token.claims or {}).get("iss", "")
    return Caller(token.subject or token.client_id, str(issuer), frozenset(token.scopes))


def current_principal() -> Principal | None:
    """The principal of the current request, as the SDK binds sessions to it; None without authentication."""
    token = get_access_token()
    return None if token is None else principal_components(token)
