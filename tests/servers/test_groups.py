"""Servers that belong together: replicas, a cluster, sentinels, standbys, a pooler; and clocks."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from tests.servers.faketime import SteppedClock
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import VERSIONS, Postgres
from tests.servers.processes import wait_until
from tests.servers.redis import WHEELS, RedisServer
from tests.servers.redis_groups import RedisCluster, SentinelTrio
from tests.servers.resp import Client, ReplyError

HOUR = 3600.0


@pytest.mark.parametrize("variant", ["redis-6.2", "valkey-8"])
def test_a_replica_is_promoted(own_server, variant):
    primary = own_server(RedisServer(variant, password="secret"))
    replica = own_server(RedisServer(variant, primary=primary))
    primary.ask("SET", "name", "value")
    replica.catch_up(primary)
    assert replica.ask("GET", "name") == b"value"
    with pytest.raises(ReplyError, match="READONLY"):
        replica.ask("SET", "name", "other")
    replica.promote()
    assert replica.ask("SET", "name", "other") == b"OK"
    replica.restart()
    assert replica.info("replication")["role"] == "master"


@pytest.mark.parametrize("variant", ["redis-6.2", "redis-8.2"])
def test_a_cluster_has_every_key_on_one_of_its_nodes(own_server, variant):
    cluster = own_server(RedisCluster(variant))
    owners = set()
    for key in map(str, range(20)):
        owner = cluster.owner(key)
        owners.add(owner)
        for node in cluster.nodes:
            with Client((node.host, node.port)) as client:
                if node is owner:
                    assert client("SET", key, "value") == b"OK"
                else:
                    with pytest.raises(ReplyError, match=f"MOVED .*:{owner.port}"):
                        client("SET", key, "value")
    assert owners == set(cluster.nodes)


def test_a_cluster_is_shared_and_is_mended(shared_server):
    cluster = shared_server("redis-cluster")
    cluster.nodes[1].kill()
    assert not cluster.is_running
    assert shared_server("redis-cluster") is cluster
    assert cluster.is_running
    assert cluster.nodes[1].ask("CLUSTER", "INFO").startswith(b"cluster_state:ok")


def test_sentinels_make_the_replica_the_primary(own_server):
    trio = own_server(SentinelTrio())
    old = trio.primary
    old.ask("SET", "name", "value")
    trio.redises[1].catch_up(old)
    new = trio.failover()
    assert new is trio.primary is not old
    assert new.ask("GET", "name") == b"value"
    assert new.ask("SET", "name", "other") == b"OK"
    old.start()
    old.catch_up(new)
    assert old.ask("GET", "name") == b"other"


@pytest.mark.parametrize("variant", sorted(VERSIONS))
def test_a_standby_is_promoted(own_server, variant):
    primary = own_server(Postgres(variant))
    database = primary.create_database()
    standby = own_server(Postgres(variant, primary=primary))
    primary.ask("CREATE TABLE t AS SELECT 1 AS a", database=database)
    standby.catch_up(primary)
    assert standby.ask("SELECT a FROM t", database=database) == [(1,)]
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        standby.ask("INSERT INTO t VALUES (2)", database=database)
    ((name, state),) = primary.ask("SELECT application_name, state FROM pg_stat_replication")
    assert (name, state) == (standby.folder.name, "streaming")
    primary.kill()
    standby.promote()
    standby.ask("INSERT INTO t VALUES (2)", database=database)
    standby.restart()
    assert standby.ask("SELECT a FROM t", database=database) == [(1,), (2,)]


def test_a_pooler_shares_a_connection_between_clients(own_server, shared_server):
    pooler = own_server(PgBouncer(shared_server("postgres-15"), pool_size=1))
    database = pooler.create_database()
    question = "SELECT pg_backend_pid(), current_database()::text"
    with (
        psycopg.connect(pooler.url(database), autocommit=True) as one,
        psycopg.connect(pooler.conninfo(database), autocommit=True) as other,
    ):
        first = one.execute(question).fetchall()
        assert first == other.execute(question).fetchall()
        assert first[0][1] == database
    pooler.restart()
    with psycopg.connect(pooler.url(database)) as one:
        assert one.execute("SELECT 1").fetchall() == [(1,)]


def test_a_pooler_is_shared_too(shared_server):
    pooler = shared_server("pgbouncer-15")
    assert pooler.server is shared_server("postgres-15")
    with psycopg.connect(pooler.url()) as one:
        assert one.execute("SELECT 1").fetchall() == [(1,)]


def redis_seconds(server) -> float:
    seconds, micros = server.ask("TIME")
    return int(seconds) + int(micros) / 1e6


def postgres_seconds(server) -> float:
    ((seconds,),) = server.ask("SELECT extract(epoch FROM clock_timestamp())::float8")
    return seconds


@pytest.mark.parametrize("variant", [*WHEELS, "postgres-18"])
def test_the_clock_of_a_server_is_stepped(own_server, variant):
    clock = SteppedClock()
    if variant.startswith("postgres"):
        server, seconds = Postgres(variant, clock=clock), postgres_seconds
    else:
        server, seconds = RedisServer(variant, clock=clock), redis_seconds
    own_server(server)
    for offset in (0.0, HOUR, -HOUR, 2.5, 0.0):
        clock.set(offset)
        before = time.time()
        found = seconds(server) - offset
        assert before - 0.05 <= found <= time.time() + 0.05


def test_a_clock_leaves_nothing_behind_after_a_kill(own_server):
    server = own_server(RedisServer(clock=SteppedClock()))
    pid = server.pid
    assert left_of(pid)
    server.kill()
    wait_until(lambda: not left_of(pid), "what the clock used is removed")


def left_of(pid: int) -> list[Path]:
    return list(Path("/dev/shm").glob(f"*faketime_*_{pid}"))


def test_debian_s_redis_has_no_other_clock():
    with pytest.raises(ValueError, match="another clock"):
        RedisServer("redis-7.0", clock=SteppedClock())
