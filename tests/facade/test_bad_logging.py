"""Logging that raises or hangs holds nothing up; every line goes to the logger that was given."""

from __future__ import annotations

import ctypes
import logging
import threading

import pytest

from anarchon import MemoryBackend, Scheduler, _log_lines
from anarchon._one_process import OneProcess
from anarchon.testing import FaultyBackend, ManualClock
from tests.conftest import anarchon_threads
from tests.facade.helpers import PATIENCE_SECONDS, until

LINES = (
    "no thread for a handler: none left",
    "a store call failed",
    "store down: OSError: fault",
    "store up again",
    "an on_abort function raised",
    "listener complain of 'failure' raised",
    "another thread raised this in a worker's thread",
    "another thread raised this in a store thread",
    "an error in the scheduler's loop",
    "an error while a Emit was told",
    "the backend raised while it was closed",
)


def complain(run):
    raise ZeroDivisionError


class NoClose(MemoryBackend):
    def close(self):
        super().close()
        raise OSError("no close")


class Receiver(logging.Handler):
    """Keeps the lines; `act` does what a bad handler does."""

    def __init__(self, act=lambda: None):
        super().__init__()
        self.act = act
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())
        self.act()


class Stuck:
    """Waits until the test is over."""

    def __init__(self):
        self.go_on = threading.Event()

    def __call__(self):
        self.go_on.wait(PATIENCE_SECONDS)


def raising(error):
    def act():
        raise error

    return act


@pytest.fixture(params=["anarchon", "tests.facade.bad"])
def logger(request):
    """A logger that takes everything, also when it is the default one."""
    logger = logging.getLogger(request.param)
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.setLevel(logging.NOTSET)
    logger.handlers.clear()
    logger.filters.clear()


def strike(name):
    """Raise something in a thread from outside, as libraries for timeouts do."""
    (thread,) = [t for t in anarchon_threads() if t.name.startswith(name)]
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    assert raise_in(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyError)) == 1


class Service:
    """A scheduler on a manual clock, one of each of whose parts fails in turn."""

    def __init__(self, logger, monkeypatch):
        self.clock = ManualClock()
        self.store = FaultyBackend(NoClose())
        self.monkeypatch = monkeypatch
        self.scheduler = Scheduler(
            self.store, lease=6, heartbeat=1, log=logger if logger.name != "anarchon" else False
        )
        self.ran = []
        self.scheduler.every("tick", "10s", lambda: self.ran.append(self.clock.now()), catch_up=0)
        self.scheduler.every("slow", "1h", self.slow, catch_up=0, timeout="3s")
        self.scheduler.on("failure", complain)
        self.clock.attach(self.scheduler)

    def slow(self, ctx):
        with ctx.signal.on_abort(lambda: 1 / 0):
            ctx.signal.wait()

    def go_wrong(self):
        """Have each failure once."""
        clock, patch = self.clock, self.monkeypatch.setattr
        start, refused = threading.Thread.start, []

        def refuse(thread):
            if thread.name.startswith("anarchon-worker") and not refused:
                refused.append(thread)
                raise RuntimeError("none left")
            start(thread)

        patch(threading.Thread, "start", refuse)
        clock.advance("25s")
        self.store.fail(times=1000, error=OSError("fault"))
        clock.advance("20s")
        self.store.heal()
        clock.advance("20s")
        self.scheduler.submit("slow")
        clock.advance("5s")
        life = self.scheduler._life()
        core, journal = life.engine._loop._core, life.journal
        patch(core, "handle", failing_once(core.handle))
        clock.advance("15s")
        patch(journal, "run", failing_once(journal.run))
        clock.advance("15s")
        strike("anarchon-worker")
        strike("anarchon-store")
        clock.advance("20s")

    def assert_it_goes_on(self):
        before = len(self.ran)
        self.clock.advance("60s")
        assert len(self.ran) == before + 6
        assert len(set(self.ran)) == len(self.ran)
        assert self.scheduler.health().ok
        self.scheduler.stop(5)
        assert self.scheduler.state == "idle"


def failing_once(call):
    failures = []

    def fail_once(*args):
        if not failures:
            failures.append(args)
            raise ZeroDivisionError("once")
        return call(*args)

    return fail_once


def test_each_line_goes_to_the_logger_that_was_given(logger, monkeypatch):
    other = logging.getLogger("anarchon")
    here, elsewhere = Receiver(), Receiver()
    logger.addHandler(here)
    if logger is not other:
        other.setLevel(logging.DEBUG)
        other.addHandler(elsewhere)
    service = Service(logger, monkeypatch)
    try:
        with service.scheduler:
            service.go_wrong()
            service.assert_it_goes_on()
    finally:
        other.removeHandler(elsewhere)
        other.setLevel(logging.NOTSET)
    for line in LINES:
        assert any(text.startswith(line) for text in here.texts), line
    assert elsewhere.texts == []


@pytest.mark.parametrize("error", [ValueError("no log"), SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["handler", "filter"])
def test_logging_that_raises_ends_nothing(logger, monkeypatch, where, error):
    bad = Receiver(raising(error))
    if where == "handler":
        logger.addHandler(bad)
    else:
        logger.addFilter(bad.emit)
    service = Service(logger, monkeypatch)
    with service.scheduler:
        service.go_wrong()
        service.assert_it_goes_on()
    for line in LINES:
        assert any(text.startswith(line) for text in bad.texts), line


def test_logging_that_hangs_holds_nothing_up(logger, monkeypatch):
    stuck = Stuck()
    logger.addHandler(Receiver(stuck))
    service = Service(logger, monkeypatch)
    try:
        with service.scheduler:
            service.go_wrong()
            service.assert_it_goes_on()
    finally:
        stuck.go_on.set()
    until(lambda: not anarchon_threads(), "the end of the thread for the log")


def test_what_is_left_after_the_end_logs_by_itself(logger):
    here = Receiver()
    logger.addHandler(here)
    scheduler = Scheduler(MemoryBackend(), lease=3, log=logger)
    begun, go_on = threading.Event(), threading.Event()

    def stubborn(ctx):
        begun.set()
        go_on.wait(PATIENCE_SECONDS)
        with ctx.signal.on_abort(lambda: 1 / 0):
            pass

    scheduler.every("stubborn", "1h", stubborn, catch_up=0)
    scheduler.start()
    scheduler.submit("stubborn")
    assert begun.wait(PATIENCE_SECONDS)
    scheduler.stop(0.1)
    go_on.set()
    until(lambda: any("on_abort function raised" in text for text in here.texts))


def test_a_disabled_scheduler_starts_whatever_its_logger_does(logger):
    logger.addHandler(Receiver(raising(SystemExit("no log"))))
    scheduler = Scheduler(MemoryBackend(), enabled=False, log=logger)
    scheduler.start()
    assert scheduler.state == "idle"


def test_only_ctrl_c_gets_through_logging_and_only_in_the_main_thread(logger):
    logger.addHandler(Receiver(raising(KeyboardInterrupt())))
    line = _log_lines.disabled()
    with pytest.raises(KeyboardInterrupt):
        _log_lines.write(line, logger)
    caught = []

    def write():
        with OneProcess():
            caught.append(_log_lines.write(line, logger))

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert caught == [None]
