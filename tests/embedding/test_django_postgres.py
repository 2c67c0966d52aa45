"""A project on PostgreSQL: the scheduler's own connections, and those of its handlers."""

from __future__ import annotations

import signal
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from tests.embedding.django_project import Project
from tests.stores.postgres_places import database_on

SETTINGS = """
DATABASES = {{
    "default": {{
        "ENGINE": "django.db.backends.postgresql",
        "HOST": {host!r}, "PORT": {port}, "USER": {user!r}, "PASSWORD": "", "NAME": {name!r},
        "CONN_MAX_AGE": None,
        "OPTIONS": {options!r},
    }},
}}
ANARCHON["OPTIONS"]["catch_up"] = 0
"""

# Each run says over which connection its query went.
ASKING = """
from django.db import connection
from anarchon.contrib.django import scheduler
from shop.events import say

@scheduler.every("ask", "1s")
def ask(ctx):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        say("begin", session=cursor.fetchone()[0], slot=ctx.slot)
"""

PAYING = """
from django.db import connection, transaction
from anarchon.contrib.django import scheduler
from shop.models import Paid

@scheduler.every("pay", "1d")
def pay(ctx):
    with transaction.atomic():
        Paid.objects.create(slot=ctx.slot)
        ctx.fenced(connection)
        ctx.complete(connection)

@scheduler.every("undo", "1d")
def undo(ctx):
    with transaction.atomic():
        Paid.objects.create(slot=ctx.slot)
        ctx.complete(connection)
        raise ValueError("no")
"""

# Nothing is collected, so that only an orderly end closes connections.
MANUAL = """
import gc; gc.disable()
from django.db import connection
from anarchon.contrib.django import scheduler
from shop.models import Paid

sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'site'"
with scheduler:
    told = [scheduler.run_now(name).status for name in ("pay", "undo", "pay", "pay")]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'site'")
        (count,) = cursor.fetchone()
print(told, Paid.objects.count(), count)
"""

TESTS = """
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase
from anarchon.contrib.django import scheduler

class Tests(TransactionTestCase):
    def test_it(self):
        assert connection.settings_dict["NAME"].startswith("test_")
        with scheduler:
            assert scheduler.run_now("pay").status == "success"
"""

# Each of these is the first that the database hears of a store.
FIRST = {
    "history": ("anarchon", "history"),
    "jobs": ("anarchon", "jobs"),
    "instances": ("anarchon", "instances"),
    "pause": ("anarchon", "pause", "pay"),
    "resume": ("anarchon", "resume"),
    "explain": ("anarchon", "explain", "pay", "2026-12-01T00:00Z"),
    "cancel": ("anarchon", "cancel", "pay", "2026-12-01T00:00Z"),
    "trigger": ("anarchon", "trigger", "pay"),
    "pages": ("shell", "-v", "0", "-c"),
}
PAGES = """
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_superuser("boss"))
for page in ("job", "run"):
    answer = client.get(f"/admin/anarchon/{page}/")
    assert answer.status_code == 200
    print(answer.content.decode())
"""

ROLE = """
from anarchon.contrib.django import scheduler
scheduler.start()
scheduler.stop()
print(repr(scheduler._options.backend))
"""


@pytest.fixture
def database(shared_server):
    with database_on(shared_server, "postgres-18") as database:
        yield database


@pytest.fixture
def make(tmp_path, database):
    """Return a function that makes a project on the database."""
    made = []

    def project(*, options=None, **how):
        place = urlsplit(database.url)
        settings = SETTINGS.format(
            host=place.hostname,
            port=place.port,
            user=place.username,
            name=database.name,
            options=options or {},
        )
        made.append(Project(tmp_path, settings=settings, **how))
        return made[-1]

    yield project
    for one in made:
        one.clean_up()


def test_a_session_that_was_ended_between_two_runs_costs_none(make, database):
    """Without care for it, each further query of that thread would fail."""
    database.allowed += ("terminating connection due to administrator command",)
    project = make(shop__jobs=ASKING)
    worker = project.run("manage.py", "anarchon", "run")
    ended = set()
    for _ in range(2):
        session = worker.expect_event(count=len(project.events()) + 1)["session"]
        ended.add(session)
        assert database.ask("SELECT pg_terminate_backend(%s)", (session,)) == [(True,)]
        found = worker.wait_for(
            lambda: [one for one in project.events() if one["session"] not in ended], "a new one"
        )
        assert found
    worker.send(signal.SIGTERM)
    worker.end()
    assert "failed" not in worker.log()
    slots = [event["slot"] for event in project.events()]
    assert {later - sooner for sooner, later in pairwise(slots)} == {1000}


def test_handlers_complete_runs_and_leave_no_connection_behind(make):
    project = make(shop__jobs=PAYING, options={"application_name": "site"})
    project.manage("makemigrations", "shop", "-v", "0")
    project.manage("migrate", "-v", "0")
    output = project.said("shell", "-v", "0", "-c", MANUAL)[0]
    # One session is the shell's own, and up to two are the scheduler's.
    told, _, numbers = output.strip().rpartition("] ")
    assert told == "['success', 'failed', 'success', 'success'"
    paid, sessions = map(int, numbers.split())
    assert paid == 3
    assert sessions <= 3


def test_the_role_that_django_assumes_owns_the_tables(make, database):
    role = f"owner of {database.name}"
    for statement in (f'CREATE ROLE "{role}"', f'GRANT ALL ON SCHEMA public TO "{role}"'):
        database.ask(statement)
    project = make(shop__jobs="", options={"assume_role": role, "pool": True})
    assert "DATABASES['default']" in project.manage("shell", "-v", "0", "-c", ROLE)
    owners = database.ask("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'")
    assert owners == [(role,)]
    database.ask(f'DROP OWNED BY "{role}"')
    database.ask(f'DROP ROLE "{role}"')


def test_while_tests_run_the_store_is_in_their_database(make, database):
    project = make(shop__jobs=PAYING, shop__tests=TESTS)
    project.manage("makemigrations", "shop", "-v", "0")
    assert "OK" in project.manage("test")
    assert database.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


@pytest.mark.parametrize("first", FIRST)
def test_who_asks_before_the_first_start_finds_an_empty_store(make, database, first):
    database.allowed += ("anarchon_", "does not exist")
    project = make(shop__jobs=PAYING)
    project.manage("migrate", "-v", "0")
    words = (*FIRST[first], PAGES) if first == "pages" else FIRST[first]
    told = project.manage(*words, code=int(first == "cancel"))
    assert "missing" not in told
    if first == "pause":
        assert project.manage("anarchon", "jobs").count("paused") >= 1


def test_options_of_the_driver_are_none_of_the_server(make):
    """Django hands all of them to psycopg."""
    project = make(shop__jobs="", options={"autocommit": False, "application_name": "site"})
    assert "DATABASES['default']" in project.manage("shell", "-v", "0", "-c", ROLE)
