"""The page about exactly-once effects: its programs, on SQLite and on a server."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress

import psycopg
import pytest

from anarchon import Aborted, Scheduler, SqliteBackend
from anarchon._states import UNCOMMITTED
from tests.docs.pages import blocks, environment, text_of
from tests.stores.postgres_places import database_on

PAGE = "exactly-once.md"
FLAT = " ".join(text_of(PAGE).split())
PATIENCE = 60


@pytest.fixture
def page(run_page):
    return run_page(PAGE)


def table(query):
    with closing(sqlite3.connect("shop.db")) as database:
        return database.execute(query).fetchall()


def attempts(page, handler, *, before_the_end=lambda: None):
    """Let a run be handed over once, and return its attempts as history has them.

    The first attempt ends its scheduler when the handler has done its work, and then raises,
    as one does that was interrupted. It could have died as well.
    """
    first, second = (Scheduler(SqliteBackend("shop.db"), catch_up="31d") for _ in range(2))

    def interrupted(ctx):
        handler(ctx)
        if ctx.attempt == 1:
            before_the_end()
            first.stop(0)
            raise Aborted("stopped", "stop")

    for scheduler in (first, second):
        page.clock.attach(scheduler)
        scheduler.cron("job", "0 6 1 * *", interrupted)
    first.start()
    page.clock.advance("1s")
    with second:
        page.clock.advance("2m")
        return [(run.attempt, run.status) for run in second.history("job")]


# --- on SQLite ----------------------------------------------------------------------


def test_invoices_are_there_once_though_the_handler_was_broken_off(page):
    before = table("SELECT count(*) FROM invoices")
    assert attempts(page, page.names["invoices"]) == [(1, "success")]
    assert before == [(2,)]
    assert table("SELECT count(*) FROM invoices") == [(4,)]


def test_without_complete_they_are_there_twice(page, monkeypatch):
    """The gap of the page."""
    monkeypatch.setattr("anarchon.Context.complete", lambda *_: None)
    found = attempts(page, page.names["invoices"])
    assert found == [(2, "success"), (1, "interrupted")]
    assert table("SELECT count(*) FROM invoices") == [(6,)]


def test_points_are_given_once_though_it_died_between_two(page):
    points, begun = page.names["points"], []
    names = page.names

    class Customers(list):
        """Raises before the second one, in the first attempt."""

        def __iter__(self):
            begun.append(1)
            yield self[0]
            if len(begun) == 1:
                raise KeyboardInterrupt
            yield from self[1:]

    def once_broken(ctx):
        try:
            points(ctx)
        except KeyboardInterrupt:
            given.extend(table("SELECT customer FROM given"))

    given = []
    names["customers"] = Customers(names["customers"])
    assert attempts(page, once_broken) == [(2, "success"), (1, "interrupted")]
    assert given == [("Ada",)]
    assert table("SELECT * FROM points ORDER BY customer") == [("Ada", 10), ("Grace", 10)]
    assert table("SELECT * FROM given") == []


def test_an_async_handler(page):
    with page.schedulers[-1] as scheduler:
        assert scheduler.run_now("transfer").status == "success"


def outcome(page, handler, **options):
    """Run a handler in its slot, and return its record."""
    scheduler = Scheduler(SqliteBackend("shop.db"), catch_up="31d")
    page.clock.attach(scheduler)
    scheduler.cron("job", "0 6 1 * *", handler, **options)
    with scheduler:
        page.clock.advance("1m")
        return scheduler.last_run("job")


def test_a_handler_that_commits_nothing_says_what_the_page_quotes(page):
    def forgets(ctx):
        with page.names["connect"]() as database:
            ctx.complete(database)

    assert outcome(page, forgets).error == UNCOMMITTED
    assert f"`{UNCOMMITTED}`" in FLAT


def test_a_transaction_that_is_done_again_does_nothing_twice(page):
    def repeats(ctx):
        page.names["invoices"](ctx)
        page.names["invoices"](ctx)

    assert outcome(page, repeats).status == "success"
    assert table("SELECT count(*) FROM invoices") == [(4,)]


def test_a_lost_transaction_can_not_be_committed_though_the_abort_is_swallowed(page):
    """Its run is recorded at its timeout, so it is as lost as one that was taken over."""

    def swallows(ctx):
        ctx.signal.wait()
        while scheduler.last_run("job").status == "running":
            pass
        with page.names["connect"]() as database:
            with suppress(Aborted), database:
                ctx.fenced(database)
            database.execute("INSERT INTO invoices VALUES ('Ada', 'late')")
            with suppress(Aborted):
                ctx.complete(database)
                done.append("completed")
            database.commit()
        done.append("went on")

    done = []
    scheduler = Scheduler(SqliteBackend("shop.db"), catch_up="31d")
    page.clock.attach(scheduler)
    scheduler.cron("job", "0 6 1 * *", swallows, timeout="5s")
    with scheduler:
        page.clock.advance("1m")
    assert done == ["went on"]
    assert table("SELECT count(*) FROM invoices WHERE month = 'late'") == [(0,)]


@pytest.mark.parametrize(("commits", "status"), [(True, "success"), (False, "failed")])
def test_a_timeout_leaves_the_decision_to_the_open_transaction(page, commits, status):
    def late(ctx):
        with page.names["connect"]() as database:
            ctx.complete(database)
            ctx.signal.wait()
            reasons.append(ctx.signal.reason)
            if commits:
                database.commit()

    reasons = []
    assert outcome(page, late, timeout="5s").status == status
    assert reasons == ["timeout"]


def test_saving_inside_waits_for_itself_and_gives_up(tmp_path, monkeypatch):
    """On the clock of the machine, since it is a lock of SQLite's that is waited for."""
    monkeypatch.chdir(tmp_path)
    scheduler = Scheduler(SqliteBackend("shop.db"), lease=2, heartbeat="200ms", catch_up="1h")
    ended = threading.Event()
    scheduler.on("failure", lambda _: ended.set())

    @scheduler.every("job", "1h")
    def job(ctx):
        with closing(sqlite3.connect("shop.db")) as database, database:
            ctx.fenced(database)
            ctx.save(1)

    with scheduler:
        assert ended.wait(PATIENCE)
        assert scheduler.last_run("job").error.startswith("BackendUnavailable: ")


