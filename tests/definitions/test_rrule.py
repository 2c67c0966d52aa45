"""Recurrences of RFC 5545: what they mean, and what is refused."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from anarchon import MemoryBackend, Once, RRule, Scheduler, rrule
from anarchon.schedules import rrule_in
from tests.definitions.cron_examples import at

MONTHLY = "DTSTART:20260131T090000\nRRULE:FREQ=MONTHLY"
BEGIN = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=1)


def slots(text, count=4, timezone=None, after=BEGIN):
    """Return the next slots, as short text in UTC."""
    schedule, found = RRule(text, timezone), []
    while len(found) < count and (after := schedule.next_after(after)) is not None:
        found.append(after.strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00"))
    return found


def rule(parts, start="20260105T090000"):
    return f"DTSTART:{start}\nRRULE:{parts}"


# --- what a rule means ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ("FREQ=DAILY", ["2026-01-05 09:00", "2026-01-06 09:00", "2026-01-07 09:00"]),
        ("FREQ=DAILY;INTERVAL=10", ["2026-01-05 09:00", "2026-01-15 09:00", "2026-01-25 09:00"]),
        ("FREQ=DAILY;BYMONTH=3", ["2026-03-01 09:00", "2026-03-02 09:00", "2026-03-03 09:00"]),
        ("FREQ=DAILY;BYHOUR=9,17;BYSETPOS=-1", ["2026-01-05 17:00", "2026-01-06 17:00"]),
        ("FREQ=WEEKLY", ["2026-01-05 09:00", "2026-01-12 09:00", "2026-01-19 09:00"]),
        ("FREQ=WEEKLY;BYDAY=TU,SU", ["2026-01-06 09:00", "2026-01-11 09:00", "2026-01-13 09:00"]),
        # From the RFC: the day on which a week starts changes which weeks are taken.
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=MO", ["2026-01-06 09:00", "2026-01-11 09:00"]),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU", ["2026-01-06 09:00", "2026-01-18 09:00"]),
        # BYSETPOS counts in the whole week, also where it began before DTSTART.
        ("FREQ=WEEKLY;BYDAY=SU,WE,SA;WKST=SU;BYSETPOS=1", ["2026-01-11 09:00"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", ["2026-01-31 09:00", "2026-02-28 09:00"]),
        ("FREQ=MONTHLY;BYMONTHDAY=31", ["2026-01-31 09:00", "2026-03-31 09:00"]),
        ("FREQ=MONTHLY;BYDAY=2TU,-1FR", ["2026-01-13 09:00", "2026-01-30 09:00"]),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", ["2026-02-13 09:00", "2026-03-13 09:00"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", ["2026-01-30 09:00"]),
        ("FREQ=MONTHLY;INTERVAL=18", ["2026-01-05 09:00", "2027-07-05 09:00", "2029-01-05 09:00"]),
        ("FREQ=YEARLY", ["2026-01-05 09:00", "2027-01-05 09:00"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", ["2028-02-29 09:00", "2032-02-29 09:00"]),
        ("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", ["2026-11-26 09:00", "2027-11-25 09:00"]),
        ("FREQ=YEARLY;BYDAY=20MO", ["2026-05-18 09:00", "2027-05-17 09:00"]),
        ("FREQ=YEARLY;BYYEARDAY=1,100,-1", ["2026-04-10 09:00", "2026-12-31 09:00"]),
        # The weekday of DTSTART, a Monday, as for everything that a rule leaves open.
        ("FREQ=YEARLY;BYWEEKNO=20", ["2026-05-11 09:00", "2027-05-17 09:00"]),
        ("FREQ=HOURLY;INTERVAL=5", ["2026-01-05 09:00", "2026-01-05 14:00", "2026-01-05 19:00"]),
        ("FREQ=HOURLY;BYMINUTE=0,30", ["2026-01-05 09:00", "2026-01-05 09:30"]),
        ("FREQ=HOURLY;INTERVAL=36;BYHOUR=9", ["2026-01-05 09:00", "2026-01-08 09:00"]),
        ("FREQ=DAILY;COUNT=2", ["2026-01-05 09:00", "2026-01-06 09:00"]),
        ("FREQ=DAILY;UNTIL=20260106T090000", ["2026-01-05 09:00", "2026-01-06 09:00"]),
        ("FREQ=DAILY;BYSECOND=7;COUNT=1", ["2026-01-05 09:00:07"]),
        ("freq=daily;count=1", ["2026-01-05 09:00"]),
    ],
)
def test_a_rule(parts, expected):
    ends = "COUNT" in parts.upper() or "UNTIL" in parts
    assert slots(rule(parts), len(expected) + ends) == expected


def test_days_that_a_month_does_not_have_are_left_out():
    assert slots(MONTHLY, 3) == ["2026-01-31 09:00", "2026-03-31 09:00", "2026-05-31 09:00"]


def test_dates_are_added_and_left_out():
    text = (
        "DTSTART:20260105T090000\nRRULE:FREQ=WEEKLY;COUNT=4\n"
        "RDATE:20260106T100000,20260112T090000\nEXDATE:20260119T090000\nEXDATE:20300101T000000"
    )
    expected = ["2026-01-05 09:00", "2026-01-06 10:00", "2026-01-12 09:00", "2026-01-26 09:00"]
    assert slots(text, 9) == expected
    schedule = RRule(text)
    assert schedule.latest(at("2026-01-25T00:00:00Z")) == at("2026-01-12T09:00:00Z")
    assert schedule.latest(at("2026-01-06T10:00:00Z")) == at("2026-01-06T10:00:00Z")
    assert schedule.latest(at("2026-01-05T08:59:59Z")) is None


def test_without_a_rule_the_first_time_is_a_slot():
    assert slots("DTSTART:20260105T090000", 9) == ["2026-01-05 09:00"]
    text = "DTSTART:20260105T090000\nRDATE:20260104T090000"
    assert slots(text, 9) == ["2026-01-04 09:00", "2026-01-05 09:00"]


def test_a_first_time_that_the_rule_does_not_name_is_no_slot():
    assert slots(rule("FREQ=WEEKLY;BYDAY=WE"), 1) == ["2026-01-07 09:00"]


def test_dates_without_a_time_are_midnights():
    text = (
        "DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;UNTIL=20260108\nEXDATE;VALUE=DATE:20260106"
    )
    expected = ["2026-01-04 22:00", "2026-01-06 22:00", "2026-01-07 22:00"]
    assert slots(text, 9, "Europe/Athens") == expected


def test_slots_end_with_one_cycle_of_the_calendar():
    schedule = RRule(rule("FREQ=YEARLY"))
    last = at("2369-01-05T09:00:00Z")
    assert schedule.latest(datetime.max.replace(tzinfo=UTC)) == last
    assert schedule.next_after(last) is None
    assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert schedule.latest(datetime.min.replace(tzinfo=UTC)) is None


def test_a_count_larger_than_the_calendar_is_no_limit():
    assert RRule(rule("FREQ=YEARLY;COUNT=999999999")).latest(at("2400-01-01T00:00:00Z")) == at(
        "2369-01-05T09:00:00Z"
    )


# --- zones --------------------------------------------------------------------------------


def test_times_are_local_and_clock_changes_are_those_of_a_fixed_time():
    # BR-135
    text = "DTSTART:20260328T023000\nRRULE:FREQ=DAILY;COUNT=3"
    assert slots(text, 9, "Europe/Berlin") == [
        "2026-03-28 01:30",
        "2026-03-29 01:00",  # the first instant after the gap
        "2026-03-30 00:30",
    ]
    text = "DTSTART:20261024T023000\nRRULE:FREQ=DAILY;COUNT=3"
    assert slots(text, 9, "Europe/Berlin") == [
        "2026-10-24 00:30",
        "2026-10-25 00:30",  # the first pass alone
        "2026-10-26 01:30",
    ]


def test_an_hourly_rule_is_a_fixed_time_too():
    text = "DTSTART:20261025T003000\nRRULE:FREQ=HOURLY;COUNT=5"
    found = slots(text, 9, "Europe/Berlin", at("2026-10-24T00:00:00Z"))
    assert [slot[11:] for slot in found] == ["22:30", "23:30", "00:30", "02:30", "03:30"]


@pytest.mark.parametrize(
    ("first", "timezone", "expected"),
    [
        ("DTSTART:20260105T090000", None, "09:00"),
        ("DTSTART:20260105T090000", "Europe/Athens", "07:00"),
        ("DTSTART;TZID=Europe/Athens:20260105T090000", None, "07:00"),
        ("DTSTART;TZID=Europe/Athens:20260105T090000", "Europe/Athens", "07:00"),
        ("dtstart;tzid=Europe/Athens:20260105T090000", None, "07:00"),
        ("DTSTART:20260105T090000Z", None, "09:00"),
        ("DTSTART:20260105T090000Z", "UTC", "09:00"),
    ],
)
def test_the_zone_is_the_one_that_is_given_or_named(first, timezone, expected):
    text = f"{first}\nRRULE:FREQ=DAILY;COUNT=1"
    assert slots(text, 2, timezone) == [f"2026-01-05 {expected}"]


@pytest.mark.parametrize(
    ("first", "timezone", "default", "zone"),
    [
        ("DTSTART:20260105T090000", None, None, "UTC"),
        ("DTSTART:20260105T090000", None, "Asia/Tokyo", "Asia/Tokyo"),
        ("DTSTART:20260105T090000", "Europe/Athens", "Asia/Tokyo", "Europe/Athens"),
        ("DTSTART;TZID=Europe/Athens:20260105T090000", None, "Asia/Tokyo", "Europe/Athens"),
        ("DTSTART:20260105T090000Z", None, "Asia/Tokyo", "UTC"),
    ],
)
def test_a_scheduler_has_a_zone_for_those_that_name_none(first, timezone, default, zone):
    assert rrule_in(first, timezone=timezone, default=default).timezone == zone
    scheduler = Scheduler(MemoryBackend(), timezone=default)
    scheduler.rrule("a", first, lambda: None, timezone=timezone)

    @rrule("b", first, timezone=timezone)
    def declared(): ...

    scheduler.register(declared)
    assert [job.schedule.timezone for job in scheduler.jobs] == [zone, zone]


def test_a_limit_in_utc_is_an_instant():
    text = "DTSTART;TZID=Europe/Berlin:20261024T023000\nRRULE:FREQ=DAILY;UNTIL="
    assert len(slots(f"{text}20261025T002959Z", 9)) == 1
    assert len(slots(f"{text}20261025T003000Z", 9)) == 2
    # The second pass of the repeated hour: all of its times have been there.
    assert len(slots(f"{text}20261025T011500Z", 9)) == 2
    hourly = "DTSTART;TZID=Europe/Berlin:20261025T000000\nRRULE:FREQ=HOURLY;BYMINUTE=0,50;UNTIL="
    assert slots(f"{hourly}20261025T010100Z", 9)[-1] == "2026-10-25 00:50"


def test_what_calendars_write_is_understood():
    text = """
        DTSTART;TZID="W. Europe Standard Time";X-APPLE-TRAVEL=1:20260105T090000
        RRULE:FREQ=DAILY;UNTIL=20260109T080000Z
        EXDATE:20260106T080000Z,20260107T080000Z
        RDATE;TZID="W. Europe Standard Time":20260110T120000
        RDATE:20260111T110000Z
    """
    expected = ["05 08:00", "08 08:00", "09 08:00", "10 11:00", "11 11:00"]
    found = slots(text, 9, "Europe/Berlin")
    assert [slot[8:] for slot in found] == expected
    quoted = 'DTSTART;TZID="Asia/Tokyo":20260105T090000'
    assert slots(quoted, 1) == ["2026-01-05 00:00"]
    # An instant in the second pass is none of its slots, so there is nothing to leave out.
    text = "DTSTART:20261025T023000\nRRULE:FREQ=DAILY;COUNT=1\nEXDATE:20261025T013000Z"
    assert slots(text, 9, "Europe/Berlin") == ["2026-10-25 00:30"]


@pytest.mark.parametrize("until", ["99991231T235959Z", "99991231T235959", "23700101T000000"])
def test_a_far_limit_is_none(until):
    schedule = RRule(rule(f"FREQ=YEARLY;UNTIL={until}"), "Asia/Tokyo" if "Z" in until else None)
    assert schedule.latest(at("9000-01-01T00:00:00Z")).year == 2369


# --- the text -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "DTSTART:20260105T090000\r\nRRULE:FREQ=WEEKLY;BY\r\n DAY=MO,\r\n\tFR\r\n",
        "\n    DTSTART:20260105T090000\n    RRULE:FREQ=WEEKLY;BYDAY=MO,FR\n    ",
        "DTSTART:20260105T090000\n            RRULE:FREQ=WEEKLY;BYDAY=MO,\n              FR",
        "RRULE:freq=weekly;byday=fr,mo\nDTSTART;VALUE=DATE-TIME:20260105T090000",
        "DTSTART:20260105T090000\nRRULE:FREQ=WEEKLY;BYDAY=MO,FR;INTERVAL=1;WKST=MO",
    ],
)
def test_how_a_text_may_be_written(text):
    assert slots(text, 3) == ["2026-01-05 09:00", "2026-01-09 09:00", "2026-01-12 09:00"]


def test_recurrences_are_values():
    one = RRule("dtstart;tzid=Europe/Athens:20260105T090000\n rrule:freq=daily")
    same = RRule("DTSTART;TZID=Europe/Athens:20260105T090000\nRRULE:FREQ=DAILY", "Europe/Athens")
    assert one == same
    assert hash(one) == hash(same)
    assert one != RRule("DTSTART:20260105T090000\nRRULE:FREQ=DAILY", "Europe/Athens")
    assert one != Once("2026-01-05T07:00:00Z")
    assert repr(one) == (
        r"RRule('DTSTART;TZID=Europe/Athens:20260105T090000\nRRULE:FREQ=DAILY',"
        " timezone='Europe/Athens')"
    )
    assert eval(repr(one)) == pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (rule("FREQ=DAILY"), "FREQ=DAILY from 2026-01-05 09:00:00"),
        ("DTSTART;VALUE=DATE:20260105", "on 2026-01-05"),
        (
            "DTSTART;TZID=Asia/Tokyo:20260105T090000\nRRULE:FREQ=DAILY\nRDATE:20260101T000000",
            "FREQ=DAILY from 2026-01-05 09:00:00 in Asia/Tokyo and 1 more date",
        ),
        (
            rule("FREQ=DAILY") + "\nRDATE:20260101T000000\nEXDATE:20260106T090000,20260107T090000",
            "FREQ=DAILY from 2026-01-05 09:00:00 and 1 more date except 2 dates",
        ),
    ],
)
def test_it_describes_itself(text, words):
    assert RRule(text).describe() == words


# --- very many -----------------------------------------------------------------------------

ALL_SECONDS = f"BYMINUTE={','.join(map(str, range(60)))};BYSECOND={','.join(map(str, range(60)))}"
ALL_HOURS = f"BYHOUR={','.join(map(str, range(24)))}"


@pytest.mark.parametrize(
    ("parts", "number"),
    [
        (f"FREQ=HOURLY;{ALL_SECONDS}", 365 * 86_400 + 1),
        (f"FREQ=DAILY;{ALL_HOURS};{ALL_SECONDS}", 365 * 86_400 + 1),
        (f"FREQ=YEARLY;BYYEARDAY=1;{ALL_HOURS};{ALL_SECONDS}", 86_400 + 1),
        (f"FREQ=MONTHLY;BYDAY=TH,FR;BYSETPOS=1,2;{ALL_HOURS}", 24 + 1),
    ],
)
def test_the_last_of_very_many_is_found_without_going_through_them(parts, number):
    schedule = RRule(rule(f"{parts};COUNT={number}", "20260101T000000"))
    last = schedule.latest(datetime.max.replace(tzinfo=UTC))
    assert schedule.next_after(last) is None
    counted = RRule(rule(parts, "20260101T000000"))
    assert counted.latest(last) == last
    assert last == at("2027-01-01T00:00:00Z")
