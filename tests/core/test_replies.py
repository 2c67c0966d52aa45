"""What an instance does for the replies to renewals, ends, skips and lists of open runs."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Claim,
    Finish,
    Look,
    Release,
    Renew,
    Skip,
    Unfinished,
)
from anarchon._values import (
    Lost,
    Recorded,
)
from tests.core.harness import Story
from tests.core.words import (
    ME,
    closed,
    early,
    handed_over,
    held,
    job,
    key,
    lease,
    running,
    waiting,
    won,
)

# --- lost ---------------------------------------------------------------------


def test_lost_on_renewal_aborts_and_makes_a_backup():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.wait(10)
    story.renewed(run)
    assert story.aborted() == [(run, "lost")]
    assert story.lane == Unfinished(("sync",))
    story.open_runs(running(run.key, attempt=2, left=20))
    assert story.until(Look).jobs == ("sync",)
    story.looked(running(run.key, attempt=2, left=-1))
    story.wait(5)
    assert len(story.all(Claim)) == 1  # our own handler still lives
    story.returns(run)
    assert story.events() == [("lost", "sync", 600, 1, "no longer held")]
    (wish,) = story.until(Claim).wishes
    assert (wish.key, wish.wants) == (run.key, 3)


def test_lost_records_nothing_and_is_not_renewed_again():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.wait(10)
    story.renewed(run)
    story.nothing_open()
    story.returns(run)
    story.wait(100)
    assert not story.all(Finish)
    assert not story.all(Release)
    assert len(story.all(Renew)) == 1


def test_lost_before_its_slot_is_never_started():
    story = Story(job("a", every=600), job("b", every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(won(), won(), store=580)
    first, second = (wish.key for wish in story.all(Claim)[0].wishes)
    story.wait(10)
    story.renewed((first, 1))
    assert story.events() == [("lost", first.job, 600, 1, "no longer held")]
    story.nothing_open()
    story.wait(11)
    assert [run.key for run in story.started()] == [second]


def test_lost_on_finish_makes_a_backup():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.returns(run)
    story.lost()
    assert story.events() == [("lost", "sync", 600, 1, "no longer held")]
    story.open_runs(running(run.key, attempt=2))
    story.until(Look)
    story.looked(running(run.key, attempt=2, left=-1))
    (wish,) = story.until(Claim).wishes
    assert wish.wants == 3


def test_lost_on_release_makes_a_backup():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.fail_renewals_until(630)
    story.obeys(run)
    assert isinstance(story.lane, Release)
    story.lost()
    assert story.lane == Unfinished(("sync",))


def test_a_counted_release_may_close_the_run():
    story = Story(job(every=600, budget=1))
    run = story.win(slot=600)
    story.fail_renewals_until(630)
    story.raises(run)
    story.settled(Recorded(run, "failed", None))
    assert story.events() == [("failure", "sync", 600, 1, None)]
    assert story.wakeup() == pytest.approx(1200)


def test_what_the_store_kept_is_what_is_told():
    """A repeated finish is answered with the outcome as stored."""
    story = Story(job())
    run = story.win()
    story.raises(run)
    story.settled(Recorded(run, "interrupted", "cancelled"))
    assert story.events() == [("interrupted", "sync", 10, 1, "cancelled")]


# --- no reply -----------------------------------------------------------------


def test_no_reply_to_renew_gives_no_credit():
    story = Story(job(every=600))
    run = story.win(slot=600)
    won_at = story.t
    story.fail_renewals_until(won_at + 26.99)
    assert story.aborted() == []
    story.fail_renewals_until(won_at + 27.01)
    assert story.aborted() == [(run, "lost")]


def test_a_renewal_counts_from_its_sending():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.until(Renew)
    sent = story.t
    story.jump(sent + 4)
    story.renewed()
    assert story.core._held.get(run).deadline == pytest.approx(4096 + sent + 27)
    assert story.until(Renew)
    assert story.t == pytest.approx(sent + 10)


@pytest.mark.parametrize("kind", ["finish", "release"])
def test_no_reply_to_an_end_is_repeated_until_answered_and_renewed_meanwhile(kind):
    story = Story(job(every=600))
    run = story.win(slot=600)
    if kind == "finish":
        story.returns(run)
    else:
        story.stop(timeout=600)
        story.obeys(run)
    call = story.lane
    renewals = 0
    for _ in range(16):
        while story.lane is None:
            if isinstance(story.keeper, Renew):
                renewals += 1
                story.renewed()
            story.mono += story.wakeup() - story.t
            story.tick()
        assert story.lane == call
        story.fail()
    assert renewals >= 2
    while story.lane is None:
        story.mono += story.wakeup() - story.t
        story.tick()
    story.settled()
    assert len(story.events()) == 1


# --- skip ---------------------------------------------------------------------


def saturated(*names: str) -> Story:
    """Return a story at slot 20, where slot 10 of all jobs but one waited for a worker."""
    story = Story(*(job(name) for name in names), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed(*(won(left=3600) if not i else early(0.001) for i in range(len(names))))
    story.go(20)
    return story


def test_missed_is_told_of_by_whoever_recorded_it():
    story = saturated("a", "b")
    story.until(Skip)
    story.claimed(closed("missed", by=ME, detail="no free worker"))
    assert [(seen.event, seen.slot) for seen in story.events()] == [("missed", 10)]


def test_a_slot_that_somebody_ran_is_not_missed():
    story = saturated("a", "b")
    story.until(Skip)
    story.claimed(closed("success"))
    assert story.events() == []
    story.wait(3)
    assert len(story.all(Skip)) == 1


def test_a_slot_that_this_instance_finished_long_ago_is_not_told_of():
    story = saturated("a", "b")
    story.until(Skip)
    story.claimed(closed("success", by=ME))
    assert story.events() == []


@pytest.mark.parametrize("answer", [held(), waiting()])
def test_a_slot_that_somebody_runs_after_all_is_watched(answer):
    """Without a worker this instance never claimed it, and the reply names others only."""
    story = saturated("a", "b")
    (wish,) = story.until(Skip).wishes
    story.claimed(answer)
    assert wish.key in story.core._race.watches


def test_a_skip_names_other_open_runs_too():
    story = saturated("a", "b")
    (wish,) = story.until(Skip).wishes
    other = key(wish.key.job, 0)
    story.claimed(closed(), also=(running(other),))
    assert other in story.core._race.watches


@pytest.mark.parametrize(("told", "waits"), [(1.5, 1.5), (3600, 60)])
def test_an_early_skip_is_asked_again_after_that_but_at_most_a_minute(told, waits):
    story = saturated("a", "b")
    call = story.until(Skip)
    at = story.t
    story.claimed(early(told))
    while True:
        while story.lane is None:
            if story.keeper is not None:
                story.renewed() if isinstance(story.keeper, Renew) else story.looked()
            story.mono += story.wakeup() - story.t
            story.tick()
        if isinstance(story.lane, Skip) and call.wishes[0] in story.lane.wishes:
            break
        story.claimed(closed())
    assert story.t - at == pytest.approx(waits)


def test_an_early_answer_about_a_slot_that_is_gone_does_not_matter():
    story = saturated("a", "b")
    (wish,) = story.until(Skip).wishes
    story.core.remove(wish.key.job)
    story.claimed(early(1))
    assert story.lane is None


# --- open runs ----------------------------------------------------------------


def test_open_runs_found_at_start_are_watched_and_taken_over():
    story = Story(job(every=600), start=False)
    story.tick()
    assert story.lane == Unfinished(("sync",))
    story.open_runs(handed_over(key("sync", -600), attempt=2))
    (wish,) = story.until(Claim, within=0.1).wishes
    assert (wish.key, wish.wants) == (key("sync", -600), 3)


def test_a_live_run_found_at_start_gets_a_backup():
    story = Story(job(every=600), start=False)
    story.tick()
    story.open_runs(running(key("sync", 0), left=25))
    assert story.until(Look, within=10).jobs == ("sync",)


def test_open_runs_are_asked_for_again_when_the_question_got_no_answer():
    story = Story(job(every=600), start=False)
    story.tick()
    call = story.lane
    story.fail()
    assert story.lane == call
    story.nothing_open()
    assert story.lane is None


def test_open_runs_of_many_jobs_are_asked_for_in_parts():
    story = Story(*(job(f"j{n}", every=600) for n in range(600)), start=False)
    story.tick()
    asked = []
    while isinstance(story.lane, Unfinished):
        asked.append(len(story.lane.jobs))
        story.nothing_open()
    assert asked == [512, 88]


def test_a_look_that_shows_a_run_of_a_job_unknown_here_is_ignored():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.looked(handed_over(key("removed", 0)), others=2)
    story.wait(5)
    assert len(story.all(Claim)) == 1


def test_a_look_with_nothing_open_ends_the_watching():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.looked(others=0)
    assert story.wakeup() == pytest.approx(1200)


def test_a_settled_answer_for_nobody_here_is_ignored():
    story = Story(job("a"), job("b"))
    run = story.win_all("a", "b")[0]
    story.returns(run)
    story.settled(Lost(lease("ghost", 10)), Recorded(run, "success"))
    assert [seen.job for seen in story.events()] == ["a"]


# --- what overtook a reply ----------------------------------------------------


def test_a_look_does_not_forget_what_was_heard_of_while_it_was_on_its_way():
    """It was sent before the other run began, and comes back after that was named."""
    story = Story(job("a", every=600), job("b", schedule_at=606))
    story.back_up("a", slot=600)
    story.chance.share = 0.9
    story.until(Look)
    look_sent = story.t
    story.jump(max(look_sent, 606))
    story.jump(606.1)
    story.claimed(held(), sent=606.1)
    story.looked(others=0, sent=look_sent)
    assert key("b", 606) in story.core._race.watches
    assert key("a", 600) not in story.core._race.watches


def test_a_claim_does_not_forget_what_was_heard_of_while_it_was_on_its_way():
    story = Story(job(every=60))
    story.back_up(slot=60, left=300, lease=300)
    story.go(110)
    while story.keeper is not None:
        story.looked(others=1)
    story.go(119.999)
    if story.keeper is not None:
        story.looked(others=1)
    story.go(120)
    story.until(Claim)
    sent = story.t
    story.until_keeper(Look)
    story.jump(story.t + 0.001)
    story.looked(running(key("sync", 60), beat=9, left=-1, lease=300), others=1)
    story.claimed(closed(), sent=sent)
    assert key("sync", 60) in story.core._race.watches


def test_a_stale_look_does_not_bring_back_an_attempt_from_before_our_own():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(waiting(1))
    story.until(Claim)
    story.until_keeper(Look)
    story.claimed(won())
    story.looked(handed_over(key("sync", 600), attempt=1), others=1)
    run = lease("sync", 600, 2)
    story.returns(run)
    story.settled()
    story.wait(60)
    assert len(story.all(Claim)) == 2
    assert story.keeper is None
