"""Ctrl-C at any step of a question to a SQLite store leaves nothing taken behind."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import anarchon
from anarchon import SqliteBackend
from anarchon.backends._aside import aside
from anarchon.backends._sqlite_forks import LONGEST_WAIT, inside
from tests.facade.helpers import until

PACKAGE = str(Path(anarchon.__file__).parent)
QUESTIONS = {
    "pause": lambda scheduler: scheduler.pause("job", duration=1),
    "resume": lambda scheduler: scheduler.resume("job"),
    "history": lambda scheduler: scheduler.history(),
}


class Strike:
    """Raises `KeyboardInterrupt` at the n-th line or call of the package on this thread."""

    def __init__(self, nth):
        self.left = nth
        self.struck = False

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event in ("line", "call"):
            self.left -= 1
            if self.left == 0:
                self.struck = True
                raise KeyboardInterrupt
        return self


@contextmanager
def striking(nth):
    strike = Strike(nth)
    before = sys.gettrace()
    sys.settrace(strike)
    try:
        yield strike
    finally:
        sys.settrace(before)


def ask(question, scheduler, nth):
    """Ask, with a strike at the n-th step; say whether it came."""
    with striking(nth) as strike:
        try:
            question(scheduler)
        except KeyboardInterrupt:
            assert strike.struck
    return strike.struck


def side_files(database):
    """Return which side files of the store this process has open, each as often as it has.

    Not the file itself: SQLite keeps descriptors of that for later use.
    """
    names = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them is gone by now
            names.append(str(entry.readlink()))
    return sorted(name for name in names if name.startswith(f"{database}-"))


def queue_is_free(database):
    file = os.open(f"{database}-queue", os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def check_nothing_is_taken(database, before):
    # The call itself goes on beside the main thread, and has soon ended.
    until(lambda: side_files(database) == before, "what was opened")
    until(lambda: queue_is_free(database), "the queue of writers")
    until(lambda: inside._threads == 0, "who is inside SQLite")
    assert not inside._depth()


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("running", [False, True], ids=["idle", "running"])
def test_a_strike_at_each_step(name, running, tmp_path, make):
    database = tmp_path / "jobs.db"
    scheduler = make(SqliteBackend(database, synchronous="NORMAL"), stop_on_exit=False)
    scheduler.once("job", "2100-01-01T00:00:00Z", lambda: None)
    scheduler.pause("job")
    if running:
        scheduler.start()
        # When the store has heard of it, nothing is on its way any more.
        until(lambda: bool(scheduler.instances()), "the word of the scheduler")
        until(lambda: len(side_files(database)) == 2, "the connection of the scheduler")
    before = side_files(database)
    steps = 0
    while ask(QUESTIONS[name], scheduler, steps + 1):
        steps += 1
        check_nothing_is_taken(database, before)
        assert scheduler.history() == []
    assert steps > 20
    scheduler.pause("job")
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert time.monotonic() - began < LONGEST_WAIT / 2


def test_opening_as_well(tmp_path):
    """What `start` does with the store."""
    database = tmp_path / "jobs.db"
    backend = SqliteBackend(database, synchronous="NORMAL")
    backend.pause(None, duration_ms=0)
    before, steps, struck = side_files(database), 0, True
    while struck:
        with striking(steps + 1) as strike, suppress(KeyboardInterrupt):
            backend._connect()
        steps, struck = steps + 1, strike.struck
        check_nothing_is_taken(database, before)
    assert steps > 10


def test_ctrl_c_ends_the_wait_at_once_and_the_call_still_comes_to_its_end():
    went_in, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def call():
        went_in.set()
        go_on.wait(10)
        ended.set()

    def strike():
        went_in.wait(10)
        signal_main()

    def signal_main():
        import signal

        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    striker = threading.Thread(target=strike)
    striker.start()
    with pytest.raises(KeyboardInterrupt):
        aside(call)
    striker.join()
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)


def test_an_error_comes_back_as_it_is():
    with pytest.raises(ZeroDivisionError) as raised:
        aside(lambda: 1 // 0)
    assert raised.value.__cause__ is None


def test_on_any_other_thread_the_call_is_made_there():
    found = []
    thread = threading.Thread(target=lambda: found.append(aside(threading.get_ident)))
    thread.start()
    thread.join()
    assert found == [thread.ident]
    assert aside(threading.get_ident) != threading.get_ident()


def test_where_no_thread_can_be_had_the_call_is_made_here(monkeypatch):
    def none_left(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("anarchon.backends._aside.start_new_thread", none_left)
    assert aside(threading.get_ident) == threading.get_ident()
