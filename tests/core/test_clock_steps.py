"""The wall clock steps; the monotonic one never does."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Claim,
    Renew,
    Skip,
)
from tests.core.harness import Story
from tests.core.words import (
    ME,
    closed,
    early,
    free,
    job,
    key,
    lease,
    ms,
    running,
    told_alike,
    won,
)


def decide(story: Story, slot: float) -> None:
    story.go(slot)
    story.until(Claim)
    story.claimed(closed())


def claims(story: Story) -> list[float]:
    return [(wish.key.slot_ms - ms(0)) / 1000 for call in story.all(Claim) for wish in call.wishes]


@pytest.mark.parametrize("step", [-1.0, -0.5, -0.001])
def test_a_small_step_back_claims_no_slot_twice(step):
    """The fleet's reading of the time may step back by up to a second at any time."""
    story = Story(job())
    decide(story, 10)
    story.step_wall(step)
    decide(story, 20 - step)
    assert claims(story) == [10, 20]


@pytest.mark.parametrize(("step", "again"), [(-1.0, False), (-1.001, True)])
def test_a_step_back_by_more_than_a_second_asks_for_every_slot_anew(step, again):
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(closed())
    story.step_wall(step)
    assert story.core._race.slots.jobs["sync"].next_ms == ms(10 if again else 20)


def test_a_small_step_back_right_at_a_slot_leaves_it_pending():
    story = Story(job())
    story.go(10)
    story.step_wall(-1)
    story.until(Claim)
    assert claims(story) == [10]


@pytest.mark.parametrize("step", [0.5, 1.0])
def test_a_small_step_forward_brings_the_next_slot_sooner(step):
    story = Story(job())
    decide(story, 10)
    story.step_wall(step)
    decide(story, 20 - step)
    assert claims(story) == [10, 20]


def test_a_step_forward_by_an_hour_runs_the_latest_slot_only():
    story = Story(job(catch_up=3600))
    story.until(Claim)
    story.claimed(closed())
    decide(story, 10)
    story.step_wall(3600)
    (wish,) = story.until(Skip).wishes
    assert (wish.key, wish.next_ms) == (key("sync", 3600), ms(3610))
    story.claimed(closed("missed", by=ME))
    story.until(Claim)
    story.claimed(closed())
    assert claims(story)[1:] == [10, 3610]


def test_a_step_back_by_an_hour_computes_every_slot_anew():
    story = Story(job("a"), job("b", every=3600), job("c", schedule_at=7000))
    for slot in (3600,):
        story.jump(slot)
        while story.lane is not None or story.t < slot + 0.5:
            if story.lane is not None:
                story.claimed(closed("missed"))
            else:
                story.jump(min(story.wakeup(), slot + 0.5))
    story.step_wall(-3600)
    seen = len(claims(story))
    story.go(3610.5)
    story.until(Claim)
    assert claims(story)[seen:] == [10]
    assert [job.next_ms for job in story.core._race.slots.jobs.values()] == [
        ms(20),
        ms(3600),
        ms(7000),
    ]


def test_a_slot_of_the_future_is_not_closed_as_missed():
    """Nobody has a worker for it, and its next slot is computed anew, before it."""
    story = Story(job("a", schedule_at=3600), job("b"), workers=1)
    story.jump(3600)
    while isinstance(story.lane, Skip):
        story.claimed(told_alike())
    story.until(Claim)
    story.claimed_by_job(a=won(left=7200), b=free())
    story.step_wall(-3600)
    story.renewing_until_t(3620)
    for call in story.all(Skip)[1:]:
        for wish in call.wishes:
            assert wish.key.slot_ms <= ms(20)


def test_a_one_off_of_the_future_is_run_when_it_is_due_again():
    story = Story(job(schedule_at=3600))
    story.jump(3600)
    story.until(Claim)
    story.claimed(early(3600))
    story.step_wall(-3600)
    assert not story.core._race.slots.waiting
    story.go(3600 + 3600)
    story.until(Claim)
    assert claims(story) == [3600, 3600]


