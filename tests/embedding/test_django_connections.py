"""Django's connections: those of threads that end are closed, those in a test's hands are kept."""

from __future__ import annotations

from tests.embedding.django_project import Project

IN_MEMORY = 'DATABASES["default"]["NAME"] = "file:jobs?mode=memory&cache=shared"\n'
THREADS = """
import threading
from django.db import connection
from anarchon.contrib.django._connections import around_run

def work(kept, shared):
    with around_run(None, None):
        connection.ensure_connection()
        if shared:
            connection.inc_thread_sharing()
        kept.append(connection.connection)

def told(shared):
    kept = []
    thread = threading.Thread(target=work, args=(kept, shared))
    thread.start()
    thread.join()
    try:
        return kept[0].execute("SELECT 'open'").fetchone()[0]
    except Exception as error:
        return str(error)

print(told(False), told(True), sep="; ")
"""
TEST = """
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from anarchon.contrib.django import scheduler
from anarchon.testing import run_job

class Tests(TestCase):
    def setUp(self):
        scheduler.every("ask", "1h", self.ask, replace=True)

    def ask(self):
        assert connection.in_atomic_block
        connection.cursor().execute("SELECT 1")

    def test_its_connection_stays_though_it_is_old_and_had_errors(self):
        raw = connection.connection
        connection.close_at, connection.errors_occurred = 0, True
        run_job(scheduler, "ask")
        assert connection.connection is raw and not connection.closed_in_transaction

    def test_its_queries_are_counted(self):
        with CaptureQueriesContext(connection) as all_of_them:
            self.ask()
            with self.assertNumQueries(1):
                run_job(scheduler, "ask")
        assert len(all_of_them) == 2
"""


def test_a_thread_that_ends_closes_what_only_it_has(tmp_path):
    project = Project(tmp_path, settings=IN_MEMORY)
    told = project.said("shell", "-v", "0", "-c", THREADS)[0]
    assert told == "Cannot operate on a closed database.; open\n"


def test_a_run_in_the_hands_of_a_test_keeps_its_connection(tmp_path):
    name = 'DATABASES["default"]["TEST"] = {"NAME": BASE_DIR / "t", "MIGRATE": False}\n'
    project = Project(tmp_path, settings=name, shop__tests=TEST)
    assert "Ran 2 tests" in project.manage("test")
