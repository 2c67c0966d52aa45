"""Which dates a cron expression names."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anarchon.schedules import Cron
from tests.definitions.cron_examples import DAY, MINUTE, at, define, expressions


def days(expression: str, start: str, count: int) -> list[str]:
    """Return the dates of the next slots, in UTC."""
    cron, t, found = Cron(expression), at(f"{start}T00:00:00Z") - timedelta(seconds=1), []
    for _ in range(count):
        t = cron.next_after(t)
        found.append(t.date().isoformat())
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 13 * 5", ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]),
        ("0 0 29 2 1", ["2026-02-02", "2026-02-09", "2026-02-16", "2026-02-23"]),
        ("0 0 31 2 1", ["2026-02-02", "2026-02-09", "2026-02-16", "2026-02-23"]),
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29", "2040-02-29"]),
        ("0 0 L * *", ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"]),
        ("0 0 l-30 * *", ["2026-01-01", "2026-03-01", "2026-05-01", "2026-07-01"]),
        ("0 0 L-28 2 *", ["2028-02-01", "2032-02-01", "2036-02-01", "2040-02-01"]),
        ("0 0 LW 1-4 *", ["2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30"]),
        ("0 0 1W * *", ["2026-01-01", "2026-02-02", "2026-03-02", "2026-04-01"]),
        ("0 0 1W 8 *", ["2026-08-03", "2027-08-02", "2028-08-01", "2029-08-01"]),
        ("0 0 31W * *", ["2026-01-30", "2026-03-31", "2026-05-29", "2026-07-31"]),
        ("0 0 1,15W * *", ["2026-01-01", "2026-01-15", "2026-02-01", "2026-02-16"]),
        ("0 0 L,LW 2,5 *", ["2026-02-27", "2026-02-28", "2026-05-29", "2026-05-31"]),
        ("0 0 * * mon#1,tue", ["2026-01-05", "2026-01-06", "2026-01-13", "2026-01-20"]),
        ("0 0 * * 5#5", ["2026-01-30", "2026-05-29", "2026-07-31", "2026-10-30"]),
        ("0 0 * 2 5#5", ["2036-02-29", "2064-02-29", "2092-02-29", "2104-02-29"]),
        ("0 0 * * friL", ["2026-01-30", "2026-02-27", "2026-03-27", "2026-04-24"]),
        ("0 0 * * L7,1L", ["2026-01-25", "2026-01-26", "2026-02-22", "2026-02-23"]),
        ("0 0 L-30 2 1#1", ["2026-02-02", "2027-02-01", "2028-02-07", "2029-02-05"]),
    ],
)
def test_dates(expression, expected):
    # BR-135
    assert days(expression, "2026-01-01", 4) == expected


def test_backwards_to_the_last_second_before_a_day_that_does_not_match():
    # The walk proposes Saturday the 31st, which is no last weekday of the month.
    cron = Cron("59 59 23 LW * *")
    assert cron.latest(at("2026-02-10T00:00:00Z")) == at("2026-01-30T23:59:59Z")


def test_years_in_the_past_are_valid_and_have_no_more_slots():
    # BR-136
    cron = Cron("0 0 0 1 1 * 2019,2020")
    assert cron.next_after(at("2026-01-01T00:00:00Z")) is None
    assert cron.latest(at("2026-01-01T00:00:00Z")) == at("2020-01-01T00:00:00Z")
    assert cron.latest(at("2018-12-31T00:00:00Z")) is None
    assert cron.next_after(at("1900-01-01T00:00:00Z")) == at("2019-01-01T00:00:00Z")


@settings(max_examples=30, deadline=None)
@given(expressions(), st.dates(date(1999, 1, 1), date(2110, 1, 1)), st.integers(0, 86_399))
def test_the_calendar_agrees_with_counting_days(expression, start, second):
    text, times, on, _ = expression
    cron = define(text)
    begin = datetime(start.year, start.month, start.day, tzinfo=UTC) + timedelta(seconds=second)
    end = begin + 70 * DAY
    expected = [
        slot
        for n in range(71)
        if on(start + n * DAY)
        for hour, minute in times
        for slot in [datetime.combine(start + n * DAY, datetime.min.time(), UTC)]
        for slot in [slot + timedelta(hours=hour, minutes=minute)]
        if begin < slot <= end
    ]
    if cron is None:
        assert not expected
        return
    chosen = [*expected[:30], *expected[30::97]]
    for before, slot in itertools.pairwise([None, *expected]):
        if slot in chosen:
            assert cron.next_after(slot - MINUTE / 60 if before is None else before) == slot
            assert cron.latest(slot) == slot
            assert cron.latest(slot - timedelta(microseconds=1)) in (before, cron.latest(begin))
    first, last = cron.next_after(begin), cron.latest(end)
    assert first == expected[0] if expected else first is None or first > end
    assert last == expected[-1] if expected else last is None or last <= begin
