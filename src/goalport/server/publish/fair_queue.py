"""The places of a server, and the fair queue of those who wait for one. It knows no calls; `limits` is above."""

import asyncio
from collections import Counter, OrderedDict, deque
from typing import Final

Who = tuple[str, str]
"""A caller: its issuer and its id."""
_KEPT_SECONDS: Final = 1.0
_MOST_KEPT: Final = 4 / 5
"""The share of the places that may be kept: of a thousand callers who came in the last second, few come at once."""


class FairQueue:
    """So many places. Callers who wait for one take turns, and each takes its turns in the order in which it came.

    So the place after next is another caller's, however many calls of one caller wait. For a caller whose last call has
    just been answered a place is kept for `seconds`, as it will call again; who has a place already gets no such one.
    """

    def __init__(self, places: int, seconds: float = _KEPT_SECONDS) -> None:
        self._free = places
        self._most_kept = int(places * _MOST_KEPT)
        self._seconds = seconds
        self._held: Final[Counter[Who]] = Counter()
        """How many places each caller has."""
        self._lines: Final[OrderedDict[Who, deque[asyncio.Future[None]]]] = OrderedDict()
        """Those who wait, by caller; the caller whose turn is next comes first."""
        self._away: Final[OrderedDict[Who, float]] = OrderedDict()
        """Until when a place is kept for callers who neither have one nor wait; the first ends first."""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, who: Who) -> bool:
        """Take a place, if one is free for this caller."""
        if who in self._lines or not self._may_take(who, self._spare()):
            return False
        self._give(who)
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
                self.leave(who)
            else:
                self._take_out(who, place)
            raise

    def leave(self, who: Who) -> None:
        """Give a place of this caller back, to whoever's turn it is."""
        self._free += 1
        self._held[who] -= 1
        if not self._held[who]:
            del self._held[who]
            if who not in self._lines:
                self._away[who] = asyncio.get_running_loop().time() + self._seconds
        self._hand_on()

    def _spare(self) -> int:
        """How many places are free besides those that are kept."""
        if self._away:
            now = asyncio.get_running_loop().time()
            while self._away and next(iter(self._away.values())) <= now:
                self._away.popitem(last=False)
        return self._free - min(len(self._away), self._most_kept)

    def _may_take(self, who: Who, spare: int) -> bool:
        return spare > 0 or (self._free > 0 and who not in self._held)

    def _give(self, who: Who) -> None:
        self._free -= 1
        self._held[who] += 1
        self._away.pop(who, None)

    def _hand_on(self) -> None:
        while self._free > 0 and self._lines:
            spare = self._spare()
            who = next((each for each in self._lines if self._may_take(each, spare)), None)
            if who is None:
                self._hand_on_later()
                return
            line = self._lines.pop(who)
            place = line.popleft()
            if line:
                self._lines[who] = line
            if not place.done():
                self._give(who)
                place.set_result(None)

    def _hand_on_later(self) -> None:
        """Hand on when the first place is no longer kept."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(next(iter(self._away.values())), self._end_keeping)

    def _end_keeping(self) -> None:
        self._timer = None
        self._hand_on()

    def _take_out(self, who: Who, place: "asyncio.Future[None]") -> None:
        line = self._lines.get(who)
        if line is not None and place in line:
            line.remove(place)
            if not line:
                del self._lines[who]
