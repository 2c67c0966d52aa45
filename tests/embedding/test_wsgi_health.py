"""What probes are answered, by real servers, in each state of a scheduler."""

from __future__ import annotations

import json
import math
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.validate import validator

import pytest
from flask import Flask

from anarchon import ConfigurationError, MemoryBackend, Scheduler
from anarchon.contrib.flask import Anarchon
from anarchon.contrib.wsgi import health_app, with_health
from anarchon.testing import FaultyBackend, ManualClock
from tests.docs.pages import coded, rows
from tests.facade.helpers import Door, until

PATHS = ("/live", "/ready", "/")


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def served(app):
    """Serve an application on a port of its own; yield a function that asks it."""
    server = make_server("127.0.0.1", 0, validator(app), handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def ask(path, method="GET"):
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    try:
        yield ask
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def ask():
    """An application in front of which there is one for probes, and its scheduler."""

    def site(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [f"the site: {environ['SCRIPT_NAME']}{environ['PATH_INFO']}".encode()]

    with served(with_health(site, Scheduler(MemoryBackend(), enabled=False))) as ask:
        yield ask


# --- in each state ------------------------------------------------------------------


def statuses(scheduler) -> list[int]:
    """Return what is answered over the network, and check that the body is what `health` says."""
    with served(health_app(scheduler)) as ask:
        found = []
        for path in PATHS:
            status, _, body = ask(path)
            told = json.loads(body)
            assert told.keys() == scheduler.health().to_dict().keys()
            assert told["state"] == scheduler.state
            found.append(status)
        return found


@contextmanager
def runs():
    with Scheduler(MemoryBackend()) as scheduler:
        yield scheduler


@contextmanager
def starts():
    store = Door(failures=10_000)
    scheduler = Scheduler(store)
    scheduler.start(retry=True)
    assert scheduler.state == "starting"
    try:
        yield scheduler
    finally:
        scheduler.stop()


@contextmanager
def down():
    store = FaultyBackend(MemoryBackend())
    scheduler = Scheduler(store)
    scheduler.every("job", "100ms", lambda: None)
    with scheduler:
        store.fail(times=math.inf)
        until(lambda: not scheduler.health().store_up)
        yield scheduler
        store.heal()


@contextmanager
def stops():
    begun, go_on = threading.Event(), threading.Event()
    scheduler = Scheduler(MemoryBackend())
    scheduler.every("job", "1h", lambda: begun.set() or go_on.wait(20), catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    assert begun.wait(20)
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    until(lambda: scheduler.state == "stopping")
    yield scheduler
    go_on.set()
    stopping.join()


@contextmanager
def is_stopped():
    with Scheduler(MemoryBackend()) as scheduler:
        pass
    yield scheduler


@contextmanager
def is_off():
    yield Scheduler(MemoryBackend(), enabled=False)


@contextmanager
def is_stuck(workers=1):
    clock, go_on = ManualClock(), threading.Event()
    scheduler = Scheduler(MemoryBackend(), workers=workers)
    clock.attach(scheduler)
    scheduler.every("job", "1h", lambda: go_on.wait(20), timeout="1s", catch_up=0)
    with scheduler:
        scheduler.submit("job")
        clock.advance("30s")
        assert scheduler.health().stuck == 1
        yield scheduler
        go_on.set()


STATES = {
    "runs": runs,
    "is starting": starts,
    "runs, but": down,
    "is stopping": stops,
    "is idle: not": is_stopped,
    "is idle, with": is_off,
    "is stuck": is_stuck,
}
TABLE = rows("health.md", "the scheduler", "`/health/live`", "`/health/ready`", "`/health`")


@pytest.mark.parametrize("row", TABLE, ids=[row[0][:20] for row in TABLE])
def test_each_state_is_answered_as_the_page_says(row):
    begins = max((begin for begin in STATES if row[0].startswith(begin)), key=len)
    with STATES[begins]() as scheduler:
        assert statuses(scheduler) == [int(cell) for cell in row[1:]]


def test_every_state_is_on_the_page():
    assert len(TABLE) == len(STATES)
    paths = [coded(row[0]) for row in rows("health.md", "path", "asks", "503 when", "for")]
    assert paths == [["/health/live"], ["/health/ready"], ["/health"]]


def test_one_stuck_handler_of_several_harms_nobody():
    with is_stuck(workers=2) as scheduler:
        assert statuses(scheduler) == [200, 200, 200]


def test_it_answers_while_the_store_hangs():
    store = FaultyBackend(MemoryBackend())
    scheduler = Scheduler(store)
    scheduler.every("job", "100ms", lambda: None)
    with scheduler:
        hold = store.hold()
        assert hold.reached.wait(20)
        calls = store.calls
        assert statuses(scheduler)[:2] == [200, 200]
        assert store.calls == calls
        hold.release()


# --- as HTTP ------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/health/", "/health/live", "/health/ready"])
def test_get_and_head(ask, path):
    status, headers, body = ask(path)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert headers["Cache-Control"] == "no-store"
    assert int(headers["Content-Length"]) == len(body)
    head = ask(path, "HEAD")
    assert (head[0], head[1]["Content-Length"], head[2]) == (200, str(len(body)), b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(ask, method):
    status, headers, body = ask("/health/live", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert json.loads(body) == {"error": "only GET and HEAD"}


def test_other_paths_below_are_not_there(ask):
    for path in ("/health/lively", "/health/live/more"):
        status, headers, body = ask(path)
        assert (status, headers["Cache-Control"]) == (404, "no-store")
        assert "/live and /ready" in json.loads(body)["error"]


@pytest.mark.parametrize("path", ["/", "/healthy", "/live", "/a/health"])
def test_everything_else_is_the_sites(ask, path):
    assert ask(path)[2].decode() == f"the site: {path}"


def test_details_can_be_left_out():
    secret = Door(failures=10_000, error=ConnectionRefusedError("shop-db.internal"))
    with starts_on(secret) as scheduler:
        with served(health_app(scheduler)) as ask:
            assert b"shop-db.internal" in ask("/")[2]
        with served(health_app(scheduler, details=False)) as ask:
            status, _, body = ask("/")
            assert (status, json.loads(body)) == (503, {"ok": False, "state": "starting"})
            assert ask("/nothing")[0] == 404


@contextmanager
def starts_on(store):
    from anarchon import BackendUnavailable

    store.error = BackendUnavailable(str(store.error))
    scheduler = Scheduler(store)
    scheduler.start(retry=True)
    until(lambda: "shop-db" in str(scheduler.health().reasons))
    try:
        yield scheduler
    finally:
        scheduler.stop()


# --- where it is put ----------------------------------------------------------------


def test_in_front_of_flask():
    app = Flask("shop")
    app.config.update(ANARCHON_BACKEND="memory://", TESTING=True)
    jobs = Anarchon(app)
    app.get("/")(lambda: "the shop")
    app.wsgi_app = with_health(app.wsgi_app, jobs.scheduler, path="/-/jobs/")
    client = app.test_client()
    assert client.get("/").text == "the shop"
    assert client.get("/-/jobs/live").status_code == 200
    told = client.get("/-/jobs")
    assert (told.status_code, told.json["reasons"]) == (503, ["the scheduler is idle"])


def test_mounted_by_werkzeug():
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    app = Flask("shop")
    app.get("/")(lambda: "the shop")
    scheduler = Scheduler(MemoryBackend())
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/probes": health_app(scheduler)})
    client = app.test_client()
    assert client.get("/").text == "the shop"
    assert [client.get(f"/probes{path}").status_code for path in PATHS] == [200, 200, 503]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda s: health_app("app:scheduler"), "is no scheduler"),
        (lambda s: health_app(s, details="no"), "details: 'no'"),
        (lambda s: with_health(None, s), "no WSGI application"),
        (lambda s: with_health(print, s, path="health"), "path: 'health'"),
        (lambda s: with_health(print, s, path="/"), "path: '/'"),
        (lambda s: with_health(print, s, path=None), "path: None"),
    ],
)
def test_wrong_arguments_are_named(make, named):
    with pytest.raises(ConfigurationError, match=named):
        make(Scheduler(MemoryBackend()))
