"""Every, Once, Cron as objects, and what is made of a user's own schedule."""

from __future__ import annotations

import itertools
import json
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon.errors import ConfigurationError
from anarchon.schedules import Cron, Every, Once, slot_source

VECTORS = json.loads(
    (Path(__file__).resolve().parent.parent / "data" / "schedules.json").read_text("utf-8")
)
RIGHT = [v for v in VECTORS if not v.get("error")]
WRONG = [v for v in VECTORS if v.get("error")]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

milliseconds = st.integers(-(10**12), 4 * 10**12)
moments = st.datetimes(datetime(1900, 1, 1), datetime(2300, 1, 1)).map(  # noqa: DTZ001
    lambda t: t.replace(tzinfo=UTC)
)
periods = st.integers(100, 366 * 86_400_000)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def of_vector(vector):
    if vector["kind"] == "interval":
        return Every(vector["expr"])
    if vector["kind"] == "once":
        return Once(vector["expr"], vector["timezone"])
    return Cron(vector["expr"], vector["timezone"])


def slots_after(schedule, t, count):
    found = []
    while len(found) < count and (t := schedule.next_after(t)) is not None:
        found.append(t)
    return found


def refusal(make, *args, **kwargs) -> str:
    with pytest.raises(ConfigurationError) as caught:
        make(*args, **kwargs)
    return str(caught.value)


# --- the worked examples --------------------------------------------------------------


def test_there_are_as_many_examples_as_there_should_be():
    assert len(RIGHT) == 449
    assert len(WRONG) == 55


@pytest.mark.parametrize("vector", RIGHT, ids=lambda v: v["id"])
def test_a_worked_example(vector):
    schedule, after = of_vector(vector), at(vector["after"])
    assert slots_after(schedule, after, 5) == [at(text) for text in vector["expect"]]
    if "latest" in vector:
        latest = vector["latest"]
        assert schedule.latest(after) == (None if latest is None else at(latest))


@pytest.mark.parametrize("vector", WRONG, ids=lambda v: v["id"])
def test_an_example_of_what_is_refused(vector):
    words = {"interval": "interval: ", "once": "one-off time ", "cron": "cron expression "}
    message = refusal(of_vector, vector)
    assert message.startswith((words[vector["kind"]], "timezone: no zone "))


# --- every ----------------------------------------------------------------------------


@given(periods, milliseconds)
def test_the_grid_counts_from_1970_for_every_period(period_ms, t_ms):
    every = Every(timedelta(milliseconds=period_ms))
    after, latest = every.next_after_ms(t_ms), every.latest_ms(t_ms)
    assert after % period_ms == 0
    assert latest % period_ms == 0
    assert latest <= t_ms < after == latest + period_ms
    assert every.latest_ms(after) == after
    assert every.next_after_ms(latest) == after


@given(periods, moments)
def test_the_grid_in_datetimes(period_ms, t):
    every = Every(period_ms / 1000)
    after, latest = every.next_after(t), every.latest(t)
    assert latest <= t < after == latest + timedelta(milliseconds=period_ms)
    assert after.tzinfo is latest.tzinfo is UTC
    assert (after - EPOCH) % timedelta(milliseconds=period_ms) == timedelta(0)


def test_intervals_know_no_zone_and_no_clock_change():
    # BR-121
    every = Every("30s")
    t = at("2026-10-25T00:59:00Z").astimezone(ZoneInfo("Europe/Berlin"))
    found = slots_after(every, t, 240)
    assert {b - a for a, b in itertools.pairwise(found)} == {timedelta(seconds=30)}
    assert len(found) == 240


def test_a_time_in_another_zone_is_the_same_instant():
    t = at("2026-10-10T12:00:05+05:45")
    assert Every(10).next_after(t) == at("2026-10-10T06:15:10Z")
    assert Every(10).next_after(t) == Every(10).next_after(t.astimezone(UTC))


@pytest.mark.parametrize("period", ["99ms", 0, 0.099, timedelta(milliseconds=99), "0s"])
def test_a_period_has_a_minimum(period):
    message = refusal(Every, period)
    assert message == f'interval: {period!r} is too short; give at least "100ms"'
    assert Every("100ms").period_ms == 100


@pytest.mark.parametrize("period", [1 / 3, timedelta(microseconds=100_001)])
def test_a_period_is_whole_milliseconds(period):
    assert "is not a whole number of milliseconds; round it" in refusal(Every, period)


@pytest.mark.parametrize("period", [None, True, "10", float("nan"), float("inf"), -5, 10**12])
def test_what_is_no_period(period):
    assert refusal(Every, period).startswith("interval: ")


