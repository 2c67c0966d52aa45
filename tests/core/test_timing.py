"""Who claims when, and how many: the decisions of the timing paper, D1 to D5."""

from __future__ import annotations

from math import ceil

import pytest

from anarchon._core_backoff import Fleet
from anarchon._messages import (
    Claim,
    Finish,
    Look,
    StartRun,
)
from tests.core.harness import Story
from tests.core.words import (
    closed,
    free,
    handed_over,
    held,
    job,
    key,
    won,
)


def first_claim(story: Story, slot: float = 60) -> float:
    """Return how long after its slot the first claim is sent."""
    story.go(slot)
    story.until(Claim)
    return story.t - slot


def crowd(count: int, every: float = 60, **how: object) -> list:
    return [job(f"j{n:03}", every=every, **how) for n in range(count)]


# --- D1, D2: one delay, and how long ------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.999])
def test_a_tick_has_one_delay_uniform_in_its_window(share):
    story = Story(*crowd(3), chance=share)
    assert first_claim(story) == pytest.approx(0.02 * share, abs=1e-6)
    assert len(story.lane.wishes) == 3


@pytest.mark.parametrize(
    ("instances", "jobs", "busy", "window"),
    [
        (1, 1, False, 0.02),
        (1, 1, True, 0.04),
        (3, 1, False, 0.06),
        (3, 1, True, 0.12),
        (10, 4, False, 0.05),
        (4, 10, False, 0.02),
        (10, 10, True, 0.04),
        (49, 1, False, 0.98),
        (50, 1, False, 1.0),
        (26, 1, True, 1.0),
        (200, 1, False, 1.0),
        (200, 10, False, 0.4),
    ],
)
def test_the_window(instances, jobs, busy, window):
    story = Story(*crowd(jobs), chance=0.5, workers=100)
    if busy:
        story.run_now("j000")
        story.settled()
    story.see_fleet(instances)
    assert first_claim(story) == pytest.approx(window / 2, abs=1e-6)


@pytest.mark.parametrize(
    ("every", "window"), [(0.1, 0.01), (0.5, 0.05), (2, 0.2), (9, 0.9), (60, 1.0)]
)
def test_the_window_is_at_most_a_tenth_of_the_shortest_period(every, window):
    story = Story(job("a", every=every), job("b", every=3600), chance=0.5)
    story.see_fleet(500)
    slot = min(60, every)
    assert first_claim(story, slot) == pytest.approx(window / 2, abs=1e-6)


def test_the_shortest_period_is_that_of_the_jobs_that_are_due():
    story = Story(job("a", every=60), job("b", every=1, jitter=0.001), chance=0.5)
    story.core.remove("b")
    story.core.add(job("b", schedule_at=5000, jitter=0.001), story.now)
    story.tick()
    story.nothing_open()
    story.see_fleet(10)
    assert first_claim(story) == pytest.approx(0.1, abs=1e-6)


def test_the_jitter_of_a_tick_is_the_smallest_of_its_jobs():
    story = Story(job("a", every=60, jitter=0.5), job("b", every=60, jitter=0.01), chance=0.5)
    assert first_claim(story) == pytest.approx(0.005, abs=1e-6)


def test_without_jitter_a_claim_is_sent_at_once():
    story = Story(*crowd(3, jitter=0.0))
    story.see_fleet(100)
    assert first_claim(story) == pytest.approx(0, abs=1e-6)
    story.claimed(won(), free(), free())
    assert len(story.lane.wishes) == 2  # and so is the next round


def test_a_late_wake_up_does_not_add_to_the_delay():
    """Round 1 happens at slot + U x window; an instance that wakes up late has less to wait."""
    story = Story(job(every=60), chance=0.5)
    story.see_fleet(5)
    story.jump(60.03)
    story.until(Claim)
    assert story.t == pytest.approx(60.05, abs=1e-6)


@pytest.mark.parametrize("late", [0.06, 0.099])
def test_a_wake_up_after_its_draw_claims_at_once(late):
    story = Story(job(every=60), chance=0.5)
    story.see_fleet(5)
    story.jump(60 + late)
    assert isinstance(story.lane, Claim)


def test_what_is_long_past_is_drawn_for_from_now_on():
    """All instances come to know of it at the same moment: an outage has ended."""
    story = Story(job(every=600, catch_up=3600), chance=0.5, start=False)
    story.jump(70)
    story.nothing_open()
    story.until(Claim)
    assert story.t == pytest.approx(70.01, abs=1e-6)


def test_a_takeover_waits_for_the_same_delay():
    story = Story(job(every=600), chance=0.5)
    story.go(590)
    story.see_fleet(4)
    story.back_up(slot=600)  # a fifth one
    story.until(Look)
    story.looked(handed_over(key("sync", 600)))
    at = story.t
    story.until(Claim)
    assert story.t - at == pytest.approx(0.05, abs=1e-6)


def test_several_takeovers_share_one_delay_and_the_smallest_jitter():
    story = Story(job("a", every=600, jitter=0.01), job("b", every=600, jitter=0.5), chance=0.5)
    story.go(600)
    story.until(Claim)
    story.claimed(held())
    story.until(Look)
    story.looked(handed_over(key("a", 600)), handed_over(key("b", 600)))
    at = story.t
    assert len(story.until(Claim).wishes) == 2
    assert story.t - at == pytest.approx(0.005, abs=1e-6)
    assert story.lane.wins == 1


