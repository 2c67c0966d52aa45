"""Manual runs: now, on this instance, whatever the schedule and the store."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Abort,
    Claim,
    Finish,
    RecordManual,
    Renew,
    Return,
    RunNow,
    StartRun,
)
from anarchon._values import (
    Lease,
    Recorded,
    RunKey,
)
from tests.core.harness import Story
from tests.core.words import job, won


def returned(story: Story) -> list[tuple[str, str | None, str | None]]:
    return [(a.run.status, a.run.detail, a.run.error) for a in story.all(Return)]


def test_a_manual_run_starts_at_once_and_is_written_down_as_running():
    story = Story(job(every=600))
    story.go(7)
    run = story.run_now(data={"n": 1})
    (start,) = story.all(StartRun)
    wall_ms = story.now.wall_ms
    assert start == StartRun(
        run, "manual", wall_ms * 1000, None, start.spec, {"n": 1}, has_data=True, started_ms=wall_ms
    )
    (result,) = story.lane.results
    assert isinstance(story.lane, RecordManual)
    assert (result.key, result.attempt, result.status, result.reason) == (
        run.key,
        1,
        "running",
        "manual",
    )
    assert result.started_ms == story.now.wall_ms
    assert result.fence == start.fence


def test_without_data_of_its_own_it_says_so():
    story = Story(job(every=600))
    story.run_now()
    (start,) = story.all(StartRun)
    assert (start.data, start.has_data) == (None, False)


def test_it_returns_when_its_handler_ends_and_is_recorded():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.wait(3)
    story.returns(run)
    assert isinstance(story.lane, Finish)
    assert returned(story) == []  # whoever asks history next must find it there
    story.settled()
    (answer,) = story.all(Return)
    assert (answer.key, answer.run.status, answer.run.manual) == (run.key, "success", True)
    assert answer.run.run_id == "m1"
    assert answer.run.duration_ms == pytest.approx(3000, abs=1)
    assert [seen.event for seen in story.events()] == ["success"]


def test_a_failure_returns_as_well():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.raises(run)
    story.settled()
    assert returned(story) == [("failed", None, "ValueError: no")]


def test_it_ends_before_the_store_heard_of_it():
    """Its finish brings the record; written down as running after that it would be a lie."""
    story = Story(job(every=600))
    run = story.run_now()
    story.fail()
    story.fail()
    story.returns(run)
    call = story.until(Finish)
    assert [result.key for result in call.results] == [run.key]
    story.settled()
    story.nothing_open()
    assert story.lane is None


def test_it_ends_while_the_store_hears_of_it():
    story = Story(job(every=600))
    run = story.run_now()
    story.returns(run)
    story.settled()
    assert isinstance(story.lane, Finish)
    story.settled()
    story.wait(60)
    assert story.lane is None
    assert not story.all(Renew)


def test_while_the_store_is_down_it_runs_and_returns_and_is_recorded_afterwards():
    story = Story(job(every=600))
    story.run_now()
    run = story.started()[0]
    story.fail()
    story.fail()
    story.returns(run)
    assert returned(story) == [("success", None, None)]
    for _ in range(4):
        story.until(Finish)
        story.fail()
    story.until(Finish)
    story.settled()
    story.nothing_open()
    assert [seen.event for seen in story.events()] == ["success"]


def test_a_result_that_waits_for_the_store_returns_when_an_outage_begins():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.returns(run)
    story.fail()
    assert returned(story) == []
    story.fail()
    assert returned(story) == [("success", None, None)]
    story.until(Finish)
    story.settled()
    assert len(returned(story)) == 1


def test_it_never_starts_before_it_was_asked_for():
    """Its slot is the time at which it was asked for, on a clock read by another thread."""
    story = Story(job(every=600))
    story.core.handle(RunNow(RunKey("sync", story.now.wall_ms + 7, "m1"), None), story.now)
    (held,) = story.core._held
    assert held.started_ms == held.key.slot_ms


def test_its_lease_is_renewed_with_the_others_once_the_store_has_it():
    story = Story(job(every=600), job("b", every=600))
    story.go(590)
    run = story.run_now()
    story.fail()
    story.until_keeper_or(599)
    assert story.keeper is None
    assert isinstance(story.lane, RecordManual)
    story.settled()
    assert story.until_keeper(Renew).leases == (run,)


def test_lost_on_renewal_is_ignored():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.until(Renew)
    story.renewed(run)
    assert story.aborted() == []
    story.returns(run)
    story.settled()
    assert [seen.event for seen in story.events()] == ["success"]


def test_it_has_no_fence():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.fail_renewals_until(300)
    assert story.aborted() == []
    story.returns(run)


def test_its_timeout_ends_the_record_and_it_returns_then():
    story = Story(job(every=600, timeout=5))
    run = story.run_now()
    story.settled()
    story.go(5)
    assert Abort(run, "timeout") in [a for _, a in story.log]
    story.settled()
    assert returned(story) == [("failed", "timeout", "TimeoutError: still running after 5 s")]
    story.returns(run)
    assert len(returned(story)) == 1


def test_it_takes_no_worker():
    story = Story(job(every=600), workers=1)
    for number in range(3):
        story.run_now(token=f"m{number}")
        if story.lane is not None:
            story.settled()
    assert story.core.view() == (3, 1, 0)
    story.renewing_until_t(600)
    story.until(Claim)
    story.claimed(won())
    assert len(story.started()) == 4


def test_a_stuck_manual_run_takes_no_replacement():
    story = Story(job(every=600, timeout=5), workers=1)
    story.run_now()
    story.settled()
    story.go(5)
    story.settled()
    story.go(11)
    assert story.core.view() == (1, 1, 1)


def test_it_neither_blocks_nor_is_blocked_by_a_slot_of_its_job():
    story = Story(job(every=600))
    story.go(595)
    story.run_now()
    story.settled()
    story.go(600)
    story.until(Claim)
    story.claimed(won())
    assert len(story.started()) == 2
    story.run_now(token="m2")
    assert len(story.started()) == 3


def test_after_stop_it_is_interrupted_without_running():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop()
    story.run_now()
    assert len(story.started()) == 1
    assert isinstance(story.lane, Finish)
    story.settled()
    assert returned(story) == [("interrupted", "not handed over", None)]
    story.obeys(run)
    story.settled()
    assert story.is_stopped()


def test_a_job_that_is_gone_returns_at_once():
    story = Story(job(every=600))
    story.core.remove("sync")
    run = story.run_now()
    (answer,) = story.all(Return)
    assert (answer.key, answer.run.status, answer.run.instance_id) == (
        run.key,
        "interrupted",
        "here:1",
    )
    assert answer.run.manual
    assert answer.run.run_id == "m1"
    assert story.lane is None
    assert not story.started()


def test_a_job_that_was_removed_while_it_ran_is_recorded():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.core.remove("sync")
    story.returns(run)
    story.settled()
    assert returned(story) == [("success", None, None)]


def test_for_want_of_a_thread_it_returns_interrupted():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.unstarted(run)
    assert isinstance(story.lane, Finish)
    story.settled()
    assert returned(story) == [("interrupted", "not handed over", "no thread")]


def test_it_can_be_cancelled():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.until(Renew)
    story.renewed(cancelled=(run,))
    assert story.aborted() == [(run, "cancel")]
    story.obeys(run)
    story.settled()
    assert returned(story) == [("interrupted", "not handed over", None)]


def test_many_are_written_down_in_one_call_each_time():
    story = Story(job(every=600))
    for number in range(5):
        story.run_now(token=f"m{number}")
    assert len(story.lane.results) == 1
    story.settled()
    assert len(story.lane.results) == 4
    story.settled()
    assert story.lane is None


def test_a_record_for_nobody_here_is_ignored():
    story = Story(job(every=600))
    run = story.run_now()
    story.unstarted(run)
    assert isinstance(story.lane, RecordManual)
    story.settled()
    story.settled()
    story.settled() if story.lane is not None else None
    assert story.lane is None


def test_a_record_of_a_run_that_nobody_asked_for_is_ignored():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled(Recorded(run, "running"), Recorded(Lease(RunKey("sync", 1, "ghost"), 1), "lost"))
    story.returns(run)
    story.settled()
    assert returned(story) == [("success", None, None)]


def test_manual_runs_without_end_take_turns_with_claims():
    story = Story(job(every=10))
    story.go(9)
    first = story.run_now(token="m1")
    story.go(11)  # a slot is due, and its claim as well
    story.run_now(token="m2")
    story.settled()
    assert isinstance(story.lane, Claim)
    story.returns(first)
    story.claimed(won())
    assert isinstance(story.lane, Finish)
    story.settled()
    assert isinstance(story.lane, RecordManual)
    story.go(21)
    story.run_now(token="m3")
    story.settled()
    assert isinstance(story.lane, Claim)


def test_the_end_of_a_scheduled_run_waits_for_no_turn():
    """Else the next slot of its job would find it open."""
    story = Story(job(every=10))
    story.go(11)
    story.claimed(won())
    (run,) = story.started()
    story.run_now(token="m1")
    story.go(21)
    story.run_now(token="m2")
    story.returns(run)
    story.settled()
    assert isinstance(story.lane, Finish)
    story.settled()
    assert isinstance(story.lane, Claim)
