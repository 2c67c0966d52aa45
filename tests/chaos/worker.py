"""One process of a chaos fleet: a scheduler at work, and what it tells the ledger."""

from __future__ import annotations

import logging
import mmap
import os
import signal
import struct
import sys
import threading
import time
from pathlib import Path

from anarchon import Scheduler
from anarchon._clock import Clock
from anarchon._values import Lease, Won
from tests.chaos.ledger import Ledger, tell_stalls
from tests.chaos.plants import PLANTS
from tests.chaos.work import Lines, work_named
from tests.processes.instance import on_another_thread, say
from tests.processes.places import backend_at


def work(options):
    """Be a process of the fleet until SIGTERM, or until the driver is gone."""
    signal.alarm(options["longest"])
    on_another_thread(end_with_driver)
    ledger = Ledger(options["ledger"], options["name"])
    on_another_thread(lambda: tell_stalls(ledger, threading.Event()))
    scheduler = make_scheduler(options, ledger)
    scheduler.start(retry=True)
    on_another_thread(lambda: tell_running(scheduler, ledger))
    scheduler.wait()
    scheduler.stop()


def make_scheduler(options, ledger):
    backend = backend_at(options["url"], namespace="chaos")
    if options.get("plant"):
        PLANTS[options["plant"]](backend)
    tell_proofs(backend, ledger)
    scheduler = Scheduler(
        backend,
        lease=options["lease"],
        heartbeat=options["heartbeat"],
        instance_id=options["name"],
        log=logger_to(options["log"]),
        workers=options.get("workers", 10),
    )
    if options.get("clock"):
        scheduler._clock = ShiftedClock(options["clock"])
    work = work_named(options["work"], options["url"])
    for job in work.jobs(options["version"]):
        every = f"{job.every_ms}ms"
        scheduler.every(job.name, every, handler_of(job, work, ledger), **job.options())
    return scheduler


def handler_of(job, work, ledger):
    def handler(ctx):
        lines = Lines(ledger, ctx)
        lines.started()
        work.run(job, ctx, lines)

    return handler


def logger_to(path):
    logger = logging.getLogger("anarchon")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)s %(message)s"))
    logger.addHandler(handler)
    return logger


class ShiftedClock(Clock):
    """A host's clock whose wall time is as wrong as the driver says, in a file."""

    def __init__(self, path):
        super().__init__()
        with Path(path).open("rb") as file:
            self._offset = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)

    def wall(self):
        (offset,) = struct.unpack("d", self._offset[:8])
        return time.time() + offset


# --- what it tells besides its handlers' lines ---


def tell_proofs(backend, ledger):
    """Tell what proves a lease: each claim that was won, each renewal, and when it was sent."""
    claim, renew = backend.claim, backend.renew

    def told_claim(wishes, **how):
        sent = time.monotonic()
        claims = claim(wishes, **how)
        for won in claims.answers:
            if isinstance(won, Won):
                ledger.write("won", **named(won), fence=won.fence, sent=sent)
        return claims

    def told_renew(leases, **how):
        sent = time.monotonic()
        try:
            renewed = renew(leases, **how)
        except Exception:
            ledger.write("unanswered", sent=sent)
            raise
        kept = [named(lease) for lease in leases if Lease(*lease) not in renewed.lost]
        ledger.write("renewed", kept=kept, sent=sent)
        return renewed

    backend.claim, backend.renew = told_claim, told_renew


def named(attempt):
    return {"job": attempt.key.job, "slot": attempt.key.slot_ms, "attempt": attempt.attempt}


def tell_running(scheduler, ledger):
    """Tell when the scheduler has reached the store and runs, and SIGTERM is waited for."""
    while scheduler.state == "starting" or signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        time.sleep(0.01)
    if scheduler.state == "running":
        ledger.write("running", pid=os.getpid())
        say("up")


def end_with_driver():
    """End when the driver does: nothing is left behind when it is killed."""
    sys.stdin.read()
    os._exit(3)
