"""The stores, each on a clock that is moved by hand, and each time empty."""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from anarchon._testing_contract.bench import HandClock
from anarchon.backends.memory import MemoryBackend
from anarchon.backends.sqlite import SqliteBackend
from tests.servers.places import POSTGRES, REDIS
from tests.stores import postgres_clock, redis_clock
from tests.stores.postgres_places import database_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VARIANTS = ("sqlite", *REDIS, *POSTGRES)
SHORT = {"redis": "redis-8.2", "valkey": "valkey-8", "postgres": "postgres-18"}
NUMBERS = itertools.count(1)
JOBS = ("job", "a\0b", "a", "a\1", "{x}:y z", "é😀")


class Store(Protocol):
    """Where histories are played, with jobs of these names.

    `steady`: its lease time can't step. `shares`: handlers can complete runs in transactions.
    """

    jobs: tuple[str, ...]
    steady: bool
    shares: bool

    def fresh(self) -> tuple[HandClock, Any]:
        """Return a clock and a backend on it that isn't open, on a store without records."""
        ...


class Memory:
    """The model itself, for tests of the tests; `make` gives another one of its kind."""

    jobs = JOBS
    shares = True

    def __init__(self, *, steady: bool = True, make: Any = MemoryBackend) -> None:
        self.steady = steady
        self._make = make

    def fresh(self) -> tuple[HandClock, Any]:
        clock, backend = HandClock(), self._make()
        backend._time, backend._steady = clock, self.steady
        return clock, backend


class Sqlite:
    """A file, whose lease clock can't step."""

    jobs = JOBS
    steady = True
    shares = True

    def __init__(self, folder: Path) -> None:
        self._file = folder / "jobs.db"

    def fresh(self) -> tuple[HandClock, Any]:
        clock = HandClock()
        backend = SqliteBackend(self._file, namespace=new_namespace(), synchronous="NORMAL")
        backend._time = clock
        return clock, backend


class Redis:
    """A Redis or Valkey server."""

    jobs = JOBS
    steady = False
    shares = False

    def __init__(self, server: Any) -> None:
        self._url = server.url
        self._clock = redis_clock.KeptClock(server)

    def fresh(self) -> tuple[HandClock, Any]:
        self._clock.begin_again()
        namespace = new_namespace()
        return self._clock, redis_clock.ByHand(self._url, clock=self._clock, namespace=namespace)

    def close(self) -> None:
        self._clock.close()


class Postgres:
    """A PostgreSQL database."""

    # Its texts hold no NUL, and what stands for one comes elsewhere in the order of names.
    jobs = tuple(name.replace("a\1", "b\1") for name in JOBS)
    steady = False
    shares = True

    def __init__(self, database: Any) -> None:
        postgres_clock.prepare(database)
        self._url = database.url
        self._clock = postgres_clock.TableClock(database)

    def fresh(self) -> tuple[HandClock, Any]:
        self._clock.begin_again()
        namespace = new_namespace()
        return self._clock, postgres_clock.ByHand(self._url, clock=self._clock, namespace=namespace)

    def close(self) -> None:
        self._clock.close()


def new_namespace() -> str:
    """Return a namespace that nobody else has."""
    return f"model {os.getpid()} {next(NUMBERS)}"


@contextmanager
def store_on(variant: str, shared_server: Any, folder: Path) -> Iterator[Store]:
    """Give a store of a variant for a while; a folder is for files."""
    if variant == "sqlite":
        yield Sqlite(folder)
    elif variant in POSTGRES:
        with database_on(shared_server, variant) as database:
            store = Postgres(database)
            yield store
            store.close()
    else:
        server = Redis(shared_server(variant))
        yield server
        server.close()
