"""Every option of a scheduler is checked where it is given."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from datetime import timedelta

import pytest

from anarchon import ConfigurationError, MemoryBackend, Scheduler
from anarchon._scheduler_options import check_options

GOOD = {
    "lease": 30,
    "heartbeat": None,
    "workers": 10,
    "around": None,
    "enabled": True,
    "instance_id": None,
    "log": False,
    "stop_on_exit": True,
    "exit_timeout": 10,
    "control": None,
    "timezone": None,
}


def options(**changed):
    return check_options(MemoryBackend(), **{**GOOD, **changed})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("lease", 1.999),
        ("lease", "1s"),
        ("lease", 0),
        ("lease", -30),
        ("lease", True),
        ("lease", float("nan")),
        ("lease", float("inf")),
        ("lease", None),
        ("lease", "30"),
        ("heartbeat", 10.001),
        ("heartbeat", "99ms"),
        ("heartbeat", 0),
        ("heartbeat", False),
        ("jitter", -1),
        ("jitter", None),
        ("catch_up", "soon"),
        ("catch_up", None),
        ("overlap", "run"),
        ("on_crash", "retry"),
        ("max_attempts", 0),
        ("max_attempts", 2.0),
        ("timeout", 0),
        ("timeout", "long"),
        ("timezone", "Mars/Olympus"),
        ("timezone", 2),
        ("workers", 0),
        ("workers", 10_001),
        ("workers", True),
        ("workers", 2.5),
        ("workers", "ten"),
        ("around", 1),
        ("enabled", 1),
        ("enabled", "no"),
        ("instance_id", ""),
        ("instance_id", 7),
        ("instance_id", "a\nb"),
        ("instance_id", "x" * 201),
        ("log", 1),
        ("log", "INFO"),
        ("log", None),
        ("stop_on_exit", None),
        ("exit_timeout", -1),
        ("exit_timeout", None),
        ("control", 0),
        ("control", 0.05),
        ("control", "soon"),
    ],
)
def test_a_wrong_option_is_named_with_its_value_and_the_fix(option, value):
    with pytest.raises(ConfigurationError) as raised:
        Scheduler(MemoryBackend(), **{option: value})
    text = str(raised.value)
    assert option in text
    assert repr(value)[:40] in text
    assert ";" in text  # what is wrong; what to do


@pytest.mark.parametrize("backend", [None, "jobs.db", MemoryBackend, object()])
def test_what_is_no_backend_is_refused(backend):
    with pytest.raises(ConfigurationError, match=r"backend: .*SqliteBackend"):
        Scheduler(backend)


def test_an_async_around_is_refused():
    async def around(ctx):
        pass

    with pytest.raises(ConfigurationError, match=r"around: .*context manager"):
        Scheduler(MemoryBackend(), around=around)


def test_the_heartbeat_is_a_third_of_the_lease_unless_given():
    assert options(lease=30).heartbeat_ms == 10_000
    assert options(lease="2s").heartbeat_ms == 666
    assert options(lease="6s", heartbeat="1s").heartbeat_ms == 1000
    assert options(lease=6, heartbeat=timedelta(seconds=2)).heartbeat_ms == 2000


@pytest.mark.parametrize(
    ("lease", "heartbeat", "quick", "call"),
    [
        (30, None, 2.0, 4.0),
        (6, 1, 0.2, 0.4),
        (2, "100ms", 0.2, 0.2),  # an answer needs some time, however short the heartbeat
        ("1d", None, 10.0, 20.0),  # and nobody waits for minutes, however long it is
    ],
)
def test_store_calls_are_limited_by_the_heartbeat(lease, heartbeat, quick, call):
    limits = options(lease=lease, heartbeat=heartbeat).limits
    assert (limits.connect, limits.quick, limits.call) == pytest.approx((5.0, quick, call))


def test_what_may_be_given_may_be_given():
    found = options(
        around=nullcontext,
        enabled=False,
        instance_id="web-1",
        log=logging.getLogger("mine"),
        exit_timeout=0,
        timezone="Europe/Athens",
    )
    assert found.logger.name == "mine"
    assert found.exit_seconds == 0
    assert found.instance_id_now() == "web-1"
    assert options(log=True).logger.name == "anarchon"


def test_a_scheduler_is_made_without_a_thread_or_a_connection(tmp_path):
    import threading

    from anarchon import SqliteBackend

    before = threading.active_count()
    scheduler = Scheduler(SqliteBackend(tmp_path / "jobs.db"))
    scheduler.every("tick", "1s", lambda: None)
    assert threading.active_count() == before
    assert not list(tmp_path.iterdir())
    assert scheduler.state == "idle"
    assert repr(scheduler).startswith("<Scheduler idle, 1 job, <SqliteBackend")
