"""stop() from wherever somebody may call it: it ends, and waits for nobody who can't end."""

from __future__ import annotations

import logging
import random
import signal
import threading
import time
from contextlib import suppress

import pytest

from anarchon import MemoryBackend, NotRunning
from tests.facade.helpers import SOON, Blocked, Door, until


@pytest.fixture
def on_alarm():
    """Call something in a signal handler on the main thread, after seconds or a condition."""
    before = signal.getsignal(signal.SIGALRM)
    watchers = []

    def arm(when, call):
        signal.signal(signal.SIGALRM, lambda *_: call())
        if not callable(when):
            signal.setitimer(signal.ITIMER_REAL, when)
            return

        def watch():
            until(when)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)

        watchers.append(watcher := threading.Thread(target=watch))
        watcher.start()

    yield arm
    [watcher.join() for watcher in watchers]
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def timed(call):
    started = time.monotonic()
    call()
    return time.monotonic() - started


def wait_for_abort(ctx):
    ctx.signal.wait(20)
    ctx.signal.raise_if_aborted()


# --- a handler ---


def test_a_handler_stops_and_is_not_waited_for(make):
    scheduler = make()
    seen = {}

    def stopper():
        seen["took"] = timed(lambda: scheduler.stop(20))
        seen["state"], seen["other"] = scheduler.state, scheduler.last_run("other").status

    scheduler.every("other", "1h", wait_for_abort, catch_up=0)
    scheduler.every("stopper", "1h", stopper, catch_up=0)
    scheduler.start()
    scheduler.submit("other")
    until(lambda: scheduler.health().running == 1)
    scheduler.submit("stopper")
    until(lambda: scheduler.state == "idle")
    assert seen["took"] < SOON
    assert (seen["state"], seen["other"]) == ("stopping", "interrupted")
    run = scheduler.last_run("stopper")
    assert (run.status, run.detail) == ("success", "after stop")


def test_handlers_that_stop_together_wait_for_neither(make):
    scheduler = make()
    together = threading.Barrier(3)
    took = []

    def stopper():
        together.wait(5)
        took.append(timed(lambda: scheduler.stop(20)))

    for name in ("a", "b"):
        scheduler.every(name, "1h", stopper, catch_up=0)
    scheduler.start()
    scheduler.submit("a")
    scheduler.submit("b")
    together.wait(5)
    assert timed(lambda: scheduler.stop(20)) < SOON
    assert scheduler.state == "idle"
    assert len(took) == 2
    assert max(took) < SOON


def test_a_handler_that_joins_a_stop_is_not_waited_for_either(make):
    scheduler = make()
    entered, took = threading.Event(), []

    def stopper(ctx):
        entered.set()
        ctx.signal.wait(20)
        took.append(timed(lambda: scheduler.stop(20)))

    scheduler.every("stopper", "1h", stopper, catch_up=0)
    scheduler.start()
    scheduler.submit("stopper")
    assert entered.wait(5)
    assert timed(lambda: scheduler.stop(20)) < SOON
    assert took[0] < SOON


def test_a_handler_may_go_on_after_its_own_stop(make):
    scheduler = make()
    go_on = threading.Event()

    def stopper():
        scheduler.stop(20)
        scheduler.stop(20)  # and ask again
        go_on.wait(20)
        raise ValueError("something else went wrong")

    scheduler.every("stopper", "1h", stopper, catch_up=0)
    scheduler.start()
    scheduler.submit("stopper")
    until(lambda: scheduler.state == "stopping")
    go_on.set()
    until(lambda: scheduler.state == "idle")
    assert "ValueError" in (scheduler.last_run("stopper").error or "")


