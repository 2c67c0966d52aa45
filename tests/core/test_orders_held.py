"""Runs that the fleet is asked for: their leases, hand-over, outages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anarchon._messages import (
    Claim,
    Finish,
    Look,
    Release,
    Renew,
    Return,
    StartRun,
    Unfinished,
)
from anarchon._values import Lease
from tests.core.harness import Story, asked_for, begun, wish_of
from tests.core.words import (
    backfilled,
    closed,
    handed_over,
    job,
    key,
    missing,
    ordered,
    record,
    running,
    triggered,
    waiting,
    won,
)

ORDER = triggered()
FIRST, SECOND = backfilled(slot=-60, number=1), backfilled(slot=-50, number=2)


# --- backfills --------------------------------------------------------------------


def test_whoever_has_run_one_asks_for_the_next():
    story, run = begun(FIRST)
    story.returns(run)
    assert isinstance(story.lane, Finish)
    story.settled()
    assert story.until(Unfinished, within=0).jobs == ("sync",)
    story.open_runs(ordered(SECOND))
    assert wish_of(story).key == SECOND


@pytest.mark.parametrize("run", [ORDER, FIRST])
def test_it_asks_for_the_next_however_one_has_ended(run):
    story, mine = begun(run)
    story.raises(mine)
    story.lost()
    assert story.until(Unfinished, within=0).jobs == ("sync",)


def test_the_end_of_a_slots_run_is_no_reason_to_ask():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.returns(run)
    story.settled()
    assert story.lane is None


def test_a_record_of_a_dead_one_says_nothing_of_its_slots_own_run():
    """Whose slot it has: another run, which somebody may be running."""
    story = asked_for(SECOND)
    story.until(Claim)
    own = running(key("sync", -60))
    dead = replace(record(FIRST, "lost", detail="runner died"), manual=True)
    story.claimed(won(), also=(own,), closing=(dead,))
    assert own.key in story.core._race.watches
    assert story.events() == [("lost", "sync", -60, 1, "runner died")]


def test_its_own_dead_one_that_it_closes_in_passing_is_told_of_once():
    story, run = begun(FIRST)
    story.fail_renewals_until(31)
    story.ordered()
    while not isinstance(story.until(Unfinished | Claim), Claim):
        story.open_runs(ordered(SECOND))
    dead = replace(record(FIRST, "lost", detail="runner died"), manual=True)
    story.claimed(won(), closing=(dead,))
    assert story.events() == []
    story.obeys(run)
    story.until(Release)
    story.lost()
    assert [(seen.event, seen.slot) for seen in story.events()] == [("lost", -60)]


# --- leases -----------------------------------------------------------------------


@pytest.mark.parametrize("run", [ORDER, FIRST])
def test_its_lease_is_renewed(run):
    story, mine = begun(run)
    assert story.until(Renew).leases == (mine,)


def test_a_backfill_is_given_up_at_its_leases_end():
    story, run = begun(FIRST)
    story.fail_renewals_until(26.9)
    assert story.aborted() == []
    story.fail_renewals_until(27.1)
    assert story.aborted() == [(run, "lost")]


def test_a_backfill_that_somebody_closed_is_given_up_and_the_next_one_asked_for():
    story, run = begun(FIRST)
    story.until(Renew)
    story.renewed(run)
    assert story.aborted() == [(run, "lost")]
    assert isinstance(story.lane, Unfinished)
    story.nothing_open()
    story.obeys(run)
    assert story.events() == [("lost", "sync", -60, 1, "no longer held")]
    assert (story.lane, story.keeper) == (None, None)


def test_what_a_backfill_comes_to_after_its_leases_end_still_counts():
    story, run = begun(FIRST)
    story.fail_renewals_until(27.1)
    story.obeys(run)
    (result,) = story.until(Release).results
    assert (result.key, result.counted) == (FIRST, True)


def test_a_triggered_run_is_never_given_up():
    """Nobody else may run it, so nobody is kept from anything."""
    story, run = begun(ORDER)
    story.fail_renewals_until(300)
    story.until_keeper(Renew)
    story.renewed(run)
    assert story.aborted() == []
    story.nothing_open()
    story.returns(run)
    assert [result.key for result in story.until(Finish).results] == [ORDER]


@pytest.mark.parametrize("answer", [missing(), closed("lost")])
def test_nothing_of_it_is_caught_up(answer):
    story = asked_for(FIRST, jobs=(job(every=60, catch_up=3600),))
    story.until(Claim)
    story.claimed(closed(), also=(ordered(FIRST),))
    assert wish_of(story, within=1).key == FIRST
    story.claimed(answer)
    story.wait(59)
    assert len(story.all(Claim)) == 2


# --- hand-over --------------------------------------------------------------------


def test_handed_over_it_is_the_next_attempt_of_whoever_sees_it():
    story = Story(job(every=600))
    story.ordered()
    story.open_runs(handed_over(ORDER, 1))
    wish = wish_of(story)
    assert (wish.key, wish.wants, wish.reason, wish.terms.budget) == (ORDER, 2, "takeover", 0)
    story.claimed(won(data="[7]"))
    (start,) = story.all(StartRun)
    assert (start.lease, start.data) == (Lease(ORDER, 2), "[7]")
    assert story.events() == [("takeover", "sync", 0, 2, None)]


@pytest.mark.parametrize("run", [ORDER, FIRST])
def test_a_stop_hands_over_what_runs(run):
    story, mine = begun(run)
    story.stop()
    assert story.aborted() == [(mine, "stop")]
    story.obeys(mine)
    (result,) = story.until(Release).results
    assert (result.key, result.attempt, result.counted) == (run, 1, False)
    story.settled()
    assert story.events()[-1][4] == "handed over"
    assert story.is_stopped()


def test_a_job_that_must_never_start_twice_is_not_handed_over():
    story, run = begun(ORDER, jobs=(job(every=600, budget=0),))
    story.stop()
    story.obeys(run)
    (result,) = story.until(Finish).results
    assert (result.status, result.detail) == ("interrupted", "not handed over")


def test_a_stop_before_its_claim_forgets_it():
    story = asked_for(ORDER)
    story.stop()
    assert story.is_stopped()
    assert not story.all(Claim)


def test_a_stop_during_its_claim_hands_it_over_unstarted():
    story = asked_for(ORDER)
    story.until(Claim)
    story.stop()
    assert story.ordered() == []
    story.claimed(won())
    assert not story.started()
    (result,) = story.until(Release).results
    assert (result.key, result.counted, result.started_ms) == (ORDER, False, 0)
    story.settled()
    assert story.is_stopped()


def test_for_want_of_a_thread_it_is_handed_over_and_left_alone_until_the_next_look():
    story, run = begun(ORDER)
    story.unstarted(run)
    assert [result.key for result in story.lane.results] == [ORDER]
    story.settled()
    story.open_runs(handed_over(ORDER, 1))
    assert isinstance(story.until(Look | Claim), Look)
    story.looked(handed_over(ORDER, 1))
    assert (wish_of(story).key, wish_of(story).wants) == (ORDER, 2)


# --- calls without an answer ------------------------------------------------------


def test_a_claim_without_an_answer_is_repeated_as_it_was():
    story = asked_for(ORDER)
    call = story.until(Claim)
    story.fail(Claim)
    again = story.until(Claim)
    assert (again.wins, [(wish.key, wish.wants) for wish in again.wishes]) == (
        call.wins,
        [(ORDER, 1)],
    )
    story.claimed(won())
    assert story.started() == [Lease(ORDER, 1)]


def test_repeated_while_stopping_it_wins_nothing_new():
    story = asked_for(ORDER)
    story.until(Claim)
    story.stop()
    story.fail(Claim)
    assert story.until(Claim).wins == 0
    story.claimed(waiting(0))
    assert story.is_stopped()


def test_after_an_outage_it_is_asked_for():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.outage(Look)
    story.looked(others=1)
    story.open_runs(running(key("sync", 600)), ordered(ORDER))
    assert wish_of(story).key == ORDER


def test_its_end_is_recorded_after_an_outage_and_nobody_waits_for_it_here():
    story, run = begun(ORDER)
    story.returns(run)
    for _ in range(3):
        story.until(Finish)
        story.fail(Finish)
    assert story.down()
    story.until(Finish)
    story.settled()
    assert [seen.event for seen in story.events()] == ["success"]
    assert not story.all(Return)
