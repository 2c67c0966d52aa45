"""What an instance does for a claim that is won, held or waiting: the rows of the protocol."""

from __future__ import annotations

from itertools import pairwise

import pytest

from anarchon._messages import (
    Claim,
    Look,
    Release,
    StartRun,
)
from tests.core.harness import Story
from tests.core.words import (
    ME,
    aged,
    handed_over,
    held,
    job,
    key,
    lease,
    running,
    waiting,
    won,
)

# --- won ----------------------------------------------------------------------


def test_won_runs_the_handler_and_tells_of_it():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.read()
    story.claimed(won(fence=77))
    emit, start = story.read()
    assert (emit.event, emit.run.attempt, emit.run.status) == ("started", 1, "running")
    spec = story.core._specs["sync"]
    assert start == StartRun(
        lease("sync", 10), "scheduled", 77, None, spec, started_ms=story.now.wall_ms
    )


def test_a_win_counts_from_the_sending_of_the_claim():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    sent = story.t
    story.jump(13)
    story.claimed(won(left=30))
    run = lease("sync", 10)
    story.go(14)
    story.fail_renewals_until(sent + 26.9)
    assert story.aborted() == []
    story.fail_renewals_until(sent + 27.01)
    assert story.aborted() == [(run, "lost")]


@pytest.mark.parametrize(("late", "starts"), [(26.9, True), (27.1, False)])
def test_a_win_past_its_deadline_is_handed_over(late, starts):
    story = Story(job(every=60))
    story.go(60)
    story.until(Claim)
    story.jump(story.t + late)
    story.claimed(won(left=30))
    assert bool(story.started()) == starts
    if not starts:
        (result,) = story.lane.results
        assert isinstance(story.lane, Release)
        assert (result.status, result.detail, result.counted) == (
            "interrupted",
            "handed over",
            False,
        )


def test_what_was_handed_over_unstarted_is_watched_here_as_well():
    """A single instance must come back to it: nobody else will."""
    story = Story(job(every=60))
    story.go(60)
    story.until(Claim)
    story.jump(story.t + 28)
    story.claimed(won(left=30))
    story.settled()
    assert [seen.event for seen in story.events()] == ["interrupted"]
    assert story.until(Look, within=10).jobs == ("sync",)
    story.looked(handed_over(key("sync", 60)))
    (wish,) = story.until(Claim, within=0.1).wishes
    assert (wish.key, wish.wants, wish.reason) == (key("sync", 60), 2, "takeover")


def test_a_win_of_a_removed_job_is_handed_over():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    assert story.core.remove("sync")
    story.claimed(won())
    assert not story.started()
    assert isinstance(story.lane, Release)
    story.settled()
    assert story.wakeup() == float("inf")


def test_a_win_before_its_slot_by_the_stores_clock_waits_the_rest():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    at = story.t
    story.claimed(won(), store=9.4)
    assert not story.started()
    story.go(at + 0.59)
    assert not story.started()
    story.go(at + 0.61)
    assert story.started() == [lease("sync", 10)]


# --- held ---------------------------------------------------------------------


def test_held_makes_a_backup_that_looks_once_per_heartbeat():
    story = Story(job(every=600))
    story.back_up(slot=600, left=300, lease=300, heartbeat=100)
    at = []
    for _ in range(5):
        assert story.until(Look).jobs == ("sync",)
        at.append(story.t)
        story.looked(others=1, end=250)
    gaps = [b - a for a, b in pairwise(at)]
    assert gaps == pytest.approx([10.0] * 4)
    assert not story.aborted()


def test_held_is_a_log_line_and_no_event():
    story = Story(job())
    story.back_up()
    assert story.notes() == [("taken", "sync", "")]
    assert story.events() == []


def test_a_backup_looks_just_after_the_lease_end_it_knows():
    story = Story(job(every=600))
    story.chance.share = 0.999
    story.back_up(slot=600, left=4)
    told = story.t
    story.until(Look)
    assert story.t == pytest.approx(told + 4.002)


def test_a_dead_run_is_taken_over_at_once_when_the_clocks_agree():
    story = Story(job(every=600))
    story.back_up(slot=600, beat=3)
    story.until(Look)
    story.looked(running(key("sync", 600), beat=3, left=-0.5))
    (wish,) = story.until(Claim, within=0.05).wishes
    assert (wish.wants, wish.beat, wish.reason) == (2, 3, "takeover")
    story.claimed(won())
    assert [seen.event for seen in story.events()] == ["takeover"]
    assert story.started() == [lease("sync", 600, 2)]


def test_a_dead_run_is_taken_over_after_the_witness_when_the_clocks_do_not_agree():
    story = Story(job(every=600))
    story.back_up(slot=600, beat=3)
    first_seen = story.t
    story.store_stepped = 30
    story.looking_until_claim(running(key("sync", 600), beat=3, left=0), agrees=False)
    assert story.t == pytest.approx(first_seen + 27.022, abs=0.002)
    assert story.lane.wishes[0].first_seen == pytest.approx(first_seen + 4096)


def test_a_renewal_starts_the_witness_again():
    story = Story(job(every=600))
    story.back_up(slot=600, beat=3)
    story.until(Look)
    story.looked(running(key("sync", 600), beat=4, left=-0.5), agrees=False)
    seen = story.t
    story.until(Look)
    story.looked(others=1)  # not listed: the time first seen is kept
    call = story.looking_until_claim(running(key("sync", 600), beat=4, left=-10.5), agrees=False)
    assert call.wishes[0].first_seen == pytest.approx(seen + 4096)
    assert story.t == pytest.approx(seen + 27.022, abs=0.002)


