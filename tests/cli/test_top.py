"""``anarchon top`` on a real pseudo-terminal: its screen, its keys, and what it leaves behind."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager

import pytest
from rich.console import Console

from anarchon import Scheduler, SqliteBackend
from anarchon._cli_top import drawn, narrowed, shared
from anarchon._commands_top import Board
from tests.commands.helpers import environment
from tests.commands.presences import present
from tests.servers.redis import RedisServer

PATIENCE = 30
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
QUICK = ("--every", "100ms")


class Screen:
    """A terminal, and a top on it."""

    def __init__(self, folder, *words, rows=24, columns=100, **more) -> None:
        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.said = ""
        variables = {**environment(**more), "TERM": "xterm-256color"}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            variables.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", LEADING, *words],
            cwd=folder,
            env=variables,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
        )

    def hear(self, seconds: float = 0.05) -> None:
        while select.select([self.master], [], [], seconds)[0]:
            self.said += os.read(self.master, 65536).decode(errors="replace")
            seconds = 0

    def wait_for(self, text: str) -> None:
        """Wait until something was on the screen."""
        until = time.monotonic() + PATIENCE
        while text not in re.sub(r"\x1b\[[0-9;]*m", "", self.said):
            assert time.monotonic() < until, f"no {text!r} in {self.said!r}"
            self.hear()

    def wait_for_a_frame(self, text: str, *, there: bool) -> None:
        """Wait until the last frame has a text, or has it no longer."""
        until = time.monotonic() + PATIENCE
        # What follows the last head may not have arrived as a whole.
        while (text in self.said.split("anarchon top")[-2]) != there:
            assert time.monotonic() < until, self.said[-5000:]
            self.hear()

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def end(self) -> int:
        """Wait until it has ended, and return its exit status."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it goes on: {self.said!r}"
            self.hear()
        self.hear()
        return self.process.returncode

    def check_that_all_is_as_it_was(self) -> None:
        assert self.said.count(ENTER) == self.said.count(LEAVE) == 1
        assert self.said.rindex(SHOW) > self.said.rindex(HIDE)
        assert self.said.rindex(LEAVE) > self.said.rindex("anarchon top")
        assert termios.tcgetattr(self.slave) == self.before

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        os.close(self.master)
        os.close(self.slave)


# Ctrl-C reaches whoever has the terminal as its own, as programs of a shell have.
LEADING = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from anarchon.cli import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def shown(folder, *words, **how):
    screen = Screen(folder, "top", *words, **how)
    try:
        yield screen
    finally:
        screen.close()


@pytest.fixture
def store(tmp_path):
    present(tmp_path / "jobs.db", "web-1")
    return ("--backend", "sqlite:///jobs.db")


@pytest.mark.parametrize("keys", [b"q", b"Q", b"xyq", b"\x03"])
def test_a_key_ends_it_and_the_terminal_is_as_it_was(tmp_path, store, keys):
    with shown(tmp_path, *store) as screen:
        screen.wait_for("q ends it")
        screen.wait_for("web-1")
        assert not termios.tcgetattr(screen.slave)[3] & (termios.ECHO | termios.ICANON)
        screen.press(keys)
        assert screen.end() == 0, screen.said
        screen.check_that_all_is_as_it_was()
        assert "Traceback" not in screen.said


def test_it_looks_again_and_other_keys_do_nothing(tmp_path, store):
    with shown(tmp_path, *store, *QUICK) as screen:
        screen.wait_for("web-1")
        assert "web-2" not in screen.said
        # Ctrl-Z would leave a shell on the screen of top.
        assert termios.tcgetattr(screen.slave)[6][termios.VSUSP] == b"\0"
        screen.press(b"\x1b[A\x1a")  # an arrow
        screen.press(b"\x1bOq")  # one of the digits, on some keyboards
        present(tmp_path / "jobs.db", "web-2", running=2)
        screen.wait_for("running 2")
        assert screen.process.poll() is None
        screen.press(b"q")
        assert screen.end() == 0
        screen.check_that_all_is_as_it_was()


