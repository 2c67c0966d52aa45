"""`ctx.fenced`, `ctx.complete` and `ctx.save` in handlers of a running scheduler."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from anarchon import (
    Aborted,
    MemoryBackend,
    Scheduler,
)
from tests.fencing.runs import just_now, running, stolen


def test_a_payment_and_its_run_are_committed_together(place):
    def pay(ctx):
        with place.transaction() as connection:
            place.pay(connection, ctx.name, ctx.slot)
            ctx.complete(connection)

    with running(place.backend(), pay) as one:
        assert one.event == "success"
        (record,) = one.scheduler.history("job")
        assert place.paid() == [("job", record.slot)]
        assert record.duration_ms < 20_000


def test_a_handler_that_raises_after_its_commit_has_succeeded(place):
    def pay(ctx):
        with place.transaction() as connection:
            ctx.complete(connection)
        raise ValueError("the mail about it could not be sent")

    with running(place.backend(), pay) as one:
        event, run = one.events[0]
        assert (event, run.error, run.traceback) == ("success", None, None)
        assert one.history() == [(1, "success")]


def test_a_handler_that_forgets_to_commit_has_failed(place):
    def pay(ctx):
        connection = place.connect()
        place.pay(connection, ctx.name, ctx.slot)
        ctx.complete(connection)
        connection.close()

    with running(place.backend(), pay) as one:
        event, run = one.events[0]
        assert event == "failure"
        assert "not committed" in run.error
        assert place.paid() == []


def test_a_rollback_and_another_try_is_a_success(place):
    def pay(ctx):
        connection = place.connect()
        ctx.complete(connection)
        connection.rollback()
        ctx.complete(connection)
        place.pay(connection, ctx.name, ctx.slot)
        connection.commit()
        with pytest.raises(Aborted, match="has completed this run before"):
            ctx.complete(connection)
        connection.rollback()
        connection.close()

    with running(place.backend(), pay) as one:
        assert one.event == "success"
        assert len(place.paid()) == 1


@pytest.mark.parametrize("how", ["fenced", "complete"])
def test_who_lost_its_run_can_t_commit(place, how):
    backend = place.backend()
    reasons = []

    def pay(ctx):
        stolen(backend, ctx)
        try:
            with place.transaction() as connection:
                place.pay(connection, ctx.name, ctx.slot)
                getattr(ctx, how)(connection)
        except Aborted as aborted:
            reasons.append(aborted.reason)
            raise

    with running(backend, pay) as one:
        assert reasons == ["lost"]
        assert one.event == "lost"
        assert place.paid() == []
        assert one.history() == [(2, "running"), (1, "lost")]


def test_without_them_it_could(place):
    """The danger itself: what the two tests above would see if nothing were fenced."""
    backend = place.backend()

    def pay(ctx):
        stolen(backend, ctx)
        with place.transaction() as connection:
            place.pay(connection, ctx.name, ctx.slot)

    with running(backend, pay):
        assert len(place.paid()) == 1


def test_a_timeout_that_passes_in_the_transaction_leaves_it_the_decision(place):
    def pay(ctx):
        with place.transaction() as connection:
            ctx.complete(connection)
            assert ctx.signal.wait(20)
            assert ctx.signal.reason == "timeout"

    with running(place.backend(), pay, timeout="1s") as one:
        assert one.event == "success"
        assert one.history() == [(1, "success")]


@pytest.mark.parametrize("committed", [True, False])
def test_a_handler_that_hangs_after_its_transaction_is_recorded_at_its_timeout(place, committed):
    go_on = threading.Event()

    def pay(ctx):
        connection = place.connect()
        ctx.complete(connection)
        if committed:
            connection.commit()
        else:
            connection.rollback()
        connection.close()
        go_on.wait(20)

    with running(place.backend(), pay, timeout="1s") as one:
        assert one.event == ("success" if committed else "failure")
        assert not go_on.is_set()
        go_on.set()


@pytest.mark.parametrize("how", ["fenced", "complete"])
def test_who_swallows_the_error_commits_nothing(place, how):
    """On a thread of the handler's own it is a RuntimeError, which is an Exception."""
    backend = place.backend()

    def transfer(ctx):
        connection = place.connect()
        place.pay(connection, ctx.name, ctx.slot)
        with suppress(Exception):
            getattr(ctx, how)(connection)
        connection.commit()
        connection.close()

    def pay(ctx):
        stolen(backend, ctx)
        thread = threading.Thread(target=transfer, args=(ctx,))
        thread.start()
        thread.join()

    with running(backend, pay) as one:
        assert one.event == "lost"
        assert place.paid() == []


