"""A part of a server of each kind, a fleet of processes on it, a backend behind a proxy."""

from __future__ import annotations

import uuid

import pytest

from tests.processes.fleet import Fleet
from tests.processes.places import backend_at
from tests.servers.places import STORES, place_on
from tests.servers.proxy import Proxy


@pytest.fixture(params=STORES)
def store(request, shared_server):
    """Give a test a place of its own on a shared server of each kind."""
    with place_on(request.param, shared_server) as place:
        yield place


@pytest.fixture
def namespace():
    """Name a part of a store that nobody else uses."""
    return f"test {uuid.uuid4()}"


@pytest.fixture
def fleet(tmp_path, store, namespace):
    """Give a test its processes; whatever it leaves is killed, and fails it."""
    fleet = Fleet(tmp_path, store.url, namespace)
    yield fleet
    wrong = fleet.clean_up()
    assert not wrong, "\n".join(wrong)
    assert store.errors() == []


@pytest.fixture
def proxy(store):
    """Put a proxy in front of the server; a fault is what a test makes of it."""
    with Proxy(store.server) as proxy:
        yield proxy


@pytest.fixture
def backend(store, proxy, namespace):
    """Give a backend that comes in through the proxy; it isn't open."""
    backend = backend_at(store.through(proxy), namespace=namespace)
    yield backend
    backend.close()
