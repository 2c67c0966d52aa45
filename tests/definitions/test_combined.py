"""Schedules made of others."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anarchon import ConfigurationError, Cron, Every, Once, RRule, either
from tests.definitions.cron_examples import at

MS = timedelta(milliseconds=1)
WEEKLY = RRule("DTSTART;TZID=Europe/Berlin:20260105T090000\nRRULE:FREQ=WEEKLY")


class Own:
    """Somebody's own schedule."""

    def next_after(self, t):
        return Every("1h").next_after(t)

    def latest(self, t):
        return Every("1h").latest(t)

    def __repr__(self):
        return "Own()"


def forwards(schedule, begin, end):
    found, t = [], begin
    while (t := schedule.next_after(t)) is not None and t <= end:
        found.append(t)
    return found


def backwards(schedule, begin, end):
    found, t = [], end
    while (t := schedule.latest(t)) is not None and t > begin:
        found.append(t)
        t -= MS
    return found[::-1]


def both(schedule, begin, end):
    """Return the slots in (begin, end], the same in both directions."""
    found = forwards(schedule, begin, end)
    assert backwards(schedule, begin, end) == found
    return found


# --- either ---------------------------------------------------------------------------


def test_either_has_the_slots_of_both_once():
    begin, end = at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z")
    found = both(either(Every("8h"), Cron("0 8,9 * * *"), Once("2026-01-01T08:30:00Z")), begin, end)
    times = [slot.strftime("%H:%M") for slot in found]
    assert times == ["08:00", "08:30", "09:00", "16:00", "00:00"]


def test_either_ends_when_both_have():
    schedule = either(Once("2026-01-01T00:00:00Z"), Once("2026-01-02T00:00:00Z"))
    assert schedule.next_after(at("2026-01-02T00:00:00Z")) is None
    assert schedule.latest(at("2025-12-31T00:00:00Z")) is None
    assert len(both(schedule, at("2025-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"))) == 2


def test_either_takes_schedules_of_others_and_holds_them_to_the_laws():
    begin = at("2026-01-01T00:00:00Z")
    assert len(both(either(Own(), Every("30m")), begin, begin + timedelta(days=1))) == 48
    own = Own()
    own.next_after = lambda t: t
    with pytest.raises(ConfigurationError, match=r"Own\(\).*which is not after it"):
        either(own, Every("30m")).next_after(begin)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "0 given; give two schedules or more"),
        ((Every(10),), "1 given; give two"),
        ((Every(10), "10s"), "schedule '10s' has no next_after"),
        (([Every(10), Every(20)],), "has no next_after"),
    ],
)
def test_what_either_refuses(given, words):
    with pytest.raises(ConfigurationError, match=words):
        either(*given)


# --- between --------------------------------------------------------------------------


def test_between_has_its_start_and_not_its_end():
    schedule = Every("1h").between("2026-01-01T02:00:00Z", "2026-01-01T05:00:00Z")
    begin, end = at("2025-12-31T00:00:00Z"), at("2026-01-02T00:00:00Z")
    assert [slot.hour for slot in both(schedule, begin, end)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        (None, "2026-01-01T02:00:00Z", [0, 1]),
        (at("2026-01-01T22:00:00Z"), None, [22, 23]),
        ("2026-01-01T10:00:00.001Z", "2026-01-01T12:00:00.001Z", [11, 12]),
        ("2026-01-01T10:30:00Z", "2026-01-01T10:45:00Z", []),
    ],
)
def test_between_may_be_open_on_one_side(start, end, hours):
    begin = at("2026-01-01T00:00:00Z") - MS
    schedule = Every("1h").between(start, end)
    assert [slot.hour for slot in both(schedule, begin, begin + timedelta(days=1))] == hours


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (None, None, "neither a start nor an end"),
        ("2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z", "the end is not after the start"),
        ("2026-01-02T00:00:00", None, "has no offset"),
        (datetime(2026, 1, 2), None, "has no offset"),  # noqa: DTZ001
        (5, None, "is not a time"),
    ],
)
def test_what_between_refuses(start, end, words):
    with pytest.raises(ConfigurationError, match=words):
        Every("1h").between(start, end)


# --- except on --------------------------------------------------------------------------


