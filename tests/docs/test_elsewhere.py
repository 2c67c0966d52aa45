"""What the page about schedules says of other programs, and what to write here instead."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import WEEKLY, rrule, rrulestr

from anarchon import ConfigurationError, Cron, Every, RRule, either
from tests.docs.pages import coded, rows, text_of

CITIES = ("Berlin", "Athens")
START = datetime(2026, 1, 1, tzinfo=UTC)


def ours(schedule, count: int, start: datetime = START) -> list[datetime]:
    found = []
    while len(found) < count:
        found.append(start := schedule.next_after(start))
    return found


def theirs(text: str, count: int) -> list[datetime]:
    return [slot.replace(tzinfo=UTC) for slot in islice(rrulestr(text), count)]


# What dateutil reads in another way than RFC 5545.
WEEK = "DTSTART:20260101T090000\nRRULE:FREQ=YEARLY;BYWEEKNO=20"
FIRST = "DTSTART:20260107T090000\nRRULE:FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1"


def test_a_week_without_a_day_means_the_weekday_of_the_start():
    assert [slot.day for slot in theirs(WEEK, 7)] == [11, 12, 13, 14, 15, 16, 17]
    slots = ours(RRule(WEEK), 3)
    assert {slot.isoweekday() for slot in slots} == {START.isoweekday()}
    assert {slot.isocalendar().week for slot in slots} == {20}
    with_day = f"{WEEK};BYDAY=TH"
    assert ours(RRule(with_day), 20) == theirs(with_day, 20) == ours(RRule(WEEK), 20)


def test_positions_count_in_the_whole_first_week():
    # Of the week of DTSTART, the first day that the rule names is the Monday before it.
    assert [slot.day for slot in theirs(FIRST, 2)] == [7, 12]
    assert [slot.day for slot in ours(RRule(FIRST), 2)] == [12, 19]
    assert ours(RRule(FIRST), 20) == theirs(FIRST, 21)[1:]


def test_the_text_of_an_rrule_object_is_a_recurrence():
    rule = rrule(WEEKLY, interval=2, dtstart=datetime(2026, 1, 5, 9))  # noqa: DTZ001 - local
    assert ours(RRule(str(rule)), 20) == theirs(str(rule), 20)


def test_the_text_of_an_rrule_object_has_no_zone_and_a_start_of_its_own():
    aware = rrule(WEEKLY, dtstart=datetime(2026, 1, 5, 9, tzinfo=ZoneInfo("Europe/Berlin")))
    [slot] = ours(RRule(str(aware), timezone="Europe/Berlin"), 1)
    assert (slot.day, slot.hour) == (5, 8)
    assert RRule(str(aware)).timezone == "UTC"
    before = datetime.now().replace(microsecond=0)  # noqa: DTZ005 - as dateutil does
    begun = RRule(str(rrule(WEEKLY))).text.partition("\n")[0]
    assert f"DTSTART:{before:%Y%m%dT%H%M%S}" <= begun


@pytest.mark.parametrize("method", ["between", "except_on"])
def test_zones_of_what_is_combined(method):
    """No zone, one zone and none, two zones: as the page says."""
    alone, berlin, athens = Every("1h"), *(Cron("0 * * * *", f"Europe/{c}") for c in CITIES)

    def start(schedule):
        if method == "between":
            return ours(schedule.between("2026-07-02T00:00"), 1)[0]
        # The slots after a day that is left out; all of these have one each hour.
        before = datetime(2026, 7, 1, 12, tzinfo=UTC)
        return ours(schedule.except_on(["2026-07-01"]), 1, before)[0]

    assert start(either(alone, berlin)) == start(berlin) == datetime(2026, 7, 1, 22, tzinfo=UTC)
    with pytest.raises(ConfigurationError, match="between" if method == "between" else "timezone="):
        start(either(berlin, athens))
    if method == "between":
        with pytest.raises(ConfigurationError, match="offset"):
            start(alone)
    else:
        assert start(alone) == datetime(2026, 7, 2, tzinfo=UTC)


def test_ninety_minutes_from_ten_past_midnight():
    turns = either(*map(Cron, coded_in("10 0-23/3 * * *", "40 1-23/3 * * *")))
    slots = ours(turns, 100)
    assert (slots[0].hour, slots[0].minute) == (0, 10)
    assert {later - sooner for sooner, later in pairwise(slots)} == {
        ours(Every("90m"), 2)[1] - ours(Every("90m"), 1)[0]
    }


def coded_in(*texts: str) -> tuple[str, ...]:
    """Return expressions that the page has."""
    assert all(f'"{text}"' in text_of("schedules.md") for text in texts)
    return texts


def test_what_the_table_names_is_there():
    """Options of a job, and methods of a schedule; and `jitter` moves no slot."""
    from anarchon import JobOptions

    here = " ".join(row[1] for row in rows("schedules.md", "if you come from", "mind that"))
    names = {name.partition("=")[0] for name in coded(here)}
    assert {"catch_up", "overlap", "jitter"} <= set(JobOptions.__annotations__) & names
    assert {"between", "every"} <= names
    assert "args" not in JobOptions.__annotations__
    assert hasattr(Every("1m"), "between")
    assert not hasattr(Every("1m"), "jitter")


def test_intervals_take_no_start():
    with pytest.raises(TypeError):
        Every("90m", start=START)


@pytest.mark.parametrize("name", ["W. Europe Standard Time", "Romance Standard Time"])
def test_zones_of_windows_have_to_be_replaced(name):
    text = f"DTSTART;TZID={name}:20260105T090000\nRRULE:FREQ=DAILY"
    with pytest.raises(ConfigurationError, match="Standard Time"):
        RRule(text)
    replaced = text.replace(name, "Europe/Berlin")
    assert ours(RRule(text, timezone="Europe/Berlin"), 9) == ours(RRule(replaced), 9)


def test_the_longest_text():
    line = "DTSTART:20260101T000000"
    assert RRule(line + " " * (4096 - len(line)))
    assert "at most 4096 characters" in text_of("schedules.md")
    with pytest.raises(ConfigurationError, match="4096"):
        RRule(line + " " * (4097 - len(line)))
