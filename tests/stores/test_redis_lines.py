"""What a Redis keeps of runs that ended, to the line: endings, odd runs, and what is removed."""

from __future__ import annotations

import pytest

from anarchon._values import instant
from anarchon.backends._rules import FENCE_LIMIT
from tests.stores.redis_kept import RUN

LEASE_MS = 30_000
THIRTY_DAYS_MS = 30 * 24 * 3_600_000


def record_manual(kept, **fields):
    """Record a manual run as running, and return its key."""
    key = kept.bench.key(0)._replace(manual="token")
    result = kept.bench.result(0, key=key, status="running", reason="manual", **fields)
    owner = kept.bench.owner("a")
    kept.bench.backend.record_manual([result], owner=owner, lease_ms=LEASE_MS)
    return key


def run_through(kept, slots):
    """Claim and finish slots, in milliseconds from the start."""
    for slot in slots:
        kept.bench.run_through(slot / 1000)


def records_of(kept):
    """Return how many records the job is said to have."""
    return int(kept.stored("jobs")["job"].split(",")[3])


# --- the time ---------------------------------------------------------------------------------


@pytest.mark.parametrize("us", [0, 999, 999_000, 999_999])
def test_a_millisecond_begins_with_its_first_microsecond(kept, us):
    seconds = kept.bench.start_ms // 1000
    kept.ask("HSET", "time by hand", "s", seconds, "us", us)
    assert kept.bench.look().store_ms == 1000 * seconds + us // 1000


# --- endings ----------------------------------------------------------------------------------


def test_what_a_run_said_while_it_ran_is_gone_when_it_ends_without_a_word(kept):
    key = record_manual(kept, detail="asked for")
    assert [row[3] for row in kept.bench.told()] == ["asked for"]
    kept.bench.finish(0, key=key, reason="manual")
    assert [(row[2], row[3]) for row in kept.bench.told()] == [("success", None)]


@pytest.mark.parametrize("started_ms", [1, 2])
def test_an_attempt_may_have_begun_in_the_first_millisecond(kept, started_ms):
    kept.bench.claim(0)
    kept.bench.finish(0, started_ms=started_ms)
    (run,) = kept.bench.history()
    assert run.started_at == instant(started_ms)
    assert run.finished_at == instant(started_ms + 5)


def test_an_attempt_that_never_began_ends_now_and_keeps_what_its_line_says(kept):
    kept.bench.claim(0)
    kept.bench.clock.advance(7)
    kept.bench.finish(0, started_ms=0)
    (run,) = kept.bench.history()
    assert run.started_at == instant(kept.bench.start_ms)
    assert run.finished_at == instant(kept.bench.start_ms + 7)
    assert run.duration_ms is None


@pytest.mark.parametrize("started_ms", [1, 2])
def test_a_manual_run_may_have_begun_in_the_first_millisecond(kept, started_ms):
    record_manual(kept, started_ms=started_ms)
    (run,) = kept.bench.history()
    assert run.started_at == instant(started_ms)


def test_a_manual_run_that_says_no_time_begins_now(kept):
    kept.bench.clock.advance(7)
    record_manual(kept, started_ms=0)
    (run,) = kept.bench.history()
    assert run.started_at == instant(kept.bench.start_ms + 7)


@pytest.mark.parametrize(
    ("fence", "counts"), [(FENCE_LIMIT - 1, FENCE_LIMIT - 1), (FENCE_LIMIT, 0)]
)
def test_the_fence_of_a_lost_run_counts_below_the_limit(kept, fence, counts):
    kept.bench.finish(0, job="m", fence=fence)
    assert kept.stored("jobs")["m"].split(",")[0] == f"[{counts}"


def test_a_closed_run_without_a_line_or_a_status_is_told_as_lost(kept):
    """To whoever decided it, as a run of its slot."""
    kept.bench.run_through(0)
    kept.spoil("runs", RUN.index("status"), None)
    kept.ask("DEL", kept.key["lines"])
    answer = kept.bench.claim(0)
    assert (answer.status, answer.run.status, answer.run.reason) == ("lost", "lost", "scheduled")


# --- what is removed --------------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "runs"), [(0, 99), (1, 100), (2, 100), (3, 100)])
def test_a_broken_run_counts_for_the_lines_it_has_when_it_is_removed(kept, lines, runs):
    """It was opened at least once; what was counted then and has no line keeps its place."""
    kept.bench.claim(-1)
    for attempt in range(1, lines):
        kept.bench.release(-1, attempt)
        kept.bench.claim(-1, wants=attempt + 1)
    kept.bench.finish(-1, max(lines, 1))
    kept.spoil("runs", RUN.index("state"), "odd")
    if not lines:
        kept.ask("DEL", kept.key["lines"])
    run_through(kept, range(-100, 0))
    assert records_of(kept) == 100
    assert len(kept.stored("runs")) == len(kept.stored("lines")) == runs


@pytest.mark.parametrize(
    ("late_ms", "left", "writes", "removals"), [(0, 12, 2, 1), (1, 10, 3, 1 + 2 * 3)]
)
def test_old_runs_leave_nothing_behind_and_cost_a_removal_for_each_part(
    kept, late_ms, left, writes, removals
):
    """A run is a record, a checkpoint and a line; the job is written if something was removed."""
    run_through(kept, range(-11, 0))
    kept.bench.clock.advance(THIRTY_DAYS_MS + late_ms)
    kept.bench.claim(THIRTY_DAYS_MS / 1000)
    kept.ask("CONFIG", "RESETSTAT")
    kept.bench.finish(THIRTY_DAYS_MS / 1000)
    stats = kept.ask("INFO", "commandstats").decode()
    assert f"cmdstat_hset:calls={writes}," in stats
    assert f"cmdstat_hdel:calls={removals}," in stats
    assert records_of(kept) == left
    for part in ("runs", "lines", "kept", "order"):
        assert len(kept.stored(part)) == left


def test_nothing_is_removed_behind_a_run_that_stays(kept):
    """An old slot that ended late is kept for its end, and the floor stays below it."""
    kept.bench.claim(-1)
    for slot in range(-11, 0):
        kept.bench.run_through(slot / 1000, skip_overlap=False)
    kept.bench.clock.advance(THIRTY_DAYS_MS + 1)
    kept.bench.finish(-1)
    assert [row[0] for row in kept.bench.told()] == [*(-n / 1000 for n in range(1, 12)), -1]
