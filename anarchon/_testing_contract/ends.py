"""The guards of finish, skip and manual runs, and of pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .._values import Closed, Early, Free, Held, Lease, Lost, Missing, Recorded, RunKey, Won
from ..errors import ConfigurationError
from .bench import Contract, same

if TYPE_CHECKING:
    from .bench import Bench


class Finishes(Contract):
    """A result is recorded once, for the attempt that holds the run."""

    def test_a_result_closes_the_run(self, bench: Bench) -> None:
        """Recorded says what is stored, history shows all of it."""
        bench.claim(0)
        failed = bench.result(0, status="failed", detail="why", error="E: no", traceback="T")
        answer = bench.backend.finish([failed], owner=bench.owner("a")).answers
        assert same(answer, (Recorded(Lease(bench.key(0), 1), "failed", "why"),))
        (run,) = bench.history()
        assert (run.status, run.detail, run.error, run.traceback) == ("failed", "why", "E: no", "T")
        assert run.duration_ms == 5
        assert run.started_at is not None
        assert run.finished_at is not None
        assert (run.finished_at - run.started_at).total_seconds() == 0.005

    def test_an_attempt_that_never_started_has_no_duration(self, bench: Bench) -> None:
        """Its start is that of the claim, its end that of the record."""
        bench.claim(0)
        bench.finish(0, status="interrupted", started_ms=0)
        (run,) = bench.history()
        assert run.started_at is not None
        assert run.finished_at is not None
        assert abs(run.finished_at.timestamp() * 1000 - bench.now_ms()) < 1000
        assert run.duration_ms is None

    def test_a_repeat_changes_nothing(self, bench: Bench) -> None:
        """It answers the outcome as stored."""
        bench.claim(0)
        bench.finish(0, detail="first")
        again = bench.finish(0, status="failed", detail="second", error="late")
        assert same(again, Recorded(Lease(bench.key(0), 1), "success", "first"))
        assert bench.told() == [(0, 1, "success", "first")]
        assert bench.history()[0].error is None

    def test_nobody_else_can_finish_it(self, bench: Bench) -> None:
        """The owner token decides, before and after the end."""
        bench.claim(0, by="a")
        assert same(bench.finish(0, by="b", status="failed"), Lost(Lease(bench.key(0), 1)))
        assert bench.told() == [(0, 1, "running", None)]
        bench.finish(0, by="a")
        assert same(bench.finish(0, by="b"), Lost(Lease(bench.key(0), 1)))

    def test_another_attempt_can_not_be_finished(self, bench: Bench) -> None:
        """The attempt is part of the guard."""
        bench.claim(0)
        assert isinstance(bench.finish(0, attempt=2), Lost)
        assert bench.told() == [(0, 1, "running", None)]
        bench.finish(0)
        assert isinstance(bench.finish(0, attempt=2), Lost)

    def test_the_lease_s_end_does_not_matter(self, bench: Bench) -> None:
        """A store clock that steps forward must not throw results away."""
        bench.claim(0)
        bench.pass_leases(2)
        assert isinstance(bench.finish(0), Recorded)
        assert bench.told() == [(0, 1, "success", None)]

    def test_a_skipped_slot_can_not_be_finished(self, bench: Bench) -> None:
        """Closed is final, also for whoever decided it."""
        bench.claim(-10)
        bench.claim(0, by="b")
        assert isinstance(bench.finish(0, by="b"), Lost)
        assert bench.told()[0] == (0, 1, "skipped", "overlap")

    def test_a_result_whose_record_was_lost_is_inserted_closed(self, bench: Bench) -> None:
        """It is a fact, and a closed record can start nothing."""
        fence = bench.start_ms * 1000 + 10**9
        answer = bench.finish(0, attempt=2, reason="takeover", fence=fence)
        assert same(answer, Recorded(Lease(bench.key(0), 2), "success", None))
        (run,) = bench.history()
        assert (run.attempt, run.status, run.reason) == (2, "success", "takeover")
        assert (run.instance_id, run.duration_ms) == ("instance-a", 5)
        assert isinstance(bench.claim(0, by="b"), Closed)
        assert isinstance(bench.finish(0, attempt=2), Recorded)
        assert len(bench.history()) == 1
        later = bench.claim(0.001, by="b")
        assert isinstance(later, Won)
        assert later.fence > fence

    def test_a_batch_is_settled_item_by_item(self, bench: Bench) -> None:
        """In the order sent."""
        bench.claim(0, job="one")
        bench.claim(0, job="two", by="b")
        results = [bench.result(0, job=job) for job in ("two", "one")]
        answers = bench.backend.finish(results, owner=bench.owner("a")).answers
        assert [type(answer) for answer in answers] == [Lost, Recorded]

    @pytest.mark.parametrize(
        "text", ["a\0b", "\ud800 alone", "😀" * 10, "x" * 5_000_000, "é" * 9000]
    )
    def test_any_text_can_be_recorded(self, bench: Bench, text: str) -> None:
        """Cleaned, and cut to 8 KiB."""
        bench.claim(0)
        bench.finish(0, status="failed", error=text, traceback=text, detail=text)
        (run,) = bench.history()
        for kept in (run.error, run.traceback, run.detail):
            assert kept is not None
            assert 0 < len(kept.encode()) <= 8192
            assert "\0" not in kept
            assert kept[0] == text[0] or text[0] == "\ud800"
            assert kept[-1] == text[-1]
        assert isinstance(bench.claim(0.001, by="b"), Won)


class Misses(Contract):
    """A slot without a free worker anywhere is closed, once the next one is due."""

    def test_it_is_closed_once_by_whoever_comes_first(self, bench: Bench) -> None:
        """Only the writer gets the record, for the event."""
        first = bench.skip(-10, -1, by="a")
        assert isinstance(first, Closed)
        assert (first.status, first.detail, first.by) == ("missed", "no free worker", "a")
        assert first.run == bench.history()[0]
        assert bench.skip(-10, -1, by="b") == first._replace(run=None)
        assert bench.skip(-10, -1, by="a") == first
        assert bench.told() == [(-10, 1, "missed", "no free worker")]

    def test_not_before_the_next_slot_is_due(self, bench: Bench) -> None:
        """One wrong host clock must not close slots for the fleet."""
        answer = bench.skip(-10, 30)
        assert isinstance(answer, Early)
        assert 28_000 < answer.wait_ms <= 30_000
        assert bench.history() == []

    def test_within_the_tolerance_it_is(self, bench: Bench) -> None:
        """As for a claim."""
        assert isinstance(bench.skip(-10, 0.9), Closed)

    def test_a_slot_that_runs_is_left_alone(self, bench: Bench) -> None:
        """The reply names the state."""
        bench.claim(-10)
        answer = bench.skip(-10, -1, by="b")
        assert isinstance(answer, Held)
        assert answer.run.owner == "a"
        assert bench.told() == [(-10, 1, "running", None)]

    def test_a_slot_that_is_done_is_left_alone(self, bench: Bench) -> None:
        """Closed is final."""
        bench.run_through(-10)
        answer = bench.skip(-10, -1, by="b")
        assert same(answer, Closed(bench.key(-10), "success", None, "a", None))

    def test_a_slot_that_was_trimmed_is_not_recorded_again(self, bench: Bench) -> None:
        """The floor says that it was decided."""
        for slot in range(-130, 0):
            bench.run_through(slot)
        for slot in (-130, -101):
            answer = bench.skip(slot, -0.5, by="b")
            assert same(answer, Closed(bench.key(slot), "skipped", "trimmed", ""))
        assert len(bench.history()) == 100

    def test_a_missed_slot_is_never_run(self, bench: Bench) -> None:
        """It was decided."""
        bench.skip(-10, -1)
        answer = bench.claim(-10, by="b")
        assert isinstance(answer, Closed)
        assert answer.status == "missed"
        assert isinstance(bench.claim(-1, by="b"), Won)


class ManualRuns(Contract):
    """Runs that somebody asked for: with an identity of their own, outside every guard."""

    def test_it_is_recorded_and_finished_like_a_run(self, bench: Bench) -> None:
        """Its run id is its token."""
        lease = bench.manual("token-1", 0)
        (run,) = bench.history()
        assert (run.run_id, run.manual, run.reason, run.status) == (
            "token-1",
            True,
            "manual",
            "running",
        )
        answer = bench.finish(0, key=lease.key, reason="manual")
        assert same(answer, Recorded(lease, "success", None))
        assert [run.status for run in bench.history()] == ["success"]

    def test_a_repeat_is_recorded_once(self, bench: Bench) -> None:
        """By its owner; anybody else has lost it."""
        lease = bench.manual("token-1")
        result = [bench.result(0, key=lease.key, status="running", reason="manual")]
        record = bench.backend.record_manual
        again = record(result, owner=bench.owner("a"), lease_ms=bench.lease_ms).answers
        assert same(again, (Recorded(lease, "running", None),))
        other = record(result, owner=bench.owner("b"), lease_ms=bench.lease_ms).answers
        assert same(other, (Lost(lease),))
        assert len(bench.history()) == 1

    def test_two_of_one_millisecond_and_a_slot_are_three_runs(self, bench: Bench) -> None:
        """The token is part of the identity."""
        bench.manual("token-1", 0)
        bench.manual("token-2", 0)
        assert isinstance(bench.claim(0), Won)
        assert sorted(run.run_id for run in bench.history()) == sorted(
            ["token-1", "token-2", bench.key(0).run_id]
        )

    def test_one_that_was_never_recorded_is_inserted_closed(self, bench: Bench) -> None:
        """The store was down while it ran; the floor has no say."""
        key = bench.key(-100)._replace(manual="token-1")
        bench.backend.pause("job", duration_ms=None)
        for slot in range(-50, 0):
            bench.claim(slot)
        assert isinstance(bench.finish(-100), Lost)
        assert isinstance(bench.finish(0, key=key, reason="manual"), Recorded)
        assert bench.history()[-1].run_id == "token-1"
        assert bench.history()[-1].reason == "manual"

    def test_it_can_not_be_claimed(self, bench: Bench) -> None:
        """Neither while it runs nor when its runner died; it reads lost then."""
        lease = bench.manual("token-1", 0)
        wish = bench.wish(0, wants=2, beat=0, unseen=10 * bench.lease_ms)
        wish = wish._replace(key=lease.key)
        bench.pass_leases(2)
        assert isinstance(bench.claims(wish, by="b").answers[0], Held)
        assert [run.status for run in bench.history()] == ["lost"]
        unknown = wish._replace(key=RunKey("job", lease.key.slot_ms, "token-2"), wants=1)
        assert same(bench.claims(unknown).answers, (Missing(unknown.key),))

    def test_it_needs_a_token(self, bench: Bench) -> None:
        """Else it would take a slot's place."""
        with pytest.raises(ConfigurationError):
            bench.manual("")

    def test_its_fence_counts(self, bench: Bench) -> None:
        """A later attempt gets a higher one."""
        fence = bench.start_ms * 1000 + 10**9
        key = bench.key(0)._replace(manual="token-1")
        result = bench.result(0, key=key, status="running", fence=fence)
        bench.backend.record_manual([result], owner=bench.owner("a"), lease_ms=bench.lease_ms)
        answer = bench.claim(0)
        assert isinstance(answer, Won)
        assert answer.fence > fence