# --- on a server ----------------------------------------------------------------------

SETTINGS = """
import sys
import django
from django.conf import settings
settings.configure(DATABASES={"default": %s})
django.setup()
"""
RUN_ALL = """
import json, threading
ended = threading.Semaphore(0)
handlers = [value for name, value in list(globals().items()) if name.startswith("with_")]
for event in ("success", "failure"):
    scheduler.on(event, lambda _: ended.release())
for handler in handlers:
    scheduler.every(handler.__name__, "1h", handler, catch_up="1h")
with scheduler:
    for _ in handlers:
        assert ended.acquire(timeout=60)
    runs = {h.__name__: scheduler.last_run(h.__name__) for h in handlers}
print(json.dumps({name: [run.status, run.error] for name, run in runs.items()}))
"""


def library_programs():
    """Return the programs of the section about libraries, by the name of their handler."""
    text = text_of(PAGE)
    first, last = (
        text.count("\n", 0, text.index(head)) for head in ("## With your", "## What `fenced`")
    )
    return [block.text for block in blocks(PAGE, "python") if first < block.line < last]


def run_programs(programs, settings, folder):
    """Run programs as one, in a process of their own, and return what became of each handler."""
    (folder / "app.py").write_text("\n".join([SETTINGS % settings, *programs, RUN_ALL]))
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def all_well(*names):
    return {name: ["success", None] for name in names}


@pytest.fixture(scope="module")
def database(shared_server):
    with database_on(shared_server, "postgres-18") as database:
        database.ask("CREATE TABLE invoices (customer text, slot bigint)")
        yield database


def test_each_library_on_postgresql(database, tmp_path):
    url = database.url
    database.ask("DELETE FROM invoices")
    where = psycopg.conninfo.conninfo_to_dict(url)
    settings = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": where["dbname"],
        "USER": where["user"],
        "HOST": where["host"],
        "PORT": where["port"],
    }
    programs = [
        text.replace("postgresql://localhost/shop", url).replace(
            "postgresql+psycopg://localhost/shop",
            url.replace("postgresql://", "postgresql+psycopg://"),
        )
        for text in library_programs()
    ]
    assert run_programs(programs, repr(settings), tmp_path) == all_well(
        "with_psycopg", "with_django", "with_a_connection", "with_a_session"
    )
    assert database.ask("SELECT count(*), min(customer) FROM invoices") == [(4, "Ada")]


def test_django_and_sqlalchemy_on_sqlite(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE invoices (customer TEXT, slot INTEGER)")
    settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "shop.db")}
    programs = [
        text.replace("PostgresBackend", "SqliteBackend")
        .replace("postgresql+psycopg://localhost/shop", "sqlite:///shop.db")
        .replace("postgresql://localhost/shop", "shop.db")
        for text in library_programs()
        if "psycopg.connect" not in text
    ]
    assert run_programs(programs, repr(settings), tmp_path) == all_well(
        "with_django", "with_a_connection", "with_a_session"
    )
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        assert shop.execute("SELECT count(*) FROM invoices").fetchone() == (3,)


def test_the_limit_of_sessions_is_a_setting_of_a_role(database):
    (block,) = blocks(PAGE, "sql")
    database.server.create_role("web")
    with database.connect() as connection:
        connection.execute(block.text)
    with psycopg.connect(database.url, user="web") as connection:
        shown = connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    assert shown == ("1min",)
    with database.connect() as connection:
        connection.execute("DROP ROLE web")
