"""Values that are read from outside sources, and how old they may be. Above: references, skills and ingestion."""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final, Generic, Self, TypeVar

from goalport.base.errors import DocumentError

T = TypeVar("T")

_log = logging.getLogger(__name__)
_RETRY: Final = 60.0
"""Seconds between a failed read and the next attempt."""
_TIME: Final = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>[smhd]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """How old a value may be before it is read again: `RefreshPolicy.never()`, `.always()` or `.after(600)`."""

    seconds: float | None = None
    """The greatest age in seconds; None: any age."""

    @classmethod
    def never(cls) -> Self:
        """It is read once, and never again."""
        return cls(None)

    @classmethod
    def always(cls) -> Self:
        """It is read at each request."""
        return cls(0)

    @classmethod
    def after(cls, seconds: float) -> Self:
        """It is read again when it is older than this many seconds."""
        return cls(seconds)

    @classmethod
    def of(cls, value: str | float) -> Self:
        """The policy that `never`, `always`, `10m`, `2h` or a number of seconds say. Raises `ValueError` otherwise."""
        text = str(value).strip().lower()
        if text in {"never", "always"}:
            return cls.never() if text == "never" else cls.always()
        found = _TIME.fullmatch(text)
        if found is None:
            raise ValueError(f"should be never, always, or a time such as 30s, 10m, 2h or 1d; came {value!r}")
        return cls.after(float(found["number"]) * _SECONDS[found["unit"]])


class RefreshedSource(Generic[T]):
    """A value from an outside source. It is read again when the policy says so; if that fails, the old value stays."""

    def __init__(self, name: str, policy: RefreshPolicy, read: Callable[[], Awaitable[T]]) -> None:
        self.name, self._policy, self._read = name, policy, read
        self._due: float | None = 0.0
        """The time of the next read, by the monotonic clock; None: it is not read again."""
        self.value: T | None = None
        self.failure = ""
        """Why the last read failed; empty: it did not."""

    async def refresh(self, *, retry_cancelled: bool = False) -> None:
        """Read the value if it is due.

        `retry_cancelled`: read it also if there is none because a first read was cancelled.
        """
        was_late = self.value is None and not self.failure
        if not (retry_cancelled and was_late) and (self._due is None or monotonic() < self._due):
            return
        seconds, done = self._policy.seconds, False
        try:
            self.value, self.failure = await self._read(), ""
            done = True
        except DocumentError as error:
            _log.warning("%r keeps what it had: %s", self.name, error)
            self.failure = str(error)
        finally:  # also after a cancelled read: a slow source must not slow down every request
            wait = seconds if done else min(_RETRY, seconds or _RETRY)
            self._due = None if wait is None else monotonic() + wait

    async def get(self) -> T:
        """The value, read now if it is due or missing. Raises `DocumentError` if there is none."""
        await self.refresh(retry_cancelled=True)
        if self.value is None:
            raise DocumentError(self.failure)
        return self.value
