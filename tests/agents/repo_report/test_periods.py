"""Periods as people write them."""

from datetime import UTC, datetime

import pytest

from agents.repo_report.period import parse_period

NOW = datetime(2026, 3, 31, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("30d", "2026-03-01T10:30"),
        ("1 day", "2026-03-30T10:30"),
        ("2 weeks", "2026-03-17T10:30"),
        ("12h", "2026-03-30T22:30"),
        ("6 months", "2025-09-30T10:30"),
        ("1mo", "2026-02-28T10:30"),
        ("last month", "2026-02-28T10:30"),
        ("the past 2 Years", "2024-03-31T10:30"),
        ("2026-01-01", "2026-01-01T00:00"),
        ("2026-01-01..", "2026-01-01T00:00"),
        ("2026-01-01T08:00+02:00", "2026-01-01T06:00"),
    ],
)
def test_a_length_or_a_first_day_begins_a_period_that_is_still_open(text: str, since: str) -> None:
    period = parse_period(text, NOW)
    assert (period.since, period.until) == (datetime.fromisoformat(since).replace(tzinfo=UTC), None)
    assert period.label == f"since {since[:10]}"


@pytest.mark.parametrize("text", ["2026-01-01..2026-03-31", " 2026-01-01 .. 2026-03-31", "2026-01-01 to 2026-03-31"])
def test_a_range_holds_its_last_day(text: str) -> None:
    period = parse_period(text, NOW)
    assert period.label == "2026-01-01 to 2026-03-31"
    assert period.holds(datetime(2026, 3, 31, 23, 59, tzinfo=UTC).timestamp())
    assert not period.holds(datetime(2026, 4, 1, tzinfo=UTC).timestamp())
    assert not period.holds(datetime(2025, 12, 31, 23, 59, tzinfo=UTC).timestamp())


def test_a_range_may_have_no_beginning() -> None:
    assert parse_period("..2026-01-31", NOW).label == "until 2026-01-31"


@pytest.mark.parametrize("text", [None, "", "  ", "all", "All time"])
def test_no_period_is_all_time(text: str | None) -> None:
    period = parse_period(text, NOW)
    assert (period.since, period.until, period.label) == (None, None, "all time")
