"""Connections: one for each call under way, thrown away when they fail, untouched by a fork."""

from __future__ import annotations

import gc
import sqlite3
import threading
import time
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from anarchon._values import Held, Limits, Looked, Owner, Recorded, Won
from anarchon.backends import _sqlite_files as files
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


def in_thread(call):
    """Call it on a thread of its own, which has ended when this returns."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


# --- threads ----------------------------------------------------------------------


def test_one_call_after_another_is_one_connection_whatever_the_thread(backend):
    [first] = backend._idle
    claim(backend, "job", now_ms())
    in_thread(lambda: claim(backend, "other", now_ms()))
    assert backend._idle == [first]


def test_the_first_renewal_opens_no_connection(backend, monkeypatch):
    """Beside sixteen threads that compute, opening one takes four times as long as renewing."""
    monkeypatch.setattr(backend, "_make", None)
    assert isinstance(in_thread(lambda: claim(backend, "job", now_ms())), Won)
    in_thread(lambda: backend.renew([], owner=OWNER, lease_ms=1))


def test_calls_at_once_have_one_each_and_two_are_kept(backend):
    barrier = threading.Barrier(5, timeout=10)

    def look():
        backend._read(lambda rows, now: barrier.wait(), 5)

    for _ in range(2):
        with ThreadPool(5) as pool:
            pool.starmap(look, [()] * 5)
        assert len(set(backend._idle)) == 2
        gc.collect()
        assert len([link for link in backend._links if link() is not None]) == 2


def test_a_thread_that_ends_leaves_no_connection_behind(backend, database):
    backend.look([], owner=OWNER)
    before = open_files(database)
    for _ in range(20):
        in_thread(lambda: claim(backend, "job", now_ms()))
    # SQLite itself may keep one descriptor for later use, lest closing it drop a lock.
    assert len(open_files(database)) <= len(before) + 1
    assert len([link for link in backend._links if link() is not None]) == 1


def test_close_lets_a_call_in_flight_end_and_closes_after_it(backend, database):
    inside, go_on = threading.Event(), threading.Event()

    def slow(rows, now):
        inside.set()
        assert go_on.wait(10)
        return rows.paused_until()

    answers = []
    thread = threading.Thread(target=lambda: answers.append(backend._write(slow, 5)))
    thread.start()
    assert inside.wait(10)
    backend.close()
    assert open_files(database)
    go_on.set()
    thread.join()
    assert answers == [0]
    assert open_files(database) == []


def test_a_reader_leaves_no_connection_behind(backend, database):
    [kept] = backend._idle
    assert backend.history(None, limit=1) == []
    backend.pause("job", duration_ms=None)
    backend.resume("job")
    assert backend._idle == [kept]
    backend.close()
    assert backend.history(None, limit=1) == []
    assert open_files(database) == []


def test_history_from_many_threads(backend):
    """BR-113."""
    for n in range(20):
        claim(backend, "job", now_ms() - 1000 + n)
        finish(backend, "job", now_ms() - 1000 + n)
    with ThreadPool(10) as pool:
        pages = pool.map(lambda _: backend.history("job", limit=5), range(100))
    assert all(page == pages[0] for page in pages)
    assert len(pages[0]) == 5


def test_it_can_be_opened_and_closed_again_and_again(backend, database):
    for n in range(10):
        backend.close()
        backend.open(QUICK)
        assert isinstance(claim(backend, f"job-{n}", now_ms()), Won)
    backend.close()
    assert open_files(database) == []


def test_two_users_of_one_object_close_it_once(backend, database):
    backend.open(QUICK)
    assert isinstance(claim(backend, "job", now_ms()), Won)
    backend.close()
    assert isinstance(backend.look(["job"], owner=OWNER), Looked)
    backend.close()
    assert open_files(database) == []


def test_a_failed_open_that_is_closed_leaves_the_other_user_open(backend):
    backend._file_system_of = lambda path: "nfs"
    with pytest.raises(BackendUnavailable):
        backend.open(QUICK)
    backend.close()
    assert isinstance(claim(backend, "job", now_ms()), Won)


# --- failures ---------------------------------------------------------------------


def test_a_connection_that_failed_is_never_used_again(backend):
    claim(backend, "job", now_ms())
    broken = backend._idle[-1]
    other = sqlite3.connect(backend.database)
    other.execute("SELECT * FROM anarchon_run").fetchall()  # the log stays with it
    broken._connection.close()
    with pytest.raises(BackendUnavailable) as raised:
        backend.look([], owner=OWNER)
    assert isinstance(raised.value.__cause__, sqlite3.ProgrammingError)
    assert isinstance(backend.look([], owner=OWNER), Looked)
    assert backend._idle[-1] is not broken
    other.close()


def test_a_full_disk(backend):
    """BR-070's neighbour: no page is left, then there is room again."""
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    limit = backend._idle[-1]._connection.execute
    pages = limit("PRAGMA page_count").fetchone()[0]
    limit(f"PRAGMA max_page_count = {pages}")
    text = "x" * 100_000

    def fill():
        for n in range(100):
            finish(backend, f"job-{n}", slot_ms, error=text, traceback=text)

    with pytest.raises(BackendUnavailable, match="full; make room") as raised:
        fill()
    assert raised.value.__cause__.sqlite_errorname == "SQLITE_FULL"
    assert isinstance(finish(backend, "job", slot_ms), Recorded)


