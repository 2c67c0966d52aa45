"""To the millisecond and to the line: what history need not keep, and how much goes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .bench import Contract
from .needs import needs

if TYPE_CHECKING:
    from .bench import Bench

DAY = 24 * 3600
HOUR_MS = 3_600_000


class ExactTrims(Contract):
    """The limits of history; most need a clock that stands still."""

    def test_a_run_is_trimmed_with_all_its_attempts(self, bench: Bench) -> None:
        """Each counts as one of the hundred, and the run goes as a whole."""
        bench.claim(-1)
        for attempt in (1, 2):
            bench.release(-1, attempt)
            bench.claim(-1, wants=attempt + 1)
        bench.finish(-1, 3)
        lengths = []
        for slot in range(-200, -99):
            bench.run_through(slot / 1000)
            lengths.append(len(bench.history()))
        assert lengths == [*range(4, 101), 98, 99, 100, 100]

    @needs(clock_stands_still=True)
    def test_thirty_days_end_in_their_last_millisecond(self, still: Bench) -> None:
        """In it a record is kept, and no longer in the next one."""
        for slot in range(-11, 0):
            still.run_through(slot / 1000)
        still.clock.advance(30 * DAY * 1000)
        still.run_through(30 * DAY)
        assert len(still.history()) == 12
        still.clock.advance(1)
        still.run_through(30 * DAY + 0.001)
        assert len(still.history()) == 10

    @needs(clock_stands_still=True)
    def test_a_hundred_runs_are_removed_at_once(self, still: Bench) -> None:
        """No more, so that every call stays short; the next one goes on."""
        pace = still.pace()._replace(tolerance_ms=10_000)
        for slot in range(9_000, 9_130):
            still.run_through(slot / 1000, pace=pace)
        still.clock.advance(40 * DAY * 1000)
        still.run_through(40 * DAY)
        assert len(still.history()) == 31
        still.clock.advance(1)
        still.run_through(40 * DAY + 0.001)
        assert len(still.history()) == 10

    @needs(clock_stands_still=True)
    def test_a_slot_of_this_millisecond_may_be_trimmed(self, still: Bench) -> None:
        """It is not after store time."""
        pace = still.pace()._replace(tolerance_ms=10_000)
        for slot in range(1, 101):
            still.run_through(slot / 1000, pace=pace)
        still.run_through(0, pace=pace)
        assert [row[0] for row in still.told()] == [slot / 1000 for slot in range(100, 0, -1)]

    @needs(clock_stands_still=True)
    def test_a_dead_manual_run_is_kept_for_an_hour(self, still: Bench) -> None:
        """From the end of its lease on, to the millisecond: until then its result may come."""
        still.manual("dead", -100)
        still.clock.advance(still.lease_ms + HOUR_MS)
        begun = still.lease_ms + HOUR_MS
        for slot in range(begun - 130, begun):
            still.run_through(slot / 1000)
        assert "dead" in [run.run_id for run in still.history()]
        still.clock.advance(1)
        still.run_through(begun / 1000)
        assert "dead" not in [run.run_id for run in still.history()]

    @needs(clock_stands_still=True)
    def test_one_of_a_long_lease_is_kept_for_three_of_them(self, still: Bench) -> None:
        """Where that is longer than the hour."""
        key = still.key(-100)._replace(manual="dead")
        asked = still.result(0, key=key, status="running", reason="manual")
        still.backend.record_manual([asked], owner=still.owner("a"), lease_ms=HOUR_MS)
        still.clock.advance(4 * HOUR_MS)
        for slot in range(4 * HOUR_MS - 130, 4 * HOUR_MS):
            still.run_through(slot / 1000)
        assert "dead" in [run.run_id for run in still.history()]
        still.clock.advance(1)
        still.run_through(4 * HOUR_MS / 1000)
        assert "dead" not in [run.run_id for run in still.history()]

    def test_each_job_of_a_call_is_trimmed(self, bench: Bench) -> None:
        """A batch of results may be about many."""
        jobs = ("job", "other", "third")
        for job in jobs:
            for slot in range(-200, -100):
                bench.run_through(slot / 1000, job=job)
            bench.claim(0, job=job)
        bench.backend.finish([bench.result(0, job=job) for job in jobs], owner=bench.owner("a"))
        assert [len(bench.history(job)) for job in jobs] == [100, 100, 100]

    @needs(clock_stands_still=True)
    def test_attempts_and_skips_of_a_call_are_both_trimmed(self, still: Bench) -> None:
        """Each by its own number."""
        for slot in range(-300, -200):
            still.run_through(slot / 1000)
        still.backend.pause("job", duration_ms=None)
        for slot in range(-190, -170):
            still.claim(slot / 1000)
        still.backend.pause("job", duration_ms=0)
        still.claim(-0.1)
        still.release(-0.1)
        still.pass_leases(4)
        still.claims(still.wish(-0.1, wants=2), still.wish(-0.15), by="b")
        statuses = [row[2] for row in still.told()]
        assert (statuses.count("skipped"), len(statuses)) == (20, 120)
        assert still.told()[0][3] == "too old"
