"""The guards of renew, look, release, save and cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .._values import Closed, Held, Lost, Recorded, Released, Waiting, Won
from ..errors import ConfigurationError
from .bench import Contract, same
from .needs import needs

if TYPE_CHECKING:
    from .._values import Renewed
    from .bench import Bench


class Renewals(Contract):
    """A lease is extended for its owner, whatever the clock says."""

    def test_it_extends_the_lease_and_counts(self, bench: Bench) -> None:
        """From now, by a whole lease."""
        bench.claim(0)
        bench.pass_leases(0.5)
        assert bench.renew(0)
        run = bench.open_run()
        assert run.left_ms > 0.9 * bench.lease_ms
        assert run.beat == 1
        bench.renew(0)
        assert bench.open_run().beat == 2

    def test_it_extends_after_the_lease_s_end(self, bench: Bench) -> None:
        """As long as nobody took over."""
        bench.claim(0)
        bench.pass_leases(1.5)
        assert bench.renew(0)
        assert bench.open_run().left_ms > 0.9 * bench.lease_ms

    def test_a_dead_run_that_may_be_followed_reads_running(self, bench: Bench) -> None:
        """It isn't lost before somebody says so, or it is too old."""
        bench.claim(0)
        bench.pass_leases(1.5)
        assert [run.status for run in bench.history()] == ["running"]
        bench.pass_leases(3)
        assert [run.status for run in bench.history()] == ["lost"]
        assert bench.renew(0)
        assert [run.status for run in bench.history()] == ["running"]

    def test_not_for_anybody_else(self, bench: Bench) -> None:
        """The token decides, not the name of the instance."""
        bench.claim(0)
        assert not bench.renew(0, by="b")
        assert bench.open_run().beat == 0

    def test_not_for_another_attempt(self, bench: Bench) -> None:
        """Neither an older nor a later one."""
        bench.claim(0)
        assert not bench.renew(0, 2)
        bench.release(0)
        bench.claim(0, wants=2)
        assert not bench.renew(0, 1)
        assert bench.renew(0, 2)

    def test_not_what_was_handed_over_or_closed(self, bench: Bench) -> None:
        """Only a running attempt has a lease."""
        bench.claim(0)
        bench.release(0)
        assert not bench.renew(0)
        assert bench.open_run().state == "waiting"
        bench.claim(0, wants=2)
        bench.finish(0, 2)
        assert not bench.renew(0, 2)

    def test_a_success_is_done_and_not_lost(self, bench: Bench) -> None:
        """To its owner, and to nobody else; a failure is lost."""
        leases = [bench.lease(0, job=job) for job in ("good", "bad")]
        for job, status in (("good", "success"), ("bad", "failed")):
            bench.claim(0, job=job)
            bench.finish(0, job=job, status=status)
        for by, done in (("a", tuple(leases[:1])), ("b", ())):
            renewed = bench.any.renew(leases, owner=bench.owner(by), lease_ms=bench.lease_ms)
            assert renewed.done == done
            assert set(renewed.lost) == set(leases) - set(done)

    def test_it_never_creates_a_record(self, bench: Bench) -> None:
        """Missing means lost."""
        assert not bench.renew(0)
        assert bench.history() == []
        assert bench.unfinished() == ()

    def test_a_batch_names_what_is_lost(self, bench: Bench) -> None:
        """And renews the rest."""
        bench.claim(0, job="mine")
        bench.claim(0, job="other", by="b")
        leases = [bench.lease(0, job=job) for job in ("other", "mine")]
        renewed: Renewed = bench.any.renew(
            leases, owner=bench.owner("a"), lease_ms=2 * bench.lease_ms
        )
        assert (renewed.lost, renewed.cancelled) == ((leases[0],), ())
        assert abs(renewed.store_ms - bench.now_ms()) < 1000
        run = bench.open_run(0, "mine")
        assert run.lease_ms == 2 * bench.lease_ms
        assert run.left_ms > bench.lease_ms

    def test_it_tells_of_a_cancellation(self, bench: Bench) -> None:
        """And renews all the same, until the handler has ended."""
        bench.claim(0)
        assert bench.any.cancel(bench.key(0))
        lease = bench.lease(0)
        renewed = bench.any.renew([lease], owner=bench.owner("a"), lease_ms=bench.lease_ms)
        assert (renewed.lost, renewed.cancelled) == ((), (lease,))
        assert bench.open_run().beat == 1

    @needs(clock_can_be_set=True)  # it asks a moment before the end
    def test_a_manual_run_is_renewed(self, bench: Bench) -> None:
        """With the others."""
        lease = bench.manual("token-1")
        bench.pass_leases(0.9)
        renewed = bench.any.renew([lease], owner=bench.owner("a"), lease_ms=bench.lease_ms)
        assert renewed.lost == ()
        bench.pass_leases(0.9)
        assert [run.status for run in bench.history()] == ["running"]


