"""The guards of a claim for a run that somebody else has, or had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .._values import Closed, Held, Released, Suspect, Waiting, Won
from .bench import Contract, same
from .needs import needs

if TYPE_CHECKING:
    from .._values import Answer
    from .bench import Bench


class TakeoverBase(Contract):
    """Short ways to have a dead run."""

    def die(self, bench: Bench, slot: float = 0, attempt: int = 1, **wants: Any) -> None:
        """Let an owner win an attempt and never be heard of again."""
        by = f"owner-{attempt}"
        assert isinstance(bench.claim(slot, by=by, wants=attempt, beat=0, **wants), Won)
        bench.pass_leases(1.01)

    def take(self, bench: Bench, slot: float = 0, attempt: int = 2, **wants: Any) -> Answer:
        """Claim the next attempt of a dead run as somebody who saw it all along."""
        wants.setdefault("by", "b")
        return bench.claim(slot, wants=attempt, beat=0, unseen=bench.lease_ms, **wants)


class Takeovers(TakeoverBase):
    """The next attempt of a run whose owner died."""

    def test_the_next_attempt_is_won_after_the_lease_s_end(self, bench: Bench) -> None:
        """The dead one is recorded as lost."""
        self.die(bench)
        answer = self.take(bench)
        assert isinstance(answer, Won)
        assert (answer.attempt, answer.left_ms) == (2, bench.lease_ms)
        assert bench.told() == [(0, 2, "running", None), (0, 1, "lost", "taken over")]
        newest, oldest = bench.history()
        assert (newest.reason, newest.instance_id) == ("takeover", "instance-b")
        assert oldest.finished_at is not None
        run = bench.open_run()
        assert (run.attempt, run.owner, run.beat) == (2, "b", 0)

    @needs(clock_can_be_set=True)  # it asks a moment before the end
    def test_not_before(self, bench: Bench) -> None:
        """Whoever renews in time keeps the run."""
        bench.claim(0)
        bench.pass_leases(0.98)
        answer = bench.claim(0, by="b", wants=2, beat=0, unseen=bench.witness_ms)
        assert isinstance(answer, Held)
        assert answer.run.left_ms > 0
        assert len(bench.history()) == 1

    @needs(clock_can_be_set=True)  # it asks a moment before the end
    def test_a_renewal_moves_the_end(self, bench: Bench) -> None:
        """The lease counts from the last renewal."""
        bench.claim(0)
        bench.pass_leases(0.9)
        bench.renew(0)
        bench.pass_leases(0.9)
        answer = bench.claim(0, by="b", wants=2, beat=1, unseen=bench.witness_ms)
        assert isinstance(answer, Held)
        bench.pass_leases(0.2)
        assert isinstance(bench.claim(0, by="b", wants=2, beat=1, unseen=bench.lease_ms), Won)

    def test_age_counts_from_the_last_renewal_as_well(self, bench: Bench) -> None:
        """A run that took long before its runner died is not too old."""
        bench.claim(0)
        for _ in range(6):
            bench.pass_leases(0.9)
            bench.renew(0)
        bench.pass_leases(1.01)
        assert isinstance(bench.claim(0, by="b", wants=2, beat=6, unseen=bench.lease_ms), Won)

    def test_only_for_the_renewal_that_was_seen(self, bench: Bench) -> None:
        """(attempt, beat) names it; another one starts the watch anew."""
        bench.claim(0)
        bench.renew(0)
        bench.pass_leases(1.5)
        for beat in (-1, 0, 2):
            answer = bench.claim(0, by="b", wants=2, beat=beat, unseen=5 * bench.lease_ms)
            assert isinstance(answer, Held)
            assert answer.run.beat == 1

    @pytest.mark.parametrize("attempt", [1, 3])
    def test_only_the_next_attempt(self, bench: Bench, attempt: int) -> None:
        """A claim can win only the attempt that it names."""
        self.die(bench)
        assert isinstance(self.take(bench, attempt=attempt), Held)
        assert len(bench.history()) == 1

    def test_one_takeover_is_enough(self, bench: Bench) -> None:
        """An old copy of the claim, or another backup, finds attempt 2."""
        self.die(bench)
        self.take(bench, by="b")
        answer = self.take(bench, by="c")
        assert isinstance(answer, Held)
        assert (answer.run.attempt, answer.run.owner) == (2, "b")

    def test_the_dead_owner_has_lost_it(self, bench: Bench) -> None:
        """It can't renew, finish or hand over what another one runs."""
        self.die(bench)
        self.take(bench)
        assert not bench.renew(0, by="owner-1")
        bench.finish(0, by="owner-1")
        bench.release(0, by="owner-1")
        assert bench.told()[0] == (0, 2, "running", None)

    def test_a_pause_stops_a_takeover(self, bench: Bench) -> None:
        """A takeover is a start; after the pause it goes on."""
        self.die(bench)
        bench.backend.pause("job", duration_ms=None)
        assert isinstance(self.take(bench), Held)
        bench.backend.resume("job")
        bench.backend.pause(None, duration_ms=None)
        assert isinstance(self.take(bench), Held)
        bench.backend.resume(None)
        assert isinstance(self.take(bench), Won)

    def test_a_takeover_needs_a_win(self, bench: Bench) -> None:
        """And uses it up."""
        self.die(bench)
        assert isinstance(self.take(bench, wins=0), Held)
        wishes = (
            bench.wish(0, wants=2, beat=0, unseen=bench.lease_ms),
            bench.wish(0, job="other"),
        )
        answers = bench.claims(*wishes, by="b", wins=1).answers
        assert [type(answer).__name__ for answer in answers] == ["Won", "Free"]

    def test_neither_a_newer_slot_nor_overlap_stops_it(self, bench: Bench) -> None:
        """Else two open runs would block each other until both are too old."""
        bench.claim(-10, by="x", skip_overlap=False)
        bench.claim(-5, by="y", skip_overlap=False)
        bench.pass_leases(1.01)
        assert isinstance(self.take(bench, -10), Won)
        assert isinstance(self.take(bench, -5, by="c"), Won)

    def test_the_fence_grows(self, bench: Bench) -> None:
        """With every attempt."""
        first = bench.claim(0)
        bench.pass_leases(1.01)
        second = self.take(bench)
        assert isinstance(first, Won)
        assert isinstance(second, Won)
        assert second.fence > first.fence

    def test_the_checkpoint_is_handed_on(self, bench: Bench) -> None:
        """The last one that was saved."""
        bench.claim(0, by="owner-1")
        lease = bench.lease(0)
        assert bench.any.save(lease, owner=bench.owner("owner-1"), value='{"page": 1}')
        assert bench.any.save(lease, owner=bench.owner("owner-1"), value='{"page": 2}')
        bench.pass_leases(1.01)
        answer = self.take(bench)
        assert isinstance(answer, Won)
        assert answer.checkpoint == '{"page": 2}'