def test_a_handler_may_go_on_after_its_commit(place):
    """For longer than its lease: nobody follows it, and nobody tells it that it is lost."""
    reasons = []

    def pay(ctx):
        with place.transaction() as connection:
            ctx.complete(connection)
        ctx.save("nobody will read this")
        ctx.signal.wait(3)
        reasons.append(ctx.signal.reason)

    scheduler = Scheduler(place.backend(), lease=2, heartbeat=0.3)
    events, done = [], threading.Event()
    for event in ("success", "lost", "failure", "interrupted"):
        scheduler.on(event, lambda run, event=event: (events.append(event), done.set()))
    scheduler.once("job", just_now(), pay)
    with scheduler:
        assert done.wait(20)
    assert (events, reasons) == (["success"], [None])


def test_after_a_timeout_nothing_can_be_completed(place):
    raised = []

    def pay(ctx):
        ctx.signal.wait(20)
        until = time.monotonic() + 20
        while place.bench_history() == ["running"] and time.monotonic() < until:
            pass
        with place.transaction() as connection:
            place.pay(connection, ctx.name, ctx.slot)
            try:
                ctx.complete(connection)
            except Aborted as aborted:
                raised.append(aborted.reason)
                raise

    with running(place.backend(), pay, timeout="300ms") as one:
        assert one.event == "failure"
    assert raised == ["lost"]
    assert place.paid() == []


def test_a_manual_run_is_completed_too(place):
    def pay(ctx):
        with place.transaction() as connection:
            ctx.fenced(connection)
            ctx.complete(connection)

    scheduler = Scheduler(place.backend(), lease=60)
    scheduler.every("job", "1h", pay, catch_up=0)
    with scheduler:
        assert scheduler.run_now("job").status == "success"


def test_around_may_hold_the_transaction(place):
    """What commits in `around` has committed before the run's end is recorded."""
    local = threading.local()

    @contextmanager
    def in_transaction(ctx):
        with place.transaction() as local.connection:
            yield

    scheduler = Scheduler(place.backend(), lease=60, around=in_transaction)
    scheduler.every("job", "1h", lambda ctx: ctx.complete(local.connection), catch_up=0)
    with scheduler:
        assert scheduler.run_now("job").status == "success"


def test_an_async_handler_uses_a_thread(place):
    def transfer(ctx):
        with place.transaction() as connection:
            place.pay(connection, ctx.name, ctx.slot)
            ctx.complete(connection)

    async def pay(ctx):
        await asyncio.to_thread(transfer, ctx)

    with running(place.backend(), pay) as one:
        assert one.event == "success"
        assert len(place.paid()) == 1


def test_on_another_thread_a_lost_run_is_a_runtime_error(sqlite_place):
    backend = sqlite_place.backend()
    raised = []

    def transfer(ctx):
        connection = sqlite_place.connect()
        try:
            ctx.fenced(connection)
        except RuntimeError as error:
            raised.append(str(error))
        finally:
            connection.close()

    def pay(ctx):
        stolen(backend, ctx)
        thread = threading.Thread(target=transfer, args=(ctx,))
        thread.start()
        thread.join()

    with running(backend, pay):
        (text,) = raised
        assert text.startswith("aborted: this instance doesn't hold the run any more; only the")


def test_a_store_without_transactions_fails_the_run_and_says_what_to_do(sqlite_place):
    def pay(ctx):
        with sqlite_place.transaction() as connection:
            ctx.fenced(connection)

    with running(MemoryBackend(), pay) as one:
        event, run = one.events[0]
        assert event == "failure"
        assert "ctx.fenced() and ctx.complete() need a PostgresBackend" in run.error
