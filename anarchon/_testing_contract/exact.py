"""To the millisecond: what holds until an end, and from it on.

Only on a clock that stands still while nobody moves it can a claim come in the very
millisecond in which a lease ends or a pause is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .._values import Closed, Held, Won
from .bench import ANY_JOB
from .needs import needs
from .takeovers import TakeoverBase

if TYPE_CHECKING:
    from .bench import Bench


@needs(clock_stands_still=True)
class Exact(TakeoverBase):
    """The ends of leases and pauses."""

    @pytest.fixture
    def still(self, bench: Bench) -> Bench:
        """Have a store whose clock a test can stop."""
        if not self.clock_stands_still:
            pytest.skip("needs a store whose clock stands still")
        return bench

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
