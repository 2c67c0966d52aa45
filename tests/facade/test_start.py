"""start(retry=True), and what start has to say about the jobs and the other schedulers."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from anarchon import BackendUnavailable, MemoryBackend, ServerTooOld, SqliteBackend
from tests.facade.helpers import Door, until


def test_retry_returns_at_once_and_gets_there_in_the_end(make, caplog, monkeypatch):
    monkeypatch.setattr("anarchon._lifecycle.FIRST_RETRY_SECONDS", 0.01)
    door = Door(failures=4)
    door.may_open.clear()
    scheduler = make(door)
    told = []
    scheduler.on("store_down", lambda event: told.append(("down", event.error)))
    scheduler.on("store_up", lambda event: told.append(("up", event.since <= event.at)))
    with caplog.at_level(logging.INFO, "anarchon"):
        scheduler.start(retry=True)
        assert scheduler.state == "starting"
        assert not scheduler.health().ok
        door.may_open.set()
        until(lambda: scheduler.state == "running")
        scheduler.stop()
    outages = [r.message for r in caplog.records if r.message.startswith("store ")]
    assert len(outages) == 2  # once down and once up, however many tries it took
    assert "nobody at home" in outages[0]
    assert told == [("down", "BackendUnavailable: nobody at home"), ("up", True)]


def test_retry_can_be_stopped_between_two_tries(make):
    scheduler = make(Door(failures=10**6))
    scheduler.start(retry=True)
    until(lambda: scheduler.health().reasons != ("the scheduler is starting",))
    assert "nobody at home" in scheduler.health().reasons[0]
    scheduler.stop()
    assert scheduler.state == "idle"


def test_an_impatient_start_during_retries_gets_the_result_of_one_try(make):
    door = Door(failures=2)
    scheduler = make(door)
    scheduler.start(retry=True)
    until(lambda: door.failures == 1)
    with pytest.raises(BackendUnavailable):
        scheduler.start()
    assert scheduler.state == "starting"  # the other one goes on
    assert door.failures == 0
    scheduler.start()
    assert scheduler.state == "running"


def test_an_impatient_start_does_not_wait_for_the_next_try(make, monkeypatch):
    monkeypatch.setattr("anarchon._lifecycle.FIRST_RETRY_SECONDS", 60)
    scheduler = make(Door(failures=2))
    scheduler.start(retry=True)
    until(lambda: "nobody at home" in scheduler.health().reasons[0])
    began = time.monotonic()
    with pytest.raises(BackendUnavailable):
        scheduler.start()
    assert time.monotonic() - began < 5


def test_what_no_retry_can_mend_ends_it_and_is_logged(make, caplog):
    scheduler = make(Door(failures=1, error=ServerTooOld("server 1.0 is too old")))
    scheduler.start(retry=True)
    until(lambda: scheduler.state == "idle")
    assert "server 1.0 is too old" in caplog.text


# --- other things about start ---


def test_a_start_in_the_background_that_finds_no_thread_says_so(make, monkeypatch, caplog):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name in ("anarchon-log", "anarchon-events"):
            raise RuntimeError("can't start new thread")
        start(thread)

    scheduler = make()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        scheduler.start(retry=True)
        until(lambda: scheduler.state == "idle")
    assert "could not start" in caplog.text
    assert "can't start new thread" in caplog.text


def test_disabled_does_nothing_and_says_so_once(make, caplog):
    door = Door()
    scheduler = make(door, enabled=False)
    scheduler.every("tick", "1s", lambda: None)
    scheduler.start()
    scheduler.start(retry=True)
    scheduler.run()
    assert (scheduler.state, door.opened) == ("idle", 0)
    assert len([r for r in caplog.records if "enabled=False" in r.message]) == 1
    assert scheduler.health().ok


def test_a_decorator_that_was_never_applied_is_a_warning(make, caplog):
    scheduler = make()
    scheduler.every("forgotten", "1h")
    scheduler.start()
    scheduler.stop()
    warning = next(r for r in caplog.records if "never applied" in r.message)
    assert "forgotten" in warning.message
    assert warning.levelno == logging.WARNING


def test_a_one_off_that_passed_long_ago_is_a_warning(make, caplog):
    scheduler = make()
    scheduler.once("launch", "2020-01-01T00:00:00Z", lambda: None)
    just_now = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=2)
    scheduler.once("caught up", just_now, lambda: None)
    scheduler.start()
    scheduler.stop()
    # The other one may be told of for what became of its run, but not as passed.
    (warning,) = [r for r in caplog.records if "its time passed" in r.message]
    assert warning.message.startswith("launch @")
    assert "2020-01-01T00:00:00.000Z" in warning.message
    assert warning.levelno == logging.WARNING


def test_two_schedulers_on_one_file_are_warned_about(make, caplog, tmp_path):
    first = make(SqliteBackend(tmp_path / "jobs.db"))
    second = make(SqliteBackend(tmp_path / "jobs.db"))
    third = make(SqliteBackend(tmp_path / "jobs.db", namespace="other"))
    first.start()
    third.start()
    third.stop()
    assert "another scheduler" not in caplog.text
    second.start()
    second.stop()
    assert caplog.text.count("another scheduler") == 1


def test_two_schedulers_in_memory_are_not(make, caplog):
    backend = MemoryBackend()
    first, second = make(backend), make(backend)
    first.start()
    second.start()
    second.stop()
    first.stop()
    assert "another scheduler" not in caplog.text


def test_the_instance_id_is_host_and_pid_or_as_given(make):
    assert make().instance_id == f"{socket.gethostname()}:{os.getpid()}"
    scheduler = make(instance_id="web-1")
    scheduler.start()
    assert scheduler.instance_id == "web-1"
