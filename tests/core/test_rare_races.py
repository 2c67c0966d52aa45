"""Races that only rare simulations show, each played once on purpose."""

from __future__ import annotations

import pytest

from anarchon._messages import Claim, Finish, Look, Release, Renew, StartRun, Unfinished
from tests.core.harness import Story, claimed_slots
from tests.core.stage import MONO0
from tests.core.words import ME, held, job, key, running, suspect, won

NAMES = ("a", "b", "c")


def back_from_the_dead(workers):
    """Run three jobs to their ends; a failover loses those, and all three are open again.

    Their runner knows nothing of them any more, so that they look like wins whose answers
    were lost. It hears of them by a look.
    """
    story = Story(*(job(name, every=600) for name in NAMES), workers=workers)
    story.go(600)
    story.until(Claim)
    story.claimed(held())
    story.until(Look)
    story.looked(*(running(key(name, 600), left=25, by=ME) for name in NAMES))
    return story


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_runs_that_came_back_are_claimed_by_free_workers_only(workers):
    story = back_from_the_dead(workers)
    call = story.until(Claim, within=0.05)
    assert len(call.wishes) == workers
    story.claimed(won(25))
    assert len(story.all(StartRun)) == workers
    story.wait(0.5)
    assert story.lane is None


def test_the_others_that_came_back_follow_as_workers_become_free():
    story = back_from_the_dead(workers=1)
    for number, _ in enumerate(NAMES, 1):
        call = story.until(Claim, within=0.05)
        assert len(call.wishes) == 1
        story.claimed(won(25))
        run = story.started()[-1]
        story.returns(run)
        story.settled()
        assert len(story.all(StartRun)) == number
    assert sorted(run.key.job for run in story.started()) == list(NAMES)


# --- a beat that is counted twice ---


LATE = {"left": 14, "lease": 30, "beat": 6}  # not renewed for one and a half heartbeats


def a_backup_for(seconds):
    """Watch a run of somebody who renews it in time, for so long."""
    story = Story(job(every=7200))
    story.back_up(slot=7200, beat=6)
    story.renewing_until_t(7200 + seconds)
    return story


def claims_of(story, seen, within):
    """Show the run at the next look; return how many claims follow within that time."""
    story.until(Look)
    before = len(story.all(Claim))
    story.looked(seen)
    story.renewing_until_t(story.t + within)
    return len(story.all(Claim)) - before


def test_an_attempt_that_was_given_away_twice_is_another_lease():
    story = a_backup_for(40)
    other = running(key("sync", 7200), by="a third", **LATE)
    assert claims_of(story, other, within=9) == 0


def test_a_beat_that_is_counted_again_after_lost_writes_is_another_renewal():
    story = a_backup_for(40)
    assert claims_of(story, running(key("sync", 7200), **LATE), within=9) == 0


def test_a_beat_that_is_counted_again_may_have_ended_when_it_is_seen():
    """Looks failed for a while, and the clocks don't agree: its witness begins now."""
    story = a_backup_for(40)
    seen = running(key("sync", 7200), left=-1, beat=6)
    story.until(Look)
    seen_at = story.t
    story.looked(seen, agrees=False)
    story.looking_until_claim(seen, agrees=False)
    assert story.t == pytest.approx(seen_at + 27.022, abs=0.002)
    assert story.lane.wishes[0].first_seen == pytest.approx(seen_at + MONO0)


def test_a_beat_that_is_counted_again_may_end_sooner_where_the_new_clock_is_behind():
    story = a_backup_for(20)
    story.store_stepped = -60
    story.until(Look)
    seen_at = story.t
    story.looked(running(key("sync", 7200), left=29, beat=6), agrees=False)
    story.looking_until_claim(running(key("sync", 7200), left=29, beat=6), agrees=False)
    assert story.lane.wishes[0].first_seen == pytest.approx(seen_at + MONO0)