# --- once -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "slot"),
    [
        ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00Z"),
        ("2026-12-01 09:00+02:00", "2026-12-01T07:00:00Z"),
        ("2026-12-01T09:00:00.250-0530", "2026-12-01T14:30:00.250Z"),
        ("2026-12-01T09:00:00.5Z", "2026-12-01T09:00:00.500Z"),
        ("2026-12-01T09:00:00.123000000Z", "2026-12-01T09:00:00.123Z"),
        (at("2026-12-01T09:00:00+02:00"), "2026-12-01T07:00:00Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), "2026-10-25T00:30:00Z"),
        (
            datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
            "2026-10-25T01:30:00Z",
        ),
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00Z"),
    ],
)
def test_a_one_off_with_an_offset(when, slot):
    once = Once(when)
    instant = at(slot)
    assert once.slot_ms == (instant - EPOCH) // MILLISECOND
    assert once.next_after(instant - MILLISECOND) == instant
    assert once.next_after(instant) is None
    assert once.latest(instant) == instant
    assert once.latest(instant - timedelta(microseconds=1)) is None


@pytest.mark.parametrize(
    ("when", "zone", "slot"),
    [
        ("2026-12-01T09:00:00", "Europe/Athens", "2026-12-01T07:00:00Z"),
        (datetime(2026, 12, 1, 9), "Europe/Athens", "2026-12-01T07:00:00Z"),  # noqa: DTZ001
        ("2026-03-29T02:30:00.250", "Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("2026-03-29T03:00:00.250", "Europe/Berlin", "2026-03-29T01:00:00.250Z"),
        ("2026-10-25T02:30:00.250", "Europe/Berlin", "2026-10-25T00:30:00.250Z"),
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00:00Z"),
        ("2026-12-01T09:00:00Z", "Europe/Athens", "2026-12-01T09:00:00Z"),
        ("2026-12-01T09:00:00", "UTC", "2026-12-01T09:00:00Z"),
    ],
)
def test_a_one_off_in_a_zone(when, zone, slot):
    assert Once(when, zone) == Once(slot)


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (timedelta(hours=1), "counts from now, which is another instant on each instance"),
        (date(2026, 12, 1), "is a date without a time; give an aware datetime or ISO text"),
        (datetime(2026, 12, 1, 9), "has no offset; add one (Z for UTC) or give timezone="),  # noqa: DTZ001
        ("2026-12-01T09:00:00", "has no offset; add one (Z for UTC) or give timezone="),
        (datetime(2026, 12, 1, 9, 0, 0, 1, tzinfo=UTC), "is finer than a millisecond, as now()"),
        ("2026-12-01T09:00:00.1234Z", "is finer than a millisecond, as now() is"),
        ("2026-12-01T09:00:00.1230001Z", "is finer than a millisecond, as now() is"),
        (1_790_000_000, "is not a time; give an aware datetime or ISO text"),
        (None, "is not a time; give"),
        ("1969-12-31T23:59:59.999Z", "is before 1970; correct the year"),
        *[
            (text, "is not an ISO date with a time; give an aware datetime or ISO text")
            for text in (
                *["", "2026-12-01", "tomorrow", "20261201T090000Z", "2026-W49-2T09:00Z"],
                *["2026-12-01T09Z", "2026-12-01T24:00:00Z", "2026-12-01T09:00:60Z"],
                *["2026-12-01T09:00:00,5Z", "2026-12-01T09:00:00Z ", "2026-12-01T09:00:00 Z"],
                *["2027-02-29T00:00:00Z", "2026-12-01T09:00:00+25:00", "\uff12026-12-01T09:00:00Z"],
            )
        ],
    ],
)
def test_what_is_no_one_off(when, words):
    # BR-094
    message = refusal(Once, when)
    assert message.startswith("one-off time ")
    assert words in message


def test_a_bad_zone_is_refused_even_where_it_is_not_needed():
    assert "timezone: no zone 'Europe/Atens' was found" in refusal(
        Once, "2026-12-01T09:00:00Z", "Europe/Atens"
    )


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001
    st.integers(-840, 840),
)
def test_text_and_datetime_name_one_instant(t, offset_minutes):
    t = t.replace(
        microsecond=t.microsecond // 1000 * 1000,
        tzinfo=timezone(timedelta(minutes=offset_minutes)),
    )
    assert Once(t) == Once(t.isoformat()) == Once(t.isoformat(" ")) == Once(t.astimezone(UTC))


# --- what all schedules share -----------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "same", "other", "text"),
    [
        (Every("90m"), Every(5400), Every(5401), "Every('1h30m')"),
        (
            Once("2026-12-01T09:00:00Z"),
            Once("2026-12-01T10:00:00.000+01:00"),
            Once("2026-12-01T09:00:00.001Z"),
            "Once('2026-12-01T09:00:00.000Z')",
        ),
        (
            Cron(" 0\t8  * * 1-5 ", "Europe/Athens"),
            Cron("0 8 * * 1-5", timezone="Europe/Athens"),
            Cron("0 8 * * 1-5"),
            "Cron('0 8 * * 1-5', timezone='Europe/Athens')",
        ),
    ],
)
def test_schedules_are_values(one, same, other, text):
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != text
    assert len({one, same, other}) == 2
    assert repr(one) == text
    assert eval(text) == one
    assert pickle.loads(pickle.dumps(one)) == one


