"""What `manage.py anarchon` prints, and its exit statuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.commands.helpers import ended
from tests.embedding.apart import said_apart
from tests.embedding.django_project import Project
from tests.embedding.django_runner import cases_in, run_cases

FILE = "django_cases_command.py"
SETTINGS = """
ANARCHON["OPTIONS"]["log"] = False
ANARCHON["BACKEND"] = f"sqlite:///{BASE_DIR}/jobs.db"
"""
JOBS = """
from anarchon import cron, every

@every("fail", "1d", catch_up=0)
def fail():
    raise ValueError("no such table")

@every("talk", "1h", catch_up="1h")
def talk():
    print("hello")

@cron("daily", "0 8 * * *", timezone="Europe/Athens", catch_up=0)
def daily(ctx):
    assert ctx.data == {"day": 1}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("command"), shop__jobs=JOBS, settings=SETTINGS)


@pytest.fixture(scope="module")
def outcomes(project):
    return run_cases(project, FILE)


@pytest.mark.parametrize("case", cases_in(FILE))
def test_the_command(case, outcomes):
    assert outcomes.get(case) == "ok", outcomes.get(case)


def test_nothing_is_missing(outcomes):
    assert set(outcomes) == set(cases_in(FILE))


def test_exit_statuses_of_a_process(project):
    assert "no such table" in project.said("anarchon", "run-now", "fail", code=1)[0]
    told = project.said("anarchon", "next", "dayly", code=2)[1]
    assert told.startswith("CommandError: ")


def test_a_second_interrupt_ends_at_once_and_quietly(tmp_path):
    slow = JOBS.replace('print("hello")', "import time; time.sleep(60)")
    project = Project(tmp_path, shop__jobs=slow, settings=SETTINGS)
    process = subprocess.Popen(
        [sys.executable, "manage.py", "anarchon", "run"],
        cwd=project.folder,
        env=project.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    with ended(process):
        assert process.stderr.readline().startswith("3 jobs on <SqliteBackend ")
        while "running" not in project.said("anarchon", "history")[0]:
            continue
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith("waiting up to 30s for talk @ ")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[1] == ""
        assert process.returncode == 130


def test_what_jobs_print_is_apart_from_json(tmp_path):
    """In a store of its own: in the other one runs are asked for that wait for an instance."""
    project = Project(tmp_path, shop__jobs=JOBS, settings=SETTINGS)
    out, err = project.said("anarchon", "run-now", "talk", "--json")
    assert (json.loads(out)["status"], err) == ("success", "hello\n")
    out, err = project.said("anarchon", "run-now", "talk")
    assert (out.splitlines()[0], err) == ("hello", "")
    words = ("manage.py", "anarchon", "run", "--json")
    out, err = said_apart(project.folder, project.environment(), *words)
    assert [json.loads(line)["job"] for line in out.splitlines()] == ["talk"]
    assert "hello\n" in err
