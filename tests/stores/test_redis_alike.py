"""Random histories on a Redis: the scripts decide exactly as the rules do.

Both are on one clock, which is moved by hand, so everything must be equal; see `tests/model`.
"""

from __future__ import annotations

import pytest

from anarchon._testing_contract.bench import HandClock
from anarchon._values import Owner, Pace, RunKey, Terms, Wish
from tests.model.author import Author
from tests.model.checker import Given, check
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
