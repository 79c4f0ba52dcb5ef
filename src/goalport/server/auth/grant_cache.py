"""What was found out about tokens a moment ago, so that a caller's next call costs a look-up.

Tokens are kept as hashes alone. Above: the verifiers, which say for how long something may be kept.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Final, TypeVar

from goalport.server.auth.verifiers import Grant

_MOST: Final = 10_000
"""Grants that are kept, and as many refusals."""
T = TypeVar("T")


class GrantCache:
    """The grants of tokens, each for `seconds` at most; of too many, those that were kept first are forgotten.

    `clock` gives the seconds since 1970. Tokens that are not valid are kept apart, with the reason in place of a grant,
    so that however many they are no grant is forgotten for them.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._grants: dict[bytes, tuple[Grant, float]] = {}
        """With the time until which it counts; then it still says that the token was valid."""
        self._refusals: dict[bytes, tuple[str, float]] = {}

    def get(self, token: str) -> Grant | str | None:
        """The grant of a token, or the reason why it is not valid; None if nothing is known of it."""
        digest, now = _digest_of(token), self._clock()
        for kept in (self._grants, self._refusals):
            found, until = kept.get(digest, (None, 0.0))
            if now < until:
                return found
        return None

    def was_valid(self, token: str) -> bool:
        """Whether a token has had a grant, be it valid now or not."""
        return _digest_of(token) in self._grants

    def keep(self, token: str, found: Grant | str, seconds: float | None = None) -> None:
        """Keep what was found, never beyond the end of the token; `seconds` instead of the usual ones."""
        until = self._clock() + (self._seconds if seconds is None else seconds)
        if isinstance(found, Grant) and found.expires_at is not None:
            until = min(until, found.expires_at)
        digest = _digest_of(token)
        if isinstance(found, Grant):
            _put(self._grants, digest, (found, until))
            return
        _put(self._refusals, digest, (found, until))
        if digest in self._grants:
            self._grants[digest] = self._grants[digest][0], 0.0


def _put(kept: dict[bytes, T], digest: bytes, entry: T) -> None:
    kept.pop(digest, None)
    kept[digest] = entry
    if len(kept) > _MOST:
        del kept[next(iter(kept))]


def _digest_of(token: str) -> bytes:
    return sha256(token.encode()).digest()
