"""What small changes of the core would go unnoticed without: exact instants, and what is kept."""

from __future__ import annotations

import pytest

from anarchon._messages import Claim, Emit, Finish, Look, Release, Renew, Return, Skip
from anarchon._values import Claims, Recorded
from tests.core.harness import Story
from tests.core.words import (
    ME,
    closed,
    early,
    free,
    handed_over,
    held,
    job,
    key,
    lease,
    running,
    waiting,
    won,
)

# --- stop -----------------------------------------------------------------------


def failing_until_stopped(story: Story) -> float:
    """Answer nothing; return how long the stop takes."""
    begun = story.t
    while not story.is_stopped():
        if story.lane is not None:
            story.fail()
        elif story.keeper is not None:
            story.fail(type(story.keeper))
        else:
            story.jump(story.wakeup())
    return story.t - begun


def test_a_claim_that_a_dead_store_does_not_answer_is_worth_exactly_a_second():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.fail()
    story.fail()
    assert story.down()
    story.stop(30)
    assert failing_until_stopped(story) == pytest.approx(1.0, abs=1e-6)


def test_a_claim_that_is_only_slow_is_waited_for():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.stop(30)
    story.wait(5)
    assert not story.is_stopped()


def test_a_fenced_handler_that_is_stuck_is_waited_for_since_its_result_still_counts():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.jump(story.t + 40)
    story.wait(10)
    assert story.notes()[-1][0] == "stuck"
    story.stop(30)
    assert not story.is_stopped()
    story.returns(run)
    story.settled()
    assert story.is_stopped()


def test_what_is_left_is_told_of_once():
    """Its failure was recorded at the limit; its thread goes on, and may still obey."""
    story = Story(job(every=600, timeout=5))
    story.win(slot=600)
    story.wait(5)
    story.settled()
    story.stop(1)
    story.wait(1)
    assert story.is_stopped()
    assert [note[0] for note in story.notes()] == ["left"]
    assert [seen.event for seen in story.events()] == ["failure"]


def test_a_missed_slot_is_not_closed_any_more():
    story = Story(job())
    story.jump(30)
    story.until(Skip)
    story.stop()
    story.fail()
    assert story.is_stopped()
    assert story.lane is None


def test_a_schedule_that_fails_is_not_tried_any_more():
    class Broken:
        def next_after_ms(self, t_ms):
            raise ValueError("bad")

        latest_ms = next_after_ms

    story = Story(job("broken", schedule=Broken()), job("a", schedule_at=10))
    run = story.win("a", slot=10)
    story.stop(300)
    for _ in range(4):
        story.until_keeper(Renew)
        story.renewed()
    assert story.wakeup() == pytest.approx(60.01)
    story.returns(run)


# --- outages ----------------------------------------------------------------------


def test_an_outage_of_looks_is_over_when_one_is_answered_though_nothing_was_ever_written():
    story = Story(job(every=600), start=False)
    story.tick()
    story.open_runs(running(key("sync", 0), left=300, lease=300))
    story.outage(Look)
    assert story.down()
    story.looked(others=1)
    assert not story.down()


def test_what_was_written_at_last_does_not_keep_an_outage_of_looks_going():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.fail()
    story.claimed(held(left=300, lease=300))
    story.outage(Look)
    assert story.down()
    story.looked(others=1)
    assert not story.down()


# --- answers ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Claim, Skip])
def test_an_answer_for_each_question(kind):
    """The shell has checked that; here it would be a bug."""
    story = Story(job())
    story.go(10)
    story.until(Claim)
    if kind is Skip:
        story.jump(20)
        story.claimed(free())
        story.until(Skip)
    with pytest.raises(ValueError, match="zip"):
        story.answer(kind, Claims((), (), (), story.now.wall_ms))


def test_the_definitions_of_what_was_claimed_are_not_kept():
    story = Story(job("a"), job("b"))
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(), b=held())
    assert not story.core._race.answers.specs


def test_owners_are_learnt_from_skips_as_well():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.jump(20)
    story.claimed(free())
    story.until(Skip)
    story.claimed(held(by="somebody"))
    assert story.core._race.answers.fleet.size(story.mono) == 2


