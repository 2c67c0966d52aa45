"""Programs that call `install_signal_handlers`, and what their signals meet there."""

from __future__ import annotations

import signal
import threading
import time

from anarchon import NotRunning
from tests.processes.instance import heard, make_scheduler, say

told = threading.Event()


def embedded(options):
    """Be a server that handles SIGTERM in some way, with a scheduler inside."""
    signal.signal(signal.SIGTERM, BEFORE[options["before"]])
    schedulers = [make_scheduler(one) for one in options.get("several", [options])]
    say("installed", said=[one.install_signal_handlers() for one in schedulers])
    for scheduler in schedulers:
        scheduler.start()
    say("ready")
    # The server drains its requests; it goes on until its own handler says otherwise.
    while not told.is_set():
        time.sleep(0.02)
    for scheduler in schedulers:
        while scheduler.state != "idle":
            scheduler.wait()  # which another signal ends
    say("left", state=[one.state for one in schedulers])
    if options.get("hold"):
        heard()


def handler(signum, frame):
    """Be a server's own handler."""
    say("server told", signum=signum, has_frame=frame is not None)
    told.set()


BEFORE = {"handler": handler, "ignore": signal.SIG_IGN, "default": signal.SIG_DFL}


def storm(options):
    """Ask and run jobs while signals come every few milliseconds, then get the real one."""
    counted = []
    signal.signal(signal.SIGUSR1, lambda *_: counted.append(1))
    scheduler = make_scheduler(options)
    assert scheduler.install_signal_handlers([signal.SIGUSR2])
    scheduler.start()
    say("ready")
    rounds = 0
    while scheduler.state == "running":
        try:
            rounds += scheduler.run_now("ping").status == "success"
        except NotRunning:
            break
        scheduler.history("ping", limit=5)
    scheduler.wait()
    say("left", state=scheduler.state, signals=len(counted), rounds=rounds)


def from_another_thread(options):
    """Find that handlers can't be installed outside the main thread, and are left alone."""
    scheduler = make_scheduler(options)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(scheduler.install_signal_handlers()))
    thread.start()
    thread.join()
    before = signal.getsignal(signal.SIGTERM)
    # Started there as well, as in a worker of a threaded server: no signal is touched.
    thread = threading.Thread(target=scheduler.start)
    thread.start()
    thread.join()
    touched = [
        name
        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGCHLD")
        if signal.getsignal(getattr(signal, name))
        not in (signal.SIG_DFL, signal.default_int_handler)
    ]
    say("ready", said=answers, touched=touched, default=before is signal.SIG_DFL)
    scheduler.stop()
