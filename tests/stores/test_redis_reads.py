"""How much a script reads of a Redis: never so much that everybody else waits for it."""

from __future__ import annotations

import json
import re
import time

import pytest

from anarchon._values import Limits, Owner, Pace, Result, RunKey, Won
from anarchon.backends._redis_scripts import keys_of
from anarchon.backends.redis import RedisBackend
from tests.servers.redis import RedisServer
from tests.stores.helpers import claim, now_ms, wish

A = Owner("a", "a")
SHARE = 500  # what a script of history reads, as lua/history.lua has it
AROUND = 5  # what it reads besides: the format of the store, the line that it ends in


@pytest.fixture
def server(own_server):
    return own_server(RedisServer("redis-8.2"))


@pytest.fixture
def backend(server):
    backend = RedisBackend(server.url)
    backend.open(Limits())
    backend.prepare([])
    yield backend
    backend.close()


class Reads:
    """Counts the commands of a server since this was made."""

    def __init__(self, server):
        self._server = server
        server.ask("CONFIG", "RESETSTAT")

    def of(self, *commands):
        stats = self._server.info("commandstats")
        told = [stats.get(f"cmdstat_{command}", "calls=0") for command in commands]
        return sum(int(re.search(r"calls=(\d+)", text)[1]) for text in told)


def ran(backend, slot_ms, jobs, failed=()):
    """Claim and finish one slot of many jobs."""
    wishes = [wish(job, slot_ms) for job in jobs]
    backend.claim(wishes, owner=A, wins=len(wishes), pace=Pace(time.monotonic()))
    results = [
        Result(one.key, 1, "failed" if one.key.job in failed else "success", "scheduled", 0, 0)
        for one in wishes
    ]
    backend.finish(results, owner=A)


JOBS = [f"job-{number:03}" for number in range(500)]


def test_a_script_of_history_reads_its_share_and_no_more(server, backend):
    begun_ms = now_ms() - 1000
    for number in range(4):
        ran(backend, begun_ms + number, JOBS, failed=JOBS[7:8] if number == 0 else ())
    reads = Reads(server)
    (run,) = backend.history(None, limit=20, status="failed")
    assert (run.job, run.slot) == (JOBS[7], begun_ms)
    scripts = reads.of("eval", "evalsha")
    assert scripts >= 2 * 2000 // SHARE  # a run and its line
    assert reads.of("hget") <= scripts * (SHARE + AROUND)
    # What is found soon ends it soon.
    reads = Reads(server)
    assert len(backend.history(None, limit=20, status="success")) == 20
    assert reads.of("hget") <= 2 * 20 + AROUND


def test_history_that_takes_several_scripts_is_whole(server, backend):
    """Of one job, from all parts of it, and of all; also inside a run of many attempts."""
    begun_ms = now_ms() - 10_000
    slots = [begun_ms + number for number in range(300)]
    for slot_ms in slots:
        claim(backend, "job", slot_ms, skip_overlap=False)
    results = [Result(RunKey("job", slot_ms), 1, "", "scheduled", 0, 0) for slot_ms in slots[::7]]
    backend.release(results, owner=A)
    manual = [one._replace(key=one.key._replace(manual="token")) for one in results]
    backend.record_manual(manual, owner=A, lease_ms=30_000)
    tries(server, "job", slots[200], 700)
    told = backend.history("job", limit=9999)
    assert [(run.slot, run.manual, run.attempt) for run in told] == [
        (slot_ms, is_manual, attempt)
        for slot_ms in reversed(slots)
        for is_manual in ([True, False] if (slot_ms - begun_ms) % 7 == 0 else [False])
        for attempt in range(700 if slot_ms == slots[200] else 1, 0, -1)
    ]
    for job in ("job", None):
        assert backend.history(job, limit=9999) == told
        assert backend.history(job, limit=9999, before=told[600]) == told[601:]
        handed = backend.history(job, limit=9999, status="interrupted")
        assert [run.slot for run in handed] == [one.key.slot_ms for one in reversed(results)]


def tries(server, job, slot_ms, count):
    """Have a run of so many attempts."""
    runs, lines = keys_of("anarchon")[2:4]
    field = b"%b\0%015d\0" % (job.encode(), slot_ms + 62135596800000)
    stored = json.loads(server.ask("HGET", runs, field))
    stored[1] = count
    server.ask("HSET", runs, field, json.dumps(stored))
    line = server.ask("HGET", lines, field + b"\0" + b"1")
    with server.client() as client:
        for attempt in range(2, count + 1):
            client("HSET", lines, field + b"\0" + str(attempt).encode(), line)


def test_ids_that_nobody_can_read_stop_no_history(server, backend):
    """However many there are, and whatever is in them."""
    slot_ms = now_ms() - 1000
    claim(backend, "job", slot_ms)
    order, runs = keys_of("anarchon")[8], keys_of("anarchon")[2]
    with server.client() as client:
        for number in range(1200):
            odd = b"%015d\0\xff\x80%d\0" % (62135596800000 + slot_ms + 5, number)
            client("ZADD", order, 0, odd)
            when, whose, _ = odd.split(b"\0")
            client("HSET", runs, whose + b"\0" + when + b"\0", "x")
    reads = Reads(server)
    told = backend.history(None, limit=9999, status="running")
    assert [run.job for run in told] == ["job"]
    assert reads.of("eval", "evalsha") > 2


def test_a_claim_reads_no_more_open_runs_than_it_needs(server, backend):
    slot_ms = now_ms() - 10_000
    for number in range(200):
        claim(backend, "job", slot_ms + number, skip_overlap=False)
    held = slot_ms + 100
    for ask in (
        lambda: claim(backend, "job", held, by="b"),
        lambda: claim(backend, "job", held),
        lambda: claim(backend, "job", slot_ms + 999, skip_overlap=False),
    ):
        reads = Reads(server)
        ask()
        assert reads.of("hget") <= 20
    assert isinstance(claim(backend, "job", slot_ms + 999), Won)
