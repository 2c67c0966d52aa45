"""Assertions about jobs, what they say when they fail, and the fixtures for pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from anarchon import ConfigurationError, JobNotFound, MemoryBackend, Scheduler, _testing_assertions
from anarchon.testing import (
    assert_due,
    assert_due_between,
    assert_ran_once,
    manual_time,
)
from tests.docs.pages import environment

NINE = datetime(2026, 10, 10, 9, tzinfo=UTC)
NEIGHBOURS = (
    "its schedule Cron('0 * * * *', timezone='UTC') has 2026-10-10T09:00:00.000Z before that and"
    " 2026-10-10T10:00:00.000Z after it"
)


@pytest.fixture
def scheduler():
    made = Scheduler(MemoryBackend())
    made.cron("report", "0 * * * *", lambda: None)
    made.once("launch", "2026-12-24T18:00Z", lambda: None)
    return made


def said(call, *arguments, **options) -> str:
    with pytest.raises(AssertionError) as raised:
        call(*arguments, **options)
    return str(raised.value)


# --- due ----------------------------------------------------------------------------


@pytest.mark.parametrize("slot", [NINE, "2026-10-10T09:00Z", int(NINE.timestamp() * 1000)])
def test_a_slot_is_due(scheduler, slot):
    assert_due(scheduler, "report", slot)


def test_what_is_not_due_names_the_slots_around_it(scheduler):
    told = said(assert_due, scheduler, "report", "2026-10-10T09:30Z")
    assert told == f"job 'report' is not due at 2026-10-10T09:30:00.000Z: {NEIGHBOURS}"
    told = said(assert_due, scheduler, "launch", NINE)
    assert told.endswith("has no slot before that and 2026-12-24T18:00:00.000Z after it")
    told = said(assert_due, scheduler, "report", NINE.replace(microsecond=1000))
    assert "is not due at 2026-10-10T09:00:00.001Z" in told


def test_slots_between_two_times(scheduler):
    slots = assert_due_between(scheduler, "report", NINE, "2026-10-10T11:00Z")
    assert slots == [NINE, NINE.replace(hour=10)]
    assert assert_due_between(scheduler, "report", NINE, "2026-10-10T11:00Z", times=2) == slots
    assert assert_due_between(scheduler, "report", NINE, "2026-10-10T11:01Z", times=3)
    assert assert_due_between(scheduler, "launch", NINE, "2026-11-01T00:00Z", times=0) == []


def test_no_slot_between_two_times(scheduler):
    told = said(assert_due_between, scheduler, "report", "2026-10-10T09:01Z", "2026-10-10T10:00Z")
    span = "from 2026-10-10T09:01:00.000Z to 2026-10-10T10:00:00.000Z"
    assert told == f"job 'report' is not due {span}: {NEIGHBOURS}"
    told = said(
        assert_due_between, scheduler, "report", "2026-10-10T09:01Z", "2026-10-10T09:59Z", times=1
    )
    assert ", and should be once: " in told


def test_another_number_of_slots_lists_them(scheduler):
    told = said(assert_due_between, scheduler, "report", NINE, "2026-10-10T11:00Z", times=0)
    assert "is due 2 times from " in told
    assert told.endswith(", not never: 2026-10-10T09:00:00.000Z, 2026-10-10T10:00:00.000Z")
    told = said(assert_due_between, scheduler, "report", NINE, "2026-10-11T09:00Z", times=1)
    assert "is due 24 times from " in told
    assert told.endswith("T13:00:00.000Z, and 19 more")
    told = said(assert_due_between, scheduler, "report", NINE, "2026-10-10T14:00Z", times=1)
    assert told.endswith("T13:00:00.000Z")


# --- ran ----------------------------------------------------------------------------


def test_a_slot_ran_once(scheduler):
    with manual_time(scheduler, start="2026-10-10T08:30Z") as clock:
        scheduler.run_now("report")
        clock.advance("1h")
        run = assert_ran_once(scheduler, "report", NINE)
        assert (run.status, run.scheduled_at, run.manual) == ("success", NINE, False)


def test_a_slot_that_did_not_run(scheduler):
    with manual_time(scheduler, start="2026-10-10T08:30Z") as clock:
        told = said(assert_ran_once, scheduler, "report", NINE)
        what = "job 'report' @ 2026-10-10T09:00:00.000Z: it did not run; "
        assert told == f"{what}the history of the job is empty"
        clock.advance("2h")
        told = said(assert_ran_once, scheduler, "report", "2026-10-10T11:00Z")
        assert "it did not run; the slot is not in history; that has:\n    report @ " in told
        assert told.count("\n    report @ ") == 2
        told = said(assert_ran_once, scheduler, "report", "2026-10-10T08:00Z")
        assert "or was trimmed: history begins at 2026-10-10T09:00:00.000Z; that has:" in told
        told = said(assert_ran_once, scheduler, "report", "2026-10-10T09:30Z")
        assert told.endswith(NEIGHBOURS)


def test_a_slot_whose_attempts_failed(scheduler):
    scheduler.cron("report", "0 * * * *", lambda: 1 / 0, replace=True)
    with manual_time(scheduler, start="2026-10-10T08:30Z") as clock:
        clock.advance("1h")
        told = said(assert_ran_once, scheduler, "report", NINE)
    first, line = told.splitlines()
    assert first.endswith("no attempt is a success:")
    assert line.startswith("    report @ 2026-10-10T09:00:00.000Z: failed, attempt 1, ")
    assert line.endswith(": ZeroDivisionError: division by zero")


def test_a_slot_that_ran_twice(scheduler, monkeypatch):
    """Which no store lets happen, so its history is doubled here."""
    with manual_time(scheduler, start="2026-10-10T08:30Z") as clock:
        clock.advance("1h")
        history = scheduler.history("report")
        monkeypatch.setattr(scheduler, "history", lambda *_, **__: history * 2)
        told = said(assert_ran_once, scheduler, "report", NINE)
    assert ": it ran 2 times, not once:\n    report @ " in told


def test_a_slot_on_any_page_of_history(scheduler, monkeypatch):
    monkeypatch.setattr(_testing_assertions, "_PAGE", 3)
    with manual_time(scheduler, start="2026-10-10T08:30Z") as clock:
        clock.advance("5h")
        for hour in range(9, 14):
            run = assert_ran_once(scheduler, "report", NINE.replace(hour=hour))
            assert run.scheduled_at == NINE.replace(hour=hour)


# --- wrong arguments ----------------------------------------------------------------


@pytest.mark.parametrize("call", [assert_due, assert_ran_once])
def test_wrong_arguments_are_no_failed_assertions(call, scheduler):
    with pytest.raises(JobNotFound, match="did you mean 'report'"):
        call(scheduler, "reprot", NINE)
    with pytest.raises(ConfigurationError, match="slot: "):
        call(scheduler, "report", "nine")
    with pytest.raises(ConfigurationError, match="is no scheduler"):
        call(None, "report", NINE)


def test_wrong_times(scheduler):
    between = ("report", NINE, "2026-10-10T11:00Z")
    for times in (-1, True, "2"):
        with pytest.raises(ConfigurationError, match="times: "):
            assert_due_between(scheduler, *between, times=times)
    with pytest.raises(ConfigurationError, match="not later"):
        assert_due_between(scheduler, "report", NINE, NINE)
    scheduler.every("tick", "1s", lambda: None)
    with pytest.raises(ConfigurationError, match="more than 10000 slots"):
        assert_due_between(scheduler, "tick", 0, 10_001_000)
    assert len(assert_due_between(scheduler, "tick", 0, 10_000_000)) == 10_000


# --- the plugin ---------------------------------------------------------------------

TESTS = """
from anarchon import MemoryBackend, Scheduler
from anarchon.testing import assert_due, assert_due_between, assert_ran_once, run_job

