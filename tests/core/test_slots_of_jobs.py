"""Schedules that fail, and jobs that come and go."""

from __future__ import annotations

import pytest

from anarchon._messages import (
    Claim,
    Skip,
)
from tests.core.harness import Story, claimed_slots
from tests.core.words import (
    Once,
    closed,
    free,
    held,
    job,
    key,
    lease,
    won,
)

# --- schedules that fail ------------------------------------------------------


class Moody(Once):
    """A grid of ten seconds that raises while it is in a bad mood."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.asked = 0

    def next_after_ms(self, t_ms: int) -> int:
        self._ask()
        return (t_ms // 10_000 + 1) * 10_000

    def latest_ms(self, t_ms: int) -> int:
        self._ask()
        return t_ms // 10_000 * 10_000

    def _ask(self) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error


class Unprintable(Exception):
    def __init__(self, kind: type[BaseException]) -> None:
        super().__init__()
        self.kind = kind

    def __str__(self) -> str:
        raise self.kind("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (SystemExit(3), "SystemExit: 3"),
        *(
            (Unprintable(kind), f"Unprintable: (no text: its str() raised {kind.__name__})")
            for kind in (RuntimeError, SystemExit, KeyboardInterrupt)
        ),
    ],
)
def test_a_schedule_that_raises_suspends_its_own_job_and_is_told_of_once(error, text):
    moody = Moody()
    story = Story(job("moody", schedule=moody), job("fine"))
    moody.error = error
    for slot in range(10, 200, 10):
        story.go(slot)
        call = story.until(Claim)
        assert ("fine" in [wish.key.job for wish in call.wishes]) is True
        story.claimed(closed())
    assert story.notes()[0] == ("schedule", "moody", text)
    assert [note for note in story.notes() if note[0] == "schedule"] == [
        ("schedule", "moody", text)
    ]


def test_a_suspended_job_is_asked_again_each_minute_and_goes_on():
    moody = Moody(ValueError("bad"))
    story = Story(job("moody", schedule=moody))
    asked = moody.asked
    assert story.wakeup() == pytest.approx(60)
    story.go(59)
    assert moody.asked == asked
    story.go(60)
    assert moody.asked == asked + 1
    assert story.wakeup() == pytest.approx(120)
    moody.error = None
    story.go(120)
    story.go(130)
    story.until(Claim)
    assert claimed_slots(story) == [("moody", 130, "scheduled")]
    assert [note[2] for note in story.notes()] == ["ValueError: bad", ""]
    story.claimed(closed())
    moody.error = ValueError("again")
    story.go(140)
    assert len(story.notes()) == 4  # taken, and the second trouble
    assert story.notes()[-1] == ("schedule", "moody", "ValueError: again")


def test_a_schedule_that_fails_when_its_slot_is_due_still_runs_that_slot():
    moody = Moody()
    story = Story(job("moody", schedule=moody))
    moody.error = ValueError("bad")
    story.go(10)
    story.until(Claim)
    assert claimed_slots(story) == [("moody", 10, "scheduled")]
    story.claimed(closed())
    moody.error = None
    story.go(70)
    story.go(80)
    story.until(Claim)
    assert claimed_slots(story) == [("moody", 80, "scheduled")]


def test_a_suspended_job_that_is_removed_is_not_asked_again():
    moody = Moody(ValueError("bad"))
    story = Story(job("moody", schedule=moody))
    story.core.remove("moody")
    assert story.wakeup() == float("inf")


def test_a_schedule_that_fails_while_catching_up_still_has_its_next_slot():
    class Half(Moody):
        def latest_ms(self, t_ms: int) -> int:
            raise ValueError("only forwards")

    story = Story(job("half", schedule=Half(), catch_up=3600))
    story.go(10)
    story.until(Claim)
    assert claimed_slots(story) == [("half", 10, "scheduled")]
    story.claimed(closed())
    story.go(65)
    story.jump(65)
    # What comes next can be computed again; that is told of as well.
    told = [note[2] for note in story.notes() if note[0] == "schedule"]
    assert told == ["ValueError: only forwards", ""]


def test_a_schedule_that_forgets_the_past_after_a_long_sleep_runs_what_was_due():
    class Forgetful(Moody):
        def latest_ms(self, t_ms: int) -> None:
            return None

    story = Story(job("moody", schedule=Forgetful()))
    story.jump(15)
    story.until(Claim)
    story.claimed(closed())
    story.jump(45)
    story.until(Skip | Claim)
    assert story.all(Claim)[0].wishes[0].key == key("moody", 10)


# --- jobs that come and go ----------------------------------------------------


def test_a_replaced_job_keeps_its_run_and_has_new_slots():
    story = Story(job())
    run = story.win()
    story.core.add(job(every=25), story.now)
    story.tick()
    story.nothing_open()
    story.returns(run)
    story.settled()
    assert [seen.event for seen in story.events()] == ["success"]
    story.go(25)
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 25, "scheduled")]


def test_a_replaced_job_keeps_the_fence_it_has_seen():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(won(fence=99))
    story.core.add(job(), story.now)
    story.tick()
    story.nothing_open()
    story.go(20)
    (wish,) = story.until(Claim).wishes
    assert wish.fence_seen == 99


def test_the_highest_fence_seen_is_what_counts():
    story = Story(job())
    for slot, fence, seen in [(10, 50, 0), (20, 40, 50), (30, 60, 50), (40, 61, 60)]:
        story.go(slot)
        (wish,) = story.until(Claim).wishes
        assert wish.fence_seen == seen
        story.claimed(won(fence=fence))
        story.returns(lease("sync", slot))
        story.settled()


def test_a_job_replaced_while_its_run_goes_on_is_not_caught_up_with_it():
    story = Story(job(every=600, catch_up=3600))
    story.until(Claim)
    story.claimed(won())
    story.core.add(job(every=600, catch_up=3600), story.now)
    story.tick()
    story.nothing_open()
    story.renewing_until_t(601)
    assert not story.all(Skip)
    assert len(story.all(Claim)) == 2


def test_a_removed_job_is_neither_scheduled_nor_watched_and_its_run_goes_on():
    story = Story(job("a"), job("b"))
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(), b=held())
    assert story.core.remove("a")
    assert story.core.remove("b")
    assert not story.core.remove("b")
    story.renewing_until_t(45)
    assert len(story.all(Claim)) == 1
    story.returns(lease("a", 10))
    story.settled()
    assert [seen.event for seen in story.events()] == ["success"]
    assert story.wakeup() == float("inf")


def test_a_removed_job_leaves_no_missed_slots():
    story = Story(job("a"), job("b"), workers=1)
    story.go(10)
    story.until(Claim)
    story.claimed_by_job(a=won(left=3600), b=free())
    story.core.remove("b")
    story.renewing_until_t(19)
    story.go(20)
    assert not story.all(Skip)


def test_a_removed_job_that_is_added_again_begins_anew():
    story = Story(job())
    story.go(10)
    story.until(Claim)
    story.claimed(closed())
    story.core.remove("sync")
    story.go(35)
    story.core.add(job(), story.now)
    story.tick()
    story.nothing_open()
    story.go(40)
    story.until(Claim)
    assert claimed_slots(story) == [("sync", 40, "scheduled")]


def test_a_pending_slot_of_a_job_that_is_replaced_is_the_old_ones():
    story = Story(job())
    story.go(10)
    story.core.add(job(every=25), story.now)
    story.tick()
    story.nothing_open()
    story.go(24)
    assert not story.all(Claim)


def test_a_removed_job_is_not_closed_as_missed_again():
    story = Story(job())
    story.jump(30)
    story.until(Skip)
    assert story.core.remove("sync") is True
    story.fail()
    assert story.lane is None
    assert story.core.remove("sync") is False
    assert story.core._race.slots.settle(key("sync", 30)) is False


def test_schedules_that_fail_are_tried_again_each_in_its_own_time():
    first, second = Moody(ValueError("bad")), Moody(ValueError("bad"))
    story = Story(job("first", schedule=first))
    story.go(30)
    story.core.add(job("second", schedule=second), story.now)
    story.tick()
    story.nothing_open()
    tried = []
    for _ in range(4):
        before = (first.asked, second.asked)
        story.go(story.wakeup())
        tried.append((round(story.t), first.asked - before[0], second.asked - before[1]))
    assert tried == [(60, 1, 0), (90, 0, 1), (120, 1, 0), (150, 0, 1)]
    first.error = None
    story.go(180)
    story.chance.share = 0
    for slot in (190, 200, 210):
        before = second.asked
        story.go(slot)
        story.claimed(closed())
    assert second.asked == before + 1
