"""Runs that the fleet is asked for: named by every answer, given to one, one backfill at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .._values import Closed, Held, Lease, Missing, Recorded, Released, Waiting, Won
from ..errors import ConfigurationError
from .bench import ANY_JOB, Contract, same
from .needs import needs

if TYPE_CHECKING:
    from .._values import Answer, OpenRun, RunKey
    from .bench import Bench

DAY_MS = 24 * 3_600_000


class OrderBase(Contract):
    """Short ways to ask the fleet for runs, and to claim them."""

    def trigger(
        self,
        bench: Bench,
        name: str,
        slot: float = 0,
        *,
        job: str = ANY_JOB,
        data: str | None = None,
    ) -> RunKey:
        """Ask for a run."""
        key = bench.key(slot, job)._replace(manual=f"trigger-{name}")
        bench.any.trigger([key], data=data)
        return key

    def backfill(self, bench: Bench, *slots: float, job: str = ANY_JOB) -> list[RunKey]:
        """Ask for past slots."""
        keys = [bench.key(slot, job)._replace(manual=f"backfill-{slot}") for slot in slots]
        bench.any.trigger(keys, data=None)
        return keys

    def take_order(
        self, bench: Bench, key: RunKey, *, by: str = "a", wants: int = 1, wins: int = 1
    ) -> Answer:
        """Claim an ordered run."""
        reason = "catch-up" if key.is_backfill else "manual"
        wish = bench.wish(0, wants=wants, budget=0, catch_up_ms=30 * DAY_MS, reason=reason)
        return bench.claims(wish._replace(key=key), by=by, wins=wins).answers[0]

    def end_order(self, bench: Bench, key: RunKey, *, by: str = "a", **fields: Any) -> None:
        """Finish an ordered run."""
        answer = bench.finish(0, key=key, by=by, reason="manual", **fields)
        assert isinstance(answer, Recorded)

    def named(self, bench: Bench, job: str = ANY_JOB) -> list[RunKey]:
        """Return the runs that every kind of question about a job names as waiting."""
        looked = bench.look(job)
        keys = [run.key for run in looked.wrong if run.state == "waiting"]
        assert [run.key for run in bench.unfinished(job) if run.state == "waiting"] == keys
        assert looked.others >= len(keys)
        return keys


class Triggers(OrderBase):
    """Anybody may ask the fleet for a run, and one instance gives it."""

    def test_each_answer_about_the_job_names_it(self, bench: Bench) -> None:
        """As an open run that waits for attempt 1; answers about other jobs don't."""
        key = self.trigger(bench, "1", -1)
        assert self.named(bench) == [key]
        assert self.named(bench, "other") == []
        claims = bench.claims(bench.wish(0), bench.wish(0, job="second"))
        (run,) = claims.open
        assert (run.key, run.state, run.attempt, run.mine) == (key, "waiting", 0, False)
        skips = bench.backend.skip(
            [bench.skip_wish(-5, -4), bench.skip_wish(-4, -3)],
            owner=bench.owner("a"),
            pace=bench.pace(),
        )
        assert self.those_waiting(skips.open) == [key]
        assert bench.history("nobody has it") == []

    def those_waiting(self, runs: tuple[OpenRun, ...]) -> list[RunKey]:
        """Return the runs that wait."""
        return [run.key for run in runs if run.state == "waiting"]

    def test_a_claim_is_told_what_is_ordered_of_other_jobs_as_well(self, bench: Bench) -> None:
        """So whoever has them hears of it; behind its own, first where runs are triggered."""
        backfills = self.backfill(bench, -30, -20, job="a job")
        keys = [self.trigger(bench, "2", -2, job="z"), self.trigger(bench, "1", -3, job="b")]
        mine = self.trigger(bench, "3", -1)
        claims = bench.claims(bench.wish(0), bench.wish(0, job="second"))
        assert self.those_waiting(claims.open) == [mine, *reversed(keys), backfills[0]]
        assert isinstance(self.take_order(bench, backfills[0], by="x"), Won)
        claims = bench.claims(bench.wish(0, job="z"), by="c")
        assert self.those_waiting(claims.open) == [keys[0], keys[1], mine]

    def test_of_twenty_other_jobs_at_most(self, bench: Bench) -> None:
        """Which is told in the order of their names."""
        keys = [self.trigger(bench, "1", -1, job=f"job {number:02}") for number in range(25)]
        claims = bench.claims(bench.wish(0), bench.wish(0, job="job 03"))
        others = keys[:3] + keys[4:21]
        assert self.those_waiting(claims.open) == [keys[3], *others]

    def test_it_is_no_line_of_history_before_somebody_has_it(self, bench: Bench) -> None:
        """Then it is a manual run like any other."""
        key = self.trigger(bench, "1", -1)
        assert bench.history() == []
        answer = self.take_order(bench, key)
        assert isinstance(answer, Won)
        assert (answer.attempt, answer.checkpoint) == (1, None)
        (run,) = bench.history()
        assert (run.run_id, run.manual, run.reason, run.status) == (
            "trigger-1",
            True,
            "manual",
            "running",
        )
        assert run.instance_id == "instance-a"
        assert self.named(bench) == []
        assert (
            bench.any.renew([Lease(key, 1)], owner=bench.owner("a"), lease_ms=bench.lease_ms).lost
            == ()
        )
        self.end_order(bench, key)
        assert [run.status for run in bench.history()] == ["success"]
        assert isinstance(self.take_order(bench, key, by="b"), Closed)

    def test_an_order_has_one_winner(self, bench: Bench) -> None:
        """A repeat of its claim is answered so again, and extends the lease."""
        key = self.trigger(bench, "1")
        first = self.take_order(bench, key)
        bench.pass_leases(0.5)
        assert same(self.take_order(bench, key), first)
        assert isinstance(self.take_order(bench, key, by="b"), Held)
        assert isinstance(self.take_order(bench, key, by="b", wants=2), Held)
        assert len(bench.history()) == 1

    def test_without_a_win_it_waits(self, bench: Bench) -> None:
        """So it does for a claim of another attempt."""
        key = self.trigger(bench, "1")
        assert same(self.take_order(bench, key, wins=0), Waiting(key, 0))
        assert same(self.take_order(bench, key, wants=2), Waiting(key, 0))
        assert self.named(bench) == [key]

    def test_the_data_comes_with_the_win(self, bench: Bench) -> None:
        """Each time that it is answered; of a run that was not started to the next one as well."""
        key = self.trigger(bench, "1", data='{"a": 1}')
        for _ in range(2):
            answer = self.take_order(bench, key)
            assert isinstance(answer, Won)
            assert answer.checkpoint == '{"a": 1}'
        assert isinstance(bench.release(0, key=key), Released)
        assert self.named(bench) == [key]
        answer = self.take_order(bench, key, by="b", wants=2)
        assert isinstance(answer, Won)
        assert answer.checkpoint == '{"a": 1}'

    def test_a_repeated_order_changes_nothing(self, bench: Bench) -> None:
        """Whether it waits, runs or is over."""
        key = self.trigger(bench, "1", data="1")
        for status in ("waiting", "running", "closed"):
            self.trigger(bench, "1", data="2")
            assert self.named(bench) == ([key] if status == "waiting" else [])
            if status == "waiting":
                answer = self.take_order(bench, key)
                assert isinstance(answer, Won)
                assert answer.checkpoint == "1"
            elif status == "running":
                self.end_order(bench, key)
        assert [run.status for run in bench.history()] == ["success"]

    def test_the_guards_of_slots_do_not_apply(self, bench: Bench) -> None:
        """No overlap, in either direction, no pause, no floor."""
        bench.claim(0)
        bench.backend.pause("job", duration_ms=None)
        bench.backend.pause(None, duration_ms=None)
        assert isinstance(self.take_order(bench, self.trigger(bench, "1"), by="b"), Won)
        bench.backend.resume(None)
        bench.backend.resume("job")
        bench.finish(0)
        assert isinstance(bench.claim(0.001), Won)

    def test_an_order_is_never_taken_over(self, bench: Bench) -> None:
        """When its runner dies it reads lost."""
        key = self.trigger(bench, "1")
        self.take_order(bench, key)
        bench.pass_leases(3.5)
        assert self.named(bench) == []
        assert isinstance(self.take_order(bench, key, by="b", wants=2), Held)
        assert [run.status for run in bench.history()] == ["lost"]

    def test_the_oldest_come_first(self, bench: Bench) -> None:
        """And not more than ten of a job."""
        keys = [self.trigger(bench, f"{number:02}", -number) for number in range(12)]
        assert self.named(bench) == sorted(keys)[:10]
        claims = bench.claims(bench.wish(0))
        assert self.those_waiting(claims.open) == sorted(keys)[:10]
        self.take_order(bench, keys[-1])
        assert self.named(bench) == sorted(keys)[1:11]

    def test_an_unknown_one_is_missing(self, bench: Bench) -> None:
        """As after a flush."""
        key = bench.key(0)._replace(manual="trigger-1")
        assert same(self.take_order(bench, key), Missing(key))

    def test_what_is_no_order_is_refused(self, bench: Bench) -> None:
        """A slot, another kind of manual run, data that is too long."""
        for key in (bench.key(0), bench.key(0)._replace(manual="token-1")):
            with pytest.raises(ConfigurationError):
                bench.any.trigger([key], data=None)
        key = bench.key(0)._replace(manual="trigger-1")
        with pytest.raises(ConfigurationError):
            bench.any.trigger([key], data="x" * 65_537)
        with pytest.raises(ConfigurationError):
            bench.any.trigger([key._replace(job="\ud800")], data=None)
        assert self.named(bench) == []

    def test_history_is_not_trimmed_by_what_waits(self, bench: Bench) -> None:
        """Nor does what waits leave, however much is recorded."""
        key = self.trigger(bench, "1", -300)
        for slot in range(-200, -90):
            bench.run_through(slot / 1000)
        assert len(bench.history()) == 100
        assert self.named(bench) == [key]
        assert isinstance(self.take_order(bench, key), Won)

    @needs(clock_can_be_set=True)
    def test_what_nobody_takes_is_forgotten(self, bench: Bench) -> None:
        """After as long as history is kept, by the next order of the job."""
        self.trigger(bench, "1", data="1")
        bench.clock.advance(31 * DAY_MS)
        self.trigger(bench, "2", job="other")
        assert len(self.named(bench)) == 1
        other = self.trigger(bench, "3")
        assert self.named(bench) == [other]


