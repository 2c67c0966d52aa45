"""Services that die at a chosen point of a run: right before, or right after, a write."""

from __future__ import annotations

import functools
import os
import signal

from anarchon import Aborted, SqliteBackend
from anarchon._values import Closed, RunKey, Won
from tests.processes.instance import (
    HANDLERS,
    begin,
    define,
    end,
    heard,
    make_scheduler,
    on_another_thread,
    say,
    serve,
    serve_on,
)
from tests.processes.places import backend_at

__all__ = ["run_now_and_die", "serve", "serve_and_die"]


class Death:
    """Kills this process at its k-th write of a kind, as `kill -9` does.

    Before the write nothing was sent to a server; in a SQLite file the transaction is open
    then, so whoever opens the file next rolls it back. After it, the answer has just come.
    """

    def __init__(self, backend, *, write, count=1, before=False):
        self._write = write
        self._left = count
        self._before = before
        self._asked = ()
        plain = getattr(backend, write)
        setattr(backend, write, functools.partial(self._call, plain))
        self._has_transactions = isinstance(backend, SqliteBackend)
        if self._has_transactions:
            for way in ("_write", "_write_once"):
                plain = getattr(backend, way)
                setattr(backend, way, functools.partial(self._transact, plain))

    def _call(self, plain, *asked, **options):
        self._asked = asked
        if self._before and not self._has_transactions:
            self._count(bool(asked[0]))
        answer = plain(*asked, **options)
        self._asked = ()
        if not self._before:
            self._asked = asked
            self._count(self._has_written(answer))
        return answer

    def _transact(self, plain, operation, seconds):
        asked = self._asked

        def judged(rows, now):
            answer = operation(rows, now)
            if asked and self._before:
                self._count(self._has_written(answer))
            return answer

        return plain(judged, seconds)

    def _has_written(self, answer):
        """Say whether it wrote: a claim or a skip does so only if it recorded something."""
        if self._write == "claim":
            return any(isinstance(one, Won) for one in answer.answers)
        if self._write == "skip":
            return any(isinstance(one, Closed) and one.run for one in answer.answers)
        return bool(self._asked[0])

    def _count(self, counts):
        self._left -= counts
        if not self._left:
            say("dies", slot=slot_of(self._asked[0]))
            os.kill(os.getpid(), signal.SIGKILL)


def slot_of(asked):
    """Return the slot of the first run that an operation is asked for; a job has none."""
    first = asked[0] if isinstance(asked, list | tuple) and not hasattr(asked, "_fields") else asked
    key = getattr(first, "key", first)
    return key.slot_ms if isinstance(key, RunKey) else None


def make_mortal(options):
    """Return a scheduler whose process dies at a write, and its backend."""
    backend = backend_at(options["database"], namespace=options["namespace"])
    scheduler = make_scheduler(options, backend)
    Death(backend, **options["death"])
    return scheduler, backend


def saving(ctx, seconds):
    """Save a checkpoint and work on; a later attempt says what it found."""
    begin(ctx)
    say("found", slot=ctx.slot, attempt=ctx.attempt, checkpoint=ctx.checkpoint)
    if ctx.attempt == 1:
        ctx.save({"page": 7})
        try:
            ctx.signal.sleep(seconds)
        except Aborted:
            end(ctx, "raised")
            raise
    end(ctx, "returned")


HANDLERS["saving"] = saving


# --- programs ---------------------------------------------------------------------


def serve_and_die(options):
    """Be a service until that write, and do what the test says, one line each."""
    scheduler, backend = make_mortal(options)
    words = {
        # A job that has to wait for a worker.
        "define": lambda: define(scheduler, "tick", every="1s", catch_up="10s"),
        "pause": lambda: scheduler.pause("tick"),
        "cancel": lambda slot: backend.cancel(RunKey("tick", int(slot))),
    }

    def obey():
        while line := heard():
            word, *more = line.split()
            words[word](*more)

    scheduler.start()
    on_another_thread(obey)
    serve_on(scheduler)


def run_now_and_die(options):
    """Run a job by a call, until that write."""
    scheduler, _ = make_mortal(options)
    define(scheduler, "call", every="1d", do="cooperative", seconds=30, catch_up=0)
    scheduler.start()
    on_another_thread(lambda: scheduler.run_now("call"))
    serve_on(scheduler)
