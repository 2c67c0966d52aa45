"""Random histories on a PostgreSQL: its functions decide exactly as the rules do.

Both are on one clock, which is moved by hand, so everything must be equal; see `tests/model`.
"""

from __future__ import annotations

import pytest

from tests.model.author import Author
from tests.model.checker import check
from tests.model.moods import long_mood
from tests.model.stores import store_on

SEED = 2029  # its first histories reach every kind of answer


@pytest.fixture(scope="module")
def store(shared_server, tmp_path_factory):
    with store_on("postgres-15", shared_server, tmp_path_factory.mktemp("replay")) as store:
        yield store


@pytest.mark.parametrize("number", range(8))
def test_a_random_history_is_the_same_on_both(store, number):
    check(store, Author(store, SEED, number))


def test_a_long_history_is_trimmed_the_same_on_both(store):
    check(store, Author(store, SEED, 0, mood=long_mood))