def test_a_lease_seen_unchanged_for_its_whole_length_has_ended_whatever_the_store_says():
    """The store's clock stepped back by an hour: the lease's end lies far ahead."""
    story = Story(job(every=7200))
    story.back_up(slot=7200, beat=3)
    first_seen = story.t
    story.store_stepped = -3600
    story.looking_until_claim(running(key("sync", 7200), beat=3, left=3630))
    assert story.t == pytest.approx(first_seen + 30.022, abs=0.002)


@pytest.mark.parametrize("left", [-1, 3600])
def test_a_refused_takeover_waits_for_the_next_look(left):
    """Paused, or no wins left: the same claim again at once would be polling."""
    story = Story(job(every=7200))
    story.back_up(slot=7200)
    lost, story.store_stepped = story.t, 30 - left
    dead = running(key("sync", 7200), left=left)
    story.looking_until_claim(dead)
    story.claimed(held(left=aged(dead, story.t - lost).left_ms / 1000))
    refused = story.t
    story.until(Look)
    assert story.t - refused > 3
    story.looked(aged(dead, story.t - lost))
    story.until(Claim, within=0.1)
    assert len(story.all(Claim)) == 3


def two_handed_over():
    """See two runs that wait, and claim one of them as a fair share."""
    story = Story(job("a", every=7200), job("b", every=7200))
    story.go(7200)
    story.until(Claim)
    story.claimed(held(), held())
    story.until(Look)
    story.looked(handed_over(key("a", 7200)), handed_over(key("b", 7200)))
    call = story.until(Claim, within=0.1)
    assert (len(call.wishes), call.wins) == (2, 1)
    return story


@pytest.mark.parametrize("left", [waiting(), held(left=-1)])
def test_what_was_left_for_want_of_wins_is_taken_over_in_the_next_round(left):
    """After a deploy many runs wait at once: a look brings one, and the rounds the others."""
    story = two_handed_over()
    (_, second) = story.lane.wishes
    story.claimed(won(), left)
    call = story.until(Claim, within=0.1)
    assert [wish.key for wish in call.wishes] == [second.key]
    assert call.wins == 2
    story.claimed(waiting())  # it is paused: no round would bring it
    assert story.lane is None
    story.wait(1)
    assert story.lane is None


def test_mine_and_nothing_of_it_here_is_claimed_again():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.looked(running(key("sync", 600), attempt=2, left=25, by=ME))
    (wish,) = story.until(Claim, within=0.05).wishes
    assert wish.wants == 2
    story.claimed(won())
    assert story.started() == [lease("sync", 600, 2)]


def test_what_is_mine_and_held_here_is_not_claimed_again():
    story = Story(job(every=600), job("other", every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(won(), held())
    mine = story.started()[0].key
    story.until(Look)
    story.looked(running(mine, left=25, by=ME))
    story.wait(0.5)
    assert len(story.all(Claim)) == 1


# --- waiting ------------------------------------------------------------------


def test_waiting_is_claimed_at_once():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(waiting(3))
    (wish,) = story.until(Claim, within=0.05).wishes
    assert (wish.wants, wish.reason) == (4, "takeover")


def test_waiting_that_was_just_claimed_is_tried_again_with_the_next_look():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(waiting(1))
    for _ in range(3):
        assert story.until(Claim, within=0.05).wishes[0].wants == 2
        story.claimed(waiting(1))  # paused
        before = story.t
        story.until(Look, within=20)
        assert story.t - before > 3
        story.looked(handed_over(key("sync", 600)))


def test_waiting_without_a_free_worker_is_claimed_by_the_worker_that_becomes_free():
    story = Story(job(every=600), workers=1)
    run = story.win(slot=600)
    story.core.add(job("other", every=700), story.now)
    story.tick()
    story.nothing_open()
    story.until_looked(handed_over(key("other", 100)))
    story.wait(25)
    story.until_looked(handed_over(key("other", 100)))
    assert len(story.all(Claim)) == 1
    story.returns(run)
    story.settled()
    (wish,) = story.lane.wishes
    assert (wish.key, wish.wants) == (key("other", 100), 2)


def test_two_runs_that_are_refused_are_not_claimed_in_turn_without_end():
    """The answer about one names the other as waiting, again and again."""
    story = Story(job(every=600, overlap="allow"))
    first, second = key("sync", 0), key("sync", 300)
    story.go(600)
    story.until(Claim)
    story.claimed(waiting(), also=(handed_over(first), handed_over(second)))
    while (at := story.t) < 601:
        if story.lane is None:
            story.jump(min(story.wakeup(), 601))
            continue
        others = {first, second, key("sync", 600)} - {story.lane.wishes[0].key}
        story.claimed(waiting(), also=tuple(map(handed_over, sorted(others))))
        assert at < 601
    assert len(story.all(Claim)) == 4
    story.until(Look)
    story.looked(*map(handed_over, (first, second, key("sync", 600))))
    assert story.until(Claim, within=0.1)


def test_a_refused_run_that_has_changed_is_claimed_again():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(waiting(1))
    story.until(Claim)
    story.claimed(waiting(1))
    story.core.add(job("b", every=600), story.now)
    story.tick()
    story.open_runs(handed_over(key("sync", 600), attempt=2))
    (wish,) = story.until(Claim, within=0.1).wishes
    assert wish.wants == 3
