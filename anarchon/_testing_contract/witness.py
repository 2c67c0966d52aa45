"""Clocks that step: who may take a lease for ended, and when.

On a store whose lease clock can't step, its word is enough. On any other a takeover also
needs the asker's own clock, as these tests say; there they step the store's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .._values import Closed, Early, Held, Won
from .needs import needs
from .takeovers import TakeoverBase

if TYPE_CHECKING:
    from .bench import Bench

HOUR_MS = 3_600_000


@needs(lease_clock="may step")
class Witnesses(TakeoverBase):
    """The witness of a claim that takes a run over, or closes it."""

    @pytest.fixture
    def dead(self, bench: Bench) -> Bench:
        """Have a run whose lease has just ended, on a store whose clock may step."""
        if bench.info.steady:
            pytest.skip("the lease clock of this store can't step")
        self.die(bench)
        return bench

    def test_the_same_beat_seen_for_the_witness_is_enough(self, dead: Bench) -> None:
        """The lease less the margin by which its owner gives up; not a moment less."""
        blind = dead.pace()._replace(steady_ms=0)
        for unseen_ms in (dead.witness_ms - 1, 0, None):
            answer = dead.claim(0, by="b", wants=2, beat=0, unseen=unseen_ms, pace=blind)
            assert isinstance(answer, Held)
        answer = dead.claim(0, by="b", wants=2, beat=0, unseen=dead.witness_ms, pace=blind)
        assert isinstance(answer, Won)

    def test_clocks_that_agreed_for_the_witness_are_enough(self, dead: Bench) -> None:
        """Then nothing needs to have been seen."""
        young = dead.pace()._replace(steady_ms=int(dead.witness_ms) - 1)
        assert isinstance(dead.claim(0, by="b", wants=2, beat=0, pace=young), Held)
        old = dead.pace()._replace(steady_ms=int(dead.witness_ms))
        assert isinstance(dead.claim(0, by="b", wants=2, beat=0, pace=old), Won)

    def test_nothing_is_enough_before_the_lease_s_end(self, dead: Bench) -> None:
        """Except the same beat seen for a whole lease."""
        dead.claim(0, by="owner-1")  # the repeat extends the lease: beat 1
        for unseen_ms in (None, dead.witness_ms, dead.lease_ms - 1):
            answer = dead.claim(0, by="b", wants=2, beat=1, unseen=unseen_ms)
            assert isinstance(answer, Held)

    @needs(clock_can_be_set=True)
    def test_a_step_forward_takes_no_run_from_a_healthy_owner(self, bench: Bench) -> None:
        """The lease seems ended; the asker's clock knows better."""
        if bench.info.steady:
            pytest.skip("the lease clock of this store can't step")
        bench.claim(0)
        bench.pass_leases(0.5)
        pace = bench.pace()
        bench.clock.step(HOUR_MS)
        answer = bench.claim(0, by="b", wants=2, beat=0, unseen=bench.lease_ms / 2, pace=pace)
        assert isinstance(answer, Held)
        assert answer.run.left_ms < 0
        assert bench.renew(0)

    @needs(clock_can_be_set=True)
    def test_a_step_forward_closes_no_run_of_a_healthy_owner(self, bench: Bench) -> None:
        """Nor does it read as too old, or blocked by a suspect that is closed at once."""
        if bench.info.steady:
            pytest.skip("the lease clock of this store can't step")
        bench.claim(0, budget=0)
        pace = bench.pace()
        bench.clock.step(HOUR_MS)
        for wins in (0, 1):
            answer = bench.claim(0, by="b", wants=2, beat=0, unseen=1, pace=pace, wins=wins)
            assert isinstance(answer, Held)
        assert bench.finish(0).lease == bench.lease(0)
        assert bench.told() == [(0, 1, "success", None)]

    @needs(clock_can_be_set=True)
    def test_a_step_back_keeps_no_dead_run_alive(self, bench: Bench) -> None:
        """The same beat seen for a whole lease ends it, whatever the store's clock says."""
        if bench.info.steady:
            pytest.skip("the lease clock of this store can't step")
        bench.claim(0)
        bench.clock.step(-HOUR_MS)
        bench.pass_leases(1)
        less = bench.claim(0, by="b", wants=2, beat=0, unseen=bench.lease_ms - 1)
        assert isinstance(less, Held)
        assert less.run.left_ms > bench.lease_ms
        answer = bench.claim(0, by="b", wants=2, beat=0, unseen=bench.lease_ms)
        assert isinstance(answer, Won)

    def test_floats_cost_no_heartbeat(self, dead: Bench) -> None:
        """A claim that was timed exactly is not refused for a float's last digit."""
        seen = 5.001  # 5.001 + 27 - 5.001 is a little less than 27
        pace = dead.pace()._replace(sent=seen + dead.witness_ms / 1000, steady_ms=0)
        wish = dead.wish(0, wants=2, beat=0)._replace(first_seen=seen)
        less = pace._replace(sent=pace.sent - 0.0003)
        assert isinstance(dead.claims(wish, by="b", pace=less).answers[0], Held)
        assert isinstance(dead.claims(wish, by="b", pace=pace).answers[0], Won)


