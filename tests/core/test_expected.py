"""Slots that somebody should have finished: counted by each instance, told of by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from anarchon._core_expected import MOST_EXPECTED
from anarchon._messages import Alert, Claim, Finish, Overdue, Unfinished
from tests.core.harness import Story
from tests.core.words import closed, held, job, key, lease, won

if TYPE_CHECKING:
    from anarchon._values import RunKey


def told(story: Story) -> list[RunKey]:
    return [action.key for action in story.all(Overdue)]


def asked(story: Story) -> list[tuple[RunKey, ...]]:
    return [action.keys for action in story.all(Alert)]


def test_a_slot_that_is_finished_in_time_is_asked_about_by_nobody():
    story = Story(job(every=600, expect=30))
    story.go(600)
    story.until(Claim)
    story.claimed(won())
    story.go(605)
    story.returns(lease("sync", 600))
    story.until(Finish)
    story.settled()
    story.go(700)
    assert asked(story) == []


@pytest.mark.parametrize("status", ["success", "failed", "interrupted"])
def test_nor_is_one_that_another_instance_is_heard_to_have_finished(status):
    story = Story(job(every=600, expect=30))
    story.go(600)
    story.until(Claim)
    story.claimed(closed(status))
    story.go(700)
    assert asked(story) == []


@pytest.mark.parametrize("tells", [True, False])
def test_one_that_runs_for_too_long_is_asked_about_once_and_told_of_by_who_may(tells):
    story = Story(job(every=600, expect=30))
    story.win(slot=600, left=30)
    story.renewing_until(Alert)
    assert story.t == pytest.approx(630, abs=0.01)
    assert asked(story) == [(key("sync", 600),)]
    story.alerted(tells)
    story.renewing_until_t(1100)
    assert told(story) == [key("sync", 600)] * tells
    assert len(asked(story)) == 1


def test_who_runs_it_elsewhere_makes_no_difference():
    story = Story(job(every=600, expect=30))
    story.back_up(slot=600)
    while story.lane is None:
        if story.keeper is not None:
            story.looked(others=1)
        else:
            story.jump(story.wakeup())
    assert asked(story) == [(key("sync", 600),)]


@pytest.mark.parametrize(
    ("status", "detail", "count"),
    [
        ("missed", "no free worker", 1),
        ("lost", "runner died", 1),
        ("skipped", "overlap", 1),
        ("skipped", "paused", 0),
    ],
)
def test_what_was_closed_without_being_finished(status, detail, count):
    story = Story(job(every=600, expect=30))
    story.go(600)
    story.until(Claim)
    story.claimed(closed(status, detail=detail))
    story.go(629)
    assert asked(story) == []
    story.go(630.1) if not count else story.until(Alert)
    assert len(asked(story)) == count


def test_the_newest_of_a_job_counts_and_jobs_are_asked_about_together():
    story = Story(job("a", every=10, expect=15), job("b", every=600, expect=5))
    story.jump(600)
    while isinstance(story.lane, Claim):
        story.claimed(held())
    story.jump(640)
    seen = set()
    while story.lane is not None:
        if isinstance(story.lane, Alert):
            seen |= set(story.lane.keys)
            story.alerted(*[True] * len(story.lane.keys))
        else:
            story.claimed(held())
    assert key("b", 600) in seen
    assert {slot for name, slot, _ in seen if name == "a"} == {key("a", 600).slot_ms}


def test_an_answer_that_is_lost_is_asked_for_again_also_after_an_outage():
    story = Story(job(every=600, expect=30))
    story.go(600)
    story.until(Claim)
    story.claimed(closed("missed", "no free worker"))
    story.outage(Alert)
    story.fail(Alert)
    story.until(Alert)
    story.alerted(True)
    while isinstance(story.lane, Claim | Unfinished):
        story.nothing_open() if isinstance(story.lane, Unfinished) else story.claimed(
            closed("missed", "no free worker")
        )
    assert told(story) == [key("sync", 600)]
    story.go(1190)
    assert len(set(asked(story))) == 1


def test_a_run_that_ends_while_nobody_could_be_asked_is_asked_about_no_more():
    story = Story(job(every=600, expect=30))
    story.win(slot=600, left=1000)
    story.renewing_until(Alert)
    story.fail(Alert)
    story.until(Alert)
    story.fail(Alert)
    story.returns(lease("sync", 600))
    story.until(Finish | Alert)
    while isinstance(story.lane, Alert):
        story.fail(Alert)
        story.until(Finish | Alert)
    story.settled()
    before = len(asked(story))
    story.renewing_until_t(1190)
    assert len(asked(story)) - before <= 1  # one that was in flight, perhaps
    assert told(story) == []


def test_a_slot_that_comes_too_late_at_a_start_is_late_at_once():
    story = Story(job(every=600, expect=30, catch_up=600), start=False)
    story.jump(500)
    kinds = []
    for _ in range(5):
        if story.lane is None:
            break
        kinds.append(type(story.lane))
        if isinstance(story.lane, Unfinished):
            story.nothing_open()
        elif isinstance(story.lane, Alert):
            story.alerted(True)
        else:
            story.claimed(held())
    assert Alert in kinds
    assert told(story) == [key("sync", 0)]


def test_a_job_that_is_removed_or_replaced_is_waited_for_no_more():
    story = Story(job(every=600, expect=30), job("other", every=600, expect=30))
    story.go(600)
    story.until(Claim)
    story.claimed(closed("missed", "x"))
    story.core.remove("sync")
    story.core.add(job("other", every=600), story.now)
    story.tick()
    while story.lane is not None:
        story.nothing_open() if isinstance(story.lane, Unfinished) else story.claimed(held())
    story.renewing_until_t(700)
    assert asked(story) == []


def test_a_job_that_goes_while_it_is_asked_about_is_not_told_of():
    story = Story(job(every=600, expect=30))
    story.go(600)
    story.until(Claim)
    story.claimed(closed("missed", "x"))
    story.until(Alert)
    story.core.remove("sync")
    story.alerted(True)
    assert told(story) == []


def test_without_leases_there_is_nobody_to_ask():
    story = Story(job(every=600, expect=30), leases=False)
    story.go(600)
    story.until(Claim)
    story.claimed(closed("missed", "x"))
    story.go(700)
    assert asked(story) == []


def test_a_stop_waits_for_no_alert():
    story = Story(job(every=600, expect=30))
    story.go(600)
    story.until(Claim)
    story.claimed(closed("missed", "x"))
    story.go(629)
    story.stop()
    assert story.core.stopped
    assert asked(story) == []


def test_a_long_time_to_finish_in_costs_no_more():
    story = Story(job(every=1, expect=100_000))
    for slot in range(1, MOST_EXPECTED + 50):
        story.go(slot)
        story.until(Claim)
        story.claimed(closed("missed", "x"))
    expected = story.core._race.slots.expected
    assert len(expected._heap) == len(expected._open["sync"]) == MOST_EXPECTED
