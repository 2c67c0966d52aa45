"""The guards of a claim for a run that has no record, and for one that is the asker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .._values import Closed, Early, Free, Held, Missing, RunKey, Won
from .bench import Contract, same
from .needs import needs

if TYPE_CHECKING:
    from .bench import Bench


class FirstClaims(Contract):
    """Who wins attempt 1."""

    def test_the_first_to_ask_wins_attempt_1(self, bench: Bench) -> None:
        """Won names the run, the attempt and how long the lease lasts."""
        answer = bench.claim(0)
        assert isinstance(answer, Won)
        assert (answer.key, answer.attempt, answer.checkpoint) == (bench.key(0), 1, None)
        assert answer.left_ms >= bench.lease_ms
        assert answer.fence > 0

    def test_whoever_asks_later_learns_who_holds_it(self, bench: Bench) -> None:
        """Held names the owner, and that it isn't the asker."""
        bench.claim(0, by="a")
        answer = bench.claim(0, by="b")
        assert isinstance(answer, Held)
        assert (answer.run.key, answer.run.state, answer.run.attempt) == (
            bench.key(0),
            "running",
            1,
        )
        assert (answer.run.owner, answer.run.mine, answer.run.beat) == ("a", False, 0)

    def test_a_win_is_in_history(self, bench: Bench) -> None:
        """The attempt is recorded as running, with its reason and instance."""
        bench.claim(0, reason="catch-up")
        (run,) = bench.history()
        assert (run.run_id, run.slot, run.attempt, run.status) == (
            bench.key(0).run_id,
            bench.key(0).slot_ms,
            1,
            "running",
        )
        assert (run.reason, run.instance_id, run.manual) == ("catch-up", "instance-a", False)
        assert run.started_at is not None
        assert (run.finished_at, run.duration_ms, run.error) == (None, None, None)

    def test_a_repeat_by_the_owner_wins_again_and_extends_the_lease(self, bench: Bench) -> None:
        """Otherwise a win whose reply was lost would end sooner than its owner believes."""
        first = bench.claim(0)
        bench.pass_leases(0.5)
        again = bench.claim(0)
        assert isinstance(first, Won)
        assert isinstance(again, Won)
        assert (again.attempt, again.fence) == (1, first.fence)
        seen = bench.claim(0, by="b")
        assert isinstance(seen, Held)
        assert seen.run.left_ms > 0.9 * bench.lease_ms
        assert seen.run.beat == 1
        assert len(bench.history()) == 1

    def test_a_repeat_wins_again_after_the_lease_has_ended(self, bench: Bench) -> None:
        """Owner and attempt decide, not the lease's end."""
        bench.claim(0)
        bench.pass_leases(1.5)
        assert isinstance(bench.claim(0), Won)

    def test_a_repeat_is_answered_without_wins(self, bench: Bench) -> None:
        """What is the asker's already is extended whatever the bound is."""
        bench.claim(0)
        bench.pass_leases(0.5)
        assert isinstance(bench.claim(0, wins=0), Won)
        seen = bench.claim(0, by="b")
        assert isinstance(seen, Held)
        assert seen.run.left_ms > 0.9 * bench.lease_ms

    def test_only_the_attempt_that_is_mine_is_won_again(self, bench: Bench) -> None:
        """A claim for the next one finds the asker's own run, which isn't extended."""
        bench.claim(0)
        bench.pass_leases(0.5)
        answer = bench.claim(0, wants=2, beat=-1)
        assert isinstance(answer, Held)
        assert answer.run.mine
        assert answer.run.left_ms < 0.9 * bench.lease_ms

    def test_what_is_mine_counts_against_the_bound_wherever_it_stands(self, bench: Bench) -> None:
        """Else an old batch that is delivered late wins two runs for one worker."""
        bench.claim(0, job="mine")
        wishes = (
            bench.wish(0, job="before"),
            bench.wish(0, job="mine"),
            bench.wish(0, job="after"),
        )
        answers = bench.claims(*wishes, wins=1).answers
        assert [type(answer) for answer in answers] == [Free, Won, Free]

    def test_what_is_mine_counts_once(self, bench: Bench) -> None:
        """The rest of the bound is for other runs."""
        bench.claim(0, job="mine")
        wishes = [bench.wish(0, job=job) for job in ("before", "mine", "after")]
        answers = bench.claims(*wishes, wins=2).answers
        assert [type(answer) for answer in answers] == [Won, Won, Free]

    def test_wins_are_given_in_the_order_sent(self, bench: Bench) -> None:
        """Over the bound a run is free, and stays so."""
        wishes = [bench.wish(0, job=job) for job in "dbca"]
        answers = bench.claims(*wishes, wins=2).answers
        assert [type(answer) for answer in answers] == [Won, Won, Free, Free]
        assert [answer.key for answer in answers] == [wish.key for wish in wishes]
        assert isinstance(bench.claim(0, job="c", by="b"), Won)

    def test_no_wins_start_nothing(self, bench: Bench) -> None:
        """A claim that settles an unknown one must not start a run."""
        assert same(bench.claim(0, wins=0), Free(bench.key(0)))
        assert bench.history() == []

    def test_the_lost_ones_do_not_use_up_the_bound(self, bench: Bench) -> None:
        """Only wins count."""
        bench.claim(0, job="taken", by="b")
        wishes = (bench.wish(0, job="taken"), bench.wish(0, job="free"))
        assert [type(answer) for answer in bench.claims(*wishes, wins=1).answers] == [Held, Won]

    def test_a_later_attempt_of_an_unknown_run_is_missing(self, bench: Bench) -> None:
        """A claim can win only the attempt that it names."""
        assert same(bench.claim(0, wants=2, beat=0), Missing(bench.key(0)))
        assert bench.history() == []

    def test_a_slot_that_is_not_due_is_early(self, bench: Bench) -> None:
        """By the store's clock, beyond the tolerance; the answer says how long to wait."""
        answer = bench.claim(60)
        assert isinstance(answer, Early)
        assert 58_000 < answer.wait_ms <= 60_000
        assert bench.history() == []

    def test_a_slot_within_the_tolerance_is_won(self, bench: Bench) -> None:
        """The winner waits the rest."""
        pace = bench.pace()._replace(tolerance_ms=5000)
        assert isinstance(bench.claim(4.9, pace=pace), Won)
        assert isinstance(bench.claim(9.9, pace=pace, job="other"), Early)

    def test_a_closed_run_stays_closed(self, bench: Bench) -> None:
        """Everybody learns the outcome and who decided; only the decider gets the record."""
        bench.run_through(0)
        for wants in (1, 2):
            answer = bench.claim(0, by="b", wants=wants, beat=0)
            assert same(answer, Closed(bench.key(0), "success", None, "a", None))
        mine = bench.claim(0, by="a")
        assert isinstance(mine, Closed)
        assert mine.run == bench.history()[0]
        assert len(bench.history()) == 1

    def test_every_reply_carries_store_time(self, bench: Bench) -> None:
        """Whether anything was won or not."""
        before_ms = bench.now_ms()
        assert abs(bench.claims(bench.wish(0)).store_ms - before_ms) < 1000
        assert abs(bench.claims(bench.wish(0), by="b").store_ms - before_ms) < 1000
        nothing = bench.claims()
        assert (nothing.answers, nothing.open, nothing.closed) == ((), (), ())
        assert abs(nothing.store_ms - before_ms) < 1000

    def test_strange_runs_are_answered_and_cost_the_others_nothing(self, bench: Bench) -> None:
        """A claim never raises because of one run that no store can hold."""
        good = bench.wish(0)
        strange = [
            good._replace(key=RunKey("\ud800", bench.key(0).slot_ms)),
            good._replace(key=RunKey("far", 2**70)),
            good._replace(key=RunKey("long ago", -(2**60))),
            good._replace(key=RunKey("zeroth", bench.key(0).slot_ms), wants=0),
            good._replace(key=RunKey("fence", bench.key(0).slot_ms), fence_seen=2**80),
            good._replace(
                key=RunKey("terms", bench.key(0).slot_ms), terms=bench.terms(catch_up_ms=2**70)
            ),
        ]
        answers = bench.claims(*strange, good, wins=9).answers
        assert len(answers) == 7
        assert not [answer for answer in answers[:6] if isinstance(answer, Won)]
        assert isinstance(answers[6], Won)

    @pytest.mark.parametrize(
        ("one", "other"), [("a:b", "a"), ("a b", "a  b"), ("A", "a"), ("%", "_"), ("é", "e\u0301")]
    )
    def test_names_never_collide(self, bench: Bench, one: str, other: str) -> None:
        """They are compared exactly, whatever is in them."""
        assert isinstance(bench.claim(0, job=one), Won)
        assert isinstance(bench.claim(0, job=other, by="b"), Won)
        assert [run.job for run in bench.history(one)] == [one]