class Releases(Contract):
    """An attempt is handed over by its owner."""

    def test_it_waits(self, bench: Bench) -> None:
        """Interrupted, as history shows it."""
        bench.claim(0)
        assert same(bench.release(0, error="Aborted: stop"), Released(bench.lease(0)))
        (run,) = bench.history()
        assert (run.status, run.detail, run.error) == (
            "interrupted",
            "handed over",
            "Aborted: stop",
        )
        assert run.duration_ms == 5

    def test_a_repeat_is_released(self, bench: Bench) -> None:
        """Until somebody has it."""
        bench.claim(0)
        bench.release(0)
        assert same(bench.release(0), Released(bench.lease(0)))
        bench.claim(0, by="b", wants=2)
        assert same(bench.release(0), Lost(bench.lease(0)))
        assert bench.open_run().owner == "b"

    def test_nobody_else_s(self, bench: Bench) -> None:
        """Nor another attempt, nor one that isn't there, nor one that is closed."""
        assert same(bench.release(0), Lost(bench.lease(0)))
        bench.claim(0)
        assert same(bench.release(0, by="b"), Lost(bench.lease(0)))
        assert same(bench.release(0, 2), Lost(bench.lease(0, 2)))
        assert bench.open_run().state == "running"
        bench.release(0)
        assert same(bench.release(0, by="b"), Lost(bench.lease(0)))
        bench.claim(0, wants=2)
        bench.finish(0, 2)
        assert same(bench.release(0, 1), Lost(bench.lease(0)))

    def test_it_hands_over_after_the_lease_s_end(self, bench: Bench) -> None:
        """As long as nobody took over."""
        bench.claim(0)
        bench.pass_leases(1.5)
        assert isinstance(bench.release(0), Released)

    def test_what_was_handed_over_can_not_be_finished(self, bench: Bench) -> None:
        """Its owner gave it up."""
        bench.claim(0)
        bench.release(0)
        assert same(bench.finish(0), Lost(bench.lease(0)))
        assert bench.open_run().state == "waiting"

    def test_a_cancelled_run_is_closed(self, bench: Bench) -> None:
        """Nobody continues it."""
        bench.claim(0)
        bench.any.cancel(bench.key(0))
        for _ in range(2):
            assert same(bench.release(0), Recorded(bench.lease(0), "interrupted", "cancelled"))
        assert bench.told() == [(0, 1, "interrupted", "cancelled")]
        assert isinstance(bench.claim(0, by="b", wants=2), Closed)

    def test_counted_ones_use_the_budget_up(self, bench: Bench) -> None:
        """As deaths do; the last one closes the run as failed."""
        bench.claim(0, budget=2)
        assert isinstance(bench.release(0, counted=True), Released)
        bench.claim(0, wants=2, budget=2)
        for _ in range(2):
            answer = bench.release(0, 2, counted=True, error="E: lost")
            assert same(answer, Recorded(bench.lease(0, 2), "failed", None))
        assert bench.history()[0].error == "runner died 2 times: E: lost"
        assert [row[2] for row in bench.told()] == ["failed", "interrupted"]

    def test_free_ones_do_not(self, bench: Bench) -> None:
        """Stops alone never use it up."""
        bench.claim(0, budget=1)
        assert isinstance(bench.release(0), Released)
        bench.claim(0, wants=2, budget=1)
        assert isinstance(bench.release(0, 2), Released)

    def test_a_counted_one_without_a_budget_is_lost(self, bench: Bench) -> None:
        """It never reads failed."""
        bench.claim(0, budget=0)
        assert same(bench.release(0, counted=True), Recorded(bench.lease(0), "lost", "runner died"))


