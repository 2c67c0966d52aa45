"""The pages of the admin, by Django's test client inside of a project."""

from __future__ import annotations

import pytest

from tests.embedding.django_project import URLS, Project
from tests.embedding.django_runner import cases_in, run_cases

FILE = "django_cases_admin.py"
# A file of its own: Django keeps the other one in a transaction as long as a test takes.
SETTINGS = """
ANARCHON["BACKEND"] = f"sqlite:///{BASE_DIR}/jobs.db"
"""
ANOTHER_SITE = """
from anarchon.contrib.django.admin import JobAdmin, RunAdmin
from anarchon.contrib.django.models import Job, Run

staff = admin.AdminSite("staff")
staff.register(Job, JobAdmin)
staff.register(Run, RunAdmin)
urlpatterns.append(path("staff/", staff.urls))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    project = Project(
        tmp_path_factory.mktemp("admin"),
        settings=SETTINGS,
        shop__jobs="",
        site_urls=URLS + ANOTHER_SITE,
    )
    return run_cases(project, FILE)


@pytest.mark.parametrize("case", cases_in(FILE))
def test_the_pages(case, outcomes):
    assert outcomes.get(case) == "ok", outcomes.get(case)


def test_nothing_is_missing(outcomes):
    assert set(outcomes) == set(cases_in(FILE))
