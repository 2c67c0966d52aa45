"""An instance of a service: what the processes of these tests have in common.

What it has to say goes to stdout, one JSON object a line, each with the process id and
the moment (`at`) on the monotonic clock, which all processes of a host share.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

from anarchon import Aborted, Scheduler
from tests.processes.places import backend_at

EVENTS = ("started", "success", "failure", "interrupted", "skipped", "missed", "takeover", "lost")
STORE_EVENTS = ("store_down", "store_up")
LEASE = {"lease": "3s", "heartbeat": "500ms"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def say(kind, **facts):
    """Write one line; short enough to be a single step, from any thread."""
    line = json.dumps({"kind": kind, "at": time.monotonic(), "pid": os.getpid(), **facts})
    os.write(1, f"{line}\n".encode())


def heard():
    """Wait for a line from the test; "" when the test is gone."""
    return sys.stdin.readline().strip()


# --- handlers ---


def begin(ctx):
    say("begin", job=ctx.name, slot=ctx.slot, attempt=ctx.attempt, reason=ctx.reason)


def end(ctx, how):
    reason = ctx.signal.reason
    say("end", job=ctx.name, slot=ctx.slot, attempt=ctx.attempt, how=how, abort=reason)


def quick(ctx, seconds):
    begin(ctx)
    end(ctx, "returned")


def cooperative(ctx, seconds):
    """Work, and raise when told to stop."""
    begin(ctx)
    try:
        ctx.signal.sleep(seconds)
    except Aborted:
        end(ctx, "raised")
        raise
    end(ctx, "returned")


def returning(ctx, seconds):
    """Work, and return early when told to stop."""
    begin(ctx)
    ctx.signal.wait(seconds)
    end(ctx, "returned")


def stubborn(ctx, seconds):
    """Work, whatever the signal says; it only says that it was told."""
    begin(ctx)
    until = time.monotonic() + seconds
    if ctx.signal.wait(seconds):
        say("ignores", abort=ctx.signal.reason)
    time.sleep(max(0.0, until - time.monotonic()))
    end(ctx, "returned")


def grabbing(ctx, seconds):
    """Hold the interpreter's lock all the time, as a long call into C does; then obey."""
    begin(ctx)
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    end(ctx, "returned")


def busy(ctx, seconds):
    """Compute on eight threads, as long as the signal lets them."""
    begin(ctx)
    until = time.monotonic() + seconds

    def compute():
        while time.monotonic() < until and not ctx.signal.is_set():
            sum(range(1000))

    threads = [on_another_thread(compute) for _ in range(8)]
    for thread in threads:
        thread.join()
    end(ctx, "returned")


HANDLERS = {
    handler.__name__: handler
    for handler in (quick, cooperative, returning, stubborn, grabbing, busy)
}


# --- the scheduler ---


class Lines(logging.Handler):
    """Says log lines."""

    def emit(self, record):
        raised = repr(record.exc_info[1])[:500] if record.exc_info else None
        say("log", level=record.levelname, text=record.getMessage()[:2000], raised=raised)


def talking_logger():
    logger = logging.getLogger("anarchon")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(Lines())
    return logger


def make_scheduler(options, backend=None):
    """Return a scheduler with the jobs that the options name; it says what happens."""
    log = options.get("log", "say")
    scheduler = Scheduler(
        backend or backend_at(options["database"], namespace=options.get("namespace", "test")),
        log=talking_logger() if log == "say" else log,
        **{**LEASE, **options.get("scheduler", {})},
    )
    for job in options.get("jobs", []):
        define(scheduler, **job)
    for event in EVENTS:
        scheduler.on(event, teller(event))
    for event in STORE_EVENTS:
        scheduler.on(event, lambda told, event=event: say(event, error=told.error))
    return scheduler


def define(
    scheduler, name, *, every=None, once=None, do="quick", later=None, seconds=60.0, **options
):
    """Define a job; `once` is milliseconds since 1970, `later` for attempts after the first."""

    def handler(ctx):
        HANDLERS[do if ctx.attempt == 1 else later or do](ctx, seconds)

    if every is not None:
        scheduler.every(name, every, handler, **options)
    else:
        scheduler.once(name, _EPOCH + timedelta(milliseconds=once), handler, **options)


def teller(event):
    def tell(run):
        short = {**run.to_dict(), "traceback": None, "error": (run.error or "")[:500] or None}
        say("run", event=event, **short)

    return tell


# --- programs ---


def serve(options, backend=None):
    """Be a service: run until SIGTERM."""
    scheduler = make_scheduler(options, backend)
    if options.get("hold"):
        say("ready")
        heard()
    scheduler.start(retry=options.get("retry", False))
    serve_on(scheduler)


def serve_on(scheduler):
    """Let a running scheduler run until SIGTERM; say so when the signal has its handler."""

    def tell():
        while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            time.sleep(0.002)
        say("running", instance=scheduler.instance_id)

    on_another_thread(tell)
    scheduler.run()
    say("stopped", state=scheduler.state)


def on_another_thread(fn):
    thread = threading.Thread(target=fn, name="test-thread", daemon=True)
    thread.start()
    return thread


def serve_and_raise(options):
    """Be a service that gets its SIGTERM on a thread that isn't the main one."""
    scheduler = make_scheduler(options)
    scheduler.start()

    def strike():
        while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            time.sleep(0.002)
        time.sleep(0.05)  # until the main thread waits for sure
        say("raises")
        signal.raise_signal(signal.SIGTERM)

    on_another_thread(strike)
    serve_on(scheduler)
