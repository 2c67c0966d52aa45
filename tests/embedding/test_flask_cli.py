"""``flask anarchon ...``: thin wrappers of the commands."""

from __future__ import annotations

import json
import os
import re

import pytest
from flask import current_app

from anarchon.contrib.flask import Anarchon
from tests.embedding.apart import said_apart
from tests.embedding.flask_apps import CHECKOUT, PROGRAM, make_app


def invoke(app, *words):
    """Run a command in this process; before click 8.2, errors are kept apart only when asked."""
    try:
        runner = app.test_cli_runner(mix_stderr=False)
    except TypeError:
        runner = app.test_cli_runner()
    return runner.invoke(args=["anarchon", *words])


def broken():
    print("trying")
    raise ValueError("no table")


@pytest.fixture
def app(tmp_path):
    app = make_app("shop", ANARCHON_BACKEND=f"sqlite:///{tmp_path}/jobs.db")
    jobs = Anarchon(app)
    jobs.every("sync", "1h", lambda ctx: seen.append((ctx.data, current_app.name)), data=1)
    jobs.every("broken", "1h", broken, description="never works")
    seen = app.extensions["seen"] = []
    return app


@pytest.fixture
def flask(app):
    """Return a function that runs a command and returns its status, output and errors."""

    def run(*words: str) -> tuple[int, str, str]:
        result = invoke(app, *words)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, result.stdout, result.stderr

    return run


def test_jobs(flask):
    status, out, err = flask("jobs")
    assert (status, err) == (0, "")
    heads, *rows = out.splitlines()
    assert heads.startswith("job     schedule")
    assert [row.split()[0] for row in rows] == ["sync", "broken"]
    assert rows[1].endswith("never works")
    data = json.loads(flask("jobs", "--json")[1])
    assert [job["name"] for job in data["jobs"]] == ["sync", "broken"]


def test_next(flask):
    status, out, _ = flask("next", "sync", "-n", "3")
    assert (status, len(out.splitlines())) == (0, 4)
    data = json.loads(flask("next", "sync", "--json")[1])
    assert (data["job"], len(data["slots"])) == ("sync", 5)


def test_run_now_is_in_the_context_of_the_app_and_in_history(app, flask):
    status, out, err = flask("run-now", "sync")
    assert (status, err) == (0, "")
    assert out.startswith("sync @ ")
    assert ": success, attempt 1, " in out
    run = json.loads(flask("run-now", "sync", "--data", '{"day": 3}', "--json")[1])
    assert (run["job"], run["status"], run["manual"]) == ("sync", "success", True)
    assert app.extensions["seen"] == [(1, "shop"), ({"day": 3}, "shop")]
    assert app.extensions["anarchon"].state == "idle"
    runs = json.loads(flask("history", "--json")[1])["runs"]
    assert [one["status"] for one in runs] == ["success", "success"]
    assert runs[0] == run
    assert len(flask("history", "sync", "-n", "1")[1].splitlines()) == 2


def test_a_run_that_fails_has_status_1(flask):
    status, out, err = flask("run-now", "broken")
    assert (status, out.splitlines()[0], err) == (1, "trying", "")
    assert out.splitlines()[-1] == "ValueError: no table"
    status, out, err = flask("run-now", "broken", "--json")
    assert (status, json.loads(out)["error"], err) == (1, "ValueError: no table", "trying\n")
    status, out, _ = flask("history", "--status", "failed")
    assert (status, len(out.splitlines())) == (0, 3)
    assert flask("history", "--status", "success")[:2] == (0, "no runs\n")


def test_a_job_is_paused_and_resumed(flask):
    said = "sync is paused on every instance, for 1h30m\n"
    assert flask("pause", "sync", "--for", "1h30m") == (0, said, "")
    jobs = json.loads(flask("jobs", "--json")[1])["jobs"]
    assert [job["paused"] for job in jobs] == [True, False]
    assert flask("resume", "sync") == (0, "sync is resumed\n", "")
    assert json.loads(flask("pause", "--json")[1]) == {
        "job": None,
        "paused": True,
        "duration_ms": None,
    }
    assert flask("resume") == (0, "the pause of every job is over\n", "")


def test_a_slot_is_explained_and_what_does_not_run_is_not_cancelled(flask):
    flask("run-now", "sync")
    slot = str(json.loads(flask("history", "--json")[1])["runs"][0]["slot"])
    status, out, err = flask("explain", "sync", slot)
    assert (status, err) == (0, "")
    assert ": success, run by hand\n" in out
    assert json.loads(flask("explain", "sync", slot, "--json")[1])["outcome"] == "success"
    status, out, err = flask("cancel", "sync", "2026-12-01 09:00")
    said = "sync @ 2026-12-01T09:00:00.000Z: no such run is open\n"
    assert (status, out, err) == (1, said, "")


