"""Messages that a client could cause again and again: each kind is logged once in a minute, and floods no log.

Above: whatever refuses or warns. It knows no handlers and no formats.
"""

import time
from collections.abc import Callable
from typing import Final

_SECONDS: Final = 60.0
_MOST_KINDS: Final = 1_000
"""With so many kinds within a minute, a new one is not logged: they may be made up by a client."""


class RareLog:
    """Logs messages of one kind at most once in a minute. `clock` gives seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at: dict[str, float] = {}

    def log(self, log: Callable[..., None], kind: str, text: str, *values: object) -> None:
        """Pass a message to `log`, such as `Logger.info`, unless one of its kind was logged within the last minute."""
        now = self._clock()
        if now - self._logged_at.get(kind, -_SECONDS) < _SECONDS:
            return
        if len(self._logged_at) >= _MOST_KINDS:
            self._logged_at = {each: at for each, at in self._logged_at.items() if now - at < _SECONDS}
        if len(self._logged_at) < _MOST_KINDS:
            self._logged_at[kind] = now
            log(text, *values)
