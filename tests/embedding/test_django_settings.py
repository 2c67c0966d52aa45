"""The setting of a project, its scheduler and its checks, inside of a project."""

from __future__ import annotations

import pytest

from tests.embedding.django_project import Project
from tests.embedding.django_runner import cases_in, run_cases

FILE = "django_cases_settings.py"
SETTINGS = """
DATABASES["default"]["TEST"] = {"NAME": str(BASE_DIR / "test.sqlite3")}
DATABASES |= {
    "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "other.sqlite3"},
    "memory": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    "mysql": {"ENGINE": "django.db.backends.dummy"},
    "server": {
        "ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": 9,
        "NAME": "shop", "USER": "me", "PASSWORD": "s3cr3t-of-nobody",
    },
    "no_file": {"ENGINE": "django.db.backends.sqlite3", "NAME": ""},
    "no_mode": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "x",
        "OPTIONS": {"transaction_mode": "odd"},
    },
}
# What psycopg takes for itself, and what libpq does.
OPTIONAL = {
    "autocommit": True, "row_factory": tuple, "cursor_factory": object, "prepare_threshold": 3,
    "server_side_binding": True, "pool": True, "assume_role": "owner", "isolation_level": 2,
    "sslmode": "require", "passfile": None, "conninfo": "host=some.host application_name=site",
}
for alias, name, options in [
    ("no_name", "", {}),
    ("misspelled", "shop", {"sslmodus": "require"}),
    ("no_address", "shop", {"conninfo": "me:s3cr3t-of-nobody"}),
    ("optional", "shop", OPTIONAL),
]:
    DATABASES[alias] = {
        "ENGINE": "django.db.backends.postgresql", "NAME": name, "USER": "me", "OPTIONS": options
    }
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("settings"), settings=SETTINGS)
    return run_cases(project, FILE)


@pytest.mark.parametrize("case", cases_in(FILE))
def test_the_setting(case, outcomes):
    assert outcomes.get(case) == "ok", outcomes.get(case)


def test_nothing_is_missing(outcomes):
    assert set(outcomes) == set(cases_in(FILE))


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path, settings='ANARCHON["BACKNED"] = 3\n')
    yield made
    made.clean_up()


def test_a_wrong_setting_is_told_by_check_and_by_whoever_needs_the_scheduler(project):
    told = project.manage("check", code=1)
    assert "(anarchon.E001)" in told
    assert "did you mean 'BACKEND'?" in told
    assert "Traceback" not in told
    assert "did you mean 'BACKEND'?" in project.manage("anarchon", "jobs", code=1)


def test_a_function_for_the_store_that_raises_stops_no_command(tmp_path):
    """As where the build of an image has no secrets: the check says so, to those who ask for it."""
    stores = 'import os\n\ndef jobs():\n    return os.environ["JOBS_STORE_SECRET"]\n'
    settings = 'ANARCHON["BACKEND"] = "shop.stores.jobs"\nSTATIC_ROOT = BASE_DIR / "static"\n'
    project = Project(tmp_path, settings=settings, shop__stores=stores)
    assert "static files copied" in project.manage("collectstatic", "--noinput")
    told = project.manage("check", code=1)
    assert "(anarchon.E001)" in told
    assert "KeyError: 'JOBS_STORE_SECRET'" in told
    assert "Traceback" not in told


def test_a_broken_module_of_jobs_is_raised(tmp_path):
    broken = Project(tmp_path, shop__jobs="import nothing_of_that_name\n")
    assert "nothing_of_that_name" in broken.manage("check", code=1)


NOT_INSTALLED = 'INSTALLED_APPS.remove("anarchon.contrib.django")\n'
SET_UP = "import site_wsgi"
NOT_SET_UP = "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'site_settings'"
HOOKED = """
from anarchon.contrib.gunicorn import hooks
hooks("anarchon.contrib.django:scheduler")["post_worker_init"](None)
"""


@pytest.mark.parametrize(
    ("before", "settings", "said"),
    [
        (SET_UP, NOT_INSTALLED, '"anarchon.contrib.django" is not in INSTALLED_APPS, so no'),
        (NOT_SET_UP, "", "Django is not set up, so no jobs.py is read"),
    ],
)
def test_a_scheduler_that_would_find_no_jobs_does_not_start(tmp_path, before, settings, said):
    project = Project(tmp_path, settings=settings)
    told = project.said("-c", f"{before}\n{HOOKED}", program=(), code=1)[1]
    assert f"anarchon.errors.ConfigurationError: {said}" in told
    assert "scheduler started" not in told
