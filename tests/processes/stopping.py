"""Programs that call `stop()` from everywhere, while a run is going on."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from datetime import UTC, datetime

from anarchon import Aborted
from tests.processes.instance import begin, end, make_scheduler, on_another_thread, say

working = threading.Event()


def work(ctx):
    begin(ctx)
    working.set()
    try:
        ctx.signal.sleep(60)
    except Aborted:
        end(ctx, "raised")
        raise


def stop_from(options):
    """Start, wait until the run is going on, stop from a place, and end."""
    scheduler = make_scheduler(options)
    scheduler.once("work", datetime.now(UTC).replace(microsecond=0), work)
    PLACES[options["place"]](scheduler)
    say("left", state=scheduler.state)


def stop(scheduler, *_):
    """Stop, and say how long it took and what came of it."""
    working.wait(10)
    began = time.monotonic()
    scheduler.stop(timeout=5)
    say("back", took=time.monotonic() - began, state=scheduler.state)


# --- the places ---


def handler(scheduler):
    scheduler.once("stopper", datetime.now(UTC).replace(microsecond=0), lambda: stop(scheduler))
    scheduler.start()
    scheduler.wait()


def own_handler(scheduler):
    def stops_itself(ctx):
        begin(ctx)
        working.set()
        stop(scheduler)
        end(ctx, "raised")
        ctx.signal.raise_if_aborted()

    scheduler.once("work", datetime.now(UTC).replace(microsecond=0), stops_itself, replace=True)
    scheduler.start()
    scheduler.wait()


def listener(scheduler):
    scheduler.on("started", lambda run: stop(scheduler))
    scheduler.start()
    scheduler.wait()


def thread(scheduler):
    scheduler.start()
    caller = on_another_thread(lambda: stop(scheduler))
    scheduler.wait()
    caller.join()


def main_thread(scheduler):
    scheduler.start()
    stop(scheduler)


def at_exit(scheduler):
    """The exit hook of a program that wants none of ours."""
    scheduler.start()
    atexit.register(stop, scheduler)
    working.wait(10)


def at_exit_beside_ours(scheduler):
    at_exit(scheduler)


def signal_handler(scheduler, meanwhile):
    """Call `stop` in a handler of SIGUSR1 that interrupts the main thread in something."""
    stopped = []

    def stop_once(*_):
        stop(scheduler)
        stopped.append(True)

    signal.signal(signal.SIGUSR1, stop_once)
    scheduler.start()
    working.wait(10)
    say("ready")  # the test sends the signal now
    while not stopped:
        meanwhile(scheduler)
    scheduler.stop(5)  # joins the one that has begun


def call(scheduler):
    """Make a manual run, unless the stop came first."""
    from anarchon import NotRunning

    try:
        scheduler.run_now("ping")
    except NotRunning as error:
        assert "stopp" in str(error) or "idle" in str(error), error  # noqa: PT017 - no test


def signal_while_sleeping(scheduler):
    signal_handler(scheduler, lambda _: time.sleep(0.05))


def signal_while_waiting(scheduler):
    signal_handler(scheduler, lambda scheduler: scheduler.wait(1))


def signal_while_reading(scheduler):
    signal_handler(scheduler, lambda scheduler: scheduler.history("work"))


def signal_while_running_jobs(scheduler):
    scheduler.every("ping", "1d", lambda: None, catch_up=0)
    signal_handler(scheduler, call)


def signal_while_starting(scheduler):
    """The main thread is inside `start`, which may not even have a thread yet."""
    from anarchon import NotRunning

    working.set()
    signal.signal(signal.SIGUSR1, lambda *_: scheduler.stop(5))
    # From far too early until after the start, in steps of half a millisecond.
    for step in range(60):
        strike = threading.Timer(0.0005 * step, os.kill, (os.getpid(), signal.SIGUSR1))
        strike.start()
        try:
            scheduler.start()
        except NotRunning as error:
            assert "before the scheduler had started" in str(error), error  # noqa: PT017
        strike.join()
        scheduler.stop(5)
        assert scheduler.state == "idle"
    say("back", took=0, state=scheduler.state)


def everywhere_at_once(scheduler):
    """BR-056: many rounds of a signal handler, a thread, the main thread and a handler."""
    signal.signal(signal.SIGUSR1, lambda *_: scheduler.stop(5))
    longest = 0.0
    for _ in range(25):
        working.clear()
        scheduler.start()
        scheduler.submit("stopper")
        began = time.monotonic()
        threads = [on_another_thread(lambda: scheduler.stop(5)) for _ in range(2)]
        os.kill(os.getpid(), signal.SIGUSR1)
        scheduler.stop(5)
        for one in threads:
            one.join()
        assert scheduler.state == "idle"
        longest = max(longest, time.monotonic() - began)
    say("back", took=longest, state=scheduler.state)


def everywhere_at_exit(scheduler):
    """The same while the interpreter ends."""
    scheduler.start()
    working.wait(10)
    signal.signal(signal.SIGUSR1, lambda *_: scheduler.stop(5))
    atexit.register(stop, scheduler)
    on_another_thread(lambda: scheduler.stop(5))
    os.kill(os.getpid(), signal.SIGUSR1)


PLACES = {
    place.__name__: place
    for place in (
        handler,
        own_handler,
        listener,
        thread,
        main_thread,
        at_exit,
        at_exit_beside_ours,
        signal_while_sleeping,
        signal_while_waiting,
        signal_while_reading,
        signal_while_running_jobs,
        signal_while_starting,
        everywhere_at_once,
        everywhere_at_exit,
    )
}
