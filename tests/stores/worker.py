"""A process that asks a SQLite store, started by the tests; prints one line of JSON a step."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from contextlib import closing

from anarchon._values import Limits, Won
from anarchon.backends.sqlite import SqliteBackend
from anarchon.errors import BackendUnavailable
from tests.stores.helpers import claim, finish, opened

PATIENT = Limits(connect=30.0, quick=30.0, call=30.0)  # fifty processes on two processors
# A worker that is forgotten ends by itself.
signal.alarm(120)


def wait_for_others():
    """Say that everything is loaded, and wait until the test lets all go at once."""
    print("ready", flush=True)
    sys.stdin.readline()


def start(database, slot_ms):
    """Open an empty store, together with others."""
    wait_for_others()
    with opened(database, PATIENT) as backend:
        answer = claim(backend, "job", int(slot_ms), by=str(os.getpid()))
        print(json.dumps(isinstance(answer, Won)))


def race(database, base_ms, slots):
    """Race for slots, one after another; finish what is won."""
    me, won = str(os.getpid()), []
    with opened(database, PATIENT) as backend:
        wait_for_others()
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


def opening(backend):
    try:
        backend.open(Limits(connect=1.0))
    except BackendUnavailable as error:
        backend.close()
        return f"refused: {error}"
    return "opened"


def obey(database):
    """Do what stdin says, line by line, and print how it went."""
    backend = SqliteBackend(database)
    for line in sys.stdin:
        word, *arguments = line.split()
        if word == "open":
            print(opening(backend), flush=True)
        elif word == "claim":
            job, slot_ms = arguments
            answer = claim(backend, job, int(slot_ms), by="peer", skip_overlap=False)
            print(type(answer).__name__, flush=True)
        elif word == "integrity":
            with closing(sqlite3.connect(database)) as rows:
                print(rows.execute("PRAGMA integrity_check").fetchone()[0], flush=True)
    backend.close()


if __name__ == "__main__":
    steps = {"start": start, "race": race, "write": write, "inside": inside, "obey": obey}
    steps[sys.argv[1]](*sys.argv[2:])
