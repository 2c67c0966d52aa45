"""What a claim offers, when backups look, and back-off: the timing paper, D6 to D10."""

from __future__ import annotations

from random import Random

import pytest

from anarchon._core_backoff import Backoff
from anarchon._messages import (
    Claim,
    Finish,
    Look,
    Renew,
)
from tests.core.harness import Story
from tests.core.words import (
    Once,
    closed,
    early,
    free,
    handed_over,
    held,
    job,
    key,
    lease,
    won,
)


def first_claim(story: Story, slot: float = 60) -> float:
    """Return how long after its slot the first claim is sent."""
    story.go(slot)
    story.until(Claim)
    return story.t - slot


def crowd(count: int, every: float = 60, **how: object) -> list:
    return [job(f"j{n:03}", every=every, **how) for n in range(count)]


# --- D6, D7: the offer --------------------------------------------------------


def test_an_offer_begins_with_the_slot_whose_job_is_due_again_soonest():
    again = {"a": 3600, "b": 120, "c": 660, "d": 90}
    story = Story(*(job(name, schedule=Once(60, at)) for name, at in again.items()))
    first_claim(story)
    assert [wish.key.job for wish in story.lane.wishes] == ["d", "b", "c", "a"]


def test_a_slot_that_is_never_due_again_comes_last():
    story = Story(job("once", schedule_at=60), job("b", every=60))
    first_claim(story)
    assert [wish.key.job for wish in story.lane.wishes] == ["b", "once"]


def test_equals_are_in_an_order_of_each_instances_own():
    orders = set()
    for seed in range(8):
        story = Story(start=False)
        dice = Random(seed)
        story.core._race.slots._rng = dice
        for spec in crowd(6):
            story.core.add(spec, story.now)
        story.tick()
        story.nothing_open()
        first_claim(story)
        orders.add(tuple(wish.key.job for wish in story.lane.wishes))
    assert len(orders) == 8


def test_takeovers_come_before_slots_and_a_job_is_named_once():
    story = Story(job("a", every=60), job("b", every=60))
    story.go(60)
    story.until(Claim)
    story.claimed(closed(), also=(handed_over(key("a", 0)), handed_over(key("a", -60))))
    first = story.until(Claim)
    assert [wish.key for wish in first.wishes] == [key("a", -60)]
    story.claimed(closed(), also=(handed_over(key("a", 0)),))
    story.jump(120)
    story.until(Claim)
    assert [wish.key for wish in story.lane.wishes] == [key("a", 0), key("b", 120)]


def test_an_offer_grows_while_it_is_exhausted_without_filling_the_bound():
    story = Story(*crowd(900), workers=500)
    first_claim(story)
    sizes, at = [], story.t
    while story.lane is not None:
        sizes.append(len(story.lane.wishes))
        story.claimed(held())
    assert sizes == [128, 512, 260]
    assert story.t == at


def test_a_filled_bound_does_not_make_the_offer_grow():
    story = Story(*crowd(300), workers=500)
    story.see_fleet(100)
    first_claim(story)
    story.claimed(*[won()] * 3, *[free()] * 125)
    assert len(story.until(Claim).wishes) == 128
    assert story.lane.wins == 6


def test_an_offer_never_grows_beyond_512():
    story = Story(*crowd(1800), workers=2000)
    first_claim(story)
    sizes = []
    while story.lane is not None:
        sizes.append(len(story.lane.wishes))
        story.claimed(held())
    assert sizes == [128, 512, 512, 512, 136]


def test_the_next_tick_begins_with_a_small_offer_again():
    story = Story(*crowd(300), workers=500)
    first_claim(story)
    while story.lane is not None:
        story.claimed(closed())
    assert len(story.all(Claim)) == 2
    story.go(120)
    story.until(Claim)
    assert len(story.lane.wishes) == 128


def test_takeovers_are_part_of_the_offer():
    story = Story(*crowd(200, every=6000), workers=500)
    story.go(6000)
    story.until(Claim)
    while story.lane is not None:
        story.claimed(held())
    story.until(Look)
    story.looked(*(handed_over(key(f"j{n:03}", 6000)) for n in range(200)))
    assert len(story.until(Claim).wishes) == 128
    story.claimed(held(attempt=2))
    assert len(story.until(Claim, within=1).wishes) == 72


# --- D8: looks ----------------------------------------------------------------


