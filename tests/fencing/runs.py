"""One run of a real scheduler, from its handler's side."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime

from anarchon import Scheduler
from anarchon._values import Owner, Pace, RunKey, Terms, Wish, Won

LONGEST = 20.0
ENDS = ("success", "failure", "interrupted", "lost")


def just_now():
    """Return an instant that has passed, so that a job of that time is caught up at once."""
    return datetime.now(UTC).replace(microsecond=0)


class OneRun:
    """What became of a run: the events about its end, and its record."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.ended = threading.Event()
        self.events = []

    def note(self, event):
        def listener(run):
            self.events.append((event, run))
            self.ended.set()

        return listener

    @property
    def event(self):
        return self.events[0][0]

    def history(self):
        return [(run.attempt, run.status) for run in self.scheduler.history("job")]


@contextmanager
def running(backend, handler, at=None, **options):
    """Run a handler once, as a job that is due in a moment; yield when its run has ended."""
    scheduler = Scheduler(backend, lease=60, workers=2)
    one = OneRun(scheduler)
    for event in ENDS:
        scheduler.on(event, one.note(event))
    scheduler.once("job", at or just_now(), handler, jitter=0, **options)
    with scheduler:
        assert one.ended.wait(LONGEST)
        yield one


def stolen(backend, ctx):
    """Let somebody else have the run, who saw no heartbeat for a whole lease."""
    key = RunKey(ctx.name, ctx.slot)
    owner = Owner("somebody else", "somebody else")
    (run,) = backend.unfinished(["job"], owner=owner).wrong
    terms = Terms(run.lease_ms, run.heartbeat_ms, 3, skip_overlap=True, catch_up_ms=3_600_000)
    wish = Wish(key, run.attempt + 1, "takeover", terms, beat=run.beat, first_seen=-1e6)
    pace = Pace(0.0, int(time.time() * 1000), 0)
    (answer,) = backend.claim([wish], owner=owner, wins=1, pace=pace).answers
    assert isinstance(answer, Won)
