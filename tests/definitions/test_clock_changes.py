"""What slots become where clocks change."""

from __future__ import annotations

import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anarchon._schedules_cron import parse
from anarchon.schedules import Cron
from tests.definitions.cron_examples import DAY, MINUTE, at, define, expressions

# Around each of these instants the offset of the zone changes.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("America/Havana", "2026-03-08"),
    ("America/Santiago", "2022-09-11"),
    ("Asia/Beirut", "2022-03-27"),
    ("Europe/Dublin", "2026-03-29"),
    ("Europe/Dublin", "2026-10-25"),
    ("Africa/Casablanca", "2026-02-15"),
    ("Africa/Casablanca", "2026-03-22"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("Antarctica/Troll", "2026-03-29"),
    ("Antarctica/Troll", "2026-10-25"),
    ("Pacific/Chatham", "2026-04-05"),
    ("Pacific/Chatham", "2026-09-27"),
    ("Pacific/Apia", "2011-12-30"),
    ("Pacific/Kwajalein", "1993-08-21"),
    ("America/Caracas", "2016-05-01"),
    ("America/Caracas", "2007-12-09"),
    ("Asia/Pyongyang", "2015-08-14"),
    ("Asia/Kathmandu", "1985-12-31"),
    ("Antarctica/Casey", "2020-10-03"),
    ("Africa/Juba", "2021-01-31"),
    ("America/Sitka", "1983-10-30"),
]


@pytest.mark.parametrize(
    ("expression", "zone", "t", "after", "latest"),
    [
        # Asked in the second pass, with slots exactly where it ends and where it began.
        (
            *("0 2,3 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z"),
            *("2026-10-25T02:00:00Z", "2026-10-25T00:00:00Z"),
        ),
        # Two steps back with nothing in between: the offset of the asking is not the slot's.
        (
            *("0 * 5 1 12 * 2010", "Europe/Samara", "2009-10-24T21:30:00Z"),
            *("2010-12-01T02:00:00Z", None),
        ),
        ("0 * 5 1 7 * 2009", "Europe/Samara", "2010-10-30T23:30:00Z", None, "2009-07-01T00:59:00Z"),
    ],
)
def test_slots_far_from_a_change_and_just_at_it(expression, zone, t, after, latest):
    cron = Cron(expression, zone)
    assert cron.next_after(at(t)) == (after and at(after))
    assert cron.latest(at(t)) == (latest and at(latest))


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # Per-second expressions next to a change, of both kinds.
        ("* * * * * *", "Europe/Berlin", "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"),
        ("* * 2 * * *", "Europe/Berlin", "2026-03-28T01:59:59Z", "2026-03-30T00:00:00Z"),
        ("0-59 0-59 2 * * *", "Europe/Berlin", "2026-03-28T01:59:59Z", "2026-03-29T01:00:00Z"),
        ("0-59 0-59 2 * * *", "Europe/Berlin", "2026-10-25T00:59:59Z", "2026-10-26T01:00:00Z"),
        ("* * 2 * * *", "Europe/Berlin", "2026-10-25T00:59:59Z", "2026-10-25T01:00:00Z"),
        ("*/7 44 0 * * *", "America/Havana", "2026-03-08T04:59:59Z", "2026-03-09T04:44:00Z"),
        ("58 */3 * * *", "Pacific/Chatham", "2026-04-04T14:00:00Z", "2026-04-04T15:13:00Z"),
        # The first pass only, asked in the middle of the second.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"),
    ],
)
def test_nothing_takes_long_at_a_change(expression, zone, after, expected):
    cron = Cron(expression, zone)
    cron.next_after(at(after))  # the first call imports croniter
    started = time.perf_counter()
    assert cron.next_after(at(after)) == at(expected)
    assert cron.latest(at(expected)) == at(expected)
    assert cron.next_after(cron.latest(at(after))) == at(expected)
    assert time.perf_counter() - started < 0.25


