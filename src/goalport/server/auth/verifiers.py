"""Verifiers: each finds the caller that a token authenticates, or refuses the token.

A server may have any number of verifiers. The first one that recognizes a token decides about it: a token that it
refuses is not tried with another verifier. They are in `keys`, `jwt` and `tokens`; `authentication` calls them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from goalport.base.caller import EVERY_SCOPE, Caller
from goalport.base.errors import GoalportError
from goalport.workspace.settings import AuthSettings


class InvalidToken(GoalportError):
    """A token that is no valid credential here; the message says why, without the token."""

    def __init__(self, reason: str, *, was_valid: bool = False) -> None:
        super().__init__(reason)
        self.was_valid = was_valid
        """Whether the token is known to have been valid before: then its holder is not guessing but needs a new one."""


class VerifierUnavailable(GoalportError):
    """Whether a token is valid cannot be said now, because a key file or an identity provider cannot be reached."""

    def __init__(self, reason: str, retry_seconds: int = 5) -> None:
        super().__init__(reason)
        self.retry_seconds = retry_seconds


@dataclass(frozen=True, slots=True)
class Grant:
    """What a valid credential grants."""

    caller: Caller
    client: str
    """The program that calls: the client's id where the credential has one, else the caller's."""
    expires_at: float | None = None
    """When the credential expires, in seconds since 1970; None: never."""


class Verifier(Protocol):
    """Verifies the tokens of one kind."""

    def recognizes(self, token: str) -> bool:
        """Whether a token looks like this kind. Called for every request: it reads no file and never raises."""
        ...

    async def verify(self, token: str, is_slowed: Callable[[], bool]) -> Grant:
        """What a token grants. Raises `InvalidToken`, and `VerifierUnavailable` if it cannot be verified now.

        `is_slowed` returns whether its address has sent too many invalid tokens: other tokens are verified first.
        """
        ...


def not_slowed() -> bool:
    """Return False: the default for `is_slowed`."""
    return False


def caller_of(
    settings: AuthSettings, subject: str, issuer: str, granted: Iterable[str], claims: Mapping[str, Any] | None = None
) -> Caller:
    """The caller of a credential, with its scopes, those that they imply, and the claims that the settings name."""
    scopes = settings.expanded(granted)
    kept = {name: value for name, value in (claims or {}).items() if name in settings.claims}
    is_admin = not scopes.isdisjoint({settings.scope("admin"), EVERY_SCOPE})
    return Caller(subject, issuer, scopes, kept, is_admin)


_IN_QUERY: Final = frozenset({"access_token", "api_key", "token"})
_LONGEST_TOKEN: Final = 16_384


class AmbiguousCredential(GoalportError):
    """A request with more than one credential, or with a credential in a place or form that is not accepted."""


def token_of(headers: Iterable[tuple[bytes, bytes]], query: bytes) -> str | None:
    """The token in the header `Authorization: Bearer …` or `X-API-Key: …` of a request; None if it has neither.

    Raises `AmbiguousCredential` for a second token, for another scheme, and for a token in the query.
    """
    found = [(name, value) for name, value in headers if name in {b"authorization", b"x-api-key"}]
    if query and any(name in _IN_QUERY for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)):
        raise AmbiguousCredential("A token must not stand in a URL, which logs keep. Send it in a header.")
    if not found:
        return None
    if len(found) > 1:
        raise AmbiguousCredential("The request has more than one credential. Send one header with one token.")
    name, value = found[0]
    if name == b"authorization":
        if not value.lower().startswith(b"bearer "):
            raise AmbiguousCredential("Expected the header Authorization: Bearer TOKEN, but got another scheme.")
        value = value[len(b"bearer ") :]
    token = value.strip().decode("latin-1")
    if not token or len(token) > _LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise AmbiguousCredential("The token is empty, too long, or has characters that no token has.")
    return token
