"""Stop at its timeout, from inside, twice, and with manual runs."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Abort,
    Claim,
    Drained,
    Emit,
    Finish,
    Note,
    RecordManual,
    Release,
    Renew,
    Return,
    Stopped,
    Tick,
)
from tests.core.harness import Story
from tests.core.words import job


def ends(story: Story) -> list[str]:
    return [type(a).__name__ for _, a in story.log if isinstance(a, Drained | Stopped)]


# --- timeout ------------------------------------------------------------------


def test_at_the_timeout_handlers_are_left_and_named():
    story = Story(job("a", every=600), job("b", every=600))
    a, _ = story.win_all("a", "b", slot=600)
    story.stop(5)
    story.obeys(a)
    story.settled()
    story.go(605.009)
    assert not story.is_stopped()
    story.go(605.02)
    assert story.notes() == [("left", "b", "attempt 1")]
    assert ends(story) == ["Drained", "Stopped"]
    assert story.core.handle(Tick(), story.now) == []
    assert [seen.job for seen in story.events()] == ["a"]


def test_stop_0_leaves_everything_at_once():
    story = Story(job(every=600))
    run = story.win(slot=600)
    assert story.stop(0) == [
        Abort(run, "stop"),
        Note("left", run.key, "attempt 1"),
        Drained(),
        Stopped(),
    ]


def test_stop_0_leaves_a_claim_in_flight():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    assert story.stop(0) == [Drained(), Stopped()]


def test_a_stop_while_the_store_is_down_ends_at_its_timeout():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop(20)
    story.obeys(run)
    while not story.is_stopped():
        for kind in (Release, Renew):
            if isinstance(story.lane, kind) or isinstance(story.keeper, kind):
                story.fail(kind)
        if not story.is_stopped():
            story.jump(story.wakeup())
    assert story.t == pytest.approx(620.01)
    assert story.events() == [("interrupted", "sync", 600, 1, "not recorded")]


def test_a_failure_that_nobody_could_record_is_told_of_at_the_end_of_a_stop():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.raises(run)
    story.stop(5)
    while not story.is_stopped():
        if isinstance(story.lane, Finish):
            story.fail()
        if not story.is_stopped():
            story.jump(story.wakeup())
    assert story.events() == [("failure", "sync", 600, 1, "not recorded")]


def test_a_claim_that_a_dead_store_never_answers_is_not_worth_a_stop_s_time():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.fail()
    story.fail()
    story.stop(30)
    while not story.is_stopped():
        if isinstance(story.lane, Claim):
            story.fail()
        if not story.is_stopped():
            story.jump(story.wakeup())
    assert story.t == pytest.approx(601, abs=0.2)


def test_a_stop_while_the_store_is_down_ends_when_it_is_back():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop(20)
    story.obeys(run)
    story.fail()
    story.fail()
    story.until(Release)
    story.settled()
    assert story.is_stopped()


# --- called from inside -------------------------------------------------------


def test_a_stop_from_a_handler_does_not_wait_for_it():
    story = Story(job("a", every=600), job("b", every=600))
    a, b = story.win_all("a", "b", slot=600)
    story.stop(30, a)
    assert ends(story) == []
    story.obeys(b)
    assert ends(story) == []
    story.settled()
    assert ends(story) == ["Drained"]
    story.returns(a)
    assert ends(story) == ["Drained"]
    story.settled()
    assert ends(story) == ["Drained", "Stopped"]
    assert ("success", "a", 600, 1, "after stop") in story.events()


def test_a_stop_from_the_only_handler():
    story = Story(job(every=600))
    run = story.win(slot=600)
    assert Drained() in story.stop(30, run)
    story.obeys(run)
    story.settled()
    assert ends(story) == ["Drained", "Stopped"]


def test_a_handler_that_called_stop_has_a_heartbeat_past_the_timeout():
    story = Story(job("a", every=600), job("b", every=600))
    a, _ = story.win_all("a", "b", slot=600)
    story.stop(5, a)
    story.go(605.02)
    assert ends(story) == ["Drained"]
    story.go(614.9)
    story.returns(a)
    story.settled()
    assert ends(story) == ["Drained", "Stopped"]
    assert [note[:2] for note in story.notes()] == [("left", "b")]


def test_a_handler_that_called_stop_is_left_as_well_in_the_end():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop(5, run)
    story.until_keeper(Renew)
    assert story.t == pytest.approx(610.01)
    story.renewed()
    story.go(615.02)
    assert story.is_stopped()
    assert story.notes() == [("left", "sync", "attempt 1")]


def test_several_handlers_may_call_stop():
    story = Story(job("a", every=600), job("b", every=600))
    a, b = story.win_all("a", "b", slot=600)
    story.stop(30, a)
    assert ends(story) == []
    story.stop(1, b)
    assert ends(story) == ["Drained"]
    story.returns(b)
    story.settled()
    story.returns(a)
    story.settled()
    assert ends(story) == ["Drained", "Stopped"]


# --- twice --------------------------------------------------------------------


def test_a_second_stop_joins_the_first():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop(30)
    assert story.stop(0) == []
    story.until_keeper(Renew)
    story.renewed()
    story.obeys(run)
    story.settled()
    assert story.is_stopped()
    assert story.aborted() == [(run, "stop")]


# --- manual runs --------------------------------------------------------------


def test_a_manual_run_is_aborted_and_returns():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.stop()
    assert story.aborted() == [(run, "stop")]
    story.obeys(run)
    story.settled()
    (answer,) = story.all(Return)
    assert (answer.run.status, answer.run.detail) == ("interrupted", "not handed over")
    assert story.is_stopped()


def test_a_manual_run_that_is_left_returns_at_the_timeout():
    story = Story(job(every=600))
    run = story.run_now()
    story.settled()
    story.stop(5)
    story.go(5)
    (answer,) = story.all(Return)
    assert (answer.key, answer.run.status) == (run.key, "interrupted")
    assert answer.run.detail == "not handed over"
    assert story.is_stopped()


def test_a_manual_run_that_timed_out_returns_once_only():
    story = Story(job(every=600, timeout=2))
    story.run_now()
    story.settled()
    story.go(2)
    story.fail()
    story.stop(1)
    story.go(3.5)
    assert story.is_stopped()
    (answer,) = story.all(Return)
    assert answer.run.status == "failed"


def test_a_manual_run_that_the_store_has_not_heard_of_is_written_first():
    story = Story(job(every=600))
    run = story.run_now()
    story.fail(RecordManual)
    story.fail(RecordManual)
    story.stop()
    assert not story.is_stopped()
    story.obeys(run)
    story.until(Finish)
    story.settled()
    assert story.is_stopped()
    assert not [a for a in story.all(Emit) if a.event == "lost"]
