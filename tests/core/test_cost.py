"""What an input costs doesn't grow with the number of jobs, slots and runs that wait.

Counted in executed instructions, so that the machine doesn't matter: the same input is
given to a core with a few of them and to one with many.
"""

from __future__ import annotations

import sys

import pytest

from anarchon._messages import (
    Claim,
    Skip,
)
from tests.core.harness import Story
from tests.core.words import closed, early, free, handed_over, held, job, key, waiting, won

FEW, MANY = 40, 1000
GROWTH = 1.3  # heaps have a logarithm


class Counter:
    """Counts the instructions executed in its `with` block."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self):
        self._before = sys.gettrace()
        # From 3.12 on `settrace` asks for instructions only if some frame has asked before.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._trace)
        return self

    def __exit__(self, *exc):
        sys.settrace(self._before)

    def _trace(self, frame, event, arg):
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            self.count += 1
        return self._trace


def idle(count: int) -> Story:
    """Nothing is due."""
    return Story(*(job(f"j{n}", every=3600) for n in range(count)))


def saturated(count: int) -> Story:
    """All slots are pending, and the only worker is busy."""
    story = Story(*(job(f"j{n}", every=3600) for n in range(count)), workers=1)
    story.go(3600)
    story.until(Claim)
    story.claimed(won(left=36000), *[free()] * (len(story.lane.wishes) - 1))
    return story


def unreachable(count: int) -> Story:
    """Two slots of each job have passed, and the store gives no answer."""
    story = Story(*(job(f"j{n}", every=60) for n in range(count)))
    story.go(60)
    story.until(Claim)
    while story.t < 185:
        if story.lane is not None:
            story.fail()
        story.jump(min(story.wakeup(), 185))
    return story


def too_early(count: int) -> Story:
    """The store found every slot early."""
    story = Story(*(job(f"j{n}", every=3600) for n in range(count)))
    story.go(3600)
    while len(story.core._race.slots.waiting):
        story.until(Claim)
        story.claimed(early(50))
    return story


def too_late(count: int) -> Story:
    """Every slot was found too late, and is missed when the next one is due."""
    story = Story(*(job(f"j{n}", every=600) for n in range(count)))
    story.jump(650)
    return story


def suspended(count: int) -> Story:
    """No schedule works."""

    class Broken:
        def next_after_ms(self, t_ms):
            raise ValueError("bad")

        latest_ms = next_after_ms

    return Story(*(job(f"j{n}", schedule=Broken()) for n in range(count)))


SCENES = [idle, saturated, unreachable, too_early, too_late, suspended]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_tick_and_the_next_wake_up(scene):
    costs = []
    for count in (FEW, MANY):
        story = scene(count)
        with Counter() as counter:
            story.tick()
        costs.append(counter.count)
    assert costs[1] <= GROWTH * costs[0], costs


def test_the_end_of_a_run_and_the_claim_that_follows():
    costs = []
    for count in (FEW, MANY):
        story = saturated(count)
        with Counter() as counter:
            story.returns(story.started()[0])
            story.settled()
        assert isinstance(story.lane, Claim)
        costs.append(counter.count / len(story.lane.wishes))
    assert costs[1] <= GROWTH * costs[0], costs


def test_a_job_that_is_added():
    costs = []
    for count in (FEW, MANY):
        story = saturated(count)
        with Counter() as counter:
            story.core.add(job("new", every=3600), story.now)
            story.tick()
        costs.append(counter.count)
    assert costs[1] <= GROWTH * costs[0], costs


def test_a_job_that_is_removed():
    costs = []
    for count in (FEW, MANY):
        story = saturated(count)
        with Counter() as counter:
            story.core.remove("j7")
            story.tick()
        costs.append(counter.count)
    assert costs[1] <= GROWTH * costs[0], costs


def test_slots_that_are_closed_as_missed():
    costs = []
    for count in (600, 1200):
        story = too_late(count)
        story.jump(1200)
        call = story.until(Skip)
        assert len(call.wishes) == 512
        with Counter() as counter:
            story.claimed(closed("missed"))
        costs.append(counter.count)
    assert costs[1] <= 2 * costs[0], costs


def test_an_answer_about_a_job_when_many_runs_are_watched():
    costs = []
    for count in (FEW, 400):
        story = Story(*(job(f"j{n}", every=3600) for n in range(count)), job("x", schedule_at=3601))
        story.go(3600)
        while "x" not in str(story.lane):
            if story.lane is None:
                story.jump(story.wakeup())
            else:
                story.claimed(held(left=300, lease=300))
        with Counter() as counter:
            story.claimed(waiting(), also=(handed_over(key("x", 0)),))
        costs.append(counter.count)
    # Which watched run may be claimed next is looked up among them all, in a line of code.
    assert costs[1] - costs[0] <= 60 * (400 - FEW), costs
