"""Who calls, and what they may list and do: what every door asks before it answers.

The guard stores the credential of a request where the MCP SDK looks for it, since the SDK binds sessions to it and
passes it to their tasks. A caller may do something if its scopes include the scopes that the publication requires for
it. Nothing here knows a protocol: a door finds out which scopes a request needs, and refuses in its own words. Below
the guard and the doors; the site makes one `Access` for all of them.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextvars import Token
from typing import Any

from mcp.server.auth.middleware.auth_context import auth_context_var, get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, principal_components

from goalport.agents.domain import ChatbotMark
from goalport.base.caller import ANONYMOUS, Caller
from goalport.runtime.process import AgentProcess
from goalport.server.auth.authentication import Authentication
from goalport.server.auth.verifiers import Grant
from goalport.server.publish.publication import Publication, Scopes, Views
from goalport.server.publish.publisher import Publisher

Principal = tuple[str, str | None, str | None]
"""Whom a session belongs to: the client, the issuer and the subject of the access token that it was opened with."""


class _GrantedToken(AccessToken):
    """The SDK's access token, with the caller that it authenticates."""

    caller: Caller


def current_caller() -> Caller:
    """The authenticated caller of the current request; `ANONYMOUS` without authentication."""
    match get_access_token():
        case None:
            return ANONYMOUS
        case _GrantedToken(caller=caller):
            return caller
        case token:  # set by an app that mounts the server and authenticates callers itself
            issuer = (token.claims or {}).get("iss", "")
            return Caller(token.subject or token.client_id, str(issuer), frozenset(token.scopes))


def current_principal() -> Principal | None:
    """The principal of the current request, as the SDK binds sessions to it; None without authentication."""
    token = get_access_token()
    return None if token is None else principal_components(token)


def granted(scope: Any, grant: Grant, token: str) -> AbstractContextManager[None]:
    """A context in which a grant's caller is the current one; `scope` is the request's, `token` is its credential."""
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
    return CurrentUser(user)


class CurrentUser:
    """A context with a user, or none, as the current one. Each request enters two, so a generator would be too slow."""

    __slots__ = ("_before", "_user")

    def __init__(self, user: AuthenticatedUser | None) -> None:
        self._user = user
        self._before: Token[AuthenticatedUser | None] | None = None

    def __enter__(self) -> None:
        self._before = auth_context_var.set(self._user)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            auth_context_var.reset(self._before)


class Access:
    """What callers may do; without an authentication everybody may do everything."""

    def __init__(self, publisher: Publisher, authentication: Authentication | None) -> None:
        self._publisher = publisher
        self._views = Views()
        self.challenges = None if authentication is None else authentication.challenges
        """Makes refusals over HTTP; None: callers are not authenticated, and no scopes are checked."""
        if authentication is not None:
            rules = publisher.publication.scopes.rules  # they come from the settings, which never change
            publisher.platform.may_start = lambda caller, goal: caller.has(*rules.of_goals([goal]))
            publisher.platform.may_chat = lambda caller, chatbot: caller.has(*rules.of_chatbot(chatbot.mark))

    @property
    def publication(self) -> Publication:
        """What the caller of the current request may list and use."""
        whole = self._publisher.publication
        return whole if self.challenges is None else self._views.of(whole, current_caller())

    @property
    def base(self) -> Scopes:
        """The scopes for requests that need no particular ones."""
        return self._publisher.publication.scopes.rules.read

    def of_process(self, process: AgentProcess) -> Scopes:
        """The scopes to answer a question of a process or cancel it: those to start it; for admins, those to read."""
        rules = self._publisher.publication.scopes.rules
        if current_caller().admin:
            return rules.read
        if process.options.turns:
            return self.of_chatbot(process.agent.chat or ChatbotMark())
        return rules.of_goals(process.scope.goals[name] for name in process.goals)

    def of_chatbot(self, mark: ChatbotMark) -> Scopes:
        """The scopes that a caller needs to talk to a chatbot with this mark."""
        return self._publisher.publication.scopes.rules.of_chatbot(mark)

    def may_change(self, process: AgentProcess) -> bool:
        """Whether the caller of the current request may answer a question of a process that it follows."""
        return not self.lacks(self.of_process(process))

    def lacks(self, needed: Scopes) -> bool:
        """Whether the caller of the current request lacks any of the scopes that the request needs."""
        return self.challenges is not None and not current_caller().has(*needed)

    def refusal(self, needed: Iterable[str]) -> str:
        """The text of a refusal for missing scopes, for the person who uses the client."""
        caller = current_caller()
        missing = sorted(each for each in needed if not caller.has(each))
        scopes, them = ("scope", "it") if len(missing) == 1 else ("scopes", "them")
        return (
            f"This needs the {scopes} {' and '.join(missing)}, which your credential does not have. Calling again does"
            f" not help: ask whoever runs this server for a credential that has {them}."
        )
