"""Random histories on a Redis: the scripts decide exactly as the rules do.

Both are on one clock, which is moved by hand, so everything must be equal; see `tests/model`.
"""

from __future__ import annotations

from random import Random

import pytest

from anarchon._testing_contract.bench import HandClock
from anarchon._values import Lease, Owner, Pace, Presence, Result, RunKey, SkipWish, Terms, Wish
from tests.model.author import Author
from tests.model.checker import Given, check, compared, twins
from tests.model.moods import long_mood
from tests.model.steps import Step
from tests.model.stores import store_on

SEED = 2031  # its first histories reach every kind of answer


@pytest.fixture(scope="module", params=["redis-6.2", "redis-8.2"])
def store(request, shared_server, tmp_path_factory):
    with store_on(request.param, shared_server, tmp_path_factory.mktemp("alike")) as store:
        yield store


@pytest.mark.parametrize("number", range(8))
def test_every_answer_is_the_same(store, number):
    check(store, Author(store, SEED, number))


def of_an_order(wins, catch_up_ms=10**12):
    """Claim it."""
    wish = Wish(
        ORDER, 1, "manual", Terms(3000, 1000, 0, skip_overlap=False, catch_up_ms=catch_up_ms)
    )
    return Step("claim", (wish,), {"owner": ANN, "wins": wins, "pace": Pace(0.0)})


ANN = Owner("ann", "ann")
ORDER = RunKey("job", HandClock().wall_ms(), "trigger-1")
ORDERED = Step("trigger", (ORDER,), {"data": "1"})
SEEN = [
    of_an_order(1),
    Step("trigger", (ORDER,), {"data": "2"}),
    Step("cancel", (ORDER,)),
    of_an_order(0),
    Step("history", (None,), {"limit": 9, "before": None, "status": None}),
]


@pytest.mark.parametrize(
    "steps",
    [(Step("cancel", (ORDER,)),), (Step("advance", (1,)), of_an_order(0, catch_up_ms=0))],
    ids=["cancelled", "too old"],
)
def test_what_ends_before_anybody_had_it_is_the_same(store, steps):
    check(store, Given([ORDERED, *steps, *SEEN]))


def test_long_histories_are_trimmed_alike(store):
    check(store, Author(store, SEED, 0, mood=long_mood))


# --- instances and alerts ---------------------------------------------------------------------

DAY_MS = 24 * 3_600_000
TEXTS = ("{}", '{"n": 1}', '"é \\u0000"', "é\0/\\", "x" * 70_000)


class Teller:
    """Has instances say something of themselves, and ask who tells of what nobody finished."""

    def __init__(self, jobs, number):
        self.dice = Random(f"{SEED} {number}")
        self.jobs = self.dice.sample(jobs, 2)
        self.now_ms = HandClock().wall_ms()

    def steps(self):
        for _ in range(150):
            ways = (self.says, self.asks, self.asks, self.passes, self.acts, self.acts)
            yield self.dice.choice(ways)()
            yield Step("instances")

    def owner(self):
        """Return somebody, who mostly says something."""
        token = self.dice.choice("abcd")
        about = self.dice.choice((None, *TEXTS))
        expected_ms = self.now_ms + self.dice.choice((0, 1, DAY_MS, -DAY_MS, -DAY_MS - 1))
        presence = Presence(expected_ms, self.dice.choice(TEXTS), about)
        return Owner(token, token, self.dice.choice((None, presence, presence)))

    def key(self):
        slot_ms = self.now_ms // 10 * 10 + self.dice.choice((-10, 0, 0, 10))
        return RunKey(self.dice.choice(self.jobs), slot_ms)

    def says(self):
        return Step("present", (self.owner(),))

    def asks(self):
        keys = tuple(self.key() for _ in range(self.dice.choice((0, 1, 1, 5))))
        return Step("alert", (keys,), {"owner": self.owner()})

    def passes(self):
        passed_ms = self.dice.choice((1, 10, 10, DAY_MS))
        self.now_ms += passed_ms
        return Step("advance", (passed_ms,))

    def acts(self):
        """Claim, skip or end a run; or renew, or ask for what is open or wrong."""
        owner, key, pace = {"owner": self.owner()}, self.key(), {"pace": Pace(0.0)}
        terms = Terms(30, 10, 1, skip_overlap=self.dice.random() < 0.7, catch_up_ms=0)
        wish = Wish(key, self.dice.choice((1, 2)), "scheduled", terms, 0, -1e9)
        status = self.dice.choice(("success", "failed", "interrupted"))
        detail = self.dice.choice((None, "overlap"))
        ended = Result(key, 1, status, "scheduled", 0, 0, detail=detail)
        return self.dice.choice(
            (
                Step("claim", (wish,), {**owner, **pace, "wins": 1}),
                Step("claim", (wish,), {**owner, **pace, "wins": 1}),
                Step("skip", (SkipWish(key, self.now_ms, "late"),), {**owner, **pace}),
                Step("finish", (ended,), owner),
                Step("renew", (Lease(key, 1),), {**owner, "lease_ms": 30}),
                Step(self.dice.choice(("look", "unfinished")), (key.job,), owner),
            )
        )


def in_order(answer):
    """Sort instances, which a store tells in any order."""
    if not hasattr(answer, "instances"):
        return answer
    return answer._replace(instances=tuple(sorted(answer.instances)))


@pytest.mark.parametrize("number", range(8))
def test_what_is_told_is_the_same(store, number):
    told, answered = set(), set()
    with twins(store) as both:
        for step in Teller(store.jobs, number).steps():
            expected, found = map(in_order, both.play(step))
            assert not compared(expected, found), step
            answered.update(getattr(expected, "answers", ()) if step.what == "alert" else ())
            told.update(one.token for one in getattr(expected, "instances", ()))
    assert (answered, told) == ({True, False}, set("abcd"))
