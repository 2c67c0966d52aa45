"""The tables about cron: the nights in which clocks change, what fields take, what is refused."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from anarchon import ConfigurationError, Cron
from anarchon._schedules_cron import parse
from tests.docs.pages import coded, rows

NIGHTS = rows("schedules.md", "zone", "date", "the clock goes")
REFUSED = rows("schedules.md", "refused", "why")
START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def slots(schedule: Cron, start: datetime, end: datetime):
    """Yield the slots from a time on, before another."""
    t = schedule.next_after(start - timedelta(milliseconds=1))
    while t is not None and t < end:
        yield t
        t = schedule.next_after(t)


def clock(moment: datetime) -> str:
    """Return the time of day and the offset, as the table writes them."""
    text = moment.strftime("%H:%M%z")
    return f"{text[:-2]}:{text[-2:]}"


def first(schedule: Cron, count: int) -> list[str]:
    """Return the first slots of 2026 as dates."""
    found = slots(schedule, START, START.replace(year=2031))
    return [f"{slot:%m-%d}" for slot in itertools.islice(found, count)]


def test_there_are_nights_of_both_kinds_in_several_zones():
    assert len(NIGHTS) == 15
    assert len({row[0] for row in NIGHTS}) == 5
    assert {row[4] for row in NIGHTS} == {"fixed", "wildcard"}


@pytest.mark.parametrize("row", NIGHTS, ids=lambda row: f"{row[0]} {row[1]} {row[3]}")
def test_the_slots_of_a_night(row):
    zone, expression = coded(row[0])[0], coded(row[3])[0]
    midnight = datetime.fromisoformat(row[1]).replace(tzinfo=ZoneInfo(zone))
    start, end = midnight.astimezone(UTC), midnight.replace(hour=6).astimezone(UTC)
    found = [slot.astimezone(ZoneInfo(zone)) for slot in slots(Cron(expression, zone), start, end)]
    assert ", ".join(clock(slot) for slot in found) == row[5]


@pytest.mark.parametrize("row", NIGHTS, ids=lambda row: f"{row[0]} {row[1]} {row[3]}")
def test_the_kind_of_a_job(row):
    assert parse(coded(row[3])[0]).wildcard == (row[4] == "wildcard")


@pytest.mark.parametrize("row", NIGHTS, ids=lambda row: f"{row[0]} {row[1]} {row[3]}")
def test_where_the_clock_goes(row):
    """Go through the night by the minute, and find where the time of day jumps."""
    zone = ZoneInfo(coded(row[0])[0])
    t = datetime.fromisoformat(row[1]).replace(tzinfo=zone).astimezone(UTC)
    jumps = []
    for _ in range(6 * 60):
        old, new = t.astimezone(zone), (t + MINUTE).astimezone(zone)
        if old.utcoffset() != new.utcoffset():
            meant = old.replace(tzinfo=None) + MINUTE
            jumps.append(f"{meant:%H:%M} to {new:%H:%M}")
        t += MINUTE
    assert jumps == [row[2]]


@pytest.mark.parametrize("expression", [text for row in REFUSED for text in coded(row[0])])
def test_what_is_refused(expression):
    with pytest.raises(ConfigurationError):
        Cron(expression)


def test_the_values_of_fields():
    """Each end of a range is a value, and what lies beyond is none."""
    names = {"second": 0, "minute": 1, "hour": 2, "day of month": 3, "month": 4, "weekday": 5}
    for name, values in (row[:2] for row in rows("schedules.md", "field", "values")):
        low, high = map(int, values.partition(" ")[0].rstrip(";").split("-"))
        fields = ["*"] * 7
        place = names.get(name, 6)
        for value in (low, high):
            fields[place] = str(value)
            Cron(" ".join(fields))
        for value in {low - 1, high + 1}:
            fields[place] = str(value)
            with pytest.raises(ConfigurationError):
                Cron(" ".join(fields))


MEANINGS = {
    "*": ("minute", "0-59"),
    "5": ("minute", "5"),
    "1-5": ("minute", "1,2,3,4,5"),
    "22-2": ("hour", "22,23,0,1,2"),
    "fri-mon": ("weekday", "5,6,0,1"),
    "nov-feb": ("month", "11,12,1,2"),
    "*/15": ("minute", "0,15,30,45"),
    "8-18/2": ("hour", "8,10,12,14,16,18"),
    "10/20": ("minute", "10,30,50"),
    "1,15,20-25": ("minute", "1,15,20,21,22,23,24,25"),
}


def test_every_form_means_what_the_table_says():
    shown = [text for row in rows("schedules.md", "text", "means") for text in coded(row[0])]
    assert set(MEANINGS) <= {*shown, "22-2", "fri-mon", "nov-feb"}
    assert set(shown) <= set(MEANINGS)
    places = {"minute": 0, "hour": 1, "month": 3, "weekday": 4}
    for text, (field, plain) in MEANINGS.items():
        both, end = [], START + timedelta(days=400 if field == "month" else 15)
        for value in (text, plain):
            fields = ["0", "0", "*", "*", "*"]
            fields[places[field]] = value
            both.append(list(slots(Cron(" ".join(fields)), START, end)))
        assert both[0] == both[1], text
        assert both[0], text


@pytest.mark.parametrize(
    ("day", "weekday", "dates"),
    [
        ("?", "mon", ["01-05", "01-12", "01-19"]),
        ("L", "*", ["01-31", "02-28", "03-31"]),
        ("L-3", "*", ["01-28", "02-25", "03-28"]),
        ("15W", "*", ["01-15", "02-16", "03-16"]),
        ("LW", "*", ["01-30", "02-27", "03-31"]),
        ("*", "mon#1", ["01-05", "02-02", "03-02"]),
        ("*", "5L", ["01-30", "02-27", "03-27"]),
        ("*", "L5", ["01-30", "02-27", "03-27"]),
        ("1,15W,L", "*", ["01-01", "01-15", "01-31", "02-01", "02-16"]),
        ("*", "mon#1,tue", ["01-05", "01-06", "01-13"]),
        ("13", "5", ["01-02", "01-09", "01-13", "01-16"]),
        ("*/2", "1", ["01-01", "01-03", "01-05", "01-07"]),
    ],
)
def test_day_fields(day, weekday, dates):
    assert first(Cron(f"0 0 {day} * {weekday}"), len(dates)) == dates


def test_steps_count_from_the_start_of_their_field():
    minutes = [
        slot.minute
        for slot in itertools.islice(slots(Cron("*/7 * * * *"), START, START.replace(day=2)), 10)
    ]
    assert minutes == [0, 7, 14, 21, 28, 35, 42, 49, 56, 0]
    assert parse("*/90 * * * *").minutes == (0,)


def test_years_that_are_past():
    past = Cron("0 0 0 1 1 * 2020-2022")
    assert past.next_after(START) is None


def test_what_the_page_says_of_croniter():
    first_of_all = croniter("* * * * * 10", START).get_next(datetime)
    assert first_of_all == START + timedelta(seconds=10)
    assert croniter.is_valid("R 8 * * *")
    assert croniter.is_valid("H 8 * * *", hash_id="any")


def test_a_two_hourly_job_of_fixed_times_runs_in_the_gap():
    """As the page advises where a slot must not be skipped."""
    expression = "30 0,2,4,6,8,10,12,14,16,18,20,22 * * *"
    night = datetime(2026, 3, 28, 23, tzinfo=UTC)
    found = list(slots(Cron(expression, "Europe/Berlin"), night, night + timedelta(hours=4)))
    assert [f"{slot:%H:%M}" for slot in found] == ["23:30", "01:00", "02:30"]
