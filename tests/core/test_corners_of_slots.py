"""Small changes of slots, of what is missed and of the calls that would go unnoticed."""

from __future__ import annotations

import pytest

from anarchon._core_missed import UNREACHABLE
from anarchon._core_slots import Slots
from anarchon._messages import Claim, Now, RecordManual, Skip
from tests.core.harness import Story
from tests.core.stage import Chance
from tests.core.words import Once, closed, free, job, key, lease, ms, won


def at(seconds: float) -> Now:
    return Now(ms(seconds), 4096 + seconds)


def slots_of(*jobs, wall: float = 0, recover: bool = False) -> Slots:
    slots = Slots(Chance(), late_ms=10_000, recover=recover)
    for spec in jobs:
        slots.add(spec, at(wall))
    return slots


def ready(slots: Slots) -> list[tuple[int, int, str]]:
    """Return slot, next slot and reason of what may be closed as missed, in seconds."""
    zero = ms(0)
    return [
        ((w.key.slot_ms - zero) // 1000, (w.next_ms - zero) // 1000, w.detail)
        for w in (*slots.missed.ready(99), *slots.missed.seeking(99))
    ]


# --- stop -----------------------------------------------------------------------


def test_a_stop_keeps_no_slot():
    story = Story(job("a", schedule_at=10), job("b"), job("c", schedule_at=500), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.renewing_until_t(25)
    slots = story.core._race.slots
    assert slots.waiting
    assert slots.upcoming
    story.stop()
    kept = [slots.jobs, slots.waiting, slots.upcoming, slots.line._order, slots.line._early]
    assert not any(kept)
    assert not slots.missed.ready(9)


# --- what is due ------------------------------------------------------------------


def test_a_slot_that_found_no_worker_is_gone_when_the_process_sleeps_for_long():
    story = Story(job("a", schedule_at=60), job("b", every=60), workers=1)
    story.go(60)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.jump(175)
    assert story.core._race.slots.jobs["b"].pending is None
    assert not story.core._race.slots.waiting


@pytest.mark.parametrize(("catch_up", "caught"), [(50, False), (50.001, True)])
def test_a_slot_found_as_late_as_its_catch_up_is_too_late(catch_up, caught):
    slots = slots_of(job(every=600, catch_up=catch_up), recover=True)
    slots.collect(at(0), "why")
    slots.settle(key("sync", 0))
    slots.collect(at(650), "why")
    assert (slots.jobs["sync"].pending is not None) == caught


def test_a_schedule_whose_latest_slot_stands_still_runs_what_was_due():
    class Stuck(Once):
        def latest_ms(self, t_ms: int) -> int:
            return ms(10)

    slots = slots_of(job(schedule=Stuck(10, 20, 30, 40)))
    slots.collect(at(15), "why")
    slots.settle(key("sync", 10))
    slots.collect(at(35), "why")
    assert ready(slots) == []
    assert slots.jobs["sync"].next_ms == ms(40)


def test_a_slot_due_right_now_stays_when_the_clock_steps_back_to_it():
    slots = slots_of(job())
    slots.collect(at(12), "why")
    slots.collect(at(10), "why")
    assert slots.jobs["sync"].pending.key == key("sync", 10)
    slots.collect(at(8.9), "why")
    assert slots.jobs["sync"].pending is None


# --- outages and steps --------------------------------------------------------------


def outage_record(slots: Slots) -> None:
    """Keep a record of the slots 20 to 50, of an outage."""
    slots.missed.add("sync", ms(20), ms(50), ms(60), UNREACHABLE)


def test_the_record_of_an_outage_ends_before_the_slot_that_is_pending_after_a_step_back():
    slots = slots_of(job(), wall=49)
    slots.collect(at(55), "why")
    outage_record(slots)
    slots._recover = True
    slots.jobs["sync"].spec = job(catch_up=100)
    slots.collect(at(45), "why")
    assert slots.jobs["sync"].pending.key == key("sync", 40)
    slots.collect(at(60), "why")
    assert (30, 40, f"{UNREACHABLE}; slots since 2027-01-15T08:00:20.000Z") in ready(slots)


def test_the_record_of_an_outage_ends_before_the_next_slot_after_a_step_back():
    slots = slots_of(job(), wall=49)
    slots.collect(at(55), "why")
    slots.settle(key("sync", 50))
    outage_record(slots)
    slots.collect(at(45), "why")
    slots.collect(at(50), "why")
    assert ready(slots) == [(40, 50, f"{UNREACHABLE}; slots since 2027-01-15T08:00:20.000Z")]


def test_the_record_of_an_outage_ends_now_when_there_is_no_next_slot():
    slots = slots_of(job(schedule=Once(20, 30)))
    slots.collect(at(55), "why")
    slots.settle(key("sync", 30))
    outage_record(slots)
    slots.collect(at(45), "why")
    assert ready(slots)[-1] == (30, 45, f"{UNREACHABLE}; slots since 2027-01-15T08:00:20.000Z")


def test_the_record_of_an_outage_that_lies_ahead_as_a_whole_is_gone():
    slots = slots_of(job(), wall=49)
    slots.collect(at(55), "why")
    slots.settle(key("sync", 50))
    outage_record(slots)
    slots.collect(at(15), "why")
    slots.collect(at(20), "why")
    assert ready(slots) == []


def test_a_schedule_that_fails_meanwhile_drops_the_record():
    class Moody(Once):
        mood = None

        def latest_ms(self, t_ms: int) -> int | None:
            if self.mood is not None:
                raise self.mood
            return super().latest_ms(t_ms)

    slots = slots_of(job(schedule=(moody := Moody(20, 30, 40, 50, 60))))
    slots.collect(at(55), "why")
    slots.settle(key("sync", 50))
    outage_record(slots)
    moody.mood = ValueError("bad")
    slots.schedules._latest.clear()  # what it said before is forgotten
    slots.collect(at(45), "why")
    slots.collect(at(50), "why")
    assert ready(slots) == []


# --- the heap of next slots -----------------------------------------------------------


def test_the_heap_of_next_slots_keeps_at_most_so_many_that_are_out_of_date():
    slots = slots_of(*(job(f"j{n}", every=600 + 60 * n) for n in range(10)))
    sizes = []
    for _ in range(200):
        slots.add(job("j9", every=600 + 60 * 9), at(0))
        sizes.append(len(slots.upcoming))
    most = 2 * 10 + 64
    assert sizes[: most - 10] == list(range(11, most + 1))
    assert sizes[most - 10 : most - 8] == [10, 11]
    assert max(sizes) == most


def test_the_heap_of_next_slots_is_in_order_after_the_old_ones_are_thrown_out():
    periods = [n * 7919 % 1009 + 1 for n in range(100)]
    slots = slots_of(*(job(f"j{n}", every=period) for n, period in enumerate(periods)))
    for n in range(0, 100, 3):
        slots.remove(f"j{n}")
    for n in range(1, 100, 3):
        for _ in range(8):
            slots.add(job(f"j{n}", every=periods[n]), at(0))
    due = []
    while (wakeup := next(iter(slots.wakeups(at(0))), None)) is not None:
        due.append(wakeup)
        found = [j for j in slots.jobs.values() if j.next_ms == ms(wakeup - 4096)]
        for entry in found:
            slots.remove(entry.spec.name)
    assert due == sorted(due)
    assert not slots.jobs


# --- calls ------------------------------------------------------------------------------


def test_a_manual_run_comes_before_the_question_for_open_runs():
    story = Story(start=False)
    story.core.add(job(every=600), story.now)
    story.run_now()
    assert isinstance(story.lane, RecordManual)


def test_manual_runs_and_other_calls_take_turns():
    story = Story(*(job(f"j{n}") for n in range(1600)), workers=1)
    story.jump(25)
    assert isinstance(story.lane, Skip)
    for number in range(3):
        story.run_now("j0", token=f"m{number}")
    order = []
    for _ in range(6):
        order.append(type(story.lane).__name__)
        if isinstance(story.lane, Skip):
            story.claimed(closed("missed"))
        elif isinstance(story.lane, RecordManual):
            story.settled()
            story.run_now("j0", token=f"n{len(order)}")
        else:
            break
    assert order[:5] == ["Skip", "RecordManual", "Skip", "RecordManual", "Skip"]


def test_a_one_off_that_is_won_late_is_run():
    story = Story(job(schedule_at=10))
    story.go(10)
    story.until(Claim)
    story.jump(20)
    story.claimed(won())
    assert story.started() == [lease("sync", 10)]
