"""Cases of `manage.py anarchon`, run inside of a project by test_django_command.py."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase


def said(*words, code=0):
    """Return what the command prints; it has to end with this exit status."""
    out = StringIO()
    if code == 0:
        call_command("anarchon", *words, stdout=out)
    else:
        with pytest.raises(SystemExit) as caught:
            call_command("anarchon", *words, stdout=out)
        assert caught.value.code == code
    return out.getvalue()


def printed(*words, **how):
    return json.loads(said(*words, "--json", **how))


def refused(*words):
    """Return the message and the exit status of what can't be done."""
    with pytest.raises(CommandError) as caught:
        call_command("anarchon", *words)
    return str(caught.value), caught.value.returncode


class Command(SimpleTestCase):
    def test_jobs(self):
        text = said("jobs")
        assert "Every('1d')" in text
        assert "daily" in text
        assert [job["name"] for job in printed("jobs")["jobs"]] == ["fail", "talk", "daily"]

    def test_next(self):
        slots = printed("next", "daily", "-n", "2")
        assert (slots["timezone"], len(slots["slots"])) == ("Europe/Athens", 2)
        told, status = refused("next", "dayly")
        assert "did you mean 'daily'?" in told
        assert status == 2

    def test_run_now_and_history(self):
        assert "ValueError: no such table" in said("run-now", "fail", code=1)
        assert printed("run-now", "fail", code=1)["status"] == "failed"
        run = printed("run-now", "daily", "--data", '{"day": 1}')
        assert (run["status"], run["manual"]) == ("success", True)
        told, status = refused("run-now", "daily", "--data", "{")
        assert "no JSON" in told
        assert status == 2
        assert "ValueError: no such table" in said("history")
        runs = printed("history", "fail", "--limit", "1", "--status", "failed")["runs"]
        assert [run["status"] for run in runs] == ["failed"]
        assert printed("history", "fail", "--status", "success") == {"runs": []}

    def test_pause_and_resume(self):
        assert said("pause", "talk", "--for", "90s") == (
            "talk is paused on every instance, for 1m30s\n"
        )
        assert [job["paused"] for job in printed("jobs")["jobs"]] == [False, True, False]
        assert said("resume", "talk") == "talk is resumed\n"
        assert printed("pause") == {"job": None, "paused": True, "duration_ms": None}
        assert said("resume") == "the pause of every job is over\n"
        told, status = refused("pause", "dayly")
        assert "did you mean 'daily'?" in told
        assert status == 2

    def test_explain_and_cancel(self):
        run = printed("run-now", "daily", "--data", '{"day": 1}')
        assert printed("explain", "daily", str(run["slot"]))["outcome"] == "success"
        assert "success, run by hand" in said("explain", "daily", run["scheduled_at"])
        assert said("cancel", "daily", "2026-12-01T06:00", code=1) == (
            "daily @ 2026-12-01T06:00:00.000Z: no such run is open\n"
        )
        assert "is no slot" in refused("explain", "daily", "soon")[0]

    def test_instances(self):
        from anarchon.contrib.django import scheduler

        assert printed("instances") == {"instances": [], "warnings": []}
        with scheduler:
            while not scheduler.instances():
                continue
            [one] = printed("instances")["instances"]
            assert "instance  " in said("instances")
        assert one["jobs"] == ["daily", "fail", "talk"]

    def test_trigger_and_backfill(self):
        run_id, what, when = said("trigger", "daily", "--data", '{"day": 1}').splitlines()
        assert run_id.startswith("trigger-")
        assert what == "daily is to run once, on any instance that has it"
        assert when.startswith("it is taken with the fleet's next claim")
        times = ("--from", "2026-11-01", "--to", "2026-11-04")
        told = printed("backfill", "daily", *times, "-n", "2")
        assert (len(told["runs"]), told["go_on_from"] is None) == (2, False)
        assert "are to run one after another" in said("backfill", "daily", *times)
        assert printed("backfill", "daily", "--from", "0", "--to", "1", code=1)["runs"] == []
        assert "did you mean 'daily'?" in refused("trigger", "dayly")[0]
        assert "no JSON" in refused("trigger", "daily", "--data", "{")[0]
        assert (
            "--from: 'soon' is no" in refused("backfill", "daily", "--from", "soon", "--to", "1")[0]
        )
        assert "required" in refused("backfill", "daily", "--from", "0")[0]

    def test_what_can_not_be_read(self):
        assert "invalid choice" in refused("history", "--status", "odd")[0]
        for words in (("history", "-n", "0"), ("next", "fail", "-n", "1001")):
            assert f"{words[-1]!r} is no number from 1 to 1000" in refused(*words)[0]
        assert "required" in refused()[0]
