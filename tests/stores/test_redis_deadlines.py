"""Every call of a Redis ends before its deadline, whatever the server or the network does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest
import redis

from anarchon._values import Limits, Owner, Won
from anarchon.backends import _redis_doors
from anarchon.backends.redis import RedisBackend
from anarchon.errors import BackendUnavailable
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer
from tests.stores.helpers import claim, now_ms
from tests.stores.hostile import Hostile

LIMITS = Limits(connect=0.4, quick=0.2, call=0.4)
OWNER = Owner("a", "a")
GRACE = 1.0  # seconds that a busy machine may take on top


@contextlib.contextmanager
def in_time(limit, words=None):
    """Expect an outage within a time limit, and these words of it."""
    began = time.monotonic()
    with pytest.raises(BackendUnavailable, match=words):
        yield
    assert time.monotonic() - began < limit + GRACE


@pytest.fixture
def proxy(shared_server):
    with Proxy(shared_server("redis-8.2")) as proxy:
        yield proxy


@pytest.fixture
def backend(proxy):
    backend = RedisBackend(f"redis://{proxy.host}:{proxy.port}", namespace="deadlines")
    yield backend
    backend.close()


def test_a_black_hole_before_start(proxy, backend):
    proxy.black_hole()
    with in_time(LIMITS.connect):
        backend.open(LIMITS)


@pytest.mark.parametrize("trouble", ["black_hole", "half_open"])
def test_a_black_hole_while_running(proxy, backend, trouble):
    backend.open(LIMITS)
    claim(backend, "job", now_ms())
    getattr(proxy, trouble)()
    with in_time(LIMITS.call):
        claim(backend, "job", now_ms())
    with in_time(LIMITS.quick) if trouble == "black_hole" else contextlib.nullcontext():
        backend.look(["job"], owner=OWNER)
    proxy.passing()
    backend.look(["job"], owner=OWNER)


@pytest.mark.parametrize("trouble", ["drop", "refuse", "reset"])
def test_a_server_that_is_not_there(proxy, backend, trouble):
    getattr(proxy, trouble)()
    with in_time(0.0):  # it fails at once, and isn't asked twice
        backend.open(LIMITS)
    assert proxy.counts.accepted <= 1


@pytest.mark.parametrize("count", [1, 3, 20])
def test_a_reply_that_ends_in_the_middle(proxy, backend, count):
    backend.open(LIMITS)
    claim(backend, "job", now_ms())
    proxy.cut_after(count)
    with in_time(0.0):
        backend.history("job", limit=5)
    proxy.passing()
    assert backend.history("job", limit=5)


@pytest.mark.parametrize(
    "data",
    [b"*6\r\n:1\r\n*0\r\n*0\r\n*0\r\n:0\r\n$-1\r\n" * 9, b"$1000000\r\n" + b"x" * 999, b"+" * 999],
)
def test_a_reply_that_comes_in_drops(data):
    hostile = Hostile(data, 0.05)
    backend = RedisBackend("redis://{}:{}".format(*hostile.address))
    try:
        with in_time(LIMITS.connect):
            backend.open(LIMITS)
    finally:
        backend.close()
        hostile.close()


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\r\n", b"\r\n"])
def test_a_server_of_another_kind(data):
    hostile = Hostile(data, 0.0)
    backend = RedisBackend("redis://{}:{}".format(*hostile.address))
    try:
        with in_time(0.0):
            backend.open(LIMITS)
    finally:
        backend.close()
        hostile.close()


def several_addresses(monkeypatch, *places):
    """Have a host with several addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
    monkeypatch.setattr(_redis_doors.socket, "getaddrinfo", lambda *_: found)


@contextlib.contextmanager
def full():
    """Give the address of a server that takes no connection: the kernel leaves them waiting."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        contextlib.ExitStack() as ends,
    ):
        for _ in range(3):
            end = ends.enter_context(socket.socket())
            end.setblocking(False)
            end.connect_ex(server.getsockname())
        yield server.getsockname()


def test_addresses_that_do_not_answer_share_the_time(monkeypatch, shared_server):
    server = shared_server("redis-8.2")
    with full() as dead:
        several_addresses(monkeypatch, dead, dead, (server.host, server.port))
        backend = RedisBackend("redis://somewhere", namespace="addresses")
        began = time.monotonic()
        backend.open(LIMITS)
        assert time.monotonic() - began > 0.1  # it did wait for the dead ones
        assert isinstance(claim(backend, "job", now_ms()), Won)
        backend.close()


def test_a_host_without_an_address_that_answers(monkeypatch):
    with full() as dead:
        several_addresses(monkeypatch, dead, dead, dead)
        backend = RedisBackend("redis://somewhere")
        with in_time(LIMITS.connect):
            backend.open(LIMITS)
        backend.close()


def test_a_name_server_that_thinks_holds_nobody_up(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(_redis_doors.socket, "getaddrinfo", lambda *_: ended.wait(10) and [])
    backend = RedisBackend("redis://somewhere")
    with in_time(LIMITS.connect, "the name server did not answer"):
        backend.open(LIMITS)
    ended.set()
    backend.close()


def test_a_credential_provider_that_thinks_holds_nobody_up(shared_server):
    ended = threading.Event()

    class Provider(redis.CredentialProvider):
        def get_credentials(self):
            ended.wait(10)
            return ("default", "")

    server = shared_server("redis-8.2")
    client = redis.Redis(server.host, server.port, credential_provider=Provider())
    backend = RedisBackend(client)
    with in_time(LIMITS.connect, "the credential provider did not answer"):
        backend.open(LIMITS)
    ended.set()
    backend.close()


def test_a_server_that_is_frozen(own_server):
    server = own_server(RedisServer("redis-8.2"))
    backend = RedisBackend(server.url)
    backend.open(LIMITS)
    slot_ms = now_ms()
    server.freeze()
    try:
        with in_time(LIMITS.call):
            claim(backend, "job", slot_ms)
        with in_time(LIMITS.call):
            backend.pause("job", duration_ms=1)
    finally:
        server.thaw()
    # What it was asked while it was frozen, it does now: the claim is won, by whoever asked.
    assert isinstance(claim(backend, "job", slot_ms), Won)
    backend.close()
