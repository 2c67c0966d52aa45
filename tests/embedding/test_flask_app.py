"""The Flask extension: settings, and the app's context."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
from flask import Flask, current_app, g, has_request_context

from anarchon import (
    ConfigurationError,
    MemoryBackend,
    PostgresBackend,
    RedisBackend,
    Scheduler,
    SqliteBackend,
)
from anarchon.contrib.flask import Anarchon
from tests.embedding.flask_apps import OPTIONS, make_app


def backend_of(**config) -> object:
    app = make_app(**config)
    Anarchon(app)
    return app.extensions["anarchon"]._options.backend


# --- settings ---


def test_a_store_by_its_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = backend_of(ANARCHON_BACKEND="sqlite:///jobs.db")
    assert isinstance(relative, SqliteBackend)
    assert relative.database == str(tmp_path / "jobs.db")
    absolute = backend_of(ANARCHON_BACKEND="sqlite:////var/jobs.db", ANARCHON_NAMESPACE="shop")
    assert (absolute.database, absolute.namespace) == ("/var/jobs.db", "shop")
    for address in ("redis://h/1", "rediss://h", "unix:///tmp/redis.sock"):
        assert isinstance(backend_of(ANARCHON_BACKEND=address), RedisBackend)
    for address in ("postgresql://h/db", "postgres://h/db", "host=h dbname=db"):
        assert isinstance(backend_of(ANARCHON_BACKEND=address), PostgresBackend)
    assert isinstance(backend_of(ANARCHON_BACKEND="memory://"), MemoryBackend)
    own = MemoryBackend(namespace="own")
    assert backend_of(ANARCHON_BACKEND=own) is own
    assert backend_of(ANARCHON_BACKEND=own, ANARCHON_NAMESPACE="own") is own


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"ANARCHON_BACKEND": None}, 'ANARCHON_BACKEND is not set; give .*"memory://" in tests'),
        ({"ANARCHON_BACKEND": ""}, "ANARCHON_BACKEND is not set"),
        ({"ANARCHON_BACKEND": 7}, "ANARCHON_BACKEND is an object of the class int"),
        ({"ANARCHON_BACKEND": SqliteBackend}, "ANARCHON_BACKEND is an object of the class ABCMeta"),
        ({"ANARCHON_BACKEND": "mysql://u:hunter2@h/db"}, "ANARCHON_BACKEND: it is the address of"),
        ({"ANARCHON_BACKEND": "jobs.db"}, "ANARCHON_BACKEND: it is the address of no store"),
        ({"ANARCHON_BACKEND": "sqlite:///"}, "ANARCHON_BACKEND: it names no file"),
        ({"ANARCHON_BACKEND": "sqlite://jobs.db"}, "ANARCHON_BACKEND: it names no file"),
        ({"ANARCHON_BACKEND": "sqlite:///j.db?mode=ro"}, "ANARCHON_BACKEND: it names no file"),
        ({"ANARCHON_BACKEND": "sqlite:///:memory:"}, "ANARCHON_BACKEND: .* in memory"),
        (
            {"ANARCHON_BACKEND": "postgresql+psycopg://u:hunter2@h/db"},
            r"ANARCHON_BACKEND: postgresql\+psycopg:// is an address of SQLAlchemy; write",
        ),
        (
            {"ANARCHON_BACKEND": "redis://u:hunter2@h/x"},
            "ANARCHON_BACKEND: The database of a Redis",
        ),
        ({"ANARCHON_BACKEND": "redis://u:hun@ter2@h:x"}, "ANARCHON_BACKEND: The Redis URL"),
        ({"ANARCHON_BACKEND": "postgresql://u:hunter2@h:x/"}, "ANARCHON_BACKEND: "),
        ({"ANARCHON_NAMESPACE": 3}, "ANARCHON_NAMESPACE: 3 is not text"),
        ({"ANARCHON_NAMESPACE": ""}, "^ANARCHON_NAMESPACE: The namespace '' is no name"),
        ({"ANARCHON_NAMESPACE": " shop"}, "^ANARCHON_NAMESPACE: The namespace ' shop' is no name"),
        (
            {"ANARCHON_BACKEND": MemoryBackend(), "ANARCHON_NAMESPACE": "x" * 201},
            "^ANARCHON_NAMESPACE: The namespace 'xx",
        ),
        (
            {"ANARCHON_BACKEND": MemoryBackend(), "ANARCHON_NAMESPACE": "shop"},
            "ANARCHON_BACKEND is a backend, which has the namespace 'anarchon' already",
        ),
        ({"ANARCHON_AUTOSTART": "yes"}, "ANARCHON_AUTOSTART: 'yes' is neither True nor False"),
        ({"ANARCHON_AUTOSTART": 1}, "ANARCHON_AUTOSTART: 1 is neither"),
        ({"ANARCHON_OPTIONS": [1]}, "ANARCHON_OPTIONS is of the class list; give a dict"),
        ({"ANARCHON_OPTIONS": {"leese": 3}}, "ANARCHON_OPTIONS: .*'leese'; did you mean lease?"),
        ({"ANARCHON_OPTIONS": {3: 3}}, "ANARCHON_OPTIONS: Scheduler has no option 3; there are "),
        ({"ANARCHON_OPTIONS": {"backend": 3}}, "the store is set by ANARCHON_BACKEND"),
        ({"ANARCHON_OPTIONS": {"lease": "1s"}}, "ANARCHON_OPTIONS: lease: '1s' is too short"),
        ({"ANARCHON_LEASE": 3}, r"ANARCHON_LEASE: .*; write ANARCHON_OPTIONS = {\"lease\": ...}"),
        ({"ANARCHON_BAKEND": 3}, "ANARCHON_BAKEND: .*; did you mean ANARCHON_BACKEND?"),
        (
            {"ANARCHON_BAKEND": 3, "ANARCHON_LEASE": 3},
            r"'ANARCHON_BAKEND' \(did .*_BACKEND\?\), 'ANARCHON_LEASE' \(write ANARCHON_OPTIONS",
        ),
        (
            {"ANARCHON_OPTIONS": {"leese": 3, "backend": 3}},
            r"OPTIONS: .* no options 'leese' \(did you mean lease\?\), 'backend' \(the store is",
        ),
    ],
)
def test_a_setting_that_is_wrong_is_named_and_no_password_shown(config, said):
    app = make_app(**config)
    with pytest.raises(ConfigurationError, match=said) as caught:
        Anarchon(app)
    assert "hunter2" not in str(caught.value)
    assert "anarchon" not in app.extensions


def test_options_are_those_of_the_scheduler():
    app = make_app(ANARCHON_OPTIONS={**OPTIONS, "workers": 3, "instance_id": "me"})
    Anarchon(app)
    scheduler = app.extensions["anarchon"]
    assert (scheduler._options.workers, scheduler.instance_id) == (3, "me")
    assert app.config["ANARCHON_OPTIONS"] == {**OPTIONS, "workers": 3, "instance_id": "me"}


def test_a_scheduler_may_be_given():
    scheduler = Scheduler(MemoryBackend(), **OPTIONS)
    scheduler.every("there", "1h", lambda: None)
    app = Flask("shop")
    jobs = Anarchon(app, scheduler)
    jobs.every("here", "1h", lambda: None)
    assert app.extensions["anarchon"] is jobs.scheduler is scheduler
    assert [job.name for job in scheduler.jobs] == ["there", "here"]
    with pytest.raises(ConfigurationError, match="job 'there': there is one"):
        jobs.every("there", "1h", lambda: None)
    with pytest.raises(ConfigurationError, match="one scheduler can't serve two apps"):
        jobs.init_app(Flask("other"))
    with pytest.raises(ConfigurationError, match="ANARCHON_BACKEND is set, but Anarchon"):
        Anarchon(make_app(), Scheduler(MemoryBackend()))
    with pytest.raises(ConfigurationError, match="is no scheduler"):
        Anarchon(None, MemoryBackend())


def test_init_app_refuses_what_is_no_app_and_a_second_call():
    app = make_app()
    jobs = Anarchon(app)
    with pytest.raises(ConfigurationError, match="has a scheduler already"):
        jobs.init_app(app)
    with pytest.raises(ConfigurationError, match="is no Flask app"):
        jobs.init_app(None)


def test_there_is_no_scheduler_before_there_is_an_app():
    jobs = Anarchon()
    assert repr(jobs) == "<Anarchon without an app>"
    with pytest.raises(ConfigurationError, match="no scheduler before init_app"):
        _ = jobs.scheduler
    jobs.init_app(make_app())
    assert repr(jobs) == f"<Anarchon {jobs.scheduler!r}>"


def test_what_only_the_scheduler_has_is_told():
    jobs = Anarchon(make_app())
    for name in ("run_now", "submit", "history", "start", "stop", "pause", "state", "jobs"):
        assert hasattr(jobs.scheduler, name)
        with pytest.raises(AttributeError, match=rf"write jobs\.scheduler\.{name}$"):
            getattr(jobs, name)
    for name in ("evry", "_life", "__deepcopy__"):
        with pytest.raises(AttributeError, match=f"'Anarchon' object has no attribute '{name}'"):
            getattr(jobs, name)


# --- the context ---


def run_one(app: Flask, handler, **options):
    """Run a handler once as a job of the app; return its record."""
    jobs = Anarchon(app)
    jobs.every("one", "1h", handler, catch_up=0, **options)
    with jobs.scheduler as scheduler:
        return scheduler.run_now("one")


def test_a_handler_finds_its_app_and_a_clean_up_is_told_of_its_error():
    app, seen, torn = make_app("shop"), [], []
    app.teardown_appcontext(torn.append)

    def handler(ctx):
        g.name = ctx.name
        seen.extend((current_app.name, g.name, has_request_context()))
        raise ValueError("no table")

    assert run_one(app, handler).error == "ValueError: no table"
    assert seen == ["shop", "one", False]
    assert [str(error) for error in torn] == ["no table"]


def test_a_coroutine_finds_its_app_as_well():
    seen = []

    async def handler():
        seen.append(current_app.name)

    assert run_one(make_app("shop"), handler).status == "success"
    assert seen == ["shop"]


def test_an_around_of_the_options_is_entered_in_the_context():
    seen = []

    @contextmanager
    def around(ctx):
        seen.append(f"before {ctx.name} in {current_app.name}")
        yield
        seen.append(f"after in {current_app.name}")

    app = make_app("shop", ANARCHON_OPTIONS={**OPTIONS, "around": around})
    assert run_one(app, lambda: seen.append("handler")).status == "success"
    assert seen == ["before one in shop", "handler", "after in shop"]


def test_each_attempt_has_a_context_of_its_own():
    seen, both = [], threading.Barrier(2)

    def handler():
        assert "value" not in g
        g.value = threading.get_ident()
        both.wait(10)
        seen.append(g.value == threading.get_ident())

    jobs = Anarchon(make_app())
    jobs.every("one", "1h", handler, catch_up=0).every("two", "1h", handler, catch_up=0)
    with jobs.scheduler as scheduler:
        scheduler.submit("one")
        assert scheduler.run_now("two").status == "success"
        scheduler.stop()
    assert seen == [True, True]
