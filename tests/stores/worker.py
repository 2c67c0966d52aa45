"""A process that asks a SQLite store, started by the tests; prints one line of JSON a step."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from anarchon._values import Limits, Won
from anarchon.backends.sqlite import SqliteBackend
from tests.stores.helpers import claim, finish, opened

# A worker that is forgotten ends by itself.
signal.alarm(120)


def wait_until(at):
    time.sleep(max(0.0, float(at) - time.time()))


def start(database, at):
    """Open an empty store at a given moment, together with others."""
    wait_until(at)
    with opened(database, Limits()) as backend:
        answer = claim(backend, "job", int(float(at) * 1000), by=str(os.getpid()))
        print(json.dumps(isinstance(answer, Won)))


def race(database, at, base_ms, slots):
    """Race for slots, one after another; finish what is won."""
    me, won = str(os.getpid()), []
    with opened(database, Limits()) as backend:
        wait_until(at)
        for slot_ms in range(int(base_ms), int(base_ms) + int(slots)):
            if isinstance(claim(backend, "job", slot_ms, by=me, skip_overlap=False), Won):
                won.append(slot_ms)
                finish(backend, "job", slot_ms, by=me)
        print(json.dumps(won))


def write(database, base_ms):
    """Claim and finish for ever, and say so after each, to be killed in the middle."""
    with opened(database, synchronous="NORMAL") as backend:
        slot_ms = int(base_ms)
        while True:
            slot_ms += 1
            claim(backend, "job", slot_ms, by="killed")
            print(slot_ms, flush=True)
            finish(backend, "job", slot_ms, by="killed")


def inside(database):
    """Stay inside a write transaction."""
    backend = SqliteBackend(database)

    def stay(rows, now):
        rows.put_paused(2**53)
        print("inside", flush=True)
        sys.stdin.read(1)

    backend._write_once(stay, 5)


if __name__ == "__main__":
    {"start": start, "race": race, "write": write, "inside": inside}[sys.argv[1]](*sys.argv[2:])
