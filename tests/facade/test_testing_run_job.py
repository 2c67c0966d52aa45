"""A job's handler run by a test as a scheduler would, on the thread of the test."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from anarchon import (
    Aborted,
    ConfigurationError,
    Every,
    JobNotFound,
    MemoryBackend,
    Scheduler,
)
from anarchon.testing import (
    FaultyBackend,
    ManualClock,
    make_context,
    run_job,
)
from tests.docs.pages import environment

NINE = datetime(2026, 10, 10, 9, tzinfo=UTC)
NINE_AND_A_BIT = datetime(2026, 10, 10, 9, 0, 7, tzinfo=UTC)
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


@pytest.fixture
def store():
    """A store that whoever asks it gets an error from."""
    return FaultyBackend(MemoryBackend())


@pytest.fixture
def seen():
    return []


@pytest.fixture
def scheduler(store, seen):
    made = Scheduler(store, data="everybody's", enabled=False)
    made.cron("report", "0 * * * *", seen.append)
    made.every("plain", "10s", lambda: seen.append("plain"))
    yield made
    assert store.calls == {}
    assert made.state == "idle"


def test_a_handler_gets_what_the_scheduler_would_give_it(scheduler, seen):
    run = run_job(scheduler, "report", NINE)
    [ctx] = seen
    assert (ctx.name, ctx.scheduled_at, ctx.data) == ("report", NINE, "everybody's")
    assert ctx.previous_slot == ctx.slot - 3_600_000
    assert (run.job, run.slot, run.status, run.attempt) == ("report", ctx.slot, "success", 1)
    assert (run.run_id, run.reason, run.manual) == (f"report@{ctx.slot}", "scheduled", False)
    assert run.started_at is not None
    assert run.error is run.traceback is None
    assert run_job(scheduler, "plain").status == "success"
    assert seen[1:] == ["plain"]


def test_it_runs_on_this_thread_in_a_fresh_context(scheduler, seen):
    VARIABLE.set("of the test")
    scheduler.every("where", "1h", lambda: seen.append((threading.get_ident(), VARIABLE.get())))
    run_job(scheduler, "where")
    assert seen == [(threading.get_ident(), "unset")]


def test_around_is_entered_and_left(store, seen):
    @contextmanager
    def around(ctx):
        seen.append(f"before {ctx.name}")
        try:
            yield
        finally:
            seen.append("after")

    scheduler = Scheduler(store, around=around)
    scheduler.every("good", "1h", lambda: seen.append("in"))
    scheduler.every("bad", "1h", lambda: 1 / 0)
    run_job(scheduler, "good")
    with pytest.raises(ZeroDivisionError):
        run_job(scheduler, "bad")
    assert seen == ["before good", "in", "after", "before bad", "after"]


def test_an_async_handler_runs_to_its_end(scheduler, seen):
    async def fetch(ctx):
        await asyncio.sleep(0.001)
        seen.append(ctx.name)

    scheduler.every("fetch", "1h", fetch)
    scheduler.every("wrapped", "1h", lambda ctx: fetch(ctx))  # noqa: PLW0108 - a plain function
    run_job(scheduler, "fetch")
    run_job(scheduler, "wrapped")
    assert seen == ["fetch", "wrapped"]


def test_what_it_raises_is_raised_here(scheduler):
    def broken():
        raise ValueError("no such table")

    def leaves():
        sys.exit(3)

    async def fails():
        raise LookupError

    async def generates():
        yield

    for name, handler in {"broken": broken, "leaves": leaves, "fails": fails}.items():
        scheduler.every(name, "1h", handler)
    scheduler.every("generates", "1h", lambda: generates())  # noqa: PLW0108 - refused otherwise
    for name, error in [("broken", ValueError), ("leaves", SystemExit), ("fails", LookupError)]:
        with pytest.raises(error):
            run_job(scheduler, name)
    with pytest.raises(TypeError, match="async generator"):
        run_job(scheduler, "generates")


def test_a_timeout_does_not_count_and_waits_take_no_time(scheduler):
    scheduler.every("patient", "1h", lambda ctx: ctx.signal.sleep("10m"), timeout="1s")
    run = run_job(scheduler, "patient")
    assert run.status == "success"
    assert 600_000 <= run.duration_ms < 660_000


def test_when_it_ran_is_by_the_schedulers_clock(scheduler):
    clock = ManualClock(NINE_AND_A_BIT)
    clock.attach(scheduler)
    scheduler.every("patient", "1h", lambda ctx: ctx.signal.sleep("10m"))
    run = run_job(scheduler, "patient")
    assert (run.started_at, run.scheduled_at) == (NINE_AND_A_BIT, NINE)
    assert run.finished_at - run.started_at == timedelta(milliseconds=run.duration_ms)


def test_other_threads_of_a_handler_are_told_by_a_plain_error(scheduler):
    told = []

    def ask(signal):
        try:
            signal.raise_if_aborted()
        except RuntimeError as error:
            told.append(str(error))

    def spreads(ctx):
        thread = threading.Thread(target=ask, args=(ctx.signal,))
        thread.start()
        thread.join()

    scheduler.every("spreads", "1h", spreads)
    run_job(scheduler, "spreads", context=make_context(abort_after=0))
    assert len(told) == 1
    assert "own thread" in told[0]


# --- slots --------------------------------------------------------------------------


def test_without_a_slot_it_is_the_latest_or_the_first(scheduler):
    ManualClock(datetime(2026, 10, 10, 9, 30, tzinfo=UTC)).attach(scheduler)
    assert run_job(scheduler, "report").scheduled_at == NINE
    scheduler.once("later", "2026-12-24T18:00Z", lambda: None)
    assert run_job(scheduler, "later").scheduled_at == datetime(2026, 12, 24, 18, tzinfo=UTC)


def test_a_schedule_without_a_slot(scheduler):
    never = Every("1h").between("2026-10-10T09:10Z", "2026-10-10T09:20Z")
    scheduler.schedule("never", never, lambda: None)
    with pytest.raises(ConfigurationError, match=r"'never': its schedule .* has no slot"):
        run_job(scheduler, "never")


@pytest.mark.parametrize("slot", ["2026-10-10T09:30Z", NINE.replace(microsecond=1000)])
def test_a_time_that_is_no_slot_is_refused(scheduler, seen, slot):
    with pytest.raises(ConfigurationError, match=r"09:00:00\.000Z.* and 2026-10-10T10:00"):
        run_job(scheduler, "report", slot)
    assert seen == []


def test_a_manual_run_has_any_time(scheduler, seen):
    run = run_job(scheduler, "report", context=make_context(reason="manual", slot=NINE_AND_A_BIT))
    assert (run.manual, run.reason, run.scheduled_at) == (True, "manual", NINE_AND_A_BIT)
    assert run.run_id != f"report@{run.slot}"
    assert seen[0].manual
    ManualClock(NINE_AND_A_BIT).attach(scheduler)
    run = run_job(scheduler, "report", context=make_context(reason="manual"))
    assert run.scheduled_at == NINE_AND_A_BIT


# --- contexts -----------------------------------------------------------------------


def test_a_context_says_more_and_is_looked_at_afterwards(scheduler):
    def copy(ctx):
        for page in range(ctx.checkpoint or 0, 5):
            ctx.signal.sleep("1s")
            ctx.save(page + 1)

    scheduler.cron("copy", "0 * * * *", copy)
    first = make_context(slot=NINE, abort_after="3s")
    with pytest.raises(Aborted, match="stopping"):
        run_job(scheduler, "copy", context=first)
    assert first.saves == [1, 2]
    second = make_context(slot=NINE, attempt=2, checkpoint=first.saved)
    run = run_job(scheduler, "copy", context=second)
    assert (run.attempt, run.reason, second.saves) == (2, "takeover", [3, 4, 5])


def test_what_a_context_does_not_say_is_the_jobs(scheduler, seen):
    ctx = make_context()
    run_job(scheduler, "report", NINE, context=ctx)
    assert seen == [ctx]
    assert (ctx.name, ctx.scheduled_at, ctx.data) == ("report", NINE, "everybody's")
    assert ctx.previous_slot == ctx.slot - 3_600_000
    assert ctx.fence == make_context(slot=NINE).fence
    run_job(scheduler, "report", context=ctx)  # the same slot once more
    assert seen == [ctx, ctx]
    given = make_context(slot=NINE)
    run_job(scheduler, "report", context=given)
    assert given.previous_slot == given.slot - 3_600_000
    given = make_context(data=None, previous_slot=None, fence=5, slot=NINE)
    run_job(scheduler, "report", context=given)
    assert (given.data, given.previous_slot, given.fence) == (None, None, 5)


def test_contexts_that_do_not_fit_are_refused(scheduler):
    with pytest.raises(ConfigurationError, match="'other', not of 'report'"):
        run_job(scheduler, "report", context=make_context("other"))
    with pytest.raises(ConfigurationError, match="differ"):
        run_job(scheduler, "report", "2026-10-10T10:00Z", context=make_context(slot=NINE))
    with pytest.raises(ConfigurationError, match="make_context"):
        run_job(scheduler, "report", context=object())
    with pytest.raises(ConfigurationError, match="not due at 2026-10-10T09:00:07"):
        run_job(scheduler, "report", context=make_context(slot=NINE_AND_A_BIT))
    used = make_context()
    run_job(scheduler, "plain", context=used)
    with pytest.raises(ConfigurationError, match="'plain', not of 'report'"):
        run_job(scheduler, "report", context=used)


def test_an_async_handler_is_cancelled_when_the_test_aborts(scheduler):
    ctx = make_context()

    async def stops():
        ctx.abort("stop")
        await asyncio.Event().wait()

    scheduler.every("stops", "1h", stops)
    with pytest.raises(asyncio.CancelledError):
        run_job(scheduler, "stops", context=ctx)


# --- what is refused ----------------------------------------------------------------


def test_wrong_arguments_say_what_is_wrong(scheduler):
    with pytest.raises(JobNotFound, match="'report'"):
        run_job(scheduler, "reprot")
    with pytest.raises(ConfigurationError, match=r"is no scheduler; .* made$"):
        run_job("scheduler", "report")
    with pytest.raises(ConfigurationError, match=r"made, here its \.scheduler$"):
        run_job(SimpleNamespace(scheduler=scheduler), "report")


def test_where_an_event_loop_runs_it_is_refused(scheduler, seen):
    async def test():
        with pytest.raises(RuntimeError, match="to_thread"):
            run_job(scheduler, "plain")
        await asyncio.to_thread(run_job, scheduler, "plain")

    asyncio.run(test())
    assert seen == ["plain"]


FORKS = """
import os
from anarchon import MemoryBackend, Scheduler
from anarchon.testing import run_job
scheduler = Scheduler(MemoryBackend())
pid = os.getpid()
def forks():
    if os.fork() == 0 and {raises}:
        raise SystemExit(3)
scheduler.every("forks", "1h", forks)
try:
    run_job(scheduler, "forks")
finally:
    if os.getpid() != pid:
        print("the child goes on", flush=True)
print("ended with", os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize(("raises", "status"), [(False, 0), (True, 3)])
def test_a_child_that_the_handler_forks_ends_with_it(raises, status):
    done = subprocess.run(
        [sys.executable, "-c", FORKS.format(raises=raises)],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"ended with {status}\n"