def test_the_fleet_is_asked_for_runs(app, flask):
    status, out, err = flask("trigger", "sync", "--data", '{"day": 3}')
    run_id, what, when = out.splitlines()
    assert (status, err, what) == (0, "", "sync is to run once, on any instance that has it")
    assert when.startswith("it is taken with the fleet's next claim")
    times = ("--from", "2026-11-01T08:30", "--to", "2026-11-01T11:30")
    told = json.loads(flask("backfill", "sync", *times, "-n", "2", "--json")[1])
    slots = [run["slot"] for run in told["runs"]]
    assert (slots, told["go_on_from"]) == ([1793523600000, 1793527200000], 1793530800000)
    status, out, _ = flask("backfill", "sync", "--from", "1", "--to", "2")
    assert (status, out[:21]) == (1, "sync: no slot was due")
    asked = {run_id, *(run["run_id"] for run in told["runs"])}
    with app.extensions["anarchon"] as scheduler:
        while not {run.run_id for run in scheduler.history("sync", status="success")} >= asked:
            continue
    assert ({"day": 3}, "shop") in app.extensions["seen"]


def test_instances_are_listed(app, flask):
    with app.extensions["anarchon"] as scheduler:
        # What jobs print goes where the command's words go, so they are to have ended.
        while {run.status for run in scheduler.history()} != {"success", "failed"}:
            continue
        status, out, err = flask("instances")
        [one] = json.loads(flask("instances", "--json")[1])["instances"]
    assert (status, err) == (0, "")
    assert re.search(rf":{os.getpid()} +(idle, expected at|running) ", out)
    assert (one["pid"], one["jobs"]) == (os.getpid(), ["broken", "sync"])
    assert flask("instances") == (0, "no instance is known to the store\n", "")


SNYC = (
    ["next"],
    ["history"],
    ["run-now"],
    ["pause"],
    ["resume"],
    ["cancel", "0"],
    ["explain", "0"],
    ["trigger"],
    ["backfill", "--from", "0", "--to", "1"],
)


@pytest.mark.parametrize("words", [[name, "snyc", *more] for name, *more in SNYC])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_refusal_is_one_line(flask, words, more):
    line = "anarchon: no job 'snyc' on this scheduler; did you mean 'sync'?\n"
    assert flask(*words, *more) == (2, "", line)


def test_a_store_that_is_down_has_status_1():
    app = make_app(ANARCHON_BACKEND="redis://:hunter2@127.0.0.1:1/0")
    Anarchon(app).every("sync", "1h", lambda: None)
    for words in (["history"], ["run-now", "sync"]):
        result = invoke(app, *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "hunter2" not in result.stderr
        assert "127.0.0.1:1" in result.stderr.splitlines()[-1]


def test_what_can_not_be_meant_is_said_in_the_words_of_this_command_line(flask):
    for words in (["history", "-n", "0"], ["next", "sync", "-n", "1001"]):
        status, out, err = flask(*words)
        assert (status, out) == (2, "")
        assert f"'-n' / '--{'limit' if words[0] == 'history' else 'count'}': {words[-1]}" in err
    status, _, err = flask("cancel", "sync", "yesterday")
    assert (status, err.count("\n")) == (2, 1)
    assert err.endswith("(without an offset it is in UTC)\n")


def test_a_file_that_is_not_there_yet_is_said(tmp_path):
    app = make_app(ANARCHON_BACKEND=f"sqlite:///{tmp_path}/none.db")
    Anarchon(app).every("sync", "1h", lambda: None)
    result = invoke(app, "history")
    assert (result.exit_code, result.stdout) == (0, "no runs\n")
    assert result.stderr.startswith("anarchon: <SqliteBackend ")
    assert result.stderr.endswith(">: there is no such file yet; the first start() makes it\n")


def test_the_commands_are_listed_in_the_help(app, flask):
    status, out, _ = flask("--help")
    assert status == 0
    listed = [line.split()[0] for line in out.partition("Commands:\n")[2].splitlines()]
    assert listed == [
        *("backfill", "cancel", "explain", "history", "instances", "jobs", "next", "pause"),
        *("resume", "run", "run-now", "trigger"),
    ]
    assert "anarchon" in app.cli.commands


def test_what_jobs_print_is_apart_from_the_json_of_their_runs(tmp_path):
    program = PROGRAM.replace('"500ms")', '"1h")')
    program = program.replace("def sync():", "def sync():\n    print('hello')")
    (tmp_path / "app.py").write_text(program)
    words = ("-m", "flask", "--app", "app", "anarchon", "run", "--json")
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    out, err = said_apart(tmp_path, environment, *words)
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["success"]
    assert "hello\n" in err
