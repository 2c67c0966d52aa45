"""A store that was emptied, or promoted without its last writes: who ran what is forgotten."""

from __future__ import annotations

from anarchon._messages import Claim, Renew
from tests.core.harness import Story
from tests.core.words import held, job, key, lease, missing, running, won


def flushed(**terms):
    """Let a run begin, and its renewal find nothing; its handler has yet to obey."""
    story = Story(job(every=600, catch_up=3600, **terms))
    story.until(Claim)
    story.claimed(won())
    run = lease("sync", 0)
    story.until(Renew)
    story.renewed(run)
    story.nothing_open()
    return story, run


def test_after_a_flush_the_runner_is_lost_and_the_latest_slot_may_run_again():
    story, run = flushed()
    story.obeys(run)
    assert story.events() == [("lost", "sync", 0, 1, "no longer held")]
    (wish,) = story.until(Claim).wishes
    assert (wish.key, wish.wants) == (key("sync", 0), 1)


def test_an_abandoned_run_is_not_asked_for_again_after_a_flush():
    story, run = flushed(budget=0)
    story.obeys(run)
    story.go(590)
    assert len(story.all(Claim)) == 1


def test_after_a_flush_a_job_that_was_removed_is_not_asked_for_again():
    story, run = flushed()
    story.core.remove("sync")
    story.obeys(run)
    story.go(590)
    assert len(story.all(Claim)) == 1


def test_a_backup_after_a_flush_claims_the_latest_slot_as_never_tried():
    story = Story(job(every=600, catch_up=3600))
    story.until(Claim)
    story.claimed(held())
    story.looking_until_claim(running(key("sync", 0), left=-1))
    story.claimed(missing())
    (wish,) = story.until(Claim).wishes
    assert (wish.key, wish.wants) == (key("sync", 0), 1)


def test_whoever_has_the_slot_by_then_is_asked_about_once():
    story, run = flushed()
    story.obeys(run)
    story.until(Claim)
    story.claimed(held())
    story.renewing_until_t(60)
    assert len(story.all(Claim)) == 2
