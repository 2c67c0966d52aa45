"""The page about the dashboard: its programs serve it, and its numbers are those of the code."""

from __future__ import annotations

import re
import runpy
import shutil

import pytest

from anarchon.web import _actions, _guard, _pages
from anarchon.web import dashboard as made_by_default
from tests.docs.pages import ROOT, blocks, rows, text_of
from tests.embedding.django_project import Project
from tests.web.client import Browser

PAGE = "dashboard.md"
FLAT = " ".join(text_of(PAGE).split())
FILES = {block.file: block.text for block in blocks(PAGE) if block.file}
LOG_IN = """
@app.get("/log-in/<user>")
def log_in(user):
    session["user"] = user
    return "in"
"""
DJANGO = """
ANARCHON["BACKEND"] = f"sqlite:///{BASE_DIR}/jobs.db"
"""
ASK = """
from django.contrib.auth.models import User
from django.test import Client
client = Client(headers={"host": "localhost"})
client.force_login(User.objects.create_superuser("boss"))
print(client.get("/jobs/").content.decode())
"""


def saved(name, folder, monkeypatch, *more):
    """Run a file of the page in its folder, and return its names."""
    monkeypatch.chdir(folder)
    path = folder / name
    path.write_text(FILES[name] + "".join(more), encoding="utf-8")
    return runpy.run_path(str(path))


def test_alone(tmp_path, monkeypatch):
    names = saved("board.py", tmp_path, monkeypatch)
    browser = Browser(names["application"])
    page = browser.get().page
    assert page.values("data-job") == ["sync"]
    assert "Copies what has changed." in page.text
    assert page.buttons == []
    assert "$ gunicorn board\n" in text_of(PAGE)  # which takes `application` of a module


def test_in_flask(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", logger="anarchon")
    app = saved("app.py", tmp_path, monkeypatch, LOG_IN)["app"]
    app.testing = True
    client = app.test_client()
    assert client.get("/jobs/").status_code == 403
    client.get("/log-in/clerk")
    assert "Pause" not in client.get("/jobs/").text
    client.get("/log-in/boss")
    assert client.get("/jobs", follow_redirects=True).request.path == "/jobs/"
    [token] = set(re.findall(r'name="token" value="(\w+)"', client.get("/jobs/").text))
    form = {"do": "pause", "name": "sync", "token": token}
    answer = client.post("/jobs/act", data=form)
    assert answer.status_code == 303
    assert caplog.messages == ["dashboard: pause of 'sync', asked for by boss"]
    assert f"`{caplog.messages[0]}`" in FLAT
    assert "is paused" in client.get(f"/jobs/{answer.location.removeprefix('./')}").text
    assert client.get("/nowhere").status_code == 404


def test_in_the_example(tmp_path, monkeypatch):
    shutil.copy(ROOT / "examples/flask_gunicorn/app.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    app = runpy.run_path("app.py")["app"]
    app.testing = True
    page = app.test_client().get("/jobs/").text
    assert 'data-job="report"' in page
    assert "<form method" not in page


def test_in_django(tmp_path):
    project = Project(tmp_path, settings=DJANGO, site_urls=FILES["mysite/urls.py"])
    project.manage("migrate", "-v", "0")
    page = project.manage("shell", "-v", "0", "-c", ASK)
    assert 'data-job="fail"' in page
    assert 'value="pause"' in page
    source = (ROOT / "anarchon/contrib/django/dashboard.py").read_text(encoding="utf-8")
    permissions = set(re.findall(r'"(anarchon\.\w+_(?:job|run))"', source))
    assert len(permissions) == 5
    assert [name for name in sorted(permissions) if f"`{name}`" not in FLAT] == []


def test_in_front_of_any_other(run_page):
    browser = Browser(run_page(PAGE).names["application"], prefix="/site")
    assert browser.get("/").body == b"the service"
    assert "Jobs of the service" in browser.get("/jobs/").page.text


def test_the_numbers_of_the_page():
    found = {row[0]: tuple(map(int, row[1:])) for row in rows(PAGE, "page", "questions")}
    assert found == {
        f"Jobs, {_pages.JOBS} on a page": (_pages.JOBS + 1, _pages.JOBS * _pages.STRIP),
        "one job": (2, _pages.LANES + 1),
        "Runs": (1, _pages.RUNS + 1),
        "one run": (1, _pages.ATTEMPTS),
        f"Instances, {_pages.INSTANCES} on a page": (1, 0),
    }
    assert f"last {_pages.STRIP} runs in a strip" in FLAT
    assert _pages.NEXT == 5
    assert _pages._FURTHEST == 1000
    assert made_by_default.__kwdefaults__["refresh"] == "5s"
    assert f"at least {_guard._LEAST_SECRET} characters" in FLAT


def test_the_buttons_of_the_page():
    shown = {word for row in rows(PAGE, "button", "does") for word in row[0].split(", ")}
    assert shown == {
        "Run now", "Trigger", "Backfill", "Pause", "Resume", "Pause all jobs", "Resume all jobs",
        "Cancel the run",
    }  # fmt: skip
    assert len(_actions._ACTIONS) == len(shown)


@pytest.mark.parametrize("answer", ["read", "act", None])
def test_what_authorize_may_return(answer):
    assert f"- `{answer!r}`:".replace("'", '"') in text_of(PAGE)