def by_counting_minutes(when, fixed: bool, zone: ZoneInfo, begin: datetime, end: datetime):
    """Return the slots in (begin, end] by looking at every minute; offsets in whole minutes."""
    slots, t = set(), begin
    previous = (begin - MINUTE).astimezone(zone).replace(tzinfo=None)
    while t <= end:
        local = t.astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        if when(wall) and not (fixed and local.fold):
            slots.add(t)
        while fixed and (previous := previous + MINUTE) < wall:
            if when(previous):
                slots.add(t)
        previous, t = wall, t + MINUTE
    return sorted(slot for slot in slots if slot > begin)


@settings(max_examples=40, deadline=None)
@given(expressions(), st.sampled_from(CHANGES), st.data())
def test_changes_of_the_clock_agree_with_counting_minutes(expression, change, data):
    # BR-034, BR-080, BR-082, BR-124
    text, _, _, when = expression
    if define(text) is None:
        return
    key, day = change
    cron = Cron(text, key)
    begin = at(f"{day}T00:00:00Z") - 1.5 * DAY
    end = begin + 4 * DAY
    expected = by_counting_minutes(when, not parse(text).wildcard, ZoneInfo(key), begin, end)
    # One step more than is expected, so that a walk that stands still fails and ends.
    found = [begin]
    while found[-1] <= end and len(found) <= len(expected) + 1:
        found.append(cron.next_after(found[-1]))
    assert [slot for slot in found[1:] if slot <= end] == expected
    backwards = [cron.latest(end)]
    while backwards[-1] > begin and len(backwards) <= len(expected) + 1:
        backwards.append(cron.latest(backwards[-1] - timedelta(milliseconds=1)))
    assert [slot for slot in backwards[::-1] if slot > begin] == expected
    t = begin + timedelta(milliseconds=data.draw(st.integers(0, 4 * 86_400_000)))
    assert [s for s in [cron.latest(t)] if s and s > begin] == [s for s in expected if s <= t][-1:]
    assert [s for s in [cron.next_after(t)] if s and s <= end] == [s for s in expected if s > t][:1]


@settings(max_examples=60, deadline=None)
@given(
    expressions(),
    st.sampled_from([*sorted({zone for zone, _ in CHANGES}), "UTC"]),
    st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001
)
def test_the_laws_hold_in_every_zone(expression, zone, t):
    if define(expression[0]) is None:
        return
    cron, t = Cron(expression[0], zone), t.replace(tzinfo=UTC)
    after, latest = cron.next_after(t), cron.latest(t)
    assert after is not None
    assert latest is not None
    assert latest <= t < after
    assert cron.latest(after) == after
    assert cron.next_after(latest) == after
    assert cron.latest(after - timedelta(milliseconds=1)) == latest
    assert cron.next_after(after) > after


@pytest.mark.parametrize("system_zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_the_zone_of_the_machine_does_not_matter(system_zone, monkeypatch):
    # BR-084, BR-085
    monkeypatch.setenv("TZ", system_zone)
    time.tzset()
    try:
        slot = Cron("30 1 * * *", "America/New_York").next_after(at("2026-11-01T04:00:00Z"))
        assert slot == at("2026-11-01T05:30:00Z")
        assert Cron("0 8 * * *").latest(slot) == at("2026-10-31T08:00:00Z")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.fixture
def restless_threads():
    """Threads take turns after almost every step, so that races show."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless_threads")
def test_one_schedule_serves_many_threads():
    cron = Cron("*/7 3,4 L,15W * mon#2", "Europe/Berlin")
    starts = [at("2026-01-01T00:00:00Z") + n * 5 * DAY for n in range(40)]
    expected = [(cron.next_after(t), cron.latest(t)) for t in starts]
    results: list[object] = []

    def ask():
        results.append([(cron.next_after(t), cron.latest(t)) for t in starts])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_a_question_leaves_nothing_behind_in_what_was_parsed():
    cron = Cron("0 8 * * *", "Europe/Berlin")
    cron.next_after(at("2026-01-01T00:00:00Z"))
    (leg,) = cron._source._walk._legs
    before = dict(vars(leg._parsed))
    cron.next_after(at("2030-01-01T00:00:00Z"))
    cron.latest(at("2031-01-01T00:00:00Z"))
    assert dict(vars(leg._parsed)) == before
    assert leg._parsed.cur == 0.0
