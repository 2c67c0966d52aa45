"""Forks: a child gets no connection; one that it gets all the same it neither uses nor closes."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sqlite3
import threading

import pytest

from anarchon._values import Held, Owner, Recorded, Won
from anarchon.backends import _sqlite_files as files
from anarchon.backends._sqlite_forks import inside
from anarchon.backends._sqlite_link import GRAVEYARD
from anarchon.errors import BackendUnavailable
from tests.stores.helpers import QUICK, claim, finish, now_ms, open_files, opened

OWNER = Owner("a", "a")


@pytest.fixture
def database(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def backend(database):
    with opened(database) as backend:
        yield backend


def fork_behind_python():
    """Fork as uWSGI does, without telling Python before."""
    return ctypes.PyDLL(None).fork()


def in_child(call, fork=os.fork):
    """Call it in a forked child and return its exit status."""
    pid = fork()
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
    parents = backend._idle[-1]

    def child():
        before = len(GRAVEYARD)
        rows = backend.history("job", limit=5)
        kept = any(parents in found for found in GRAVEYARD[before:] if isinstance(found, list))
        with pytest.raises(BackendUnavailable, match="not open"):
            backend.look([], owner=OWNER)
        backend.close()
        backend.open(QUICK)
        mine = claim(backend, "job", slot_ms, by="child")
        own = backend._idle[-1] is not parents
        backend.close()
        return len(rows) == 1 and kept and own and isinstance(mine, Held)

    assert in_child(child, fork_behind_python) == 0
    assert backend._idle[-1] is parents
    assert isinstance(finish(backend, "job", slot_ms), Recorded)
    check = sqlite3.connect(backend.database)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def test_a_child_is_not_blocked_by_locks_that_were_held(backend, may_fork):
    """Whatever another thread was doing at the moment of the fork."""
    entered, go_on = threading.Event(), threading.Event()

    def slow(rows, now):
        entered.set()
        return go_on.wait(20)

    thread = threading.Thread(target=lambda: backend._read(slow, 5))
    thread.start()
    assert entered.wait(10)
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
        link = backend._idle[-1]
        connection = link._connection
        del link
        backend._idle.clear()
        gc.collect()
        connection.execute("SELECT 1")  # raises when it was closed
        return connection in GRAVEYARD

    assert in_child(child, fork_behind_python) == 0


def test_a_child_inherits_no_connection_and_the_parent_goes_on_with_new_ones(backend, may_fork):
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    before = backend._idle[-1]
    assert in_child(lambda: open_files(backend.database) == []) == 0
    assert isinstance(finish(backend, "job", slot_ms), Recorded)
    assert backend._idle[-1] is not before


def test_a_child_goes_on_when_its_parent_ends(backend, database, may_fork):
    """With an inherited connection it would hold no lock, and lose the log with its parent."""
    slot_ms = now_ms() - 1000
    claim(backend, "job", slot_ms)
    to_child, to_parent = os.pipe(), os.pipe()

    def child():
        backend.open(QUICK)
        claim(backend, "child", slot_ms, by="child")
        os.write(to_parent[1], b"x")
        os.read(to_child[0], 1)
        won = claim(backend, "child", slot_ms + 1, by="child", skip_overlap=False)
        return isinstance(won, Won) and len(backend.history("child", limit=9)) == 2

    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        os._exit(0 if child() else 1)
    os.read(to_parent[0], 1)
    backend.close()
    os.write(to_child[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for end in (*to_child, *to_parent):
        os.close(end)
    with opened(database) as other:
        assert len(other.history("child", limit=9)) == 2


@pytest.mark.parametrize("moment", ["kept", "short"])
def test_a_fork_between_two_steps_of_a_call_costs_nothing(backend, may_fork, monkeypatch, moment):
    """A connection that was just found is closed when it is about to be used."""
    claim(backend, "job", now_ms())
    make = backend._taken if moment == "kept" else backend._make
    forks = []

    def make_and_fork(*given, **options):
        link = make(*given, **options)
        if not forks:
            forks.append(in_child(lambda: True))
        return link

    monkeypatch.setattr(backend, make.__name__, make_and_fork)
    if moment == "kept":
        assert isinstance(claim(backend, "other", now_ms()), Won)
    else:
        assert len(backend.history("job", limit=9)) == 1
    assert forks == [0]


def test_a_fork_while_a_call_waits_for_the_lock_of_others_costs_it_nothing(
    backend, database, may_fork, monkeypatch
):
    """It naps, and its connection is closed under it."""
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    forks = []

    def nap_and_fork(longest):
        if not forks:
            was_inside = inside.leave()
            forks.append(in_child(lambda: True))
            assert was_inside
            inside.come_back()
            other.execute("COMMIT")

    monkeypatch.setattr(files, "nap", nap_and_fork)
    assert isinstance(finish(backend, "job", slot_ms), Recorded)
    assert forks == [0]
    other.close()
