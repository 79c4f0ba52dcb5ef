"""What was found out about tokens a moment ago, so that a caller's next call costs a look-up.

Tokens are kept as hashes alone. Above: the verifiers, which say for how long something may be kept.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from goalport.auth.verifiers import Grant

__all__ = ["GrantCache"]

_MOST: Final = 10_000


class GrantCache:
    """The grants of tokens, each for `seconds` at most; of too many, those that were kept first are forgotten.

    `clock` gives the seconds since 1970. A token that is not valid is kept with the reason in place of a grant.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._kept: dict[bytes, tuple[Grant | str, float]] = {}

    def get(self, token: str) -> Grant | str | None:
        """The grant of a token, or the reason why it is not valid; None if nothing is known of it."""
        digest = _digest_of(token)
        found, until = self._kept.get(digest, (None, 0.0))
        if found is not None and self._clock() >= until:
            del self._kept[digest]
            return None
        return found

    def keep(self, token: str, found: Grant | str, seconds: float | None = None) -> None:
        """Keep what was found, never beyond the end of the token; `seconds` instead of the usual ones."""
        until = self._clock() + (self._seconds if seconds is None else seconds)
        if isinstance(found, Grant) and found.expires_at is not None:
            until = min(until, found.expires_at)
        digest = _digest_of(token)
        self._kept.pop(digest, None)
        self._kept[digest] = found, until
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]


def _digest_of(token: str) -> bytes:
    return sha256(token.encode()).digest()
