"""Schedulers on a manual clock, and their metrics as Prometheus gets them: over HTTP."""

from __future__ import annotations

import threading
from contextlib import suppress
from urllib.request import Request, urlopen
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from prometheus_client import CollectorRegistry, make_wsgi_app

from anarchon.testing import ManualClock
from tests.metrics.scraped import Scraped
from tests.schedulers import maker


class Silent(WSGIRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def make(clock):
    """Make schedulers on the clock; those that a test leaves are stopped."""
    with maker(clock.attach, lease=6, heartbeat=1, catch_up=0) as make_one:
        yield make_one


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def serve():
    """Serve a registry by the client's WSGI app; return what fetches it."""
    servers = []

    def served(registry):
        server = make_server("127.0.0.1", 0, make_wsgi_app(registry), handler_class=Silent)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))

        def fetch(**headers):
            url = f"http://127.0.0.1:{server.server_port}/metrics"
            with urlopen(Request(url, headers=headers), timeout=20) as answer:
                return answer.read().decode()

        return fetch

    yield served
    for server, thread in servers:
        with suppress(OSError):
            server.shutdown()
        thread.join(20)
        server.server_close()


@pytest.fixture
def scrape(serve, registry):
    """Return what is scraped from the registry now."""
    fetch = serve(registry)
    return lambda: Scraped(fetch())
