"""Services that die at a chosen point of a run: right after, or inside, a write to the store."""

from __future__ import annotations

import os
import signal
import threading

from anarchon import SqliteBackend
from anarchon._values import Closed, Won
from tests.processes.instance import define, heard, make_scheduler, on_another_thread, say, serve_on

WRITES = ("claim", "skip", "renew", "finish", "release", "record_manual")


def die(slot):
    say("dies", slot=slot)
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal(SqliteBackend):
    """A store whose process is killed right after its k-th write of a kind.

    With `inside` the transaction of that write is still open then, so it is rolled back by
    whoever opens the file next.
    """

    def __init__(self, database, *, after, count=1, inside=False):
        super().__init__(database, namespace="test")
        self._after = after
        self._left = count
        self._inside = inside
        self._here = threading.local()

    def _wrote(self, what, asked, answer):
        """Count a write; a claim or a skip is one only if it recorded something."""
        if what != self._after:
            return
        if what == "claim":
            asked = [one for one in answer.answers if isinstance(one, Won)]
        if what == "skip":
            asked = [one for one in answer.answers if isinstance(one, Closed) and one.run]
        self._left -= bool(asked)
        if not self._left:
            die(asked[0].key.slot_ms)

    def _write(self, operation, seconds):
        what, asked = self._here.call

        def judged(rows, now):
            answer = operation(rows, now)
            if self._inside:
                self._wrote(what, asked, answer)
            return answer

        return super()._write(judged, seconds)


def _mortal(what):
    plain = getattr(SqliteBackend, what)

    def call(self, asked, **options):
        self._here.call = what, asked
        answer = plain(self, asked, **options)
        if not self._inside:
            self._wrote(what, asked, answer)
        return answer

    return call


for _what in WRITES:
    setattr(Mortal, _what, _mortal(_what))


def serve_and_die(options):
    """Be a service until that write; told to, define a job that has to wait for a worker."""
    scheduler = make_scheduler(options, Mortal(options["database"], **options["death"]))
    scheduler.start()
    on_another_thread(lambda: heard() and define(scheduler, "tick", every="1s", catch_up="10s"))
    serve_on(scheduler)


def run_now_and_die(options):
    """Run a job by a call, until that write."""
    scheduler = make_scheduler(options, Mortal(options["database"], **options["death"]))
    define(scheduler, "call", every="1d", do="cooperative", seconds=30, catch_up=0)
    scheduler.start()
    on_another_thread(lambda: scheduler.run_now("call"))
    serve_on(scheduler)
