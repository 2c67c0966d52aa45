"""No fork happens while a thread is inside SQLite, whose locks a child would inherit held."""

from __future__ import annotations

import threading
import time

import pytest

from anarchon.backends import _sqlite_files, _sqlite_forks
from anarchon.backends._sqlite_forks import _Inside

LONG = 10.0


@pytest.fixture
def inside(monkeypatch):
    monkeypatch.setattr(_sqlite_forks, "LONGEST_WAIT", LONG)
    return _Inside()


class Somebody:
    """Does one thing on a thread of its own, and says when it is done."""

    def __init__(self, do):
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(do,))
        self._thread.start()

    def _run(self, do):
        do()
        self.done.set()

    def join(self):
        assert self.done.wait(LONG)
        self._thread.join()


def is_held_up(somebody):
    return not somebody.done.wait(0.05)


def test_a_fork_waits_for_the_call_under_way(inside):
    with inside:
        fork = Somebody(inside.before_fork)
        assert is_held_up(fork)
    fork.join()
    inside.after_in_parent()


def test_a_call_waits_for_the_fork_under_way(inside):
    def call():
        with inside:
            pass

    inside.before_fork()
    inside.before_fork()
    calls = [Somebody(call) for _ in range(2)]
    inside.after_in_parent()
    assert all(is_held_up(one) for one in calls)
    inside.after_in_parent()
    for one in calls:
        one.join()


def test_a_thread_that_is_inside_may_enter_again_while_a_fork_waits_for_it(inside):
    began = time.monotonic()
    with inside:
        fork = Somebody(inside.before_fork)
        assert is_held_up(fork)
        with inside:
            assert is_held_up(fork)
        assert is_held_up(fork)
    fork.join()
    inside.after_in_parent()
    assert time.monotonic() - began < LONG / 2


def test_a_thread_that_naps_for_somebody_s_lock_holds_no_fork_up(inside, monkeypatch):
    monkeypatch.setattr(_sqlite_files, "inside", inside)
    napping, over = threading.Event(), threading.Event()
    monkeypatch.setattr(_sqlite_files.time, "sleep", lambda _: napping.set() or over.wait(LONG))

    def call():
        with inside:
            _sqlite_files.nap(0.001)

    sleeper = Somebody(call)
    assert napping.wait(LONG)
    Somebody(inside.before_fork).join()
    over.set()
    assert is_held_up(sleeper)
    inside.after_in_parent()
    sleeper.join()


def test_a_thread_that_forks_inside_does_not_wait_for_itself(inside):
    began = time.monotonic()
    with inside:
        inside.before_fork()
        inside.after_in_parent()
        inside.before_fork()
        inside.after_in_child()
    inside.before_fork()
    assert time.monotonic() - began < LONG / 2


def test_a_call_that_takes_too_long_holds_a_fork_up_no_longer(inside, monkeypatch):
    monkeypatch.setattr(_sqlite_forks, "LONGEST_WAIT", 0.05)
    with inside:
        Somebody(inside.before_fork).join()


def test_a_child_starts_with_nobody_inside(inside):
    entered, over = threading.Event(), threading.Event()

    def call():
        with inside:
            entered.set()
            over.wait(LONG)

    somebody = Somebody(call)
    assert entered.wait(LONG)
    inside.after_in_child()
    began = time.monotonic()
    inside.before_fork()
    assert time.monotonic() - began < LONG / 2
    over.set()
    somebody.join()
