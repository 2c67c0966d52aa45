"""What the page about Flask shows is done here, with its own programs."""

from __future__ import annotations

import os
import shlex
import signal
import sys

import pytest

from anarchon.contrib._flask_settings import KEYS
from anarchon.contrib.flask import Anarchon
from anarchon.scheduler import Scheduler
from tests.docs.pages import blocks, coded, rows, text_of
from tests.embedding.flask_apps import running
from tests.embedding.servers_running import Site

PAGE = "flask.md"
FILES = {block.file: block.text for block in blocks(PAGE) if block.file}
COMMANDS = [
    line.removeprefix("$ ")
    for block in blocks(PAGE, "console")
    for line in block.text.splitlines()
    if line.startswith("$ flask anarchon ")
]


def test_the_page_runs_and_so_do_its_tests_twice(run_page):
    names = run_page(PAGE).names
    tests = [name for name in names if name.startswith("test_")]
    assert len(tests) == 4
    for name in tests * 2:
        names["synced"].clear()
        names[name]()


def test_the_table_has_every_key():
    table = rows(PAGE, "key", "value", "without it")
    assert [coded(row[0]) for row in table] == [[key] for key in KEYS]


def test_definitions_that_it_names_are_there():
    [sentence] = [line for line in text_of(PAGE).split("\n\n") if line.startswith("Jobs are def")]
    for name in coded(sentence):
        if name.isidentifier() and name != "Scheduler":
            assert callable(getattr(Anarchon, name))
            assert callable(getattr(Scheduler, name))


def test_the_quick_start_syncs(tmp_path):
    command = ("-m", "flask", "run", "--debug", "--port", "0")
    with running(tmp_path, *command, program=FILES["app.py"]) as server:
        server.wait_for(lambda: "syncing for app" in server.log(), "a line")
        server.press()


@pytest.mark.serial
def test_the_factory_under_gunicorn(tmp_path):
    [factory] = [block.text for block in blocks(PAGE, "python") if "def create_app" in block.text]
    (tmp_path / "shop.py").write_text(factory.replace("10s", "1s"), encoding="utf-8")
    hooks = FILES["gunicorn.conf.py"].replace("app:jobs.scheduler", "shop:jobs.scheduler")
    (tmp_path / "gunicorn.conf.py").write_text(hooks, encoding="utf-8")
    assert 'hooks("shop:jobs.scheduler")' in text_of(PAGE)
    command = "gunicorn -w 4 'shop:create_app()'"
    assert f"$ {command}\n" in text_of(PAGE)
    site = Site(tmp_path)
    try:
        more = ("-b", "127.0.0.1:{port}", "--worker-tmp-dir", str(tmp_path), "--no-control-socket")
        words = [sys.executable, "-m", *shlex.split(command), *more]
        server = site.start(words, site.options())
        server.wait_for(lambda: site.store.exists() and site.slots("sync"), "a run")
        server.process.terminate()
        server.end(0, -15)
    finally:
        site.clean_up()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_what_it_says(tmp_path, command):
    _, *words = shlex.split(command)
    program = FILES["app.py"].replace("10s", "1s")
    with running(tmp_path, "-m", "flask", *words, program=program) as process:
        if words[-1] == "run":
            process.wait_for(lambda: "syncing for app" in process.log(), "a line")
            os.kill(process.pid, signal.SIGTERM)
        # Nothing goes on that could be cancelled.
        assert process.process.wait(30) == int(words[1] == "cancel"), process.log()
        lines = process.log().splitlines()
    said = {
        "jobs": len(lines) == 3,
        "next": len(lines) == 4,
        "history": lines[-1] == "no runs",
        "instances": lines[-1] == "no instance is known to the store",
        "explain": lines[0].startswith("sync @ 2026-12-01T09:00:00.000Z: "),
        "pause": lines[0].startswith("sync is paused on every instance, for 1h30m"),
        "resume": lines[0].startswith("sync is resumed"),
        "cancel": lines == ["sync @ 2026-12-01T09:00:00.000Z: no such run is open"],
        "trigger": lines[0].startswith("trigger-") and len(lines) == 3,
        "backfill": any(line.startswith("sync: 21 slots, from 2026-12-01T06:00") for line in lines),
        "run-now": lines[0] == "syncing for app" and ": success, attempt 1, " in lines[1],
        "run": lines[0].startswith("2 jobs on <SqliteBackend "),
    }
    assert said[words[1]], lines


def test_every_command_is_on_the_page():
    from anarchon.contrib._flask_cli import group

    assert {command.split()[2] for command in COMMANDS} == set(group.commands)
