"""Schedules that answer later: their own job waits, and nobody else does."""

from __future__ import annotations

import pytest

from anarchon._core_schedules import Known
from anarchon._messages import Claim, Later, Note, NotYet
from tests.core.harness import Story
from tests.core.words import Once, closed, job, key, ms


class Slow(Once):
    """Says `NotYet` while it is slow, to one question at a time, as a thread would."""

    def __init__(self, *slots: float) -> None:
        super().__init__(*slots)
        self.is_slow = True
        self.asked: list[tuple[str, int]] = []
        self.is_busy = False

    def next_after_ms(self, t_ms: int) -> int | None:
        self._hear("next_after_ms", t_ms)
        return super().next_after_ms(t_ms)

    def latest_ms(self, t_ms: int) -> int | None:
        self._hear("latest_ms", t_ms)
        return super().latest_ms(t_ms)

    def _hear(self, method: str, t_ms: int) -> None:
        if not self.is_busy:
            self.asked.append((method, t_ms))
        if self.is_slow:
            self.is_busy = True
            raise NotYet

    def answer(self) -> Later:
        """Answer the question."""
        assert self.is_busy
        self.is_busy = False
        method, t_ms = self.asked[-1]
        return Later(self, method, t_ms, getattr(super(), method)(t_ms))


def story_of(*schedules: object, catch_up: float = 0) -> Story:
    return Story(*(job(f"j{n}", schedule=s, catch_up=catch_up) for n, s in enumerate(schedules)))


def hear(story: Story, later: Later) -> None:
    story.core.schedule_answered(later, story.now)
    story.tick()


def look_ahead(story: Story) -> None:
    while story.core.is_behind:
        story.core.look_ahead(story.now)


def troubles(story: Story) -> list[str]:
    return [a.detail for _, a in story.log if isinstance(a, Note) and a.kind == "schedule"]


def claimed(story: Story, t: float) -> list:
    story.go(t)
    return [wish.key for wish in story.until(Claim).wishes]


def test_the_job_goes_on_with_the_answer_and_is_not_asked_again():
    slow = Slow(60, 120)
    story = story_of(slow)
    hear(story, slow.answer())
    # What comes next, and then which slot was the latest.
    assert [method for method, _ in slow.asked] == ["next_after_ms", "latest_ms"]
    hear(story, slow.answer())
    hear(story, slow.answer())
    assert slow.asked[2:] == [("next_after_ms", ms(60))]
    assert claimed(story, 60) == [key("j0", 60)]
    assert troubles(story) == []


def test_others_go_on_meanwhile():
    story = story_of(Slow(60), Once(0.5, 60))
    assert claimed(story, 0.5) == [key("j1", 0.5)]


def test_who_looks_ahead_keeps_the_slot_that_is_known():
    slow = Slow(60, 120)
    slow.is_slow = False
    story = story_of(slow)
    slow.is_slow = True
    look_ahead(story)
    hear(story, slow.answer())
    assert claimed(story, 60) == [key("j0", 60)]
    story.claimed(closed())
    assert claimed(story, 120) == [key("j0", 120)]
    assert troubles(story) == []


def test_an_answer_after_the_next_slot_was_due_is_in_time_for_the_one_after_it():
    slow = Slow(0.2, 0.4, 60)
    slow.is_slow = False
    story = story_of(slow)
    slow.is_slow = True
    assert claimed(story, 0.2) == [key("j0", 0.2)]
    story.claimed(closed())
    answer = slow.answer()
    story.go(0.5)
    hear(story, answer)
    # It said that 0.4 comes next, which is past: it is asked anew, for now.
    assert slow.asked[-1] == ("next_after_ms", story.now.wall_ms)
    hear(story, slow.answer())
    assert claimed(story, 60) == [key("j0", 60)]


