"""What commands answer, whoever offers them: rows, a text, JSON and a status."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from anarchon import MemoryBackend, RedisBackend, Scheduler, SqliteBackend, _commands
from anarchon.errors import BackendUnavailable, Busy, NotRunning, ServerTooOld
from tests.commands.helpers import ended, environment

OPTIONS = {"lease": "3s", "heartbeat": "500ms"}


def make(backend=None, **options) -> Scheduler:
    return Scheduler(backend or MemoryBackend(), **OPTIONS, **options)


@pytest.fixture
def scheduler() -> Scheduler:
    made = make()
    made.every("sync", "10s", lambda: None, description="customers")
    made.cron("digest", "0 8 * * 1-5", lambda: 1 / 0, timezone="Europe/Athens")
    made.once("old", "2020-01-01T00:00Z", lambda: None)
    made.once("later", "2099-01-01T00:00Z", lambda: None, enabled=False)
    return made


def cells(text: str) -> list[list[str]]:
    """Return the cells of a table, whose columns are two blanks or more apart."""
    return [[cell for cell in line.split("  ") if cell] for line in text.splitlines()]


# --- what needs no store ---


def test_jobs_are_listed_with_their_next_slots(scheduler):
    answer = _commands.jobs(scheduler)
    assert (answer.status, answer.error) == (0, None)
    lines = cells(answer.text)
    assert [cell.strip() for cell in lines[0]] == [
        *("job", "schedule", "next slot (UTC)", "in", "paused")
    ]
    assert [line[0] for line in lines[1:]] == ["sync", "digest", "old", "later"]
    assert [line[-1].strip() for line in lines[1:]][0::2] == ["customers", "no more slots"]
    assert lines[-1][-1].strip() == "disabled"
    first, *_ = json.loads(answer.json)["jobs"]
    assert (first["name"], first["schedule"], first["remark"]) == ("sync", "Every('10s')", "")
    assert datetime.fromisoformat(first["next_slot"]) > datetime.now(UTC)
    assert [row.to_dict() for row in answer.rows] == json.loads(answer.json)["jobs"]


def test_a_schedule_that_fails_is_listed_with_its_error(scheduler):
    class Broken:
        def next_after(self, _t):
            raise OSError("no calendar")

        latest = next_after

    scheduler.schedule("broken", Broken(), lambda: None)
    row = _commands.jobs(scheduler).rows[-1]
    assert row.next_slot is None
    assert "OSError: no calendar" in row.remark


def test_no_jobs_and_no_runs():
    assert _commands.jobs(make()).text == "no job is defined"
    assert _commands.history(make()).text == "no runs"


def test_next_slots_are_in_utc_and_in_the_zone_of_the_job(scheduler):
    answer = _commands.next_slots(scheduler, "digest", 3)
    heads, *lines = answer.text.splitlines()
    assert heads.split("  ")[0] == "slot (UTC)"
    assert "in Europe/Athens" in heads
    assert len(lines) == 3
    assert all(" 08:00:00+0" in line for line in lines)
    data = json.loads(answer.json)
    assert (data["job"], data["timezone"], len(data["slots"])) == ("digest", "Europe/Athens", 3)
    slot = data["slots"][0]
    assert slot["slot"] == datetime.fromisoformat(slot["utc"]).timestamp() * 1000
    assert datetime.fromisoformat(slot["local"]) == datetime.fromisoformat(slot["utc"])


def test_slots_that_end(scheduler):
    assert _commands.next_slots(scheduler, "old").text == "no more slots"
    assert _commands.next_slots(scheduler, "later").text.endswith("\nno more slots")
    assert "\nno more" not in _commands.next_slots(scheduler, "sync").text


# --- refusals ---


@pytest.mark.parametrize("command", ["next_slots", "history", "run_now"])
def test_an_unknown_job_is_told_the_nearest_name(scheduler, command):
    answer = getattr(_commands, command)(scheduler, "snyc")
    assert (answer.status, answer.text, answer.rows) == (2, "", ())
    assert answer.error == "no job 'snyc' on this scheduler; did you mean 'sync'?"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda s: _commands.next_slots(s, "sync", 0), "n: 0 is no number from 1 to 1000"),
        (lambda s: _commands.history(s, limit=0), "limit: 0 is no number"),
        (lambda s: _commands.history(s, status="good"), "status: 'good' is not known"),
        (lambda s: _commands.run_now(s, "sync", data_json="{"), "the data '{' is no JSON"),
        (lambda s: _commands.run_now(s, "later"), "job 'later' is defined with enabled=False"),
    ],
)
def test_what_can_not_be_meant_has_status_2(scheduler, answer, said):
    got = answer(scheduler)
    assert got.status == 2
    assert said in got.error
    assert "\n" not in got.error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BackendUnavailable("down\nfor  now"), 1),
        (ServerTooOld("old"), 1),
        (Busy("busy"), 1),
        (NotRunning("idle"), 1),
        (ImportError("redis is missing"), 2),
    ],
)
def test_statuses_of_errors(error, status):
    answer = _commands.refusal(error)
    assert answer.status == status
    assert answer.error == " ".join(str(error).split())


def test_a_store_that_is_down_is_one_line_without_the_password():
    scheduler = make(RedisBackend("redis://:hunter2@127.0.0.1:1/0"))
    scheduler.every("sync", "1h", lambda: None)
    for answer in (_commands.history(scheduler), _commands.run_now(scheduler, "sync")):
        assert answer.status == 1
        assert "127.0.0.1:1" in answer.error
        assert "hunter2" not in answer.error
        assert "\n" not in answer.error


# --- running by hand ---


def test_a_run_by_hand_is_recorded_as_one(tmp_path):
    scheduler = make(SqliteBackend(tmp_path / "jobs.db"))
    told, contexts = [], []
    scheduler.every("sync", "10s", contexts.append, data={"a": 1})
    scheduler.on("success", told.append)
    answer = _commands.run_now(scheduler, "sync")
    assert (answer.status, answer.error) == (0, None)
    [run] = _commands.history(scheduler, "sync").rows
    assert (run.manual, run.status) == (True, "success")
    assert answer.data == run.to_dict()
    assert answer.text == str(run)
    assert [one.run_id for one in told] == [run.run_id]
    [context] = contexts
    assert context.data == {"a": 1}
    assert 0 < context.slot - context.previous_slot <= 10_000
    assert context.previous_slot % 10_000 == 0
    assert scheduler.state == "idle"


def test_data_may_be_given_as_json(scheduler):
    found = []
    scheduler.every("with", "1h", lambda ctx: found.append(ctx.data))
    assert _commands.run_now(scheduler, "with", data_json='{"day": 3}').status == 0
    assert _commands.run_now(scheduler, "with", data_json="null").status == 0
    assert found == [{"day": 3}, None]


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_failed_has_status_1_and_its_traceback(scheduler):
    answer = _commands.run_now(scheduler, "digest")
    assert (answer.status, answer.error) == (1, None)
    assert answer.data["error"] == "ZeroDivisionError: division by zero"
    assert answer.text.splitlines()[1] == "Traceback (most recent call last):"
    assert _commands.history(scheduler).text.splitlines()[1].endswith("division by zero")


def test_around_and_options_of_the_scheduler_hold(tmp_path):
    seen = []

    @contextmanager
    def around(ctx):
        seen.append(f"before {ctx.name} on {ctx.instance_id}")
        yield
        seen.append("after")

    scheduler = make(SqliteBackend(tmp_path / "jobs.db"), around=around, instance_id="me")
    scheduler.every("sync", "1h", lambda: seen.append("sync"))
    assert _commands.run_now(scheduler, "sync").status == 0
    assert seen == ["before sync on me", "sync", "after"]


def test_whoever_runs_by_hand_takes_part_in_nothing_else(tmp_path):
    """No slot is caught up, none is claimed, and no waiting run is taken over."""
    scheduler = make(SqliteBackend(tmp_path / "jobs.db"))
    ran = []
    begun = threading.Event()

    def sync(ctx):
        ran.append(ctx.reason)
        if not ctx.manual:
            begun.set()
            ctx.signal.sleep("30s")
        elif len(ran) < 3:
            ctx.signal.wait(2)  # several heartbeats, and slots

    scheduler.every("sync", "500ms", sync)
    with scheduler:
        assert begun.wait(10)
    [waiting] = _commands.history(scheduler, status="interrupted").rows
    assert _commands.run_now(scheduler, "sync").status == 0
    assert ran[1:] == ["manual"]
    runs = [run for run in _commands.history(scheduler).rows if run.status != "skipped"]
    assert {run.slot for run in runs if not run.manual} == {waiting.slot}
    with scheduler:  # it is still there for whoever takes part
        begun.clear()
        assert begun.wait(10)
    assert ran[2] == "takeover"


def test_a_scheduler_that_runs_does_it_itself(scheduler):
    threads = []
    scheduler.every("one", "1h", lambda: threads.append(scheduler.state), catch_up=0)
    with scheduler:
        answer = _commands.run_now(scheduler, "one")
        assert (answer.status, answer.data["reason"]) == (0, "manual")
        assert scheduler.state == "running"
    assert threads == ["running"]


def test_a_scheduler_that_is_not_enabled_runs_nothing():
    scheduler = make(enabled=False)
    scheduler.every("sync", "1h", lambda: None)
    assert "enabled=False" in _commands.run_now(scheduler, "sync").error
    answer = _commands.run(scheduler, say=lambda _line: None)
    assert answer.status == 2
    assert "enabled=False" in answer.error


# --- texts ---


def test_what_an_error_says_moves_no_cursor(scheduler):
    def odd():
        raise ValueError("red \x1b[31m\r " + "long " * 50 + "\nsecond line")

    scheduler.every("odd", "1h", odd)
    text = _commands.run_now(scheduler, "odd").text
    assert "\x1b" not in text
    assert "\\x1b[31m\\r" in text
    line = _commands.history(scheduler, "odd").text.splitlines()[1]
    assert line.endswith("…")
    assert "\x1b" not in line


def test_history_is_by_job_status_and_number(scheduler):
    for name in ("sync", "sync", "digest"):
        _commands.run_now(scheduler, name)
    assert [run.job for run in _commands.history(scheduler).rows] == ["digest", "sync", "sync"]
    assert len(_commands.history(scheduler, limit=1).rows) == 1
    assert len(_commands.history(scheduler, "sync").rows) == 2
    assert _commands.history(scheduler, "sync", status="failed").text == "no runs"
    scheduler.remove("sync")  # its records stay, and may be asked for
    assert len(_commands.history(scheduler, "sync").rows) == 2
    assert _commands.history(scheduler, "sync", status="failed").error is None


# --- in processes ---

BY_HAND = """
import sys
from anarchon import Scheduler, SqliteBackend, _commands
scheduler = Scheduler(SqliteBackend(sys.argv[1]), lease="3s", heartbeat="500ms")
@scheduler.every("sync", "1h")
def sync(ctx):
    print("begun", flush=True)
    ctx.signal.sleep("30s")
_commands.run_now(scheduler, "sync")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_by_hand_that_is_broken_off_is_recorded(tmp_path, number):
    path = Path(tmp_path / "jobs.db")
    process = subprocess.Popen(
        [sys.executable, "-c", BY_HAND, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    with ended(process):
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.wait(15) == -number
    [run] = _commands.history(make(SqliteBackend(path)), "sync").rows
    assert (run.status, run.manual) == ("interrupted", True)
