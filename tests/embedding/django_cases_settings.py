"""Cases of the setting and of the checks, run inside of a project by test_django_settings.py."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock
from unittest.mock import patch as patched

import pytest
from django.apps import apps
from django.conf import settings
from django.core.checks import run_checks
from django.db import ConnectionHandler, connections
from django.test import SimpleTestCase, TransactionTestCase, override_settings

from anarchon import ConfigurationError, MemoryBackend, RedisBackend, Scheduler, SqliteBackend
from anarchon._values import Limits
from anarchon.contrib.django import _finding, _scheduler, _starting, scheduler
from anarchon.contrib.django._databases import (
    PostgresOfDjango,
    SqliteOfDjango,
    libpq_params,
)
from anarchon.contrib.django._scheduler import project_scheduler

STORE = MemoryBackend(namespace="own")
SECRET = "s3cr3t-of-nobody"


def make_store():
    return MemoryBackend(namespace="made")


def store_of_the_environment():
    return os.environ["JOBS_STORE_SECRET"]


def needs_an_argument(name):
    return name


def no_driver():
    raise ImportError("install it")


def wrong_store():
    return MemoryBackend(namespace="")


def wrong_address():
    raise ValueError(f"mysql://me:{SECRET}@host has no port")


@contextmanager
def project(given=None, **others):
    """Make the scheduler anew, as the settings say."""
    changes = {**others} if given is None else {"ANARCHON": given, **others}
    with override_settings(**changes), mock.patch.dict(_scheduler._made, clear=True):
        yield


def made(given=None, **others):
    with project(given, **others):
        return project_scheduler()


class Refused(SimpleTestCase):
    def refused(self, given, *words):
        with project(given):
            try:
                project_scheduler()
            except ConfigurationError as error:
                text = str(error)
            else:
                raise AssertionError(f"{given} was taken")
            [told] = run_checks()
        assert told.id == "anarchon.E001"
        assert text in told.msg
        for word in words:
            assert word in text, text
        assert SECRET not in text

    def test_keys_that_are_not_known(self):
        self.refused({"BACKNED": "default"}, "ANARCHON[", "did you mean 'BACKEND'?")
        self.refused({"backend": "default"}, "did you mean 'BACKEND'?")
        self.refused(
            {"BACKNED": 1, "OPTONS": {}, "QQQ": 1},
            "ANARCHON has keys that are not known: 'BACKNED' (did you mean 'BACKEND'?), 'OPTONS'"
            " (did you mean 'OPTIONS'?), 'QQQ' (there are BACKEND, ",
        )
        self.refused({"OPTIONS": {"leese": 3, "wrokers": 3}}, "'leese' (did", "'wrokers' (did")
        self.refused({"QQQ": 1}, "there are BACKEND, NAMESPACE, AUTOSTART, OPTIONS")
        self.refused({"OPTIONS": {"leese": 3}}, "['leese']", "did you mean 'lease'?")
        self.refused({"OPTIONS": {"backend": 3}}, "OPTIONS", "'backend'")

    def test_values_that_can_not_be_meant(self):
        self.refused([], "ANARCHON is no dict")
        self.refused(f"redis://me:{SECRET}@some.host/0", "ANARCHON is no dict", '"BACKEND"')
        self.refused({1: 2}, "dict")
        self.refused({"OPTIONS": 3}, 'ANARCHON["OPTIONS"]')
        self.refused({"OPTIONS": {"lease": "1 parsec"}}, 'ANARCHON["OPTIONS"]: lease')
        self.refused({"OPTIONS": {"around": 3}}, 'ANARCHON["OPTIONS"]: around')
        for value in (3, "", " x", "x\n", "x" * 201):
            for backend in ("default", "memory://", f"{__name__}.make_store"):
                given = {"BACKEND": backend, "NAMESPACE": value}
                self.refused(given, 'ANARCHON["NAMESPACE"]: The namespace')
        for value in (True, "yes", 1):
            self.refused({"AUTOSTART": value}, 'ANARCHON["AUTOSTART"]', '"server"')

    def test_stores_that_are_none(self):
        self.refused({"BACKEND": "defualt"}, "no alias of DATABASES", "'default'")
        self.refused({"BACKEND": f"mysql://me:{SECRET}@host/db"}, 'ANARCHON["BACKEND"]')
        self.refused({"BACKEND": f"redis//me:{SECRET}@some.host/0"}, "redis://")
        self.refused({"BACKEND": "nowhere.at.all"}, "can't be imported")
        self.refused({"BACKEND": f"{__name__}.SECRET"}, 'ANARCHON["BACKEND"]')
        self.refused({"BACKEND": 3}, 'ANARCHON["BACKEND"]')
        self.refused({"BACKEND": "mysql"}, "DATABASES['mysql']", "unknown", "redis://")
        self.refused({"BACKEND": STORE, "NAMESPACE": "other"}, "'own'", "'other'")

    def test_what_a_path_leads_to_may_raise_anything(self):
        name = f"{__name__}.store_of_the_environment"
        self.refused({"BACKEND": name}, f"{name!r} raised KeyError: 'JOBS_STORE_SECRET'")
        for name in ("needs_an_argument", "no_driver", "wrong_store"):
            self.refused({"BACKEND": f"{__name__}.{name}"}, f"{name}' raised ")
        self.refused({"BACKEND": f"{__name__}.wrong_address"}, "wrong_address' raised ValueError")
        folder = Path(settings.BASE_DIR)
        (folder / "broken_store.py").write_text("1 / 0\n", encoding="utf-8")
        self.refused({"BACKEND": "broken_store.jobs"}, "can't be imported: ZeroDivisionError")

    def test_databases_that_can_not_be_used(self):
        cases = {
            "no_name": "Please supply the NAME",
            "no_file": "Please supply the NAME",
            "no_mode": "transaction_mode",
            "misspelled": "takes: 'sslmodus'",
            "no_address": "no address that libpq can read",
        }
        for alias, said in cases.items():
            self.refused({"BACKEND": alias}, f"DATABASES['{alias}']", said)
        with mock.patch.object(_scheduler, "connections", ConnectionHandler({"other": {}})):
            self.refused({}, "DATABASES can't be used: ", "'default'")


class Made(SimpleTestCase):
    def test_by_default_it_is_the_default_database_and_the_zone_of_the_project(self):
        with override_settings(TIME_ZONE="Europe/Athens"):
            del settings.ANARCHON
            plain = made()
        assert isinstance(plain._options.backend, SqliteOfDjango)
        assert plain._options.backend.namespace == "anarchon"
        assert (
            plain.cron("daily", "0 8 * * *", make_store).jobs[0].schedule.timezone
            == "Europe/Athens"
        )

    def test_without_a_zone_of_the_project_it_is_utc(self):
        for zone in (None, ""):
            plain = made(TIME_ZONE=zone).cron("daily", "0 8 * * *", make_store)
            assert plain.jobs[0].schedule.timezone == "UTC"

    def test_jobs_of_both_forms_are_found(self):
        assert {job.name: job.description for job in scheduler.jobs} == {
            "work": "",
            "fail": "It can't work.",
        }
        assert scheduler is project_scheduler()
        assert isinstance(scheduler, Scheduler)

    def test_a_module_of_jobs_without_any_is_left_alone(self):
        import shop.models

        assert not _finding._declares(shop.models)

    def test_stores_by_every_name(self):
        cases = {
            "other": SqliteOfDjango,
            "server": PostgresOfDjango,
            "redis://localhost:1/0": RedisBackend,
            "memory://": MemoryBackend,
            "sqlite:///jobs.db": SqliteBackend,
            f"{__name__}.STORE": MemoryBackend,
            f"{__name__}.make_store": MemoryBackend,
            STORE: MemoryBackend,
        }
        for given, kind in cases.items():
            assert isinstance(made({"BACKEND": given})._options.backend, kind), given
        assert made({"BACKEND": "other", "NAMESPACE": "n"})._options.backend.namespace == "n"
        assert made({"BACKEND": f"{__name__}.STORE"})._options.backend is STORE

    def test_options_are_those_of_the_scheduler(self):
        options = made({"OPTIONS": {"workers": 3, "timezone": "UTC"}})._options
        assert options.workers == 3

    def test_a_password_is_never_shown(self):
        store = made({"BACKEND": "server"})._options.backend
        assert "DATABASES['server']" in repr(store)
        assert SECRET not in repr(store)
        with pytest.raises(ConnectionError) as caught:
            store.history(None, limit=1)
        assert SECRET not in str(caught.value)
        assert "DATABASES['server']" in str(caught.value)

    def test_options_that_psycopg_and_django_keep_for_themselves(self):
        params = libpq_params("optional")
        assert params == {
            "dbname": "shop",
            "user": "me",
            "host": "some.host",
            "client_encoding": "UTF8",
            "sslmode": "require",
            "application_name": "site",
        }

    def test_an_entry_that_became_wrong_is_not_tried_again(self):
        """As the name of a database of tests may be."""
        backend = made({"BACKEND": "server"})._options.backend
        entry = {**connections.settings["server"], "NAME": ""}
        with patched.dict(connections.settings, server=entry):
            for call in (
                partial(backend.open, Limits()),
                partial(backend.pause, None, duration_ms=1),
            ):
                with pytest.raises(ConfigurationError, match="Please supply the NAME"):
                    call()
        backend.close()

    def test_a_database_in_memory_is_refused_when_it_is_used(self):
        backend = made({"BACKEND": "memory"})._options.backend
        with pytest.raises(ConfigurationError, match=r"\['memory'\] is in memory.*TEST"):
            backend.history(None, limit=1)


class Installed(SimpleTestCase):
    def test_an_app_that_is_not_installed_is_refused(self):
        others = [name for name in settings.INSTALLED_APPS if name != "anarchon.contrib.django"]
        with (
            project(INSTALLED_APPS=others),
            pytest.raises(ConfigurationError, match="not in INSTALLED_APPS, so no jobs"),
        ):
            project_scheduler()

    def test_an_app_by_a_class_of_its_own_is_installed(self):
        names = [name for name in settings.INSTALLED_APPS if name != "anarchon.contrib.django"]
        names.append("tests.embedding.django_own_app.OwnConfig")
        with project(), override_settings(INSTALLED_APPS=names):
            assert [job.name for job in project_scheduler().jobs] == ["work"]

    def test_a_change_of_the_apps_defines_no_job_twice(self):
        """As tests make one, which has Django get ready again."""
        before = scheduler.jobs
        with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, "django.contrib.sites"]):
            assert scheduler.jobs == before


class TestDatabases(TransactionTestCase):
    def test_the_store_is_where_the_tests_are(self):
        file = str(settings.BASE_DIR / "test.sqlite3")
        with scheduler:
            scheduler.run_now("fail")
            assert scheduler._options.backend.database == file
        assert scheduler.history("fail", limit=1)[0].status == "failed"
        assert not (settings.BASE_DIR / "db.sqlite3").exists()

    def test_around_of_the_project_is_inside(self):
        said = []

        @contextmanager
        def around(ctx):
            said.append(ctx.name)
            yield
            said.append("left")

        with project({"BACKEND": "memory://", "OPTIONS": {"around": around}}):
            own = project_scheduler().every("one", "1d", lambda: said.append("in"), catch_up=0)
            with own:
                own.run_now("one")
        assert said == ["one", "in", "left"]


class Checks(SimpleTestCase):
    def told(self, *, deploy=False, command="check", **others):
        others.setdefault("WSGI_APPLICATION", "site_wsgi.application")
        with project(**others), patched("sys.argv", ["manage.py", command]):
            found = run_checks(include_deployment_checks=deploy)
        return [one.id for one in found if one.id.startswith("anarchon")]

    def file(self, name, text):
        path = Path(settings.BASE_DIR) / name
        path.write_text(text, encoding="utf-8")
        self.addCleanup(path.unlink)

    def with_jobs(self, given, command="check"):
        """Return what a command tells of a project with a job."""
        return [one.id for one in self.messages(given, command)]

    def messages(self, given=None, command="check"):
        words, given = ["manage.py", command], {"BACKEND": "memory://", **(given or {})}
        with project(given, DEBUG=True), patched("sys.argv", words):
            project_scheduler().every("one", "1d", make_store)
            return run_checks()

    def test_files_and_memory_can_not_be_shared(self):
        assert self.told(DEBUG=True) == []
        assert self.told(DEBUG=False) == ["anarchon.W001"]
        assert self.told(DEBUG=False, command="test") == []
        assert self.told(DEBUG=True, deploy=True) == ["anarchon.W001"]
        assert self.told(DEBUG=False, deploy=True) == ["anarchon.W001"]
        memory, redis = ({"BACKEND": url} for url in ("memory://", "redis://localhost:1"))
        assert self.told(ANARCHON=memory, DEBUG=False) == ["anarchon.W002"]
        assert self.told(ANARCHON=redis, DEBUG=False, deploy=True) == []

    def test_nobody_starts(self):
        assert self.with_jobs({}) == ["anarchon.I001"]
        assert self.with_jobs({}, "runserver") == ["anarchon.I001"]
        assert self.with_jobs({}, "migrate") == []
        assert self.with_jobs({"AUTOSTART": "server"}) == []
        assert self.with_jobs({"AUTOSTART": False}) == []

    def test_wsgi_starts(self):
        start = "from anarchon.contrib.django import start\nstart()\n"
        self.file("wsgi_starts.py", start)
        with override_settings(WSGI_APPLICATION="wsgi_starts.application"):
            assert self.with_jobs({}) == []
            self.file("gunicorn.conf.py", "preload_app = True\n")
            assert self.with_jobs({}) == ["anarchon.W003"]
            [told] = self.messages()
            assert "gunicorn's master process alone." in told.msg
            assert told.hint.startswith("take start() out of wsgi_starts; start it in the workers")
            assert "globals().update(hooks(" in told.hint

    def test_wsgi_starts_besides_hooks(self):
        self.file("wsgi_starts.py", "from anarchon.contrib.django import start\nstart()\n")
        self.file("gunicorn.conf.py", "preload_app = True\nglobals().update(hooks('x:y'))\n")
        with override_settings(WSGI_APPLICATION="wsgi_starts.application"):
            [told] = self.messages()
        assert told.id == "anarchon.W003"
        assert "gunicorn's master process as well as in its workers." in told.msg
        assert told.hint == (
            "take start() out of wsgi_starts; the hooks in gunicorn.conf.py are enough"
        )

    def test_hooks_start(self):
        self.file("gunicorn.conf.py", "preload_app = True\nglobals().update(hooks('x:y'))\n")
        assert self.with_jobs({}) == []
        assert self.with_jobs({}, "runserver") == ["anarchon.I001"]  # which calls no hooks

    def test_broken_files_are_none(self):
        self.file("gunicorn.conf.py", "preload_app = = \n")
        with override_settings(WSGI_APPLICATION="no.such.module"):
            assert self.with_jobs({}) == ["anarchon.I001"]

    def test_a_deployed_project_needs_more_than_runserver(self):
        given = {"BACKEND": "redis://localhost:1", "AUTOSTART": "server"}
        assert self.told(ANARCHON=given, deploy=True) == ["anarchon.W004"]
        assert self.told(ANARCHON=given) == []
        self.file("gunicorn.conf.py", "globals().update(hooks('x:y'))\n")
        assert self.told(ANARCHON=given, deploy=True) == []


class Starting(SimpleTestCase):
    def test_which_processes_run_the_development_server(self):
        serves = _starting.is_runserver
        assert serves(["manage.py", "runserver", "8000"])
        assert serves(["/a/b/manage.py", "runserver", "--noreload"])
        assert serves(["/x/django/__main__.py", "runserver"])
        assert not serves(["manage.py", "migrate"])
        assert not serves(["manage.py"])
        assert not serves(["gunicorn", "runserver"])

    def test_which_commands_do_not(self):
        other = _starting.is_other_command
        for name in ("test", "shell", "migrate", "makemigrations", "check", "testserver"):
            assert other(["manage.py", name]), name
        assert not other(["manage.py", "runserver"])
        assert not other(["manage.py", "anarchon", "run"])
        assert not other(["manage.py", "serve_in_another_way"])
        assert not other(["gunicorn", "check"])
        assert not other(["manage.py"])

    def test_here_nothing_starts(self):
        from anarchon.contrib.django import start

        assert os.environ.get("DJANGO_SETTINGS_MODULE") == "site_settings"
        start()
        assert scheduler.state == "idle"

    def test_without_ready_apps_nothing_starts(self):
        """Also where Django says that they are, as runserver does after a setup that failed."""
        assert apps.ready
        for starting in (scheduler.start, partial(scheduler.start, retry=True), scheduler.run):
            with (
                patched.object(apps, "ready_event", threading.Event()),
                pytest.raises(ConfigurationError, match="Django is not set up in this"),
            ):
                starting()
            assert scheduler.state == "idle"
