"""Files of a store that are removed or replaced while connections are open."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anarchon._values import Held, Limits, Owner, Won
from anarchon.backends import _sqlite_link, _sqlite_parts
from anarchon.backends.sqlite import SqliteBackend
from anarchon.errors import BackendUnavailable
from tests.stores.helpers import QUICK, claim, finish, now_ms, open_files, opened

ROOT = Path(__file__).resolve().parent.parent.parent
OWNER = Owner("a", "a")
PATIENT = Limits()


@pytest.fixture
def database(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def peer(database):
    """Start another process that claims what it is told to."""
    command = [sys.executable, "-W", "error", "-m", "tests.stores.worker", "obey", str(database)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def tell(word, *arguments):
        process.stdin.write(" ".join([word, *map(str, arguments)]) + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    yield tell
    process.stdin.close()
    process.stdout.close()
    process.wait()


def remove(database, *ends):
    for end in ends:
        Path(f"{database}{end}").unlink()


def replace(database, *ends):
    """Put an equal file in the place of each."""
    for end in ends:
        path = Path(f"{database}{end}")
        copy = path.with_suffix(".copy")
        copy.write_bytes(b"" if end == "-shm" else path.read_bytes())
        copy.rename(path)


def move_away_and_begin_anew(database, *ends):
    for end in ends:
        Path(f"{database}{end}").rename(f"{database}{end}-away")


ATTACKS = [
    (remove, ("-wal", "-shm")),
    (remove, ("-wal",)),
    (remove, ("-shm",)),
    (remove, ("",)),
    (remove, ("", "-wal", "-shm")),
    (replace, ("-wal", "-shm")),
    (replace, ("-wal",)),
    (replace, ("-shm",)),
    (move_away_and_begin_anew, ("-wal", "-shm")),
    (move_away_and_begin_anew, ("", "-wal", "-shm")),
]


def name(value):
    return value.__name__ if callable(value) else "+".join(value)


@pytest.mark.parametrize(("attack", "ends"), ATTACKS, ids=name)
def test_two_processes_see_each_other_after_one_slot_at_most(attack, ends, database, peer):
    slot_ms = now_ms() - 10_000
    with opened(database, PATIENT) as backend:
        assert isinstance(claim(backend, "job", slot_ms, skip_overlap=False), Won)
        attack(database, *ends)
        if (attack, ends) == (remove, ("-wal",)):
            # The index that we have open is of the log that went: nobody can come in beside us.
            assert "a program still has the old ones open" in peer("open")
            assert isinstance(claim(backend, "job", slot_ms, skip_overlap=False), Won)
        assert peer("open") == "opened"
        ours, theirs = [], []
        for slot in range(slot_ms + 1, slot_ms + 6):
            theirs.append(peer("claim", "job", slot) == "Won")
            ours.append(isinstance(claim(backend, "job", slot, skip_overlap=False), Won))
        for slot in range(slot_ms + 6, slot_ms + 11):
            ours.append(isinstance(claim(backend, "job", slot, skip_overlap=False), Won))
            theirs.append(peer("claim", "job", slot) == "Won")
        assert all(one or other for one, other in zip(ours, theirs, strict=True))
        twice = [slot for slot, both in enumerate(zip(ours, theirs, strict=True)) if all(both)]
        assert twice in ([], [0])
        assert len(backend.history("job", limit=99)) >= 9
        assert peer("integrity") == "ok"


@pytest.mark.parametrize(("attack", "ends"), ATTACKS, ids=name)
def test_two_backends_of_one_process_as_well(attack, ends, database):
    slot_ms = now_ms() - 10_000
    with opened(database, PATIENT) as one:
        claim(one, "job", slot_ms, by="a")
        attack(database, *ends)
        with opened(database, PATIENT) as other:
            for slot in range(slot_ms + 1, slot_ms + 5):
                assert isinstance(claim(other, "job", slot, by="b", skip_overlap=False), Won)
                assert isinstance(claim(one, "job", slot, by="a", skip_overlap=False), Held)
            assert len(one.history("job", limit=9)) >= 4


def test_a_log_that_is_removed_takes_nothing_along_while_nobody_else_comes(database):
    """The last connection that knows it writes it back."""
    slot_ms = now_ms()
    with opened(database) as backend:
        claim(backend, "job", slot_ms)
        finish(backend, "job", slot_ms)
        remove(database, "-wal", "-shm")
        assert [run.status for run in backend.history("job", limit=9)] == ["success"]


def test_a_store_that_was_moved_away_and_back_is_the_same(database):
    slot_ms = now_ms()
    with opened(database) as backend:
        claim(backend, "job", slot_ms)
        link = backend._idle[-1]
        for there, back in ((database, f"{database}-away"), (f"{database}-away", database)):
            Path(there).rename(back)
        assert isinstance(claim(backend, "job", slot_ms, by="b"), Held)
        assert backend._idle[-1] is link


def test_another_journal_behind_its_back(database):
    """Whoever closes a file drops the locks that its process has on it; anybody may then."""
    slot_ms = now_ms()
    switch = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
    switch += "print(c.execute('PRAGMA journal_mode=DELETE').fetchone()[0]); c.close()"
    with opened(database) as backend:
        claim(backend, "job", slot_ms)
        os.close(os.open(database, os.O_RDONLY))
        os.close(os.open(f"{database}-shm", os.O_RDONLY))
        command = [sys.executable, "-c", switch, str(database)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "delete\n"
        assert isinstance(claim(backend, "job", slot_ms, by="b"), Held)
        assert Path(f"{database}-wal").exists()


def test_a_write_that_waited_while_the_files_went_is_asked_of_the_new_ones(database, monkeypatch):
    slot_ms = now_ms()
    with opened(database) as backend:
        claim(backend, "other", slot_ms)
        old = backend._idle[-1]
        wait = _sqlite_link.files.writers_queue

        def wait_and_lose(path, deadline):
            monkeypatch.setattr(_sqlite_link.files, "writers_queue", wait)
            remove(database, "-wal", "-shm")
            return wait(path, deadline)

        monkeypatch.setattr(_sqlite_link.files, "writers_queue", wait_and_lose)
        assert isinstance(claim(backend, "job", slot_ms), Won)
        assert backend._idle[-1] is not old
        rows = sqlite3.connect(database)
        assert rows.execute("SELECT count(*) FROM anarchon_run WHERE job = 'job'").fetchone() == (
            1,
        )
        rows.close()


def test_a_call_under_way_on_the_old_files_is_waited_for(database):
    """SQLite would give the new connection the index of the old log."""
    inside, go_on = threading.Event(), threading.Event()

    def slow(rows, now):
        inside.set()
        assert go_on.wait(10)
        return rows.paused_until()

    answers = []
    with opened(database, PATIENT) as backend:
        slot_ms = now_ms()
        claim(backend, "job", slot_ms)
        slow_one = threading.Thread(target=lambda: answers.append(backend._read(slow, 5)))
        slow_one.start()
        assert inside.wait(10)
        remove(database, "-wal", "-shm")
        asker = threading.Thread(target=lambda: answers.append(claim(backend, "job", slot_ms + 1)))
        asker.start()
        asker.join(0.2)
        assert asker.is_alive()
        go_on.set()
        slow_one.join()
        asker.join()
    assert answers[0] == 0
    assert len(answers) == 2


def test_a_foreign_connection_that_keeps_the_old_log_is_said_to(database):
    with opened(database) as backend:
        claim(backend, "job", now_ms())
        foreign = sqlite3.connect(database)
        foreign.execute("SELECT * FROM anarchon_run").fetchall()
        remove(database, "-wal", "-shm")
        for ask in (
            lambda: claim(backend, "job", now_ms()),
            lambda: backend.history(None, limit=1),
        ):
            with pytest.raises(BackendUnavailable, match="other connections to this file"):
                ask()
        foreign.close()
        assert isinstance(claim(backend, "job", now_ms() + 1, skip_overlap=False), Won)


def test_files_whose_numbers_never_stay_the_same_are_an_outage_and_no_endless_loop(
    database, monkeypatch
):
    with opened(database) as backend:
        claim(backend, "job", now_ms())
        numbers = iter(range(10**9))
        monkeypatch.setattr(_sqlite_parts, "_identity", lambda _: (0, next(numbers)))
        monkeypatch.setattr(_sqlite_parts, "_OPEN_FILES", "/nowhere")
        with pytest.raises(BackendUnavailable, match="removed or replaced"):
            claim(backend, "other", now_ms())


def test_nothing_stays_open_after_all_that(database):
    for _ in range(3):
        backend = SqliteBackend(database)
        backend.open(QUICK)
        claim(backend, "job", now_ms())
        remove(database, "-wal", "-shm")
        claim(backend, "job", now_ms())
        backend.close()
        assert open_files(database) == []