class Fences(Contract):
    """Every win gets a higher number."""

    def test_it_grows_with_every_slot(self, bench: Bench) -> None:
        """Also when slots follow each other within a millisecond."""
        fences = []
        for slot in range(3):
            answer = bench.claim(slot / 1000)
            assert isinstance(answer, Won)
            fences.append(answer.fence)
            bench.finish(slot / 1000)
        assert fences == sorted(set(fences))

    def test_it_starts_from_the_store_s_time_in_microseconds(self, bench: Bench) -> None:
        """So that it still grows when a store lost its last writes."""
        answer = bench.claim(0)
        assert isinstance(answer, Won)
        assert 0 <= answer.fence - bench.start_ms * 1000 < 60_000_000

    @needs(clock_can_be_set=True)
    def test_it_grows_while_the_wall_clock_goes_back(self, bench: Bench) -> None:
        """The job's own last fence counts as well."""
        first = bench.claim(0)
        bench.finish(0)
        bench.clock.step(-3_600_000)
        second = bench.claim(-3_700)
        assert isinstance(first, Won)
        assert isinstance(second, Won)
        assert second.fence == first.fence + 1

    def test_it_is_above_what_the_asker_saw(self, bench: Bench) -> None:
        """After a failover the asker may know more than the store."""
        seen = bench.start_ms * 1000 + 10**9
        answer = bench.claim(0, fence_seen=seen)
        assert isinstance(answer, Won)
        assert answer.fence == seen + 1

    def test_it_stays_below_two_to_the_53(self, bench: Bench) -> None:
        """A nonsense value doesn't poison the job's fence."""
        answer = bench.claim(0, fence_seen=2**53 - 1)
        assert isinstance(answer, Won)
        assert answer.fence < 2**53 - 2**50

    def test_it_ends_at_the_highest_that_can_be_counted(self, bench: Bench) -> None:
        """A job that came so far goes on with that one."""
        for slot in (0, 0.001):
            answer = bench.claim(slot, fence_seen=2**53 - 2)
            assert isinstance(answer, Won)
            assert answer.fence == 2**53 - 1
            bench.finish(slot)


