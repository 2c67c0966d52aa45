"""On a store without leases: one winner per slot and a history, and nothing else is asked."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Claim,
    Finish,
    Look,
    RecordManual,
    Release,
    Renew,
    Skip,
    Unfinished,
)
from anarchon._values import (
    Claims,
)
from tests.core.harness import Story, claimed_slots
from tests.core.stage import KEEPER, LANE
from tests.core.words import closed, free, handed_over, held, job, key, lease, running, won

LEASED = Look | Release | Renew | Unfinished


def story_without_leases(*jobs, **how) -> Story:
    return Story(*(jobs or (job(),)), leases=False, **how)


def asked(story: Story) -> set[str]:
    return {type(a).__name__ for _, a in story.log if isinstance(a, LANE | KEEPER)}


def test_nothing_is_asked_at_start_and_nothing_caught_up():
    story = story_without_leases(job(every=60, catch_up=3600))
    story.go(59)
    assert asked(story) == set()
    story.go(60)
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 60, "scheduled")]


def test_a_run_is_claimed_and_finished_and_never_renewed():
    story = story_without_leases(job(every=600))
    run = story.win(slot=600)
    story.go(1199)
    story.returns(run)
    story.settled()
    assert asked(story) == {"Claim", "Finish"}
    assert [seen.event for seen in story.events()] == ["success"]


def test_a_run_is_never_fenced():
    story = story_without_leases(job(every=6000))
    story.win(slot=6000, left=0)
    story.go(11_000)
    assert story.aborted() == []


@pytest.mark.parametrize("answer", [held(), closed()])
def test_what_somebody_else_has_is_not_watched(answer):
    story = story_without_leases(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(answer, also=(handed_over(key("sync", 0)), running(key("sync", 1))))
    story.go(1199)
    assert asked(story) == {"Claim"}
    assert story.notes() == [("taken", "sync", "")]


def test_an_interrupted_run_is_just_recorded_so():
    story = story_without_leases()
    run = story.win()
    story.stop()
    story.obeys(run)
    (result,) = story.lane.results
    assert isinstance(story.lane, Finish)
    assert (result.status, result.detail) == ("interrupted", "not handed over")
    story.settled()
    assert story.is_stopped()


def test_a_win_after_stop_is_recorded_as_interrupted():
    story = story_without_leases()
    story.go(10)
    story.until(Claim)
    story.stop()
    story.claimed(won())
    assert isinstance(story.lane, Finish)
    assert story.lane.results[0].status == "interrupted"


def test_a_result_that_was_decided_otherwise_asks_for_no_open_runs():
    story = story_without_leases(job(every=600))
    run = story.win(slot=600)
    story.returns(run)
    story.lost()
    assert [seen.event for seen in story.events()] == ["lost"]
    story.go(1199)
    assert asked(story) == {"Claim", "Finish"}


def test_after_an_outage_nothing_is_asked_and_nothing_caught_up():
    story = story_without_leases(job(every=600, catch_up=3600))
    story.go(600)
    story.until(Claim)
    story.fail()
    story.fail()
    story.until(Claim)
    story.claimed(closed())
    assert not story.down()
    story.go(1199)
    assert asked(story) == {"Claim"}


def test_a_saturated_instance_does_not_look():
    story = story_without_leases(job("a", schedule_at=10), job("b", schedule_at=10), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(), b=free())
    story.go(500)
    assert asked(story) == {"Claim"}
    story.returns(lease("a", 10))
    story.settled()
    assert story.lane.wishes[0].key == key("b", 10)


def test_a_slot_found_too_late_is_missed():
    story = story_without_leases(job(every=60, catch_up=3600))
    story.jump(75)
    story.go(120)
    (wish,) = story.until(Skip).wishes
    assert (wish.key, wish.detail) == (key("sync", 60), "too late")
    story.answer(Skip, Claims((closed("missed")(wish),), (), (), story.now.wall_ms))


def test_manual_runs_are_written_down_and_never_renewed():
    story = story_without_leases(job(every=600))
    run = story.run_now()
    assert isinstance(story.lane, RecordManual)
    story.settled()
    story.go(300)
    story.stop()
    story.obeys(run)
    story.settled()
    assert asked(story) == {"RecordManual", "Finish"}


def test_a_job_added_or_replaced_later_asks_nothing():
    story = story_without_leases(job(every=600))
    story.core.add(job(every=600, catch_up=3600), story.now)
    story.core.add(job("other", every=600), story.now)
    story.tick()
    story.go(599)
    assert asked(story) == set()
