"""How many store calls are made: one for each thing that happens, none while nothing does."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from anarchon._messages import (
    Claim,
    Finish,
    Look,
    Renew,
    StoreDown,
    StoreUp,
    Unfinished,
)
from tests.core.harness import Story
from tests.core.stage import KEEPER, LANE
from tests.core.words import closed, held, job, key, lease, running, waiting, won


def calls(story: Story) -> Counter[str]:
    return Counter(type(a).__name__ for _, a in story.log if isinstance(a, LANE | KEEPER))


def test_start_asks_once_for_open_runs_and_nothing_else():
    story = Story(*(job(f"j{n}", every=600) for n in range(100)))
    story.go(599)
    assert calls(story) == {"Unfinished": 1}


def test_nothing_is_sent_while_nothing_is_due_running_or_watched():
    story = Story(job(every=3600))
    for slot in (3600, 7200, 10_800):
        story.go(slot)
        story.until(Claim)
        story.claimed(closed())
    story.go(14_399)
    assert calls(story) == {"Unfinished": 1, "Claim": 3}


def test_one_job_due_is_one_claim_and_for_the_winner_one_finish():
    story = Story(job())
    for slot in range(10, 110, 10):
        run = story.win(slot=slot)
        story.returns(run)
        story.settled()
    assert calls(story) == {"Unfinished": 1, "Claim": 10, "Finish": 10}


def test_slots_due_together_are_one_claim_and_ends_that_come_together_one_finish():
    story = Story(*(job(f"j{n}") for n in range(8)))
    runs = story.win_all(*(f"j{n}" for n in range(8)))
    for run in runs:
        story.returns(run)
    story.settled()
    assert len(story.lane.results) == 7
    story.settled()
    assert calls(story) == {"Unfinished": 1, "Claim": 1, "Finish": 2}


def test_live_leases_are_one_renewal_per_heartbeat():
    story = Story(*(job(f"j{n}", every=600) for n in range(8)))
    story.win_all(*(f"j{n}" for n in range(8)), slot=600)
    story.renewing_until_t(700.005)
    assert calls(story) == {"Unfinished": 1, "Claim": 1, "Renew": 9}
    story.renewing_until_t(700.02)
    assert calls(story)["Renew"] == 10


def test_renewals_end_with_the_last_run_and_begin_a_heartbeat_after_the_next():
    story = Story(job(every=100))
    run = story.win(slot=100)
    story.renewing_until_t(111)
    story.returns(run)
    story.settled()
    story.renewing_until_t(200)
    assert calls(story)["Renew"] == 1
    story.until(Claim)
    story.claimed(won())
    story.until(Renew)
    assert story.t == pytest.approx(210.01)


def test_a_watcher_looks_once_per_heartbeat_and_once_after_the_earliest_lease_end():
    story = Story(job(every=6000))
    story.back_up(slot=6000, left=25)
    looks = []
    while story.t < 6095:
        story.until(Look)
        looks.append(round(story.t - 6000.01, 3))
        left = 6025.01 - story.t
        story.looked(others=1, end=left if left > 0 else 25 - (story.t - 6025.01) % 25)
    extra = [at for at in looks if round((at - 5.5) % 10, 3) not in (0.0, 10.0)]
    assert extra == [25.002, 50.002, 75.002]
    assert len(looks) == 10 + 3
    assert len(story.all(Claim)) == 1


def test_a_watched_run_that_ended_is_one_more_look_at_most():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.looked(others=0)
    story.go(1199)
    assert calls(story) == {"Unfinished": 1, "Claim": 1, "Look": 1}


def test_a_paused_run_costs_one_claim_per_look():
    story = Story(job(every=600))
    story.go(600)
    story.until(Claim)
    story.claimed(waiting())
    while story.t < 650:
        if isinstance(story.until(Claim | Look), Claim):
            story.claimed(waiting())
        else:
            story.looked(running(key("sync", 600), left=20), others=1)
    assert calls(story)["Look"] == 6
    assert calls(story)["Claim"] <= 7


# --- outages --------------------------------------------------------------------


def outage_events(story: Story) -> list[str]:
    return [type(a).__name__ for _, a in story.log if isinstance(a, StoreDown | StoreUp)]


def test_one_failure_is_no_outage():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.fail()
    story.claimed(closed())
    assert outage_events(story) == []


def test_an_outage_is_told_of_once_however_long():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    error = ConnectionError("refused")
    story.fail(error=error)
    story.fail(error=error)
    assert story.all(StoreDown) == [StoreDown(error)]
    while story.t < 300:
        story.until(LANE)
        story.fail()
    story.until(LANE)
    story.claimed(closed())
    assert outage_events(story) == ["StoreDown", "StoreUp"]


def test_while_nothing_is_needed_nothing_is_tried():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.outage(Look)
    story.looked(others=0)
    story.nothing_open()
    before = calls(story)
    story.go(1199)
    assert calls(story) == before


def test_an_outage_of_renewals_alone_is_over_when_one_is_answered():
    story = Story(job("a", every=600), job("b", every=600))
    story.go(600)
    story.until(Claim)
    story.claimed_by_job(a=won(), b=held())
    story.fail_renewals_until(611)
    assert outage_events(story) == ["StoreDown"]
    story.until_keeper(Renew)
    story.renewed()
    assert outage_events(story) == ["StoreDown", "StoreUp"]


def test_an_outage_of_renewals_is_over_when_nothing_is_left_to_renew():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.fail_renewals_until(612)
    assert outage_events(story) == ["StoreDown"]
    story.returns(run)
    story.settled()
    assert outage_events(story) == ["StoreDown", "StoreUp"]


def test_calls_that_fail_keep_an_outage_going_though_renewals_are_answered():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.returns(run)
    story.fail()
    story.fail()
    assert outage_events(story) == ["StoreDown"]
    while not isinstance(story.keeper, Renew):
        if story.lane is not None:
            story.fail()
        story.jump(story.wakeup())
    story.renewed()
    assert outage_events(story) == ["StoreDown"]
    story.until(Finish)
    story.settled()
    assert outage_events(story) == ["StoreDown", "StoreUp"]


def test_looks_that_are_answered_do_not_end_an_outage_of_what_has_to_be_written():
    """A file that another program has locked can be read all the same."""
    story = Story(job("a", every=600), job("b", every=600))
    story.go(600)
    story.until(Claim)
    story.claimed_by_job(a=won(), b=held())
    run = story.started()[0]
    story.returns(run)
    story.fail(Finish)
    story.fail(Finish)
    while not isinstance(story.keeper, Look):
        if story.lane is not None:
            story.fail(Finish)
        story.jump(story.wakeup())
    story.looked(others=1)
    assert outage_events(story) == ["StoreDown"]
    if story.lane is None:
        story.until(Finish)
    story.settled()
    assert outage_events(story) == ["StoreDown", "StoreUp"]


def test_a_second_outage_is_told_of_again():
    story = Story(job())
    for slot in (10, 20):
        story.go(slot)
        story.until(Claim)
        story.fail()
        story.fail()
        story.until(Claim)
        story.claimed(closed())
        story.nothing_open()
        if story.lane is not None:
            story.claimed(closed())
    assert outage_events(story) == ["StoreDown", "StoreUp"] * 2


def test_failed_renewals_are_repeated_at_once_then_within_a_tenth_of_a_heartbeat():
    story = Story(job(every=600))
    story.win(slot=600)
    at = []
    for _ in range(8):
        story.until(Renew)
        at.append(story.t)
        story.fail(Renew)
    gaps = [round(b - a, 3) for a, b in pairwise(at)]
    assert gaps == [0, 0.075, 0.15, 0.3, 0.6, 0.75, 0.75]


def test_an_answer_of_the_wrong_type_counts_as_none():
    story = Story(job(every=600))
    story.win(slot=600)
    story.until(Renew)
    story.answer(Renew, object())
    assert isinstance(story.keeper, Renew)
    story.answer(Renew, object())
    (down,) = story.all(StoreDown)
    assert str(down.error) == "the store answered Renew with the wrong type"
    assert isinstance(down.error, TypeError)


@pytest.mark.parametrize("kind", [Unfinished, Claim, Finish, Look])
def test_every_call_is_repeated_after_an_answer_of_the_wrong_type(kind):
    story = Story(job(every=600), start=False)
    story.tick()
    if kind is not Unfinished:
        story.nothing_open()
        story.go(600)
        story.until(Claim)
    if kind is Finish:
        story.claimed(won())
        story.returns(lease("sync", 600))
    if kind is Look:
        story.claimed(held())
        story.until(Look)
    call = story.keeper or story.lane
    story.answer(kind, "what?")
    assert (story.keeper or story.lane) == call
