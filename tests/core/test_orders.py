"""Runs that the fleet is asked for: found, taken once, never after a death, and beside slots."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Claim,
    Finish,
    Look,
    Release,
    Skip,
    StartRun,
    Unfinished,
)
from anarchon._values import HISTORY_MS, Lease
from tests.core.harness import Story, asked_for, begun, wish_of
from tests.core.words import (
    ME,
    backfilled,
    closed,
    early,
    free,
    held,
    job,
    key,
    lease,
    missing,
    ordered,
    running,
    triggered,
    waiting,
    won,
)

ORDER = triggered()
FIRST, SECOND = backfilled(slot=-60, number=1), backfilled(slot=-50, number=2)


# --- taking one -------------------------------------------------------------------


@pytest.mark.parametrize(("run", "reason"), [(ORDER, "manual"), (FIRST, "catch-up")])
def test_it_is_claimed_as_its_first_attempt_without_a_budget(run, reason):
    story = asked_for(run)
    wish = wish_of(story, within=1)
    assert (wish.key, wish.wants, wish.reason) == (run, 1, reason)
    assert (wish.terms.budget, wish.terms.catch_up_ms) == (0, HISTORY_MS)
    story.claimed(won())
    (start,) = story.all(StartRun)
    assert (start.lease, start.reason) == (Lease(run, 1), reason)


@pytest.mark.parametrize("kind", [Claim, Look, Unfinished])
def test_it_is_found_in_whatever_answer_names_it(kind):
    story = Story(job(every=600))
    if kind is Claim:
        story.go(600)
        story.until(Claim)
        story.claimed(closed(), also=(ordered(ORDER),))
    elif kind is Look:
        story.back_up(slot=600)
        story.until(Look)
        story.looked(ordered(ORDER), others=2)
    else:
        story.ordered()
        story.open_runs(ordered(ORDER))
    assert wish_of(story).key == ORDER


def test_its_data_comes_along_as_text():
    story = asked_for(ORDER)
    story.until(Claim)
    story.claimed(won(data='{"n": 1}'))
    (start,) = story.all(StartRun)
    assert (start.data, start.has_data, start.checkpoint) == ('{"n": 1}', True, None)


def test_without_data_the_handler_has_its_jobs_own():
    story, _ = begun(ORDER)
    (start,) = story.all(StartRun)
    assert (start.data, start.has_data) == (None, False)


@pytest.mark.parametrize("seconds", [3, 3600])
def test_asked_for_by_a_clock_ahead_it_starts_at_once_and_at_that_time(seconds):
    run = triggered(at=seconds)
    story = asked_for(run)
    story.until(Claim)
    story.claimed(won())
    (start,) = story.all(StartRun)
    assert (start.lease.key, start.started_ms) == (run, story.now.wall_ms)


def test_its_end_is_told_of_as_that_of_a_manual_run():
    story, run = begun(ORDER)
    story.wait(3)
    story.returns(run)
    (result,) = story.until(Finish).results
    assert (result.key, result.attempt, result.status, result.reason) == (
        ORDER,
        1,
        "success",
        "manual",
    )
    story.settled()
    assert story.events() == [("success", "sync", 0, 1, None)]


def test_an_instance_without_the_job_leaves_it_to_others():
    story = Story(job(every=600))
    story.ordered("other")
    assert story.lane is None
    story.ordered()
    story.open_runs(ordered(triggered("other")))
    assert story.wakeup() == pytest.approx(600)


def test_a_job_that_is_gone_is_not_run():
    story = asked_for(ORDER)
    story.core.remove("sync")
    story.tick()
    story.wait(60)
    assert not story.all(Claim)


def test_a_win_of_a_job_that_is_gone_is_handed_over_and_not_asked_about():
    story = asked_for(ORDER)
    story.until(Claim)
    story.core.remove("sync")
    story.claimed(won())
    assert not story.started()
    (result,) = story.until(Release).results
    assert (result.key, result.counted) == (ORDER, False)
    story.settled()
    assert (story.lane, story.keeper) == (None, None)


def test_a_job_defined_later_is_asked_about():
    story = Story(job("other", every=600))
    story.core.add(job(every=600), story.now)
    story.tick()
    assert story.until(Unfinished).jobs == ("sync",)
    story.open_runs(ordered(ORDER))
    assert wish_of(story).key == ORDER


def test_without_leases_nobody_asks_or_takes():
    story = Story(job(), leases=False)
    assert story.ordered() == []
    story.go(10)
    story.until(Claim)
    story.claimed(closed(), also=(ordered(ORDER),))
    story.go(19)
    assert len(story.all(Claim)) == 1


def test_what_is_asked_for_while_an_answer_is_on_its_way_is_asked_about_again():
    story = Story(job(every=600))
    story.ordered()
    story.ordered()
    story.nothing_open()
    story.until(Unfinished)
    story.open_runs(ordered(ORDER))
    assert wish_of(story).key == ORDER


def test_a_question_without_an_answer_is_asked_again_while_the_job_is_here():
    story = Story(job(every=600), job("gone", every=600))
    story.ordered()
    story.ordered("gone")
    story.fail(Unfinished)
    story.until(Unfinished)
    story.core.remove("gone")
    story.fail(Unfinished)
    assert story.until(Unfinished).jobs == ("sync",)


# --- workers, and others' runs ----------------------------------------------------


def test_it_takes_a_worker():
    story, _ = begun(ORDER, workers=1)
    view = story.core.view()
    assert (view.running, view.free_workers) == (1, 0)


def test_without_a_free_worker_it_waits_for_one():
    story = asked_for(workers=1)
    run = story.win(slot=600)
    story.ordered()
    story.open_runs(ordered(ORDER))
    for _ in range(20):
        story.until_looked(ordered(ORDER), others=1)
    assert len(story.all(Claim)) == 1
    story.returns(run)
    story.settled()
    assert wish_of(story, within=0).key == ORDER


def test_somebody_else_has_it_by_now():
    story = asked_for(ORDER)
    story.until(Claim)
    story.claimed(held())
    assert not story.core._race.watches
    assert (story.events(), story.wakeup()) == ([], pytest.approx(600))


@pytest.mark.parametrize("answer", [closed(), closed("lost"), missing()])
def test_it_is_over_by_now(answer):
    story = asked_for(ORDER)
    story.until(Claim)
    story.claimed(answer)
    assert (story.lane, story.events(), story.wakeup()) == (None, [], pytest.approx(600))


def test_it_has_waited_for_too_long_and_this_instance_says_so():
    story = asked_for(ORDER)
    story.until(Claim)
    story.claimed(closed("lost", by=ME, detail="too old", attempt=0))
    assert story.events() == [("lost", "sync", 0, 0, "too old")]


@pytest.mark.parametrize("left", [30, 1, -1, -4000])
def test_it_is_not_taken_over_whatever_became_of_its_runner(left):
    story = asked_for()
    story.ordered()
    story.open_runs(running(ORDER, left=left), running(FIRST, left=left))
    story.wait(300)
    assert (story.all(Claim), story.all(Look)) == ([], [])


def test_one_that_was_watched_and_runs_now_is_watched_no_longer():
    story = asked_for(ORDER, workers=1)
    story.until(Claim)
    story.claimed(waiting(0))
    story.until(Look)
    story.looked(running(ORDER, left=-5), others=1)
    assert not story.core._race.watches


@pytest.mark.parametrize("answer", [waiting(0), early(3), free()])
def test_what_is_refused_is_claimed_once_a_look(answer):
    story = asked_for(FIRST)
    for looks in range(1, 20):
        story.until(Claim)
        story.claimed(answer)
        story.until(Look)
        story.looked(ordered(FIRST))
        assert len(story.all(Claim)) == looks
    assert story.t > 18 * 9


# --- beside slots, and beside each other ------------------------------------------


def test_two_of_a_job_are_claimed_one_after_the_other_and_run_beside_each_other():
    other = triggered(at=1, number=2)
    story = asked_for(ORDER, other)
    assert wish_of(story, within=1).key == ORDER
    story.claimed(won(), also=(ordered(other),))
    assert wish_of(story, within=1).key == other
    story.claimed(won())
    assert story.started() == [Lease(ORDER, 1), Lease(other, 1)]


def test_a_past_slot_of_a_paused_job_hides_no_triggered_run():
    story = asked_for(FIRST, ORDER)
    assert wish_of(story).key == ORDER
    story.claimed(won(), also=(ordered(FIRST),))
    assert wish_of(story).key == FIRST


def test_those_of_several_jobs_are_claimed_together():
    runs = [triggered(name) for name in ("a", "b")]
    story = asked_for(*runs, jobs=(job("a", every=600), job("b", every=600)))
    assert [wish.key for wish in story.until(Claim).wishes] == runs


def test_a_slot_of_its_job_goes_first_and_then_it():
    story = Story(job(every=600))
    story.go(599.9)
    story.ordered()
    story.jump(600.1)
    story.open_runs(ordered(ORDER))
    assert wish_of(story).key == key("sync", 600)
    story.claimed(won(), also=(ordered(ORDER),))
    assert wish_of(story, within=1).key == ORDER
    story.claimed(won())
    assert story.started() == [lease("sync", 600), Lease(ORDER, 1)]


def test_a_slot_falls_due_while_it_runs():
    story, _ = begun(ORDER)
    story.renewing_until_t(600)
    assert wish_of(story).key == key("sync", 600)


def work(story: Story, until: float, left: list) -> None:
    """Let time pass until then, or until the next claim, with every call answered."""
    while not isinstance(story.lane, Claim):
        if isinstance(story.lane, Skip):
            story.claimed(closed("missed"))
        elif isinstance(story.lane, Unfinished):
            story.open_runs(*map(ordered, left))
        elif story.lane is not None:
            story.settled()
        elif isinstance(story.keeper, Look):
            story.looked(*map(ordered, left))
        elif story.keeper is not None:
            story.renewed()
        elif story.wakeup() > until:
            break
        else:
            story.jump(story.wakeup())


def test_where_each_waits_for_the_only_worker_slots_and_orders_take_turns():
    """However many slots there are, and however many orders: neither waits for their end."""
    story = Story(job(every=10), job("b", every=10), workers=1)
    left, taken = [triggered(number=n) for n in range(3)], []
    story.go(10)
    while len(taken) < 6:
        work(story, story.t + 1, left)
        taken.append(story.lane.wishes[0].key)
        left = [run for run in left if run != taken[-1]]
        answers = [won(), *[free()] * (len(story.lane.wishes) - 1)]
        story.claimed(*answers, also=tuple(map(ordered, left)))
        work(story, story.t + 12, left)
        story.returns(story.started()[-1])
    assert [run.is_ordered for run in taken] == [False, True, False, True, False, True]


def test_more_than_an_offer_leave_nothing_behind():
    names = [f"j{n}" for n in range(200)]
    story = Story(*(job(name, every=600) for name in names), start=False)
    story.tick()
    story.open_runs(*(ordered(triggered(name)) for name in names))
    assert len(story.until(Claim).wishes) == 128
    assert len(story.core._race.answers.specs) == 128