seen = []
scheduler = Scheduler(MemoryBackend(), enabled=False)
scheduler.every("tick", "1h", lambda: seen.append(1))
scheduler.every("bad", "1h", lambda: 1 / 0)

def test_manual_time(manual_time):
    clock = manual_time(scheduler, start="2026-10-10T08:30Z")
    clock.advance("1h")
    assert_ran_once(scheduler, "tick", "2026-10-10T09:00Z")
    assert scheduler.state == "running"

def test_it_has_ended():
    assert (scheduler.state, scheduler.history()) == ("idle", [])

def test_manual_clock(manual_clock):
    own = Scheduler(MemoryBackend(), catch_up=0)
    own.every("tick", "1h", lambda: seen.append(2))
    manual_clock.attach(own)
    with own:
        manual_clock.advance("2h")
    assert seen == [1, 2, 2]

def test_a_report_shows_the_handler():
    run_job(scheduler, "bad")

def test_a_report_shows_what_was_asserted():
    assert_due(scheduler, "tick", "2026-10-10T08:30Z")

def test_it_ran():
    assert_ran_once(scheduler, "tick", "2026-10-10T08:00Z")

def test_it_is_due():
    assert_due_between(scheduler, "tick", "2026-10-10T08:30Z", "2026-10-10T08:31Z")
"""


def run_pytest(folder) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_the_fixtures(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["anarchon.contrib.pytest"]\n')
    (tmp_path / "test_site.py").write_text(TESTS)
    told = run_pytest(tmp_path)
    assert "4 failed, 3 passed" in told, told
    assert "ZeroDivisionError" in told
    # From the test to the handler, with nothing of ours in between.
    assert "run_job(scheduler" in told
    assert f"{os.sep}_testing_" not in told


def test_importing_loads_no_pytest():
    program = (
        "import sys, anarchon.testing as t, anarchon.contrib.wsgi;"
        "[getattr(t, name) for name in t.__all__ if 'Contract' not in name];"
        "print('pytest' in sys.modules, '_pytest' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False False\n"
