"""Where horoscopes come from: a protocol, and an almanac that needs no network.

Put a service of your own in its place with `StarNewsFinder(MyHoroscopes())`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import sha256
from typing import Final, Protocol

from .people import Sign

__all__ = ["Almanac", "HoroscopeService"]


class HoroscopeService(Protocol):
    """Knows what the stars say."""

    async def daily(self, sign: Sign, /) -> str:
        """Today's horoscope of a sign, a few sentences."""
        ...


_OPENINGS: Final = (
    "The moon takes your side today, if quietly.",
    "Mercury hurries, and you need not.",
    "Venus lends you a patience that you did not know you had.",
    "Saturn asks for order, and your desk hears him.",
    "Mars gives you more energy than plans.",
    "Jupiter is generous, mostly with advice.",
    "Neptune blurs the small print: read it twice.",
)
_MATTERS: Final = (
    "Something that you mended long ago proves its worth.",
    "A question that you put off answers itself before noon.",
    "Somebody far away does what you only talked about.",
    "Old tools do well what new ones promise.",
    "A number that seems wrong is right, and the other way round.",
    "An animal, a child or a machine teaches you something.",
    "What grows slowly near you is worth a second look.",
    "A journey is discussed; the shorter one is the better one.",
)
_COUNSELS: Final = (
    "Say yes to the second offer.",
    "Leave the last word to somebody else.",
    "Look up more often than down.",
    "Spend an hour on what nobody asked of you.",
    "Do not sign what rhymes.",
    "Water the plants first.",
    "Be early once, and see who else is.",
    "Keep the receipt.",
    "Laugh before you reply.",
)


def _today() -> date:
    return datetime.now(UTC).date()


@dataclass(frozen=True, slots=True)
class Almanac:
    """Horoscopes that were written long ago: the same for a sign all day, and another one tomorrow."""

    today: Callable[[], date] = _today

    async def daily(self, sign: Sign, /) -> str:
        """An opening, a matter and a counsel, drawn by sign and day."""
        drawn = sha256(f"{sign} {self.today().isoformat()}".encode()).digest()
        parts: Sequence[Sequence[str]] = (_OPENINGS, _MATTERS, _COUNSELS)
        return " ".join(lines[number % len(lines)] for lines, number in zip(parts, drawn, strict=False))