class Saves(Contract):
    """A checkpoint is kept by the same guard as a finish."""

    def save(self, bench: Bench, value: str, *, by: str = "a", attempt: int = 1) -> bool:
        """Save a checkpoint of slot 0."""
        lease = bench.lease(0, attempt)
        return bool(bench.any.save(lease, owner=bench.owner(by), value=value))

    def test_by_the_owner_of_the_attempt_alone(self, bench: Bench) -> None:
        """Whether its lease has ended or not."""
        assert not self.save(bench, "1")
        bench.claim(0)
        assert not self.save(bench, "2", by="b")
        assert not self.save(bench, "3", attempt=2)
        bench.pass_leases(1.5)
        assert self.save(bench, "4")
        bench.release(0)
        assert not self.save(bench, "5")
        answer = bench.claim(0, by="b", wants=2)
        assert isinstance(answer, Won)
        assert answer.checkpoint == "4"
        again = bench.claim(0, by="b", wants=2)
        assert isinstance(again, Won)
        assert again.checkpoint == "4"

    def test_at_most_64_kib(self, bench: Bench) -> None:
        """Of bytes, not of letters; what doesn't fit is refused and changes nothing."""
        bench.claim(0)
        assert self.save(bench, "é" * 32_768)
        for value in ("é" * 32_768 + "x", "\ud800"):
            with pytest.raises(ConfigurationError):
                self.save(bench, value)
        bench.release(0)
        answer = bench.claim(0, by="b", wants=2)
        assert isinstance(answer, Won)
        assert answer.checkpoint == "é" * 32_768

    def test_each_run_has_its_own(self, bench: Bench) -> None:
        """The next slot begins without one."""
        bench.claim(0)
        self.save(bench, "1")
        bench.finish(0)
        answer = bench.claim(0.001)
        assert isinstance(answer, Won)
        assert answer.checkpoint is None

    def test_a_manual_run_of_the_same_millisecond_has_its_own(self, bench: Bench) -> None:
        """The token is part of the identity."""
        lease = bench.manual("token-1", 0)
        assert bench.any.save(lease, owner=bench.owner("a"), value="manual")
        bench.claim(0)
        for kept in (None, "1", "2"):
            answer = bench.claim(0)
            assert isinstance(answer, Won)
            assert answer.checkpoint == kept
            assert self.save(bench, "1" if kept is None else "2")


class Cancels(Contract):
    """A run is cancelled wherever it runs."""

    def test_a_waiting_run_is_closed(self, bench: Bench) -> None:
        """As interrupted."""
        bench.claim(0)
        bench.release(0)
        assert bench.any.cancel(bench.key(0))
        assert [row[2] for row in bench.told()] == ["interrupted"]
        answer = bench.claim(0, by="b", wants=2)
        assert isinstance(answer, Closed)
        assert answer.status == "interrupted"
        assert not bench.any.cancel(bench.key(0))

    def test_a_running_one_goes_on_until_its_owner_knows(self, bench: Bench) -> None:
        """And a result that comes first counts."""
        bench.claim(0)
        assert bench.any.cancel(bench.key(0))
        assert bench.any.cancel(bench.key(0))
        assert isinstance(bench.claim(0, by="b"), Held)
        assert same(bench.finish(0), Recorded(bench.lease(0), "success", None))

    def test_what_is_not_open_can_not_be(self, bench: Bench) -> None:
        """Nothing is recorded by asking."""
        assert not bench.any.cancel(bench.key(0))
        bench.run_through(0)
        assert not bench.any.cancel(bench.key(0))
        assert not bench.any.cancel(bench.key(0, "\ud800"))
        assert bench.told() == [(0, 1, "success", None)]

    def test_a_later_attempt_starts_clean(self, bench: Bench) -> None:
        """A waiting run is never left flagged: a cancelled one is closed."""
        bench.claim(0)
        bench.any.cancel(bench.key(0))
        bench.release(0)
        assert not isinstance(bench.claim(0, by="b", wants=2), Won | Waiting)
