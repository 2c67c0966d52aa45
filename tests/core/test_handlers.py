"""Handlers that take too long, ignore their abort, or are cancelled; and their workers."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Abort,
    Claim,
    Emit,
    Finish,
    Release,
    Renew,
    StartRun,
)
from tests.core.harness import Story
from tests.core.words import early, free, handed_over, job, key, lease, won


def stuck_story(count: int, workers: int) -> Story:
    """Return a story in which so many handlers have ignored their timeout."""
    story = Story(
        *(job(f"j{n}", schedule_at=10 + n, timeout=1) for n in range(count)),
        job("next", schedule_at=1000),
        workers=workers,
    )
    for n in range(count):
        story.renewing_until_t(10 + n)
        while story.lane is None:
            story.until_keeper_or(11 + n)
            story.jump(story.wakeup())
        story.claimed(won(left=3600))
    return story


# --- timeout --------------------------------------------------------------------


@pytest.mark.parametrize(("timeout", "text"), [(5, "5 s"), (0.25, "0.25 s"), (90, "90 s")])
def test_a_timeout_counts_from_the_start_of_the_handler(timeout, text):
    story = Story(job(every=600, timeout=timeout))
    story.go(600)
    story.until(Claim)
    story.claimed(won(left=3600), store=599.5)
    started = story.t + 0.5
    story.renewing_until_t(started + timeout - 0.001)
    assert not story.aborted()
    story.renewing_until_t(started + timeout)
    assert story.aborted() == [(lease("sync", 600), "timeout")]
    (result,) = story.lane.results
    assert (result.status, result.detail) == ("failed", "timeout")
    assert result.error == f"TimeoutError: still running after {text}"
    assert result.duration_ms == pytest.approx(timeout * 1000, abs=1)
    assert result.started_ms == story.core._held.get(lease("sync", 600)).started_ms


def test_without_a_timeout_a_handler_may_run_for_ever():
    story = Story(job(every=6000))
    story.win(slot=6000)
    story.renewing_until_t(11_000)
    assert not story.aborted()


def test_a_timeout_does_not_fail_what_stop_has_aborted():
    """The first abort reason wins: it is handed over, however late it obeys."""
    story = Story(job(every=600, timeout=5))
    run = story.win(slot=600)
    story.stop(30)
    story.go(607)
    story.obeys(run)
    assert story.aborted() == [(run, "stop")]
    assert isinstance(story.lane, Release)


def test_the_next_slot_may_start_while_the_old_thread_still_runs():
    story = Story(job(timeout=2))
    story.win(left=3600)
    story.renewing_until_t(12.1)
    story.settled()
    story.renewing_until_t(20)
    story.until(Claim)
    story.claimed(won(left=3600))
    assert story.started() == [lease("sync", 10), lease("sync", 20)]
    assert story.core.view().running == 2


def test_what_ends_twice_or_never_was_is_ignored():
    story = Story(job())
    run = story.win()
    story.returns(lease("ghost", 10))
    story.returns(run)
    story.returns(run)
    story.settled()
    story.returns(run)
    assert len(story.all(Finish)) == 1


def test_an_end_before_the_start_is_ignored():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(won(), store=9.5)
    assert story.returns(lease("sync", 10)) == []
    story.wait(0.6)
    assert story.started() == [lease("sync", 10)]


# --- stuck ----------------------------------------------------------------------


@pytest.mark.parametrize(("heartbeat", "after"), [(10, 5), (2, 2)])
def test_a_handler_that_ignores_its_abort_is_told_of_once(heartbeat, after):
    how = {"lease": 6 * heartbeat, "heartbeat": heartbeat}
    story = Story(job(every=600, timeout=3, **how), **how)
    story.win(slot=600, left=3600)
    story.renewing_until_t(603.01)
    aborted = story.t
    story.settled()
    story.renewing_until_t(aborted + after - 0.02)
    assert story.notes() == []
    assert story.core.view() == (1, 9, 0)
    story.renewing_until_t(aborted + after)
    assert story.notes() == [("stuck", "sync", "attempt 1")]
    assert story.core.view() == (1, 10, 1)
    story.renewing_until_t(aborted + 60)
    assert len(story.notes()) == 1
    story.returns(lease("sync", 600))
    assert story.core.view() == (0, 10, 0)


def test_a_fenced_handler_may_be_stuck_too():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.fail_renewals_until(640)
    assert story.notes() == [("stuck", "sync", "attempt 1")]
    assert story.core.view() == (1, 10, 1)
    story.obeys(run)
    assert isinstance(story.lane, Release)


def test_a_handler_that_stop_has_aborted_is_not_stuck():
    story = Story(job(every=600))
    story.win(slot=600)
    story.stop(30)
    story.until(Renew)
    story.renewed()
    story.until(Renew)
    assert story.notes() == []


@pytest.mark.parametrize(("stuck", "free"), [(0, 2), (1, 2), (2, 2), (3, 1), (4, 0)])
def test_a_stuck_handler_is_replaced_as_many_times_as_there_are_workers(stuck, free):
    story = Story(
        *(job(f"j{n}", schedule_at=10 + 10 * n, timeout=1) for n in range(stuck)), workers=2
    )
    for n in range(stuck):
        story.renewing_until_t(10 + 10 * n)
        story.until(Claim)
        story.claimed(won(left=3600))
        story.renewing_until_t(11.1 + 10 * n)
        story.settled()
    story.renewing_until_t(100)
    assert story.core.view() == (stuck, free, stuck)
    for n in range(stuck):
        story.returns(lease(f"j{n}", 10 + 10 * n))
    assert story.core.view() == (0, 2, 0)


def test_a_replaced_worker_claims_what_was_waiting():
    story = Story(job("a", schedule_at=10, timeout=1), job("b", schedule_at=10), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.renewing_until_t(11.1)
    story.settled()
    assert story.lane is None
    story.renewing_until_t(16.02)
    assert [wish.key.job for wish in story.lane.wishes] == ["b"]
    assert story.lane.wins == 1


def test_a_win_that_waits_for_its_slot_occupies_a_worker():
    story = Story(job(), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed(won(), store=9.5)
    assert story.core.view() == (0, 0, 0)


# --- cancel ---------------------------------------------------------------------


def test_a_cancelled_run_that_never_started_is_given_back():
    """The store closes what is released after a cancel."""
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(won(left=60), store=585)
    story.until(Renew)
    story.renewed(cancelled=(lease("sync", 600),))
    assert isinstance(story.lane, Release)
    story.wait(10)
    assert not story.started()


def test_a_cancel_of_what_is_gone_is_ignored():
    story = Story(job("a", every=600), job("b", every=600))
    a, b = story.win_all("a", "b", slot=600)
    story.until(Renew)
    story.returns(a)
    story.settled()
    story.renewed(a, cancelled=(a, b))
    assert story.aborted() == [(b, "cancel")]
    assert [seen.event for seen in story.events()] == ["success"]


def test_a_cancel_is_told_once_and_the_lease_is_renewed_on():
    story = Story(job(every=600))
    run = story.win(slot=600)
    for _ in range(3):
        story.until(Renew)
        story.renewed(cancelled=(run,))
    assert story.aborted() == [(run, "cancel")]


def test_a_cancelled_run_that_returns_is_a_success():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.until(Renew)
    story.renewed(cancelled=(run,))
    story.returns(run)
    (result,) = story.lane.results
    assert (result.status, result.detail) == ("success", None)


# --- events ---------------------------------------------------------------------


def test_started_comes_before_the_start_and_the_end_after_the_record():
    story = Story(job())
    run = story.win()
    kinds = [type(action).__name__ for _, action in story.log]
    assert kinds.index("Emit") < kinds.index("StartRun")
    story.returns(run)
    assert story.events() == []
    story.settled()
    assert story.events() == [("success", "sync", 10, 1, None)]


def test_a_takeover_is_told_of_before_its_start():
    story = Story(job(every=600), start=False)
    story.tick()
    story.open_runs(handed_over(key("sync", 0)))
    story.until(Claim)
    story.claimed(won())
    told = [(a.event, a.run.status) for a in story.all(Emit)]
    assert told == [("takeover", "running"), ("started", "running")]
    (start,) = story.all(StartRun)
    assert (start.lease.attempt, start.reason) == (2, "takeover")


def test_the_run_that_an_event_carries():
    story = Story(job())
    run = story.win()
    story.wait(2)
    story.raises(run)
    story.settled()
    (seen,) = [a.run for a in story.all(Emit) if a.event == "failure"]
    assert seen.run_id == f"sync@{run.key.slot_ms}"
    assert (seen.slot, seen.attempt, seen.status) == (run.key.slot_ms, 1, "failed")
    assert (seen.instance_id, seen.reason, seen.manual) == ("here:1", "scheduled", False)
    assert (seen.error, seen.traceback) == ("ValueError: no", "Traceback")
    assert seen.duration_ms == pytest.approx(2000, abs=1)
    assert (seen.finished_at - seen.started_at).total_seconds() == pytest.approx(2, abs=0.001)
    assert seen.scheduled_at.timestamp() * 1000 == run.key.slot_ms


def test_the_run_of_what_never_started_has_no_times():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.stop()
    story.claimed(won())
    story.settled()
    (seen,) = [a.run for a in story.all(Emit)]
    assert (seen.started_at, seen.finished_at, seen.duration_ms) == (None, None, 0)


def test_early_wins_start_in_their_own_time():
    story = Story(job("a"), job("b"))
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=early(0.5), b=won())
    story.wait(0.4)
    assert story.started() == [lease("b", 10)]
    assert [type(a) for _, a in story.log].count(Abort) == 0
