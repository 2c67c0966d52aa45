"""The slots that passed while the store gave no answer: one record covers them all."""

from __future__ import annotations

from anarchon._messages import (
    Claim,
    Skip,
    Unfinished,
)
from tests.core.harness import Story, claimed_slots
from tests.core.words import (
    ME,
    T0,
    closed,
    free,
    held,
    job,
    key,
    ms,
    told_alike,
    won,
)


def unreachable(story: Story, until: float) -> None:
    """Let time pass while no call is answered."""
    while story.t < until:
        if story.lane is not None:
            story.fail()
        elif story.keeper is not None:
            story.fail(type(story.keeper))
        else:
            story.jump(min(story.wakeup(), until))


def test_one_record_covers_the_slots_of_an_outage_and_names_the_first():
    story = Story(job(catch_up=3600))
    story.until(Claim)
    story.claimed(closed())
    story.go(10)
    story.until(Claim)
    unreachable(story, 65)
    while story.lane is None:
        story.jump(story.wakeup())
    assert story.lane.wins == 0  # slot 10, which a newer one has overtaken
    story.claimed(free())
    (wish,) = story.until(Skip).wishes
    assert (wish.key, wish.next_ms) == (key("sync", 50), ms(60))
    assert wish.detail == "store unreachable; slots since 2027-01-15T08:00:10.000Z"
    story.claimed(closed("missed", by=ME, detail=wish.detail))
    assert [(seen.event, seen.slot) for seen in story.events()] == [("missed", 50)]
    story.nothing_open()
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 60, "scheduled")]


def test_the_record_of_an_outage_stands_alone_when_the_claim_before_it_was_answered_otherwise():
    story = Story(job(catch_up=3600))
    story.until(Claim)
    story.claimed(closed())
    story.go(10)
    story.until(Claim)
    unreachable(story, 65)
    while story.lane is None:
        story.jump(story.wakeup())
    story.claimed(closed())
    (wish,) = story.until(Skip).wishes
    assert wish.key == key("sync", 50)
    assert wish.detail == "store unreachable; slots since 2027-01-15T08:00:20.000Z"


