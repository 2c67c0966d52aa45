"""Opening a SQLite store: what is refused, and what the refusal says."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import pytest

from anarchon._values import Limits
from anarchon.backends import _sqlite_files as files
from anarchon.backends.base import FORMAT_VERSION
from anarchon.backends.sqlite import SqliteBackend
from anarchon.errors import BackendError, BackendUnavailable, ConfigurationError, ServerTooOld

QUICK = Limits(connect=0.4, quick=0.2, call=0.4)
NOBODY = 65534


@pytest.fixture
def database(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def as_nobody(tmp_path):
    """Let the test run as a user who may do nothing; root may write anything."""
    if os.geteuid() != 0:
        yield
        return
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder.is_relative_to("/tmp/pytest-of-root"):
            folder.chmod(0o755)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def refusal(backend, kind=BackendUnavailable):
    """Return what `open` says when it refuses, and check that it left nothing open."""
    begun = time.monotonic()
    with pytest.raises(BackendError) as raised:
        backend.open(QUICK)
    assert time.monotonic() - begun < QUICK.connect + 1
    assert type(raised.value) is kind
    backend.close()
    assert not [link for link in backend._links if link() is not None]
    return raised.value


@pytest.mark.parametrize("path", ["", "  ", ":memory:", " :memory: ", "file::memory:?cache=shared"])
def test_a_database_in_memory_is_refused_with_a_hint(path):
    with pytest.raises(ConfigurationError, match=r"MemoryBackend\(\)"):
        SqliteBackend(path)


@pytest.mark.parametrize("path", ["file:jobs.db", "sqlite:///jobs.db", "a\0b", None, 3])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ConfigurationError, match="give the path of a file"):
        SqliteBackend(path)


@pytest.mark.parametrize("namespace", ["", " a", "a\n", "x" * 201, None, "\ud800"])
def test_what_is_no_namespace_is_refused(namespace):
    with pytest.raises(ConfigurationError, match="namespace"):
        SqliteBackend("jobs.db", namespace=namespace)


@pytest.mark.parametrize("synchronous", ["OFF", "full", None])
def test_what_synchronous_can_not_be(synchronous):
    with pytest.raises(ConfigurationError, match='"FULL" or "NORMAL"'):
        SqliteBackend("jobs.db", synchronous=synchronous)


@pytest.mark.parametrize("kind", [str, Path, os.fsencode])
def test_the_path_is_made_absolute_at_construction_and_nothing_is_opened(
    kind, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    backend = SqliteBackend(kind("jobs.db"))
    assert backend.database == str(tmp_path / "jobs.db")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    backend.open(QUICK)
    backend.close()
    assert (tmp_path / "jobs.db").exists()


def test_repr_shows_the_path_and_the_namespace(database):
    assert repr(SqliteBackend(database, namespace="shop")) == (
        f"<SqliteBackend {str(database)!r} namespace='shop'>"
    )


def test_open_tells_what_it_found(database):
    backend = SqliteBackend(database)
    info = backend.open(QUICK)
    assert (info.store, info.version, info.steady) == ("sqlite", sqlite3.sqlite_version, True)
    assert abs(info.store_ms - time.time() * 1000) < 5000
    backend.close()


@pytest.mark.parametrize("mode", ["FULL", "NORMAL"])
def test_the_file_gets_a_write_ahead_log_and_the_synchronisation_asked_for(database, mode):
    backend = SqliteBackend(database, synchronous=mode)
    backend.open(QUICK)
    backend.look([], owner=("a", "a"))
    connection = backend._idle[-1]._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == ({"FULL": 2, "NORMAL": 1}[mode],)
    backend.close()


def test_a_missing_folder(tmp_path):
    said = refusal(SqliteBackend(tmp_path / "no" / "jobs.db"))
    assert f"the folder {tmp_path / 'no'} doesn't exist; create it" in str(said)
    assert isinstance(said.__cause__, sqlite3.OperationalError)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_the_file(tmp_path):
    assert "it is a folder" in str(refusal(SqliteBackend(tmp_path)))


def test_a_file_that_is_no_database(database):
    database.write_text("job: nightly\n" * 1000)
    said = refusal(SqliteBackend(database))
    assert "it is no SQLite database; name another file" in str(said)
    assert isinstance(said.__cause__, sqlite3.DatabaseError)
    assert database.read_text().startswith("job: nightly")


def test_a_folder_without_write_permission(database, as_nobody):
    said = refusal(SqliteBackend(database))
    assert "give write permission on file and folder" in str(said)


def test_a_file_that_is_read_only(database, request):
    SqliteBackend(database).open(QUICK)
    database.chmod(0o644)
    request.getfixturevalue("as_nobody")
    said = refusal(SqliteBackend(database))
    assert "write permission" in str(said)
    assert isinstance(said.__cause__, sqlite3.OperationalError)


def test_a_file_that_another_program_holds(database):
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    other.execute("CREATE TABLE theirs (x)")
    said = refusal(SqliteBackend(database))
    assert "another program holds its lock" in str(said)
    other.execute("COMMIT")
    other.close()
    backend = SqliteBackend(database)
    backend.open(QUICK)
    backend.close()


def test_a_write_lock_that_is_held_is_noticed_at_open(database):
    SqliteBackend(database).open(QUICK)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "another program holds its lock" in str(refusal(SqliteBackend(database)))
    other.close()


def test_a_newer_format_is_refused(database):
    SqliteBackend(database).open(QUICK)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("UPDATE anarchon_format SET version = ?", (FORMAT_VERSION + 1,))
    other.close()
    backend = SqliteBackend(database)
    said = refusal(backend, BackendError)
    assert f"format {FORMAT_VERSION + 1}" in str(said)
    assert "upgrade it, or use another file" in str(said)
    with pytest.raises(BackendError, match="upgrade"):
        backend.history(None, limit=1)


def test_an_old_sqlite_is_refused(database, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 30, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.30.1")
    said = refusal(SqliteBackend(database), ServerTooOld)
    assert "3.30.1" in str(said)
    assert "3.31" in str(said)
    assert not database.exists()


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "NFS4", "ceph"])
def test_a_network_file_system_is_refused(database, kind):
    backend = SqliteBackend(database)
    backend._file_system_of = lambda path: kind
    said = refusal(backend)
    assert f"network file system ({kind})" in str(said)
    assert not database.exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuseblk", "zfs", ""])
def test_a_local_file_system_is_not(database, kind):
    backend = SqliteBackend(database)
    backend._file_system_of = lambda path: kind
    backend.open(QUICK)
    backend.close()


def test_the_file_system_is_that_of_the_longest_mount_point(tmp_path, monkeypatch):
    lines = [
        "27 1 254:0 / / rw - ext4 /dev/vda rw",
        "30 27 0:25 / /data rw,relatime shared:1 - nfs4 server:/data rw",
        "31 30 0:26 / /data/my\\040disk rw - xfs /dev/sdb rw",
        "32 27 0:27 / /top rw - ext4 /dev/sdc rw",
        "33 27 0:28 / /top rw - cifs //server/top rw",
    ]
    real_open = open

    def fake_open(path, *args, **kwargs):
        if path == "/proc/self/mountinfo":
            path = tmp_path / "mountinfo"
        return real_open(path, *args, **kwargs)

    (tmp_path / "mountinfo").write_text("\n".join(lines))
    monkeypatch.setattr("builtins.open", fake_open)
    assert files.file_system_of("/srv/jobs.db") == "ext4"
    assert files.file_system_of("/data/jobs.db") == "nfs4"
    assert files.file_system_of("/database/jobs.db") == "ext4"
    assert files.file_system_of("/data/my disk/jobs.db") == "xfs"
    assert files.file_system_of("/top/jobs.db") == "cifs"  # the later mount is on top


def test_the_file_system_of_this_machine_is_known_and_local(tmp_path):
    kind = files.file_system_of(str(tmp_path / "jobs.db"))
    assert kind
    assert not files.is_network(kind)


def test_an_unknown_file_system_is_let_pass(monkeypatch, tmp_path):
    def no_proc(*args, **kwargs):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", no_proc)
    assert files.file_system_of(str(tmp_path)) == ""
    assert files.boot_id() == ""
    assert not files.is_network("")


def test_nothing_is_asked_of_a_store_that_is_not_open(database):
    backend = SqliteBackend(database)
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="not open"):
            backend.look([], owner=("a", "a"))
        with pytest.raises(BackendUnavailable, match="not open"):
            backend.prepare(["job"])
        backend.open(QUICK)
        backend.prepare(["job"])
        backend.close()
        backend.close()


def test_reading_creates_no_file(database):
    backend = SqliteBackend(database)
    assert backend.history(None, limit=10) == []
    assert not database.exists()


def test_somebody_else_s_database_reads_as_empty_and_is_left_alone(database):
    other = sqlite3.connect(database)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    assert SqliteBackend(database).history("job", limit=10) == []
    other = sqlite3.connect(database)
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    other.close()


def test_a_pause_before_the_first_start_is_kept(database):
    SqliteBackend(database).pause("job", duration_ms=None)
    rows = sqlite3.connect(database)
    found = rows.execute("SELECT job FROM anarchon_job WHERE paused_until_ms > 0").fetchall()
    rows.close()
    assert found == [("job",)]
