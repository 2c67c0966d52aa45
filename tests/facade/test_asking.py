"""What a scheduler answers: history, slots, health, and the public names."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

import anarchon
from anarchon import ConfigurationError, JobNotFound, MemoryBackend, SqliteBackend
from anarchon.backends._local import HostClock
from anarchon.testing import FaultyBackend, ManualClock
from tests.facade.helpers import Door, until


@pytest.fixture(params=["memory", "sqlite"])
def backend(request, tmp_path):
    return MemoryBackend() if request.param == "memory" else SqliteBackend(tmp_path / "jobs.db")


def test_reads_work_in_every_state(make, backend):
    scheduler = make(backend)
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    assert scheduler.history() == []
    assert scheduler.last_run("job") is None
    scheduler.start()
    scheduler.run_now("job")
    until(lambda: scheduler.last_run("job", status="success") is not None)
    run = scheduler.last_run("job")
    assert scheduler.history("job", status="success") == [run]
    scheduler.stop()
    assert scheduler.history("job") == [run]
    assert scheduler.last_run("job") == run
    assert scheduler.history("never heard of it") == []


def test_history_has_pages(make):
    scheduler = make(workers=1)
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    with scheduler:
        for _ in range(5):
            scheduler.run_now("job")
    everything = scheduler.history("job")
    assert len(everything) == 5
    first = scheduler.history("job", limit=2)
    second = scheduler.history("job", limit=2, before=first[-1])
    third = scheduler.history("job", limit=2, before=second[-1])
    assert [*first, *second, *third] == everything
    assert scheduler.history("job", before=everything[-1]) == []


def test_last_run_is_never_a_skip(make):
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    scheduler = make()
    clock.attach(scheduler)
    scheduler.every("job", "1m", lambda: None)
    scheduler.start()
    clock.advance("61s")
    ran = scheduler.last_run("job")
    assert ran.status == "success"
    scheduler.pause("job")
    clock.advance("2h")
    assert scheduler.history("job")[0].status == "skipped"
    assert scheduler.last_run("job") == ran
    assert scheduler.last_run("job", status="skipped") is None


def test_pause_and_resume_work_in_every_state(make, backend):
    scheduler = make(backend)
    scheduler.pause()
    scheduler.resume()
    scheduler.pause("job", duration="1h")
    scheduler.start()
    scheduler.resume("job")
    scheduler.pause("not defined here")
    scheduler.stop()
    scheduler.resume("not defined here")


@pytest.mark.parametrize(
    ("method", "arguments", "named"),
    [
        ("history", {"name": 3}, "name"),
        ("history", {"limit": 0}, "limit"),
        ("history", {"limit": 1001}, "limit"),
        ("history", {"limit": True}, "limit"),
        ("history", {"before": "run"}, "before"),
        ("history", {"status": "ok"}, "status"),
        ("last_run", {"name": "job", "status": "ok"}, "status"),
        ("last_run", {"name": 3}, "name"),
        ("next_slots", {"name": "job", "n": 0}, "n"),
        ("next_slots", {"name": "job", "n": 1.0}, "n"),
        ("pause", {"duration": 0}, "duration"),
        ("pause", {"duration": "soon"}, "duration"),
        ("pause", {"name": b"job"}, "name"),
        ("resume", {"name": 7}, "name"),
        ("stop", {"timeout": -1}, "timeout"),
        ("stop", {"timeout": "soon"}, "timeout"),
        ("wait", {"timeout": math.nan}, "timeout"),
    ],
)
def test_wrong_arguments_are_named(make, method, arguments, named):
    scheduler = make()
    scheduler.every("job", "1h", lambda: None)
    if method in ("stop", "wait"):
        scheduler.start()
    with pytest.raises(ConfigurationError, match=named):
        getattr(scheduler, method)(**arguments)


def test_next_slots_are_aware_and_in_order(make):
    scheduler = make()
    ManualClock(datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)).attach(scheduler)
    scheduler.every("tick", "10s", lambda: None)
    scheduler.cron("noon", "0 12 * * *", lambda: None, timezone="Europe/Athens")
    scheduler.once("once", "2026-06-01T00:00:00Z", lambda: None)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert scheduler.next_slots("tick", 3) == [moment.replace(second=s) for s in (10, 20, 30)]
    assert scheduler.next_slots("noon", 1) == [moment.replace(hour=10)]
    assert scheduler.next_slots("once") == [datetime(2026, 6, 1, tzinfo=UTC)]
    assert len(scheduler.next_slots("tick", 1000)) == 1000
    with pytest.raises(JobNotFound):
        scheduler.next_slots("tock")


def test_the_scheduler_has_a_default_zone(make):
    scheduler = make(timezone="Europe/Athens")
    ManualClock(datetime(2026, 1, 1, tzinfo=UTC)).attach(scheduler)
    scheduler.cron("noon", "0 12 * * *", lambda: None)
    assert scheduler.next_slots("noon", 1) == [datetime(2026, 1, 1, 10, tzinfo=UTC)]


# --- health ---


def test_health_through_a_life(make):
    door = Door(failures=1)
    scheduler = make(door, workers=3)
    idle = scheduler.health()
    assert (idle.ok, idle.state, idle.store_up) == (False, "idle", False)
    assert idle.reasons == ("the scheduler is idle",)
    go_on = threading.Event()
    scheduler.every("job", "1h", lambda: go_on.wait(20), catch_up=0)
    scheduler.start(retry=True)
    until(lambda: scheduler.state == "running")
    scheduler.submit("job")
    until(lambda: scheduler.health().running == 1)
    running = scheduler.health()
    assert (running.ok, running.store_up, running.stuck, running.reasons) == (True, True, 0, ())
    assert abs((running.last_contact - datetime.now(UTC)).total_seconds()) < 10
    assert abs(running.clock_offset) < 1
    told = json.loads(json.dumps(running.to_dict()))
    assert told["state"] == "running"
    assert told["reasons"] == []
    assert datetime.fromisoformat(told["last_contact"]) == running.last_contact
    go_on.set()


def test_health_knows_of_an_outage(make):
    backend = FaultyBackend(MemoryBackend())
    scheduler = make(backend)
    scheduler.every("job", "100ms", lambda: None)
    scheduler.start()
    backend.fail(times=math.inf)
    until(lambda: not scheduler.health().ok)
    assert scheduler.health().reasons == ("the store can't be reached",)
    backend.heal()
    until(lambda: scheduler.health().ok)


def test_health_and_the_log_know_when_no_handler_can_be_called(make, monkeypatch, caplog):
    start, refusing = threading.Thread.start, [True]

    def refuse(thread):
        if refusing and thread.name.startswith("anarchon-worker"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    clock = ManualClock()
    scheduler = make()
    clock.attach(scheduler)
    scheduler.every("tick", "10s", lambda: None, catch_up=0)
    scheduler.start()
    clock.advance("11s")
    health = scheduler.health()
    assert not health.ok
    assert health.reasons == (
        "the last handler was not called, no thread could be had: can't start new thread",
    )
    assert (health.running, health.free_workers) == (0, 10)
    refusing.clear()
    clock.advance("30s")
    assert scheduler.health().ok
    assert scheduler.history("tick", status="success")
    scheduler.stop(2)
    why = "(no thread could be had: can't start new thread)"
    line = f"interrupted before it started {why}, handed over to another instance"
    assert line in caplog.text
    assert "interrupted after" not in caplog.text


def test_health_and_the_log_know_of_stuck_handlers(make, caplog):
    clock = ManualClock()
    scheduler = make(workers=1)
    clock.attach(scheduler)
    go_on = threading.Event()
    scheduler.every("job", "1h", lambda: go_on.wait(20), timeout="1s", catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    clock.advance("30s")
    health = scheduler.health()
    go_on.set()
    assert health.stuck == 1
    assert not health.ok
    assert "1 handler ignores its abort" in health.reasons[0]
    scheduler.stop()
    stuck = next(r.message for r in caplog.records if "keeps its thread" in r.message)
    assert "go_on.wait(20)" in stuck  # the stack says where


def test_health_and_the_log_know_of_clocks_that_are_far_apart(make, caplog):
    class Ahead(HostClock):
        apart_ms = 300_000

        def wall_ms(self):
            return super().wall_ms() + self.apart_ms

    backend = MemoryBackend()
    backend._time = Ahead()
    scheduler = make(backend)
    scheduler.every("job", "100ms", lambda: None)
    scheduler.start()
    until(lambda: "ahead of this host's" in caplog.text)
    health = scheduler.health()
    assert health.ok  # that is no reason to take a process out of service
    assert health.clock_offset == pytest.approx(300, abs=1)
    assert health.reasons == ("the clocks of store and host are 300.0 s apart",)
    backend._time.apart_ms = 0
    until(lambda: "agree again" in caplog.text)
    scheduler.stop()
    assert len([r for r in caplog.records if "clock" in r.message]) == 2


# --- names ---


def test_every_public_name_is_there_and_listed():
    for name in anarchon.__all__:
        assert getattr(anarchon, name) is getattr(anarchon, name)
    assert set(anarchon.__all__) <= set(dir(anarchon))
    assert sorted(anarchon.__all__) == anarchon.__all__
    with pytest.raises(AttributeError, match="Schedular"):
        anarchon.Schedular  # noqa: B018 - that it raises is what is tested


def test_names_are_loaded_when_they_are_used():
    program = (
        "import sys, anarchon; assert 'anarchon.scheduler' not in sys.modules;"
        "from anarchon import Scheduler, SqliteBackend; assert Scheduler is anarchon.Scheduler;"
        "assert not {'logging', 'anarchon._lifecycle', 'sqlite3'} & set(sys.modules)"
    )
    folder = Path(anarchon.__file__).parent.parent
    subprocess.run([sys.executable, "-c", program], check=True, cwd=folder)
