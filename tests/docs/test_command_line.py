"""The page about the command line: its commands, in their order, on an app that ran for a while."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest

from anarchon import Scheduler, SqliteBackend
from anarchon.testing import ManualClock
from tests.commands.presences import present
from tests.docs.pages import blocks, environment, rows, text_of

PAGE = "command-line.md"
[SHOP] = [block.text for block in blocks(PAGE, "python")]
SESSIONS = [
    tuple(part.partition("\n")[::2])
    for block in blocks(PAGE, "console")
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
]
COMMANDS = [session for session in SESSIONS if session[0].startswith("anarchon ")]
LIVE = ("anarchon run", "anarchon tail -n 2")
STATUSES = {'anarchon cancel sync "2026-12-01 08:00"': 1}
# What these print depends on the time and on the machine.
CHANGING = ("jobs", "run", "run-now", "doctor", "trigger", "backfill", "instances", "top")
CHANGES = [
    (r"(20\d\d-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(\.\d+)?", "WHEN"),
    (r"(?<= )(\d+[dhms]+)+(?= )", "IN"),
    (r"'/.*/jobs.db'", "'/srv/shop/jobs.db'"),
    (r"sqlite 3[\d.]+", "sqlite 3"),
    (r"\d+ ms", "N ms"),
    (r"(?<=trigger-)[0-9a-f]{16}|(?<=backfill-)[0-9a-f]{12}", "TOKEN"),
    (r"on \S+:\d+", "on WHO"),
    (r"[^\n]* tzdata: [^\n]*", "TZDATA"),
    (r" +", " "),
]


def shape(command: str, text: str) -> str:
    text = re.sub(r"tzdata 20\d\d\w", "tzdata EDITION", text)
    for pattern, replacement in CHANGES:
        if command.split()[1] in CHANGING:
            text = re.sub(pattern, replacement, text)
    return text


def seed(scheduler: Scheduler) -> None:
    """Let a morning pass: a pause of sync from half past six to half past seven."""
    clock = ManualClock(datetime(2026, 12, 1, 5, 30, tzinfo=UTC))

    @contextmanager
    def working(ctx):
        ctx.signal.wait({"sync": 0.25, "digest": 0.125}[ctx.name])
        yield

    backend = SqliteBackend("jobs.db")
    made = Scheduler(backend, instance_id="web-1:41822", catch_up=0, around=working)
    for job in scheduler.jobs:
        made.schedule(job.name, job.schedule, job.handler)
    clock.attach(made)
    with made:
        clock.advance("1h")
        made.pause("sync")
        clock.advance("1h")
        made.resume("sync")
        clock.advance("1h")
    # Two that go on, of which the second has the code of yesterday.
    for number, name in enumerate(("web-1:41822", "web-2:41907")):
        host, _, pid = name.partition(":")
        jobs = {"digest": str(number), "sync": "0"}
        present(Path("jobs.db"), name, host=host, pid=int(pid), jobs=jobs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the reader, with the app and its store."""
    here = tmp_path_factory.mktemp("shop")
    (here / "shop.py").write_text(SHOP, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.syspath_prepend(here)
        seed(import_module("shop").scheduler)
        patch.delitem(sys.modules, "shop")
    return here


def started(folder, command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=folder,
        env=environment(ANARCHON_APP="shop:scheduler", PYTHONIOENCODING="utf-8"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[one[0] for one in COMMANDS])
def test_a_command_prints_what_the_page_shows(folder, command, output):
    process = started(folder, command)
    try:
        if command in LIVE:
            said = "".join(process.stdout.readline() for _ in output.splitlines())
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
        else:
            said, _ = process.communicate(timeout=60)
            assert process.returncode == STATUSES.get(command, 0), said
    finally:
        process.kill()
        process.communicate()
    if "ANARCHON_TEST_SHOW" in os.environ:
        print(f"$ {command}\n{said}")
    assert shape(command, said) == shape(command, output)


def test_every_command_is_on_the_page():
    from anarchon._cli_group import commands

    named = {command.split()[1] for command, _ in COMMANDS}
    others = {"schema", "demo"}  # whose pages are about stores, and the quick start
    assert named | others == set(commands.commands)
    assert "`schema`" in text_of(PAGE)


def test_the_table_names_every_option_and_variable():
    from anarchon._cli_group import commands

    params = {param.opts[0]: param.envvar for param in commands.commands["history"].params}
    table = [(row[0].strip("`"), row[1].strip("`")) for row in rows(PAGE, "option", "variable")]
    assert table == [(name, value) for name, value in params.items() if value]
