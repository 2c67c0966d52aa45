"""Random histories on a Redis: the scripts decide exactly as the rules do.

Both are on one clock, which is moved by hand, so everything must be equal; see `tests/model`.
"""

from __future__ import annotations

import pytest

from tests.model.author import Author
from tests.model.checker import check
from tests.model.moods import long_mood
from tests.model.stores import store_on

SEED = 2029  # its first histories reach every kind of answer


@pytest.fixture(scope="module", params=["redis-6.2", "redis-8.2"])
def store(request, shared_server, tmp_path_factory):
    with store_on(request.param, shared_server, tmp_path_factory.mktemp("alike")) as store:
        yield store


@pytest.mark.parametrize("number", range(8))
def test_every_answer_is_the_same(store, number):
    check(store, Author(store, SEED, number))


def test_long_histories_are_trimmed_alike(store):
    check(store, Author(store, SEED, 0, mood=long_mood))
