"""The README is true: its programs run, its log lines are real, its commands are there."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

import anarchon
from anarchon import MemoryBackend, Scheduler, SqliteBackend
from anarchon._listening import EVENTS
from anarchon._log_lines import run_line
from anarchon._runs import Run
from anarchon.testing import ManualClock

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PROGRAMS = [text for language, text in BLOCKS if language == "python"]
TOUR = PROGRAMS[2:]
TEXTS = [text for language, text in BLOCKS if not language]
LOG_LINES = [line for text in TEXTS for line in text.splitlines() if line.startswith("[anarchon] ")]

LINE = re.compile(r"\[anarchon\] (?P<job>\S+) @ (?P<moment>\S+Z): (?P<text>.+)")
STARTED = re.compile(
    r"started on (?P<instance_id>\S+) \(attempt (?P<attempt>\d+), (?P<reason>.+)\)"
)
FINISHED = re.compile(r"finished in (?P<ms>\d+) ms")


def environment() -> dict[str, str]:
    """Let subprocesses import what this process imports, wheel or checkout."""
    return {**os.environ, "PYTHONPATH": str(Path(anarchon.__file__).parent.parent)}


def rendered(line: str) -> str:
    """Read a log line, and write it again with the code that writes the real ones."""
    match = LINE.fullmatch(line)
    assert match, line
    when = datetime.fromisoformat(match["moment"])
    run = Run("id", match["job"], int(when.timestamp() * 1000), when, 1, "running")
    started, finished = STARTED.fullmatch(match["text"]), FINISHED.fullmatch(match["text"])
    if started:
        who, attempt, why = started["instance_id"], int(started["attempt"]), started["reason"]
        fields = {"instance_id": who, "attempt": attempt, "reason": why}
        said = run_line("started", replaced(run, fields))
    elif finished:
        fields = {"status": "success", "duration_ms": int(finished["ms"])}
        said = run_line("success", replaced(run, fields))
    else:
        assert match["text"] == "skipped (taken)"
        said = run_line("skipped", replaced(run, {"status": "skipped", "detail": "taken"}))
    return f"[anarchon] {said.text}"


def replaced(run: Run, fields: dict) -> Run:
    return dataclasses.replace(run, **fields)


@pytest.mark.parametrize("line", LOG_LINES)
def test_every_log_line_is_what_the_code_writes(line):
    assert rendered(line) == line


def test_the_log_lines_show_a_kill_and_a_takeover():
    text = "\n".join(TEXTS)
    victim = re.search(r"report @ (\S+): started on \S+:(\d+) \(attempt 1, scheduled\)", text)
    assert f"$ kill -9 {victim[2]}\n" in text
    assert re.search(
        rf"report @ {re.escape(victim[1])}: started on .*\(attempt 2, takeover\)", text
    )


@pytest.mark.parametrize(
    "command",
    ["python -m pip install '.[all]' && anarchon demo", "python -m pip install tox && tox"],
)
def test_the_two_commands_are_there(command):
    assert f"\n```\n{command}\n```\n" in README


def test_the_four_properties_come_first_and_each_has_one_line():
    properties = re.findall(r"^- \*\*(.+?):?\*\*:? \S.*$", README.split("\n## ")[0], re.MULTILINE)
    assert properties[0].startswith("`gunicorn -w 4`, one run")
    assert len(properties) == 4


def test_the_first_program_has_twelve_lines():
    assert len(PROGRAMS[0].splitlines()) == 12


def test_the_first_program_runs_until_sigterm(tmp_path):
    program = tmp_path / "app.py"
    program.write_text(PROGRAMS[0])
    process = subprocess.Popen(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = [process.stderr.readline()]
        while lines[-1] and "report @" not in lines[-1]:
            lines.append(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        lines += process.communicate(timeout=20)[1].splitlines(keepends=True)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert all(line.startswith("[anarchon] ") for line in lines if line), lines
    assert any("interrupted" in line for line in lines)
    assert (tmp_path / "jobs.db").exists()


def test_the_gunicorn_hooks_start_and_stop(tmp_path):
    """Run the hooks as gunicorn does, on the program of the README without its last line."""
    (tmp_path / "app.py").write_text(PROGRAMS[0].replace("scheduler.run()", "# "))
    (tmp_path / "conf.py").write_text(PROGRAMS[1])
    (tmp_path / "main.py").write_text(
        "import conf, app\n"
        "conf.post_worker_init(None)\n"
        "while app.scheduler.state == 'starting': app.scheduler.wait(0.05)\n"
        "assert app.scheduler.state == 'running', app.scheduler.state\n"
        "conf.worker_exit(None, None)\n"
        "assert app.scheduler.state == 'idle', app.scheduler.state\n"
    )
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# --- the tour ---


@contextlib.contextmanager
def app_context():
    yield


class Database:
    closed = 0

    def close_connections(self):
        self.closed += 1


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the programs of the tour find, with a scheduler that is stopped in the end."""
    monkeypatch.chdir(tmp_path)
    found = {"Scheduler": Scheduler, "SqliteBackend": SqliteBackend, "db": Database()}
    found |= {"customers": [1, 2], "uploads": []}
    found |= {name: lambda: None for name in ("sync", "send_digest", "launch")}
    found["app"] = SimpleNamespace(app_context=app_context)
    found["upload"] = lambda customer, idempotency_key: found["uploads"].append(idempotency_key)
    found["scheduler"] = first = Scheduler(MemoryBackend(), catch_up=0)
    yield found
    for scheduler in (first, found["scheduler"]):
        scheduler.stop(2)