def test_slots_missed_before_an_outage_are_part_of_its_record():
    story = Story(job("a", schedule_at=10), job("b"), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.renewing_until_t(20)
    assert story.lane.wishes[0].detail == "no free worker"
    unreachable(story, 55)
    while not isinstance(story.lane, Skip):
        story.jump(story.wakeup())
    (wish,) = story.lane.wishes
    assert wish.key == key("b", 40)
    assert wish.detail == "store unreachable; slots since 2027-01-15T08:00:10.000Z"


def test_a_single_slot_in_an_outage_is_named_alone():
    story = Story(job(every=60, catch_up=3600))
    story.until(Claim)
    story.claimed(closed())
    story.go(60)
    story.until(Claim)
    unreachable(story, 125)
    while story.lane is None:
        story.jump(story.wakeup())
    story.claimed(free())
    (wish,) = story.until(Skip).wishes
    assert (wish.key, wish.detail) == (key("sync", 60), "not claimed in time")


def next_skip(story: Story) -> Skip | None:
    """Return the skip that comes next, if one does; others have what is claimed before."""
    while isinstance(story.lane, Claim | Unfinished):
        if isinstance(story.lane, Claim):
            story.claimed(closed())
        else:
            story.nothing_open()
    return story.lane


def after_an_outage(story: Story) -> None:
    """Slots 10 to 50 passed without an answer, and slot 10 was not won either."""
    story.until(Claim)
    story.claimed(closed())
    story.go(10)
    story.until(Claim)
    unreachable(story, 65)
    while story.lane is None:
        story.jump(story.wakeup())
    story.claimed(free())


def test_the_record_of_an_outage_goes_to_the_last_slot_that_nobody_had():
    """Others came back sooner: the last slot or two are theirs."""
    story = Story(job(catch_up=3600))
    after_an_outage(story)
    for slot, answer in [(50, closed()), (40, held()), (30, closed("missed", by=ME))]:
        (wish,) = next_skip(story).wishes
        assert (wish.key, wish.next_ms) == (key("sync", slot), ms(slot + 10))
        assert wish.detail == "store unreachable; slots since 2027-01-15T08:00:10.000Z"
        story.claimed(answer)
    assert next_skip(story) is None
    assert [(seen.event, seen.slot) for seen in story.events()] == [("missed", 30)]


def test_the_record_of_an_outage_is_dropped_when_somebody_had_every_slot():
    story = Story(job(catch_up=3600))
    after_an_outage(story)
    for _ in range(5):
        assert isinstance(next_skip(story), Skip)
        story.claimed(closed())
    assert next_skip(story) is None
    assert story.events() == []


def test_the_record_of_an_outage_is_not_looked_a_place_for_without_end():
    story = Story(job(every=1, catch_up=3600, lease=30))
    story.until(Claim)
    story.claimed(closed())
    story.go(1)
    story.until(Claim)
    unreachable(story, 65)
    while story.lane is None:
        story.jump(story.wakeup())
    story.claimed(closed())
    tries = 0
    while isinstance(next_skip(story), Skip):
        tries += 1
        story.claimed(closed())
    assert tries == 33


def test_who_looks_for_a_place_claims_first():
    """It may take many calls, while there is a slot to run or a run to take over."""
    story = Story(job(catch_up=3600))
    after_an_outage(story)
    story.until(Skip)
    story.claimed(closed())
    story.nothing_open()
    story.until(Claim, within=0.1)
    assert claimed_slots(story) == [("sync", 60, "scheduled")]
    story.claimed(closed())
    assert story.lane.wishes[0].key == key("sync", 40)


def test_what_somebody_else_recorded_as_missed_is_not_recorded_again():
    story = Story(job(catch_up=3600))
    after_an_outage(story)
    story.until(Skip)
    story.claimed(told_alike())
    assert next_skip(story) is None
    assert story.events() == []


def test_the_slots_before_those_of_somebody_elses_record_are_looked_for():
    """That outage began later than ours: slots 40 and 50 are told."""
    story = Story(job(catch_up=3600))
    after_an_outage(story)
    story.until(Skip)
    theirs = "store unreachable; slots since 2027-01-15T08:00:40.000Z"
    story.claimed(closed("missed", detail=theirs))
    (wish,) = next_skip(story).wishes
    assert (wish.key, wish.next_ms) == (key("sync", 30), ms(40))
    assert wish.detail == "store unreachable; slots since 2027-01-15T08:00:10.000Z"


def test_a_record_in_other_words_stands_for_its_slot_alone():
    story = Story(job(catch_up=3600))
    after_an_outage(story)
    story.until(Skip)
    story.claimed(closed("missed", detail="lost in the post; slots since Friday"))
    assert next_skip(story).wishes[0].key == key("sync", 40)


def test_whoever_was_suspended_records_what_nobody_had_before_the_latest_slots():
    """Everybody else died meanwhile, and those that came then have slots 40 and 50."""
    story = Story(job(catch_up=3600))
    story.until(Claim)
    story.claimed(closed())
    story.jump(60)
    for slot, answer in [(50, closed()), (40, held()), (30, closed("missed", by=ME))]:
        (wish,) = story.until(Skip).wishes
        assert wish.key == key("sync", slot)
        assert wish.detail.startswith("not claimed in time; slots since ")
        story.claimed(answer)
    assert [(seen.event, seen.slot) for seen in story.events()] == [("missed", 30)]


def test_a_record_that_looks_for_a_place_leaves_newer_ones_alone():
    story = Story(job(catch_up=3600), workers=1)
    after_an_outage(story)
    story.until(Skip)
    story.jump(70)
    story.claimed(closed())
    slots = {(wish.key.slot_ms - T0) // 1000 for call in story.all(Skip)[-1:] for wish in call[0]}
    assert slots <= {40, 60}


def test_a_record_that_looks_for_a_place_may_find_its_job_gone():
    story = Story(job(catch_up=3600))
    after_an_outage(story)
    story.until(Skip)
    story.core.remove("sync")
    story.claimed(closed())
    assert next_skip(story) is None
