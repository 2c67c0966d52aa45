"""One store of each kind, by its address, and an instance on it."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from typing import NamedTuple

from anarchon import Scheduler
from anarchon._store_urls import backend_at
from tests.servers.places import place_on

STORES = ("sqlite", "redis-8.2", "postgres-18")
_namespaces = itertools.count(1)


class Store(NamedTuple):
    """Where a test keeps its runs."""

    url: str
    namespace: str

    def backend(self):
        return backend_at(self.url, what="it", namespace=self.namespace)

    def scheduler(self, **options) -> Scheduler:
        return Scheduler(self.backend(), lease="3s", heartbeat="500ms", **options)


@contextmanager
def store_on(variant: str, shared_server, folder):
    """Give a store that was used once; of a Redis, a namespace of its own."""
    namespace = f"commands-{next(_namespaces)}"
    if variant == "sqlite":
        yield Store(f"sqlite:///{folder}/jobs.db", namespace)
        return
    with place_on(variant, shared_server) as place:
        store = Store(place.url, namespace)
        with store.scheduler():
            pass  # makes the tables
        yield store


class Waiting:
    """A handler that goes on until it is let go or told to end."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.slot, self.aborted = 0, None

    def __call__(self, ctx) -> None:
        self.slot = ctx.slot
        self.begun.set()
        while not self.go.is_set():
            if ctx.signal.wait(0.02):
                self.aborted = ctx.signal.reason
                ctx.signal.raise_if_aborted()
