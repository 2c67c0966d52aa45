"""A service in a process of its own, and what it leaves in the store."""

from __future__ import annotations

import time

from anarchon import Scheduler, SqliteBackend

# The handler of `job` waits for its abort; that of `stubborn` only notes it.
SERVICE = """
    import atexit, os, signal, sys, threading, time
    from anarchon import Scheduler, SqliteBackend

    scheduler = Scheduler(SqliteBackend("jobs.db"), lease=6, heartbeat=1, exit_timeout=1)
    entered = threading.Event()

    @scheduler.every("job", "1h", catch_up=0)
    def job(ctx):
        print("running", flush=True)
        entered.set()
        ctx.signal.wait(60)
        ctx.signal.raise_if_aborted()

    @scheduler.every("stubborn", "1h", catch_up=0)
    def stubborn(ctx):
        print("running", flush=True)
        entered.set()
        while True:
            time.sleep(1)

    def begin(name="job"):
        scheduler.start()
        scheduler.submit(name)
        entered.wait()

    def when_running(call, *given):
        def wait_and_call():
            while scheduler.state != "running":
                time.sleep(0.005)
            call(*given)
        threading.Thread(target=wait_and_call, daemon=True).start()

    def say_when_stopping():
        def wait_and_say():
            while scheduler.state != "stopping":
                time.sleep(0.005)
            print("stopping", flush=True)
        threading.Thread(target=wait_and_say, daemon=True).start()

    def submit_when_running(name="job"):
        when_running(scheduler.submit, name)
"""


def program(*steps):
    return "\n".join([SERVICE, *(f"    {step}" for step in steps)])


def recorded(tmp_path, name="job"):
    return Scheduler(SqliteBackend(tmp_path / "jobs.db")).last_run(name)


def finish(process, seconds=20):
    started = time.monotonic()
    out, err = process.communicate(timeout=seconds)
    return out, err, time.monotonic() - started