def tour(number: int, names: dict) -> None:
    exec(compile(TOUR[number], f"README.md, program {number} of the tour", "exec"), names)


def test_the_schedules_and_their_options(names):
    tour(0, names)
    sync, digest, launch = names["scheduler"].jobs
    assert (sync.overlap, sync.timeout) == ("allow", 8.0)
    assert (digest.schedule.timezone, digest.catch_up) == ("Europe/Athens", 7200.0)
    assert (launch.schedule.slot_ms, launch.on_crash) == (1_904_281_200_000, "abandon")


@pytest.mark.parametrize(
    ("option", "default"), re.findall(r"^\| `(\w+)` \| `?([^`|]+)`? \| ", README, re.MULTILINE)
)
def test_the_defaults_are_those_of_the_table(option, default):
    value = inspect.signature(Scheduler).parameters[option].default
    assert value == (None if default == "none" else ast.literal_eval(default))


def test_the_first_start_catches_up():
    clock, ran = ManualClock(datetime(2026, 1, 1, 12, 59, tzinfo=UTC)), []
    scheduler = Scheduler(MemoryBackend())
    scheduler.every("hourly", "1h", lambda: ran.append("hourly"))
    scheduler.every("daily", "1d", lambda: ran.append("daily"))
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1s")
    assert ran == ["hourly"]


def test_the_handler_with_its_context(names):
    tour(1, names)
    names["scheduler"].start()
    run = names["scheduler"].run_now("export")
    assert names["uploads"] == [f"export-{run.slot}-1", f"export-{run.slot}-2"]


def test_the_event(names, capsys):
    tour(2, names)
    names["scheduler"].every("bad", "1h", lambda: 1 / 0)
    with names["scheduler"]:
        names["scheduler"].run_now("bad")
    assert capsys.readouterr().out == "bad failed: ZeroDivisionError: division by zero\n"
    words = re.search(r"is written: `([^`]+)`, and `([^`]+)`", README)
    assert {*words[1].split(), *words[2].split()} == EVENTS


def test_the_questions(names, capsys):
    tour(0, names)
    tour(1, names)
    names["scheduler"].start()
    tour(3, names)
    said = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"success \d+", said[0])
    assert re.fullmatch(r"\[\] export @ \S+Z: success, attempt 1, \d+ ms, on \S+", said[1])
    assert said[2].count("datetime.datetime(") == 3
    assert said[3] == "True ()"


def test_the_class(names):
    tour(4, names)
    assert [job.name for job in names["scheduler"].jobs] == ["reports.sync", "reports.digest"]


def test_what_is_around(names):
    tour(5, names)
    names["scheduler"].every("job", "1h", lambda: None, catch_up=0)
    names["scheduler"].every("bad", "1h", lambda: 1 / 0, catch_up=0)
    with names["scheduler"]:
        assert names["scheduler"].run_now("job").status == "success"
        assert names["scheduler"].run_now("bad").status == "failed"
        files = {path.name for path in Path.cwd().iterdir()}
    assert names["db"].closed == 2
    assert files == {"jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-queue"}


def test_the_test():
    names: dict = {}
    tour(6, names)
    names["test_sync_runs_every_ten_seconds"]()


def test_every_python_block_has_a_test():
    assert (len(PROGRAMS), len(TOUR)) == (9, 7)


def test_the_table_says_which_stores_work():
    for name, state in re.findall(r"`(\w+Backend)\([^|]*\| [^|]* \| ([^|]+) \|", README):
        there = name in anarchon.__all__
        assert there == (state == "works"), f"{name}: the README says {state!r}"
