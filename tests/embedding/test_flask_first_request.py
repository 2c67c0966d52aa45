"""The start with the first request: whatever serves brings one, and nothing else does."""

from __future__ import annotations

import logging

import pytest
from flask import abort
from werkzeug.test import Client, create_environ
from werkzeug.wrappers import Response

from anarchon import MemoryBackend, Scheduler
from anarchon.contrib.flask import Anarchon
from tests.embedding.flask_apps import OPTIONS, make_app, serve_one


def app_with(**config):
    app = make_app(**config)
    app.add_url_rule("/", view_func=lambda: app.extensions["anarchon"].state)
    jobs = Anarchon(app)
    jobs.every("sync", "1h", lambda: None, catch_up=0)  # so that nothing runs, or is broken off
    return app, jobs.scheduler


def test_the_first_request_starts_it(caplog):
    app, scheduler = app_with(ANARCHON_AUTOSTART=True)
    assert scheduler.state == "idle"
    assert serve_one(app, "/nowhere")[0] == "404 NOT FOUND"
    assert scheduler.state in ("starting", "running")
    scheduler.stop()
    assert serve_one(app) == ("200 OK", "idle")  # what was stopped stays so
    assert not caplog.records


@pytest.mark.parametrize("autostart", [None, True])
def test_a_test_starts_nothing_and_is_told_nothing(autostart, caplog):
    app, scheduler = app_with(ANARCHON_AUTOSTART=autostart)
    app.testing = True
    assert serve_one(app) == ("200 OK", "idle")
    assert scheduler.state == "idle"
    assert not caplog.records


def test_without_the_setting_a_warning_says_what_to_do(caplog):
    app, _ = app_with()
    assert [serve_one(app) for _ in range(2)] == [("200 OK", "idle")] * 2
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "this process serves 'app', but nothing has started its scheduler" in record.message
    assert "set ANARCHON_AUTOSTART to True" in record.message


def test_nothing_is_said_where_it_runs_or_has_no_jobs(caplog):
    app, scheduler = app_with()
    with scheduler:
        assert serve_one(app) == ("200 OK", "running")
    empty = make_app()
    Anarchon(empty)
    serve_one(empty)
    assert not caplog.records


def test_a_request_is_served_where_the_scheduler_can_not_start(monkeypatch, caplog):
    app, scheduler = app_with(ANARCHON_AUTOSTART=True)

    def start(**_):
        raise RuntimeError("no threads")

    monkeypatch.setattr(scheduler, "start", start)
    assert serve_one(app)[0] == "200 OK"
    [record] = caplog.records
    assert "the scheduler of the app could not start" in record.getMessage()


def test_a_given_scheduler_starts_as_well():
    app = make_app(ANARCHON_BACKEND=None, ANARCHON_OPTIONS=None, ANARCHON_AUTOSTART=True)
    jobs = Anarchon(app, Scheduler(MemoryBackend(), **OPTIONS))
    serve_one(app)
    assert jobs.scheduler.state in ("starting", "running")
    jobs.scheduler.stop()


def refuse():
    return "no", 401


def refuse_by_abort():
    abort(401)


def fail():
    raise ValueError("no table")


@pytest.mark.parametrize("sooner", [refuse, refuse_by_abort, fail])
@pytest.mark.parametrize("autostart", [None, True])
def test_whoever_answers_it_before_a_view_does(sooner, autostart, caplog):
    """Functions of `before_request` that are registered sooner come first, and may end it."""
    # An error is a page, also where this process is one for debugging.
    app = make_app(ANARCHON_AUTOSTART=autostart, PROPAGATE_EXCEPTIONS=False)
    app.before_request(sooner)
    scheduler = Anarchon(app).every("sync", "1h", lambda: None, catch_up=0).scheduler
    assert serve_one(app)[0].startswith("500" if sooner is fail else "401")
    assert (scheduler.state == "idle") == (autostart is None)
    scheduler.stop()
    said = [text for text in caplog.messages if "nothing has started its scheduler" in text]
    assert len(said) == (autostart is None)


def in_front_of(inner):
    """Return middleware that looks at what is answered, as that of meters and traces does."""

    def middleware(environ, start_response):
        def begin(status, headers, error=None):
            return start_response(status, headers, error)

        return inner(environ, begin)

    return middleware


def test_middleware_that_is_put_on_later_passes_it_on():
    app, scheduler = app_with(ANARCHON_AUTOSTART=True)
    app.wsgi_app = in_front_of(app.wsgi_app)
    assert serve_one(app)[0] == "200 OK"
    assert scheduler.state in ("starting", "running")
    scheduler.stop()


@pytest.mark.parametrize("autostart", [None, True])
def test_a_test_client_serves_nothing(autostart, caplog):
    """With it a command freezes a site, a master warms an app up, a test forgets TESTING."""
    app, scheduler = app_with(ANARCHON_AUTOSTART=autostart)
    app.wsgi_app = in_front_of(app.wsgi_app)
    assert app.test_client().get("/").text == "idle"
    with app.test_client() as client:
        assert client.get("/", headers={"User-Agent": "Mozilla/5.0"}).text == "idle"
    assert Client(app).get("/").text == "idle"
    assert Response.from_app(app, create_environ()).get_data() == b"idle"
    with app.test_request_context():
        assert app.preprocess_request() is None
        assert app.full_dispatch_request().get_data() == b"idle"
    assert scheduler.state == "idle"
    assert not caplog.records
    serve_one(app)
    assert (scheduler.state == "idle") == (autostart is None)
    scheduler.stop()
