"""Contexts that a test makes: every field, a signal that the test aborts, and what is saved."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import create_engine

from anarchon import Aborted, ConfigurationError, Context, Signal
from anarchon.testing import ManualContext, make_context

NINE = datetime(2026, 10, 10, 9, tzinfo=UTC)
NINE_MS = 1_791_622_800_000


def test_what_is_not_said_is_usual():
    ctx = make_context()
    assert isinstance(ctx, Context)
    assert (ctx.name, ctx.scheduled_at) == ("job", datetime(2026, 1, 1, tzinfo=UTC))
    assert (ctx.attempt, ctx.reason, ctx.manual, ctx.instance_id) == (1, "scheduled", False, "test")
    assert (ctx.data, ctx.checkpoint, ctx.previous_slot) == (None, None, None)
    assert (ctx.saved, ctx.saves, ctx.fenced_by, ctx.completed_by) == (None, [], [], None)
    assert isinstance(ctx.signal, Signal)
    assert not ctx.signal.aborted


def test_every_field_can_be_said():
    data = object()
    ctx = make_context(
        "report",
        NINE,
        attempt=3,
        reason="catch-up",
        data=data,
        checkpoint={"page": (1, 2)},
        previous_slot="2026-10-10T08:00Z",
        fence=7,
        instance_id="web-1",
    )
    assert (ctx.name, ctx.slot, ctx.scheduled_at) == ("report", NINE_MS, NINE)
    assert (ctx.attempt, ctx.reason, ctx.fence, ctx.instance_id) == (3, "catch-up", 7, "web-1")
    assert ctx.data is data
    assert ctx.checkpoint == {"page": [1, 2]}  # as JSON brings it back
    assert ctx.previous_slot == NINE_MS - 3_600_000


@pytest.mark.parametrize(
    "slot",
    [
        NINE,
        NINE_MS,
        "2026-10-10T09:00Z",
        "2026-10-10T12:00:00+03:00",
        NINE.astimezone(timezone(timedelta(hours=-5))),
        NINE + timedelta(microseconds=999),
    ],
)
def test_a_slot_in_each_form(slot):
    assert make_context(slot=slot).slot == NINE_MS


def test_what_follows_from_other_fields():
    assert make_context(attempt=2).reason == "takeover"
    assert make_context(attempt=2, reason="scheduled").reason == "scheduled"
    assert make_context(reason="manual").manual
    fences = [make_context(slot=NINE_MS, attempt=n).fence for n in (1, 2)]
    fences.append(make_context(slot=NINE_MS + 1).fence)
    assert fences == sorted(set(fences))
    assert fences[-1] < 2**53


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slot", "now"),
        ("slot", datetime(2026, 10, 10)),  # noqa: DTZ001 - that it has no zone is the mistake
        ("slot", -1),
        ("slot", True),
        ("slot", 1.5),
        ("previous_slot", "08:00"),
        ("attempt", 0),
        ("attempt", True),
        ("fence", 0),
        ("name", ""),
        ("name", 3),
        ("instance_id", None),
        ("reason", "retry"),
        ("abort_reason", "tired"),
        ("abort_after", "soon"),
        ("checkpoint", {1, 2}),
    ],
)
def test_a_wrong_field_is_named(field, value):
    with pytest.raises(ConfigurationError, match=field):
        make_context(**{field: value})


class Unasked:
    """As a lazy proxy of nothing: it can't even be asked what it is."""

    @property
    def __class__(self):
        raise LookupError


@pytest.mark.parametrize("field", ["name", "slot", "attempt", "reason"])
def test_what_can_not_be_asked_what_it_is_is_refused(field):
    with pytest.raises(ConfigurationError, match=f"{field}: .* can't be asked"):
        make_context(**{field: Unasked()})


def test_the_first_instant_of_all():
    assert make_context(slot=datetime(1970, 1, 1, tzinfo=UTC)).slot == 0


# --- the signal ---------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["stop", "timeout", "lost", "cancel"])
def test_a_test_aborts_it(reason):
    ctx = make_context()
    ctx.signal.raise_if_aborted()
    ctx.abort(reason)
    ctx.abort("stop" if reason != "stop" else "lost")
    assert ctx.signal.reason == reason
    with pytest.raises(Aborted) as raised:
        ctx.signal.raise_if_aborted()
    assert raised.value.reason == reason


def test_an_unknown_reason_is_refused():
    with pytest.raises(ConfigurationError, match="stop, timeout, lost, cancel"):
        make_context().abort("tired")


def test_waits_take_no_time():
    ctx, began = make_context(), time.monotonic()
    ctx.signal.sleep("10h")
    assert not ctx.signal.wait(3600)
    assert not ctx.signal.wait(-1)
    assert time.monotonic() - began < 5


