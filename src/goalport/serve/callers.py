"""On whose behalf a request comes: what the SDK's authentication found, as a `Caller`."""

from mcp.server.auth.middleware.auth_context import get_access_token

from goalport.caller import ANONYMOUS, Caller

__all__ = ["current_caller"]


def current_caller() -> Caller:
    """The caller of the request that is being answered; anonymous where nobody authenticates."""
    token = get_access_token()
    if token is None:
        return ANONYMOUS
    issuer = (token.claims or {}).get("iss", "")
    return Caller(token.subject or token.client_id, str(issuer), frozenset(token.scopes))
