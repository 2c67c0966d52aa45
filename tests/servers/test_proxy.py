"""Each mode of the proxy, on plain sockets in front of an echo and on a real Redis."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from typing import NamedTuple

import pytest

from tests.servers.processes import wait_until
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer
from tests.servers.relay import Mode
from tests.servers.resp import Client, ReplyError

LIMIT_SECONDS = 5.0
SHORT_SECONDS = 0.1  # how long nothing has to come, where nothing may


class Address(NamedTuple):
    host: str
    port: int


class Echo(socketserver.BaseRequestHandler):
    """Sends back what comes until "bye", and tells its server about connections and ends."""

    def handle(self):
        self.server.seen.append("begin")
        try:
            while data := self.request.recv(65536):
                self.server.seen.append(data)
                self.request.sendall(data)
                if data == b"bye":
                    break
        except ConnectionResetError:
            self.server.seen.append("reset")
        else:
            self.server.seen.append("end")


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture
def echo():
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo):
    with Proxy(Address(*echo.server_address)) as proxy:
        yield proxy


@pytest.fixture
def connect(proxy):
    made: list[socket.socket] = []

    def connect() -> socket.socket:
        made.append(socket.create_connection((proxy.host, proxy.port), LIMIT_SECONDS))
        return made[-1]

    yield connect
    for sock in made:
        sock.close()


def echoed(sock: socket.socket, data: bytes = b"hello") -> bytes:
    sock.sendall(data)
    return read(sock, len(data))


def read(sock: socket.socket, count: int) -> bytes:
    """Read so many bytes, fewer at the end."""
    found = b""
    while len(found) < count and (more := sock.recv(count - len(found))):
        found += more
    return found


def assert_silent(sock: socket.socket) -> None:
    sock.settimeout(SHORT_SECONDS)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    sock.settimeout(LIMIT_SECONDS)


def test_it_passes_everything_and_counts(proxy, connect, echo):
    first, second = connect(), connect()
    big = bytes(range(256)) * 40_000  # 10 MB, more than all buffers hold
    sender = threading.Thread(target=first.sendall, args=(big,))
    sender.start()
    assert read(first, len(big)) == big
    sender.join()
    assert echoed(second) == b"hello"
    assert proxy.counts == (2, 2, len(big) + 5, len(big) + 5)
    first.shutdown(socket.SHUT_WR)
    assert first.recv(1) == b""
    second.close()
    wait_until(lambda: echo.seen.count("end") == 2, "both ends are passed on")
    wait_until(lambda: proxy.counts.open == 0, "both links are forgotten")


def test_it_passes_a_reset_on(connect, echo):
    client = connect()
    echoed(client)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    wait_until(lambda: "reset" in echo.seen, "the server sees the reset")


def test_drop(proxy, connect):
    old = connect()
    echoed(old)
    proxy.drop()
    assert connect().recv(1) == b""
    assert echoed(old) == b"hello"
    proxy.passing()
    assert echoed(connect()) == b"hello"


def test_refuse(proxy, connect):
    old = connect()
    echoed(old)
    proxy.refuse()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            connect()
    assert echoed(old) == b"hello"
    proxy.passing()
    assert echoed(connect()) == b"hello"


def test_delay(proxy, connect):
    old = connect()
    proxy.delay(0.2)
    for client in (old, connect()):
        before = time.monotonic()
        assert echoed(client) == b"hello"
        assert 0.4 <= time.monotonic() - before < 2
    proxy.passing()
    before = time.monotonic()
    assert echoed(old) == b"hello"
    assert time.monotonic() - before < 0.2


def test_pieces_that_are_late_keep_their_order(proxy, connect, echo):
    client = connect()
    proxy.delay(0.2)
    client.sendall(b"first ")
    wait_until(lambda: proxy.counts.bytes_to_server == 6, "it is under way")
    proxy.passing()
    client.sendall(b"second")
    assert read(client, 12) == b"first second"


def test_black_hole(proxy, connect, echo):
    old = connect()
    echoed(old)
    proxy.black_hole()
    new = connect()
    for client in (old, new):
        client.sendall(b"lost")
        assert_silent(client)
    old.close()
    new.shutdown(socket.SHUT_WR)
    assert_silent(new)
    assert proxy.counts.open == 2
    proxy.passing()
    assert echoed(connect()) == b"hello"
    assert_silent(new)
    assert not {b"lost", "end", "reset"} & set(echo.seen)


def test_a_black_hole_swallows_what_is_under_way_and_the_end_of_the_server(proxy, connect, echo):
    client = connect()
    proxy.delay(0.2)
    client.sendall(b"bye")
    wait_until(lambda: "end" in echo.seen, "the server has ended")
    proxy.black_hole()
    client.settimeout(0.5)
    with pytest.raises(TimeoutError):
        client.recv(1)


def test_half_open(proxy, connect, echo):
    old, quiet = connect(), connect()
    echoed(old)
    proxy.half_open()
    old.sendall(b"lost")
    assert_silent(old)
    assert_silent(quiet)
    quiet.close()
    assert echoed(connect()) == b"hello"
    assert b"lost" not in echo.seen
    assert "end" not in echo.seen


def test_reset(proxy, connect, echo):
    old = connect()
    echoed(old)
    proxy.reset()
    for client in (old, connect()):
        client.sendall(b"lost")
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    proxy.passing()
    assert echoed(connect()) == b"hello"
    assert b"lost" not in echo.seen


def test_reset_all(proxy, connect):
    clients = [connect() for _ in range(3)]
    for client in clients:
        echoed(client)
    proxy.reset_all()
    for client in clients:
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert proxy.counts[:2] == (3, 0)
    assert echoed(connect()) == b"hello"


def test_an_order_may_end_a_connection_that_has_an_event(proxy, connect):
    """Both come in one look at the sockets, the order first."""
    one, other = connect(), connect()
    echoed(one)
    echoed(other)
    relay = proxy._relay

    def order() -> None:
        relay.reset_all()
        relay._settle()

    def take(link, to_server, data):
        if data == b"now":
            relay._orders.put(order)
            relay._bell.send(b"!")
            other.sendall(b"lost")
        return data

    relay.call(lambda: relay.switch(Mode(take)))
    one.sendall(b"now")
    for client in (one, other):
        with pytest.raises(ConnectionResetError):
            client.recv(3)
    proxy.passing()
    assert echoed(connect()) == b"hello"


def test_cut(proxy, connect, echo):
    old = connect()
    echoed(old)
    proxy.cut_after(8)
    for client in (old, connect()):
        assert echoed(client) == b"hello"
        client.sendall(b"hello")
        assert read(client, 5) == b"hel"
        assert client.recv(1) == b""
        client.close()
    wait_until(lambda: echo.seen.count("end") == 2, "the server is told the ends")
    proxy.cut_after(0)
    client = connect()
    client.sendall(b"hello")
    assert client.recv(1) == b""


def test_exactly_one_reply_is_swallowed_and_its_connection_reset(proxy, connect, echo):
    one, other = connect(), connect()
    lost = proxy.swallow_reply(containing=b"two")
    assert echoed(one, b"one") == b"one"
    assert not lost.is_set()
    one.sendall(b"two")
    with pytest.raises(ConnectionResetError):
        one.recv(1)
    assert lost.is_set()
    assert b"two" in echo.seen
    assert echoed(other, b"two") == b"two"
    assert echoed(connect(), b"two") == b"two"


def test_exactly_one_reply_is_swallowed_and_its_connection_hangs(proxy, connect, echo):
    one, other = connect(), connect()
    lost = proxy.swallow_reply(hang=True)
    one.sendall(b"one")
    assert lost.wait(LIMIT_SECONDS)
    assert b"one" in echo.seen
    assert_silent(one)
    one.sendall(b"two")
    assert_silent(one)
    assert b"two" not in echo.seen
    assert echoed(other) == b"hello"


def test_a_server_that_is_not_there_ends_a_connection(proxy, connect, echo):
    echo.shutdown()
    echo.server_close()
    assert connect().recv(1) == b""


def test_the_end_breaks_and_closes_everything(echo):
    before = threading.active_count()
    proxy = Proxy(Address(*echo.server_address))
    with socket.create_connection((proxy.host, proxy.port), LIMIT_SECONDS) as client:
        proxy.black_hole()
        client.sendall(b"lost")
        proxy.close()
        proxy.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((proxy.host, proxy.port))
    wait_until(lambda: threading.active_count() == before, "all threads end")


def test_redis_behind_it(own_server):
    server = own_server(RedisServer())
    with Proxy(server) as proxy:
        to_redis = (proxy.host, proxy.port)
        with Client(to_redis) as client:
            assert client("SET", "n", 1) == b"OK"
            proxy.swallow_reply(containing=b"INCR")
            assert client("GET", "n") == b"1"
            with pytest.raises(ConnectionResetError):
                client("INCR", "n")
        with Client(to_redis) as client:
            assert client("GET", "n") == b"2"  # it was done, though nobody heard so
            proxy.reset()
            with pytest.raises(ConnectionResetError):
                client("INCR", "n")
        proxy.black_hole()
        with Client(to_redis, timeout=SHORT_SECONDS) as client, pytest.raises(TimeoutError):
            client("INCR", "n")
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            Client(to_redis)
        proxy.cut_after(2)
        with Client(to_redis) as client, pytest.raises(ConnectionResetError):
            client("GET", "n")
        proxy.passing()
        with Client(to_redis) as client:
            assert client("GET", "n") == b"2"
            server.restart()
            with pytest.raises(ConnectionResetError):
                client("GET", "n")
        with Client(to_redis) as client, pytest.raises(ReplyError):
            client("NONSENSE")
