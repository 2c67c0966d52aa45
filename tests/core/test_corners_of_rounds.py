"""Small changes of rounds and of the line of slots that would go unnoticed."""

from __future__ import annotations

import pytest

from anarchon._core_line import Line
from anarchon._core_slots import JobSlots, Pending
from anarchon._messages import Claim
from tests.core.harness import Story
from tests.core.words import (
    closed,
    free,
    held,
    job,
    key,
    lease,
    won,
)

# --- rounds and the line ----------------------------------------------------------


def test_a_plan_without_a_slot_is_dropped():
    """What falls due next is a tick with a delay of its own."""
    story = Story(job("a", schedule_at=60), job("b", schedule_at=70))
    story.go(60)
    story.core.remove("a")
    story.tick()
    story.go(70)
    story.until(Claim)
    assert story.t == pytest.approx(70.01)


def test_a_worker_that_becomes_free_for_nothing_does_not_hurry_the_next_tick():
    story = Story(job("a", schedule_at=10), job("b", schedule_at=10), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.core.remove("b")
    story.tick()
    story.returns(lease("a", 10))
    story.settled()
    story.core.add(job("c", schedule_at=70), story.now)
    story.tick()
    story.nothing_open()
    story.go(70)
    story.until(Claim)
    assert story.t == pytest.approx(70.01)


def test_a_wake_up_as_late_as_the_window_is_wide_draws_from_now_on():
    story = Story(job(every=60))
    story.see_fleet(5)
    story.jump(60.1)
    story.until(Claim)
    assert story.t == pytest.approx(60.15)


def test_a_larger_offer_is_sent_in_the_same_round_at_once():
    story = Story(*(job(f"j{n:03}", every=60) for n in range(300)), workers=500)
    story.go(60)
    at = story.until(Claim) and story.t
    story.chance.share = 0.9
    story.claimed(held())
    assert isinstance(story.lane, Claim)
    assert story.t == at


def test_a_tick_of_its_own_begins_with_a_small_offer():
    story = Story(
        *(job(f"j{n:03}", every=600) for n in range(300)),
        *(job(f"k{n:03}", schedule_at=600.5) for n in range(200)),
        workers=500,
    )
    story.go(600)
    story.until(Claim)
    story.claimed(closed())
    assert len(story.lane.wishes) == 172
    story.jump(600.5)
    story.claimed(closed())
    assert len(story.until(Claim).wishes) == 128


def line_of(count: int, early: int = 0) -> tuple[Line, list[JobSlots]]:
    """Return a line with so many jobs in it, due again in another order."""
    line, jobs = Line(), []
    for number in range(count):
        entry = JobSlots(job(f"j{number}"), 0.5)
        entry.next_ms = number * 7919 % 1009
        entry.pending = Pending(key(entry.spec.name, 10), "scheduled")
        line.enter(entry, entry.pending)
        jobs.append(entry)
    for entry in jobs[:early]:
        line.stand_aside(entry, entry.pending, 99.0)
    return line, jobs


@pytest.mark.parametrize("early", [0, 5])
def test_a_line_keeps_at_most_so_many_entries_that_are_out_of_date(early):
    line, jobs = line_of(10, early)
    sizes = []
    for _ in range(200):
        jobs[9].pending = Pending(key("j9", 10), "scheduled")
        line.enter(jobs[9], jobs[9].pending)
        sizes.append(len(line._order))
    most = 2 * (10 - early) + early + 64
    assert sizes[: most - 10] == list(range(11, most + 1))
    assert sizes[most - 10 : most - 8] == [10, 11]
    assert max(sizes) == most


def test_a_line_is_in_order_after_the_old_entries_are_thrown_out():
    line, jobs = line_of(400)
    for entry in jobs[::3]:
        line.leave(entry)
        entry.pending = None
    for number in range(800):
        entry = jobs[1 + 3 * (number % 100)]
        entry.pending = Pending(key(entry.spec.name, 10), "scheduled")
        line.enter(entry, entry.pending)
    chosen = [entry.next_ms for entry, _ in line.first(1000, lambda _: True)]
    assert chosen == sorted(chosen)
    assert len(chosen) == 400 - len(jobs[::3])
    again = [entry.next_ms for entry, _ in line.first(1000, lambda _: True)]
    assert again == chosen
