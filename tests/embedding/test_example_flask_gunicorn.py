"""The example of Flask under gunicorn: four workers run each slot once, also while they change."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from urllib.request import urlopen

import pytest

from tests.docs.pages import blocks
from tests.embedding.flask_apps import CHECKOUT, Process, history
from tests.servers.processes import free_port

EXAMPLE = CHECKOUT / "examples" / "flask_gunicorn"


@contextmanager
def served(folder, *words: str):
    """Run the example in a folder of its own with four workers, as its README says."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.db*"))
    port = free_port()
    more = ("--bind", f"127.0.0.1:{port}", "--worker-tmp-dir", ".", "--no-control-socket")
    process = Process(folder, "-m", "gunicorn", "-w", "4", *words, *more, "app:app")
    try:
        process.wait_for(lambda: len(process.started()) == 4, "four schedulers")
        yield process, port
    finally:
        process.clean_up()


def runs_of(folder, name: str, status: str | None = None) -> list:
    """Return attempts of a job, oldest first."""
    found = [run for run in history(folder) if run.job == name]
    return [run for run in reversed(found) if status in (None, run.status)]


def end(process: Process) -> None:
    """End the server by a signal to its master alone."""
    os.kill(process.pid, signal.SIGTERM)
    assert process.process.wait(30) == 0, process.log()
    assert process.pid not in process.started()
    assert sorted(process.started()) == sorted(process.stopped())


def check_slots(folder, workers) -> None:
    """Check the seconds from the first to the last that these workers ran.

    Each has one run; or none, where it was left out for a run that went on.
    """
    runs = runs_of(folder, "sync")
    ended = [run for run in runs if run.status == "success" and pid_of(run) in workers]
    times = Counter(run.slot for run in ended)
    assert len(times) >= 3
    assert set(times.values()) == {1}
    gaps = set(range(min(times), max(times) + 1, 1000)) - set(times)
    told = {run.slot: (run.status, run.detail) for run in runs if run.slot in gaps}
    assert told == dict.fromkeys(gaps, ("skipped", "overlap")), "\n".join(map(str, runs))


def pid_of(run) -> int:
    """Return the process that ran an attempt."""
    return int(run.instance_id.rpartition(":")[2])


@pytest.mark.serial
@pytest.mark.parametrize("words", [(), ("--preload",)], ids=["", "preload"])
def test_each_slot_is_run_once_and_a_reload_hands_over(tmp_path, words):
    with served(tmp_path, *words) as (process, port):
        old = process.started()
        with urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            told = json.load(answer)
        assert (told["pid"] in old, told["state"]) == (True, "running")
        process.wait_for(lambda: runs_of(tmp_path, "report", "running"), "a report")
        process.wait_for(lambda: len(runs_of(tmp_path, "sync", "success")) >= 3, "three runs")
        os.kill(process.pid, signal.SIGHUP)
        process.wait_for(lambda: len(process.started()) == 8, "four more schedulers")
        process.wait_for(lambda: len(process.stopped()) == 4, "four that have stopped")
        assert sorted(process.stopped()) == sorted(old)
        count = len(runs_of(tmp_path, "sync", "success"))
        process.wait_for(lambda: len(runs_of(tmp_path, "sync", "success")) >= count + 3, "more")
        new = set(process.started()) - set(old)
        end(process)
    # In between nobody may be there: gunicorn ends the old ones while the new ones boot.
    check_slots(tmp_path, old)
    check_slots(tmp_path, new)
    assert max(Counter(run.slot for run in runs_of(tmp_path, "sync", "success")).values()) == 1
    attempts = [run for run in runs_of(tmp_path, "report") if run.status != "skipped"]
    handed = [run for run in attempts if run.slot == attempts[0].slot]
    assert len(handed) >= 2
    assert {run.status for run in handed} == {"interrupted"} | {handed[-1].status}
    for one, following in pairwise(handed):
        assert (following.attempt, following.reason) == (one.attempt + 1, "takeover")
    assert pid_of(handed[-1]) in new


def test_its_configuration_is_the_one_on_the_page():
    [block] = [block for block in blocks("flask.md") if block.file == "gunicorn.conf.py"]
    text = (EXAMPLE / "gunicorn.conf.py").read_text()
    assert text.partition("\n\n")[2] == block.text


# --- its own tests ------------------------------------------------------------------

# What somebody might break in the app, and the test of the app that notices.
BROKEN = [
    ("time.sleep(0.05)", "jobs.missing", "test_a_job_runs_in_the_context_of_the_app"),
    ('ctx.signal.sleep("20s")', "pass", "test_a_report_takes_a_while_but_not_here"),
    ('ctx.signal.sleep("20s")', "pass", "test_a_report_gives_up_when_the_worker_is_to_end"),
    ('"report", "1m"', '"report", "2m"', "test_there_is_a_report_each_minute"),
    ("limit=10", "limit=1, status='success'", "test_the_page_shows_what_ran"),
    ("app.wsgi_app = with_health", "_ = with_health", "test_a_probe_is_answered"),
]


def say_of(folder, broken) -> str:
    """Return what pytest says of the example, with these pieces of its app replaced."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.db*"))
    app = folder / "app.py"
    text = whole = app.read_text(encoding="utf-8")
    for old, new, _ in broken:
        assert old in whole
        text = text.replace(old, new)
    app.write_text(text, encoding="utf-8")
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    process = Process(folder, *command)
    try:
        process.process.wait(60)
    finally:
        process.clean_up()
    return process.log()


def test_its_own_tests_pass(tmp_path):
    told = say_of(tmp_path, [])
    assert "6 passed" in told, told


def test_its_own_tests_notice_what_is_broken(tmp_path):
    told = say_of(tmp_path, BROKEN).partition("short test summary")[2]
    assert [named for *_, named in BROKEN if f"::{named}" not in told] == []