@pytest.mark.parametrize(
    ("signum", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_a_signal_ends_it_as_well(tmp_path, store, signum, status):
    with shown(tmp_path, *store) as screen:
        screen.wait_for("web-1")
        screen.process.send_signal(signum)
        assert screen.end() == status
        screen.check_that_all_is_as_it_was()


def test_a_store_that_goes_down_is_waited_for(tmp_path, own_server):
    server = own_server(RedisServer(password="hunter2", persist=True))
    url = server.url.replace("//", "//:hunter2@")
    with shown(tmp_path, "--backend", url, *QUICK) as screen:
        screen.wait_for("nothing runs")
        server.kill()
        screen.wait_for_a_frame("waiting for the store: Redis at ", there=True)
        server.start()
        screen.wait_for_a_frame("waiting for", there=False)
        screen.press(b"q")
        assert screen.end() == 0
        screen.check_that_all_is_as_it_was()
        assert "hunter2" not in screen.said


def test_a_store_that_is_down_at_first_opens_no_screen(tmp_path):
    with shown(tmp_path, "--backend", "redis://127.0.0.1:1/0") as screen:
        assert screen.end() == 1
        assert screen.said.startswith("anarchon top: Redis at ")
        assert ENTER not in screen.said
        assert termios.tcgetattr(screen.slave) == screen.before


def test_a_terminal_that_can_do_nothing_gets_one_look(tmp_path, store):
    variables = environment(TERM="dumb")
    master, slave = os.openpty()
    words = [sys.executable, "-m", "anarchon", "top", *store]
    try:
        done = subprocess.run(
            words, cwd=tmp_path, env=variables, stdout=slave, timeout=60, check=False
        )
        said = os.read(master, 65536).decode()
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == 0
    assert said.startswith("instances\r\n")
    assert "\x1b" not in said


# --- what is drawn --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("room", "wants", "rows"),
    [
        (30, [3, 0, 5], [3, 0, 5]),
        (10, [3, 0, 50], [3, 0, 7]),
        (10, [50, 50, 50], [3, 3, 4]),
        (10, [50, 1, 50], [4, 1, 5]),
        (-3, [5, 0, 5], [0, 0, 0]),
    ],
)
def test_tables_share_the_room(room, wants, rows):
    assert shared(room, wants) == rows


@pytest.mark.parametrize(("width", "height"), [(40, 20), (100, 30), (200, 12), (30, 5)])
def test_a_look_fits_on_any_screen_and_says_what_is_left_out(tmp_path, width, height):
    path = tmp_path / "jobs.db"
    for number in range(40):
        present(path, f"web-{number:02}\x1b[2J", tzdata=f"20{number:02}a")
    scheduler = Scheduler(SqliteBackend(path))
    for number in range(40):
        scheduler.every(f"job-{number:02}", "1d", lambda: None)
    console = Console(width=width, height=height, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    with console.file:
        frame = Board(scheduler).look()
        with console.capture() as captured:
            console.print(drawn(frame, console, "waiting for the store", 2))
    lines = captured.get().splitlines()
    assert all(len(line) <= width for line in lines)
    assert "\x1b" not in captured.get()
    if height >= 20:
        assert len(lines) <= height
        assert sum(line.startswith("… and ") for line in lines) == 2
        assert any(line.startswith("web-00") for line in lines)
        assert any(line.startswith("job-") for line in lines)


def test_a_narrow_screen_leaves_out_what_matters_least(tmp_path):
    present(tmp_path / "jobs.db", "web-1")
    table = Board(Scheduler(SqliteBackend(tmp_path / "jobs.db"))).look().tables["instances"]
    assert narrowed(table, 200) == table
    heads = ("instance", "state", "jobs", "last seen", "next due")
    assert narrowed(table, 70).heads == heads
    assert [len(row) for row in narrowed(table, 70).rows] == [5]
    assert narrowed(table, 10).heads == ("instance", "state", "jobs")
