"""What a look, unfinished and every reply of a claim say of open runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .._values import Closed, OpenRun
from .bench import Contract
from .needs import needs

if TYPE_CHECKING:
    from .bench import Bench


class Looks(Contract):
    """A look names what is wrong, unfinished names everything."""

    def test_a_healthy_run_is_only_counted(self, bench: Bench) -> None:
        """With the time until its lease ends."""
        bench.claim(0)
        looked = bench.look()
        assert (looked.wrong, looked.others) == ((), 1)
        assert looked.next_end_ms is not None
        assert 0.9 * bench.lease_ms < looked.next_end_ms <= bench.lease_ms

    def test_nothing_open(self, bench: Bench) -> None:
        """The watcher may stop."""
        bench.run_through(0)
        looked = bench.look()
        assert (looked.wrong, looked.others, looked.next_end_ms) == ((), 0, None)

    def test_what_is_mine_is_not_counted(self, bench: Bench) -> None:
        """Nor does its end matter; but it is named when it is wrong."""
        bench.claim(0, by="z")
        looked = bench.look(by="z")
        assert (looked.wrong, looked.others, looked.next_end_ms) == ((), 0, None)
        bench.pass_leases(0.6)
        (run,) = bench.look(by="z").wrong
        assert run.mine
        (run,) = bench.look(by="y").wrong
        assert not run.mine

    @needs(clock_can_be_set=True)  # it asks a moment before the end
    def test_one_that_missed_a_renewal_is_named(self, bench: Bench) -> None:
        """After 1.5 of its own heartbeats, with all that a takeover compares."""
        bench.claim(0, heartbeat_ms=bench.lease_ms // 3)
        bench.renew(0)
        bench.pass_leases(0.45)
        assert bench.look().wrong == ()
        bench.pass_leases(0.1)
        (run,) = bench.look().wrong
        assert (run.key, run.state, run.attempt, run.beat) == (bench.key(0), "running", 1, 1)
        assert (run.lease_ms, run.heartbeat_ms) == (bench.lease_ms, bench.lease_ms // 3)
        assert (run.owner, run.mine) == ("a", False)
        assert 0.4 * bench.lease_ms < run.left_ms < 0.5 * bench.lease_ms

    @needs(clock_can_be_set=True)  # it asks a moment before the end
    def test_one_whose_lease_ended_is_named(self, bench: Bench) -> None:
        """However often it beats; its end is no longer ahead."""
        bench.claim(0, heartbeat_ms=10 * bench.lease_ms)
        bench.pass_leases(0.99)
        assert bench.look().wrong == ()
        bench.pass_leases(0.02)
        looked = bench.look()
        assert [run.key for run in looked.wrong] == [bench.key(0)]
        assert looked.wrong[0].left_ms <= 0
        assert (looked.others, looked.next_end_ms) == (1, None)

    def test_one_that_was_handed_over_is_named(self, bench: Bench) -> None:
        """It waits for anybody."""
        bench.claim(0)
        bench.release(0)
        looked = bench.look(by="a")
        assert looked.wrong == (
            OpenRun(
                bench.key(0),
                "waiting",
                1,
                0,
                0,
                bench.lease_ms,
                bench.lease_ms // 3,
                "a",
                mine=False,
            ),
        )
        assert (looked.others, looked.next_end_ms) == (1, None)

    @needs(lease_clock="may step", clock_can_be_set=True)
    def test_one_renewed_after_store_time_is_named(self, bench: Bench) -> None:
        """The store's clock stepped back."""
        if bench.info.steady:
            pytest.skip("the lease clock of this store can't step")
        bench.claim(0)
        bench.clock.step(-10_000)
        (run,) = bench.look().wrong
        assert run.left_ms > bench.lease_ms

    def test_only_the_jobs_asked_for(self, bench: Bench) -> None:
        """Each once, also when named twice; a name that no job can have finds nothing."""
        bench.claim(0, job="one")
        bench.claim(0, job="two")
        assert bench.look("one", "one", "\ud800", "three").others == 1
        assert [run.key.job for run in bench.unfinished("two", "one", "two")] == ["two", "one"]

    def test_unfinished_names_all_open_runs(self, bench: Bench) -> None:
        """Healthy ones as well, oldest slot first."""
        for slot in (-3, -2, -1):
            bench.claim(slot, skip_overlap=False)
        bench.release(-2)
        bench.finish(-1)
        assert [(run.key, run.state) for run in bench.unfinished()] == [
            (bench.key(-3), "running"),
            (bench.key(-2), "waiting"),
        ]

    def test_manual_runs_are_nobody_s_business(self, bench: Bench) -> None:
        """They are never taken over, so nobody looks at them."""
        bench.manual("token-1")
        bench.pass_leases(2)
        assert bench.look().others == 0
        assert bench.unfinished() == ()
        claims = bench.claims(bench.wish(0), by="b")
        assert claims.open == ()

    def test_a_look_changes_nothing(self, bench: Bench) -> None:
        """Not even of a dead run."""
        bench.claim(0, budget=0)
        bench.pass_leases(9)
        for _ in range(3):
            (run,) = bench.look().wrong
            assert (run.attempt, run.beat, run.state) == (1, 0, "running")
        assert bench.renew(0)

    def test_every_claim_names_the_other_open_runs(self, bench: Bench) -> None:
        """Won, skipped or closed; oldest first, at most ten, and not the one asked for."""
        for n in range(12):
            bench.claim(n / 1000, skip_overlap=False, by="x")
        oldest = [bench.key(n / 1000) for n in range(10)]
        for wish in (
            bench.wish(0.020, skip_overlap=False),
            bench.wish(0.030),
            bench.wish(-5),
            bench.wish(0.011, wants=2),
        ):
            claims = bench.claims(wish, by="b")
            assert [run.key for run in claims.open] == oldest
        claims = bench.claims(bench.wish(0), by="b")
        assert [run.key for run in claims.open] == [bench.key(n / 1000) for n in range(1, 11)]
        pace = bench.pace()
        missed = bench.backend.skip((), owner=bench.owner("b"), pace=pace)
        assert (missed.answers, missed.open) == ((), ())
        assert isinstance(bench.skip(-4, 0, by="b"), Closed)

    def test_a_skip_names_the_open_runs(self, bench: Bench) -> None:
        """So that a saturated instance becomes their backup."""
        bench.claim(-10)
        wish = bench.skip_wish(-5, -1)
        claims = bench.backend.skip([wish], owner=bench.owner("b"), pace=bench.pace())
        assert [(run.key, run.owner) for run in claims.open] == [(bench.key(-10), "a")]
