"""To the millisecond: what holds until an end, and from it on.

Only on a clock that stands still while nobody moves it can a claim come in the very
millisecond in which a lease ends or a pause is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .._values import Closed, Early, Held, Suspect, Won, instant
from .bench import ANY_JOB, same
from .needs import needs
from .takeovers import TakeoverBase

if TYPE_CHECKING:
    from .bench import Bench


@needs(clock_stands_still=True)
class Exact(TakeoverBase):
    """The ends of leases and pauses, and what is told in milliseconds."""

    @pytest.mark.parametrize("job", [ANY_JOB, None], ids=["one", "all"])
    def test_a_pause_is_over_in_its_last_millisecond(self, still: Bench, job: str | None) -> None:
        """And on until then."""
        still.backend.pause(job, duration_ms=1000)
        still.clock.advance(999)
        answer = still.claim(0)
        assert isinstance(answer, Closed)
        assert answer.detail == "paused"
        still.clock.advance(1)
        assert isinstance(still.claim(1), Won)

    def test_a_lease_ends_in_its_last_millisecond(self, still: Bench) -> None:
        """Neither before, whoever has watched it, nor after."""
        still.claim(0)
        still.clock.advance(still.lease_ms - 1)
        seen = still.lease_ms - 1
        answer = still.claim(0, by="b", wants=2, beat=0, unseen=seen)
        assert isinstance(answer, Held)
        assert answer.run.left_ms == 1
        still.clock.advance(1)
        assert still.open_run().left_ms == 0
        assert isinstance(still.claim(0, by="b", wants=2, beat=0, unseen=seen), Won)

    def test_a_run_that_can_not_go_on_blocks_until_its_lease_ends(self, still: Bench) -> None:
        """From then on it is suspect."""
        still.claim(0, by="x", budget=1)
        still.clock.advance(still.lease_ms - 1)
        assert isinstance(still.claim(0.001, by="b"), Closed)
        still.clock.advance(1)
        assert isinstance(still.claim(0.002, by="b"), Suspect)

    @pytest.mark.parametrize(("budget", "status"), [(0, "lost"), (1, "failed")])
    def test_a_dead_run_ends_when_it_is_closed(
        self, still: Bench, budget: int, status: str
    ) -> None:
        """Not when its lease did."""
        self.die(still, budget=budget)
        still.clock.advance(7)
        assert isinstance(self.take(still), Closed)
        (run,) = still.history()
        assert run.status == status
        assert run.finished_at == instant(still.now_ms())

    @pytest.mark.parametrize("late_ms", [0, 1])
    def test_a_dead_run_is_too_old_after_three_leases(self, still: Bench, late_ms: int) -> None:
        """In their last millisecond it isn't; for another slot as little as for itself."""
        still.claim(0, by="x")
        still.clock.advance(4 * still.lease_ms + late_ms)
        answer = still.claim(0.001, by="b")
        if late_ms:
            assert isinstance(answer, Suspect)
            assert isinstance(self.take(still), Closed)
        else:
            assert isinstance(answer, Closed)
            assert isinstance(self.take(still), Won)

    @pytest.mark.parametrize("late_ms", [0, 1])
    def test_a_waiting_run_is_too_old_after_three_leases(self, still: Bench, late_ms: int) -> None:
        """As a dead one."""
        for job in (ANY_JOB, "other"):
            still.claim(0, job=job)
            still.release(0, job=job)
        still.clock.advance(3 * still.lease_ms + late_ms)
        claims = still.claims(still.wish(0.001), by="b")
        answer = still.claim(0, by="b", job="other", wants=2)
        if late_ms:
            assert isinstance(claims.answers[0], Won)
            assert [run.detail for run in claims.closed] == ["too old"]
            assert isinstance(answer, Closed)
        else:
            assert isinstance(claims.answers[0], Closed)
            assert claims.closed == ()
            assert isinstance(answer, Won)

    def test_a_time_that_leaves_no_room_does_not_count_for_the_fence(self, still: Bench) -> None:
        """From the year 2255 on microseconds are too many; then the job's last fence counts."""
        still.clock.step(9_007_199_254_740 - still.now_ms())
        for slot, fence in ((0, 9_007_199_254_740_000), (0.001, 9_007_199_254_740_001)):
            answer = still.claim(slot)
            assert isinstance(answer, Won)
            assert answer.fence == fence
            still.finish(slot)
            still.clock.advance(1)

    def test_a_slot_is_early_beyond_the_tolerance(self, still: Bench) -> None:
        """And no longer in its last millisecond."""
        pace = still.pace()._replace(tolerance_ms=250)
        assert same(still.claim(0.251, pace=pace), Early(still.key(0.251), 251))
        assert isinstance(still.claim(0.250, pace=pace), Won)

    def test_a_newer_slot_is_one_by_a_millisecond(self, still: Bench) -> None:
        """If it isn't after store time."""
        pace = still.pace()._replace(tolerance_ms=1)
        still.run_through(0.001, pace=pace)
        assert isinstance(still.claim(-0.001, by="b"), Won)
        still.finish(-0.001, by="b")
        answer = still.claim(-0.002, by="b")
        assert isinstance(answer, Closed)
        assert answer.detail == "newer slot"
        still.clock.advance(1)
        answer = still.claim(0, by="b")
        assert isinstance(answer, Closed)
        assert answer.detail == "newer slot"

    @needs(lease_clock="may step")
    def test_the_margin_of_a_short_lease_is_a_quarter_of_a_second(self, still: Bench) -> None:
        """A tenth of it would be less than a busy host may be late."""
        if still.info.steady:
            pytest.skip("the lease clock of this store can't step")
        still.claim(0, lease_ms=2000)
        still.clock.advance(2000)
        blind = still.pace()._replace(steady_ms=0)
        early = still.claim(0, by="b", wants=2, beat=0, unseen=1749, pace=blind, lease_ms=2000)
        assert isinstance(early, Held)
        answer = still.claim(0, by="b", wants=2, beat=0, unseen=1750, pace=blind, lease_ms=2000)
        assert isinstance(answer, Won)

    @needs(lease_clock="may step")
    def test_what_was_never_seen_is_not_witnessed(self, still: Bench) -> None:
        """Not even where the witness takes no time, as here."""
        if still.info.steady:
            pytest.skip("the lease clock of this store can't step")
        still.claim(0, lease_ms=250)
        still.clock.advance(250)
        blind = still.pace()._replace(steady_ms=-1)
        assert isinstance(still.claim(0, by="b", wants=2, beat=0, pace=blind), Held)
        answer = still.claim(0, by="b", wants=2, beat=0, unseen=0, pace=blind)
        assert isinstance(answer, Won)

    @needs(lease_clock="may step")
    @pytest.mark.parametrize("sign", [1, -1])
    def test_clocks_that_are_half_the_margin_apart_do_not_agree(
        self, still: Bench, sign: int
    ) -> None:
        """A millisecond less, and they do."""
        if still.info.steady:
            pytest.skip("the lease clock of this store can't step")
        self.die(still)
        half_ms = int(still.margin_ms / 2)
        pace = still.pace()
        for apart_ms, kind in ((half_ms, Held), (half_ms - 1, Won)):
            moved = pace._replace(expected_ms=still.now_ms() + sign * apart_ms)
            assert isinstance(still.claim(0, by="b", wants=2, beat=0, pace=moved), kind)