def test_an_on_abort_function_and_a_schedule_are_not_waited_for(make):
    scheduler = make()
    took, entered = [], threading.Event()

    class Stopper:
        def next_after(self, t):
            if entered.is_set():
                took.append(timed(lambda: scheduler.stop(20)))

        def latest(self, t):
            return None

    def job(ctx):
        with ctx.signal.on_abort(lambda: took.append(timed(lambda: scheduler.stop(20)))):
            entered.set()
            ctx.signal.wait(20)

    scheduler.every("job", "1h", job, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    assert entered.wait(5)
    scheduler.schedule("stopper", Stopper(), lambda: None)
    until(lambda: scheduler.state == "idle")
    assert len(took) >= 2
    assert max(took) < SOON


# --- a listener, a logging handler, another thread ---


def test_a_listener_stops_and_is_not_waited_for(make):
    scheduler = make()
    took, after = [], []

    @scheduler.on("success")
    def stop(run):
        took.append(timed(lambda: scheduler.stop(20)))

    scheduler.on("success", after.append)
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    until(lambda: scheduler.state == "idle")
    assert took[0] < SOON
    assert len(after) == 1  # the next listener was called as well


def test_a_listener_that_hangs_holds_up_a_stop_only_until_its_timeout(make):
    scheduler = make()
    entered, go_on, heard = threading.Event(), threading.Event(), []
    scheduler.on("success", lambda run: (heard.append(run), entered.set(), go_on.wait(20)))
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    scheduler.start()
    scheduler.run_now("job")
    scheduler.run_now("job")
    assert entered.wait(5)
    took = timed(lambda: scheduler.stop(0.3))
    assert 0.3 <= took < 0.3 + SOON
    until(lambda: scheduler.state == "idle")
    go_on.set()
    until(lambda: not any(t.name == "anarchon-events" for t in threading.enumerate()))
    assert len(heard) == 1  # what still waited when the time was over is dropped


def test_events_of_the_end_are_still_delivered(make):
    scheduler = make()
    told = []
    scheduler.on("interrupted", lambda run: (time.sleep(0.1), told.append(run.detail)))
    scheduler.every("job", "1h", wait_for_abort, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    until(lambda: scheduler.health().running == 1)
    scheduler.stop()
    assert len(told) == 1


def test_a_logging_handler_stops_and_is_not_waited_for(make):
    class Stopper(logging.Handler):
        took: float | None = None

        def emit(self, record):
            if "finished" in record.getMessage():
                self.took = timed(lambda: scheduler.stop(20))

    logger = logging.getLogger("tests.facade.stopper")
    logger.setLevel(logging.INFO)
    handler = Stopper()
    logger.addHandler(handler)
    scheduler = make(log=logger)
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    until(lambda: scheduler.state == "idle")
    logger.removeHandler(handler)
    assert handler.took is not None
    assert handler.took < SOON


def test_a_stubborn_handler_is_left_at_the_timeout(make, caplog):
    scheduler = make()
    stubborn = Blocked()
    scheduler.every("stubborn", "1h", stubborn, catch_up=0)
    scheduler.start()
    scheduler.submit("stubborn")
    stubborn.wait_until_begun()
    took = timed(lambda: scheduler.stop(0.5))
    stubborn.go_on.set()
    assert 0.5 <= took < 0.5 + SOON
    assert scheduler.state == "idle"
    assert "left behind" in caplog.text


def test_nothing_is_sent_to_the_store_after_a_stop(make):
    class Counted(MemoryBackend):
        calls = 0

        def _write(self, operation, seconds):
            self.calls += 1
            return super()._write(operation, seconds)

    backend = Counted()
    scheduler = make(backend)
    stubborn = Blocked()
    scheduler.every("stubborn", "100ms", stubborn)
    scheduler.start()
    stubborn.wait_until_begun()
    scheduler.stop(0.1)
    before = backend.calls
    stubborn.go_on.set()
    time.sleep(0.3)  # that nothing happens can't be waited for otherwise
    assert backend.calls == before


# --- a signal handler ---


def busy_with_states(scheduler):
    scheduler.health()
    scheduler.history(limit=1)
    scheduler.every("more", "1h", lambda: None, replace=True)


def busy_with_manual_runs(scheduler):
    with suppress(NotRunning):  # it has stopped meanwhile
        scheduler.run_now("quick")


def busy_with_logging(scheduler):
    logging.getLogger("anarchon").warning("from the main thread")


def busy_with_threads(scheduler):
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


def busy_with_stops(scheduler):
    scheduler.stop(5)


@pytest.mark.parametrize(
    "busy",
    [
        busy_with_states,
        busy_with_manual_runs,
        busy_with_logging,
        busy_with_threads,
        busy_with_stops,
    ],
)
def test_a_signal_handler_stops_whatever_the_main_thread_is_doing(make, on_alarm, busy):
    rng = random.Random(7)
    scheduler = make()
    scheduler.every("quick", "100ms", lambda: None)
    for _ in range(12):
        took = []
        scheduler.start()
        on_alarm(rng.uniform(0.0001, 0.01), lambda took=took: took.append(timed(scheduler.stop)))
        while not took:
            busy(scheduler)
        assert took[0] < SOON
        # Inside a call to the store it may not wait, since that holds the store's lock.
        until(lambda: scheduler.state == "idle")


def test_a_signal_handler_stops_a_start_in_the_middle(make, on_alarm):
    rng = random.Random(11)
    scheduler = make()
    scheduler.every("quick", "100ms", lambda: None)
    for _ in range(25):
        took = []
        on_alarm(rng.uniform(0.00005, 0.004), lambda took=took: took.append(timed(scheduler.stop)))
        with suppress(NotRunning):
            scheduler.start()
        until(lambda took=took: took)
        assert took[0] < SOON
        scheduler.stop()
        assert scheduler.state == "idle"


def test_a_signal_handler_stops_while_the_main_thread_holds_the_logging_lock(make, on_alarm):
    """The scheduler has lines to log, whose handler waits for this very thread."""

    class Slow(logging.Handler):
        def emit(self, record):
            if record.getMessage() == "slow":
                deadline = time.monotonic() + 0.5
                while time.monotonic() < deadline:
                    pass

    logger = logging.getLogger("tests.facade.slow")
    logger.setLevel(logging.INFO)
    handler = Slow()
    logger.addHandler(handler)
    scheduler = make(log=logger)
    scheduler.every("job", "1h", wait_for_abort, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    until(lambda: scheduler.health().running == 1)
    took = []
    on_alarm(0.1, lambda: took.append(timed(lambda: scheduler.stop(20))))
    logger.info("slow")
    logger.removeHandler(handler)
    assert took[0] < SOON
    assert scheduler.last_run("job").status == "interrupted"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_a_signal_handler_raises_ends_only_the_waiting(make, on_alarm, error):
    scheduler = make()
    slow = Blocked()
    scheduler.every("slow", "1h", slow, catch_up=0)
    scheduler.start()
    scheduler.submit("slow")
    slow.wait_until_begun()

    def raise_it():
        raise error

    on_alarm(lambda: scheduler.state == "stopping", raise_it)
    with pytest.raises(error):
        scheduler.stop(20)
    assert scheduler.state == "stopping"
    slow.go_on.set()
    until(lambda: scheduler.state == "idle")
    assert scheduler.last_run("slow").status == "success"


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_interrupted_start_does_not_go_on_in_the_background(make, on_alarm, error):
    door = Door()
    door.may_open.clear()
    scheduler = make(door)

    def interrupt():
        raise error

    on_alarm(door.opening.is_set, interrupt)
    with pytest.raises(error):
        scheduler.start()
    door.may_open.set()
    until(lambda: scheduler.state == "idle")
    assert door.closed == door.opened