def test_days_are_left_out_as_the_zone_of_the_schedule_has_them():
    schedule = Cron("0 */6 * * *", "Europe/Athens").except_on(["2026-01-02", date(2026, 1, 3)])
    found = both(schedule, at("2026-01-01T00:00:00Z"), at("2026-01-04T12:00:00Z"))
    assert [slot.strftime("%d %H") for slot in found] == [
        "01 04",
        "01 10",
        "01 16",
        "03 22",
        "04 04",
        "04 10",
    ]


@pytest.mark.parametrize(
    ("schedule", "zone"),
    [
        (Every("1h"), "UTC"),
        (Cron("0 * * * *"), "UTC"),
        (Cron("0 * * * *", "Asia/Tokyo"), "Asia/Tokyo"),
        (WEEKLY, "Europe/Berlin"),
        (either(Cron("0 * * * *", "Asia/Tokyo"), Cron("5 * * * *", "Asia/Tokyo")), "Asia/Tokyo"),
        (either(Cron("0 * * * *", "Asia/Tokyo"), Every("1h")), "Asia/Tokyo"),
        (either(Every("2h"), Every("1h")), "UTC"),
        (Cron("0 * * * *", "Asia/Tokyo").between("2026-01-01T00:00:00Z", None), "Asia/Tokyo"),
        (Cron("0 * * * *", "Asia/Tokyo").except_on([], "Asia/Seoul"), "Asia/Seoul"),
    ],
)
def test_the_zone_of_the_days(schedule, zone):
    assert schedule.except_on(["2026-01-02"]).timezone == zone


def test_many_days_in_a_row_are_passed_over_at_once():
    asked = []

    class Counting(Every):
        def next_after_ms(self, t_ms):
            asked.append(t_ms)
            return super().next_after_ms(t_ms)

    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(3000)]
    schedule = Counting("1s").except_on(days)
    t = at("2025-12-31T23:59:59Z")
    assert schedule.next_after(t) == datetime.combine(days[-1], datetime.min.time(), UTC) + (
        timedelta(days=1)
    )
    assert len(asked) == 2


# Clocks that go back over midnight, or leave out a midnight or a whole day.
MIDNIGHTS = [
    ("America/St_Johns", "2006-10-28", "2006-10-29"),  # 00:01 back to 23:01
    ("America/Sao_Paulo", "2018-02-17", "2018-02-18"),  # 00:00 back to 23:00
    ("America/Sao_Paulo", "2018-11-03", "2018-11-04"),  # 00:00 on to 01:00
    ("America/Havana", "2026-10-31", "2026-11-01"),  # 01:00 back to 00:00
    ("Pacific/Apia", "2011-12-29", "2011-12-31"),  # no 30th
    ("America/Juneau", "1867-10-17", "1867-10-18"),  # a day twice
    ("Asia/Manila", "1844-12-30", "1845-01-01"),
]


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(MIDNIGHTS),
    st.sampled_from(["7m", "13m", "1h", "36m"]),
    st.sets(st.integers(-2, 3), min_size=1),
)
def test_days_that_clock_changes_cut_in_pieces(change, period, offsets):
    key, first, second = change
    zone = ZoneInfo(key)
    near = at(f"{first}T00:00:00Z").date()
    days = {near + timedelta(days=n) for n in offsets}
    schedule = Every(period)
    begin, end = at(f"{first}T00:00:00Z") - timedelta(days=3), at(f"{second}T00:00:00Z")
    end += timedelta(days=4)
    expected = [
        slot for slot in forwards(schedule, begin, end) if slot.astimezone(zone).date() not in days
    ]
    assert both(schedule.except_on(days, key), begin, end) == expected


@pytest.mark.parametrize(
    ("dates", "words"),
    [
        ("2026-01-01", "it is no list; give dates"),
        (date(2026, 1, 1), "it is no list"),
        (["2026-1-1"], "'2026-1-1' is no date"),
        (["2026-02-30"], "'2026-02-30' is no date"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], "is no date; give a date"),
        ([5], "5 is no date"),
    ],
)
def test_what_except_on_refuses(dates, words):
    with pytest.raises(ConfigurationError, match=words):
        Every("1h").except_on(dates)


