"""What an instance does for a claim that is refused, early or unanswered: the protocol's rows."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Claim,
    Emit,
    Finish,
    Look,
    Skip,
    Unfinished,
)
from tests.core.harness import Story
from tests.core.words import (
    ME,
    Once,
    closed,
    early,
    free,
    handed_over,
    held,
    job,
    key,
    lease,
    missing,
    running,
    suspect,
    waiting,
    won,
)

# --- closed -------------------------------------------------------------------


def test_closed_by_somebody_else_is_forgotten():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(closed())
    assert story.events() == []
    assert story.wakeup() == pytest.approx(20)


@pytest.mark.parametrize("detail", ["overlap", "paused", "newer slot"])
def test_closed_by_me_emits_the_event(detail):
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(closed("skipped", by=ME, detail=detail))
    assert story.events() == [("skipped", "sync", 10, 1, detail)]
    assert story.notes() == []


def test_a_dead_run_closed_by_me_emits_the_event():
    story = Story(job(every=600))
    story.back_up(slot=600, attempt=3)
    story.until(Look)
    story.looked(running(key("sync", 600), attempt=3, left=-1))
    story.until(Claim)
    story.claimed(closed("failed", by=ME, attempt=3))
    assert story.events() == [("failure", "sync", 600, 3, None)]
    assert story.keeper is None
    assert story.wakeup() == pytest.approx(1200)


def test_a_run_closed_in_passing_is_told_of_and_no_longer_watched():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    old = handed_over(key("sync", 0))
    story.claimed(held(), also=(old,))
    story.until(Claim, within=0.05)
    run = closed("lost", by=ME, detail="too old")(story.lane.wishes[0]).run
    story.claimed(held(), closing=(run,))
    assert story.events() == [("lost", "sync", 0, 1, "too old")]
    story.wait(5)
    assert len(story.all(Claim)) == 2


def test_what_i_finished_is_not_told_of_again():
    """After an outage the latest slot of each job is claimed again, whoever ran it."""
    story = Story(job(every=600, catch_up=3600), job("other", every=600))
    story.until(Claim)
    story.claimed(closed())
    story.go(600)
    story.until(Claim)
    story.claimed_by_job(sync=won(), other=held())
    story.returns(lease("sync", 600))
    story.settled()
    story.outage(Look)
    story.looked(others=1)
    story.nothing_open()
    (wish,) = story.until(Claim).wishes
    assert (wish.key, wish.wants, wish.reason) == (key("sync", 600), 1, "catch-up")
    story.claimed(closed("success", by=ME))
    assert [seen.event for seen in story.events()] == ["success"]


# --- suspect ------------------------------------------------------------------


@pytest.mark.parametrize("agrees", [True, False])
def test_suspect_is_closed_with_a_witness_before_the_slot_is_claimed_again(agrees):
    story = Story(job(every=60))
    story.go(60)
    story.until(Claim)
    dead = running(key("sync", 0), attempt=3, beat=5, left=-40)
    story.claimed(suspect(dead), agrees=agrees)
    told = story.t
    story.looking_until_claim(dead, agrees=agrees)
    (wish,) = story.lane.wishes
    assert (wish.key, wish.wants, wish.beat) == (key("sync", 0), 4, 5)
    assert story.t - told == pytest.approx(0.01 if agrees else 27.012, abs=0.002)
    story.claimed(closed("failed", by=ME, attempt=3))
    (wish,) = story.until(Claim, within=0.05).wishes
    assert (wish.key, wish.wants) == (key("sync", 60), 1)


def test_a_slot_is_claimed_again_when_somebody_else_closed_the_dead_run():
    """Nobody names the dead run any more, so nothing else would unblock the slot."""
    story = Story(job(every=60))
    story.go(60)
    story.until(Claim)
    dead = running(key("sync", 0), attempt=3, beat=5, left=-40)
    story.claimed(suspect(dead), agrees=False)
    story.until(Look)
    story.looked(others=0)
    (wish,) = story.until(Claim, within=0.05).wishes
    assert wish.key == key("sync", 60)


def test_a_slot_blocked_by_a_run_of_our_own_is_claimed_again_when_that_has_ended():
    story = Story(job(every=60))
    run = story.win(slot=60, left=30)
    story.fail_renewals_until(60 + 35)
    assert story.aborted() == [(run, "lost")]
    story.go(120)
    story.until(Claim)
    mine = running(run.key, left=-30, by=ME)
    story.claimed(suspect(mine))
    story.open_runs(mine)
    story.go(140)
    assert len(story.all(Claim)) == 2
    story.returns(run)
    story.settled()
    (wish,) = story.until(Claim, within=0.05).wishes
    assert wish.key == key("sync", 120)


# --- free, early, missing -----------------------------------------------------


def test_free_stays_pending_and_is_claimed_in_the_next_round():
    story = Story(job("a", every=60), job("b", every=60))
    story.see_fleet(2)
    story.go(60)
    first = story.until(Claim)
    assert first.wins == 1
    at = story.t
    story.claimed(won(), free())
    rest = story.until(Claim)
    assert [wish.key for wish in rest.wishes] == [first.wishes[1].key]
    assert story.t > at


def test_free_is_closed_as_missed_when_the_next_slot_is_due():
    story = Story(job("a"), job("b"), workers=1)
    story.go(10)
    story.until(Claim)
    _, left = (wish.key for wish in story.lane.wishes)
    story.claimed(won(left=3600), free())
    story.go(20.5)
    skip = story.until(Skip)
    assert [(wish.key, wish.detail) for wish in skip.wishes] == [(left, "no free worker")]


@pytest.mark.parametrize(("told", "waits"), [(2.5, 2.5), (3600, 60)])
def test_early_is_asked_again_after_that_but_at_most_a_minute(told, waits):
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(early(told))
    at = story.t
    (wish,) = story.until(Claim).wishes
    assert wish.key == key("sync", 600)
    assert story.t - at == pytest.approx(waits + 0.01, abs=0.002)


def test_missing_latest_slot_is_as_never_tried():
    story = Story(job(every=600, catch_up=3600))
    story.until(Claim)
    story.claimed(waiting(1))
    story.until(Claim)
    story.claimed(missing())
    (wish,) = story.until(Claim, within=0.05).wishes
    assert (wish.key, wish.wants, wish.reason) == (key("sync", 0), 1, "catch-up")


def test_missing_of_an_older_run_is_forgotten():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(closed(), also=(handed_over(key("sync", 0)),))
    story.until(Claim)
    story.claimed(missing())
    assert story.wakeup() == pytest.approx(1200)


def test_missing_of_a_removed_job_is_forgotten():
    story = Story(job(every=600, catch_up=3600))
    story.until(Claim)
    story.claimed(waiting(1))
    story.until(Claim)
    story.core.remove("sync")
    story.claimed(missing())
    assert story.wakeup() == float("inf")


# --- other open runs, no reply ------------------------------------------------


@pytest.mark.parametrize("answer", [won(), held(), closed(), free(), early(5), waiting()])
def test_other_open_runs_named_are_watched(answer):
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(answer, also=(running(key("sync", 0), left=20),))
    while not story.all(Look):
        if isinstance(story.until(Look | Claim), Claim):
            story.claimed(held())
    assert story.keeper.jobs == ("sync",)
    story.looked(running(key("sync", 0), left=-1), others=2)
    call = story.until(Claim, within=8)
    assert key("sync", 0) in [wish.key for wish in call.wishes]


def test_a_run_that_a_reply_no_longer_names_has_ended():
    story = Story(job(every=60))
    story.back_up(slot=60, left=300, lease=300)
    story.go(110)
    while story.keeper is not None:
        story.looked(others=1)
    story.go(120)
    while story.keeper is not None:
        story.looked(others=1)
    story.until(Claim)
    story.claimed(closed())
    assert story.wakeup() == pytest.approx(180)


def test_no_reply_starts_nothing_and_is_repeated_exactly():
    story = Story(job("a", every=60), job("b", every=60))
    story.go(60)
    claim = story.until(Claim)
    story.fail()
    assert not story.started()
    assert story.lane == claim  # the first repeat is sent at once
    story.fail()
    at = story.t
    assert story.lane is None
    assert story.until(Claim) == claim
    assert story.t > at
    story.claimed(won(), held())
    assert story.started() == [claim.wishes[0].key and lease(claim.wishes[0].key.job, 60)]


def test_an_unknown_claim_wins_nothing_new_when_a_newer_slot_is_due():
    story = Story(job())
    story.go(10)
    claim = story.until(Claim)
    story.fail()
    story.jump(20)
    story.fail()
    assert story.until(Claim) == claim._replace(wins=0)
    story.claimed(free())
    call = story.until(Skip | Claim)
    assert isinstance(call, Skip)
    assert [wish.key for wish in call.wishes] == [key("sync", 10)]


def test_an_unknown_claim_is_repeated_before_any_new_claim():
    story = Story(job("a", every=60), job("b", schedule=Once(61, 200)))
    story.go(60)
    claim = story.until(Claim)
    story.fail()
    story.fail()
    story.until(Claim)
    story.fail()
    story.jump(60.2)
    story.jump(61.5)
    story.fail()
    assert [c for c in story.all(Claim) if c.wishes != claim.wishes] == []
    story.until(Claim)
    story.claimed(won())
    story.nothing_open()
    (wish,) = story.until(Claim).wishes
    assert wish.key == key("b", 61)


def test_an_unknown_takeover_is_repeated_with_its_wins():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(waiting())
    claim = story.until(Claim)
    story.fail()
    assert story.lane == claim
    story.claimed(won())
    assert story.started() == [lease("sync", 600, 2)]


def test_an_answer_of_the_wrong_type_is_no_answer():
    story = Story(job())
    story.go(10)
    claim = story.until(Claim)
    story.answer(Claim, None)
    assert story.lane == claim
    story.claimed(won())
    assert story.started()


def test_results_are_sent_before_claims():
    story = Story(job("a", every=60), job("b", every=60), workers=1)
    story.go(60)
    story.until(Claim)
    story.claimed(won(left=600), free())
    run = story.started()[0]
    story.returns(run)
    assert isinstance(story.lane, Finish)
    story.settled()
    assert isinstance(story.lane, Claim)
    assert story.lane.wins == 1
    assert not [a for a in story.all(Emit) if a.event == "failure"]
    assert not story.all(Unfinished)[1:]
