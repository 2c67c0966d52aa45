"""Which slots are due, caught up, missed, and what a broken schedule does."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Claim,
    Skip,
)
from tests.core.harness import Story, claimed_slots
from tests.core.words import (
    ME,
    Once,
    closed,
    early,
    free,
    held,
    job,
    key,
    lease,
    ms,
    won,
)

# --- due ----------------------------------------------------------------------


def test_nothing_is_claimed_before_its_slot():
    story = Story(job())
    story.go(9.999)
    assert story.wakeup() == pytest.approx(10)
    assert not story.all(Claim)
    story.go(10)
    assert story.wakeup() == pytest.approx(10.01)


def test_slots_are_the_schedules_whenever_the_instance_started():
    story = Story(start=False)
    story.jump(3.7)
    story.core.add(job(every=5), story.now)
    story.tick()
    story.nothing_open()
    for slot in (5, 10, 15):
        story.go(slot)
        story.until(Claim)
        assert claimed_slots(story) == [("sync", slot, "scheduled")]
        story.claimed(closed())


def test_no_jobs_no_wake_up():
    assert Story().wakeup() == float("inf")


def test_a_one_off_is_claimed_once():
    story = Story(job(schedule_at=10))
    story.win(slot=10)
    story.returns(lease("sync", 10))
    story.settled()
    assert story.wakeup() == float("inf")


@pytest.mark.parametrize(("late", "reason"), [(10, "scheduled"), (10.001, "catch-up")])
def test_a_slot_found_more_than_a_heartbeat_late_is_a_catch_up(late, reason):
    story = Story(job(every=60, catch_up=3600), start=False)
    story.until(Claim) if story.tick() == [] else story.nothing_open()
    story.until(Claim)
    story.claimed(closed())
    story.jump(60 + late)
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 60, reason)]


# --- catch-up -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "window", "caught"),
    [(0, 10, True), (9.999, 10, True), (10, 10, False), (0, 0, False), (59, 3600, True)],
)
def test_the_latest_slot_is_caught_up_inside_the_window(age, window, caught):
    story = Story(start=False)
    story.mono += age
    story.core.add(job(every=60, catch_up=window), story.now)
    story.tick()
    story.nothing_open()
    if caught:
        story.until(Claim)
        assert claimed_slots(story) == [("sync", 0, "catch-up")]
    else:
        assert story.wakeup() == pytest.approx(60)


def test_only_the_latest_slot_is_caught_up():
    story = Story(job(every=1, catch_up=3600))
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 0, "catch-up")]
    story.claimed(closed())
    story.go(1)
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 1, "scheduled")]


def test_a_job_added_later_is_caught_up_and_asked_for():
    story = Story()
    story.go(7)
    story.core.add(job(catch_up=3600), story.now)
    story.tick()
    assert story.lane.jobs == ("sync",)
    story.nothing_open()
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 0, "catch-up")]


def test_a_one_off_that_passed_is_caught_up():
    story = Story(start=False)
    story.jump(100)
    story.core.add(job(schedule_at=50, catch_up=60), story.now)
    story.tick()
    story.nothing_open()
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 50, "catch-up")]


def test_a_one_off_that_passed_too_long_ago_is_nothing():
    story = Story(start=False)
    story.jump(200)
    story.core.add(job(schedule_at=50, catch_up=60), story.now)
    story.tick()
    story.nothing_open()
    assert story.wakeup() == float("inf")


# --- many passed --------------------------------------------------------------


def test_after_a_long_sleep_only_the_latest_slot_is_claimed_and_one_record_covers_the_rest():
    story = Story(job(catch_up=3600))
    story.until(Claim)
    story.claimed(closed())
    story.jump(1005)
    skip = story.until(Skip)
    (wish,) = skip.wishes
    assert (wish.key, wish.next_ms) == (key("sync", 990), ms(1000))
    assert wish.detail == "not claimed in time; slots since 2027-01-15T08:00:10.000Z"
    story.claimed(closed("missed", by=ME))
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 1000, "scheduled")]


def test_when_even_the_latest_is_too_old_it_is_missed_as_well():
    story = Story(job(every=60))
    story.jump(175)
    (wish,) = story.until(Skip).wishes
    assert (wish.key, wish.next_ms) == (key("sync", 60), ms(120))
    story.claimed(closed("missed", by=ME))
    story.go(179)
    assert not story.all(Claim)
    story.go(180)
    (wish,) = story.until(Skip).wishes
    assert (wish.key, wish.next_ms, wish.detail) == (key("sync", 120), ms(180), "too late")


def test_a_one_off_found_too_late_is_nothing():
    story = Story(job(schedule_at=60))
    story.jump(175)
    assert story.wakeup() == float("inf")


def test_a_sleep_costs_the_same_however_many_slots_it_skipped():
    class Counting(Once):
        asked = 0

        def next_after_ms(self, t_ms):
            Counting.asked += 1
            return (t_ms // 100 + 1) * 100

        def latest_ms(self, t_ms):
            Counting.asked += 1
            return t_ms // 100 * 100

    story = Story(job(schedule=Counting(), catch_up=3600))
    story.until(Claim)
    story.claimed(closed())
    Counting.asked = 0
    story.jump(1_000_000)
    assert Counting.asked <= 5


# --- superseded ---------------------------------------------------------------


def test_a_slot_that_found_no_worker_is_missed_when_the_next_is_due():
    story = Story(job("a", schedule_at=10), job("b"), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.renewing_until_t(19.9)
    assert not story.all(Skip)
    story.renewing_until_t(20)
    (wish,) = story.until(Skip).wishes
    assert (wish.key, wish.next_ms, wish.detail) == (key("b", 10), ms(20), "no free worker")


def test_a_claim_in_flight_when_the_next_slot_falls_due_decides_the_old_one():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.jump(20)
    assert story.lane.wishes[0].key == key("sync", 10)
    story.claimed(won(left=60))
    assert story.started() == [lease("sync", 10)]
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 20, "scheduled")]
    assert not story.all(Skip)


@pytest.mark.parametrize(
    ("answer", "why"), [(free(), "not claimed in time"), (early(5), "not claimed in time")]
)
def test_a_claim_in_flight_that_wins_nothing_leaves_a_missed_slot(answer, why):
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.jump(20)
    story.claimed(answer)
    (wish,) = story.until(Skip).wishes
    assert (wish.key, wish.next_ms, wish.detail) == (key("sync", 10), ms(20), why)


@pytest.mark.parametrize("answer", [held(), closed()])
def test_a_claim_in_flight_that_somebody_else_has_leaves_nothing(answer):
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.jump(20)
    story.claimed(answer)
    story.until(Claim)
    assert not story.all(Skip)
    assert story.notes() == []  # it was no longer waited for


def test_a_claim_in_flight_for_a_removed_job_leaves_nothing():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.core.remove("sync")
    story.claimed(free())
    assert story.wakeup() == float("inf")


def test_a_one_off_whose_claim_wins_nothing_stays():
    story = Story(job(schedule_at=10))
    story.go(10)
    story.until(Claim)
    story.jump(50)
    story.claimed(early(1))
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 10, "scheduled")]
    assert not story.all(Skip)


def test_many_missed_slots_are_closed_in_parts():
    names = [f"j{n:03}" for n in range(600)]
    story = Story(*(job(name) for name in names), workers=1)
    story.jump(35)
    sizes = []
    while isinstance(story.lane, Skip):
        sizes.append(len(story.lane.wishes))
        story.claimed(closed("missed", by=ME))
    assert sizes == [512, 88]


def test_a_claim_in_flight_of_a_schedule_that_ended_leaves_nothing():
    story = Story(job(schedule=Once(10)))
    story.go(10)
    story.until(Claim)
    story.core.add(job(schedule=Once(5)), story.now)
    story.claimed(free())
    story.nothing_open()
    assert story.wakeup() == float("inf")


def test_heaps_keep_little_that_is_out_of_date():
    slots = (story := Story(job(every=600), job("sooner", every=60))).core._race.slots
    for _ in range(500):
        story.core.add(job(every=600), story.now)
        story.step_wall(-0.1)
    assert len(slots.upcoming) <= 2 * len(slots.jobs) + 65
    story = Story(*(job(f"j{n}", every=1) for n in range(3)), workers=1)
    slots = story.core._race.slots
    story.go(1)
    story.until(Claim)
    for second in range(2, 300):  # nobody answers: every slot is superseded by the next
        story.jump(second)
    assert len(slots.line._order) <= 2 * len(slots.waiting) + 65
    story.claimed(free())
    while isinstance(story.lane, Skip):
        story.claimed(closed("missed"))
    assert len(story.until(Claim).wishes) == 3