def test_days_of_schedules_in_two_zones_need_one_of_their_own():
    mixed = either(Cron("0 1 * * *", "Asia/Tokyo"), Cron("0 1 * * *", "Europe/Athens"))
    for schedule in (mixed, mixed.between("2026-01-01T00:00:00Z"), either(mixed, Every("1h"))):
        with pytest.raises(ConfigurationError, match="in Asia/Tokyo and Europe/Athens, where days"):
            schedule.except_on(["2026-12-25"])
    assert mixed.except_on(["2026-12-25"], "Asia/Tokyo").timezone == "Asia/Tokyo"


def test_limits_without_an_offset_are_local_times_of_the_schedule():
    tokyo = Cron("0 * * * *", "Asia/Tokyo")
    assert tokyo.between("2026-01-01T00:00") == tokyo.between("2025-12-31T15:00:00Z", None)
    assert tokyo.between(end="2026-01-01T00:00") == tokyo.between(None, "2025-12-31T15:00:00Z")
    assert either(tokyo, Every("7m")).between("2026-01-01T00:00").latest(
        at("2025-12-31T15:00:00Z")
    ) == at("2025-12-31T15:00:00Z")
    athens = Cron("0 1 * * *", "Europe/Athens")
    for schedule in (Every("1h"), either(tokyo, athens)):
        with pytest.raises(
            ConfigurationError, match=r"has no offset; add one .* is in no zone, or"
        ):
            schedule.between("2026-01-01T00:00")


def test_an_unknown_zone_of_the_days_is_refused():
    with pytest.raises(ConfigurationError, match="no zone 'Mars'"):
        Every("1h").except_on([], "Mars")


# --- all of them ------------------------------------------------------------------------

MADE = [
    either(Every("7m"), Cron("*/11 * * * *")),
    Cron("30 2 * * *", "Europe/Berlin").between("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
    Every("8h").except_on(["2026-12-25", "2026-01-01"], "Asia/Tokyo"),
    either(WEEKLY, Once("2026-05-05T05:05:00Z")).except_on(["2026-01-12"], "Europe/Berlin"),
]


@pytest.mark.parametrize("schedule", MADE)
def test_they_are_values(schedule):
    made = eval(repr(schedule))
    assert made == schedule
    assert hash(made) == hash(schedule)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert schedule != schedule.between("2020-01-01T00:00:00Z", None)
    assert schedule != Every("7m")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (either(Every("7m"), Own()), "every 7m, or Own()"),
        (
            Every("8h").between("2026-01-01T00:00:00Z", "2027-01-01T00:00:00.500Z"),
            "every 8h, from 2026-01-01T00:00:00Z, before 2027-01-01T00:00:00.500000Z",
        ),
        (
            Every("8h").between(None, "2027-01-01T00:00:00Z"),
            "every 8h, before 2027-01-01T00:00:00Z",
        ),
        (Every("8h").except_on(["2026-12-25"]), "every 8h, except on 2026-12-25"),
        (Every("8h").except_on([]), "every 8h, except on no day"),
        (
            either(Every("8h"), Every("7m")).except_on(["2026-12-25"], "Asia/Tokyo"),
            "(every 8h, or every 7m), except on 2026-12-25 (Asia/Tokyo)",
        ),
    ],
)
def test_they_describe_themselves(schedule, words):
    assert schedule.describe() == words


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(MADE),
    st.datetimes(datetime(2025, 12, 1), datetime(2027, 1, 31)),  # noqa: DTZ001
)
def test_they_keep_the_laws(schedule, t):
    t = t.replace(tzinfo=UTC)
    after, latest = schedule.next_after(t), schedule.latest(t)
    assert latest is None or latest <= t
    if after is not None:
        assert after > t
        assert schedule.latest(after) == after
        assert schedule.latest(after - MS) == latest
    if latest is not None:
        assert schedule.next_after(latest) == after
        assert schedule.next_after(latest - MS) == latest


def test_the_slots_of_somebody_elses_object_are_the_same_schedule_only_if_it_is_the_same():
    own = Own()
    assert either(own, Every(10)) == either(own, Every(10))
    assert either(own, Every(10)) != either(Own(), Every(10))
    assert hash(either(own, Every(10))) == hash(either(own, Every(10)))
