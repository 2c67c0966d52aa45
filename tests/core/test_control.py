"""With `control` one look each period finds what the fleet is asked for; nothing else does."""

from __future__ import annotations

from itertools import pairwise

import pytest

from anarchon._messages import Claim, Look, Renew
from tests.core.harness import Story
from tests.core.stage import KEEPER, LANE
from tests.core.words import job, ordered, triggered, won

JOBS = (job("a", every=36_000), job("b", every=36_000))


def calls(story: Story) -> list[object]:
    return [action for _, action in story.log if isinstance(action, LANE | KEEPER)][1:]


def looking(story: Story, seconds: float) -> list[float]:
    """Let time pass; return when this instance has looked."""
    until, at = story.t + seconds, []
    while story.wakeup() <= until:
        story.jump(story.wakeup())
        if isinstance(story.keeper, Look):
            at.append(story.t)
            story.looked()
    return at


def test_an_idle_instance_looks_at_all_its_jobs_once_a_period_and_asks_nothing_else():
    story = Story(*JOBS, control=5)
    assert looking(story, 61) == pytest.approx([5.0 * n for n in range(1, 13)])
    assert calls(story) == [Look(("a", "b"))] * 12


def test_without_it_nothing_is_asked():
    story = Story(*JOBS)
    story.go(3600)
    assert calls(story) == []


@pytest.mark.parametrize(("jobs", "leases"), [((), True), (JOBS, False)])
def test_without_jobs_or_leases_there_is_nothing_to_look_for(jobs, leases):
    story = Story(*jobs, control=5, leases=leases)
    story.go(60)
    assert not story.all(Look)


def test_it_begins_with_the_first_job_and_ends_with_the_last():
    story = Story(control=5)
    story.go(7)
    story.core.add(JOBS[0], story.now)
    story.tick()
    story.nothing_open()
    assert looking(story, 6) == [12.0]
    story.core.remove("a")
    story.tick()
    story.go(60)
    assert len(story.all(Look)) == 1


def test_what_it_finds_is_claimed():
    story = Story(*JOBS, control=5)
    story.until(Look)
    run = triggered("b", at=4)
    story.looked(ordered(run))
    (wish,) = story.until(Claim, within=1).wishes
    assert wish.key == run


def test_none_is_sent_while_stopping():
    story = Story(job(every=36_000), control=5)
    run = triggered()
    story.until(Look)
    story.looked(ordered(run))
    story.until(Claim)
    story.claimed(won())
    story.stop(60)
    while (at := story.wakeup()) < 50:
        assert at != 10.0, "awake for a look that isn't sent"
        story.jump(at)
        if story.keeper is not None:
            assert isinstance(story.keeper, Renew)
            story.renewed()
    assert len(story.all(Look)) == 1


def test_a_renewal_in_flight_delays_it_and_makes_it_no_more():
    story = Story(job(every=36_000), control=4)
    story.ordered()
    story.open_runs(ordered(triggered()))
    story.until(Claim)
    story.claimed(won())
    at = []
    while story.t < 40:
        story.jump(story.wakeup())
        if isinstance(story.keeper, Look):
            at.append(story.t)
            story.looked()
        elif isinstance(story.keeper, Renew):
            story.jump(story.t + 1)
            story.renewed()
    waits = [b - a for a, b in pairwise(at)]
    assert 4 <= min(waits) <= max(waits) <= 5.001


def test_one_that_failed_is_sent_again_after_a_period():
    story = Story(*JOBS, control=5)
    story.until(Look)
    story.fail(Look)
    assert looking(story, 11) == pytest.approx([10, 15])


def test_in_an_outage_it_comes_no_more_often():
    story = Story(*JOBS, control=5)
    tries = []
    while story.t < 120:
        story.jump(story.wakeup())
        if story.keeper is not None:
            tries.append(story.t)
            story.fail(Look)
    assert story.down()
    assert min(b - a for a, b in pairwise(tries)) >= 5
    assert len(tries) > 10
    story.until(Look)
    story.looked()
    assert not story.down()


def test_watched_runs_are_looked_at_along():
    """It shows them as well, and takes nothing from the looks of each heartbeat."""
    story = Story(job("a", schedule_at=3), job("b", every=36_000), control=5)
    story.back_up("a", slot=3)
    while story.t < 103:
        story.jump(story.wakeup())
        if story.keeper is not None:
            story.looked(others=1)
    looks = [call.jobs for call in story.all(Look)]
    assert looks.count(("a", "b")) == pytest.approx(20, abs=1)
    assert looks.count(("a",)) == pytest.approx(10, abs=1)
