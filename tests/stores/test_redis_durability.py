"""`durability="wait:1"`, and what is found out about a server before anything runs."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from anarchon._values import Closed, Held, Limits, Owner, Pace, Waiting, Won
from anarchon.backends import _redis_findings as found
from anarchon.backends.redis import RedisBackend
from anarchon.errors import BackendUnavailable
from tests.servers.faketime import SteppedClock
from tests.servers.redis import RedisServer
from tests.stores.helpers import claim, finish, now_ms, wish

QUICK = Limits(2.0, 1.0, 0.6)


@pytest.fixture
def primary(own_server):
    return own_server(RedisServer("redis-8.2"))


@pytest.fixture
def replica(own_server, primary):
    replica = own_server(RedisServer("redis-8.2", primary=primary))
    replica.catch_up(primary)
    return replica


@pytest.fixture
def backend(primary):
    backend = RedisBackend(primary.url, durability="wait:1")
    backend.open(QUICK)
    yield backend
    backend.close()


def test_a_claim_that_a_replica_has_outlives_the_primary(primary, replica, backend):
    slot_ms = now_ms()
    won = claim(backend, "job", slot_ms)
    assert isinstance(won, Won)
    primary.kill()
    replica.promote()
    promoted = RedisBackend(replica.url)
    promoted.open(QUICK)
    seen = claim(promoted, "job", slot_ms, by="b")
    assert isinstance(seen, Held)
    assert seen.run.owner == "a"
    promoted.close()


def test_a_claim_that_no_replica_has_is_given_back(primary, replica, backend):
    replica.freeze()
    slot_ms = now_ms()
    try:
        with pytest.raises(BackendUnavailable, match="0 of 1 replicas confirmed a claim"):
            claim(backend, "job", slot_ms)
    finally:
        replica.thaw()
    assert isinstance(claim(backend, "job", slot_ms, by="b"), Waiting)
    (run,) = backend.history("job", limit=9)
    assert (run.status, run.detail) == ("interrupted", "handed over")
    assert run.error == "0 of 1 replicas confirmed"
    assert isinstance(claim(backend, "job", slot_ms, by="b", attempt=2), Won)


def test_a_batch_is_given_back_run_by_run(primary, backend):
    slot_ms = now_ms()
    plain = RedisBackend(primary.url)
    plain.open(QUICK)
    claim(plain, "taken", slot_ms, by="z")
    wishes = [wish(job, slot_ms) for job in ("one", "taken", "two")]
    with pytest.raises(BackendUnavailable, match="given back"):
        backend.claim(wishes, owner=Owner("a", "a"), wins=3, pace=Pace(0.0))
    kinds = [type(claim(plain, job, slot_ms, by="b")) for job in ("one", "taken", "two")]
    assert kinds == [Waiting, Held, Waiting]
    plain.close()


def test_a_claim_that_won_nothing_needs_no_replica(primary, backend):
    slot_ms = now_ms()
    plain = RedisBackend(primary.url)
    plain.open(QUICK)
    claim(plain, "job", slot_ms, by="z")
    plain.close()
    assert isinstance(claim(backend, "job", slot_ms), Held)


def test_a_result_is_sent_until_a_replica_has_it(primary, replica, backend):
    slot_ms = now_ms()
    assert isinstance(claim(backend, "job", slot_ms), Won)
    replica.freeze()
    try:
        for _ in range(2):  # also on a connection that has written nothing yet
            with pytest.raises(BackendUnavailable, match="a result"):
                finish(backend, "job", slot_ms)
    finally:
        replica.thaw()
    assert finish(backend, "job", slot_ms).status == "success"
    replica.catch_up(primary)
    primary.kill()
    replica.promote()
    promoted = RedisBackend(replica.url)
    promoted.open(QUICK)
    assert isinstance(claim(promoted, "job", slot_ms, by="b"), Closed)
    promoted.close()


def test_two_replicas_are_counted(primary, replica):
    backend = RedisBackend(primary.url, durability="wait:2")
    backend.open(Limits(2.0, 1.0, 3.0))  # half of that for the one that confirms
    with pytest.raises(BackendUnavailable, match="1 of 2 replicas"):
        claim(backend, "job", now_ms())
    backend.close()


@pytest.fixture
def guarded(own_server):
    """Give a server, and a backend on it of a user who may not wait."""
    server = own_server(RedisServer("redis-8.2", acl=["app on >app ~* +@all -wait"]))
    backend = RedisBackend(f"redis://app:app@{server.host}:{server.port}", durability="wait:1")
    backend.open(QUICK)
    yield server, backend
    backend.close()


def test_a_missing_right_to_wait_is_named_before_anything_runs(guarded):
    server, backend = guarded
    with pytest.raises(BackendUnavailable, match=r"'wait'.*grant"):
        backend.prepare(["job"])
    server.ask("ACL", "SETUSER", "app", "+wait")
    backend.prepare(["job"])


def test_a_claim_is_given_back_when_wait_is_refused(guarded):
    server, backend = guarded
    slot_ms = now_ms()
    with pytest.raises(BackendUnavailable, match=r"'wait'.*grant"):
        claim(backend, "job", slot_ms)
    with opened(server) as plain:
        assert isinstance(claim(plain, "job", slot_ms, by="b"), Waiting)
        assert plain.history("job", limit=1)[0].error == "WAIT was refused"
        assert isinstance(claim(plain, "job", slot_ms, by="b", attempt=2), Won)


@contextmanager
def opened(server):
    plain = RedisBackend(server.url)
    plain.open(QUICK)
    yield plain
    plain.close()


# --- findings ---------------------------------------------------------------------


def findings(server, **options):
    """Return the findings about a server by name."""
    backend = RedisBackend(server.url, **options)
    info = backend.open(Limits())
    backend.close()
    return {finding.name: finding.text for finding in info.findings}


@pytest.mark.parametrize("variant", ["redis-6.2", "redis-7.0", "redis-8.2", "valkey-8"])
def test_a_server_that_is_well_set_has_none(own_server, variant):
    assert findings(own_server(RedisServer(variant, persist=True))) == {}
    saving = own_server(RedisServer(variant, settings={"save": (60, 1)}))
    assert findings(saving) == {}


def test_eviction_is_found(own_server):
    server = own_server(RedisServer("redis-8.2", persist=True))
    for policy in ("allkeys-lru", "volatile-ttl"):
        server.ask("CONFIG", "SET", "maxmemory-policy", policy)
        found = findings(server)
        assert [*found] == ["maxmemory-policy"]
        assert policy in found["maxmemory-policy"]
        assert "noeviction" in found["maxmemory-policy"]


def test_a_server_that_saves_nothing_is_found(own_server):
    found = findings(own_server(RedisServer("redis-6.2")))
    assert [*found] == ["persistence"]
    assert "appendonly yes" in found["persistence"]


def test_missing_replicas_are_found(primary, replica):
    assert "replica-count" not in findings(primary, durability="wait:1")
    text = findings(primary, durability="wait:2")["replica-count"]
    assert "needs 2 replicas and the server has 1" in text
    assert "replica-count" not in findings(primary)


@pytest.mark.parametrize(("offset", "words"), [(5.0, "5.0 s ahead of"), (-3600.0, "s behind")])
def test_clocks_that_are_apart_are_found(own_server, offset, words):
    clock = SteppedClock()
    server = own_server(RedisServer("redis-8.2", clock=clock, persist=True))
    assert findings(server) == {}
    clock.set(offset)
    assert words in findings(server)["clock-offset"]


def test_what_the_way_takes_is_no_offset(monkeypatch):
    monkeypatch.setattr(found.time, "time", lambda: 110.0)
    assert found.offset_between(103_000, 100.0) == 0.0
    assert found.offset_between(113_000, 100.0) == 3000.0
    assert found.offset_between(97_999, 100.0) == -2000.0


def test_what_is_silenced_is_not_told(own_server):
    server = own_server(RedisServer("redis-8.2"))
    assert findings(server, silence=("persistence",)) == {}
    assert [*findings(server, silence=("replica-count",))] == ["persistence"]


def test_what_may_not_be_asked_is_not_told(own_server):
    acl = ["app on >app ~* +@all -info -config"]
    server = own_server(RedisServer("redis-7.0", acl=acl))
    backend = RedisBackend(f"redis://app:app@{server.host}:{server.port}")
    info = backend.open(Limits())
    backend.close()
    assert (info.store, info.version, info.findings) == ("redis", "", ())
