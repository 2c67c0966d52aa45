"""Connections that a child inherits: it neither uses nor closes them."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import threading

import pytest

from anarchon._values import Held, Owner, Recorded
from anarchon.backends._sqlite_link import GRAVEYARD
from anarchon.errors import BackendUnavailable
from tests.stores.helpers import QUICK, claim, finish, now_ms, opened

OWNER = Owner("a", "a")


@pytest.fixture
def database(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def backend(database):
    with opened(database) as backend:
        yield backend


def in_child(call):
    """Call it in a forked child and return its exit status."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            os._exit(0 if call() else 1)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def may_fork(recwarn):
    """Let a test fork although threads are alive, of which newer Pythons warn."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def test_a_child_uses_none_of_its_parent_s_connections(backend, may_fork):
    """BR-022's neighbour: the child reads on its own, and the parent goes on."""
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    parents = backend._local.link

    def child():
        before = len(GRAVEYARD)
        rows = backend.history("job", limit=5)
        kept = any(parents in (found or []) for _, found in GRAVEYARD[before:])
        with pytest.raises(BackendUnavailable, match="not open"):
            backend.look([], owner=OWNER)
        backend.close()
        backend.open(QUICK)
        mine = claim(backend, "job", slot_ms, by="child")
        own = backend._local.link is not parents
        backend.close()
        return len(rows) == 1 and kept and own and isinstance(mine, Held)

    assert in_child(child) == 0
    assert backend._local.link is parents
    assert isinstance(finish(backend, "job", slot_ms), Recorded)
    check = sqlite3.connect(backend.database)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def test_a_child_is_not_blocked_by_locks_that_were_held(backend, may_fork):
    """Whatever another thread was doing at the moment of the fork."""
    inside, go_on = threading.Event(), threading.Event()

    def slow(rows, now):
        inside.set()
        return go_on.wait(20)

    thread = threading.Thread(target=lambda: backend._read(slow, 5))
    thread.start()
    assert inside.wait(10)
    with backend._guard:
        status = in_child(
            lambda: backend.abandon() is None and backend.history(None, limit=1) == []
        )
    go_on.set()
    thread.join()
    assert status == 0


def test_a_connection_dropped_in_a_child_is_not_closed_there(backend, may_fork):
    claim(backend, "job", now_ms())

    def child():
        link = backend._local.link
        connection = link._connection
        del link
        backend._local.__dict__.clear()
        gc.collect()
        connection.execute("SELECT 1")  # raises when it was closed
        return connection in GRAVEYARD

    assert in_child(child) == 0
