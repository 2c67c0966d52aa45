"""Stop, in every state."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Abort,
    Claim,
    Drained,
    Finish,
    Look,
    Release,
    Renew,
    Skip,
    Stop,
    Stopped,
    Tick,
    Unfinished,
)
from tests.core.harness import Story
from tests.core.words import closed, early, free, handed_over, held, job, key, running, won


def ends(story: Story) -> list[str]:
    return [type(a).__name__ for _, a in story.log if isinstance(a, Drained | Stopped)]


# --- nothing to wait for ------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, 30])
def test_an_idle_instance_stops_at_once(timeout):
    story = Story(job())
    assert story.stop(timeout) == [Drained(), Stopped()]
    assert story.core.stopped
    assert story.wakeup() == float("inf")


def test_a_stopped_core_says_and_sends_nothing_more():
    story = Story(job())
    story.stop()
    story.core.add(job("late"), story.now)
    for message in (Tick(), Stop(3)):
        assert story.core.handle(message, story.now) == []
    assert story.core.next_wakeup(story.now) is None


def test_a_watcher_forgets_what_it_watched():
    story = Story(job())
    story.back_up()
    assert story.stop() == [Drained(), Stopped()]


def test_pending_slots_and_missed_ones_are_forgotten():
    story = Story(job("a", every=600), job("b", schedule_at=605), workers=1)
    run = story.win("a", slot=600)
    story.renewing_until_t(606)
    story.stop()
    story.returns(run)
    story.settled()
    assert story.is_stopped()
    assert len(story.all(Claim)) == 1


def test_stop_before_a_planned_claim():
    story = Story(job())
    story.go(10)
    assert story.stop() == [Drained(), Stopped()]
    assert not story.all(Claim)


# --- calls in flight ----------------------------------------------------------


def test_open_runs_in_flight_are_waited_for_and_ignored():
    story = Story(job(every=600), start=False)
    story.tick()
    story.stop()
    assert not story.is_stopped()
    story.open_runs(handed_over(key("sync", 0)))
    assert story.is_stopped()
    assert story.lane is None


def test_a_look_in_flight_is_waited_for_and_ignored():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.stop()
    assert not story.is_stopped()
    story.looked(running(key("sync", 600), left=-1))
    assert story.is_stopped()


def test_a_look_that_fails_while_stopping_is_not_repeated():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.stop()
    story.fail(Look)
    assert story.is_stopped()


def test_a_skip_in_flight_is_waited_for():
    story = Story(job())
    story.jump(30)
    story.until(Skip)
    story.stop()
    story.claimed(closed("missed"))
    assert story.is_stopped()


@pytest.mark.parametrize("answer", [held(), closed(), free(), early(3)])
def test_a_claim_in_flight_that_wins_nothing_ends_the_stop(answer):
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.stop()
    assert not story.is_stopped()
    story.claimed(answer)
    assert story.is_stopped()
    assert not story.started()


def test_a_claim_in_flight_that_wins_is_handed_over_unstarted():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.stop()
    story.claimed(won())
    assert not story.started()
    assert isinstance(story.lane, Release)
    story.settled()
    assert story.events() == [("interrupted", "sync", 10, 1, "handed over")]
    assert ends(story) == ["Drained", "Stopped"]


def test_an_unknown_claim_is_settled_with_no_wins():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.fail()
    story.fail()
    assert story.lane is None
    story.stop()
    assert not story.is_stopped()
    call = story.until(Claim)
    assert call.wins == 0
    story.claimed(won())
    assert isinstance(story.lane, Release)
    story.settled()
    assert story.is_stopped()


def test_a_claim_that_fails_while_stopping_is_settled_with_no_wins():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.stop()
    story.fail()
    assert story.lane.wins == 0
    story.claimed(closed())
    assert story.is_stopped()


# --- handlers -----------------------------------------------------------------


def test_every_handler_is_aborted_and_recorded_as_it_ends():
    story = Story(*(job(name) for name in "abc"))
    a, b, c = story.win_all("a", "b", "c")
    story.read()
    assert sorted(story.stop(), key=str) == [Abort(run, "stop") for run in (a, b, c)]
    story.obeys(b)
    assert isinstance(story.lane, Release)
    story.settled()
    story.returns(a)
    assert isinstance(story.lane, Finish)
    story.settled()
    assert ends(story) == []
    story.raises(c)
    story.settled()
    assert ends(story) == ["Drained", "Stopped"]
    assert sorted(story.events()) == [
        ("interrupted", "b", 10, 1, "handed over"),
        ("interrupted", "c", 10, 1, "handed over"),
        ("success", "a", 10, 1, "after stop"),
    ]


def test_leases_are_renewed_while_a_handler_takes_its_time():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop(60)
    for _ in range(3):
        assert story.until(Renew).leases == (run,)
        story.renewed()
    story.obeys(run)
    story.settled()
    assert story.is_stopped()


def test_the_first_abort_reason_stays():
    story = Story(job(every=600, timeout=5))
    run = story.win(slot=600)
    story.wait(5)
    story.settled()
    story.stop()
    assert story.aborted() == [(run, "timeout")]
    assert not story.is_stopped()  # it may still obey
    story.returns(run)
    assert story.is_stopped()


def test_a_handler_that_was_stuck_before_is_not_waited_for():
    story = Story(job(every=600, timeout=5))
    story.win(slot=600)
    story.wait(5)
    story.settled()
    story.wait(5)
    assert story.notes()[-1][0] == "stuck"
    story.stop()
    assert story.is_stopped()


def test_a_win_that_waits_for_its_slot_is_handed_over():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(won(), store=9.2)
    story.stop()
    assert isinstance(story.lane, Release)
    story.settled()
    assert story.is_stopped()
    assert not story.started()


def test_a_run_that_is_lost_while_stopping_makes_no_backup():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop(60)
    story.until(Renew)
    story.renewed(run)
    story.obeys(run)
    assert story.is_stopped()
    assert len(story.all(Unfinished)) == 1


def test_what_is_handed_over_while_stopping_is_not_watched():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop(60)
    story.obeys(run)
    story.settled()
    assert story.is_stopped()
    assert not story.all(Look)