# --- D3: the fleet ------------------------------------------------------------


def test_the_fleet_is_the_distinct_owners_of_the_last_ten_minutes():
    fleet = Fleet("me")
    assert fleet.size(0) == 1
    for mono, token in [(0, "a"), (100, "b"), (100, "b"), (200, "me"), (200, "")]:
        fleet.note(token, mono)
    assert fleet.size(200) == 3
    assert fleet.size(600) == 3
    assert fleet.size(600.1) == 2
    assert fleet.size(700) == 2
    assert fleet.size(700.1) == 1


def test_an_owner_that_is_seen_again_is_young_again():
    fleet = Fleet("me")
    fleet.note("a", 0)
    fleet.note("b", 10)
    fleet.note("a", 500)
    assert fleet.size(650) == 2
    assert fleet.size(1100) == 2
    assert fleet.size(1101) == 1


def test_at_most_a_thousand_are_remembered():
    fleet = Fleet("me")
    for number in range(3000):
        fleet.note(f"o{number}", number / 100)
    assert fleet.size(30) == 1000
    for number in range(2001, 3000):
        assert f"o{number}" in fleet._seen


def test_owners_are_learnt_from_held_and_from_closed():
    story = Story(*crowd(4))
    story.go(60)
    story.until(Claim)
    story.claimed(held(by="a"), closed(by="b"), held(by="a"), closed(by="c"))
    assert story.core._race.answers.fleet.size(story.mono) == 4


# --- D4: rounds and shares ----------------------------------------------------


@pytest.mark.parametrize(
    ("instances", "jobs"), [(1, 1), (1, 10), (3, 10), (10, 10), (4, 7), (50, 10)]
)
def test_the_wins_of_a_first_round_are_the_share(instances, jobs):
    story = Story(*crowd(jobs), workers=100)
    story.see_fleet(instances)
    first_claim(story)
    assert story.lane.wins == ceil(jobs / instances)


def test_the_wins_are_at_most_the_free_workers():
    story = Story(*crowd(10), workers=4)
    first_claim(story)
    assert story.lane.wins == 4


def test_each_round_wins_twice_as_many_as_the_last():
    """Round r happens at slot + (r - 1) x window + U x window."""
    story = Story(*crowd(40), workers=100, chance=0.25)
    story.see_fleet(20)
    window = 0.02
    story.go(60)
    for number, wins in enumerate([2, 4, 8, 16, 32]):
        story.until(Claim)
        assert story.t == pytest.approx(60 + number * window + 0.25 * window, abs=1e-6)
        assert story.lane.wins == wins
        offered = len(story.lane.wishes)
        story.claimed(*(won() if n < wins else free() for n in range(offered)))
    assert story.lane is None
    assert len(story.started()) == 40


def test_a_share_is_never_more_than_there_are_workers():
    """However long something is left: the number must not grow for ever."""
    story = Story(*crowd(100), workers=3)
    story.go(60)
    story.until(Claim)
    for _ in range(20):
        story.claimed(won(), won(), won(), *[free()] * (len(story.lane.wishes) - 3))
        for run in story.started()[-3:]:
            story.returns(run)
        while isinstance(story.lane, Finish):
            story.settled()
        assert story.lane.wins <= 3
    assert story.core._race.rounds._planned.share <= 3


def test_what_falls_due_while_a_claim_is_in_flight_is_a_tick_of_its_own():
    story = Story(job("a", every=60), job("b", schedule_at=60.1), chance=0.5)
    story.see_fleet(2)
    story.go(60)
    story.until(Claim)
    story.jump(60.1)
    story.claimed(closed())
    story.until(Claim)
    assert story.lane.wins == 1
    assert story.t == pytest.approx(60.13, abs=1e-6)  # three instances by now


# --- D5: without a free worker ------------------------------------------------


def test_without_a_free_worker_no_claim_is_planned():
    story = Story(job("a", every=60), job("b", schedule_at=70), workers=1)
    story.win("a", slot=60)
    story.renewing_until_t(100)
    assert len(story.all(Claim)) == 1


def test_a_worker_that_becomes_free_claims_at_once_after_its_finish():
    story = Story(*crowd(6), workers=2)
    first_claim(story)
    story.claimed(won(), won(), *[free()] * 4)
    a, b = story.started()
    story.returns(a)
    assert isinstance(story.lane, Finish)
    story.returns(b)
    at = story.t
    story.settled()
    story.settled()
    assert (story.t, story.lane.wins, len(story.lane.wishes)) == (at, 2, 4)


def test_a_worker_that_becomes_free_during_a_claim_waits_for_its_answer():
    story = Story(*crowd(6), workers=2)
    first_claim(story)
    story.claimed(won(), won(), *[free()] * 4)
    a, b = story.started()
    story.returns(a)
    story.settled()
    assert story.lane.wins == 1
    story.returns(b)
    story.claimed(won(), *[free()] * 3)
    story.settled()
    assert (story.lane.wins, len(story.lane.wishes)) == (1, 3)


def test_a_handler_that_is_stuck_frees_its_worker():
    story = Story(job("a", every=60, timeout=5), job("b", schedule_at=61), workers=1)
    a = story.win("a", slot=60)
    story.go(61)
    story.go(65.5)
    assert story.aborted() == [(a, "timeout")]
    story.settled()
    assert story.lane is None
    story.renewing_until_t(71)
    assert isinstance(story.lane, Claim)
    assert len(story.all(StartRun)) == 1
