"""The families that have ended, as many as the store in memory has room for.

There are limits to their number, to the memory that they take, and to the files with what is too large for memory. The
store, above, says what a family is.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["EndedFamilies", "EndedFamily"]

_MOST_LONG: Final = 10
"""The most long processes that are kept for each short one, if more end within `seconds`."""
_FILES: Final = 16
"""How many times the bytes in memory the files may take."""


class EndedFamily(Protocol):
    """What is to be known of a family."""

    root: str
    ended_at: float
    """When it ended, on the monotonic clock."""
    memory_bytes: int
    """About how much memory it takes."""
    file_bytes: int

    @property
    def long(self) -> bool:
        """Whether its caller may fetch the result later."""
        ...


F = TypeVar("F", bound=EndedFamily)


class EndedFamilies(Generic[F]):
    """Families in the order in which they ended, short ones and long ones apart.

    Parameters: `window` short ones are kept, and as many long ones, or more as long as the oldest has ended `seconds`
    ago at most. All together take `most_bytes` of memory, but for the one that has ended last. `drop` is called with
    each for which there is no room. One that is `in_use` is not dropped.
    """

    def __init__(
        self, window: int, seconds: float, most_bytes: int, drop: Callable[[F], None], in_use: Callable[[F], bool]
    ) -> None:
        self._window, self._seconds, self._most_bytes = window, seconds, most_bytes
        self._drop, self._in_use = drop, in_use
        self._short: OrderedDict[str, F] = OrderedDict()
        self._long: OrderedDict[str, F] = OrderedDict()
        self.memory_bytes = self.file_bytes = 0

    def add(self, family: F) -> None:
        """Keep a family that has just ended; drop others, as far as there is no room any more."""
        family.ended_at = time.monotonic()
        (self._long if family.long else self._short)[family.root] = family
        self._count(family, 1)
        self._make_room(family)

    def remove(self, family: F) -> None:
        """Know no more of a family, if it is here: it goes on, or was dropped."""
        if self._short.pop(family.root, None) or self._long.pop(family.root, None):
            self._count(family, -1)

    def recount(self, family: F, memory_bytes: int, file_bytes: int) -> None:
        """Note what a family that is here takes now; drop others, as far as there is no room any more."""
        self._count(family, -1)
        family.memory_bytes, family.file_bytes = memory_bytes, file_bytes
        self._count(family, 1)
        self._make_room(family)

    def _count(self, family: F, sign: int) -> None:
        self.memory_bytes += sign * family.memory_bytes
        self.file_bytes += sign * family.file_bytes

    def _make_room(self, newest: F) -> None:
        while len(self._short) > self._window and (family := self._oldest(self._short)):
            self._drop(family)
        while len(self._long) > self._window and (family := self._oldest(self._long)) and self._may_go(family):
            self._drop(family)
        while self._too_large and (family := self._oldest(self._short, newest) or self._oldest(self._long, newest)):
            self._drop(family)

    @property
    def _too_large(self) -> bool:
        return self.memory_bytes > self._most_bytes or self.file_bytes > _FILES * self._most_bytes

    def _oldest(self, queue: "OrderedDict[str, F]", newest: F | None = None) -> F | None:
        """The family that ended first of those that may be dropped; those before it are looked at last next time."""
        for _ in range(len(queue)):
            family = next(iter(queue.values()))
            if family is not newest and not self._in_use(family):
                return family
            queue.move_to_end(family.root)
        return None

    def _may_go(self, family: F) -> bool:
        return time.monotonic() - family.ended_at >= self._seconds or len(self._long) > _MOST_LONG * self._window