@pytest.mark.parametrize(("later", "is_news"), [(0.5, True), (0.05, False)])
def test_a_renewal_has_one_end_but_for_what_a_clock_is_corrected_by(later, is_news):
    """The new clock may be behind by just what passed until the beat was counted again."""
    story = a_backup_for(40)
    story.until(Look)
    seen_at = story.t
    seen = running(key("sync", 7200), left=7230 + later - seen_at, beat=6)
    story.looked(seen, agrees=False)
    story.looking_until_claim(seen, agrees=False)
    first_seen = story.lane.wishes[0].first_seen
    assert (first_seen == pytest.approx(seen_at + MONO0)) is is_news


def test_a_takeover_that_is_asked_for_again_tells_what_is_known_since():
    """Its claim is unknown, and meanwhile the store counts the same beat once more."""
    story = a_backup_for(35)
    seen = running(key("sync", 7200), left=-1, beat=6)
    story.until(Look)
    story.looked(seen, agrees=True)
    first = story.until(Claim)
    story.until_keeper(Look)
    seen_at = story.t
    story.looked(running(key("sync", 7200), **LATE))
    story.fail(Claim)
    again = story.until(Claim)
    assert again.wishes[0].first_seen == pytest.approx(seen_at + MONO0)
    assert again.wishes[0]._replace(first_seen=first.wishes[0].first_seen) == first.wishes[0]


def test_the_same_lease_seen_for_its_whole_length_has_ended():
    story = Story(job(every=7200))
    story.back_up(slot=7200, beat=6, left=3600)
    story.renewing_until_t(7200 + 40)
    left = 3600 - (story.until(Look) and story.t - 7200)
    assert claims_of(story, running(key("sync", 7200), beat=6, left=left), within=9) == 1


# --- claims whose answers are lost, and outages ---


def test_a_claim_without_an_answer_is_asked_again_as_it_was():
    story = Story(job(every=600))
    story.go(600)
    first = story.until(Claim)
    story.fail(Claim)
    assert story.until(Claim) == first


def test_who_stops_asks_again_what_it_won_and_wins_nothing_more():
    story = Story(job(every=600))
    story.go(600)
    first = story.until(Claim)
    story.fail(Claim)
    story.stop()
    story.fail(Claim)
    assert story.until(Claim, within=5) == first._replace(wins=0)


def test_after_an_outage_every_open_run_is_asked_for():
    story = Story(job(every=600), job("other", every=7200))
    story.win(slot=600)
    story.returns(story.started()[-1])
    story.outage(Finish)
    story.settled()
    assert sorted(story.until(Unfinished, within=5).jobs) == ["other", "sync"]


# --- what the store forgot, and who was away ---


def test_the_highest_fence_that_was_seen_is_sent_along_after_a_flush():
    story = Story(job(every=600, catch_up=3600))
    story.until(Claim)
    story.claimed(won(fence=77))
    run = story.started()[-1]
    story.until(Renew)
    story.renewed(run)
    story.obeys(run)
    story.nothing_open()
    assert [wish.fence_seen for wish in story.until(Claim).wishes] == [77]


@pytest.mark.parametrize("away", [27, 30, 300])
def test_who_was_away_past_its_deadline_renews_nothing_when_it_comes_back(away):
    story = Story(job(every=7200))
    run = story.win(slot=7200)
    sent = story.t
    story.jump(sent + away)
    assert story.aborted() == [(run, "lost")]
    assert story.keeper is None
    story.raises(run)
    assert story.until(Release).results[0].counted


# --- a dead run that blocked a slot, and wasn't dead ---


@pytest.mark.parametrize(
    "seen", [(), (running(key("sync", 0), beat=9, left=14),)], ids=["renewed", "late"]
)
def test_a_slot_is_asked_for_again_when_what_blocked_it_lives_on(seen):
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(suspect(running(key("sync", 0), left=-1)), agrees=False)
    story.until(Look)
    story.looked(*seen, others=1, agrees=False)
    assert claimed_slots(story) == [("sync", 600, "scheduled")]
    (wish,) = story.until(Claim, within=1).wishes
    assert (wish.key, wish.wants) == (key("sync", 600), 1)


def test_a_slot_waits_while_what_blocks_it_looks_dead():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    dead = running(key("sync", 0), left=-1)
    story.claimed(suspect(dead), agrees=False)
    story.until(Look)
    story.looked(dead, others=1, agrees=False)
    story.wait(5)
    assert len(story.all(Claim)) == 1
