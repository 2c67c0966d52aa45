"""Recurrences that are refused, and how definitions take them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from anarchon import ConfigurationError, MemoryBackend, RRule, Scheduler
from tests.definitions.test_rrule import MONTHLY, rule, slots


def refusal(text, timezone=None):
    with pytest.raises(ConfigurationError) as caught:
        RRule(text, timezone)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "None is not text; write lines such as"),
        (5, "5 is not text"),
        ("", "there is no DTSTART, so each instance would count from another time"),
        ("RRULE:FREQ=DAILY", "there is no DTSTART"),
        ("FREQ=DAILY", "is no DTSTART, RRULE, RDATE or EXDATE"),
        ("DTSTART:20260105T090000\nBEGIN:VEVENT", "of a calendar's export copy these lines alone"),
        ("DTSTART:20260105T090000\nEXRULE:FREQ=DAILY", "EXRULE is no longer in the RFC"),
        ("DTSTART:20260105T090000\nDTSTART:20260105T090000", "DTSTART is there 2 times"),
        (rule("FREQ=DAILY") + "\nRRULE:FREQ=WEEKLY", "join two schedules with either()"),
        ("DTSTART:20260105T090000 RRULE:FREQ=DAILY", "is no date and time"),
        ("DTSTART:2026-01-05T09:00:00", "is no date and time; write 20260105T090000"),
        ("DTSTART:20260230T090000", "is no date and time"),
        ("DTSTART:20260105T090060", "is no date and time"),
        ("DTSTART:20260105T0900", "is no date and time"),
        ("DTSTART:20260105T090000,20260106T090000", "is a list; give the first time alone"),
        ("DTSTART:19690105T090000", "year 1969 is out of range; write 1970 to 2099"),
        ("DTSTART:21000105T090000", "year 2100 is out of range"),
        ("DTSTART;RANGE=1:20260105T090000", "parameter 'RANGE=1' is not known; write TZID= or"),
        ("DTSTART;TZID=UTC;TZID=UTC:20260105T090000", "parameter 'TZID=UTC' is not known"),
        ("DTSTART;VALUE=PERIOD:20260105T090000", "VALUE=PERIOD is not supported"),
        ("DTSTART;VALUE=DATE:20260105T090000", "has a time, but VALUE=DATE says that it is a date"),
        ("DTSTART:20260105", "is a date without a time; add one (T090000), or write DTSTART;VALUE"),
        ("DTSTART:20260105T090000\nEXDATE:20260106", "'20260106' is of another form than DTSTART"),
        (
            "DTSTART;TZID=Asia/Tokyo:20260105T090000\nRDATE;TZID=Asia/Seoul:20260106T090000",
            "RDATE is in Asia/Seoul, DTSTART in Asia/Tokyo; write all times in one zone",
        ),
        (
            "DTSTART;TZID=Europe/Berlin:20260105T090000\nRDATE:20261025T013000Z",
            "is in the second pass of an hour that comes twice in Europe/Berlin, when a recurrence",
        ),
        ("DTSTART:20260105T090000\nRRULE;TZID=UTC:FREQ=DAILY", "RRULE takes no parameters"),
        (rule("FREQ=MINUTELY"), "FREQ=MINUTELY is finer than HOURLY; use every() or cron()"),
        (rule("FREQ=SECONDLY"), "FREQ=SECONDLY is finer than HOURLY"),
        (rule("FREQ=FORTNIGHTLY"), "FREQ=FORTNIGHTLY is not known; write one of YEARLY"),
        (rule("INTERVAL=2"), "FREQ= is not known"),
        (rule("FREQ=DAILY;"), "a part is empty; remove the extra semicolon"),
        (rule("FREQ=DAILY;COUNT="), "'COUNT=' is not known"),
        (rule("FREQ=DAILY;BYEASTER=0"), "'BYEASTER=0' is not known"),
        (rule("FREQ=DAILY;FREQ=DAILY"), "FREQ is there twice; write one list"),
        (rule("FREQ=DAILY;COUNT=0"), "COUNT=0 is out of range; write 1 to"),
        (rule("FREQ=DAILY;COUNT=-1"), "COUNT=-1 is out of range"),
        (rule("FREQ=DAILY;INTERVAL=0"), "INTERVAL=0 is out of range; write 1 to 36525"),
        (rule("FREQ=YEARLY;INTERVAL=101"), "INTERVAL=101 is out of range; write 1 to 100"),
        (rule("FREQ=DAILY;COUNT=2;UNTIL=20270101T000000"), "COUNT and UNTIL exclude each other"),
        (rule("FREQ=DAILY;UNTIL=20270101"), "'20270101' is of another form than DTSTART"),
        (rule("FREQ=DAILY;UNTIL=tomorrow"), "UNTIL: 'TOMORROW' is no date and time"),
        (rule("FREQ=DAILY;BYHOUR=24"), "BYHOUR: '24' is wrong; write 0 to 23"),
        (rule("FREQ=DAILY;BYHOUR=-1"), "BYHOUR: '-1' is wrong; write 0 to 23"),
        (rule("FREQ=DAILY;BYSECOND=60"), "BYSECOND: '60' is wrong; write 0 to 59"),
        (rule("FREQ=DAILY;BYHOUR=9,"), "BYHOUR: '' is wrong"),
        (rule("FREQ=MONTHLY;BYMONTHDAY=0"), "'0' is wrong; write 1 to 31, or -31 to -1"),
        (rule("FREQ=MONTHLY;BYMONTHDAY=32"), "'32' is wrong; write 1 to 31"),
        (rule("FREQ=YEARLY;BYMONTH=13"), "BYMONTH: '13' is wrong; write 1 to 12"),
        (rule("FREQ=WEEKLY;BYDAY=XX"), "BYDAY: 'XX' is wrong; write MO to SU, or 1MO, -1FR"),
        (rule("FREQ=WEEKLY;BYDAY=1MO"), "counts, which has no meaning with FREQ=WEEKLY"),
        (rule("FREQ=MONTHLY;BYDAY=0MO"), "BYDAY: '0MO' is wrong"),
        (rule("FREQ=MONTHLY;BYDAY=6MO"), "BYDAY: '6MO' is wrong; no month has more than 5"),
        (rule("FREQ=YEARLY;BYMONTH=2;BYDAY=6MO"), "no month has more than 5"),
        (rule("FREQ=YEARLY;BYDAY=54MO"), "no year has more than 53"),
        (rule("FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO"), "which has no meaning with BYWEEKNO"),
        (rule("FREQ=WEEKLY;BYMONTHDAY=1"), "BYMONTHDAY has no meaning with FREQ=WEEKLY; remove"),
        (rule("FREQ=MONTHLY;BYWEEKNO=1"), "BYWEEKNO has no meaning with FREQ=MONTHLY"),
        (rule("FREQ=DAILY;BYYEARDAY=1"), "BYYEARDAY has no meaning with FREQ=DAILY"),
        (rule("FREQ=MONTHLY;BYSETPOS=1"), "BYSETPOS chooses among the times of other BY parts"),
        (rule("FREQ=WEEKLY;WKST=XX"), "WKST=XX is no weekday; write MO to SU"),
        (rule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "no date ever matches it"),
        (rule("FREQ=DAILY;UNTIL=20260104T000000"), "no date ever matches it"),
        (rule("FREQ=DAILY;COUNT=1") + "\nEXDATE:20260105T090000", "no date ever matches it"),
        (rule("FREQ=HOURLY;INTERVAL=2;BYHOUR=8"), "no date ever matches it"),
        (rule("FREQ=MONTHLY;BYDAY=1MO;BYSETPOS=2"), "no date ever matches it"),
        (
            rule("FREQ=DAILY") + " " * 4096,
            "has 4136 characters, more than 4096; leave out whole days",
        ),
        ("DTSTART:２0260105T090000", "it contains '２'; use ASCII"),  # noqa: RUF001
    ],
)
def test_what_is_refused(text, words):
    # BR-094
    message = refusal(text)
    assert message.startswith("rrule")
    assert words in message


def test_an_hourly_rule_needs_a_recent_first_time():
    recent, old = (datetime.now(UTC) - timedelta(days=365.25 * years) for years in (9.99, 10.01))
    assert slots(rule("FREQ=HOURLY", recent.strftime("%Y%m%dT%H%M%S")), 1)
    message = refusal(rule("FREQ=HOURLY", old.strftime("%Y%m%dT%H%M%S")))
    assert "FREQ=HOURLY needs a DTSTART within the last 10 years; write a later one" in message


def test_two_zones_are_refused():
    named = "DTSTART;TZID=Asia/Tokyo:20260105T090000"
    message = refusal(named, "Europe/Athens")
    assert "DTSTART is in Asia/Tokyo, but timezone is 'Europe/Athens'" in message
    assert "DTSTART is in UTC, but timezone" in refusal("DTSTART:20260105T090000Z", "Asia/Tokyo")
    message = refusal(named.replace("Asia/Tokyo", "Mars/Base"))
    assert "DTSTART: no zone 'Mars/Base' was found; say with timezone= which one it is" in message
    assert "no zone 'Mars/Base' was found" in refusal("DTSTART:20260105T090000", "Mars/Base")


def test_a_date_has_no_limit_with_a_time():
    text = "DTSTART;VALUE=DATE;TZID=Asia/Tokyo:20260105\nRRULE:FREQ=DAILY;UNTIL=20260107T000000Z"
    assert "UNTIL: '20260107T000000Z' has a time, DTSTART has none; write a date" in refusal(text)


def test_definitions_hint_at_what_was_meant():
    scheduler = Scheduler(MemoryBackend())
    with pytest.raises(ConfigurationError, match="it is a recurrence, so use rrule"):
        scheduler.cron("a", MONTHLY, lambda: None)
    with pytest.raises(ConfigurationError, match="it is an interval, so use every"):
        scheduler.rrule("a", "10s", lambda: None)
    with pytest.raises(ConfigurationError, match="the name comes first, then the recurrence"):
        scheduler.rrule("DTSTART:20260131T090000", "a", lambda: None)
    with pytest.raises(ConfigurationError, match="without a name and a recurrence"):
        scheduler.rrule(lambda: None)
    with pytest.raises(ConfigurationError, match=r"job 'a'.*rrule 'DTSTART"):
        scheduler.rrule("a", "DTSTART:1\nRRULE:FREQ=DAILY", lambda: None)


def test_both_forms_define_a_job():
    scheduler = Scheduler(MemoryBackend())

    @scheduler.rrule("a", MONTHLY, catch_up=0)
    def form(): ...

    assert scheduler.rrule("b", MONTHLY, form) is scheduler
    assert [job.schedule for job in scheduler.jobs] == [RRule(MONTHLY)] * 2
    assert scheduler.next_slots("a", 2) == scheduler.next_slots("b", 2)
