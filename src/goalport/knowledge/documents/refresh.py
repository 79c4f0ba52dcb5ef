"""What is read from elsewhere, and how old it may be. Above: references, skills and ingestion."""

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
"""Seconds after which what could not be read is tried again."""
_TIME: Final = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>[smhd]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """How old what was read may be: `RefreshPolicy.never()`, `.always()` or `.after(600)`."""

    seconds: float | None = None
    """None: of any age."""

    @classmethod
    def never(cls) -> Self:
        """What was read once stays."""
        return cls(None)

    @classmethod
    def always(cls) -> Self:
        """It is read at each request."""
        return cls(0)

    @classmethod
    def after(cls, seconds: float) -> Self:
        """It is read again when it is older than this time to live."""
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
    """Something from elsewhere: it is read where its policy says so, and stays when that fails."""

    def __init__(self, name: str, policy: RefreshPolicy, read: Callable[[], Awaitable[T]]) -> None:
        self.name, self._policy, self._read = name, policy, read
        self._due: float | None = 0.0
        """The time at which it is to be read; None: never again."""
        self.value: T | None = None
        self.failure = ""
        """Why there is none, or no newer one, since it was tried last; empty: it was read."""

    async def refresh(self, *, patient: bool = False) -> None:
        """Read it where it is time to; who is patient reads at once what another request did not wait for."""
        was_late = self.value is None and not self.failure
        if not (patient and was_late) and (self._due is None or monotonic() < self._due):
            return
        seconds, done = self._policy.seconds, False
        try:
            self.value, self.failure = await self._read(), ""
            done = True
        except DocumentError as error:
            _log.warning("%r keeps what it had: %s", self.name, error)
            self.failure = str(error)
        finally:  # also if nobody waits for it any longer: what answers slowly must not slow down every request
            wait = seconds if done else min(_RETRY, seconds or _RETRY)
            self._due = None if wait is None else monotonic() + wait

    async def get(self) -> T:
        """It, read now if there is none yet. Raises `DocumentError` where it cannot be read."""
        await self.refresh(patient=True)
        if self.value is None:
            raise DocumentError(self.failure)
        return self.value
