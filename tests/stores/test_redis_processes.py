"""Redis connections and forks, and real schedulers on one Redis."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anarchon import RedisBackend, Scheduler
from anarchon._values import Limits
from tests.servers.redis import RedisServer
from tests.stores.helpers import claim, finish, now_ms

CHECKOUT = Path(__file__).resolve().parents[2]

FORKING = """
import os, sys
from anarchon import BackendUnavailable, RedisBackend
from anarchon._values import Held, Limits, Owner, Won
from tests.stores.helpers import claim, now_ms

backend = RedisBackend(sys.argv[1])
backend.open(Limits())
slot_ms = now_ms()
assert isinstance(claim(backend, "job", slot_ms), Won)
theirs = backend._idle[0].talk._socket
child = os.fork()
if not child:
    try:
        backend.look(["job"], owner=Owner("c", "c"))
        os._exit(1)
    except BackendUnavailable as error:
        assert "is not open" in str(error)
    assert len(backend.history("job", limit=9)) == 1
    backend.open(Limits())
    assert isinstance(claim(backend, "job", slot_ms, by="c"), Held)
    assert backend._idle[0].talk._socket.getsockname() != theirs.getsockname()
    backend.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert isinstance(claim(backend, "job", slot_ms), Won)
assert backend._idle[0].talk._socket is theirs
backend.close()
"""


@pytest.mark.parametrize("tls", [False, True])
def test_a_connection_of_a_parent_is_never_used(own_server, tls):
    server = own_server(RedisServer("redis-7.0", tls=tls))
    url = f"{server.url}?ssl_ca_certs={server.cafile}" if tls else server.url
    done = subprocess.run(
        [sys.executable, "-c", FORKING, url],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


UPGRADED = """
import sys
from anarchon import RedisBackend
from anarchon._values import Limits, Owner, Pace, Released, Result, RunKey, Won
from tests.stores.helpers import claim, now_ms, wish

backend = RedisBackend(sys.argv[1])
try:
    backend.open(Limits(connect=0.1))  # as start(retry=True) does, perhaps long before
except Exception:
    pass
import importlib.resources
importlib.resources.files = None  # what lies there now is of another version
backend = RedisBackend(sys.argv[2])
backend.open(Limits())
slot_ms = now_ms()
assert isinstance(claim(backend, "job", slot_ms), Won)
handed = Result(RunKey("job", slot_ms), 1, "interrupted", "scheduled", 0, 0)
(answer,) = backend.release([handed], owner=Owner("a", "a")).answers
assert isinstance(answer, Released)
backend.history(None, limit=9)
backend.close()
"""


def test_an_upgrade_under_a_living_process_breaks_no_hand_over(shared_server):
    server = shared_server("redis-8.2")
    done = subprocess.run(
        [sys.executable, "-c", UPGRADED, "redis://127.0.0.1:1", server.url],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# --- history ----------------------------------------------------------------------


def test_a_day_of_slots_stays_bounded(own_server):
    server = own_server(RedisServer("redis-8.2"))
    backend = RedisBackend(server.url)
    backend.open(Limits())
    slot_ms = now_ms() - 100_000
    sizes = []
    for number in range(720):  # every two minutes of a day, 50 ms apart
        at_ms = slot_ms + number * 50
        if number % 3 == 0:
            backend.pause("job", duration_ms=None)
            claim(backend, "job", at_ms)  # skipped
            backend.resume("job")
        else:
            claim(backend, "job", at_ms)
            finish(backend, "job", at_ms, error="x" * 300, traceback="y" * 2000)
        if number in (359, 719):
            sizes.append((counts(server), size_of(server)))
    (first, first_bytes), (last, last_bytes) = sizes
    assert first == last
    assert last_bytes < 1.05 * first_bytes
    assert last_bytes < 600_000
    assert len(backend.history("job", limit=999)) == 120
    backend.close()


def counts(server):
    """Return how much is in each key."""
    found = {}
    for key in server.ask("KEYS", "*"):
        is_hash = server.ask("TYPE", key) == b"hash"
        found[key] = server.ask("HLEN" if is_hash else "ZCARD", key)
    return found


def size_of(server):
    return sum(server.ask("MEMORY", "USAGE", key, "SAMPLES", 0) for key in server.ask("KEYS", "*"))


# --- schedulers -------------------------------------------------------------------


def test_two_schedulers_have_one_winner_a_slot(own_server):
    server = own_server(RedisServer("redis-8.2", persist=True))
    ran, enough, lock = [], threading.Event(), threading.Lock()

    def work(ctx):
        with lock:
            ran.append((ctx.slot, ctx.instance_id))
            if len({slot for slot, _ in ran}) == 4:
                enough.set()

    schedulers = [
        Scheduler(backend=RedisBackend(server.url), lease="3s", instance_id=name) for name in "ab"
    ]
    for scheduler in schedulers:
        scheduler.every("job", "1s", work)
    for scheduler in schedulers:
        scheduler.start()
    try:
        assert enough.wait(15)
    finally:
        for scheduler in schedulers:
            scheduler.stop()
    slots = [slot for slot, _ in ran]
    assert len(set(slots)) == len(slots)
    history = RedisBackend(server.url).history("job", limit=99)
    assert sorted(run.slot for run in history if run.status == "success") == sorted(slots)
    assert server.ask("CLIENT", "LIST").count(b"\n") == 1  # our own question


def test_a_finding_is_logged_once(own_server, caplog):
    server = own_server(RedisServer("redis-8.2"))
    with caplog.at_level("WARNING", "anarchon"):
        scheduler = Scheduler(backend=RedisBackend(server.url))
        scheduler.every("job", "1h", lambda: None)
        scheduler.start()
        scheduler.stop()
    told = [record.getMessage() for record in caplog.records]
    assert len([text for text in told if "silence=('persistence',)" in text]) == 1
