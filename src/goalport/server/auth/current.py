"""Who calls: the authenticated caller of the current request, for every door.

The guard keeps the credential of a request where the MCP SDK looks for it, since the SDK binds sessions to it and hands
it on to the tasks of a session. Above: the guard, and the doors.
"""

from contextlib import AbstractContextManager
from contextvars import Token
from typing import Any

from mcp.server.auth.middleware.auth_context import auth_context_var, get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, principal_components

from goalport.base.caller import ANONYMOUS, Caller
from goalport.server.auth.verifiers import Grant

Principal = tuple[str, str | None, str | None]
"""Whom a session belongs to: the client, the issuer and the subject of the access token that it was opened with."""


class _GrantedToken(AccessToken):
    """An access token as the SDK knows it, with the caller that it stands for."""

    caller: Caller


def current_caller() -> Caller:
    """The authenticated caller of the current request; `ANONYMOUS` without authentication."""
    match get_access_token():
        case None:
            return ANONYMOUS
        case _GrantedToken(caller=caller):
            return caller
        case token:  # of an app that mounts the server behind an authentication of its own
            issuer = (token.claims or {}).get("iss", "")
            return Caller(token.subject or token.client_id, str(issuer), frozenset(token.scopes))


def current_principal() -> Principal | None:
    """The principal of the current request, as the SDK binds sessions to it; None without authentication."""
    token = get_access_token()
    return None if token is None else principal_components(token)


def granted(scope: Any, grant: Grant, token: str) -> AbstractContextManager[None]:
    """A context in which a request is made by the caller of a grant; `scope` is the request, `token` its credential."""
    caller = grant.caller
    known = _GrantedToken.model_construct(
        token=token,
        client_id=grant.client,
        scopes=sorted(caller.scopes),
        expires_at=None if grant.expires_at is None else int(grant.expires_at),
        resource=None,
        subject=caller.id,
        claims={"iss": caller.issuer},
        caller=caller,
    )
    scope["user"] = user = AuthenticatedUser(known)
    return MadeBy(user)


class MadeBy:
    """A context in which requests are made by a user, or nobody. Each enters two, for which a generator is too slow."""

    __slots__ = ("_before", "_user")

    def __init__(self, user: AuthenticatedUser | None) -> None:
        self._user = user
        self._before: Token[AuthenticatedUser | None] | None = None

    def __enter__(self) -> None:
        self._before = auth_context_var.set(self._user)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            auth_context_var.reset(self._before)
