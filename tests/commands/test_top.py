"""The fleet at a glance: what a look finds, and how much it asks for."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing

import pytest

from anarchon import (
    BackendUnavailable,
    MemoryBackend,
    Scheduler,
    SqliteBackend,
    _commands_history,
    _commands_top,
)
from anarchon._commands_top import Board, one_look
from anarchon.testing import FaultyBackend
from tests.commands.presences import present
from tests.commands.stores import Waiting
from tests.docs.pages import text_of
from tests.facade.helpers import until
from tests.web.conftest import Past

HOUR = 3_600_000
RUN = f"INSERT INTO anarchon_run VALUES ({', '.join('?' * 22)})"
# Of a look, for up to 500 jobs: instances, pauses, and all that is asked for records.
MOST_CALLS = 2 + _commands_history._MOST_PAGES + _commands_history._MOST_JOBS + 1
MOST_CALLS += _commands_top._ASKED_BY_NAME


def sections(text: str) -> dict[str, list[str]]:
    """Return the lines of a look by the titles of its tables."""
    parts = (part.splitlines() for part in text.split("\n\n"))
    return {title: lines for title, *lines in parts}


def test_a_store_without_anything(tmp_path):
    answer = one_look(Board(Scheduler(SqliteBackend(tmp_path / "jobs.db"))))
    assert (answer.status, answer.error) == (0, None)
    assert sections(answer.text) == {
        "instances": ["no instance is known to the store"],
        "running": ["nothing runs"],
        "jobs": ["no job has ended a run"],
    }
    assert "there is no such file yet" in answer.note
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def past(tmp_path):
    past = Past(tmp_path / "jobs.db")
    yield past
    past.close()


def test_jobs_have_their_next_slots_and_their_last_outcomes(past):
    now = int(time.time() * 1000)
    past.write("old", now - 900 * HOUR, took=20_007)
    past.write("sync", now - 3 * HOUR, "failed", error="ValueError: no\nline", took=20_250)
    past.write("sync", now - 2 * HOUR, "skipped", late=None, detail="overlap")
    past.write("gone", now - HOUR, took=1)
    scheduler = Scheduler(past.store)
    scheduler.cron("old", "0 0 29 2 *", lambda: None)
    scheduler.every("sync", "1d", lambda: None)
    scheduler.every("never", "1d", lambda: None, enabled=False)
    scheduler.pause("sync")
    lines = sections(one_look(Board(scheduler)).text)["jobs"]
    heads, *rows = (re.split(r"  +", re.sub(r"\d+s ago", "", line)) for line in lines)
    assert heads == ["job", "next slot (UTC)", "in", "paused", "last", "ended", "took"]
    assert [(row[0], *row[3:]) for row in rows] == [
        ("sync", "yes", "failed", "2h59m", "20250 ms", "ValueError: no"),
        ("old", "-", "success", "37d11h59m", "20007 ms"),
        ("never", "-", "-", "-", "-", "disabled"),
    ]
    # Of the store alone, those that it knows.
    rows = sections(one_look(Board(Scheduler(past.store))).text)["jobs"]
    assert [line.split()[0] for line in rows] == ["job", "gone", "sync", "old"]
    scheduler.pause()
    assert one_look(Board(scheduler)).text.endswith("\nevery job is paused")


def test_what_runs_is_followed_from_its_start_to_its_end():
    backend, work = MemoryBackend(), Waiting()
    board = Board(Scheduler(backend))
    assert board.look().running == ()
    service = Scheduler(backend, instance_id="web-1", catch_up=0)
    service.every("sync", "1h", work)
    with service:
        service.trigger("sync")
        assert work.begun.wait(20)
        until(lambda: board.look().running, "it runs")
        frame = board.look()
        assert [one.instance_id for one in frame.instances] == ["web-1"]
        [line] = sections(frame.text)["running"][1:]
        assert re.fullmatch(r"sync  \d\d:\d\d:\d\d +1 +\d+s +manual  web-1", line)
        assert frame.last == {}
        work.go.set()
        until(lambda: not board.look().running, "it has ended")
    frame = board.look()
    assert frame.last["sync"].status == "success"
    assert frame.instances == ()


def test_what_it_says_to_programs(past):
    past.write("sync", int(time.time() * 1000) - HOUR)
    present(past.path, "web-1", tzdata="2020a")
    present(past.path, "web-2", tzdata="2021a")
    scheduler = Scheduler(past.store)
    data = json.loads(one_look(Board(scheduler)).json)
    assert set(data) == {"at", "instances", "warnings", "running", "jobs"}
    assert [one["name"] for one in data["warnings"]] == ["tzdata-differs"]
    assert [(one["name"], one["last_run"]["status"]) for one in data["jobs"]] == [
        ("sync", "success")
    ]
    scheduler.every("never", "1h", lambda: None)
    [job] = json.loads(one_look(Board(scheduler)).json)["jobs"]
    assert (job["name"], job["paused"], job["last_run"]) == ("never", False, None)
    assert job["next_slot"] is not None


def going_on(name, slot, now):
    """Return a run that may still be continued, so that its attempt isn't lost."""
    run = ("anarchon", name, slot, "", "running", 1, "owner", now, now, "", 30_000, 10_000)
    return (*run, 1, 1, 0, 3, 10 * HOUR, 0, None, None, "", slot)


def test_a_look_asks_the_store_a_few_times_whatever_there_is(past):
    """A hundred jobs whose last runs are far back, and fifty runs that go on."""
    now = int(time.time() * 1000)
    scheduler = Scheduler(past.store)
    for number in range(100):
        past.write(f"job-{number:02}", now - 2000 * HOUR)
        scheduler.every(f"job-{number:02}", "1d", lambda: None)
    runs = [going_on(f"job-{number:02}", now - 1500 * HOUR, now) for number in range(50)]
    for run in runs:
        past.write(*run[1:3], "running")
    with closing(sqlite3.connect(past.path)) as connection, connection:
        connection.executemany(RUN, runs)
    for number in range(1200):
        past.write("busy", now - number * 60_000)
    for number in range(60):
        present(past.path, f"web-{number}", jobs={f"job-{job}": "1" for job in range(100)})
    board, asked = Board(scheduler), []
    for _ in range(40):
        past.store.asked = 0
        for number in range(1200 * (len(asked) == 5)):  # much has happened since the last look
            past.write("busy", now + 1 + number)
        frame = board.look()
        asked.append(past.store.asked)
    assert max(asked) <= MOST_CALLS, asked
    assert f"at most {MOST_CALLS} for" in " ".join(text_of("command-line.md").split())
    assert len(frame.running) == 50
    assert len(frame.instances) == 60
    assert set(frame.last) == {"busy", *(f"job-{number:02}" for number in range(100))}


def test_a_quiet_fleet_costs_three_questions(past):
    scheduler = Scheduler(past.store)
    scheduler.every("sync", "1d", lambda: None)
    scheduler.every("never", "1d", lambda: None)
    past.write("sync", int(time.time() * 1000) - HOUR)
    board = Board(scheduler)
    board.look()
    past.store.asked = 0
    board.look()
    assert past.store.asked == 3


def test_an_outage_is_told_and_the_next_look_goes_on():
    backend = FaultyBackend(MemoryBackend())
    board = Board(Scheduler(backend))
    for method in ("instances", "history"):
        backend.fail(method)
        with pytest.raises(BackendUnavailable):
            board.look()
    assert one_look(board).status == 0
    backend.fail("history")
    assert one_look(board).status == 1
    assert one_look(board).status == 0
