"""The tests of the app and of its jobs, for pytest."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from app import app, jobs, report

from anarchon import Aborted
from anarchon.testing import assert_due_between, assert_ran_once, make_context, run_job

if TYPE_CHECKING:
    from flask.testing import FlaskClient

    from anarchon.contrib.pytest import ManualTime

NOON = datetime(2026, 10, 10, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def client() -> FlaskClient:
    """Have no job started by a request."""
    app.config["TESTING"] = True
    return app.test_client()


def test_a_job_runs_in_the_context_of_the_app() -> None:
    assert run_job(jobs.scheduler, "sync", NOON).status == "success"


def test_a_report_takes_a_while_but_not_here() -> None:
    run = run_job(jobs.scheduler, "report")
    assert run.duration_ms is not None
    assert run.duration_ms >= 20_000


def test_a_report_gives_up_when_the_worker_is_to_end() -> None:
    with pytest.raises(Aborted):
        report(make_context(abort_after="5s"))


def test_there_is_a_report_each_minute() -> None:
    assert_due_between(jobs.scheduler, "report", NOON, "2026-10-10T13:00Z", times=60)


def test_the_page_shows_what_ran(client: FlaskClient, manual_time: ManualTime) -> None:
    clock = manual_time(jobs.scheduler, start=NOON)
    clock.advance("3s")
    run = assert_ran_once(jobs.scheduler, "sync", "2026-10-10T12:00:02Z")
    told = client.get("/").json
    assert told["state"] == "running"
    assert str(run) in told["runs"]


def test_a_probe_is_answered(client: FlaskClient) -> None:
    assert client.get("/health/live").status_code == 200
    assert client.get("/health").json["reasons"] == ["the scheduler is idle"]
