"""A SQLite file that can't be used: at the start, and while jobs run."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager

import pytest

from tests.processes.fleet import since, soon
from tests.processes.ledger import check_ledger, check_tellings

# Outages are to be shorter than a lease though a busy machine notices them late, and calls may
# take longer, so that a stall is told as none.
UNHURRIED = {"lease": "9s", "heartbeat": "1s"}
TICK = {"name": "tick", "every": "1s"}
LONGEST_START = 7.0  # the connect timeout is 5 s


# --- what is wrong, and how it is mended ---


class Trouble:
    """Something that keeps a store from being opened, until it is mended."""

    error = "BackendUnavailable"
    says = ""
    patient = True
    path = "jobs.db"
    options: dict = {}  # noqa: RUF012 - never changed

    def __init__(self, database):
        self.database = database

    def make(self):
        raise NotImplementedError

    def mend(self):
        self.database.unlink()


class NoFolder(Trouble):
    path = "missing/jobs.db"
    says = "doesn't exist; create it"

    def make(self):
        pass

    def mend(self):
        self.database.parent.mkdir()


class Folder(Trouble):
    says = "it is a folder"

    def make(self):
        self.database.mkdir()

    def mend(self):
        self.database.rmdir()


class NoDatabase(Trouble):
    says = "it is no SQLite database"

    def make(self):
        self.database.write_text("these are notes, and no database at all\n" * 100)


class NewerFormat(Trouble):
    error = "BackendError"
    says = "written by a newer anarchon"
    patient = False

    def make(self):
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("CREATE TABLE anarchon_format (version INTEGER)")
            connection.execute("INSERT INTO anarchon_format VALUES (99)")


class ReadOnlyFolder(Trouble):
    path = "locked/jobs.db"
    says = "give write permission on file and folder"
    options = {"powerless": True}  # noqa: RUF012

    def make(self):
        self.database.parent.mkdir(mode=0o555)

    def mend(self):
        self.database.parent.chmod(0o755)


class ReadOnlyFile(Trouble):
    says = "this user may not write it"
    options = {"powerless": True}  # noqa: RUF012

    def make(self):
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute("CREATE TABLE theirs (value)")
        self.database.chmod(0o444)

    def mend(self):
        self.database.chmod(0o644)


class Locked(Trouble):
    says = "another program holds its lock"

    def make(self):
        self.holder = sqlite3.connect(self.database, isolation_level=None)
        self.holder.execute("BEGIN EXCLUSIVE")

    def mend(self):
        self.holder.close()


TROUBLES = [NoFolder, Folder, NoDatabase, NewerFormat, ReadOnlyFolder, ReadOnlyFile, Locked]


@pytest.mark.parametrize("kind", TROUBLES, ids=lambda kind: kind.__name__)
def test_start_says_what_is_wrong_and_works_when_it_is_mended(fleet, kind):
    """BR-074, and 9.12 of the promises."""
    trouble = kind(fleet.folder / kind.path)
    trouble.make()
    options = {"database": str(trouble.database), "scheduler": UNHURRIED, **kind.options}
    process = fleet.start(TICK, program="storing:obey", **options)
    process.tell("start")
    refused = process.expect("refused")
    assert refused["names"][0] == kind.error
    assert refused["state"] == "idle"
    assert kind.says in refused["text"]
    assert str(trouble.database) in refused["text"]
    assert refused["took"] < LONGEST_START
    assert refused["cause"] == ("NoneType" if kind is NewerFormat else refused["cause"])
    process.tell("start patiently")
    returned = process.expect("returned")
    assert returned["took"] < 2
    assert returned["state"] == "starting"
    if kind.patient:
        process.expect("store_down")
    else:
        process.expect("no more starting", state="idle")
    trouble.mend()
    if not kind.patient:
        process.tell("start")
    process.expect("run", event="success")
    process.tell("stop")
    process.expect("stopped", state="idle")
    process.tell("")
    process.end()
    if kind.patient:
        check_outage(process)
    else:
        wrong = [line for line in process.log("WARNING", "ERROR") if ": missed (" not in line]
        assert len(wrong) == 1  # that the start in the background was given up


# --- while jobs run ---


@contextmanager
def exclusive_lock(database):
    """Hold the lock of writers, as another program may do for a long time."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=10)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


def check_outage(process, rounds=1):
    """Check the words about some outages, and that nothing else was wrong."""
    assert len(process.said("store_down")) == len(process.said("store_up")) == rounds
    # What was due in an outage is missed, also when it ends right before the next slot.
    lines = [line for line in process.log("WARNING", "ERROR") if ": missed (" not in line]
    downs = [line for line in lines if line.startswith("store down: ")]
    ups = [line for line in lines if line.startswith("store up again after ")]
    assert len(downs) == len(ups) == rounds
    assert sorted(downs + ups) == sorted(lines)
    assert all("can't be used" in line for line in downs), downs


