"""Attempts whose transaction decides how they end."""

from __future__ import annotations

import pytest

from anarchon._messages import Abort, Completing, Emit, Finish, Granted, Release, Renew
from anarchon._states import UNCOMMITTED
from anarchon._values import Lease, Recorded, Renewed, Undecided
from tests.core.harness import Story
from tests.core.words import job, lease

RUN = lease("sync", 10)


def completing(story: Story, run: Lease = RUN) -> bool:
    """Let a handler ask, and return the answer."""
    asked = object()
    story.feed(Completing(run, asked))
    (answer,) = [one for one in story.all(Granted) if one.reply is asked]
    return answer.granted


def aborts(story: Story) -> list[str]:
    return [action.reason for action in story.all(Abort)]


def told(story: Story) -> list[tuple[str, str | None, str | None]]:
    told = [action for action in story.all(Emit) if action.event != "started"]
    return [(action.event, action.run.detail, action.run.error) for action in told]


def recorded(story: Story, status: str, detail: str | None = None) -> None:
    call = story.lane
    assert isinstance(call, Finish | Release)
    (result,) = call.results
    story.settled(Recorded(Lease(result.key, result.attempt), status, detail))


def test_a_running_attempt_may_be_completed_and_its_result_says_so():
    story = Story(job())
    story.win()
    assert completing(story)
    story.returns(RUN)
    (result,) = story.lane.results
    assert (result.status, result.completes) == ("success", True)


def test_what_isn_t_completed_says_so_too():
    story = Story(job())
    story.win()
    story.returns(RUN)
    assert not story.lane.results[0].completes


def test_what_is_not_held_can_t_be_completed():
    story = Story(job())
    assert not completing(story)


def test_what_has_a_result_can_t_be_completed():
    story = Story(job(timeout=5))
    story.win()
    story.go(16)
    assert aborts(story) == ["timeout"]
    assert not completing(story)


def test_a_timeout_is_recorded_at_its_limit_and_asks_what_the_transaction_did():
    story = Story(job(timeout=5))
    story.win()
    assert completing(story)
    story.go(16)
    assert aborts(story) == ["timeout"]
    (result,) = story.lane.results
    assert (result.status, result.detail, result.error, result.completes) == (
        "failed",
        "timeout",
        "TimeoutError: still running after 5 s",
        True,
    )
    recorded(story, "success")
    assert told(story) == [("success", None, None)]


def undecided(story: Story) -> None:
    (result,) = story.lane.results
    story.settled(Undecided(Lease(result.key, result.attempt)))


@pytest.mark.parametrize("how", ["returns", "raises", "times out", "stops"])
def test_an_open_transaction_is_asked_about_again_each_second_and_the_lease_is_kept(how):
    story = Story(job(timeout=5 if how == "times out" else None))
    story.win()
    completing(story)
    if how == "returns":
        story.returns(RUN)
    elif how == "raises":
        story.raises(RUN)
    elif how == "stops":
        story.stop(100)
        story.obeys(RUN)
    else:
        story.go(16)
    kind = type(story.lane)
    for _ in range(3):
        at = story.t
        undecided(story)
        assert story.lane is None
        assert told(story) == []
        story.until(kind, within=1.001)
        assert story.t - at == pytest.approx(1, abs=0.002)
    undecided(story)
    while story.lane is None:
        story.wait(0.5)
    recorded(story, "success")
    assert [event for event, *_ in told(story)] == ["success"]
    assert story.core.stopped == (how == "stops")


def test_what_was_decided_is_not_asked_about_beside_the_next_one():
    story = Story(job(schedule_at=10), job("other", schedule_at=10))
    runs = story.win_all("sync", "other")
    for run in runs:
        completing(story, run)
    story.returns(runs[0])
    undecided(story)
    story.until(Finish)
    recorded(story, "success")
    story.returns(runs[1])
    undecided(story)
    assert [result.key for result in story.until(Finish).results] == [runs[1].key]


def test_a_stop_that_times_out_leaves_an_open_transaction_to_the_next_instance():
    story = Story(job())
    story.win()
    completing(story)
    story.stop(3)
    story.obeys(RUN)
    for _ in range(10):
        if story.core.stopped:
            break
        if story.lane is None:
            story.wait(0.5)
        else:
            undecided(story)
    assert story.core.stopped
    assert [(event, detail) for event, detail, _ in told(story)] == [
        ("interrupted", "not recorded")
    ]


def test_a_run_that_is_recorded_while_its_handler_goes_on_is_renewed_no_more():
    """As on SQLite, where the transaction itself has closed it; it can't be lost any more."""
    story = Story(job(schedule_at=10))
    story.win()
    completing(story)
    story.until(Renew)
    story.answer(Renew, Renewed((), (), story.now.wall_ms, (RUN,)))
    story.go(200)
    assert story.keeper is None
    assert aborts(story) == []
    story.returns(RUN)
    recorded(story, "success")
    assert told(story) == [("success", None, None)]


def test_a_core_that_has_stopped_says_what_is_still_open():
    story = Story(job())
    story.win()
    story.stop(3)
    story.go(40)
    assert story.core.stopped
    assert story.core.complete(RUN), "its handler was left running, and nothing is recorded"
    assert not story.core.complete(lease("sync", 20))


def test_or_that_a_result_may_be_on_its_way():
    story = Story(job(timeout=5))
    story.win()
    story.go(16)
    story.stop(1)
    story.go(40)
    assert not story.core.complete(RUN)


@pytest.mark.parametrize("ended", ["raised", "stopped"])
def test_what_was_committed_is_told_as_a_success_without_the_error(ended):
    story = Story(job())
    story.win()
    completing(story)
    if ended == "stopped":
        story.stop(10)
    story.raises(RUN)
    recorded(story, "success")
    assert told(story) == [("success", None, None)]
    (emit,) = [action for action in story.all(Emit) if action.event == "success"]
    assert emit.run.traceback is None


def test_what_was_not_committed_is_told_as_a_failure_that_says_why():
    story = Story(job())
    story.win()
    completing(story)
    story.returns(RUN)
    recorded(story, "failed")
    assert told(story) == [("failure", None, UNCOMMITTED)]
