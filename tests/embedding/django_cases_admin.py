"""Cases of the admin pages, run inside of a project by test_django_admin.py."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import TestCase, override_settings

from anarchon import BackendUnavailable
from anarchon.contrib.django import _views, scheduler

JOBS, RUNS, DETAIL = "/admin/anarchon/job/", "/admin/anarchon/run/", "/admin/anarchon/run/detail/"
BUTTONS = ("run-now", "pause", "resume")
ALL = ("view_job", "view_run", "run_job", "pause_job", "resume_job")
IDLE = "No scheduler runs in the process that shows this page"
RAN = threading.Event()
NASTY = 'a/b?c=d&e"<b>\u00fc:..'


def fail():
    raise ValueError("no such <table>")


scheduler.every("fail", "1d", fail, catch_up=0, description="It can't work.")
scheduler.every("mark", "1d", RAN.set, catch_up=0)
scheduler.cron(NASTY, "0 8 * * 1-5", RAN.set, catch_up=0, timezone="Europe/Athens")
scheduler.every("off", "1d", RAN.set, enabled=False)


@contextmanager
def store_down():
    """Have the store refuse everything, with a message such as those of real ones."""
    refused = BackendUnavailable("Somewhere can't be asked: it is <down>")
    backend, names = scheduler._options.backend, ("open", "_read_once", "_write_once")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(mock.patch.object(backend, name, side_effect=refused))
        yield


class Pages(TestCase):
    """What everybody needs: users with permissions, and a store that is empty of pauses."""

    def setUp(self):
        for name in (None, "fail", "mark", NASTY):
            scheduler.resume(name)

    def tearDown(self):
        scheduler.stop()

    def log_in(self, *permissions, is_superuser=False):
        user = User.objects.create(username="somebody", is_staff=True, is_superuser=is_superuser)
        wanted = Permission.objects.filter(codename__in=permissions)
        assert len(wanted) == len(permissions)
        user.user_permissions.set(wanted)
        self.client.force_login(user)

    def text(self, url, code=200, **query):
        response = self.client.get(url, query)
        assert response.status_code == code, response.content
        return response.content.decode()

    def press(self, button, job, follow=True):
        return self.client.post(f"{JOBS}{button}/", {"job": job}, follow=follow)


class Permissions(Pages):
    def test_somebody_who_is_not_logged_in_is_sent_to_log_in(self):
        for url in (JOBS, RUNS, DETAIL, *(f"{JOBS}{button}/" for button in BUTTONS)):
            self.assertRedirects(
                self.client.get(url), f"/admin/login/?next={url}", fetch_redirect_response=False
            )

    def test_without_a_permission_nothing_is_shown(self):
        self.log_in()
        for url in (JOBS, RUNS, DETAIL):
            self.text(url, code=403)
        assert "/anarchon/" not in self.text("/admin/")

    def test_who_may_look_sees_no_button_and_can_press_none(self):
        self.log_in("view_job", "view_run")
        page = self.text(JOBS)
        assert "It can&#x27;t work." in page
        for button in BUTTONS:
            assert f"{button}/" not in page
            assert self.press(button, "mark").status_code == 403
        assert scheduler.history("mark") == []

    def test_each_button_has_a_permission_of_its_own(self):
        self.log_in("view_job", "pause_job")
        page = self.text(JOBS)
        assert f"{JOBS}pause/" in page
        assert "run-now/" not in page
        assert self.press("pause", "mark").status_code == 200
        assert self.press("run-now", "mark").status_code == 403
        assert self.press("resume", "mark").status_code == 403
        assert f"{JOBS}resume/" not in self.text(JOBS)

    def test_a_button_without_sight_of_the_jobs_is_refused(self):
        self.log_in("pause_job")
        assert self.press("pause", "mark").status_code == 403

    def test_who_sees_jobs_only_gets_no_link_to_runs(self):
        self.log_in("view_job")
        assert RUNS not in self.text(JOBS)
        self.text(RUNS, code=403)

    def test_runs_alone(self):
        self.log_in("view_run")
        self.text(RUNS)
        self.text(JOBS, code=403)

    def test_there_is_nothing_to_add_change_or_delete(self):
        self.log_in(is_superuser=True)
        front = self.text("/admin/")
        assert JOBS in front
        assert "Scheduled jobs" in front
        self.text(f"{JOBS}add/", code=404)
        names = set(
            Permission.objects.filter(content_type__app_label="anarchon").values_list(
                "codename", flat=True
            )
        )
        assert names == set(ALL)

    def test_buttons_take_no_get_and_need_the_token(self):
        self.log_in(is_superuser=True)
        for button in BUTTONS:
            self.text(f"{JOBS}{button}/", code=405, job="mark")
        strict = self.client_class(enforce_csrf_checks=True)
        strict.force_login(User.objects.get())
        answer = strict.post(f"{JOBS}pause/", {"job": "mark"})
        assert answer.status_code == 403


class Jobs(Pages):
    def test_the_list(self):
        self.log_in(is_superuser=True)
        page = " ".join(self.text(JOBS).split())
        assert "every 1d" in page
        assert "at 08:00, Monday through Friday (Europe/Athens)" in page
        assert "<td>disabled</td>" in page
        assert "<b>" not in page

    def test_pause_and_resume(self):
        self.log_in(is_superuser=True)
        page = self.press("pause", NASTY).content.decode()
        assert "is paused" in page
        self.assertInHTML("<td>yes</td>", page, count=1)
        assert f"{JOBS}resume/" in page
        page = self.press("resume", NASTY).content.decode()
        assert "<td>yes</td>" not in page
        assert f"{JOBS}resume/" not in page
        entries = LogEntry.objects.values_list("object_id", "change_message")
        assert set(entries) == {(NASTY, "Pause"), (NASTY, "Resume")}
        assert "Resume" not in self.text("/admin/")
        assert "Recent actions" in self.text("/admin/")

    def test_a_button_that_changes_nothing_says_so(self):
        self.log_in(is_superuser=True)
        page = self.press("resume", "mark").content.decode()
        assert "“mark” was not paused." in page
        assert "goes on" not in page
        assert "“mark” is paused." in self.press("pause", "mark").content.decode()
        page = self.press("pause", "mark").content.decode()
        assert "“mark” was paused already, and stays so." in page
        assert "is paused." not in page
        self.assertInHTML("<td>yes</td>", page, count=1)

    def test_one_job_can_not_be_taken_out_of_a_pause_of_all(self):
        self.log_in(is_superuser=True)
        scheduler.pause()
        page = self.press("resume", "mark").content.decode()
        assert "“mark” stays paused, because all jobs are" in page
        assert "goes on" not in page
        assert "“mark” is paused." in self.press("pause", "mark").content.decode()

    def test_a_store_that_can_not_say_what_is_paused(self):
        self.log_in(is_superuser=True)
        with mock.patch("anarchon.contrib.django._views.pauses_in", return_value=None):
            assert "“mark” goes on" in self.press("resume", "mark").content.decode()
            assert "“mark” is paused." in self.press("pause", "mark").content.decode()

    def test_a_site_of_another_name_leads_to_itself(self):
        self.log_in(is_superuser=True)
        page = self.text("/staff/anarchon/job/")
        assert '"/staff/anarchon/job/pause/"' in page
        assert '"/admin/' not in page
        answer = self.client.post("/staff/anarchon/job/resume/", {"job": "mark"})
        assert answer.headers["Location"] == "/staff/anarchon/job/"

    def test_a_pause_of_all_jobs_is_seen(self):
        self.log_in(is_superuser=True)
        scheduler.pause()
        assert self.text(JOBS).count("<td>yes</td>") == len(scheduler.jobs)

    def test_run_now(self):
        self.log_in(is_superuser=True)
        RAN.clear()
        scheduler.start()
        assert "runs now" in self.press("run-now", NASTY).content.decode()
        assert RAN.wait(10)

    def test_run_now_where_nothing_runs_says_what_to_do(self):
        self.log_in(is_superuser=True)
        page = self.press("run-now", "mark").content.decode()
        assert "manage.py anarchon run-now" in page
        assert not LogEntry.objects.exists()

    def test_run_now_while_it_starts_says_that_it_starts(self):
        self.log_in(is_superuser=True)
        with store_down():
            scheduler.start(retry=True)
            page = self.press("run-now", "mark").content.decode()
        assert "the scheduler is starting" in page
        assert "manage.py anarchon run-now" not in page

    def test_a_process_without_a_scheduler_is_told_to_who_may_run(self):
        self.log_in("view_job", "pause_job")
        assert IDLE not in self.text(JOBS)
        scheduler.start()
        User.objects.update(is_superuser=True)
        assert IDLE not in self.text(JOBS)
        scheduler.stop()
        page = self.text(JOBS)
        assert IDLE in page
        assert "manage.py anarchon run-now" in page
        disabled = scheduler._options._replace(enabled=False)
        with mock.patch.object(scheduler, "_options", disabled):
            page = self.text(JOBS)
        assert "enabled=False" in page
        assert "anarchon run-now" not in page

    def test_a_job_that_is_not_there(self):
        self.log_in(is_superuser=True)
        page = self.press("pause", "<b>nothing</b>").content.decode()
        assert "There is no job “&lt;b&gt;nothing&lt;/b&gt;” here." in page

    def test_pages_of_more_than_a_thousand_jobs_follow_each_other(self):
        self.log_in(is_superuser=True)
        many = property(lambda _: jobs)
        jobs = scheduler.jobs * 1000
        with (
            override_settings(USE_THOUSAND_SEPARATOR=True),
            mock.patch.object(_views, "JOBS", 1200),
            mock.patch.object(type(scheduler), "jobs", many),
            mock.patch.object(_views, "job_lines", return_value=_views.Asked([], None)),
        ):
            assert 'href="?from=1200">' in self.text(JOBS)
            page = self.text(JOBS, **{"from": "1200"})
            assert 'href="?from=2400">' in page
            assert 'href="?from=0">' in page
            assert 'href="?from=1200">' in self.text(JOBS, **{"from": "2400"})

    def test_a_disabled_job_is_not_run(self):
        self.log_in(is_superuser=True)
        scheduler.start()
        assert "enabled=False" in self.press("run-now", "off").content.decode()


class Runs(Pages):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with scheduler:
            for _ in range(3):
                scheduler.run_now("fail")
            scheduler.run_now(NASTY)

    def test_the_filters(self):
        self.log_in(is_superuser=True)
        assert self.text(RUNS).count('data-status="') >= 4
        page = self.text(RUNS, job="fail")
        assert page.count('data-status="') == page.count('data-status="failed"')
        assert page.count('data-status="failed"') >= 3
        assert self.text(RUNS, job="fail", status="success").count('data-status="') == 0
        assert self.text(RUNS, job=NASTY).count('data-status="success"') >= 1
        assert "No runs." in self.text(RUNS, job="nobody")
        assert 'data-status="failed"' in self.text(RUNS, status="nonsense")

    def test_a_run_has_a_page_with_its_traceback(self):
        from anarchon.contrib.django._views import key_of

        self.log_in(is_superuser=True)
        for run in scheduler.history("fail"):
            page = self.text(DETAIL, run=key_of(run))
            assert run.run_id in page
            assert "ValueError: no such &lt;table&gt;" in page
            assert '<pre id="traceback"' in page
        run = scheduler.history(NASTY)[0]
        assert run.run_id in self.text(DETAIL, run=key_of(run))
        assert f"?run={run.slot}%3A1%3A{run.run_id}%3A" in self.text(RUNS, job=NASTY)

    def test_without_a_zone_of_the_project_django_has_no_page_and_our_times_are_the_hosts(self):
        self.log_in(is_superuser=True)
        run = scheduler.history("fail", limit=1)[0]
        for zone in (None, ""):
            with override_settings(TIME_ZONE=zone, USE_TZ=False):
                line = _views.run_line(run)
                assert line.due.utcoffset() == run.scheduled_at.astimezone().utcoffset()
                with pytest.raises((TypeError, ValueError, OSError)):
                    self.client.get("/admin/")

    def test_times_are_those_of_the_current_zone(self):
        self.log_in(is_superuser=True)
        run = scheduler.history("fail", limit=1)[0]
        due = f"{run.scheduled_at.astimezone(ZoneInfo('Asia/Tokyo')):%Y-%m-%d %H:%M:%S} JST"
        for use_tz in (True, False):
            with override_settings(TIME_ZONE="Asia/Tokyo", USE_TZ=use_tz):
                assert due in self.text(RUNS, job="fail")

    def test_the_last_moment_of_the_calendar(self):
        self.log_in(is_superuser=True)
        scheduler.once("far", "9999-12-31T23:59:59Z", fail)
        self.addCleanup(scheduler.remove, "far")
        with override_settings(TIME_ZONE="Asia/Tokyo"):
            assert "9999-12-31 23:59:59 UTC" in self.text(JOBS)

    def test_what_names_no_run_is_not_found(self):
        self.log_in(is_superuser=True)
        for key in ("", "nonsense", "1:1::fail", "1:0::fail", "x:1::fail", "9" * 99 + ":1::fail"):
            self.text(DETAIL, code=404, run=key)
        self.text(DETAIL, code=404)

    def test_pages_follow_each_other(self):
        self.log_in(is_superuser=True)
        before, _views.PAGE = _views.PAGE, 2
        try:
            first = self.text(RUNS, job="fail")
            assert first.count("data-status") == 2
            older = first.partition('<a href="?job=fail')[2].partition('"')[0]
            second = self.client.get(f"{RUNS}?job=fail{older.replace('&amp;', '&')}")
            self.assertContains(second, "data-status")
            self.assertContains(second, "Newest")
            last = scheduler.history("fail", limit=3)[-1]
            self.assertContains(second, last.run_id)
            assert last.run_id not in first
            assert "data-status" in self.text(RUNS, job="fail", before="nonsense")
        finally:
            _views.PAGE = before


class Trouble(Pages):
    def test_a_store_that_is_down_is_a_message(self):
        self.log_in(is_superuser=True)
        with store_down():
            page = self.text(JOBS)
            assert "Somewhere can&#x27;t be asked: it is &lt;down&gt;" in page
            assert page.count("can&#x27;t be asked") == 1
            assert "every 1d" in page
            assert "it is &lt;down&gt;" in self.text(RUNS)
            assert "it is &lt;down&gt;" in self.text(DETAIL, run="1:1::fail")
            page = self.press("pause", "mark").content.decode()
            assert "it is &lt;down&gt;" in page
            assert not LogEntry.objects.exists()

    @override_settings(LANGUAGE_CODE="de")
    def test_pages_are_shown_in_another_language(self):
        self.log_in(is_superuser=True)
        assert 'lang="de"' in self.text(JOBS)
        self.text(RUNS)