class Pauses(Contract):
    """A pause stops starts, of one job or of all."""

    def test_a_paused_job_s_slots_are_skipped(self, bench: Bench) -> None:
        """And recorded; other jobs go on."""
        bench.backend.pause("job", duration_ms=None)
        answer = bench.claim(0)
        assert isinstance(answer, Closed)
        assert (answer.status, answer.detail) == ("skipped", "paused")
        assert bench.told() == [(0, 1, "skipped", "paused")]
        assert isinstance(bench.claim(0, job="other"), Won)

    def test_all_jobs_can_be_paused(self, bench: Bench) -> None:
        """Also such as come later."""
        bench.backend.pause(None, duration_ms=None)
        for job in ("job", "other"):
            answer = bench.claim(0, job=job)
            assert isinstance(answer, Closed)
            assert answer.detail == "paused"

    def test_resume_ends_the_pause_that_it_names(self, bench: Bench) -> None:
        """And no other; a slot that was skipped is not caught up."""
        bench.backend.pause("job", duration_ms=None)
        bench.backend.pause(None, duration_ms=None)
        bench.claim(-2)
        bench.backend.resume(None)
        bench.claim(-1)
        bench.backend.resume("job")
        assert isinstance(bench.claim(0), Won)
        assert bench.told()[1:] == [(-1, 1, "skipped", "paused"), (-2, 1, "skipped", "paused")]

    def test_a_pause_can_end_by_itself(self, bench: Bench) -> None:
        """After the time it was given, by the store's clock."""
        bench.backend.pause("job", duration_ms=bench.lease_ms)
        bench.pass_leases(0.5)
        assert isinstance(bench.claim(0), Closed)
        bench.pass_leases(0.6)
        assert isinstance(bench.claim(0.001), Won)

    def test_a_running_attempt_goes_on(self, bench: Bench) -> None:
        """Its claim can be repeated, and it finishes."""
        bench.claim(0)
        bench.backend.pause(None, duration_ms=None)
        assert isinstance(bench.claim(0), Won)
        assert isinstance(bench.finish(0), Recorded)

    def test_a_pause_needs_no_open_backend(self, bench: Bench) -> None:
        """Nor does resume, nor history."""
        bench.backend.close()
        bench.backend.pause("job", duration_ms=None)
        assert bench.history() == []
        bench.backend.open(bench.limits)
        assert isinstance(bench.claim(0), Closed)
        bench.backend.close()
        bench.backend.resume("job")
        bench.backend.open(bench.limits)
        assert isinstance(bench.claim(0.001), Won)

    def test_a_pause_goes_on_when_history_is_trimmed_and_slots_are_won(self, bench: Bench) -> None:
        """Nothing else that is kept of a job touches it."""
        bench.claim(-10)
        bench.backend.pause("job", duration_ms=None)
        bench.finish(-10)
        assert isinstance(bench.claim(0), Closed)
        assert same(bench.claim(0, job="free", wins=0), Free(bench.key(0, "free")))
