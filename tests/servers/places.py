"""Where a test can keep its runs: a part of its own of a shared server of each kind."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.processes import Server
    from tests.servers.proxy import Proxy

REDIS = ("redis-6.2", "redis-7.0", "redis-8.2", "valkey-8")
POSTGRES = ("postgres-15", "postgres-18", "pgbouncer-15")
SINGLE = (*REDIS, *POSTGRES)  # those that one address leads to
STORES = (*REDIS, "redis-cluster", *POSTGRES)


class Place(NamedTuple):
    """A URL, as `tests.processes.places` reads it, and what the server complains about."""

    url: str
    server: Server
    errors: Callable[[], list[str]]

    def through(self, proxy: Proxy) -> str:
        """Return the URL of the same place behind a proxy."""
        return self.url.replace(f":{self.server.port}", f":{proxy.port}", 1)


@contextmanager
def place_on(variant: str, shared_server):
    """Give an empty database; of a Redis, where everybody has a namespace, the server."""
    server = shared_server(variant)
    if variant not in POSTGRES:
        scheme = "cluster://" if variant == "redis-cluster" else "redis://"
        yield Place(server.url.replace("redis://", scheme), server, list)
        return
    database = server.create_database()
    yield Place(server.url(database), server, lambda: server.errors(database))
    server.drop_database(database)
