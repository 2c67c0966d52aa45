"""Corners of the core that no story of its own leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from anarchon._core import Core
from anarchon._core_held import HeldRuns
from anarchon._core_watches import Watches
from anarchon._messages import (
    Claim,
    Emit,
    Look,
    Release,
    Renew,
    Skip,
    Unfinished,
)
from anarchon._runs import Run
from anarchon._values import (
    Recorded,
    instant,
)
from tests.core.harness import Story
from tests.core.stage import Chance
from tests.core.words import (
    ME,
    closed,
    free,
    handed_over,
    held,
    job,
    key,
    lease,
    running,
    suspect,
    waiting,
    won,
)

if TYPE_CHECKING:
    from anarchon._values import Lease


def test_a_core_may_be_asked_for_its_wake_up_before_anything_else():
    story = Story(start=False)
    assert story.core.next_wakeup(story.now) is None
    story.core.add(job(), story.now)
    assert Core(story.settings, Chance()).view() == (0, 10, 0)


def test_stopping_and_stopped():
    story = Story(job(every=600))
    run = story.win(slot=600)
    assert not story.core.stopping
    story.stop()
    assert story.core.stopping
    assert not story.core.stopped
    story.obeys(run)
    story.settled()
    assert story.core.stopped


def test_a_job_that_is_gone_before_its_open_runs_were_asked_for():
    story = Story(start=False)
    story.core.add(job("a", every=600), story.now)
    story.core.add(job("b", every=600), story.now)
    story.core.remove("a")
    story.tick()
    assert story.lane == Unfinished(("b",))


def test_a_stop_before_open_runs_were_asked_for_asks_for_nothing():
    story = Story(start=False)
    story.core.add(job(), story.now)
    story.stop()
    assert story.lane is None
    assert story.is_stopped()


def test_a_job_added_while_stopping_is_not_scheduled():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop()
    story.core.add(job("late", every=60, catch_up=3600), story.now)
    story.tick()
    story.renewing_until_t(625)
    assert not story.all(Unfinished)[1:]
    assert len(story.all(Claim)) == 1
    story.obeys(run)


def test_after_an_outage_what_runs_here_is_not_missed_at_its_next_slot():
    story = Story(job(every=100, catch_up=3600))
    story.until(Claim)
    story.claimed(won())
    story.until_keeper_or(20)
    story.fail_renewals_until(11)
    story.until_keeper_or(20)
    story.renewed()
    story.nothing_open()
    story.renewing_until_t(100)
    story.until(Claim)
    assert not story.all(Skip)


def test_a_repeat_is_exact_while_the_slot_is_pending_and_wins_nothing_when_a_job_is_gone():
    story = Story(job("a", every=60), job("b", every=60))
    story.go(60)
    claim = story.until(Claim)
    story.fail()
    assert story.lane == claim
    story.core.remove("a")
    story.fail()
    assert story.until(Claim) == claim._replace(wins=0)


def test_a_win_of_a_job_that_is_gone_leaves_its_fence_alone():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.core.remove("sync")
    story.claimed(won(fence=5))
    assert isinstance(story.lane, Release)
    story.settled()
    assert story.lane is None
    assert story.keeper is None


def test_a_suspect_for_a_slot_that_is_gone_is_still_watched():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.jump(20)
    dead = running(key("sync", 0), attempt=3, left=-40)
    story.claimed(suspect(dead), agrees=False)
    (wish,) = story.until(Skip).wishes
    assert (wish.key, wish.detail) == (key("sync", 10), "blocked by a dead run")
    assert dead.key in story.core._race.watches


def test_a_skip_of_a_job_that_is_gone_is_told_of():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.core.remove("sync")
    story.claimed(closed("skipped", by=ME, detail="paused"))
    assert [seen.event for seen in story.events()] == ["skipped"]


@pytest.mark.parametrize(("others", "forgotten"), [(9, True), (10, False)])
def test_only_a_reply_that_can_name_all_open_runs_ends_the_watching(others, forgotten):
    """A reply names at most ten others, so that one with ten may leave some out."""
    story = Story(job(every=600, overlap="allow"))
    story.go(600)
    story.until(Claim)
    old = running(key("sync", -600), left=300, lease=300)
    story.claimed(closed(), also=(old,))
    story.renewing_until_t(1199)
    story.go(1200)
    story.until(Claim)
    named = tuple(running(key("sync", -10 * n), left=300, lease=300) for n in range(others))
    story.claimed(held(left=300, lease=300), also=named)
    assert (old.key not in story.core._race.watches) == forgotten


def test_a_slot_is_claimed_again_after_the_dead_run_was_taken_over_elsewhere():
    """Its takeover is refused, since it lives again: the slot's own claim says what now."""
    story = Story(job(every=60))
    story.go(60)
    story.until(Claim)
    dead = running(key("sync", 0), attempt=3, beat=5, left=-40)
    story.claimed(suspect(dead))
    story.until(Claim)
    story.claimed(held(attempt=3, beat=6, left=29))
    (wish,) = story.until(Claim, within=0.2).wishes
    assert wish.key == key("sync", 60)