def test_one_that_takes_too_long_has_failed_and_is_told_of_once():
    slow = Slow(0, 60, 300)
    story = story_of(slow)
    story.go(0.9)
    assert troubles(story) == []
    story.go(200)
    assert troubles(story) == ["TimeoutError: no answer within 1 s"]
    assert len(slow.asked) == 1


def test_an_answer_that_comes_too_late_waits_for_the_trial():
    slow = Slow(0, 60, 300)
    story = story_of(slow)
    late = slow.answer()
    story.go(30)
    hear(story, late)
    slow.is_slow = False
    story.go(60)
    assert len(slow.asked) == 1
    assert claimed(story, 300) == [key("j0", 300)]
    assert troubles(story) == ["TimeoutError: no answer within 1 s", ""]


def test_who_fails_is_shown_until_it_works():
    slow = Slow(60, 90)
    story = story_of(slow, Once(1000))
    assert story.core.suspended() == ()
    hear(story, slow.answer()._replace(answer=ValueError("bad")))
    assert story.core.suspended() == ("j0",)
    story.go(60.5)  # its trial waits for an answer
    assert story.core.suspended() == ("j0",)
    assert len(slow.asked) == 2
    hear(story, slow.answer())
    assert story.core.suspended() == ()
    assert troubles(story) == ["ValueError: bad", ""]
    hear(story, slow.answer()._replace(answer=ValueError("worse")))
    story.core.remove("j0")
    assert story.core.suspended() == ()


def test_an_error_that_comes_later_is_an_error():
    slow = Slow(60, 90)
    story = story_of(slow)
    hear(story, slow.answer()._replace(answer=ValueError("bad")))
    assert troubles(story) == ["ValueError: bad"]
    slow.is_slow = False
    assert claimed(story, 90) == [key("j0", 90)]


def test_all_jobs_on_it_go_on_with_one_answer():
    slow = Slow(60, 120)
    story = story_of(slow, slow, Once(60))
    hear(story, slow.answer())
    assert set(claimed(story, 60)) == {key("j0", 60), key("j1", 60), key("j2", 60)}
    assert len(slow.asked) == 2


def test_a_job_that_is_gone_waits_no_more():
    slow = Slow(60, 120)
    story = story_of(slow)
    story.core.remove("j0")
    hear(story, slow.answer())
    story.go(100)
    assert troubles(story) == []
    assert len(slow.asked) == 1


def test_nothing_is_heard_while_it_stops():
    slow = Slow(60, 120)
    story = story_of(slow)
    story.stop()
    hear(story, slow.answer())
    assert story.core.stopped


@pytest.mark.parametrize("is_slow", [True, False])
def test_what_could_not_be_caught_up_at_first_is_caught_up_later(is_slow):
    slow = Slow(-100, 600)
    if not is_slow:
        slow._hear = lambda method, t_ms: (_ for _ in ()).throw(ValueError("bad"))
    story = story_of(slow, catch_up=3600)
    if is_slow:
        hear(story, slow.answer())
        hear(story, slow.answer())
    else:
        del slow._hear
        slow.is_slow = False
        story.go(60)
    call = story.until(Claim)
    assert [(wish.key, wish.reason) for wish in call.wishes] == [(key("j0", -100), "catch-up")]


def test_none_is_an_answer_too():
    for nothing, times in ((float("inf"), (5, 99)), (float("-inf"), (5, -99))):
        known = Known(nothing)
        assert known.find("schedule", 5) is None
        known.keep("schedule", 5, None)
        assert [known.find("schedule", t) for t in times] == [(None,), (None,)]
    assert known.find("schedule", 6) is None


def test_a_stop_forgets_who_waits_and_who_fails():
    slow, failing = Slow(60), Slow(60)
    story = story_of(slow, failing)
    hear(story, failing.answer()._replace(answer=ValueError("bad")))
    assert story.core.suspended() == ("j1",)
    story.stop()
    assert story.core.suspended() == ()
    assert list(story.core._race.slots.schedules.wakeups()) == []
