"""The pages of the admin, clicked through in a real browser against a real server."""

from __future__ import annotations

import pytest

from tests.embedding.django_project import Project
from tests.servers.chromium import launched, need_chromium

# In one transaction with each request, the store's own writes would wait for ever.
SETTINGS = """
ANARCHON["AUTOSTART"] = "server"
DATABASES["default"]["ATOMIC_REQUESTS"] = True
"""
JOBS = """
from anarchon import every

@every("good", "1d", catch_up=0)
def good():
    pass

@every("bad", "1d", catch_up=0)
def bad():
    raise ValueError("no such <table>")
"""
USERS = """
from django.contrib.auth.models import Permission, User
User.objects.create_superuser("boss", password="pass-word")
viewer = User.objects.create_user("viewer", password="pass-word", is_staff=True)
viewer.user_permissions.set(Permission.objects.filter(codename__in=["view_job", "view_run"]))
"""
TIMEOUT_MS = 20_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    need_chromium()
    project = Project(tmp_path_factory.mktemp("browser"), settings=SETTINGS, shop__jobs=JOBS)
    project.manage("migrate", "-v", "0")
    project.manage("shell", "-v", "0", "-c", USERS)
    server = project.run("manage.py", "runserver", "--noreload", "127.0.0.1:{port}")
    assert server.wait_for(lambda: server.state()["state"] == "running", "a running scheduler")
    yield server
    project.clean_up()


@pytest.fixture
def browser(server):
    with launched() as browser:
        yield browser


def logged_in(browser, server, name):
    """Return a page of the admin's front, as somebody sees it who has logged in."""
    page = browser.new_context(base_url=f"http://127.0.0.1:{server.port}").new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto("/admin/")
    page.fill("#id_username", name)
    page.fill("#id_password", "pass-word")
    page.click("input[type=submit]")
    page.click("#content a:text-is('Jobs')")
    return page


def row(page, job):
    return page.locator(f"tr[data-job='{job}']")


def press(page, job, button):
    row(page, job).get_by_role("button", name=button, exact=True).click()
    return page.locator(".messagelist").inner_text()


def statuses(page):
    """Return the statuses of the runs that are listed, when one is that has ended."""
    page.locator("tr[data-status]").first.wait_for()
    return [one.get_attribute("data-status") for one in page.locator("tr[data-status]").all()]


def test_the_pages_are_clicked_through(browser, server):
    page = logged_in(browser, server, "boss")
    assert "every 1d" in row(page, "good").inner_text()

    for job in ("good", "bad", "bad"):
        assert f"“{job}” runs now" in press(page, job, "Run now")
    server.expect_log("] good @", count=2)
    server.expect_log(": failed after", count=2)

    page.reload()
    row(page, "bad").get_by_role("link", name="failed").wait_for()
    page.click("#nav-sidebar a:text-is('Runs')")
    assert sorted(statuses(page)) == ["failed", "failed", "success"]
    page.select_option("#id_job", "good")
    page.click("input[value=Filter]")
    assert statuses(page) == ["success"]
    page.select_option("#id_job", "")
    page.select_option("#id_status", "failed")
    page.click("input[value=Filter]")
    assert statuses(page) == ["failed", "failed"]

    page.locator("tr[data-status='failed'] a").first.click()
    traceback = page.locator("#traceback").inner_text()
    assert "in bad" in traceback
    assert traceback.strip().endswith("ValueError: no such <table>")

    page.click("#nav-sidebar a:text-is('Jobs')")
    assert "“good” is paused" in press(page, "good", "Pause")
    assert "yes" in row(page, "good").inner_text()
    assert "no" in row(page, "bad").inner_text().split()
    assert row(page, "good").get_by_role("button", name="Pause").count() == 0
    assert "“good” goes on" in press(page, "good", "Resume")
    assert row(page, "good").get_by_role("button", name="Resume").count() == 0
    assert row(page, "good").get_by_role("button", name="Pause").count() == 1


def test_who_may_only_look_finds_no_button_and_is_refused(browser, server):
    page = logged_in(browser, server, "viewer")
    assert "every 1d" in row(page, "good").inner_text()
    assert page.locator("#result_list button").count() == 0
    token = page.locator("[name=csrfmiddlewaretoken]").first.get_attribute("value")
    ran = server.log().count("] good @")
    for button in ("run-now", "pause", "resume"):
        answer = page.request.post(
            f"/admin/anarchon/job/{button}/",
            form={"job": "good", "csrfmiddlewaretoken": token},
        )
        assert answer.status == 403, button
        assert "CSRF" not in answer.text()
    assert server.log().count("] good @") == ran