def test_a_takeover_without_an_overlap_does_not_unblock_another_slot():
    story = Story(job("a", every=60), job("b", every=60))
    story.go(60)
    story.until(Claim)
    dead = running(key("a", 0), attempt=3, left=-40)
    story.claimed_by_job(a=suspect(dead), b=waiting())
    call = story.until(Claim)
    assert {wish.key for wish in call.wishes} == {dead.key, key("b", 60)}
    story.claimed_by_job(a=closed("failed", by=ME, attempt=3), b=won())
    (wish,) = story.until(Claim).wishes
    assert wish.key == key("a", 60)


def test_the_checkpoint_of_the_last_attempt_is_passed_on():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(lambda wish: won()(wish)._replace(checkpoint='{"at": 3}'))
    assert story.core._held.get(lease("sync", 10)).checkpoint == '{"at": 3}'
    assert [a.checkpoint for _, a in story.log if hasattr(a, "checkpoint")] == ['{"at": 3}']


def test_a_finish_that_became_a_failure_carries_the_stores_words():
    """A counted hand-over that used the budget up."""
    story = Story(job(every=600, budget=1))
    run = story.win(slot=600)
    story.fail_renewals_until(630)
    story.obeys(run)
    story.settled(Recorded(run, "failed", "runner died 1 time"))
    (failure,) = [a.run for a in story.all(Emit) if a.event == "failure"]
    assert (failure.detail, failure.error) == ("runner died 1 time", "runner died 1 time")


def test_the_wishes_of_a_takeover_carry_what_was_seen():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(won(fence=42))
    story.returns(lease("sync", 600))
    story.settled()
    story.go(1200)
    story.until(Claim)
    story.claimed(held(attempt=2, beat=7))
    seen = story.mono
    call = story.looking_until_claim(running(key("sync", 1200), attempt=2, beat=7))
    (wish,) = call.wishes
    assert (wish.wants, wish.beat, wish.fence_seen) == (3, 7, 42)
    assert wish.first_seen == seen
    assert wish.terms == job(every=600).terms


def test_looks_go_on_while_one_of_two_runs_is_left():
    story = Story(job("a", every=600), job("b", every=600))
    story.go(600)
    story.until(Claim)
    story.claimed_by_job(a=held(), b=held())
    story.until(Look)
    story.looked(handed_over(key("a", 600)), others=2)
    story.until(Claim)
    story.claimed(closed())
    assert story.until(Look).jobs == ("b",)


def test_free_keeps_a_slot_until_a_worker_is_there():
    story = Story(job("a", schedule_at=10), job("b", schedule_at=10), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.renewing_until_t(500)
    story.returns(lease("a", 10))
    story.settled()
    assert [wish.key for wish in story.lane.wishes] == [key("b", 10)]


def test_sizes():
    story = Story(job())
    story.win()
    assert len(story.core._held) == 1
    assert len(HeldRuns(story.settings)) == 0
    assert len(Watches(story.settings, Chance())) == 0


def test_a_run_as_a_dict_is_ready_for_json():
    run = Run("a@1", "a", 1, instant(1), 1, "success")
    assert run.to_dict()["scheduled_at"] == "1970-01-01T00:00:00.001000+00:00"
    assert run.to_dict()["status"] == "success"


def test_an_input_or_an_answer_of_another_kind_is_a_bug():
    story = Story(job())
    with pytest.raises(AssertionError):
        story.core.handle(object(), story.now)
    run = story.win()
    story.returns(run)
    with pytest.raises(AssertionError):
        story.settled(Unknown(run))


class Unknown(NamedTuple):
    lease: Lease


def test_a_result_that_is_being_settled_is_decided_by_its_own_answer():
    """A renewal that says lost may be older than the finish."""
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.until(Renew)
    story.returns(run)
    story.renewed(run)
    assert story.aborted() == []
    story.settled()
    assert [seen.event for seen in story.events()] == ["success"]
