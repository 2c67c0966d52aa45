"""Listeners: told in order, on a thread of their own, and never in anybody's way."""

from __future__ import annotations

import functools
import json
import math
import threading
from datetime import UTC, datetime

import pytest

from anarchon import ConfigurationError, MemoryBackend, StoreEvent
from anarchon._listening import Listeners
from anarchon.testing import FaultyBackend
from tests.facade.helpers import until


def test_listeners_hear_of_their_events_in_order(make):
    scheduler = make()
    heard = []
    for event in ("started", "success", "failure"):
        scheduler.on(event, lambda run, event=event: heard.append((event, run.job, run.status)))
    scheduler.every("good", "1h", lambda: None, catch_up=0)
    scheduler.every("bad", "1h", lambda: 1 / 0, catch_up=0)
    with scheduler:
        scheduler.run_now("good")
        until(lambda: len(heard) == 2)
        scheduler.run_now("bad")
    assert heard == [
        ("started", "good", "running"),
        ("success", "good", "success"),
        ("started", "bad", "running"),
        ("failure", "bad", "failed"),
    ]


def test_on_decorates_or_chains(make):
    scheduler = make()

    def listener(run):
        pass

    assert scheduler.on("success")(listener) is listener
    assert scheduler.on("success", listener).on("failure", listener) is scheduler


def test_off_removes_one(make):
    scheduler = make()
    heard = []
    scheduler.on("success", heard.append).on("success", heard.append)
    assert scheduler.off("success", heard.append) is True
    assert scheduler.off("failure", heard.append) is False
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    with scheduler:
        scheduler.run_now("job")
    assert len(heard) == 1
    assert scheduler.off("success", heard.append) is True
    assert scheduler.off("success", heard.append) is False


def test_the_record_is_written_before_the_event(make):
    scheduler = make()
    statuses = []
    scheduler.on("success", lambda run: statuses.append(scheduler.last_run(run.job).status))
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    with scheduler:
        scheduler.run_now("job")
    assert statuses == ["success"]


def test_listeners_share_one_thread_of_their_own(make):
    scheduler = make()
    names = []
    scheduler.on("started", lambda run: names.append(threading.current_thread().name))
    scheduler.on("success", lambda run: names.append(threading.current_thread().name))
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    with scheduler:
        scheduler.run_now("job")
    assert names == ["anarchon-events"] * 2


@pytest.mark.parametrize("error", [ValueError("oops"), SystemExit(1), KeyboardInterrupt()])
def test_what_a_listener_raises_is_logged_and_the_next_is_called(make, caplog, error):
    scheduler = make()
    heard = []

    def raises(run):
        raise error

    scheduler.on("success", raises).on("success", heard.append)
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    with scheduler:
        assert scheduler.run_now("job").status == "success"
    assert len(heard) == 1
    record = next(r for r in caplog.records if "raises" in r.message)
    assert record.levelname == "ERROR"
    assert type(error).__name__ in record.message
    assert "in raises" in record.message  # its traceback


def test_too_many_events_for_a_slow_listener_are_dropped_and_counted(make, caplog, monkeypatch):
    monkeypatch.setattr("anarchon._lifecycle_journal.EVENTS_BOUND", 3)
    scheduler = make(workers=1)
    entered, go_on, heard = threading.Event(), threading.Event(), []
    scheduler.on("success", lambda run: (entered.set(), go_on.wait(20), heard.append(run)))
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    scheduler.start()
    scheduler.run_now("job")
    assert entered.wait(5)
    for _ in range(5):
        scheduler.run_now("job")
    until(lambda: scheduler._life().journal._events.drops == 2)
    go_on.set()
    scheduler.stop()
    assert len(heard) == 4
    assert "2 events were dropped" in caplog.text


def test_an_outage_is_told_once_and_so_is_its_end(make):
    backend = FaultyBackend(MemoryBackend())
    scheduler = make(backend)
    heard = []
    scheduler.on("store_down", lambda event: heard.append(("down", event)))
    scheduler.on("store_up", lambda event: heard.append(("up", event)))
    scheduler.every("job", "100ms", lambda: None)
    scheduler.start()
    backend.fail(times=math.inf, error=OSError("connection refused"))
    until(lambda: heard)
    assert not scheduler.health().store_up
    backend.heal()
    until(lambda: len(heard) == 2)
    scheduler.stop()
    (_, down), (_, up) = heard
    assert isinstance(down, StoreEvent)
    assert down.error == "OSError: connection refused"
    assert down.at == down.since == up.since <= up.at
    assert down.at.tzinfo is UTC
    assert up.error == down.error


def test_a_store_event_is_ready_for_json():
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    told = json.loads(json.dumps(StoreEvent(moment, "refused", moment).to_dict()))
    assert told == {
        "at": "2026-01-02T00:00:00+00:00",
        "error": "refused",
        "since": "2026-01-02T00:00:00+00:00",
    }


async def async_listener(run):
    pass


async def async_generator(run):
    yield


class AsyncCall:
    async def __call__(self, run):
        pass


@pytest.mark.parametrize(
    "listener",
    [
        async_listener,
        async_generator,
        functools.partial(async_listener),
        AsyncCall(),
        None,
        "print",
    ],
)
def test_what_can_not_listen_is_refused(listener):
    with pytest.raises(ConfigurationError, match="success"):
        Listeners().add("success", listener)


def test_a_listener_that_returns_a_coroutine_is_an_error_in_the_log(make, caplog):
    scheduler = make()
    scheduler.on("success", lambda run: async_listener(run))  # noqa: PLW0108 - so that it is no async function itself
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    with scheduler:
        scheduler.run_now("job")
    assert "awaitable" in caplog.text


@pytest.mark.parametrize("event", ["succes", "", None, 3, "store"])
def test_an_unknown_event_is_refused_and_the_known_ones_are_named(make, event):
    scheduler = make()
    for call in (scheduler.on, lambda e: scheduler.on(e, print), lambda e: scheduler.off(e, print)):
        with pytest.raises(ConfigurationError, match="store_down"):
            call(event)


def test_overdue_can_be_listened_to(make):
    scheduler = make()
    scheduler.on("overdue", print)
    assert scheduler.off("overdue", print)


def test_a_listener_may_return_what_breaks_when_it_is_asked(make, caplog):
    class Lazy:
        @property
        def __class__(self):
            raise RuntimeError("not now")

        def __getattr__(self, name):
            raise RuntimeError("not now")

    heard = []
    scheduler = make()
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    scheduler.on("success", lambda run: (heard.append(run), Lazy())[1])
    with scheduler:
        scheduler.run_now("job")
    assert len(heard) == 1
    assert "listener" not in caplog.text
