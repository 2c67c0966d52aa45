"""Short ways to ask a store."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from pathlib import Path

from anarchon._values import Lease, Limits, Owner, Pace, Result, RunKey, Terms, Wish
from anarchon.backends.sqlite import SqliteBackend

TERMS = Terms(30_000, 10_000, 3, True, 3_600_000)
QUICK = Limits(connect=1.0, quick=0.3, call=0.5)


def now_ms():
    return time.time_ns() // 1_000_000


def wish(job, slot_ms, attempt=1, beat=-1, **terms):
    reason = "scheduled" if attempt == 1 else "takeover"
    return Wish(RunKey(job, slot_ms), attempt, reason, TERMS._replace(**terms), beat)


def claim(backend, job, slot_ms, *, by="a", attempt=1, beat=-1, **terms):
    """Claim one run and return the answer."""
    wishes = [wish(job, slot_ms, attempt, beat, **terms)]
    pace = Pace(time.monotonic())
    return backend.claim(wishes, owner=Owner(by, by), wins=1, pace=pace).answers[0]


def finish(backend, job, slot_ms, *, by="a", attempt=1, **fields):
    """Finish one attempt and return the answer."""
    given = {"status": "success", "reason": "scheduled", "started_ms": now_ms(), "duration_ms": 1}
    result = Result(RunKey(job, slot_ms), attempt, **{**given, **fields})
    return backend.finish([result], owner=Owner(by, by)).answers[0]


def lease(job, slot_ms, attempt=1):
    return Lease(RunKey(job, slot_ms), attempt)


@contextmanager
def opened(database, limits=QUICK, **options):
    """Open a SQLite store for a while."""
    backend = SqliteBackend(database, **options)
    backend.open(limits)
    try:
        yield backend
    finally:
        backend.close()


def open_files(database):
    """Return which descriptors of this process are of a database and its side files."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them is gone by now
            name = str(entry.readlink())
            found += [Path(name).name] * name.startswith(str(database))
    return sorted(found)
