"""What an instance does for each reply to a claim: a test for every row of the protocol."""

from __future__ import annotations

import pytest

from anarchon._values import Claim, Emit, Finish, Look, Release, Skip, StartRun, Unfinished
from tests.core.harness import (
    ME,
    Once,
    Story,
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

# --- won --------------------------------------------------------------------------


def test_won_runs_the_handler_and_tells_of_it():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.read()
    story.claimed(won(fence=77))
    emit, start = story.read()
    assert (emit.event, emit.run.attempt, emit.run.status) == ("started", 1, "running")
    assert start == StartRun(lease("sync", 10), "scheduled", 77, None, story.core._specs["sync"])


def test_a_win_counts_from_the_sending_of_the_claim():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    sent = story.t
    story.jump(13)
    story.claimed(won(left=30))
    run = lease("sync", 10)
    story.go(14)
    story.fail_renewals_until(sent + 26.9)
    assert story.aborted() == []
    story.fail_renewals_until(sent + 27.01)
    assert story.aborted() == [(run, "lost")]


@pytest.mark.parametrize(("late", "starts"), [(26.9, True), (27.1, False)])
def test_a_win_past_its_deadline_is_handed_over(late, starts):
    story = Story(job(every=60))
    story.go(60)
    story.until(Claim)
    story.jump(story.t + late)
    story.claimed(won(left=30))
    assert bool(story.started()) == starts
    if not starts:
        (result,) = story.lane.results
        assert isinstance(story.lane, Release)
        assert (result.status, result.detail, result.counted) == (
            "interrupted",
            "handed over",
            False,
        )


def test_what_was_handed_over_unstarted_is_watched_here_as_well():
    """A single instance must come back to it: nobody else will."""
    story = Story(job(every=60))
    story.go(60)
    story.until(Claim)
    story.jump(story.t + 28)
    story.claimed(won(left=30))
    story.settled()
    assert [seen.event for seen in story.events()] == ["interrupted"]
    assert story.until(Look, within=10).jobs == ("sync",)
    story.looked(handed_over(key("sync", 60)))
    (wish,) = story.until(Claim, within=0.1).wishes
    assert (wish.key, wish.wants, wish.reason) == (key("sync", 60), 2, "takeover")


def test_a_win_of_a_removed_job_is_handed_over():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    assert story.core.remove("sync")
    story.claimed(won())
    assert not story.started()
    assert isinstance(story.lane, Release)
    story.settled()
    assert story.wakeup() == float("inf")


def test_a_win_before_its_slot_by_the_stores_clock_waits_the_rest():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    at = story.t
    story.claimed(won(), store=9.4)
    assert not story.started()
    story.go(at + 0.59)
    assert not story.started()
    story.go(at + 0.61)
    assert story.started() == [lease("sync", 10)]


# --- held -------------------------------------------------------------------------


def test_held_makes_a_backup_that_looks_once_per_heartbeat():
    story = Story(job(every=600))
    story.back_up(slot=600, left=300, lease=300, heartbeat=100)
    at = []
    for _ in range(5):
        assert story.until(Look).jobs == ("sync",)
        at.append(story.t)
        story.looked(others=1, end=250)
    gaps = [b - a for a, b in zip(at, at[1:], strict=False)]
    assert gaps == pytest.approx([10.0] * 4)
    assert not story.aborted()


def test_held_is_a_log_line_and_no_event():
    story = Story(job())
    story.back_up()
    assert story.notes() == [("taken", "sync", "")]
    assert story.events() == []


def test_a_backup_looks_just_after_the_lease_end_it_knows():
    story = Story(job(every=600))
    story.chance.share = 0.999
    story.back_up(slot=600, left=4)
    told = story.t
    story.until(Look)
    assert story.t == pytest.approx(told + 4.002)


def test_a_dead_run_is_taken_over_at_once_when_the_clocks_agree():
    story = Story(job(every=600))
    story.back_up(slot=600, beat=3)
    story.until(Look)
    story.looked(running(key("sync", 600), beat=3, left=-0.5))
    (wish,) = story.until(Claim, within=0.05).wishes
    assert (wish.wants, wish.beat, wish.reason) == (2, 3, "takeover")
    story.claimed(won())
    assert [seen.event for seen in story.events()] == ["takeover"]
    assert story.started() == [lease("sync", 600, 2)]


def test_a_dead_run_is_taken_over_after_the_witness_when_the_clocks_do_not_agree():
    story = Story(job(every=600))
    story.back_up(slot=600, beat=3)
    first_seen = story.t
    story.until(Look)
    story.looked(running(key("sync", 600), beat=3, left=-0.5), agrees=False)
    story.looking_until_claim(running(key("sync", 600), beat=3, left=-10), agrees=False)
    assert story.t == pytest.approx(first_seen + 27.022, abs=0.002)
    assert story.lane.wishes[0].first_seen == pytest.approx(first_seen + 4096)


def test_a_renewal_starts_the_witness_again():
    story = Story(job(every=600))
    story.back_up(slot=600, beat=3)
    story.until(Look)
    story.looked(running(key("sync", 600), beat=4, left=-0.5), agrees=False)
    seen = story.t
    story.until(Look)
    story.looked(others=1)  # not listed: the time first seen is kept
    call = story.looking_until_claim(running(key("sync", 600), beat=4, left=-20), agrees=False)
    assert call.wishes[0].first_seen == pytest.approx(seen + 4096)
    assert story.t == pytest.approx(seen + 27.022, abs=0.002)


def test_a_lease_seen_unchanged_for_its_whole_length_has_ended_whatever_the_store_says():
    """The store's clock stepped back by an hour: the lease's end lies far ahead."""
    story = Story(job(every=7200))
    story.back_up(slot=7200, beat=3)
    first_seen = story.t
    story.looking_until_claim(running(key("sync", 7200), beat=3, left=3600))
    assert story.t == pytest.approx(first_seen + 30.022, abs=0.002)


@pytest.mark.parametrize("left", [-1, 3600])
def test_a_refused_takeover_waits_for_the_next_look(left):
    """Paused, or no wins left: the same claim again at once would be polling."""
    story = Story(job(every=7200))
    story.back_up(slot=7200)
    dead = running(key("sync", 7200), left=left)
    story.looking_until_claim(dead)
    story.claimed(held(left=left))
    refused = story.t
    story.until(Look)
    assert story.t - refused > 3
    story.looked(dead)
    story.until(Claim, within=0.1)
    assert len(story.all(Claim)) == 3


def test_mine_and_nothing_of_it_here_is_claimed_again():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.looked(running(key("sync", 600), attempt=2, left=25, by=ME))
    (wish,) = story.until(Claim, within=0.05).wishes
    assert wish.wants == 2
    story.claimed(won())
    assert story.started() == [lease("sync", 600, 2)]


def test_what_is_mine_and_held_here_is_not_claimed_again():
    story = Story(job(every=600), job("other", every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(won(), held())
    mine = story.started()[0].key
    story.until(Look)
    story.looked(running(mine, left=25, by=ME))
    story.wait(0.5)
    assert len(story.all(Claim)) == 1


# --- waiting ----------------------------------------------------------------------


def test_waiting_is_claimed_at_once():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(waiting(3))
    (wish,) = story.until(Claim, within=0.05).wishes
    assert (wish.wants, wish.reason) == (4, "takeover")


def test_waiting_that_was_just_claimed_is_tried_again_with_the_next_look():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(waiting(1))
    for _ in range(3):
        assert story.until(Claim, within=0.05).wishes[0].wants == 2
        story.claimed(waiting(1))  # paused
        before = story.t
        story.until(Look, within=20)
        assert story.t - before > 3
        story.looked(handed_over(key("sync", 600)))


def test_waiting_without_a_free_worker_is_claimed_by_the_worker_that_becomes_free():
    story = Story(job(every=600), workers=1)
    run = story.win(slot=600)
    story.core.add(job("other", every=700), story.now)
    story.tick()
    story.nothing_open()
    story.until_looked(handed_over(key("other", 100)))
    story.wait(25)
    story.until_looked(handed_over(key("other", 100)))
    assert len(story.all(Claim)) == 1
    story.returns(run)
    story.settled()
    (wish,) = story.lane.wishes
    assert (wish.key, wish.wants) == (key("other", 100), 2)


# --- closed -----------------------------------------------------------------------


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


# --- suspect ----------------------------------------------------------------------


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


# --- free, early, missing ---------------------------------------------------------


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
    taken, left = (wish.key for wish in story.lane.wishes)
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


# --- other open runs, no reply ------------------------------------------------------


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