class Deaths(TakeoverBase):
    """A run that died for good is closed by a claim with the same witness."""

    def test_the_death_that_uses_the_budget_up_closes_it_as_failed(self, bench: Bench) -> None:
        """Attempts that were taken over are lost, that one failed."""
        self.die(bench, attempt=1, budget=2)
        self.die(bench, attempt=2, budget=2, unseen=bench.lease_ms)
        answer = self.take(bench, attempt=3)
        assert isinstance(answer, Closed)
        assert (answer.status, answer.by) == ("failed", "b")
        run = bench.history()[0]
        assert answer.run == run
        assert (run.attempt, run.error) == (2, "runner died 2 times")
        assert [row[2] for row in bench.told()] == ["failed", "lost"]
        assert self.take(bench, attempt=3, by="c") == answer._replace(run=None)

    def test_a_budget_of_one(self, bench: Bench) -> None:
        """One attempt at most."""
        self.die(bench, budget=1)
        answer = self.take(bench)
        assert isinstance(answer, Closed)
        assert bench.history()[0].error == "runner died 1 time"

    def test_without_a_budget_it_is_lost(self, bench: Bench) -> None:
        """An attempt that may never be followed reads lost, not failed."""
        self.die(bench, budget=0)
        answer = self.take(bench)
        assert isinstance(answer, Closed)
        assert answer.status == "lost"
        assert bench.told() == [(0, 1, "lost", "runner died")]

    def test_the_budget_is_that_of_the_attempt_s_winner(self, bench: Bench) -> None:
        """Fleets may mix settings; the asker's own budget is for its own attempt."""
        self.die(bench, budget=2)
        assert isinstance(self.take(bench, budget=0), Won)
        bench.pass_leases(1.01)
        answer = self.take(bench, attempt=3, by="c", budget=9)
        assert isinstance(answer, Closed)
        assert answer.status == "lost"

    def test_one_that_is_too_old_is_lost(self, bench: Bench) -> None:
        """Yesterday's run is not taken over."""
        self.die(bench)
        bench.pass_leases(3.1)
        answer = self.take(bench)
        assert isinstance(answer, Closed)
        assert (answer.status, answer.detail) == ("lost", "too old")
        assert bench.told() == [(0, 1, "lost", "too old")]

    @needs(clock_can_be_set=True)  # it asks a moment before the end
    def test_three_leases_or_the_catch_up_is_not_too_old(self, bench: Bench) -> None:
        """The longer one counts, and the catch-up is the asker's."""
        self.die(bench)
        bench.pass_leases(2.9)
        assert isinstance(self.take(bench, catch_up_ms=1), Won)
        bench.finish(0, 2, by="b")
        self.die(bench, 0.001)
        bench.pass_leases(4)
        answer = self.take(bench, 0.001, catch_up_ms=6 * bench.lease_ms)
        assert isinstance(answer, Won)

    def test_a_cancelled_one_is_interrupted(self, bench: Bench) -> None:
        """Nobody takes it over."""
        bench.claim(0, by="owner-1")
        assert bench.any.cancel(bench.key(0))
        bench.pass_leases(1.01)
        answer = self.take(bench)
        assert isinstance(answer, Closed)
        assert (answer.status, answer.detail) == ("interrupted", "cancelled")

    def test_closing_needs_the_same_witness(self, bench: Bench) -> None:
        """A live runner's run is closed by nobody else."""
        bench.claim(0, budget=0)
        bench.pass_leases(0.5)
        answer = bench.claim(0, by="b", wants=2, beat=0, unseen=0)
        assert isinstance(answer, Held)
        bench.pass_leases(1)
        assert isinstance(bench.claim(0, by="b", wants=2, beat=7, unseen=bench.lease_ms), Held)
        assert isinstance(bench.claim(0, by="b", wants=3, beat=0, unseen=bench.lease_ms), Held)

    def test_closing_needs_neither_a_win_nor_the_end_of_a_pause(self, bench: Bench) -> None:
        """It starts nothing."""
        self.die(bench, budget=1)
        bench.backend.pause("job", duration_ms=None)
        assert isinstance(self.take(bench, wins=0), Closed)