def test_a_waiting_run_that_a_skip_names_is_not_dead():
    """Without a worker only the dead are claimed, which may have to be closed."""
    story = Story(job("a", schedule_at=10), job("b"), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.renewing_until_t(20)
    story.until(Skip)
    story.claimed(waiting())
    assert story.lane is None


def test_what_was_handed_over_here_is_left_to_others_until_the_next_look():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.unstarted_win()
    story.core.add(job(every=600), story.now)
    story.tick()
    story.open_runs(handed_over(key("sync", 600)))
    story.wait(0.5)
    assert len(story.all(Claim)) == 1
    story.until(Look)
    story.looked(handed_over(key("sync", 600)))
    assert story.until(Claim, within=0.1)


def test_a_run_closed_in_passing_is_forgotten_though_a_reply_cannot_name_all():
    story = Story(job(every=600, overlap="allow"))
    story.go(600)
    story.until(Claim)
    old = running(key("sync", -600), left=300, lease=300)
    story.claimed(closed(), also=(old,))
    story.renewing_until_t(1199)
    story.go(1200)
    story.until(Claim)
    named = tuple(running(key("sync", -10 * n), left=300, lease=300) for n in range(10))
    gone = closed("lost", by=ME)(story.lane.wishes[0])._replace(key=old.key)
    run = gone.run.__class__(
        "x", "sync", old.key.slot_ms, gone.run.scheduled_at, 1, "lost", "too old"
    )
    story.claimed(held(left=300, lease=300), also=named, closing=(run,))
    assert old.key not in story.core._race.watches


def test_what_was_decided_here_is_not_claimed_again():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(closed("skipped", by=ME, detail="overlap"))
    assert story.wakeup() == pytest.approx(20)


def test_the_last_twenty_slots_told_of_are_remembered():
    story = Story(job(every=1))
    for slot in range(1, 41):
        story.go(slot)
        story.until(Claim)
        story.claimed(closed("skipped", by=ME, detail="overlap"))
    assert len(story.events()) == 40
    told = story.core._race.slots.jobs["sync"].told
    assert [(slot - key("sync", 0).slot_ms) // 1000 for _, slot in told] == list(range(21, 41))
    story.step_wall(-30)
    while story.t < 50.5:  # slots 10 to 20 of the wall come again
        story.jump(min(story.wakeup(), 50.5))
        if story.lane is not None:
            story.claimed(closed("skipped", by=ME, detail="overlap"))
    assert [seen.slot for seen in story.events()][40:] == [float(n) for n in range(11, 21)]
    told_again = len(story.events())
    while story.t < 55.5:  # and slots 21 to 25
        story.jump(min(story.wakeup(), 55.5))
        if story.lane is not None:
            story.claimed(closed("skipped", by=ME, detail="overlap"))
    assert told_again <= len(story.events()) <= told_again + 5


def test_a_takeover_starts_at_once_though_the_store_says_that_its_slot_lies_far_ahead():
    """The slot was due for the first attempt: the store's clock has stepped back since."""
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(waiting())
    story.until(Claim)
    at = story.t
    story.claimed(won(), store=-3000)
    story.wait(0.999)
    assert not story.started()
    story.wait(0.002)
    assert story.started() == [lease("sync", 600, 2)]
    assert story.t == pytest.approx(at + 1.001)


# --- attempts -----------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 2])
def test_what_may_be_followed_is_handed_over(budget):
    story = Story(job(budget=budget))
    run = story.win()
    story.stop()
    story.obeys(run)
    assert isinstance(story.lane, Release)


def test_a_manual_run_is_renewed_only_when_the_store_has_it():
    story = Story(job(every=600))
    story.run_now()
    (result,) = story.lane.results
    assert result.duration_ms == 0
    story.wait(15)
    assert story.keeper is None
    story.settled()
    story.until(Renew)
    assert story.t == pytest.approx(25)


def test_a_release_in_flight_is_not_watched_because_a_look_shows_it():
    story = Story(job("a", every=600), job("b", every=600))
    story.go(600)
    story.until(Claim)
    story.claimed_by_job(a=won(), b=held(left=300, lease=300))
    run = lease("a", 600)
    story.jump(story.t + 30)
    if isinstance(story.keeper, Look):
        story.looked(others=1)
    story.obeys(run)
    assert isinstance(story.lane, Release)
    story.until_keeper(Look)
    story.looked(handed_over(run.key), others=2)
    assert run.key not in story.core._race.watches
    assert not story.all(Finish)


def test_what_is_lost_before_its_slot_is_forgotten_and_told_of_as_lost():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(won(left=60), store=585)
    story.until(Renew)
    story.renewed(lease("sync", 600))
    (told,) = story.all(Emit)
    assert (told.event, told.run.status) == ("lost", "lost")
    assert len(story.core._held) == 0


def test_what_is_lost_while_it_runs_is_told_of_as_lost():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.until(Renew)
    story.renewed(run)
    story.nothing_open()
    story.returns(run)
    assert [(a.event, a.run.status) for a in story.all(Emit)][1:] == [("lost", "lost")]
    assert len(story.core._held) == 0


def test_a_cancel_is_for_the_run_that_it_names():
    story = Story(job("a", every=600), job("b", every=600))
    a, b = story.win_all("a", "b", slot=600)
    story.until(Renew)
    story.renewed(cancelled=(a,))
    assert story.aborted() == [(a, "cancel")]
    assert b in story.core._held._runs


def test_our_words_are_told_where_the_store_has_none():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.stop()
    story.returns(run)
    story.settled(Recorded(run, "success"))
    assert story.events() == [("success", "sync", 600, 1, "after stop")]


def test_the_record_of_a_manual_run_that_never_ran():
    story = Story(job(every=600))
    story.core.remove("sync")
    run = story.run_now()
    (answer,) = story.all(Return)
    record = answer.run
    assert (record.attempt, record.reason, record.manual) == (1, "manual", True)
    assert (record.job, record.slot, record.detail) == (
        "sync",
        run.key.slot_ms,
        "not handed over",
    )


def test_a_manual_run_has_no_fence_after_a_renewal_either():
    story = Story(job(every=600))
    story.run_now()
    story.settled()
    story.until(Renew)
    story.renewed()
    story.fail_renewals_until(100)
    assert story.aborted() == []


def test_a_claim_of_mine_that_was_answered_otherwise_waits_for_a_look():
    """The store lost the record, and finds the slot early now."""
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.looked(running(key("sync", 600), attempt=1, left=25, by=ME))
    story.until(Claim)
    story.claimed(early(2))
    at = story.t
    story.until(Look)
    assert story.t - at > 5
    assert len(story.all(Claim)) == 2


def test_a_dead_run_that_a_look_no_longer_lists_is_not_claimed():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.looked(running(key("sync", 600), left=-1), agrees=False)
    while story.t < 640:
        story.until(Look)
        story.looked(others=1)
    assert len(story.all(Claim)) == 1
