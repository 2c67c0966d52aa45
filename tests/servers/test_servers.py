"""Servers alone: each says its version, keeps what it should, and leaves nothing behind."""

from __future__ import annotations

import os
import select
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.servers import postgres, redis
from tests.servers.postgres import Postgres
from tests.servers.processes import Missing, ServerError, wait_until
from tests.servers.redis import RedisServer
from tests.servers.resp import Client, ReplyError

REDIS = sorted(redis.VERSIONS)
POSTGRES = sorted(postgres.VERSIONS)
CHECKOUT = str(Path(__file__).resolve().parents[2])
ODD = "a b'\"\\%@:/é"


@pytest.mark.parametrize("variant", REDIS)
def test_redis_says_its_version_and_is_shared(shared_server, variant):
    server = shared_server(variant)
    assert server.version.startswith(redis.VERSIONS[variant])
    with Client((server.host, server.port)) as client:
        assert client("PING") == b"PONG"
    assert shared_server(variant) is server


@pytest.mark.parametrize("variant", REDIS)
def test_redis_keeps_what_was_written_where_it_is_told_to(own_server, variant):
    server = own_server(RedisServer(variant, persist=True))
    port = server.port
    server.ask("SET", "name", "value")
    server.kill()
    assert not server.is_running
    server.start()
    assert (server.ask("GET", "name"), server.port) == (b"value", port)
    server.restart()
    assert server.ask("GET", "name") == b"value"


def test_redis_forgets_otherwise(own_server):
    server = own_server(RedisServer())
    server.ask("SET", "name", "value")
    server.restart()
    assert server.ask("GET", "name") is None


@pytest.mark.parametrize("variant", REDIS)
def test_redis_asks_for_a_password(own_server, variant):
    server = own_server(RedisServer(variant, password=ODD))
    with Client((server.host, server.port)) as client:
        with pytest.raises(ReplyError, match="NOAUTH"):
            client("GET", "name")
        assert client("AUTH", ODD) == b"OK"
        assert client("GET", "name") is None


@pytest.mark.parametrize("variant", REDIS)
def test_redis_knows_users_and_their_rights(own_server, variant):
    server = own_server(RedisServer(variant, acl=["default off", "app on >secret ~jobs:* +@all"]))
    with Client((server.host, server.port)) as client:
        client("AUTH", "app", "secret")
        assert client("SET", "jobs:name", "value") == b"OK"
        with pytest.raises(ReplyError, match="NOPERM"):
            client("SET", "other", "value")
    assert server.ask("GET", "jobs:name") == b"value"


@pytest.mark.parametrize("variant", ["redis-7.0", "valkey-8"])
def test_redis_speaks_tls(own_server, variant):
    server = own_server(RedisServer(variant, tls=True))
    context = ssl.create_default_context(cafile=str(server.cafile))
    with Client((server.host, server.port), context=context) as client:
        assert client("PING") == b"PONG"


def test_redis_takes_settings_and_logs(own_server):
    server = own_server(RedisServer(settings={"maxmemory-policy": "volatile-lru"}))
    assert server.ask("CONFIG", "GET", "maxmemory-policy")[1] == b"volatile-lru"
    assert f"port={server.port}" in server.log
    with pytest.raises(ServerError, match="nonsense"):
        own_server(RedisServer(settings={"nonsense": 1}))


@pytest.mark.parametrize("variant", POSTGRES)
def test_postgres_says_its_version_and_is_shared(shared_server, variant):
    server = shared_server(variant)
    assert server.version.startswith(postgres.VERSIONS[variant])
    assert shared_server(variant) is server


@pytest.mark.parametrize("variant", POSTGRES)
def test_postgres_keeps_what_was_written(own_server, variant):
    server = own_server(Postgres(variant))
    port, database = server.port, server.create_database()
    server.ask("CREATE TABLE t AS SELECT 1 AS a", database=database)
    server.kill()
    assert not server.is_running
    server.start()
    server.stop(signal.SIGQUIT)
    server.start()
    server.restart()
    assert server.ask("SELECT a FROM t", database=database) == [(1,)]
    assert server.port == port