def test_it_aborts_when_so_long_was_waited():
    ctx = make_context(abort_after="25m", abort_reason="timeout")
    ctx.signal.sleep("10m")
    assert not ctx.signal.wait(600)
    with pytest.raises(Aborted, match="timeout"):
        ctx.signal.sleep("10m")
    assert ctx.signal.reason == "timeout"


def test_not_a_moment_too_early_and_not_too_late():
    ctx = make_context(abort_after="3s")
    assert not ctx.signal.wait(-1)
    assert not ctx.signal.wait(2.5)
    assert not ctx.signal.wait(0.499)
    assert ctx.signal.wait(0.002)


@pytest.mark.parametrize("timeout", [60, None])
def test_a_wait_ends_with_the_abort(timeout):
    ctx = make_context(abort_after="1m")
    assert ctx.signal.wait(timeout)
    assert ctx.signal.reason == "stop"


def test_it_has_aborted_from_the_beginning():
    assert make_context(abort_after=0, abort_reason="cancel").signal.reason == "cancel"


def test_who_waits_for_ever_waits_for_another_thread():
    ctx, woken = make_context(), []
    thread = threading.Thread(target=lambda: woken.append(ctx.signal.wait()))
    thread.start()
    ctx.abort()
    thread.join(30)
    assert woken == [True]


def test_what_aborts_calls_functions():
    ctx, called = make_context(), []
    with ctx.signal.on_abort(lambda: called.append(1)):
        ctx.abort()
    assert called == [1]


# --- what a handler asks of the store -----------------------------------------------


def test_what_is_saved_can_be_read():
    ctx = make_context()
    ctx.save({"pages": (1, 2)})
    ctx.save(2)
    ctx.save(3)
    assert (ctx.saved, ctx.saves) == (3, [{"pages": [1, 2]}, 2, 3])
    assert make_context(attempt=2, checkpoint=ctx.saved).checkpoint == 3


@pytest.mark.parametrize("value", [{1, 2}, "x" * 70_000])
def test_what_a_store_would_refuse_is_refused(value):
    with pytest.raises(ConfigurationError):
        make_context().save(value)


def test_a_manual_run_keeps_nothing():
    ctx = make_context(reason="manual")
    ctx.save(1)
    assert ctx.saves == []


@pytest.fixture
def database():
    with closing(sqlite3.connect(":memory:")) as database:
        yield database


def test_transactions_are_noted(database):
    ctx = make_context()
    ctx.fenced(database)
    ctx.complete(database)
    assert (ctx.fenced_by, ctx.completed_by) == ([database], database)
    ctx.save(1)
    assert ctx.saves == []  # a completed run has no next attempt
    with pytest.raises(Aborted, match="completed this run before"):
        ctx.complete(database)


@pytest.mark.parametrize("call", ["fenced", "complete"])
def test_a_run_that_is_lost_can_do_nothing(call, database):
    ctx = make_context()
    ctx.abort("lost")
    for ask in (lambda: getattr(ctx, call)(database), lambda: ctx.save(1)):
        with pytest.raises(Aborted) as raised:
            ask()
        assert raised.value.reason == "lost"
    assert (ctx.saves, ctx.fenced_by, ctx.completed_by) == ([], [], None)


@pytest.mark.parametrize("call", ["fenced", "complete"])
def test_what_is_no_transaction_is_refused(call):
    ctx = make_context()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        with pytest.raises(ConfigurationError, match="no transaction"):
            getattr(ctx, call)(database)
        database.execute("BEGIN")
        getattr(ctx, call)(database)
    with pytest.raises(ConfigurationError, match="give one to"):
        getattr(ctx, call)("a connection")


def test_a_connection_of_a_library_begins_its_transaction_itself():
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        make_context().fenced(connection)
    engine.dispose()


class OfDjango:
    """What Django's connections have, around one to SQLite."""

    in_atomic_block = needs_rollback = False

    def __init__(self, connection):
        self.connection = connection

    def ensure_connection(self):
        pass

    def get_autocommit(self):
        return True


def test_a_connection_of_django_needs_an_atomic_block(database):
    ctx, connection = make_context(), OfDjango(database)
    with pytest.raises(ConfigurationError, match="atomic"):
        ctx.complete(connection)
    connection.in_atomic_block = True
    ctx.complete(connection)
    assert ctx.completed_by is connection


def test_it_is_made_by_a_test_and_shown_as_any_other():
    ctx = make_context("report", NINE)
    assert type(ctx) is ManualContext
    assert repr(ctx) == "<Context report @ 2026-10-10T09:00:00+00:00, attempt 1, scheduled>"
