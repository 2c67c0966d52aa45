"""What is wrong with a store, and with a scheduler: each finding, with its fix."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest

from anarchon import (
    BackendError,
    MemoryBackend,
    PostgresBackend,
    RedisBackend,
    Scheduler,
    SqliteBackend,
)
from anarchon import _commands_doctor as doctor
from anarchon._commands_doctor import examine
from anarchon.testing import ClaimOnly, FaultyBackend
from tests.commands.presences import present
from tests.servers.redis import RedisServer


@pytest.fixture(autouse=True)
def one_edition(monkeypatch):
    monkeypatch.setattr(doctor, "tzdata_version", lambda: "2026a")
    monkeypatch.setattr(doctor, "package_version", lambda: "2026a")


def found(scheduler: Scheduler, status: int = 0) -> dict[str, str]:
    """Return the lines of an examination by the names of the findings."""
    answer = examine(scheduler)
    assert (answer.status, answer.error) == (status, None)
    assert answer.data["ok"] == (status == 0)
    lines = answer.text.splitlines()
    assert len(lines) == len(answer.data["findings"])
    told = {}
    for line, one in zip(lines, answer.data["findings"], strict=True):
        assert line == f"{one['level']:5}  {one['name']}: {one['text']}"
        told[one["name"]] = f"{one['level']}: {one['text']}"
    return told


def test_a_store_that_is_well_and_jobs(tmp_path):
    backend = SqliteBackend(tmp_path / "jobs.db")
    scheduler = Scheduler(backend)
    scheduler.every("sync", "1h", lambda: None)
    told = found(scheduler)
    assert (
        told["store"] == f"note: {backend!r}: there is no such file yet; the first start() makes it"
    )
    assert list(tmp_path.iterdir()) == []
    with scheduler:
        pass
    told = found(scheduler)
    version = re.fullmatch(r"ok: (.*): sqlite 3\.[\d.]+", told.pop("store"))
    assert version[1] == repr(backend)
    assert told == {"jobs": "ok: 1 job", "tzdata": "ok: the time zone database is 2026a"}


def test_a_file_that_can_not_be_made_or_used(tmp_path):
    backend = SqliteBackend(tmp_path / "jobs.db")
    backend._file_system_of = lambda path: "nfs4"
    said = "on a network file system (nfs4), where its locks don't hold: use a file on a local"
    assert f"wrong: {tmp_path}/jobs.db would be {said}" in found(Scheduler(backend), 1)["store"]
    (tmp_path / "jobs.db").touch()
    assert (
        f"wrong: The SQLite store {tmp_path}/jobs.db is {said}"
        in (found(Scheduler(backend), 1)["store"])
    )
    told = found(Scheduler(SqliteBackend(tmp_path / "none" / "jobs.db")), 1)
    assert f"the folder {tmp_path}/none doesn't exist; create it" in told["store"]


def test_a_folder_without_rights(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    told = found(Scheduler(SqliteBackend(tmp_path / "jobs.db")), 1)
    assert (
        told["store"]
        == f"wrong: this user may create no file in {tmp_path}: give write permission on it."
    )


def test_a_store_that_is_down_shows_no_password():
    told = found(Scheduler(RedisBackend("redis://:hunter2@127.0.0.1:1/0")), 1)
    assert told["store"].startswith("wrong: Redis at redis://127.0.0.1:1/0 can't be asked")
    assert "hunter2" not in str(told)


def test_a_driver_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    told = found(Scheduler(RedisBackend("redis://127.0.0.1:1/0")), 1)
    assert "anarchon[redis]" in told["store"]


def test_settings_of_a_redis_and_what_its_user_may(own_server):
    server = own_server(
        RedisServer(acl=["app on >hunter2 ~* +@all", "less on >hunter2 ~* +@all -zrem"])
    )
    address = server.url.replace("//", "//app:hunter2@")
    told = found(Scheduler(RedisBackend(address)), 1)
    assert re.fullmatch(r"ok: <RedisBackend .*>: redis 8\.2\.\d+", told["store"])
    assert told["persistence"].startswith("wrong: the server saves nothing to disk")
    assert re.fullmatch(
        r"ok: the store's clock is \d+ ms (ahead of|behind) this host's \(known to at most \d+ ms"
        r"\)",
        told["clock"],
    )
    assert set(told) == {"store", "persistence", "clock", "tzdata"}
    silent = RedisBackend(address, silence=["persistence"])
    assert "persistence" not in found(Scheduler(silent))
    told = found(Scheduler(RedisBackend(address.replace("app", "less"))), 1)
    assert "zrem" in told["store"]
    assert "hunter2" not in str(told)


def test_rights_on_a_postgres_are_looked_at_and_nothing_is_made(shared_server):
    server = shared_server("postgres-18")
    database, role = server.create_database(), f"less_{id(server)}"
    server.create_role(role)
    owner = Scheduler(PostgresBackend(server.url(database), silence=["fsync"]))
    less = Scheduler(PostgresBackend(server.url(database, role), silence=["fsync"]))
    there = "SELECT count(*) FROM pg_class WHERE relname LIKE 'anarchon%'"
    told = found(less, 1)
    assert told["store"].startswith("wrong: This role may not create what the store needs in the")
    assert "anarchon schema" in told["store"]
    told = found(owner)
    assert told["store"].endswith("; nothing is prepared yet, the first start() does that")
    assert server.ask(there, database=database) == [(0,)]
    with owner:
        pass
    assert found(owner)["store"].startswith("ok: <PostgresBackend ")
    assert "permission denied for table anarchon_format" in found(less, 1)["store"]
    server.ask(f"GRANT SELECT ON anarchon_format TO {role}", database=database)
    told = found(less, 1)
    assert f"The role {role} lacks rights" in told["store"]
    assert "GRANT SELECT ON TABLE" in told["store"]
    owner.every("sync", "1h", lambda: None)
    owner.pause("sync")
    assert found(owner)["paused"] == (
        "note: paused by themselves: sync; `anarchon resume JOB` ends that."
    )
    owner.pause()
    owner.resume("sync")
    assert found(owner)["paused"].startswith("note: every job is paused; ")
    server.drop_database(database)


def test_a_store_in_memory_is_nobody_else_s():
    told = found(Scheduler(MemoryBackend()), 1)
    assert told["store"].endswith("so each would run every job; name another store.")


def test_a_backend_of_somebody_else(tmp_path):
    backend = SqliteBackend(tmp_path / "jobs.db")
    assert found(Scheduler(ClaimOnly(backend)))["store"].startswith("ok: ")


def test_what_is_wrong_with_a_scheduler(tmp_path):
    scheduler = Scheduler(SqliteBackend(tmp_path / "jobs.db"), enabled=False)
    scheduler.every("lost", "1h")  # no handler, and put above nothing
    scheduler.once("old", "2020-01-01T00:00Z", lambda: None)

    class Broken:
        def next_after(self, _t):
            raise OSError("no calendar")

        latest = next_after

    scheduler.schedule("broken", Broken(), lambda: None)
    told = found(scheduler, 1)
    assert told["disabled"] == "wrong: enabled=False: nothing runs; set it to True."
    assert told["unapplied"].startswith("wrong: ")
    assert "'lost'" in told["unapplied"]
    assert told["no-more-slots"].startswith("note: old has no more slots")
    assert "OSError: no calendar" in told["schedule"]


def test_what_an_import_starts(tmp_path):
    scheduler = Scheduler(SqliteBackend(tmp_path / "jobs.db"))
    for called, status in (({"start"}, 1), ({"run"}, 0), (set(), 0)):
        answer = examine(scheduler, called=called)
        names = [finding["name"] for finding in answer.data["findings"]]
        assert answer.status == status
        assert ("starts-at-import" in names, "runs-at-import" in names) == (
            "start" in called,
            "run" in called,
        )


@pytest.mark.parametrize(
    ("host", "package", "line"),
    [
        ("unknown", "", "wrong: there is no time zone database here, so only UTC works: python -m"),
        (
            "2025b",
            "2026a",
            "note: the host's time zone database is 2025b, and the package tzdata has 2026a",
        ),
        ("2026b", "2026a", "ok: the time zone database is 2026b"),
        ("2026b", "", "ok: the time zone database is 2026b"),
    ],
)
def test_editions_of_time_zones(tmp_path, monkeypatch, host, package, line):
    monkeypatch.setattr(doctor, "tzdata_version", lambda: host)
    monkeypatch.setattr(doctor, "package_version", lambda: package)
    scheduler = Scheduler(SqliteBackend(tmp_path / "jobs.db"))
    assert found(scheduler, int(host == "unknown"))["tzdata"].startswith(line)


@pytest.mark.parametrize(("options", "status"), [({}, 1), ({"enable-threads": b"true"}, 0)])
def test_uwsgi_without_threads(tmp_path, monkeypatch, options, status):
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(opt=options))
    told = found(Scheduler(SqliteBackend(tmp_path / "jobs.db")), status)
    assert ("enable-threads" in told.get("uwsgi-threads", "")) == (status == 1)


def test_instances_that_disagree(tmp_path):
    path = tmp_path / "jobs.db"
    scheduler = Scheduler(SqliteBackend(path))
    present(path, "web-1", tzdata="2026a")
    present(path, "gone", tzdata="2020a", jobs={"sync": "3"}, expected=-3_600_000)
    assert set(found(scheduler)) == {"store", "tzdata"}
    present(path, "web-2", tzdata="2026a", jobs={"sync": "2"})
    told = found(scheduler)
    assert set(told) == {"store", "tzdata", "schedules-differ"}
    assert told["schedules-differ"].startswith(
        "note: the schedule of sync differs between web-1, web-2: "
    )


def test_instances_with_different_time_zone_databases(tmp_path):
    path = tmp_path / "jobs.db"
    scheduler = Scheduler(SqliteBackend(path))
    present(path, "web-1", tzdata="2025b")
    assert found(scheduler)["tzdata-differs"].startswith(
        "note: this process has the time zone database 2026a, and instances have 2025b: "
    )
    present(path, "web-2", tzdata="2026a")
    assert found(scheduler)["tzdata-differs"].startswith(
        "note: instances have different time zone databases: 2025b on web-1; 2026a on web-2. "
    )
    present(path, "web-2", tzdata="2024a")
    names = [one.name for one in examine(scheduler).rows]
    assert names.count("tzdata-differs") == 1


def test_two_living_processes_with_one_instance_id(tmp_path):
    path = tmp_path / "jobs.db"
    for pid in (7, 9):
        present(path, "web", pid=pid, tzdata="2026a")
    told = found(Scheduler(SqliteBackend(path)), 1)
    assert told["instance-id"].startswith("wrong: 2 processes have the id web: box:7 since ")
    present(path, "web", pid=11, tzdata="2026a", expected=-3_600_000)
    assert "2 processes" in found(Scheduler(SqliteBackend(path)), 1)["instance-id"]


def test_who_is_there_may_be_unreadable(tmp_path):
    backend = FaultyBackend(SqliteBackend(tmp_path / "jobs.db"))
    scheduler = Scheduler(backend)
    with scheduler:
        pass
    backend.fail("instances", error=BackendError("no such table"))
    told = found(scheduler)
    assert told["instances"] == "note: who is there can't be read: no such table"
