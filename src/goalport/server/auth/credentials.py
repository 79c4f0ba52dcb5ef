"""The credential of a request: where it may stand, and what is refused before it is verified (RFC 6750, section 2).

Below the guard, which verifies it.
"""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import parse_qsl

from goalport.base.errors import GoalportError

_AUTHORIZATION: Final = b"authorization"
_KEY: Final = b"x-api-key"
_SCHEME: Final = b"bearer "
_IN_QUERY: Final = frozenset({"access_token", "api_key", "token"})
_LONGEST: Final = 16_384


class AmbiguousCredential(GoalportError):
    """A request that has more than one credential, or one where none may stand."""


def token_of(headers: Iterable[tuple[bytes, bytes]], query: bytes) -> str | None:
    """The token of a request: that of `Authorization: Bearer …` or `X-API-Key: …`; None if it has none.

    Raises `AmbiguousCredential` for a second one, for another scheme, and for a token in the query.
    """
    found = [(name, value) for name, value in headers if name in {_AUTHORIZATION, _KEY}]
    if query and any(name in _IN_QUERY for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)):
        raise AmbiguousCredential("A token must not stand in a URL, which logs keep. Send it in a header.")
    if not found:
        return None
    if len(found) > 1:
        raise AmbiguousCredential("The request has more than one credential. Send one header with one token.")
    name, value = found[0]
    if name == _AUTHORIZATION:
        if not value.lower().startswith(_SCHEME):
            raise AmbiguousCredential("Expected the header Authorization: Bearer TOKEN, but got another scheme.")
        value = value[len(_SCHEME) :]
    return _checked(value.strip())


def _checked(value: Any) -> str:
    token = value.decode("latin-1")
    if not token or len(token) > _LONGEST or not token.isascii() or not token.isprintable() or " " in token:
        raise AmbiguousCredential("The token is empty, too long, or has characters that no token has.")
    return token
