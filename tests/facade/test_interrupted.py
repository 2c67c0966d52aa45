"""Ctrl-C and signal handlers at every line of `start` and `stop`, one after the other."""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import suppress

import pytest

from anarchon import NotRunning
from tests.conftest import anarchon_threads
from tests.facade.helpers import SOON, Door, until
from tests.strikes import everywhere


def ctrl_c():
    raise KeyboardInterrupt


@pytest.fixture
def quick(make):
    """A scheduler whose threads come and go quickly."""
    scheduler = make(Door())
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    return scheduler


def works(scheduler):
    """Say by failing if a scheduler can't be stopped, started and stopped again."""
    began = time.monotonic()
    scheduler.stop(10)
    until(lambda: scheduler.state == "idle")
    scheduler.start()
    assert scheduler.state == "running"
    scheduler.stop(10)
    assert scheduler.state == "idle"
    assert time.monotonic() - began < SOON
    until(lambda: not anarchon_threads(), "no thread is left")
    assert scheduler._lives == {}


@pytest.mark.parametrize("by_call", [False, True])
@pytest.mark.parametrize("retry", [False, True])
def test_ctrl_c_anywhere_in_a_start_leaves_nothing_behind(quick, retry, by_call):
    def call(strike):
        with suppress(KeyboardInterrupt), strike:
            quick.start(retry=retry)
        works(quick)

    places = everywhere(call, ctrl_c, by_call=by_call)
    assert any(place.startswith("LifeThread.launch") for place in places)
    assert any(place.startswith("begin") for place in places)
    assert quick._options.backend.opened == quick._options.backend.closed


def test_ctrl_c_anywhere_in_a_start_ends_it_without_a_stop(quick):
    inside = ("begin", "LifeThread", "Life.", "Clock")

    def call(strike):
        with suppress(KeyboardInterrupt), strike:
            quick.start()
        if strike.has_struck and strike.where.startswith(inside):
            until(lambda: quick.state == "idle", f"{strike.where}: idle")
        works(quick)

    assert everywhere(call, ctrl_c)


def test_ctrl_c_anywhere_in_a_stop_leaves_one_that_can_be_stopped(quick):
    def call(strike):
        quick.start()
        with suppress(KeyboardInterrupt), strike:
            quick.stop(10)
        works(quick)

    places = everywhere(call, ctrl_c)
    assert any(place.startswith("await_stop") for place in places)


def test_a_stop_anywhere_in_a_start_ends_it(quick):
    """As in a signal handler: the start goes on only when the stop has returned."""
    took = []

    def stop():
        began = time.monotonic()
        quick.stop(10)
        took.append(time.monotonic() - began)

    def call(strike):
        with suppress(NotRunning), strike:
            quick.start()
        works(quick)

    places = everywhere(call, stop)
    assert max(took) < SOON
    assert len(took) == len(places)


def test_a_start_anywhere_in_a_stop_shares_what_comes(quick):
    """The handler of a signal that comes during `stop` starts again, and has to wait for it."""

    def call(strike):
        quick.start()
        with strike:
            quick.stop(10)
        works(quick)

    places = everywhere(call, quick.start)
    assert any(place.startswith("Life.stop") for place in places)


def test_a_stop_anywhere_in_a_stop_joins_it(quick):
    def call(strike):
        quick.start()
        with strike:
            quick.stop(10)
        assert quick.state == "idle"
        works(quick)

    assert everywhere(call, lambda: quick.stop(10))


def test_ctrl_c_anywhere_in_a_question_leaves_no_mark(quick):
    """Else a later stop on that thread would take it for one inside a call to the store."""

    def call(strike):
        with suppress(KeyboardInterrupt), strike:
            quick.history(limit=1)
        assert quick._inside == set()

    assert everywhere(call, ctrl_c, by_call=True)


def test_a_start_that_another_thread_shares_is_called_off_for_both(quick, monkeypatch):
    raised = []

    def share():
        try:
            quick.start()
        except NotRunning as error:
            raised.append(error)

    sharing = threading.Thread(target=share)

    def interrupted(thread):
        sharing.start()
        until(lambda: quick._life().inbox._queue.qsize() == 2, "both have joined")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("anarchon._lifecycle_thread.LifeThread.launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            quick.start()
    sharing.join(10)
    assert [type(error) for error in raised] == [NotRunning]
    works(quick)


# A signal may come while an object is let go of, where Python can only tell of the exception.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_real_signals_during_a_start_leave_nothing_behind(quick):
    before = signal.signal(signal.SIGALRM, lambda *_: ctrl_c())
    try:
        for nth in range(60):
            with suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.00002 * (nth + 1))
                quick.start()
                signal.setitimer(signal.ITIMER_REAL, 0)
            works(quick)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_start_asks_logging_for_nothing_on_its_own_thread(quick, monkeypatch):
    """`getLogger` takes the lock of all of logging, and Ctrl-C right after that leaves it taken."""
    asked = []
    found = logging.Manager.getLogger

    def noted(manager, name):
        asked.append(threading.current_thread())
        return found(manager, name)

    works(quick)  # so that everything is loaded
    monkeypatch.setattr(logging.Manager, "getLogger", noted)
    quick.start()
    quick.stop()
    assert threading.current_thread() not in asked
