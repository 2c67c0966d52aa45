"""The dashboard among the pages of a Django project, asked as Django's tests ask."""

from __future__ import annotations

import json

import pytest

from tests.embedding.django_project import Project

SETTINGS = """
LOGIN_URL = "/log-in/"
DATABASES["default"]["ATOMIC_REQUESTS"] = True
ANARCHON["BACKEND"] = f"sqlite:///{BASE_DIR}/jobs.db"
"""
URLS = """
from django.urls import include, path
urlpatterns = [path("ops/jobs/", include("anarchon.contrib.django.dashboard"))]
"""
JOBS = """
from anarchon import every

@every("a/b <c>", "1d", catch_up=0)
def job():
    pass
"""
LOOK = """
import json, re
from django.contrib.auth.models import Permission, User
from django.test import Client
from anarchon.contrib.django import scheduler

found = {}

def client_of(name, *permissions):
    client = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    user = User.objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client

look, act = ["view_job", "view_run"], ["run_job", "pause_job", "resume_job"]
people = {
    "anybody": Client(headers={"host": "localhost"}),
    "stranger": client_of("stranger"),
    "half": client_of("half", "view_job", *act),
    "viewer": client_of("viewer", *look, "run_job"),
    "boss": client_of("boss", *look, *act),
}
for name, client in people.items():
    answer = client.get("/ops/jobs/", follow=False)
    text = answer.content.decode()
    found[name] = [answer.status_code, "a/b &lt;c&gt;" in text, "Pause" in text]
    token = (re.findall('name="token" value="([0-9a-f]+)"', text) or [""])[0]
    form = {"do": "pause", "name": "a/b <c>", "token": token}
    done = client.post("/ops/jobs/act", form)
    # A form as browsers send it.
    body = "do=pause&name=a%2Fb+%3Cc%3E&token=" + token
    kind = "application/x-www-form-urlencoded"
    done = client.post("/ops/jobs/act", body, content_type=kind)
    found[name] += [done.status_code]
    if name == "boss":
        found["headers"] = dict(answer.headers)
        found["cookie"] = answer.cookies["anarchon_form"].OutputString()
        found["location"] = done.headers["Location"]
        found["paused"] = "paused" in client.get("/ops/jobs/").content.decode()
        found["static"] = client.get("/ops/jobs/static/dashboard.css").status_code
        found["job"] = client.get("/ops/jobs/job", {"name": "a/b <c>"}).status_code
        found["slash"] = client.get("/ops/jobs").headers["Location"]
        found["foreign"] = client.post("/ops/jobs/act", body, content_type=kind,
            headers={"sec-fetch-site": "cross-site"}).status_code
found["login"] = people["anybody"].get("/ops/jobs/job?name=x").headers["Location"]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    project = Project(
        tmp_path_factory.mktemp("django"), settings=SETTINGS, site_urls=URLS, shop__jobs=JOBS
    )
    project.manage("migrate", "-v", "0")
    said, _ = project.said("shell", "-v", "0", "-c", LOOK)
    return json.loads(said.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("anybody", [302, False, False, 302]),
        ("stranger", [403, False, False, 403]),
        ("half", [403, False, False, 403]),
        ("viewer", [200, True, False, 403]),
        ("boss", [200, True, True, 303]),
    ],
)
def test_permissions_decide(name, outcome, found):
    assert found[name] == outcome


def test_the_pages_are_those_of_the_dashboard(found):
    assert found["paused"]
    assert (found["static"], found["job"], found["foreign"]) == (200, 200, 403)
    assert found["location"].startswith("./?done=pause&on=a%2Fb")
    assert found["slash"] == "/ops/jobs/"
    assert found["login"] == "/log-in/?next=/ops/jobs/job%3Fname%3Dx"


def test_headers_and_the_cookie_arrive(found):
    assert "default-src 'none'" in found["headers"]["Content-Security-Policy"]
    assert "HttpOnly" in found["cookie"]
    assert "SameSite=Lax" in found["cookie"]
    # The browser itself knows the path, also behind a proxy.
    assert "Path" not in found["cookie"]
