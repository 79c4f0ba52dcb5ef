"""What a model cannot know or often gets wrong about time: functions that are published as they are."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from difflib import get_close_matches
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field

from goalport import tool
from goalport.errors import ToolError


@dataclass(frozen=True)
class Moment:
    """A point in time as people in one place read it."""

    zone: str
    iso: Annotated[str, Field(description="Date, time and offset from UTC in ISO 8601.")]
    weekday: str


@dataclass(frozen=True)
class Span:
    """What lies between two dates."""

    days: Annotated[int, Field(description="Negative when the second date is the earlier one.")]
    weeks: Annotated[int, Field(description="Whole weeks, never negative.")]
    remaining_days: Annotated[int, Field(description="Days beyond the whole weeks.")]


@tool(export=True, title="Current time", read_only=True, open_world=False)
def current_time(zone: str = "UTC") -> Moment:
    """Get the current date, time and day of the week in a time zone.

    Use it whenever the answer depends on today's date: a model does not know what day it is.

    Args:
        zone: A name from the IANA time zone database, such as "Europe/Madrid".
    """
    now = datetime.now(_zone(zone)).replace(microsecond=0)
    return Moment(zone, now.isoformat(), now.strftime("%A"))


@tool(export=True, title="Days between two dates", read_only=True, idempotent=True, open_world=False)
def days_between(first: date, second: date) -> Span:
    """Count the days from one date to another, leap years included; the first day does not count, the last does.

    Args:
        first: The date to count from, as YYYY-MM-DD.
        second: The date to count to, as YYYY-MM-DD.
    """
    days = (second - first).days
    return Span(days, abs(days) // 7, abs(days) % 7)


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # a machine without a time zone database has this one all the same
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = ", ".join(get_close_matches(name, available_timezones(), n=3))
        offer = f"Did you mean {near}?" if near else "Use a name such as America/Lima, or UTC."
        raise ToolError(f"There is no time zone {name!r}. {offer}") from None
