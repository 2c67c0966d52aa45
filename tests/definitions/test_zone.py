"""What a zone says of its clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from anarchon._schedules_wall import Shift, load_zone


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def test_the_clock_changes_of_a_year():
    shifts = load_zone("Europe/Athens").shifts(at("2026-01-01T00:00Z"), at("2027-01-01T00:00Z"))
    assert list(shifts) == [
        Shift(at("2026-03-29T01:00Z"), 7200, 10800),
        Shift(at("2026-10-25T01:00Z"), 10800, 7200),
    ]


def test_a_change_at_the_end_counts_and_one_at_the_start_does_not():
    zone, change = load_zone("Europe/Athens"), at("2026-03-29T01:00Z")
    assert [shift.at for shift in zone.shifts(change - 1, change)] == [change]
    assert list(zone.shifts(change, change + 86_400)) == []
    assert list(zone.shifts(change - 86_400, change - 1)) == []
    assert list(zone.shifts(change, change)) == []


@pytest.mark.parametrize(
    ("key", "changes"),
    [("UTC", 0), ("Asia/Gaza", 4), ("Africa/Casablanca", 2), ("Asia/Kathmandu", 0)],
)
def test_changes_a_week_apart_are_all_found(key, changes):
    zone = load_zone(key)
    found = list(zone.shifts(at("2040-01-01T00:00Z"), at("2041-01-01T00:00Z")))
    assert len(found) == changes


@pytest.mark.parametrize("key", ["America/Noronha", "Asia/Gaza", "Australia/Lord_Howe"])
def test_every_change_since_1970_is_found(key):
    """Look at each half hour, as changes are at whole half hours there."""
    tz, zone = ZoneInfo(key), load_zone(key)
    start = datetime(1998, 1, 1, tzinfo=UTC)
    half_hours = [start + timedelta(minutes=30 * n) for n in range(5 * 366 * 48)]
    offsets = [moment.astimezone(tz).utcoffset() for moment in half_hours]
    expected = [
        int(moment.timestamp())
        for moment, before, now in zip(half_hours[1:], offsets, offsets[1:], strict=False)
        if before != now
    ]
    found = zone.shifts(int(start.timestamp()), int(half_hours[-1].timestamp()))
    assert [shift.at for shift in found] == expected


def test_the_abbreviation():
    zone = load_zone("Europe/Athens")
    assert zone.name(at("2026-03-29T00:59:59Z")) == "EET"
    assert zone.name(at("2026-03-29T01:00:00Z")) == "EEST"
    assert load_zone("UTC").name(0) == "UTC"
