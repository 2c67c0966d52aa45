"""Where a test can keep its runs: a part of its own of a shared server of each kind."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

REDIS = ("redis-6.2", "redis-7.0", "redis-8.2", "valkey-8", "redis-cluster")
POSTGRES = ("postgres-15", "postgres-18", "pgbouncer-15")
STORES = (*REDIS, *POSTGRES)


class Place(NamedTuple):
    """A URL, as `tests.processes.places` reads it, and what the server complains about."""

    url: str
    errors: Callable[[], list[str]]


@contextmanager
def place_on(variant: str, shared_server):
    """Give an empty database; of a Redis, where everybody has a namespace, the server."""
    server = shared_server(variant)
    if variant in REDIS:
        url = server.url
        yield Place(url.replace("redis://", "cluster://") if "cluster" in variant else url, list)
        return
    database = server.create_database()
    yield Place(server.url(database), lambda: server.errors(database))
    server.drop_database(database)
