"""Many processes on one SQLite file, as a service has them."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anarchon._values import Held, Limits, Owner, Pace, Won
from anarchon.errors import BackendUnavailable
from tests.stores.helpers import claim, lease, now_ms, opened, wish

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def database(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def spawn():
    """Start workers, and end those that are left afterwards."""
    started = []

    def start(*arguments, **options):
        command = [sys.executable, "-W", "error", "-m", "tests.stores.worker", *map(str, arguments)]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def answers(processes):
    """Return what each process printed; fail unless all ended well and said nothing else."""
    found = []
    for process in processes:
        out, err = process.communicate(timeout=90)
        assert (process.returncode, err) == (0, "")
        found.append(json.loads(out))
    return found


def let_go(processes):
    """Wait until all have loaded everything, and let them go on at once."""
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return answers(processes)


@pytest.mark.serial
def test_fifty_processes_open_an_empty_store_at_once(spawn, database):
    """BR-069 and BR-031: no error, one schema, one winner."""
    wins = let_go([spawn("start", database, now_ms()) for _ in range(50)])
    assert sorted(wins) == [False] * 49 + [True]
    rows = sqlite3.connect(database)
    assert rows.execute("SELECT version FROM anarchon_format").fetchall() == [(1,)]
    assert rows.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    rows.close()


@pytest.mark.parametrize("round_number", range(3))
def test_eight_processes_open_an_empty_store_at_once(spawn, database, round_number):
    """The same, small enough for every run."""
    wins = let_go([spawn("start", database, now_ms()) for _ in range(8)])
    assert sum(wins) == 1


@pytest.mark.serial
def test_sixteen_processes_race_for_slots(spawn, database):
    """BR-025, BR-064: each slot has exactly one winner."""
    slots, base_ms = 100, now_ms() - 5_000
    won = let_go([spawn("race", database, base_ms, slots) for _ in range(16)])
    assert sorted(slot for some in won for slot in some) == list(range(base_ms, base_ms + slots))
    with opened(database) as backend:
        runs = backend.history("job", limit=1000)
    assert [(run.status, run.attempt) for run in runs] == [("success", 1)] * slots


def test_a_writer_killed_anywhere_leaves_a_sound_store(spawn, database):
    """BR-029: what it had acknowledged is there, and nobody waits for it."""
    base_ms = now_ms() - 100_000
    for n in range(6):
        process = spawn("write", database, base_ms + 10_000 * n)
        last = [process.stdout.readline() for _ in range(5 + 7 * n)][-1]
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split()
        slot_ms = int((rest or [last])[-1])
        with opened(database, Limits()) as backend:
            begun = time.monotonic()
            answer = claim(backend, "job", slot_ms, by="after", skip_overlap=False)
            assert not isinstance(answer, Won)  # its claim was answered, so it is kept
            assert isinstance(claim(backend, f"other-{n}", slot_ms), Won)
            assert time.monotonic() - begun < 2
    rows = sqlite3.connect(database)
    assert rows.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    rows.close()


def test_a_writer_killed_inside_a_transaction_leaves_nothing_of_it(spawn, database):
    with opened(database):
        process = spawn("inside", database)
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    with opened(database) as backend:
        assert isinstance(claim(backend, "job", now_ms()), Won)


def test_a_writer_frozen_inside_a_transaction_is_an_outage_that_ends(spawn, database):
    """Losing a race goes on meanwhile; writing fails in time, and works again afterwards."""
    slot_ms = now_ms()
    with opened(database) as backend:
        claim(backend, "job", slot_ms)
        process = spawn("inside", database)
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGSTOP)
        assert isinstance(claim(backend, "job", slot_ms, by="b"), Held)
        begun = time.monotonic()
        with pytest.raises(BackendUnavailable, match="another program holds its lock"):
            claim(backend, "other", slot_ms)
        assert time.monotonic() - begun < 1.5
        process.send_signal(signal.SIGKILL)
        process.send_signal(signal.SIGCONT)
        process.wait()
        assert isinstance(claim(backend, "other", slot_ms), Won)


def test_another_boot_ends_every_lease(database):
    """The monotonic clock starts again: what it said before means nothing."""
    slot_ms = now_ms()
    with opened(database) as before:
        before._boot = "one boot"
        claim(before, "job", slot_ms, by="a")
        assert isinstance(claim(before, "job", slot_ms, by="b", attempt=2, beat=0), Held)
    with opened(database) as after:
        after._boot = "another boot"
        (run,) = after.look(["job"], owner=Owner("b", "b")).wrong
        assert run.left_ms <= 0
        answer = claim(after, "job", slot_ms, by="b", attempt=2, beat=0)
        assert isinstance(answer, Won)
        assert answer.attempt == 2


def test_a_renewal_after_another_boot_counts_in_that_one(database):
    """A virtual machine that was moved while it ran: its owner is alive, and says so."""
    slot_ms = now_ms()
    with opened(database) as backend:
        backend._boot = "one boot"
        claim(backend, "job", slot_ms, by="a")
        backend._boot = "another boot"
        renewed = backend.renew([lease("job", slot_ms)], owner=Owner("a", "a"), lease_ms=30_000)
        assert renewed.lost == ()
        answer = claim(backend, "job", slot_ms, by="b", attempt=2, beat=1)
        assert isinstance(answer, Held)
        assert answer.run.left_ms > 0


def test_the_boot_is_the_host_s(database):
    with opened(database) as backend:
        claim(backend, "job", now_ms())
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert backend._boot == boot
    rows = sqlite3.connect(database)
    assert rows.execute("SELECT boot FROM anarchon_run").fetchall() == [(boot,)]
    rows.close()


def test_a_batch_is_one_transaction(database):
    """Whoever looks sees all of it or nothing."""
    with opened(database) as backend:
        wishes = [wish(f"job-{n}", now_ms()) for n in range(50)]
        begun = backend._now().wall_ms
        claims = backend.claim(wishes, owner=Owner("a", "a"), wins=50, pace=Pace(0.0))
        assert all(isinstance(answer, Won) for answer in claims.answers)
        assert claims.store_ms >= begun
        rows = sqlite3.connect(database)
        ends = rows.execute("SELECT DISTINCT end_ms FROM anarchon_run").fetchall()
        rows.close()
        assert len(ends) == 1