class Blocks(TakeoverBase):
    """What an open run that isn't alive does to other slots."""

    def test_a_dead_run_that_may_go_on_blocks(self, bench: Bench) -> None:
        """It will be taken over."""
        self.die(bench, -10)
        answer = bench.claim(0, by="b")
        assert isinstance(answer, Closed)
        assert answer.detail == "overlap"

    def test_a_live_run_that_could_not_go_on_blocks(self, bench: Bench) -> None:
        """Its lease is what guards, whatever its budget is."""
        bench.claim(-10, budget=0)
        answer = bench.claim(0, by="b")
        assert isinstance(answer, Closed)
        assert answer.detail == "overlap"

    def test_a_dead_run_that_may_not_is_suspect(self, bench: Bench) -> None:
        """Nothing is recorded until somebody has closed it with a witness."""
        self.die(bench, -10, budget=1)
        answer = bench.claim(0, by="b")
        assert isinstance(answer, Suspect)
        assert (answer.other.key, answer.other.attempt) == (bench.key(-10), 1)
        assert (answer.other.beat, answer.other.owner) == (0, "owner-1")
        assert answer.other.left_ms <= 0
        assert [row[:2] for row in bench.told()] == [(-10, 1)]
        assert isinstance(self.take(bench, -10), Closed)
        assert isinstance(bench.claim(0, by="b"), Won)

    def test_a_suspect_is_judged_by_the_catch_up_of_who_asks(self, bench: Bench) -> None:
        """Too old for one job's settings is not for another's."""
        self.die(bench, -10)
        bench.pass_leases(4)
        assert isinstance(bench.claim(0, by="b"), Suspect)
        answer = bench.claim(0, by="b", catch_up_ms=9 * bench.lease_ms)
        assert isinstance(answer, Closed)
        assert answer.detail == "overlap"

    def test_a_run_that_waits_blocks(self, bench: Bench) -> None:
        """It will go on."""
        bench.claim(-10, budget=1)
        assert isinstance(bench.release(-10), Released)
        answer = bench.claim(0, by="b")
        assert isinstance(answer, Closed)
        assert answer.detail == "overlap"

    def test_a_run_that_waited_too_long_is_closed_in_passing(self, bench: Bench) -> None:
        """As lost; whoever closed it is told, for the event."""
        bench.claim(-10)
        bench.release(-10)
        bench.pass_leases(3.1)
        claims = bench.claims(bench.wish(0), by="b")
        assert isinstance(claims.answers[0], Won)
        (run,) = claims.closed
        assert (run.slot, run.attempt, run.status) == (bench.key(-10).slot_ms, 1, "lost")
        assert claims.open == ()
        assert bench.told() == [(0, 1, "running", None), (-10, 1, "lost", "too old")]
        assert isinstance(self.take(bench, -10), Closed)

    def test_one_that_blocks_outweighs_a_suspect(self, bench: Bench) -> None:
        """Whichever slot is older."""
        bench.claim(-10, skip_overlap=False, budget=1, by="x")
        bench.pass_leases(1.01)
        bench.claim(-5, skip_overlap=False, by="y")
        answer = bench.claim(0, by="b")
        assert isinstance(answer, Closed)
        assert answer.detail == "overlap"

    def test_with_overlap_allowed_nothing_blocks(self, bench: Bench) -> None:
        """And nothing is closed in passing."""
        self.die(bench, -10, budget=1)
        claims = bench.claims(bench.wish(0, skip_overlap=False), by="b")
        assert isinstance(claims.answers[0], Won)
        assert claims.closed == ()


