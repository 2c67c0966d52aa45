"""What is said about a store that can't be used: the real cause, and what to do."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import threading
from contextlib import contextmanager, suppress

import pytest

from anarchon._values import Limits
from anarchon.backends import _sqlite_files as files
from anarchon.backends._sqlite_advice import explained
from anarchon.backends.memory import MemoryBackend
from anarchon.backends.sqlite import SqliteBackend
from anarchon.errors import BackendUnavailable, ConfigurationError
from tests.stores.helpers import claim, now_ms, opened

QUICK = Limits(connect=0.4, quick=0.2, call=0.4)


@pytest.fixture
def database(tmp_path):
    return tmp_path / "jobs.db"


@contextmanager
def few_files(spare):
    """Let this process open only so many files more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[0], 256), limits[1]))
    taken = []
    with suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    try:
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        for file in taken:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("spare", range(4))
@pytest.mark.parametrize("call", ["open", "history", "pause"])
def test_too_many_open_files(database, call, spare):
    SqliteBackend(database).pause("job", duration_ms=None)
    backend = SqliteBackend(database)
    calls = {
        "open": lambda: backend.open(QUICK),
        "history": lambda: backend.history(None, limit=1),
        "pause": lambda: backend.pause("job", duration_ms=1),
    }
    said = []
    with few_files(spare):
        try:
            calls[call]()
        except BackendUnavailable as error:
            said.append(str(error))
    assert all("raise its limit (ulimit -n), or close some" in text for text in said)
    assert said or spare == 3
    backend.close()
    assert backend.history(None, limit=1) == []


def test_a_boot_that_can_not_be_told_for_want_of_files_is_an_outage(database):
    """Else every lease would seem to be of another boot, and running runs be taken over."""
    slot_ms = now_ms()
    with opened(database) as backend:
        backend.look([], owner=("a", "a"))
        backend._boot = ""
        with few_files(0), pytest.raises(BackendUnavailable, match="raise its limit"):
            claim(backend, "job", slot_ms)
        claim(backend, "job", slot_ms)
        assert backend._boot == files.boot_id() != ""


@pytest.mark.parametrize(
    "path",
    ["x" * 256, "x" * 250, "/".join(["x" * 200] * 3), "y" * 300 + "/jobs.db"],
    ids=["name", "name of a side file", "path", "folder"],
)
def test_a_name_or_a_path_that_is_too_long(tmp_path, path):
    with suppress(OSError):
        (tmp_path / path).parent.mkdir(parents=True)
    backend = SqliteBackend(tmp_path / path)
    for ask in (lambda: backend.open(QUICK), lambda: backend.pause(None, duration_ms=1)):
        with pytest.raises(BackendUnavailable, match="too long; give a shorter one"):
            ask()
    backend.close()


def test_a_circle_of_links(tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(BackendUnavailable, match="circle of links"):
        SqliteBackend(tmp_path / "one").pause(None, duration_ms=1)


def test_a_file_in_the_place_of_a_folder(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(BackendUnavailable, match="a file and no folder"):
        SqliteBackend(tmp_path / "data" / "jobs.db").pause(None, duration_ms=1)


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENFILE])
def test_what_the_system_says_is_said(database, monkeypatch, number):
    def refuse(path, *rest):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "stat", refuse)
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    wanted = {errno.EACCES: "give write permission", errno.ENFILE: "end some programs"}
    with pytest.raises(BackendUnavailable, match=wanted[number]), explained(str(database)):
        raise error


def test_looking_for_the_cause_opens_nothing_of_the_store(database, monkeypatch):
    """Closing it again would drop the locks that SQLite has on it, of all connections."""
    opened_files = []
    real = os.open

    def watched(path, *rest):
        opened_files.append(os.fspath(path))
        return real(path, *rest)

    monkeypatch.setattr(os, "open", watched)
    database.mkdir()
    with pytest.raises(BackendUnavailable, match="it is a folder"):
        SqliteBackend(database).history(None, limit=1)
    assert set(opened_files) == {os.devnull}


def test_a_lock_that_another_call_of_this_process_holds_is_nobody_else_s_fault(database):
    inside, go_on = threading.Event(), threading.Event()

    def slow(rows, now):
        inside.set()
        assert go_on.wait(10)

    with opened(database) as backend:
        thread = threading.Thread(target=lambda: backend._write(slow, 5))
        thread.start()
        assert inside.wait(10)
        with pytest.raises(BackendUnavailable, match="or this one does") as raised:
            backend.pause("job", duration_ms=1)
        go_on.set()
        thread.join()
        assert "try again" in str(raised.value)
        assert isinstance(raised.value.__cause__, sqlite3.OperationalError)


# --- values whose repr is no help -------------------------------------------------


class Nasty:
    def __repr__(self):
        raise RuntimeError("no repr")

    def __fspath__(self):
        raise RuntimeError("no path")

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    def __hash__(self):
        return 1


class NastyText(str):
    __slots__ = ()

    def __repr__(self):
        raise RuntimeError("no repr")


HUGE = 10**5000
VALUES = [HUGE, Nasty(), [], b"\xff" * 100, None, NastyText(":memory:\n"), "x" * 100_000 + "\n"]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_that_can_not_be_shown_is_refused_all_the_same(value):
    for make in (
        lambda: SqliteBackend("jobs.db", namespace=value),
        lambda: SqliteBackend("jobs.db", synchronous=value),
        lambda: MemoryBackend(namespace=value),
    ):
        with pytest.raises(ConfigurationError) as raised:
            make()
        assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "value",
    [HUGE, Nasty(), [], None, NastyText(":memory:"), "\ud800.db"],
    ids=lambda value: type(value).__name__,
)
def test_a_database_that_can_not_be_shown_is_refused_all_the_same(value):
    with pytest.raises(ConfigurationError, match="give the path of a file"):
        SqliteBackend(value)


@pytest.mark.parametrize("name", ["\ud800", "x" * 1000 + "\udfff"], ids=["short", "long"])
def test_a_job_that_no_store_can_hold_can_not_be_paused(name):
    with pytest.raises(ConfigurationError, match="no name that a store can hold") as raised:
        MemoryBackend().pause(name, duration_ms=1)
    assert len(str(raised.value)) < 200
