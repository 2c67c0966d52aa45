"""Fixtures of this folder: databases with a store and a table of the user's."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.fencing.places import KINDS, shared_place


@pytest.fixture(scope="session")
def shared_place_of(tmp_path_factory, shared_server):
    """Return the place of a kind, which all tests of this process share."""
    with ExitStack() as stack:
        places = {}

        def place_of(kind):
            if kind not in places:
                folder = tmp_path_factory.mktemp(kind)
                places[kind] = stack.enter_context(shared_place(kind, folder, shared_server))
            places[kind].clear()
            return places[kind]

        yield place_of


@pytest.fixture(params=KINDS)
def place(request, shared_place_of):
    return shared_place_of(request.param)


@pytest.fixture(params=[kind for kind in KINDS if kind != "sqlite"])
def postgres(request, shared_place_of):
    return shared_place_of(request.param)


@pytest.fixture
def sqlite_place(shared_place_of):
    return shared_place_of("sqlite")


@pytest.fixture
def bench(place):
    bench = place.bench()
    yield bench
    bench.backend.close()