class Skips(Contract):
    """Slots that nobody will run are recorded, and closed from the start."""

    def test_a_slot_older_than_a_recorded_one_is_never_started(self, bench: Bench) -> None:
        """Else a claim that comes late wins a run that nobody watches."""
        bench.run_through(0)
        answer = bench.claim(-10, by="b")
        assert isinstance(answer, Closed)
        assert (answer.status, answer.detail, answer.by) == ("skipped", "newer slot", "b")
        assert bench.told()[1] == (-10, 1, "skipped", "newer slot")

    def test_the_newer_slot_counts_with_overlap_allowed_as_well(self, bench: Bench) -> None:
        """The guard is not about overlap."""
        bench.claim(0, skip_overlap=False)
        answer = bench.claim(-10, by="b", skip_overlap=False)
        assert isinstance(answer, Closed)
        assert answer.detail == "newer slot"

    def test_a_newer_slot_that_was_skipped_counts(self, bench: Bench) -> None:
        """Recorded is recorded."""
        bench.backend.pause(None, duration_ms=None)
        bench.claim(0)
        bench.backend.resume(None)
        answer = bench.claim(-10, by="b")
        assert isinstance(answer, Closed)
        assert answer.detail == "newer slot"

    def test_a_slot_after_store_time_is_no_newer_slot(self, bench: Bench) -> None:
        """One host with a wrong clock must not close the current slot for the fleet."""
        bench.run_through(4, pace=bench.pace()._replace(tolerance_ms=5000))
        assert isinstance(bench.claim(0, by="b"), Won)

    def test_another_job_s_newer_slot_means_nothing(self, bench: Bench) -> None:
        """Jobs are independent."""
        bench.run_through(0, job="other")
        assert isinstance(bench.claim(-10), Won)

    def test_a_manual_run_is_no_newer_slot(self, bench: Bench) -> None:
        """Manual runs are never in the guards."""
        bench.manual("m1", 0)
        assert isinstance(bench.claim(-10, by="b"), Won)

    def test_a_slot_is_skipped_while_another_runs(self, bench: Bench) -> None:
        """Recorded once, as overlap."""
        bench.claim(-10)
        answer = bench.claim(0, by="b")
        assert isinstance(answer, Closed)
        assert (answer.status, answer.detail, answer.by) == ("skipped", "overlap", "b")
        assert bench.told()[0] == (0, 1, "skipped", "overlap")

    def test_a_later_slot_that_runs_blocks_as_well(self, bench: Bench) -> None:
        """Any other slot counts, not only earlier ones."""
        bench.claim(4, pace=bench.pace()._replace(tolerance_ms=5000))
        answer = bench.claim(0, by="b")
        assert isinstance(answer, Closed)
        assert answer.detail == "overlap"

    def test_overlap_can_be_allowed(self, bench: Bench) -> None:
        """Then slots run beside each other."""
        bench.claim(-10, skip_overlap=False)
        assert isinstance(bench.claim(0, by="b", skip_overlap=False), Won)

    def test_a_run_of_another_job_blocks_nothing(self, bench: Bench) -> None:
        """Jobs are independent."""
        bench.claim(-10, job="other")
        assert isinstance(bench.claim(0), Won)

    def test_a_manual_run_blocks_nothing(self, bench: Bench) -> None:
        """Nor is it blocked."""
        bench.manual("m1", -5)
        assert isinstance(bench.claim(0, by="b"), Won)
        bench.manual("m2", 0)
        assert bench.told()[0][2] == "running"

    def test_a_skip_is_recorded_without_wins(self, bench: Bench) -> None:
        """A decision is no start."""
        bench.claim(-10)
        assert isinstance(bench.claim(0, by="b", wins=0), Closed)
        assert len(bench.history()) == 2

    def test_whoever_decided_a_skip_is_told_so_again(self, bench: Bench) -> None:
        """Its event depends on it; everybody else gets no record."""
        bench.claim(-10)
        first = bench.claim(0, by="b")
        assert isinstance(first, Closed)
        assert first.run == bench.history()[0]
        assert bench.claim(0, by="b") == first
        assert bench.claim(0, by="c") == first._replace(run=None)
        assert len(bench.history()) == 2

    def test_a_skip_names_its_instance_and_never_started(self, bench: Bench) -> None:
        """As history shows it."""
        bench.claim(-10)
        bench.claim(0, by="b")
        run = bench.history()[0]
        assert (run.instance_id, run.started_at, run.duration_ms) == ("instance-b", None, None)
        assert run.finished_at is not None