@needs(lease_clock="steady")
class SteadyLeases(TakeoverBase):
    """Where lease time can't step, a wall clock that does changes no lease."""

    @pytest.fixture
    def steady(self, bench: Bench) -> Bench:
        """Have a store whose lease clock can't step."""
        if not bench.info.steady:
            pytest.skip("the lease clock of this store may step")
        return bench

    def test_its_word_is_enough(self, steady: Bench) -> None:
        """A claimer that saw nothing takes over at once."""
        self.die(steady)
        pace = steady.pace()._replace(expected_ms=0, steady_ms=0)
        assert isinstance(steady.claim(0, by="b", wants=2, beat=0, pace=pace), Won)

    @needs(clock_can_be_set=True)
    @pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
    def test_a_wall_clock_step_ends_no_lease(self, steady: Bench, step_ms: int) -> None:
        """Nor does it prolong one."""
        steady.claim(0)
        steady.clock.step(step_ms)
        answer = steady.claim(0, by="b", wants=2, beat=0)
        assert isinstance(answer, Held)
        assert answer.run.left_ms == steady.lease_ms
        assert steady.look().wrong == ()
        steady.pass_leases(1.01)
        catch_up_ms = 2 * HOUR_MS
        taken = steady.claim(0, by="b", wants=2, beat=0, catch_up_ms=catch_up_ms)
        assert isinstance(taken, Won)

    @needs(clock_can_be_set=True)
    def test_a_wall_clock_step_trims_no_manual_run_that_lives(self, steady: Bench) -> None:
        """Its lease is what says that it lives."""
        steady.manual("alive", -100)
        steady.clock.step(3 * HOUR_MS)
        for slot in range(-130, 0):
            steady.run_through(slot / 1000)
        assert [run.run_id for run in steady.history() if run.manual] == ["alive"]

    @needs(clock_can_be_set=True)
    def test_slots_follow_the_wall_clock(self, steady: Bench) -> None:
        """A step back makes the next slot early, a step forward makes it due."""
        steady.clock.step(-HOUR_MS)
        answer = steady.claim(0)
        assert isinstance(answer, Early)
        assert answer.wait_ms == HOUR_MS
        steady.clock.step(2 * HOUR_MS)
        assert isinstance(steady.claim(3600), Won)

    @needs(clock_can_be_set=True)
    def test_age_follows_the_wall_clock(self, steady: Bench) -> None:
        """Too old is a matter of days, not of leases."""
        self.die(steady)
        steady.clock.step(HOUR_MS)
        answer = self.take(steady)
        assert isinstance(answer, Closed)
        assert answer.detail == "too old"
