"""Where the jobs of a project are found, and what is said of those that are not."""

from __future__ import annotations

import json

import pytest

from tests.embedding.django_project import Project

ONE = """
from anarchon import every

@every({name!r}, "1d")
def job():
    pass
"""
NOT_IMPORTED = 'raise ImportError("nobody imports this")\n'


def names_in(project) -> list[str]:
    """Return the jobs of a project, of which each command imports all modules of jobs."""
    return [
        job["name"] for job in json.loads(project.said("anarchon", "jobs", "--json")[0])["jobs"]
    ]


def with_package(folder, app: str, **texts: str) -> Project:
    """Return a project with a package of jobs and one app more; a name ends in its module's."""
    project = Project(folder, settings=f"INSTALLED_APPS.append({app!r})\n")
    (folder / "shop" / "jobs.py").unlink()
    for name, text in texts.items():
        module = {"init": "__init__", "main": "__main__"}
        *packages, last = name.split("__")
        project.write("/".join(["shop", "jobs", *packages, module.get(last, last)]) + ".py", text)
    return project


def test_an_app_that_is_called_jobs_is_no_module_of_jobs(tmp_path):
    project = with_package(
        tmp_path,
        "shop.jobs",
        init="",
        main=NOT_IMPORTED,
        tests=NOT_IMPORTED,
        views=NOT_IMPORTED,
        jobs=ONE.format(name="inner"),
    )
    assert names_in(project) == ["inner"]


def test_a_package_of_jobs_without_what_nobody_imports(tmp_path):
    project = with_package(
        tmp_path,
        "shop.jobs.billing.apps.BillingConfig",
        init="",
        main=NOT_IMPORTED,
        tests__init=NOT_IMPORTED,
        test_hourly=NOT_IMPORTED,
        conftest=NOT_IMPORTED,
        hourly=ONE.format(name="hourly"),
        deep__init="",
        deep__main=NOT_IMPORTED,
        deep__daily=ONE.format(name="daily"),
        billing__init="",
        billing__apps=BILLING,
        billing__views=NOT_IMPORTED,
        billing__jobs=ONE.format(name="bill"),
    )
    assert sorted(names_in(project)) == ["bill", "daily", "hourly"]


BILLING = """
from django.apps import AppConfig

class BillingConfig(AppConfig):
    name = "shop.jobs.billing"
"""

METHOD = """
from anarchon import every

class Reports:
    @every("sync", "1h")
    def sync(self):
        pass
"""
NOT_APPLIED = """
from anarchon import every
every("sync", "1h")
"""
OF_THE_SCHEDULER = """
from anarchon.contrib.django import scheduler
scheduler.every("sync", "1h")
"""
NO_WRAPS = """
from anarchon import cron

def quietly(function):
    def call(ctx):
        function(ctx)
    return call

@quietly
@cron("sync", "0 8 * * *")
def sync(ctx):
    pass
"""
SAME_NAME = """
from anarchon import every

@every("sync", "1h")
def work():
    pass

@every("other", "1h")
def work():
    pass
"""
IMPORTED = "from shop.reports import sync\n"
CASES = {
    "a method": (METHOD, "shop.jobs declares the job 'sync'"),
    "not applied": (NOT_APPLIED, "shop.jobs declares the job 'sync'"),
    "of the scheduler": (OF_THE_SCHEDULER, "@every('sync', ...) on Every('1h') was never applied"),
    "without wraps": (NO_WRAPS, "shop.jobs declares the job 'sync'"),
    "two functions of a name": (SAME_NAME, "shop.jobs declares the job 'sync'"),
    "only imported": (IMPORTED, "shop.reports declares the job 'sync'"),
}
REPORTS = ONE.format(name="sync").replace("job()", "sync()")


@pytest.mark.parametrize("case", CASES)
def test_a_job_that_was_declared_and_is_none_is_told(tmp_path, case):
    jobs, said = CASES[case]
    project = Project(tmp_path, shop__jobs=jobs, shop__reports=REPORTS)
    told = project.manage("check", "--tag", "anarchon")
    assert told.count("(anarchon.W005)") == 1
    assert said in told


REGISTERED = """
from anarchon.contrib.django import scheduler
from shop import reports

class More(Reports):
    def sync(self):
        pass

scheduler.register(Reports(), prefix="eu-")
scheduler.register(More())
scheduler.register(reports)
scheduler.every("clean", "1h", lambda: None, replace=True)
"""


def test_what_is_registered_in_any_way_is_not_told(tmp_path):
    reports = ONE.format(name="clean") + ONE.format(name="own").replace("job()", "own()")
    project = Project(tmp_path, shop__jobs=METHOD + REGISTERED, shop__reports=reports)
    assert "W005" not in project.manage("check", "--tag", "anarchon")
    assert names_in(project) == ["eu-sync", "sync", "clean", "own"]


def test_modules_of_others_that_are_called_jobs_are_not_told(tmp_path):
    jobs = "class Jobs(list):\n    pass\n\nall_jobs = Jobs()\n"
    assert "W005" not in Project(tmp_path, shop__jobs=jobs).manage("check", "--tag", "anarchon")