def test_a_suspended_schedule_is_not_asked_because_the_clock_stepped():
    class Broken:
        asked = 0

        def next_after_ms(self, t_ms):
            Broken.asked += 1
            raise ValueError("bad")

        latest_ms = next_after_ms

    story = Story(job(schedule=Broken()))
    asked = Broken.asked
    story.step_wall(-3600)
    assert Broken.asked == asked


def test_missed_slots_of_the_future_are_forgotten():
    story = Story(job("a", schedule_at=10), job("b"), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.go(20)
    call = story.until(Skip)
    story.claimed(early(60))
    story.step_wall(-3600)
    story.renewing_until_t(90)
    assert call.wishes[0].key == key("b", 10)
    later = [wish.key for call in story.all(Skip)[1:] for wish in call.wishes]
    assert key("b", 10) not in later


def test_a_skip_that_was_told_of_is_not_told_of_again():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(closed("skipped", by=ME, detail="overlap"))
    story.step_wall(-3600)
    story.go(3609)
    while story.t < 3611:
        story.jump(story.wakeup())
        if story.lane is not None:
            story.claimed(closed("skipped", by=ME, detail="overlap"))
    assert [seen.slot for seen in story.events()].count(10) == 1


@pytest.mark.parametrize("step", [-3600, -10, 10, 3600])
def test_leases_timeouts_and_durations_do_not_care(step):
    story = Story(job(every=7200, timeout=25))
    run = story.win(slot=7200)
    story.step_wall(step)
    assert story.until_keeper(Renew).leases == (run,)
    assert story.t == pytest.approx(7210.01)
    story.renewed()
    story.until_keeper(Renew)
    story.renewed()
    while not story.aborted():
        story.jump(story.wakeup())
    assert story.aborted() == [(run, "timeout")]
    assert story.t == pytest.approx(7225.01)
    finish = [call for call in story.log if getattr(call[1], "results", None)][-1][1]
    assert finish.results[0].duration_ms == pytest.approx(25_000, abs=1)


def test_a_win_waits_for_its_slot_by_our_monotonic_clock():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    at = story.t
    story.claimed(won(), store=9.0)
    story.step_wall(3600)
    while not story.started():
        if story.lane is not None:
            story.claimed(closed())
        story.jump(story.wakeup())
    assert story.t == pytest.approx(at + 1.0)


def test_a_step_forward_while_a_claim_is_in_flight():
    story = Story(job(catch_up=3600))
    story.until(Claim)
    story.claimed(closed())
    story.go(10)
    story.until(Claim)
    story.step_wall(3600)
    story.claimed(won())
    assert story.started() == [lease("sync", 10)]
    (wish,) = story.until(Skip).wishes
    assert wish.key == key("sync", 3600)
    assert "since 2027-01-15T08:00:20.000Z" in wish.detail


def test_a_step_back_while_a_claim_is_in_flight():
    story = Story(job(every=60, catch_up=3600))
    story.until(Claim)
    story.claimed(closed())
    story.jump(3600)
    while isinstance(story.lane, Skip):
        story.claimed(told_alike())
    story.until(Claim)
    story.step_wall(-3600)
    story.claimed(early(3600))
    (wish,) = story.until(Claim).wishes
    assert (wish.key, wish.reason) == (key("sync", 0), "catch-up")  # of the time before the step
    story.claimed(closed())
    story.go(3660)
    (wish,) = story.until(Claim).wishes
    assert wish.key == key("sync", 60)
    assert not story.all(Skip)[1:]


def test_watched_runs_do_not_care():
    story = Story(job(every=7200))
    story.back_up(slot=7200, left=20)
    at = story.t
    story.step_wall(3600)
    story.looking_until_claim(running(key("sync", 7200), left=0), agrees=True)
    assert story.t < at + 7
