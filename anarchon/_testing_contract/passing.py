"""What a claim closes in passing, tells beside its answers, and keeps count of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from .._values import Closed, Free, Suspect, Waiting, Won
from .needs import needs
from .takeovers import TakeoverBase

if TYPE_CHECKING:
    from .bench import Bench


class Passing(TakeoverBase):
    """Runs of a job that waited too long are closed by whoever judges another slot of it."""

    def stale(self, bench: Bench, slot: float = -20, **wants: Any) -> None:
        """Have a run that waited too long."""
        bench.claim(slot, by="s", skip_overlap=False, **wants)
        bench.release(slot, by="s")
        bench.pass_leases(3.1)

    def test_each_is_told_once(self, bench: Bench) -> None:
        """To the wish that met it, whatever else the batch asks for."""
        self.stale(bench)
        wishes = [bench.wish(0, job=job) for job in ("job", "other", "third")]
        claims = bench.claims(*wishes, by="b")
        assert [type(answer) for answer in claims.answers] == [Won, Won, Won]
        assert [run.slot for run in claims.closed] == [bench.key(-20).slot_ms]
        assert [row[:3] for row in bench.told()] == [(0, 1, "running"), (-20, 1, "lost")]

    def test_also_by_a_slot_that_is_skipped(self, bench: Bench) -> None:
        """Another run of the job may block it all the same."""
        self.stale(bench)
        bench.claim(-10, by="x", skip_overlap=False)
        claims = bench.claims(bench.wish(0), by="b")
        (answer,) = claims.answers
        assert isinstance(answer, Closed)
        assert answer.detail == "overlap"
        assert [run.slot for run in claims.closed] == [bench.key(-20).slot_ms]
        assert [run.key for run in claims.open] == [bench.key(-10)]

    def test_also_by_a_slot_that_a_suspect_keeps_waiting(self, bench: Bench) -> None:
        """The suspect needs a witness, what waits needs none."""
        bench.claim(-10, by="x", skip_overlap=False, budget=1)
        self.stale(bench, -5)
        claims = bench.claims(bench.wish(0), by="b")
        assert isinstance(claims.answers[0], Suspect)
        assert [run.slot for run in claims.closed] == [bench.key(-5).slot_ms]
        assert [run.key for run in claims.open] == [bench.key(-10)]

    def test_also_without_a_win(self, bench: Bench) -> None:
        """It starts nothing."""
        self.stale(bench)
        claims = bench.claims(bench.wish(0), by="b", wins=0)
        assert [run.slot for run in claims.closed] == [bench.key(-20).slot_ms]
        assert [row[2] for row in bench.told()] == ["lost"]

    def test_not_where_slots_may_overlap(self, bench: Bench) -> None:
        """There nobody needs to know whether others are open."""
        self.stale(bench)
        claims = bench.claims(bench.wish(0, skip_overlap=False), by="b")
        assert isinstance(claims.answers[0], Won)
        assert claims.closed == ()
        assert [run.key for run in claims.open] == [bench.key(-20)]

    def test_not_while_it_is_paused(self, bench: Bench) -> None:
        """The slot is skipped for that, before anything else is looked at."""
        self.stale(bench)
        bench.backend.pause("job", duration_ms=None)
        claims = bench.claims(bench.wish(0), by="b")
        assert isinstance(claims.answers[0], Closed)
        assert claims.closed == ()
        assert bench.open_run(-20).state == "waiting"

    @needs(clock_can_be_set=True)  # it asks a moment before the end
    def test_one_that_waited_too_long_is_lost(self, bench: Bench) -> None:
        """Counted from the release; also while paused. What its attempt said stays."""
        bench.claim(0)
        bench.pass_leases(2.5)
        bench.release(0, error="E: stop", traceback="T")
        said = bench.history()[0]
        bench.pass_leases(2.9)
        bench.backend.pause("job", duration_ms=None)
        assert isinstance(bench.claim(0, by="b", wants=2), Waiting)
        bench.pass_leases(0.2)
        answer = bench.claim(0, by="b", wants=2)
        assert isinstance(answer, Closed)
        assert (answer.status, answer.by) == ("lost", "b")
        assert answer.run == bench.history()[0]
        assert answer.run == replace(said, status="lost", detail="too old")

    @pytest.mark.parametrize("how", ["in passing", "waited", "died"])
    def test_history_is_trimmed_when_a_claim_closes_a_run(self, bench: Bench, how: str) -> None:
        """As by whoever finishes one."""
        for slot in range(-200, -100):
            bench.run_through(slot / 1000)
        bench.claim(0, by="x", budget=1)
        if how != "died":
            bench.release(0, by="x")
        assert len(bench.history()) == 101
        bench.pass_leases(3.1)
        if how == "in passing":
            assert isinstance(bench.claim(0.001, by="b"), Won)
        else:
            assert isinstance(self.take(bench), Closed)
        assert len(bench.history()) == 100

    def test_who_asks_for_a_manual_run_is_told_of_the_slot_beside_it(self, bench: Bench) -> None:
        """They are two runs, also in one millisecond."""
        bench.claim(0, by="x")
        lease = bench.manual("token-1", 0)
        wish = bench.wish(0, wants=2)._replace(key=lease.key)
        claims = bench.claims(wish, by="b")
        assert [run.key for run in claims.open] == [bench.key(0)]


class Counts(TakeoverBase):
    """What later attempts count for."""

    def test_a_later_attempt_is_one_win(self, bench: Bench) -> None:
        """Whether its run waited or was taken over."""
        bench.claim(0, by="x")
        bench.claim(0, job="handed", by="x")
        bench.release(0, job="handed", by="x")
        bench.pass_leases(1.01)
        wishes = (
            bench.wish(0, wants=2, beat=0, unseen=bench.lease_ms),
            bench.wish(0, job="handed", wants=2),
            bench.wish(0, job="new"),
            bench.wish(0, job="one too many"),
        )
        answers = bench.claims(*wishes, by="b", wins=3).answers
        assert [type(answer) for answer in answers] == [Won, Won, Won, Free]

    def test_the_fence_of_a_later_attempt_counts(self, bench: Bench) -> None:
        """For the next slot of its job as well."""
        fence = bench.start_ms * 1000 + 10**9
        bench.claim(0, by="x")
        bench.release(0, by="x")
        assert isinstance(bench.claim(0, wants=2, fence_seen=fence), Won)
        bench.finish(0, 2)
        answer = bench.claim(0.001)
        assert isinstance(answer, Won)
        assert answer.fence > fence + 1

    def test_history_says_why_an_attempt_was_made(self, bench: Bench) -> None:
        """A slot that is skipped was only due."""
        bench.claim(-10, reason="catch-up")
        bench.claim(0, by="b", reason="catch-up")
        assert [run.reason for run in bench.history()] == ["scheduled", "catch-up"]

    def test_a_repeat_gives_the_lease_that_it_asks_for(self, bench: Bench) -> None:
        """From now on."""
        bench.claim(0)
        answer = bench.claim(0, lease_ms=2 * bench.lease_ms)
        assert isinstance(answer, Won)
        assert answer.left_ms == 2 * bench.lease_ms
        run = bench.open_run()
        assert run.lease_ms == 2 * bench.lease_ms
        assert bench.lease_ms < run.left_ms <= 2 * bench.lease_ms