def expect_slots(process, count=2):
    """See the next slots run at their times."""
    first = soon() // 1000 * 1000 + 1000
    # A process that was told to start a moment ago may come too late for that one.
    seen = process.expect("run", event="success", job="tick", slot=since(first), within=5)
    for number in range(1, count):
        slot = seen["slot"] + number * 1000
        process.expect("run", event="success", job="tick", slot=slot, within=5)


def test_a_file_locked_by_another_program_is_an_outage_and_heals_by_itself(fleet):
    """BR-026: each of three outages is told once, and the slots after it run."""
    process = fleet.serve(TICK, scheduler=UNHURRIED)
    expect_slots(process, 1)
    for number in range(1, 4):
        with exclusive_lock(fleet.database):
            process.expect("store_down", count=number)
            # However long it lasts there is no second line.
            time.sleep(1.0)
        process.expect("store_up", count=number, within=5)
        expect_slots(process, 1)
    process.stop()
    check_outage(process, rounds=3)
    check_tellings(fleet, "tick")
    runs = fleet.history("tick")
    check_ledger(runs, runs[0].slot, runs[-1].slot, 1000)


def test_a_run_goes_on_through_a_short_outage(fleet):
    work = {"name": "work", "once": soon(), "do": "cooperative", "seconds": 3}
    backup = fleet.hold(work, scheduler=UNHURRIED)
    process = fleet.start(work, scheduler=UNHURRIED)
    process.expect("begin")
    backup.go()
    with exclusive_lock(fleet.database):
        process.expect("store_down")
    process.expect("store_up")
    process.expect("run", event="success")
    fleet.stop()
    assert fleet.attempts("work") == [(1, "success")]
    check_outage(process)
    assert backup.said("begin") == []


def test_a_run_that_ends_in_an_outage_is_recorded_after_it(fleet):
    work = {"name": "work", "once": soon(), "do": "cooperative", "seconds": 1.5}
    process = fleet.serve(work, scheduler=UNHURRIED)
    process.expect("begin")
    with exclusive_lock(fleet.database):
        process.expect("store_down")
        process.expect("end")
    process.expect("run", event="success")
    process.stop()
    assert fleet.attempts("work") == [(1, "success")]
    check_outage(process)


@pytest.mark.parametrize(
    ("do", "ends"),
    [
        ("cooperative", [(1, "interrupted"), (2, "success")]),
        ("returning", [(1, "success")]),
    ],
)
def test_a_run_gives_itself_up_when_an_outage_outlasts_its_lease(fleet, do, ends):
    work = {"name": "work", "once": soon(), "do": do, "later": "quick"}
    process = fleet.serve(work)
    process.expect("begin")
    with exclusive_lock(fleet.database):
        backup = fleet.start(work, retry=True)
        locked = time.monotonic()
        ended = process.expect("end")
    assert ended["abort"] == "lost"
    # It gives up before its lease has ended, counted from the last renewal.
    assert ended["at"] - locked < 3.0
    process.expect("store_up")
    fleet.expect("run", event="success")
    backup.expect("running")
    fleet.stop()
    assert fleet.attempts("work") == ends
    check_tellings(fleet, "work")


def test_a_deleted_file_is_made_anew(fleet):
    process = fleet.serve(TICK, scheduler=UNHURRIED)
    expect_slots(process)
    for end in ("", "-wal", "-shm"):
        fleet.database.with_name(f"jobs.db{end}").unlink(missing_ok=True)
    expect_slots(process)
    process.stop()
    assert len(fleet.history("tick")) in (2, 3)
    assert process.log("ERROR") == []


def test_a_file_that_may_grow_no_more_is_an_outage(fleet):
    """As with a quota."""
    process = fleet.start(TICK, program="storing:obey", scheduler=UNHURRIED)
    process.tell("start")
    expect_slots(process)
    process.tell("limit")
    process.expect("store_down")
    process.tell("unlimit")
    process.expect("store_up")
    expect_slots(process)
    process.tell("stop")
    process.tell("")
    process.end()
    check_outage(process)


def test_a_full_disk_at_the_start_and_later(fleet):
    folder = fleet.folder / "disk"
    folder.mkdir()
    # The second job writes more, since the log of the file has room of its own at first.
    jobs = (TICK, {"name": "fast", "every": "100ms"})
    how = {"program": "storing:obey", "scheduler": UNHURRIED}
    process = fleet.start(*jobs, tmpfs=True, database=f"{folder}/jobs.db", **how)
    mounted = process.expect("mounted")["done"]
    # A user who may not mount a disk has a limit on the size of files instead.
    fill, empty = ("fill", "empty") if mounted else ("limit", "unlimit")
    process.tell(fill)
    process.tell("start")
    refused = process.expect("refused")
    assert "BackendUnavailable" in refused["names"]
    assert refused["state"] == "idle"
    assert ("is full; make room" if mounted else "fails or is full") in refused["text"]
    process.tell(empty)
    process.tell("start")
    expect_slots(process, 1)
    process.tell(fill)
    process.expect("store_down")
    process.tell(empty)
    process.expect("store_up")
    expect_slots(process, 1)
    process.tell("stop")
    process.tell("")
    process.end()
    check_outage(process)
    assert not (mounted and list(folder.iterdir()))  # nobody else saw that disk
