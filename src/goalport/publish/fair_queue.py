"""The places of a server, and the fair queue of those who wait for one. It knows no calls; `limits` is above."""

import asyncio
from collections import Counter, OrderedDict, deque
from typing import Final

__all__ = ["FairQueue", "Who"]

Who = tuple[str, str]
"""A caller: its issuer and its id."""


class FairQueue:
    """So many places. Callers who wait for one take turns, and each takes its turns in the order in which it came.

    So the place after next is another caller's, however many calls of one caller wait.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._lines: Final[OrderedDict[Who, deque[asyncio.Future[None]]]] = OrderedDict()
        """Those who wait, by caller; the caller whose turn is next comes first."""

    def take(self) -> bool:
        """Take a place, if one is free for which nobody waits."""
        if self._free <= 0 or self._lines:
            return False
        self._free -= 1
        return True

    @property
    def waiting(self) -> Counter[Who]:
        """How many places each caller waits for."""
        return Counter({who: len(line) for who, line in self._lines.items()})

    def length(self, who: Who) -> int:
        """How many places one caller waits for."""
        return len(self._lines.get(who, ()))

    async def wait(self, who: Who) -> None:
        """Wait until a place is this caller's."""
        place = asyncio.get_running_loop().create_future()
        self._lines.setdefault(who, deque()).append(place)
        self._hand_on()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()
            else:
                self._take_out(who, place)
            raise

    def leave(self) -> None:
        """Give a place back, to whoever's turn it is."""
        self._free += 1
        self._hand_on()

    def _hand_on(self) -> None:
        while self._free > 0 and self._lines:
            who, line = self._lines.popitem(last=False)
            place = line.popleft()
            if line:
                self._lines[who] = line
            if not place.done():
                self._free -= 1
                place.set_result(None)

    def _take_out(self, who: Who, place: "asyncio.Future[None]") -> None:
        line = self._lines.get(who)
        if line is not None and place in line:
            line.remove(place)
            if not line:
                del self._lines[who]
