"""A period as people write it, read into two moments.

Pure. All days are days in UTC, and the last day of a range belongs to it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from goalport.errors import BadInput

LENGTH = re.compile(
    r"(?:(?:the )?(?:last|past) )?(?:(\d{1,5}) ?)?(hours?|h|days?|d|weeks?|w|months?|mo|m|years?|yr?s?)"
)
EVERYTHING = ("", "all", "all time", "everything")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Period:
    """From `since` up to, but without, `until`; an end that is None is open."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def label(self) -> str:
        """The period in words; the last day is the last one that belongs to it."""
        last = self.until - timedelta(seconds=1) if self.until else None
        match self.since, last:
            case None, None:
                return "all time"
            case None, end:
                return f"until {end:%Y-%m-%d}"
            case start, None:
                return f"since {start:%Y-%m-%d}"
            case start, end:
                return f"{start:%Y-%m-%d} to {end:%Y-%m-%d}"

    def holds(self, moment: float) -> bool:
        """Whether a time stamp lies in the period."""
        after = self.since is None or moment >= self.since.timestamp()
        return after and (self.until is None or moment < self.until.timestamp())


def parse_period(text: str | None, now: datetime) -> Period:
    """Read a length before now, a first day, or a range of days; nothing at all means all time."""
    words = " ".join((text or "").lower().split())
    if words in EVERYTHING:
        return Period()
    try:
        period = _length(words, now) or _range(words)
    except (ValueError, OverflowError) as reason:
        raise _unreadable(text) from reason
    if period.since and period.until and period.since >= period.until:
        message = f"The period {text!r} ends before it begins. Write the earlier day first: 2026-01-01..2026-03-31."
        raise BadInput(message)
    return period


def _length(words: str, now: datetime) -> Period | None:
    found = LENGTH.fullmatch(words)
    if found is None:
        return None
    count, unit = int(found[1] or "1"), found[2]
    if unit.startswith("h"):
        return Period(now - timedelta(hours=count))
    if unit.startswith("m"):
        return Period(_months_before(now, count))
    if unit.startswith("y"):
        return Period(_months_before(now, 12 * count))
    return Period(now - timedelta(days=count * (7 if unit.startswith("w") else 1)))


def _months_before(now: datetime, count: int) -> datetime:
    """Go back by calendar months; 31 March minus one month is the last day of February."""
    month = now.year * 12 + now.month - 1 - count
    first = now.replace(year=month // 12, month=month % 12 + 1, day=1)
    next_month = (first + timedelta(days=31)).replace(day=1)
    return first.replace(day=min(now.day, (next_month - timedelta(days=1)).day))


def _range(words: str) -> Period:
    first, separator, last = re.sub(r" (?:to|until) ", "..", words).partition("..")
    if separator and not first.strip() and not last.strip():
        raise ValueError(words)
    return Period(_moment(first, days_later=0), _moment(last, days_later=1))


def _moment(text: str, days_later: int) -> datetime | None:
    """Read an ISO day or time; a bare day at the end of a range means the end of that day."""
    text = text.strip().upper()
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment + timedelta(days=days_later) if DAY.fullmatch(text) else moment


def _unreadable(text: str | None) -> BadInput:
    return BadInput(
        f"The period {text!r} cannot be read. Give a length (30d, 6 months), a first day (2026-01-01) or a range of"
        " days (2026-01-01..2026-03-31); leave it out for all time."
    )