def test_the_first_look_has_a_random_phase_and_later_ones_vary_by_a_tenth():
    story = Story(job(every=6000), chance=0.0)
    story.back_up(slot=6000, left=3000, lease=3000)
    at = story.t
    story.until(Look)
    assert story.t - at == pytest.approx(1.0)
    for share, gap in [(0.5, 9.0), (1.0, 10.0), (0.0, 11.0)]:
        sent = story.t
        story.looked(others=1)
        story.chance.share = share
        story.until(Look)
        assert story.t - sent == pytest.approx(gap)


def test_there_is_one_look_for_all_watched_jobs():
    story = Story(job("b", every=600), job("a", every=600), job("c", every=600))
    story.go(600)
    story.until(Claim)
    story.claimed_by_job(a=held(), b=held(), c=closed())
    assert story.until(Look).jobs == ("a", "b")


def test_the_look_at_a_lease_end_is_the_earliest_known():
    story = Story(job("a", every=600), job("b", every=600), chance=0.999)
    story.go(600)
    story.until(Claim)
    at = story.t
    story.claimed_by_job(a=held(left=5), b=held(left=3))
    story.until(Look)
    assert story.t == pytest.approx(at + 3.002)
    story.looked(others=2, end=1.5)
    story.until(Look)
    assert story.t == pytest.approx(at + 3.002 + 1.502)


def test_a_renewed_lease_moves_the_extra_look():
    story = Story(job("a", every=600), chance=0.5)
    story.back_up("a", slot=600, left=8)
    at = story.t
    story.until(Look)
    assert story.t == pytest.approx(at + 5.5)
    story.looked(others=1, end=28)
    story.until(Look)
    assert story.t == pytest.approx(at + 15.5)


def test_a_look_that_got_no_answer_is_sent_again_at_once():
    story = Story(job(every=600))
    story.back_up(slot=600)
    story.until(Look)
    story.fail(Look)
    assert isinstance(story.keeper, Look)


def test_a_renewal_goes_before_a_look():
    story = Story(job("a", every=600), job("b", every=600))
    story.go(600)
    story.until(Claim)
    story.claimed_by_job(a=won(), b=held())
    story.jump(625)
    assert isinstance(story.keeper, Renew)
    story.renewed(sent=625)
    assert isinstance(story.keeper, Look)


# --- D10: back-off ------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_first_repeat_is_at_once_then_pauses_double(share):
    class Dice(Random):
        def random(self) -> float:
            return share

    gate = Backoff(5.0, Dice())
    pauses = []
    for n in range(10):
        gate.failed(100.0 * n)
        pauses.append(round(gate.until - 100.0 * n, 6))
    full = [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert pauses == pytest.approx([p * (0.5 + share / 2) for p in full])
    assert not gate.is_open(gate.until - 0.001)
    assert gate.is_open(gate.until)
    gate.answered()
    assert gate.is_open(0)
    gate.failed(0)
    assert gate.until == 0


def test_a_year_of_failures_overflows_nothing():
    gate = Backoff(5.0, Random(1))
    for _ in range(100_000):
        gate.failed(0)
    assert 2.5 <= gate.until <= 5.0


@pytest.mark.parametrize(
    ("heartbeat", "calls", "renewals"), [(20, 5.0, 2.0), (10, 5.0, 1.0), (4, 2.0, 0.4)]
)
def test_the_caps(heartbeat, calls, renewals):
    story = Story(lease=3 * heartbeat, heartbeat=heartbeat)
    assert story.core._calls.outage.calls._cap == calls
    assert story.core._calls.outage.renewals._cap == renewals


def test_one_gate_for_claims_finishes_and_looks_another_for_renewals():
    story = Story(job("a", every=600), job("b", every=600), job("c", schedule_at=620))
    story.go(600)
    story.until(Claim)
    story.claimed_by_job(a=won(), b=held())
    run = lease("a", 600)
    for _ in range(5):
        story.until_keeper(Look)
        story.fail(Look)
    assert story.down()
    shut = story.t
    story.returns(run)
    assert story.lane is None
    story.until(Finish)
    assert story.t > shut
    while not isinstance(story.keeper, Renew):
        if story.keeper is not None:
            story.fail(Look)
        if story.lane is not None:
            story.fail()
        story.jump(story.wakeup())
    assert story.t == pytest.approx(610.01)


def test_early_slots_and_claimable_ones_are_claimed_apart():
    story = Story(*crowd(4), workers=100)
    first_claim(story)
    story.claimed(early(3), early(3), won(), closed())
    at = story.t
    assert len(story.until(Claim).wishes) == 2
    assert story.t - at == pytest.approx(3.02, abs=0.002)  # a run is going on here
