"""Slots computed ahead: nothing is asked between a tick and its claims, and equals once."""

from __future__ import annotations

import pytest

from anarchon import _core_schedules
from anarchon._core_schedules import Known
from anarchon._messages import Claim, Note
from anarchon.schedules import Cron
from tests.core.harness import Story
from tests.core.words import Once, closed, free, job, key, ms, won


class Grid:
    """Every so many seconds; counts what it is asked, and is equal to others like it."""

    asked = 0

    def __init__(self, seconds: int, name: object = None) -> None:
        self.period = seconds * 1000
        self.value = (seconds, name)

    def next_after_ms(self, t_ms: int) -> int:
        Grid.asked += 1
        return (t_ms // self.period + 1) * self.period

    def latest_ms(self, t_ms: int) -> int:
        Grid.asked += 1
        return t_ms // self.period * self.period

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@pytest.fixture(autouse=True)
def counted_anew():
    Grid.asked = 0


def look_ahead(story: Story) -> int:
    """Compute all there is ahead; return in how many steps."""
    steps = 0
    while story.core.is_behind:
        story.log.extend((story.t, action) for action in story.core.look_ahead(story.now))
        steps += 1
    return steps


def story_of(*schedules: object) -> Story:
    jobs = [job(f"j{n}", schedule=s, catch_up=0) for n, s in enumerate(schedules)]
    return Story(*jobs, workers=5)


def to_the_claim(story: Story) -> Claim:
    story.go(60)
    return story.until(Claim)


def test_nothing_is_asked_between_a_tick_and_its_claims():
    story = story_of(*(Grid(60, n) for n in range(200)))
    look_ahead(story)
    Grid.asked = 0
    assert len(to_the_claim(story).wishes) == 128
    assert Grid.asked == 0
    story.claimed(*[won()] * 5, *[free()] * 123)
    assert Grid.asked == 0
    look_ahead(story)
    assert Grid.asked == 200
    look_ahead(story)
    assert Grid.asked == 200


def test_ten_thousand_jobs_cost_as_much_as_they_have_different_schedules():
    story = story_of(*(Grid(60, n % 100) for n in range(10_000)))
    look_ahead(story)
    # The first slot, the one after it, and nothing is caught up.
    assert Grid.asked <= 3 * 100
    Grid.asked = 0
    to_the_claim(story)
    assert Grid.asked == 0
    look_ahead(story)
    assert Grid.asked == 100


def test_ten_thousand_cron_jobs_compute_each_expression_and_zone_once(monkeypatch):
    asked = []
    compute = Cron.next_after_ms

    def counted(cron, t_ms):
        asked.append((cron.expression, cron.timezone))
        return compute(cron, t_ms)

    monkeypatch.setattr(Cron, "next_after_ms", counted)
    zones = ["UTC", "Europe/Athens", "Asia/Tokyo", "America/Havana"]
    texts = [f"*/{n} * * * *" for n in (1, 2, 3, 5, 6)]
    story = story_of(*(Cron(texts[n % 5], zones[n // 5 % 4]) for n in range(10_000)))
    look_ahead(story)
    asked.clear()
    assert len(to_the_claim(story).wishes) == 128
    assert asked == []
    look_ahead(story)
    # Those of every minute alone are due: one expression in four zones.
    assert sorted(asked) == sorted((texts[0], zone) for zone in zones)


def test_looking_ahead_makes_no_difference_to_what_is_claimed():
    claims = []
    for is_looking in (True, False):
        story = story_of(Grid(60), Grid(30), Once(20, 60, 61, 100), Grid(60))
        for t in (20, 30, 60, 61, 500):
            if is_looking:
                look_ahead(story)
            story.go(t)
            claim = story.until(Claim)
            claims.append((story.t, {wish.key for wish in claim.wishes}, claim.wins))
            story.claimed(*[closed()] * len(claim.wishes))
    assert claims[:5] == claims[5:]


def test_inputs_wait_for_a_few_schedules_only():
    count = 3 * _core_schedules.AT_ONCE + 1
    story = story_of(*(Grid(60, n) for n in range(count)))
    assert look_ahead(story) == 4
    story = story_of(Grid(60))
    assert look_ahead(story) == 1
    assert look_ahead(story) == 0


def test_a_job_that_is_gone_is_not_looked_ahead_for():
    story = story_of(Grid(60), Grid(60, "other"))
    story.core.remove("j0")
    story.core.add(job("j1", schedule=Once(60), catch_up=0), story.now)
    story.tick()
    story.nothing_open()
    Grid.asked = 0
    look_ahead(story)
    assert Grid.asked == 0
    assert [wish.key for wish in to_the_claim(story).wishes] == [key("j1", 60)]


def test_a_schedule_that_ends_is_looked_ahead_for_once():
    story = story_of(Once(60))
    look_ahead(story)
    assert [wish.key for wish in to_the_claim(story).wishes] == [key("j0", 60)]
    assert not story.core.is_behind


class Moody(Once):
    """Fails for one time when it is asked what comes after it."""

    def __init__(self, *slots: float, wrong: float) -> None:
        super().__init__(*slots)
        self._wrong_ms = ms(wrong)

    def next_after_ms(self, t_ms: int) -> int | None:
        if t_ms == self._wrong_ms:
            raise ValueError("bad")
        return super().next_after_ms(t_ms)


def test_a_schedule_that_fails_ahead_is_told_of_at_once_and_its_known_slot_runs():
    story = story_of(Moody(60, 120, wrong=60))
    look_ahead(story)
    told = [a.detail for _, a in story.log if isinstance(a, Note) and a.kind == "schedule"]
    assert told == ["ValueError: bad"]
    assert [wish.key for wish in to_the_claim(story).wishes] == [key("j0", 60)]


def test_a_slot_that_is_known_outlives_the_trials_of_a_schedule_that_fails_ahead():
    story = story_of(Moody(600, 700, wrong=600))
    look_ahead(story)
    story.go(600)
    assert [wish.key for wish in story.until(Claim).wishes] == [key("j0", 600)]
    story.claimed(closed())
    told = [a.detail for _, a in story.log if isinstance(a, Note) and a.kind == "schedule"]
    assert told == ["ValueError: bad"]
    story.go(700)
    assert [wish.key for wish in story.until(Claim).wishes] == [key("j0", 700)]


def test_a_trial_asks_the_schedule_itself_whatever_is_known():
    class Forgetful(Once):
        fails = False

        def latest_ms(self, t_ms: int) -> int | None:
            if self.fails:
                raise ValueError("bad")
            return super().latest_ms(t_ms)

    story = story_of(forgetful := Forgetful(20, 25, 30, 2000), Grid(3600))
    look_ahead(story)
    forgetful.fails = True
    story.shift_ms = 40_000  # two slots have passed at once: it is asked for the latest
    story.tick()
    slots = story.core._race.slots
    assert slots.schedules.is_suspended("j0")
    assert slots.jobs["j0"].next_ms == ms(2000)
    story.mono += 60
    story.tick()
    assert not slots.schedules.is_suspended("j0")
    assert slots.jobs["j0"].next_ms == ms(2000)


def test_answers_are_remembered_for_so_many_schedules(monkeypatch):
    monkeypatch.setattr(_core_schedules, "MOST_KNOWN", 10)
    story = story_of(*(Grid(60, n) for n in range(35)))
    schedules = story.core._race.slots.schedules
    assert len(schedules._next._answers) <= 10
    look_ahead(story)
    assert len(schedules._next._answers) <= 10
    assert len(schedules._latest._answers) <= 10
    Grid.asked = 0
    assert len(to_the_claim(story).wishes) == 35


def test_an_answer_holds_between_its_two_instants_and_no_longer():
    story = story_of(Grid(60))
    slots = story.core._race.slots
    spec = slots.jobs["j0"]

    def asked(method: str, t: float) -> int:
        before = Grid.asked
        getattr(slots.schedules, method)(spec, ms(t), story.now)
        return Grid.asked - before

    slots.schedules.clear()
    answers = [asked("next_after", t) for t in (70, 70, 119.999, 69.999, 120, 150, 179.999)]
    assert answers == [1, 0, 0, 1, 1, 0, 0]
    answers = [asked("latest", t) for t in (110, 110, 60, 59.999, 110.001, 170)]
    assert answers == [1, 0, 0, 1, 1, 1]


# --- exactly so many ------------------------------------------------------------------


@pytest.mark.parametrize(("jobs", "steps"), [(50, 1), (51, 2), (100, 2), (101, 3)])
def test_fifty_jobs_are_looked_ahead_for_at_once(jobs, steps):
    story = story_of(*(Grid(60, n) for n in range(jobs)))
    assert look_ahead(story) == steps


def test_so_many_answers_are_kept_and_no_more():
    known = Known(float("inf"))
    for number in range(4096):
        known.keep(Grid(60, number), 0, 60)
    assert known.find(Grid(60, 0), 0) == (60,)
    known.keep(Grid(60, 4096), 0, 60)
    assert known.find(Grid(60, 0), 0) is None
    assert known.find(Grid(60, 4096), 0) == (60,)


@pytest.mark.parametrize(
    ("nothing", "slot", "good", "bad"),
    [
        (float("inf"), 10, (5, 9), (4, 10)),
        (float("-inf"), 10, (10, 15), (9, 16)),
        (float("inf"), None, (5, 10**15), (4,)),
        (float("-inf"), None, (15, -(10**15)), (16,)),
    ],
)
def test_an_answer_is_good_between_the_question_and_the_slot(nothing, slot, good, bad):
    known, schedule = Known(nothing), Grid(60)
    known.keep(schedule, 5 if nothing > 0 else 15, slot)
    assert [known.find(schedule, t) for t in good] == [(slot,)] * len(good)
    assert [known.find(schedule, t) for t in bad] == [None] * len(bad)
    assert known.find(Grid(61), good[0]) is None
    known.clear()
    assert known.find(schedule, good[0]) is None


def test_a_stop_leaves_nothing_to_look_ahead_for():
    story = story_of(Grid(60))
    story.core._race.slots.schedules.clear()
    assert not story.core.is_behind
    asked = Grid.asked
    spec = story.core._race.slots.jobs["j0"]
    schedules = story.core._race.slots.schedules
    schedules.next_after(spec, ms(0), story.now)
    schedules.latest(spec, ms(0), story.now)
    assert Grid.asked == asked + 2


def test_what_a_suspended_schedule_says_before_its_trial_is_used_and_not_kept():
    moody = Moody(10, 60, 120, wrong=10)
    story = story_of(moody)
    look_ahead(story)
    slots = story.core._race.slots
    spec = slots.jobs["j0"]
    assert slots.schedules.is_suspended("j0")
    assert slots.schedules.following(spec, ms(60), story.now) == ms(120)
    assert spec.ahead is None
