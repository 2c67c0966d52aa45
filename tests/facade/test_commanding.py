"""Runs that the whole fleet is asked for: triggered, and backfilled."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from anarchon import (
    BackendUnavailable,
    ConfigurationError,
    JobNotFound,
    MemoryBackend,
    Scheduler,
    SqliteBackend,
)
from anarchon.testing import ClaimOnly, FaultyBackend, ManualClock

START = datetime(2026, 10, 10, 9, 59, tzinfo=UTC)
SLOT = datetime(2026, 10, 10, 10, tzinfo=UTC)
HOUR_MS = 3_600_000
SLOT_MS = int(SLOT.timestamp() * 1000)


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture(params=["memory", "sqlite"])
def backend(request, tmp_path):
    return MemoryBackend() if request.param == "memory" else SqliteBackend(tmp_path / "jobs.db")


class Fleet:
    """Instances on one store and one clock, and what they ran."""

    def __init__(self, backend, clock) -> None:
        self.backend, self.clock, self.ran = backend, clock, []

    def one(self, handler=None, *, every="1h", **options) -> Scheduler:
        made = Scheduler(self.backend, lease=30, catch_up=0, jitter=0, **options)
        made.every("job", every, handler or self.run, data="the job's")
        self.clock.attach(made)
        return made

    def stranger(self) -> Scheduler:
        """Return a scheduler without the job, on the same store."""
        made = Scheduler(self.backend)
        self.clock.attach(made)
        return made

    def run(self, ctx) -> None:
        self.ran.append((ctx.slot, ctx.reason, ctx.manual, ctx.data))


@pytest.fixture
def fleet(backend, clock):
    return Fleet(backend, clock)


@pytest.fixture
def together():
    """Start schedulers; they are stopped at the end of the test."""
    started = []

    def start(*schedulers):
        for one in schedulers:
            started.append(one)
            one.start()
        return schedulers

    yield start
    for one in reversed(started):
        one.stop(5)


# --- trigger ---


def test_exactly_one_of_five_instances_runs_it(fleet, clock, together):
    one, *_ = together(*(fleet.one() for _ in range(5)))
    asked_ms = int(clock.now().timestamp() * 1000)
    run_id = fleet.stranger().trigger("job", data={"customer": 7})
    clock.advance("1h5m")
    assert fleet.ran.count((asked_ms, "manual", True, {"customer": 7})) == 1
    assert [ran[:3] for ran in fleet.ran if ran[2] is False] == [
        (SLOT_MS, "scheduled", False),
        (SLOT_MS + HOUR_MS, "scheduled", False),
    ]
    [run] = [run for run in one.history("job") if run.manual]
    assert (run.run_id, run.status, run.reason, run.slot) == (run_id, "success", "manual", asked_ms)
    assert run.attempt == 1


def test_with_control_it_runs_within_its_period_though_no_slot_is_due(fleet, clock, together):
    schedulers = together(*(fleet.one(control="1s") for _ in range(5)))
    clock.advance("5s")
    fleet.stranger().trigger("job")
    clock.advance("11s")  # the period, and a heartbeat
    assert [ran[1:] for ran in fleet.ran] == [("manual", True, "the job's")]
    assert len(schedulers[0].history("job")) == 1


def test_without_control_an_idle_fleet_asks_nothing_until_the_next_slot(clock, together):
    backend = FaultyBackend(MemoryBackend())
    fleet = Fleet(backend, clock)
    together(*(fleet.one() for _ in range(5)))
    clock.advance("1s")
    fleet.stranger().trigger("job")
    before = backend.calls
    clock.advance("58s")
    assert backend.calls == before
    assert fleet.ran == []
    clock.advance("2s")
    assert sorted(ran[1] for ran in fleet.ran) == ["manual", "scheduled"]


def test_control_is_one_look_for_each_period_and_nothing_else(clock, together):
    backend = FaultyBackend(MemoryBackend())
    fleet = Fleet(backend, clock)
    together(*(fleet.one(every="1d", control="5s") for _ in range(2)))
    clock.advance("10s")
    before = backend.calls
    clock.advance("10m")
    after = backend.calls
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {
        "look": 2 * 10 * 60 // 5
    }


def test_the_callers_own_scheduler_takes_it_at_once(fleet, clock, together):
    one, other = together(fleet.one(), fleet.one())
    clock.advance("1s")
    run_id = one.trigger("job")
    clock.advance("1ms")
    assert [run.run_id for run in other.history("job", status="success")] == [run_id]


def test_it_is_taken_with_a_claim_of_whatever_job(fleet, clock):
    one = fleet.one(every="24h")
    one.every("often", "1m", lambda: None)
    with one:
        clock.advance("90s")
        fleet.stranger().trigger("job")
        clock.advance("20s")
        assert fleet.ran == []
        clock.advance("15s")
        assert [(reason, manual) for _, reason, manual, _ in fleet.ran] == [("manual", True)]


def test_one_that_does_not_have_the_job_does_not_take_it(fleet, clock, together):
    other = fleet.stranger()
    other.every("other", "1m", lambda: None)
    together(other)
    run_id = other.trigger("job")
    clock.advance("10m")
    assert other.history("job") == []
    together(fleet.one())
    clock.advance("1s")
    assert [run.run_id for run in other.history("job")] == [run_id]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"a": [1, 2.5, None, True, "ü\ud800"]}, {"a": [1, 2.5, None, True, "ü\ud800"]}),
        ("text", "text"),
        (0, 0),
        (False, False),
        ([], []),
        (None, "the job's"),
    ],
)
def test_data_comes_as_it_was_given(data, found, fleet, together, clock):
    [one] = together(fleet.one())
    one.trigger("job", data=data)
    clock.advance("1s")
    assert [ran[3] for ran in fleet.ran] == [found]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({1, 2}, "data for a run of job is no JSON"),
        (math.nan, "no JSON"),
        (datetime.now, "no JSON"),
        ("x" * 65_535, "65,?536|64 KiB|65537"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_data_that_can_not_be_kept_is_refused(data, said, fleet, clock):
    stranger = fleet.stranger()
    with pytest.raises(ConfigurationError, match=said):
        stranger.trigger("job", data=data)
    stranger.trigger("job", data="x" * 65_534)  # and its two quotes


@pytest.mark.parametrize("name", [3, None, b"job"])
def test_a_name_that_is_no_text_is_refused(name, fleet):
    with pytest.raises(ConfigurationError):
        fleet.stranger().trigger(name)


def test_a_pause_does_not_hold_a_triggered_run(fleet, clock, together):
    [one] = together(fleet.one())
    one.pause()
    one.trigger("job")
    clock.advance("1s")
    assert [ran[1] for ran in fleet.ran] == ["manual"]


def test_it_is_handed_over_by_a_stop(fleet, clock):
    seen = []

    def handler(ctx):
        seen.append((ctx.attempt, ctx.reason, ctx.manual, ctx.data))
        if ctx.attempt == 1:
            ctx.signal.wait(3000)
            ctx.signal.raise_if_aborted()

    with (one := fleet.one(handler)):
        one.trigger("job", data=[1])
        clock.advance("1s")
    [run] = one.history("job")
    assert (run.status, run.detail) == ("interrupted", "handed over")
    with fleet.one(handler):
        clock.advance("1s")
    assert seen == [(1, "manual", True, [1]), (2, "takeover", True, [1])]
    assert [run.status for run in one.history("job")] == ["success", "interrupted"]
    assert len({run.run_id for run in one.history("job")}) == 1


def test_what_nobody_takes_for_thirty_days_is_forgotten(fleet, clock, together):
    stranger = fleet.stranger()
    stranger.trigger("job")
    clock.advance("30d1h")
    again = stranger.trigger("job")
    together(fleet.one())
    clock.advance("1s")
    assert [run.run_id for run in stranger.history("job")] == [again]


# --- backfill ---


def test_past_slots_are_run_one_at_a_time_the_oldest_first(fleet, clock, together):
    going, most = [], []

    def handler(ctx):
        going.append(ctx.slot)
        ctx.signal.wait(7)
        most.append(len(going))
        fleet.run(ctx)
        going.remove(ctx.slot)

    one, *_ = together(*(fleet.one(handler) for _ in range(5)))
    clock.advance("5s")
    run_ids = one.backfill("job", SLOT - timedelta(hours=3), "2026-10-10T09:59:00Z")
    clock.advance("40s")
    slots = [SLOT_MS - back * HOUR_MS for back in (3, 2, 1)]
    assert fleet.ran == [(slot, "catch-up", True, "the job's") for slot in slots]
    assert most == [1, 1, 1]
    runs = [run for run in one.history("job") if run.manual]
    assert [run.run_id for run in reversed(runs)] == run_ids
    assert [run.slot for run in reversed(runs)] == slots


def test_what_became_of_a_slot_before_does_not_matter(fleet, clock, together):
    [one] = together(fleet.one())
    clock.advance("1m")
    assert [ran[1] for ran in fleet.ran] == ["scheduled"]
    for _ in range(2):
        one.backfill("job", SLOT, SLOT)
        clock.advance("1s")
    assert [(ran[0], ran[1]) for ran in fleet.ran] == [
        (SLOT_MS, "scheduled"),
        (SLOT_MS, "catch-up"),
        (SLOT_MS, "catch-up"),
    ]
    told = one.explain("job", SLOT)
    assert (told.outcome, len(told.runs), len(told.backfills)) == ("success", 1, 2)


def test_a_limit_takes_the_oldest_and_the_next_call_goes_on(fleet):
    one = fleet.one()
    day = timedelta(days=1)
    assert len(one.backfill("job", SLOT - 10 * day, SLOT)) == 100
    assert len(one.backfill("job", SLOT - 10 * day, SLOT, limit=3)) == 3
    assert len(one.backfill("job", SLOT - 100 * day, SLOT, limit=1000)) == 1000
    for limit in (0, 1001, -1, True, "3", None):
        with pytest.raises(ConfigurationError, match="limit"):
            one.backfill("job", SLOT - day, SLOT, limit=limit)


def test_both_ends_are_included_and_the_future_is_not(fleet, clock):
    one = fleet.one()
    assert len(one.backfill("job", SLOT_MS - 2 * HOUR_MS, SLOT_MS - HOUR_MS)) == 2
    assert len(one.backfill("job", SLOT_MS - 2 * HOUR_MS + 1, SLOT_MS - HOUR_MS - 1)) == 0
    assert one.backfill("job", SLOT, SLOT + timedelta(days=9)) == []
    clock.advance("1m")  # which is when the slot is due
    assert len(one.backfill("job", SLOT, SLOT + timedelta(days=9))) == 1


def test_a_schedule_that_has_ended_has_what_it_had(fleet, clock):
    one = fleet.one()
    one.once("over", SLOT - timedelta(days=1), fleet.run)
    assert len(one.backfill("over", 0, SLOT)) == 1
    one.once("to-come", SLOT + timedelta(days=1), fleet.run)
    assert one.backfill("to-come", 0, SLOT + timedelta(days=2)) == []


@pytest.mark.parametrize(
    ("name", "start", "end", "error", "said"),
    [
        ("jbo", 0, 1, JobNotFound, "did you mean 'job'"),
        ("job", SLOT, SLOT - timedelta(hours=1), ConfigurationError, "end lies before its start"),
        ("job", "soon", SLOT, ConfigurationError, "start: 'soon' is no instant"),
        ("job", 0, "2026-10-10T10:00:00", ConfigurationError, "end: "),
        (None, 0, 1, ConfigurationError, "name"),
    ],
)
def test_what_can_not_be_meant(name, start, end, error, said, fleet):
    with pytest.raises(error, match=said):
        fleet.one().backfill(name, start, end)


def test_a_schedule_that_can_not_be_computed(fleet):
    class Broken:
        def next_after(self, t):
            raise OSError("no calendar")

        def latest(self, t):
            return None

    one = fleet.one()
    one.schedule("broken", Broken(), fleet.run)
    with pytest.raises(ConfigurationError, match="can't be computed: OSError: no calendar"):
        one.backfill("broken", 0, SLOT)


def test_backfilled_slots_wait_while_the_job_is_paused(fleet, clock, together):
    [one] = together(fleet.one(control="1s"))
    one.pause("job")
    one.backfill("job", SLOT - timedelta(hours=2), SLOT - timedelta(hours=1))
    clock.advance("30s")
    assert fleet.ran == []
    one.resume("job")
    clock.advance("15s")
    assert [ran[1] for ran in fleet.ran] == ["catch-up", "catch-up"]


# --- stores ---


def test_a_store_without_leases_is_refused_before_anything_is_asked():
    store = ClaimOnly(MemoryBackend())
    scheduler = Scheduler(store)
    scheduler.every("job", "1h", lambda: None)
    for ask in (lambda: scheduler.trigger("job"), lambda: scheduler.backfill("job", 0, SLOT)):
        with pytest.raises(ConfigurationError, match="keeps no leases, by which one instance"):
            ask()
    with pytest.raises(ConfigurationError, match="control"):
        Scheduler(store, control="5s")


def orders(scheduler):
    return [lambda: scheduler.trigger("job"), lambda: scheduler.backfill("job", 0, SLOT, limit=1)]


@pytest.mark.parametrize("which", [0, 1], ids=["trigger", "backfill"])
def test_a_store_that_is_down_is_asked_twice(which, clock):
    backend = FaultyBackend(MemoryBackend())
    one = Fleet(backend, clock).one()
    backend.fail("trigger", times=2)
    with pytest.raises(BackendUnavailable):
        orders(one)[which]()
    assert backend.calls["trigger"] == 2
    backend.fail("trigger")
    orders(one)[which]()
    assert backend.calls["trigger"] == 4


@pytest.mark.parametrize("which", [0, 1], ids=["trigger", "backfill"])
def test_an_answer_that_is_lost_makes_no_second_run(which, clock):
    backend = FaultyBackend(MemoryBackend())
    fleet = Fleet(backend, clock)
    one = fleet.one()
    backend.lose_reply("trigger")
    asked = orders(one)[which]()
    assert backend.calls["trigger"] == 2
    with one:
        clock.advance("30s")
        assert len(fleet.ran) == 1
    [run] = one.history("job")
    assert [run.run_id] == ([asked] if which == 0 else asked)