@pytest.mark.parametrize("variant", POSTGRES)
def test_postgres_gives_databases_users_and_errors(shared_server, variant):
    server = shared_server(variant)
    database, other = server.create_database(), server.create_database()
    server.create_role(ODD, ODD)
    for address in (server.url(database, ODD, ODD), server.conninfo(database, user=ODD)):
        connection = psycopg.connect(address, password=ODD)
        assert connection.execute("SELECT current_user::text").fetchall() == [(ODD,)]
        connection.close()
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(server.conninfo(database, user=ODD, password="wrong"))
    (error,) = server.errors(database)
    assert "FATAL" in error
    assert server.errors(other) == []
    server.drop_database(database)


@pytest.mark.parametrize("variant", POSTGRES)
def test_postgres_takes_settings_and_counts_statements(own_server, variant):
    server = own_server(Postgres(variant, durable=True, settings={"work_mem": "5MB"}))
    assert server.ask("SHOW work_mem") == [("5MB",)]
    assert server.ask("SHOW fsync") == [("on",)]
    server.configure(work_mem="6MB")
    assert server.ask("SHOW work_mem") == [("6MB",)]
    server.ask("CREATE EXTENSION pg_stat_statements")
    question = "SELECT sum(calls) FROM pg_stat_statements WHERE query = 'SHOW work_mem'"
    assert server.ask(question) == [(2,)]


def test_a_frozen_server_answers_again(own_server):
    server = own_server(RedisServer())
    with Client((server.host, server.port), timeout=0.05) as client:
        server.freeze()
        with pytest.raises(TimeoutError):
            client("PING")
    server.thaw()
    assert server.ask("PING") == b"PONG"


def test_a_port_that_somebody_took_is_changed():
    with RedisServer() as first, RedisServer() as second:
        second.delete()
        third = RedisServer()
        third.port = first.port
        with third:
            assert third.port != first.port
            assert third.ask("PING") == b"PONG"


def test_a_server_of_another_version_is_refused_and_ended(monkeypatch):
    monkeypatch.setitem(redis.VERSIONS, "redis-8.2", "9.")
    server = RedisServer()
    with pytest.raises(ServerError, match="not redis-8"):
        server.start()
    assert not server.is_running
    server.delete()


def test_programs_below_a_closed_folder_are_copied(tmp_path):
    closed = tmp_path / "closed"
    for name in ("programs/postgres", "programs.libs/library"):
        file = closed / name
        file.parent.mkdir(parents=True)
        file.write_text("some bytes")
    closed.chmod(0o700)
    found = postgres.reachable(closed / "programs")
    for file in (found / "postgres", found / "../programs.libs/library"):
        subprocess.run(["cat", str(file)], check=True, **postgres.stand_in())
    assert (found == closed / "programs") == (postgres.stand_in() == {})


OUTSIDE = """
from tests.servers.processes import Bringer, Missing

def test_of_a_wheel():
    raise Missing("postgres", Bringer.WHEEL)

def test_of_the_system():
    raise Missing("valkey", Bringer.SYSTEM)

def test_of_nothing():
    raise Missing("redis", Bringer.NOTHING)
"""


@pytest.mark.parametrize(("ci", "failed"), [("", 1), ("true", 2)])
def test_what_is_missing_fails_or_skips_its_test(tmp_path, ci, failed):
    (tmp_path / "test_it.py").write_text(OUTSIDE)
    path = os.pathsep.join([*filter(None, sys.path), CHECKOUT])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.servers.fixtures", "-rs", "-q", tmp_path],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, "CI": ci, "ANARCHON_CI": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{failed} failed, {3 - failed} skipped" in done.stdout
    assert "redis is not installed" in done.stdout


def test_what_is_missing_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Missing, match="valkey-server is not installed"):
        RedisServer("valkey-8")


PROGRAM = """
import os, sys
sys.path.append(sys.argv[1])
from tests.servers.postgres import Postgres
from tests.servers.redis import RedisServer
servers = [RedisServer(persist=True), Postgres()]
for server in servers:
    server.start()
if os.fork() == 0:  # a child that holds every file of its parent open
    os.close(1)
    sys.stdin.read()
    os._exit(0)
for server in servers:
    print(server.folder.parent, server.pid)
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


def test_nothing_is_left_of_tests_that_are_killed():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, CHECKOUT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as tests:
        for line in tests.stdout.read().decode().splitlines():
            folder, pid = line.split()
            wait_for_the_end(int(pid))
            wait_until(lambda name=folder: not Path(name).exists(), "the folder is removed")
        assert tests.wait() == -signal.SIGKILL


def wait_for_the_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([descriptor], [], [], 10)
    os.close(descriptor)
    assert ended, f"process {pid} is left"
