"""The rules below the table of replies in the protocol, one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest

from anarchon._messages import (
    Abort,
    Claim,
    Finish,
    Look,
    Note,
    Release,
    Renew,
    Skip,
    Unfinished,
)
from tests.core.harness import Story
from tests.core.words import (
    ME,
    closed,
    early,
    free,
    handed_over,
    held,
    job,
    key,
    lease,
    running,
    won,
)

# --- self-fence ---------------------------------------------------------------


def test_the_fence_comes_before_a_renewal_when_the_process_was_frozen():
    story = Story(job(every=600))
    run = story.win(slot=600)
    actions = story.jump(story.t + 60)
    assert actions == [Abort(run, "lost")]
    story.wait(60)
    assert not story.all(Renew)


def test_a_fence_is_for_good():
    """An answer that comes too late gives nothing back."""
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.until(Renew)
    story.jump(story.t + 20)
    assert story.aborted() == [(run, "lost")]
    story.renewed()
    story.wait(60)
    assert len(story.all(Renew)) == 1
    assert not story.all(Release)


def test_the_fence_is_at_the_sending_plus_the_lease_less_the_margin():
    story = Story(job(every=600, lease=4, heartbeat=1), lease=4, heartbeat=1)
    story.go(600)
    story.until(Claim)
    sent = story.t
    story.claimed(won(left=4))
    story.until(Renew)
    story.go(sent + 4 - 0.401)
    assert story.aborted() == []
    story.go(sent + 4 - 0.4)
    assert story.aborted() == [(lease("sync", 600), "lost")]


def test_the_margin_is_at_least_a_quarter_of_a_second():
    story = Story(job(every=600, lease=2, heartbeat=0.6), lease=2, heartbeat=0.6)
    story.go(600)
    story.until(Claim)
    sent = story.t
    story.claimed(won(left=2))
    story.until(Renew)
    story.go(sent + 1.749)
    assert story.aborted() == []
    story.go(sent + 1.75)
    assert story.aborted() == [(lease("sync", 600), "lost")]


def test_a_fenced_handler_that_returns_is_a_success_and_one_that_raises_is_a_counted_hand_over():
    story = Story(job("a", every=600), job("b", every=600))
    a, b = story.win_all("a", "b", slot=600)
    story.jump(story.t + 40)
    story.returns(a)
    assert isinstance(story.lane, Finish)
    story.settled()
    story.obeys(b)
    assert isinstance(story.lane, Release)
    assert story.lane.results[0].counted


def test_a_win_that_waits_for_its_slot_is_handed_over_at_its_fence():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(won(left=3.5), store=598)
    story.jump(600.6)
    assert isinstance(story.lane, Release)
    assert not story.started()


def test_no_renewal_for_a_run_past_its_timeout():
    story = Story(job("a", every=600, timeout=5), job("b", every=600))
    a, b = story.win_all("a", "b", slot=600)
    story.go(606)
    assert story.aborted() == [(a, "timeout")]
    assert story.until_keeper(Renew).leases == (b,)


def test_all_leases_are_renewed_once_per_heartbeat():
    story = Story(job("a", every=600), job("b", schedule_at=604))
    a = story.win("a", slot=600)
    story.go(604)
    story.until(Claim)
    story.claimed(won())
    at = []
    for _ in range(4):
        assert story.until_keeper(Renew).leases == (a, lease("b", 604))
        at.append(round(story.t, 2))
        story.renewed()
    assert at == [610.01, 620.01, 630.01, 640.01]


# --- unable to reach the store, then able again -------------------------------


def test_unfenced_after_an_outage_it_renews_though_the_lease_has_ended():
    """Sent in time, answered late: the store accepts it whatever the lease's end."""
    story = Story(job(every=600))
    story.win(slot=600)
    story.fail_renewals_until(620)
    assert story.down()
    story.until_keeper(Renew)
    story.renewed()
    assert not story.down()
    assert story.aborted() == []


def test_after_an_outage_open_runs_then_the_latest_slots():
    story = Story(job("a", every=600, catch_up=3600), job("b", every=600, catch_up=3600))
    story.until(Claim)
    story.claimed(held())
    story.outage(Look)
    story.looked(others=2)
    assert story.lane == Unfinished(("a", "b"))
    story.nothing_open()
    keys = [wish.key for wish in story.until(Claim).wishes]
    assert sorted(keys) == [key("a", 0), key("b", 0)]


def test_after_an_outage_a_slot_that_runs_here_is_not_claimed():
    story = Story(job(every=600, catch_up=3600))
    story.until(Claim)
    story.claimed(won())
    story.outage(Renew)
    story.renewed()
    story.nothing_open()
    story.wait(5)
    assert len(story.all(Claim)) == 1
    assert not story.all(Skip)


def test_after_an_outage_a_stopping_instance_looks_for_nothing():
    story = Story(job(every=600, catch_up=3600))
    story.until(Claim)
    story.claimed(won())
    story.stop(timeout=60)
    story.outage(Renew)
    story.renewed()
    assert not story.down()
    assert len(story.all(Unfinished)) == 1


def test_slots_due_in_an_outage_are_claimed_late():
    story = Story(job(every=60))
    story.go(60)
    story.until(Claim)
    story.fail()
    while story.t < 90:
        story.fail()
        story.until(Claim)
    story.claimed(won())
    assert story.started() == [lease("sync", 60)]


# --- one handler of a run in this process -------------------------------------