class Backfills(OrderBase):
    """Past slots come one at a time, the oldest first."""

    def test_the_oldest_is_named_alone(self, bench: Bench) -> None:
        """And none while one of them is running."""
        keys = self.backfill(bench, -30, -10, -20)
        oldest, middle, youngest = sorted(keys)
        assert self.named(bench) == [oldest]
        assert isinstance(self.take_order(bench, oldest), Won)
        assert self.named(bench) == []
        assert bench.claims(bench.wish(0)).open == ()
        self.end_order(bench, oldest)
        assert self.named(bench) == [middle]
        self.take_order(bench, middle)
        self.end_order(bench, middle, status="failed")
        assert self.named(bench) == [youngest]

    def test_a_claim_gives_no_other(self, bench: Bench) -> None:
        """Neither out of order nor beside one that is running; each job has its own order."""
        first, second = self.backfill(bench, -30, -20)
        assert same(self.take_order(bench, second), Waiting(second, 0))
        assert isinstance(self.take_order(bench, first), Won)
        assert same(self.take_order(bench, second, by="b"), Waiting(second, 0))
        (other,) = self.backfill(bench, -20, job="other")
        assert isinstance(self.take_order(bench, other, by="b"), Won)
        self.end_order(bench, first)
        assert isinstance(self.take_order(bench, second, by="b"), Won)

    def test_it_has_the_slot_and_a_reason_of_its_own(self, bench: Bench) -> None:
        """And an identity beside the slot's run."""
        bench.run_through(-20)
        (key,) = self.backfill(bench, -20)
        self.take_order(bench, key)
        shown = {(run.slot, run.reason, run.manual, run.run_id) for run in bench.history()}
        slot_ms = key.slot_ms
        assert shown == {
            (slot_ms, "catch-up", True, "backfill--20"),
            (slot_ms, "scheduled", False, bench.key(-20).run_id),
        }

    def test_the_next_one_follows_a_runner_that_died(self, bench: Bench) -> None:
        """Whose run is closed by then; told by the claim that does so."""
        first, second, third = self.backfill(bench, -30, -20, -10)
        self.take_order(bench, first)
        bench.pass_leases(1.1)
        assert self.named(bench) == [second]
        wish = bench.wish(0, budget=0, catch_up_ms=30 * DAY_MS, reason="catch-up")
        claims = bench.claims(wish._replace(key=second), by="b")
        assert isinstance(claims.answers[0], Won)
        assert [(run.slot, run.status, run.detail) for run in claims.closed] == [
            (first.slot_ms, "lost", "runner died")
        ]
        assert self.named(bench) == []
        assert isinstance(self.take_order(bench, third, by="c"), Waiting)
        told = {(run.run_id, run.status) for run in bench.history()}
        assert told == {("backfill--30", "lost"), ("backfill--20", "running")}

    def test_a_win_that_never_started_waits_again(self, bench: Bench) -> None:
        """In its place."""
        first, second = self.backfill(bench, -30, -20)
        self.take_order(bench, first)
        assert isinstance(bench.release(0, key=first), Released)
        assert self.named(bench) == [first]
        assert isinstance(self.take_order(bench, second), Waiting)
        assert isinstance(self.take_order(bench, first, by="b", wants=2), Won)

    @pytest.mark.parametrize("what", [ANY_JOB, None])
    def test_a_pause_keeps_it_waiting(self, bench: Bench, what: str | None) -> None:
        """Of the job, or of all."""
        (key,) = self.backfill(bench, -30)
        bench.backend.pause(what, duration_ms=None)
        assert same(self.take_order(bench, key), Waiting(key, 0))
        assert self.named(bench) == [key]
        bench.backend.resume(what)
        assert isinstance(self.take_order(bench, key), Won)

    def test_triggered_runs_do_not_wait_for_it(self, bench: Bench) -> None:
        """Nor it for them."""
        (key,) = self.backfill(bench, -30)
        mine = self.trigger(bench, "1", -40)
        assert self.named(bench) == [mine, key]
        assert isinstance(self.take_order(bench, mine), Won)
        assert isinstance(self.take_order(bench, key), Won)

    def test_slots_and_backfills_do_not_block_each_other(self, bench: Bench) -> None:
        """They are in none of the guards; a newer slot may be decided long since."""
        bench.claim(0)
        (key,) = self.backfill(bench, -30)
        assert isinstance(self.take_order(bench, key, by="b"), Won)
        bench.finish(0)
        assert isinstance(bench.claim(0.001), Won)
        assert isinstance(bench.claim(-40, by="b"), Closed)
