"""A fleet of processes for each test, on a server of each kind."""

from __future__ import annotations

import uuid

import pytest

from tests.processes.fleet import Fleet
from tests.servers.places import STORES, place_on


@pytest.fixture(params=STORES)
def store(request, shared_server):
    """Give a test a place of its own on a shared server of each kind."""
    with place_on(request.param, shared_server) as place:
        yield place


@pytest.fixture
def fleet(tmp_path, store):
    """Give a test its processes; whatever it leaves is killed, and fails it."""
    fleet = Fleet(tmp_path, store.url, namespace=f"test {uuid.uuid4()}")
    yield fleet
    wrong = fleet.clean_up()
    assert not wrong, "\n".join(wrong)
    assert store.errors() == []