class Handovers(TakeoverBase):
    """The next attempt of a run that was handed over."""

    def wait(self, bench: Bench, **wants: Any) -> None:
        """Have a run that waits."""
        bench.claim(0, **wants)
        assert isinstance(bench.release(0), Released)

    def test_it_is_won_at_once(self, bench: Bench) -> None:
        """No witness is needed: its owner said so."""
        self.wait(bench)
        answer = bench.claim(0, by="b", wants=2)
        assert isinstance(answer, Won)
        assert answer.attempt == 2
        assert bench.told() == [(0, 2, "running", None), (0, 1, "interrupted", "handed over")]

    @pytest.mark.parametrize("attempt", [1, 3])
    def test_only_as_the_next_attempt(self, bench: Bench, attempt: int) -> None:
        """An old copy of the claim that won attempt 1 must not win attempt 2."""
        self.wait(bench)
        for by in ("a", "b"):
            assert same(bench.claim(0, by=by, wants=attempt), Waiting(bench.key(0), 1))

    def test_a_pause_stops_a_hand_over(self, bench: Bench) -> None:
        """It waits."""
        self.wait(bench)
        bench.backend.pause("job", duration_ms=None)
        assert same(bench.claim(0, by="b", wants=2), Waiting(bench.key(0), 1))
        bench.backend.resume("job")
        assert isinstance(bench.claim(0, by="b", wants=2), Won)

    def test_a_hand_over_needs_a_win(self, bench: Bench) -> None:
        """And uses it up."""
        self.wait(bench)
        assert same(bench.claim(0, by="b", wants=2, wins=0), Waiting(bench.key(0), 1))
        wishes = (bench.wish(0, wants=2), bench.wish(0, job="other"))
        answers = bench.claims(*wishes, by="b", wins=1).answers
        assert [type(answer).__name__ for answer in answers] == ["Won", "Free"]

    def test_hand_overs_use_up_no_budget(self, bench: Bench) -> None:
        """Ten deploys in a row are no death; deaths before and after them count."""
        bench.claim(0, by="1", budget=2)
        for n in range(1, 11):
            assert isinstance(bench.release(0, n, by=str(n)), Released)
            assert isinstance(bench.claim(0, by=str(n + 1), wants=n + 1, budget=2), Won)
        bench.pass_leases(1.01)
        assert isinstance(self.take(bench, attempt=12, budget=2), Won)
        bench.pass_leases(1.01)
        answer = self.take(bench, attempt=13, by="c")
        assert isinstance(answer, Closed)
        assert answer.status == "failed"
        assert bench.history()[0].error == "runner died 2 times"

    def test_one_without_a_budget_can_be_handed_over(self, bench: Bench) -> None:
        """A win that never started is followed, whatever its job says of crashes."""
        self.wait(bench, budget=0)
        assert isinstance(bench.claim(0, by="b", wants=2, budget=0), Won)
