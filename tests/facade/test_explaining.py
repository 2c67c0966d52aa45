"""Explaining slots that have no record, and refusing what is no slot."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from anarchon import ConfigurationError, JobNotFound, MemoryBackend, Run, Scheduler
from anarchon._testing_contract.bench import Bench, HandClock
from anarchon._values import instant
from anarchon.testing import ClaimOnly
from tests.contract.fates_ordered import backfilled_after_nobody_claimed_it


def nothing_to_do():
    pass


@pytest.fixture
def scheduler():
    scheduler = Scheduler(MemoryBackend())
    scheduler._clock = SimpleNamespace(wall=lambda: 1_800_000_000.5)
    scheduler.every("job", "10s", nothing_to_do)
    return scheduler


def test_a_slot_that_comes(scheduler):
    told = scheduler.explain("job", "2027-01-15T08:01:00Z")
    assert str(told) == "job @ 2027-01-15T08:01:00.000Z: future: it is due in 59s"
    assert told.to_dict() == {
        "job": "job",
        "slot": 1_800_000_060_000,
        "scheduled_at": "2027-01-15T08:01:00+00:00",
        "outcome": "future",
        "runs": [],
        "backfills": [],
        "text": str(told),
    }


def test_an_instant_that_is_no_slot_names_those_around_it(scheduler):
    told = scheduler.explain("job", 1_800_000_000_001)
    assert told.outcome == "no slot"
    assert told.text.endswith(
        "no slot: the job is not due then; its slots around it: 2027-01-15T08:00:00.000Z,"
        " 2027-01-15T08:00:10.000Z"
    )


def test_a_job_that_is_off_here_says_so(scheduler):
    scheduler.every("off", "10s", nothing_to_do, enabled=False)
    told = scheduler.explain("off", 1_800_000_000_000)
    assert told.text.endswith("yet (the job is defined with enabled=False here)")


def test_a_slot_can_be_named_in_four_ways(scheduler):
    ways = [
        1_800_000_000_000,
        instant(1_800_000_000_000),
        "2027-01-15T08:00:00Z",
        "2027-01-15T10:00:00+02:00",
    ]
    assert {scheduler.explain("job", way).slot for way in ways} == {1_800_000_000_000}


@pytest.mark.parametrize(
    "slot",
    [
        True,
        None,
        -1,
        2**60,
        1.5,
        "",
        "soon",
        "2027-01-15T08:00:00",
        instant(0).replace(tzinfo=None),
    ],
)
def test_what_is_no_slot_is_refused(scheduler, slot):
    for ask in (scheduler.explain, scheduler.cancel):
        with pytest.raises(ConfigurationError, match="is no slot; give milliseconds"):
            ask("job", slot)


def test_a_job_that_nobody_knows(scheduler):
    with pytest.raises(JobNotFound, match="did you mean 'job'"):
        scheduler.explain("jobs", 1_800_000_000_000)
    with pytest.raises(ConfigurationError):
        scheduler.explain(3, 1_800_000_000_000)


def test_a_record_needs_no_definition(scheduler):
    backend = scheduler._options.backend
    other = Scheduler(backend)
    other.every("job", "10s", nothing_to_do)
    with other:
        run = other.run_now("job")
    assert Scheduler(backend).explain("job", run.slot).outcome == "success"


def test_what_was_backfilled_is_no_fate_of_the_slot_itself(scheduler):
    backend, clock = scheduler._options.backend, HandClock()
    backend._time = clock
    bench = Bench(backend, clock, 30_000)
    backfilled_after_nobody_claimed_it(bench)
    scheduler._clock = SimpleNamespace(wall=lambda: bench.now_ms() / 1000)
    stranger = Scheduler(backend)
    slot = bench.key(0).slot_ms
    for asker, outcome in ((stranger, "no record"), (scheduler, "never claimed")):
        told = asker.explain("job", slot)
        assert (told.outcome, told.runs) == (outcome, ())
        assert [run.run_id for run in told.backfills] == ["backfill-1"]
        assert [run["run_id"] for run in told.to_dict()["backfills"]] == ["backfill-1"]
        head, line = told.text.split("\n  ")
        assert head.endswith("; backfilled: success")
        assert line.startswith("backfilled, attempt 1 (catch-up) on instance-b, started ")
    assert "no record: why the slot has none of its own, can only be told where the job" in str(
        stranger.explain("job", slot)
    )
    with pytest.raises(JobNotFound):
        stranger.explain("job", slot - 10_000)


def test_the_claim_only_store_catches_nothing_up():
    scheduler = Scheduler(ClaimOnly(MemoryBackend()))
    scheduler._clock = SimpleNamespace(wall=lambda: 1_800_000_001.0)
    scheduler.once("one", instant(1_800_000_000_000), nothing_to_do)
    told = scheduler.explain("one", 1_800_000_000_000)
    assert told.text.endswith("asked the store within catch_up=0 after it was due")
    with pytest.raises(ConfigurationError, match="keeps no leases"):
        scheduler.cancel("one", 1_800_000_000_000)


def test_a_pattern_goes_as_far_as_the_records_that_were_read(scheduler):
    """What is read stays small, however much there is."""
    newest_ms, asked = 1_800_000_000_000, []

    def history(name, *, limit, before):
        asked.append((name, limit))
        next_ms = newest_ms if before is None else before.slot - 10_000
        return [failed_run(next_ms - 10_000 * n) for n in range(limit)]

    scheduler._options.backend.history = history
    told = scheduler.explain("job", newest_ms - 850_000)
    assert asked == [("job", 100), ("job", 100)]
    assert "ValueError: no; at least 115 slots in a row, since " in told.text


def failed_run(slot_ms):
    return Run("id", "job", slot_ms, instant(slot_ms), 1, "failed", error="ValueError: no")
