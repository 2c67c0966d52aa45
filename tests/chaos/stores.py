"""The stores of chaos runs: started here, kept through restarts, reached through a proxy."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from tests.servers.postgres import Postgres
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer

if TYPE_CHECKING:
    from pathlib import Path

SHORT = {"redis": "redis-8.2", "postgres": "postgres-18", "valkey": "valkey-8"}
STORES = ("sqlite", "redis-6.2", "redis-7.0", "redis-8.2", "valkey-8", "postgres-15", "postgres-18")
PATIENCE_SECONDS = 0.2


class Way:
    """How one process reaches the store: a URL, and the proxy behind it, if there is one."""

    def __init__(self, url: str, proxy: Proxy | None) -> None:
        self.url = url
        self.proxy = proxy

    def close(self) -> None:
        if self.proxy is not None:
            self.proxy.close()


class File:
    """A SQLite file. Nothing lies between it and the processes; who holds its lock stops all."""

    is_networked = False

    def __init__(self, folder: Path) -> None:
        self.url = str(folder / "jobs.db")
        self._lock: sqlite3.Connection | None = None

    def way(self) -> Way:
        return Way(self.url, None)

    def is_held(self) -> bool:
        """Say whether somebody keeps everybody from writing now."""
        connection = sqlite3.connect(self.url, isolation_level=None, timeout=PATIENCE_SECONDS)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
        finally:
            connection.close()
        return False

    @property
    def is_locked(self) -> bool:
        """Say whether it is locked from here."""
        return self._lock is not None

    def lock(self) -> bool:
        """Keep everybody from writing, as a program that forgot its transaction does."""
        connection = sqlite3.connect(self.url, isolation_level=None, timeout=5.0)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:  # somebody else writes all the time
            connection.close()
            return False
        self._lock = connection
        return True

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def delete(self) -> None:
        self.unlock()


class Networked:
    """A server whose acknowledged writes outlive a kill; each process has a way of its own."""

    is_networked = True

    def __init__(self, variant: str) -> None:
        self.server: Postgres | RedisServer
        if variant.startswith("postgres"):
            self.server = Postgres(variant)
            self.server.start()
            self.url = self.server.url(self.server.create_database())
        else:
            self.server = RedisServer(variant, persist=True)
            self.server.start()
            self.url = self.server.url

    def way(self) -> Way:
        proxy = Proxy(self.server)
        return Way(self.url.replace(f":{self.server.port}", f":{proxy.port}", 1), proxy)

    def delete(self) -> None:
        self.server.delete()


def store_named(variant: str, folder: Path) -> File | Networked:
    """Start a store by its name, or by a short one."""
    variant = SHORT.get(variant, variant)
    return File(folder) if variant == "sqlite" else Networked(variant)