def test_a_run_whose_earlier_attempt_still_lives_here_is_not_claimed():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.jump(story.t + 40)  # fenced, and ignores it
    story.core.add(job(every=600), story.now)
    story.tick()
    story.open_runs(running(run.key, attempt=2, left=-1))
    story.wait(30)
    assert len(story.all(Claim)) == 1
    story.returns(run)
    story.settled() if isinstance(story.lane, Finish) else None
    (wish,) = story.until(Claim).wishes
    assert (wish.key, wish.wants) == (run.key, 3)


def test_a_slot_whose_handler_still_lives_here_is_not_claimed():
    """Its record is gone, since the store lost it."""
    story = Story(job(every=600, catch_up=3600, timeout=2))
    story.until(Claim)
    story.claimed(won())
    run = lease("sync", 0)
    story.wait(2)
    story.settled()
    story.core.add(job(every=600, catch_up=3600, timeout=2), story.now)
    story.tick()
    story.nothing_open()
    story.wait(30)
    assert len(story.all(Claim)) == 1
    story.returns(run)


# --- timeout, abandon ---------------------------------------------------------


def test_after_a_timeout_the_first_result_is_final():
    story = Story(job(every=600, timeout=5))
    run = story.win(slot=600)
    story.wait(5)
    (result,) = story.lane.results
    story.fail()
    story.returns(run)
    assert story.lane.results == (result,)
    story.settled()
    assert story.events() == [("failure", "sync", 600, 1, "timeout")]
    story.wait(60)
    assert len(story.all(Finish)) == 2


def test_a_timeout_that_somebody_else_overtook_is_told_of_as_lost():
    story = Story(job(every=600, timeout=5))
    run = story.win(slot=600)
    story.wait(5)
    story.lost()
    story.nothing_open()
    assert story.events() == [("lost", "sync", 600, 1, "no longer held")]
    story.returns(run)
    assert [seen.event for seen in story.events()] == ["lost"]


def test_the_fence_comes_before_a_timeout_that_passed_meanwhile():
    story = Story(job(every=600, timeout=5))
    run = story.win(slot=600)
    assert story.jump(story.t + 40) == [Abort(run, "lost")]
    story.wait(60)
    assert not story.all(Finish)


def test_an_abandoned_run_that_started_is_never_handed_over():
    story = Story(job(every=600, budget=0))
    run = story.win(slot=600)
    story.stop()
    story.obeys(run)
    (result,) = story.lane.results
    assert isinstance(story.lane, Finish)
    assert (result.status, result.detail) == ("interrupted", "not handed over")


def test_an_abandoned_run_that_never_started_is_handed_over():
    story = Story(job(every=600, budget=0))
    story.go(600)
    story.until(Claim)
    story.stop()
    story.claimed(won())
    assert isinstance(story.lane, Release)
    assert not story.lane.results[0].counted


def test_a_run_for_which_no_thread_could_be_had_is_handed_over():
    story = Story(job(every=600, budget=0))
    run = story.win(slot=600)
    story.unstarted(run)
    assert isinstance(story.lane, Release)
    story.settled()
    assert story.events() == [("interrupted", "sync", 600, 1, "handed over")]


# --- saturated ----------------------------------------------------------------


def test_a_saturated_instance_looks_at_all_its_jobs_every_heartbeat():
    story = Story(job("a", every=600), job("b", schedule_at=5000), workers=1)
    story.win("a", slot=600)
    at = []
    for _ in range(4):
        assert story.renewing_until(Look).jobs == ("a", "b")
        at.append(story.t)
        story.looked()
    assert [b - a for a, b in pairwise(at)] == pytest.approx([10] * 3)


def test_a_saturated_instance_closes_the_dead_with_no_wins():
    story = Story(job("a", every=600), job("b", schedule_at=5000), workers=1)
    story.win("a", slot=600)
    story.until_looked(running(key("b", 100), attempt=3, left=-1))
    assert story.lane.wins == 0
    assert [wish.key for wish in story.lane.wishes] == [key("b", 100)]
    story.claimed(closed("failed", by=ME, attempt=3))
    assert story.events() == [("failure", "b", 100, 3, None)]


def test_a_saturated_instance_claims_nothing_else():
    story = Story(job("a", every=600), job("b", schedule_at=5000), job("c", every=600), workers=1)
    story.go(600)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), c=free())
    story.until_looked(
        handed_over(key("b", 100)), running(key("c", 0), left=25, by=ME), running(key("c", 0))
    )
    story.renewing_until_t(630)
    assert len(story.all(Claim)) == 1


def test_a_dead_run_that_may_be_continued_is_asked_for_once_per_look():
    story = Story(job("a", every=600), job("b", schedule_at=5000), workers=1)
    run = story.win("a", slot=600)
    dead = running(key("b", 100), attempt=1, left=-1)
    for _ in range(3):
        story.until_looked(dead)
        story.claimed(held(left=-1))
        assert story.lane is None
    story.until_looked(dead)
    story.claimed(held(left=-1))
    story.returns(run)
    story.settled()
    story.until_looked(dead)
    call = story.renewing_until(Claim)
    assert call.wins == 1
    assert call.wishes[0].wants == 2


def test_a_free_instance_with_nothing_watched_never_looks():
    story = Story(job(every=600), workers=2)
    run = story.win(slot=600)
    story.renewing_until_t(700)
    assert not story.all(Look)
    story.returns(run)


# --- notes ----------------------------------------------------


def test_early_slots_are_no_trouble_for_others():
    story = Story(job("a"), job("b"))
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=early(5), b=won())
    assert story.started() == [lease("b", 10)]
    assert not story.all(Note)