def test_different_kinds_are_never_equal():
    assert Every(3600) != Cron("@hourly")
    assert Cron("@hourly") != Once("2026-12-01T09:00:00Z")


@pytest.mark.parametrize("schedule", [Every(10), Once("2026-12-01T09:00:00Z"), Cron("@hourly")])
@pytest.mark.parametrize("t", [datetime(2026, 1, 1), None, 5, "2026-01-01T00:00:00Z"])  # noqa: DTZ001
def test_a_time_must_be_aware(schedule, t):
    assert "next_after(" in refusal(schedule.next_after, t)
    message = refusal(schedule.latest, t)
    assert message.startswith("latest(")
    assert "the time has no zone; give an aware datetime" in message


@pytest.mark.parametrize(
    "schedule", [Every("36525d"), Cron("0 0 2 1 *"), Cron("0 0 2 1 *", "Asia/Tokyo")]
)
def test_the_ends_of_the_calendar_are_no_error(schedule):
    assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert schedule.latest(datetime.min.replace(tzinfo=UTC)) is None


# --- schedules of others ------------------------------------------------------------------


class Fixed:
    """A user's schedule that gives what it is told to."""

    def __init__(self, after=None, latest=None):
        self.asked = []
        self._after, self._latest = after, latest

    def next_after(self, t):
        self.asked.append(t)
        return self._after

    def latest(self, t):
        self.asked.append(t)
        return self._latest

    def __repr__(self):
        return "Fixed()"


T = at("2026-10-10T12:00:00Z")
T_MS = (T - EPOCH) // MILLISECOND


def test_our_own_schedules_are_asked_directly():
    every = Every(10)
    assert slot_source(every) is every


def test_a_users_schedule_is_asked_in_datetimes():
    user = Fixed(at("2026-10-10T14:00:05+02:00"), T)
    source = slot_source(user)
    assert source.next_after_ms(T_MS) == T_MS + 5000
    assert source.latest_ms(T_MS) == T_MS
    assert user.asked == [T, T]
    assert all(t.tzinfo is UTC for t in user.asked)


def test_no_slot_is_fine():
    source = slot_source(Fixed())
    assert source.next_after_ms(T_MS) is None
    assert source.latest_ms(T_MS) is None


@pytest.mark.parametrize("microseconds", [1, 500, 999])
def test_a_slot_between_milliseconds_is_the_next_one_and_keeps_the_laws(microseconds):
    fine = T + timedelta(microseconds=microseconds)

    class Fine:
        def next_after(self, t):
            return fine if fine > t else None

        def latest(self, t):
            return fine if fine <= t else None

    source = slot_source(Fine())
    assert source.next_after_ms(T_MS) == T_MS + 1
    assert source.next_after_ms(T_MS + 1) is None
    assert source.latest_ms(T_MS) is None
    assert source.latest_ms(T_MS + 1) == T_MS + 1


@pytest.mark.parametrize("wrong", [T, T - MILLISECOND, at("1999-01-01T00:00:00Z")])
def test_a_next_slot_that_does_not_come_later_is_a_broken_law(wrong):
    message = refusal(slot_source(Fixed(after=wrong)).next_after_ms, T_MS)
    assert message == (
        "schedule Fixed(): next_after(2026-10-10T12:00:00+00:00) returned"
        f" {wrong.isoformat()}, which is not after it; return the least slot greater than"
        " the time it is given"
    )


def test_a_latest_slot_that_comes_later_is_a_broken_law():
    message = refusal(slot_source(Fixed(latest=T + MILLISECOND)).latest_ms, T_MS)
    assert message == (
        "schedule Fixed(): latest(2026-10-10T12:00:00+00:00) returned"
        " 2026-10-10T12:00:00.001000+00:00, which is after it; return the greatest slot up to"
        " the time it is given"
    )


@pytest.mark.parametrize("wrong", [datetime(2030, 1, 1), 1_900_000_000, "2030", True])  # noqa: DTZ001
def test_a_slot_is_an_aware_datetime(wrong):
    for method in ("next_after_ms", "latest_ms"):
        message = refusal(getattr(slot_source(Fixed(wrong, wrong)), method), T_MS)
        assert "return an aware datetime, or None if there is no slot" in message
        assert repr(wrong)[:20] in message


def test_what_a_users_schedule_raises_comes_through():
    class Broken(Fixed):
        def next_after(self, t):
            raise ZeroDivisionError(t)

    with pytest.raises(ZeroDivisionError):
        slot_source(Broken()).next_after_ms(T_MS)


def test_a_class_is_no_schedule():
    assert refusal(slot_source, Fixed) == (
        "schedule Fixed is a class; give an object of it: Fixed(...)"
    )


@pytest.mark.parametrize("wrong", [None, "10s", 10, timedelta(1), lambda t: t, object()])
def test_what_is_no_schedule(wrong):
    message = refusal(slot_source, wrong)
    assert "has no next_after(t) and latest(t); give Every(...), Cron(...), Once(...)" in message
