"""Ways to a Redis: URLs, Unix sockets, TLS, clients of redis-py, and what stays of those."""

from __future__ import annotations

import os
import socket
from urllib.parse import quote

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from anarchon import RedisBackend
from anarchon._values import Limits, Won
from anarchon.errors import BackendUnavailable
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer
from tests.stores.helpers import claim, finish, now_ms

ODD = "p@ss:wö/r?d#%41 &=+'\"\\"


def works(given, **options):
    """Win, finish and read a run; return the backend, closed."""
    backend = RedisBackend(given, **{"namespace": f"ways {os.urandom(8).hex()}", **options})
    backend.open(Limits())
    try:
        backend.prepare(["job"])
        slot_ms = now_ms()
        assert isinstance(claim(backend, "job", slot_ms), Won)
        assert finish(backend, "job", slot_ms).status == "success"
        assert [run.status for run in backend.history("job", limit=5)] == ["success"]
    finally:
        backend.close()
    return backend


@pytest.fixture(scope="module")
def guarded():
    acl = [f"app on >{quote(ODD)} ~* &* +@all"]
    with RedisServer("redis-8.2", acl=acl) as server:
        # Words of a configuration file are split at blanks, those of a command are not.
        server.ask("ACL", "SETUSER", "app", "resetpass", f">{ODD}")
        yield server


def test_an_odd_password_in_a_url(guarded):
    password = quote(ODD, safe="")
    works(f"redis://app:{password}@{guarded.host}:{guarded.port}")
    works(f"unix://app:{password}@{guarded.socket_path}")


def test_a_password_of_a_client(guarded):
    works(redis.Redis(guarded.host, guarded.port, username="app", password=ODD))


def test_a_credential_provider_is_asked_for_each_connection(guarded):
    class Provider(redis.CredentialProvider):
        asked = 0

        def get_credentials(self):
            self.asked += 1
            return "app", ODD

    provider = Provider()
    client = redis.Redis(guarded.host, guarded.port, credential_provider=provider)
    works(client)
    assert provider.asked == 2  # one that stays, and a short one for history


def test_a_password_alone(own_server):
    server = own_server(RedisServer("redis-6.2", password="s3cr3t"))
    works(f"redis://:s3cr3t@{server.host}:{server.port}")
    works(redis.Redis(server.host, server.port, password="s3cr3t"))


def test_a_database_is_chosen(shared_server):
    server = shared_server("redis-8.2")
    works(f"redis://{server.host}:{server.port}/7", namespace="seventh")
    with server.client() as client:
        assert not client("KEYS", "anarchon:{seventh}:*")
        client("SELECT", 7)
        assert client("KEYS", "anarchon:{seventh}:*")


def test_a_unix_socket(shared_server):
    server = shared_server("redis-7.0")
    works(f"unix://{server.socket_path}?db=1")
    works(redis.Redis(unix_socket_path=server.socket_path))


@pytest.mark.parametrize("variant", ["redis-7.0", "valkey-8"])
def test_tls(own_server, variant):
    server = own_server(RedisServer(variant, tls=True))
    works(f"{server.url}?ssl_ca_certs={server.cafile}")
    works(redis.Redis(server.host, server.port, ssl=True, ssl_ca_certs=str(server.cafile)))
    works(f"{server.url}?ssl_cert_reqs=none&ssl_check_hostname=false")
    with pytest.raises(BackendUnavailable, match="certificate"):
        works(server.url)


def test_tls_with_a_server_that_speaks_none(shared_server):
    server = shared_server("redis-8.2")
    backend = RedisBackend(server.url.replace("redis://", "rediss://"))
    with pytest.raises(BackendUnavailable, match=r"handshake|SSL"):
        backend.open(Limits(connect=0.5))
    backend.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # redis-py's, of some options
@pytest.mark.parametrize(
    "options",
    [
        {"decode_responses": True, "encoding": "latin-1"},
        {"protocol": 3, "client_name": "somebody", "health_check_interval": 1},
        {"protocol": 2, "lib_name": "x", "lib_version": "1"},
        {"single_connection_client": True},
        {"socket_timeout": 0.000001, "retry": Retry(NoBackoff(), 5)},
        {"max_connections": 1},
        {"retry_on_timeout": True, "retry_on_error": [ValueError]},
        {"socket_keepalive": False, "socket_keepalive_options": {}},
    ],
)
def test_options_of_a_client_s_own_conversation_mean_nothing(shared_server, options):
    server = shared_server("redis-8.2")
    client = redis.Redis(server.host, server.port, **options)
    works(client)
    client.close()


def test_a_client_stays_open_and_untouched(own_server):
    server = own_server(RedisServer("redis-8.2"))
    client = redis.Redis(server.host, server.port, client_name="theirs")
    client.ping()
    arguments = dict(client.connection_pool.connection_kwargs)
    before = theirs(server)
    works(client)
    assert theirs(server) == before != []
    assert client.connection_pool.connection_kwargs == arguments
    assert client.ping()
    client.close()


def theirs(server):
    """Return the ids of the connections that a client made itself."""
    lines = server.ask("CLIENT", "LIST").decode().splitlines()
    return [line.split(" ")[0] for line in lines if " name=theirs " in line]


def test_a_client_with_a_pool_of_its_own(shared_server):
    server = shared_server("redis-8.2")
    pool = redis.BlockingConnectionPool.from_url(server.url, max_connections=1)
    client = redis.Redis(connection_pool=pool)
    with client.client() as holder:
        holder.ping()  # and keeps the only connection
        works(client)
    pool.disconnect()


def test_a_class_of_connections_that_somebody_made(shared_server):
    made = []

    class Mine(redis.Connection):
        def __init__(self, *, colour, **options):
            made.append(colour)
            super().__init__(**options)

    server = shared_server("redis-8.2")
    pool = redis.ConnectionPool(
        connection_class=Mine, colour="blue", host=server.host, port=server.port
    )
    works(redis.Redis(connection_pool=pool))
    assert made == ["blue", "blue"]


def test_keepalive_is_on(shared_server):
    server = shared_server("redis-8.2")
    backend = RedisBackend(server.url)
    backend.open(Limits())

    sock = backend._idle[0].talk._socket
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
    backend.close()


def test_a_connection_that_broke_is_never_used_again(shared_server):
    with Proxy(shared_server("redis-8.2")) as proxy:
        backend = RedisBackend(f"redis://{proxy.host}:{proxy.port}", namespace="broke")
        backend.open(Limits())
        slot_ms = now_ms()
        claim(backend, "job", slot_ms)
        lost = proxy.swallow_reply(containing=b"EVALSHA")
        with pytest.raises(BackendUnavailable):
            claim(backend, "job", slot_ms + 1, skip_overlap=False)
        assert lost.is_set()
        assert backend._idle == []
        assert isinstance(claim(backend, "job", slot_ms + 1, skip_overlap=False), Won)
        assert proxy.counts.accepted == 2
        backend.close()


def test_a_server_that_was_restarted_is_found_again(own_server):
    server = own_server(RedisServer("redis-8.2", persist=True))
    backend = RedisBackend(server.url)
    backend.open(Limits())
    slot_ms = now_ms()
    assert isinstance(claim(backend, "job", slot_ms), Won)
    server.restart()
    with pytest.raises(BackendUnavailable):
        claim(backend, "job", slot_ms)
    again = claim(backend, "job", slot_ms)
    assert isinstance(again, Won)
    backend.close()
