"""Where the address of a PostgreSQL leads: hosts by name, services, the environment."""

from __future__ import annotations

import threading
import time

import pytest

from anarchon._values import Limits
from anarchon.backends.postgres import PostgresBackend
from anarchon.errors import BackendUnavailable
from tests.servers.processes import free_port
from tests.servers.proxy import Proxy

LIMITS = Limits(connect=0.5, quick=0.4, call=0.6)
SLACK = 1.0  # what a busy machine may add


@pytest.fixture
def server(shared_server):
    return shared_server("postgres-15")


@pytest.fixture
def service(tmp_path, monkeypatch):
    """Write a service file for libpq."""

    def write(**fields) -> None:
        lines = [f"{name}={value}" for name, value in fields.items()]
        text = ["# host=nowhere", "[other]", "host=nowhere", "[mine]", *lines, "[third]", "port=1"]
        (tmp_path / "services").write_text("\n".join(text))

    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    return write


def opens(address) -> bool:
    backend = PostgresBackend(address)
    try:
        return backend.open(Limits(5.0, 5.0, 5.0)).version.startswith("15.")
    finally:
        backend.close()


@pytest.mark.parametrize("address", ["postgresql://db.invalid/x", "service=mine"])
def test_a_name_server_that_thinks_holds_nobody_up(monkeypatch, service, address):
    ended = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **options: ended.wait(20) and [])
    service(host="db.invalid", dbname="x")
    backend = PostgresBackend(address)
    begun = time.monotonic()
    with pytest.raises(BackendUnavailable, match="in time"):
        backend.open(LIMITS)
    assert time.monotonic() - begun < LIMITS.connect + SLACK
    ended.set()
    backend.close()


def test_a_service_is_found(server, service, monkeypatch):
    fields = {"port": server.port, "user": "postgres", "dbname": "postgres"}
    service(host="localhost", **fields)
    monkeypatch.setenv("PGHOST", "nowhere.invalid")  # a service comes before
    monkeypatch.setenv("PGPORT", "1")
    assert opens("service=mine")
    monkeypatch.setenv("PGSERVICE", "mine")
    assert opens("")
    service(host="nowhere.invalid", hostaddr="127.0.0.1", **fields)
    assert opens("")
    assert opens("service=mine host=localhost hostaddr=127.0.0.1")


def test_a_service_may_name_several_hosts(server, service):
    with Proxy(server) as proxy:
        proxy.black_hole()
        service(host="127.0.0.1,127.0.0.1", port=f"{proxy.port},{server.port}", user="postgres")
        backend = PostgresBackend("service=mine dbname=postgres")
        assert backend.open(Limits(1.0, 1.0, 1.0)).version.startswith("15.")
        backend.close()


def test_an_address_in_the_environment_is_used(server, monkeypatch):
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
    assert opens(f"host=nowhere.invalid port={server.port} user=postgres dbname=postgres")


def test_each_of_several_hosts_is_told(server):
    with Proxy(server) as proxy:
        proxy.black_hole()
        refused, silent = free_port(), proxy.port
        backend = PostgresBackend(
            f"host=127.0.0.1,nowhere.invalid,127.0.0.1 port={refused},1,{silent} dbname=x user=y"
        )
        with pytest.raises(BackendUnavailable) as caught:
            backend.open(LIMITS)
        backend.close()
    text = str(caught.value)
    for said in (
        "nowhere.invalid: ",
        f"port {refused} failed: Connection refused",
        f"127.0.0.1, port {silent}: the server did not answer in time",
    ):
        assert said in text
