"""When something is read again where it came from: never, each time it is used, or when some time has passed."""

import re
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Self

_WRITTEN: Final = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>[smhd]?)")
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
    def of(cls, written: str | float) -> Self:
        """The policy that `never`, `always`, `10m`, `2h` or a number of seconds say. Raises `ValueError` otherwise."""
        text = str(written).strip().lower()
        if text in {"never", "always"}:
            return cls.never() if text == "never" else cls.always()
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise ValueError(f"should be never, always, or a time such as 30s, 10m, 2h or 1d; came {written!r}")
        return cls.after(float(found["number"]) * _SECONDS[found["unit"]])


@dataclass(slots=True)
class Freshness:
    """When something was read last."""

    policy: RefreshPolicy
    retry_seconds: float = 60.0
    """How long to wait after a failure, so that what does not answer does not slow down every request."""
    _due: float | None = field(default=0.0, init=False)
    """The time at which it is to be read; None: never again."""

    @property
    def is_due(self) -> bool:
        """Whether it is time to read."""
        return self._due is not None and monotonic() >= self._due

    def note_success(self) -> None:
        """Note that it was read now."""
        self._due = None if self.policy.seconds is None else monotonic() + self.policy.seconds

    def note_failure(self) -> None:
        """Note that it could not be read now."""
        self._due = monotonic() + min(self.retry_seconds, self.policy.seconds or self.retry_seconds)