def test_a_lock_held_by_another_program_ends_each_call_in_time(backend, database):
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for call, seconds in (
        (lambda: claim(backend, "other", slot_ms), QUICK.call),
        (lambda: finish(backend, "job", slot_ms), QUICK.call),
        (lambda: backend.renew([], owner=OWNER, lease_ms=1), QUICK.quick),
        (lambda: backend.pause("job", duration_ms=1), QUICK.call),
    ):
        begun = time.monotonic()
        with pytest.raises(BackendUnavailable, match="another program holds its lock"):
            call()
        assert seconds * 0.8 < time.monotonic() - begun < seconds + 0.5
    # Reading goes on, and so does losing a race.
    assert isinstance(claim(backend, "job", slot_ms, by="b"), Held)
    assert backend.look(["job"], owner=Owner("b", "b")).others == 1
    assert len(backend.history("job", limit=5)) == 1
    other.execute("COMMIT")
    other.close()
    assert isinstance(finish(backend, "job", slot_ms), Recorded)


def test_a_long_reader_blocks_nobody(backend, database):
    """BR-070."""
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    reader = sqlite3.connect(database, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM anarchon_run").fetchall()
    begun = time.monotonic()
    for n in range(50):
        assert isinstance(claim(backend, f"job-{n}", slot_ms), Won)
    assert isinstance(finish(backend, "job", slot_ms), Recorded)
    assert time.monotonic() - begun < 10 * QUICK.call
    reader.close()


def test_an_error_in_an_operation_rolls_it_back(backend):
    def half(rows, now):
        rows.put_paused(2**50)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backend._write(half, 1)
    assert isinstance(claim(backend, "job", now_ms()), Won)
    link = backend._idle[-1]
    assert not link._connection.in_transaction


def test_a_file_that_was_removed_is_made_anew(backend, database):
    slot_ms = now_ms()
    claim(backend, "job", slot_ms)
    for path in database.parent.iterdir():
        path.unlink()
    assert backend.renew([], owner=OWNER, lease_ms=1).lost == ()
    assert database.exists()
    assert backend.history("job", limit=5) == []
    assert isinstance(claim(backend, "job", slot_ms, by="b"), Won)


def test_a_file_that_was_replaced_is_the_one_that_counts(backend, database, tmp_path):
    slot_ms = now_ms()
    claim(backend, "job", slot_ms, by="a")
    with opened(tmp_path / "other.db") as other:
        claim(other, "job", slot_ms, by="other")
    for path in tmp_path.glob("jobs.db-*"):
        path.unlink()
    (tmp_path / "other.db").rename(database)
    answer = claim(backend, "job", slot_ms, by="b")
    assert isinstance(answer, Held)
    assert answer.run.owner == "other"


def test_a_folder_that_was_removed_is_an_outage(database, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    with opened(folder / "jobs.db") as backend:
        claim(backend, "job", now_ms())
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        with pytest.raises(BackendUnavailable, match="doesn't exist; create it"):
            claim(backend, "job", now_ms())
        folder.mkdir()
        assert isinstance(claim(backend, "job", now_ms()), Won)


# --- the queue of writers ---------------------------------------------------------


def test_a_stuck_queue_delays_a_write_and_no_more(backend, database):
    import fcntl

    with Path(f"{database}-queue").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        begun = time.monotonic()
        assert isinstance(claim(backend, "job", now_ms()), Won)
        assert time.monotonic() - begun < QUICK.call + 0.3


def test_without_a_queue_writers_take_turns_all_the_same(database, monkeypatch):
    """Where `fcntl` is missing."""
    monkeypatch.setattr(files, "_enter", lambda path, deadline: None)
    slot_ms = now_ms()
    with opened(database, Limits(), synchronous="NORMAL") as backend:

        def work(n):
            return [claim(backend, f"job-{n}-{m}", slot_ms, by=str(n)) for m in range(10)]

        with ThreadPool(8) as pool:
            answers = [answer for some in pool.map(work, range(8)) for answer in some]
    assert len(answers) == 80
    assert all(isinstance(answer, Won) for answer in answers)


def test_no_fcntl_is_no_queue(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert files._enter(str(tmp_path / "queue"), time.monotonic() + 1) is None
