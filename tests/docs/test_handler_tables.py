"""The tables about handlers: who gets the context, its fields, and how runs end."""

from __future__ import annotations

import contextlib
import sys

import pytest

from anarchon import ConfigurationError, MemoryBackend, Scheduler
from anarchon.testing import FaultyBackend, ManualClock
from tests.docs.pages import coded, rows

ENDS = rows("handlers.md", "the handler", "the attempt is recorded as")


class Any:
    """A callable that can't say what it takes."""

    __signature__ = None

    def __call__(self, *_):
        return None


CALLED = {
    "exactly one required": ([lambda ctx: ctx, lambda x: x, lambda x, n=1: x], True),
    "no required parameter, and the first": ([lambda ctx=None: ctx, lambda context=1: 1], True),
    "no required parameter, and none": ([lambda: None, lambda n=1: n, lambda *, ctx=1: ctx], False),
    "only `*args`": ([lambda *args: args], None),
    "two or more": ([lambda a, b: (a, b), lambda *, key: key], None),
}


def test_who_gets_the_context():
    table = rows("handlers.md", "the handler has", "it is called")
    assert len(table) == len(CALLED)
    scheduler = Scheduler(MemoryBackend())
    for (has, how), (start, (handlers, with_context)) in zip(table, CALLED.items(), strict=True):
        assert has.startswith(start)
        assert how.startswith({True: "with ", False: "without", None: "refused"}[with_context])
        for handler in handlers:
            if with_context is None:
                with pytest.raises(ConfigurationError):
                    scheduler.every("job", "1h", handler, replace=True)
            else:
                scheduler.every("job", "1h", handler, replace=True)
                assert scheduler.jobs[0].pass_context is with_context


def test_where_the_signature_does_not_tell_the_option_does():
    scheduler = Scheduler(MemoryBackend())
    for wanted in (True, False):
        scheduler.every("any", "1h", lambda *args: args, pass_context=wanted, replace=True)
        assert scheduler.jobs[0].pass_context is wanted
    with pytest.raises(ConfigurationError):
        scheduler.every("unreadable", "1h", Any())


def test_the_fields_of_the_context():
    clock, found = ManualClock(), []
    scheduler = Scheduler(MemoryBackend(), catch_up=0)
    clock.attach(scheduler)
    scheduler.every("job", "10s", found.append)
    with scheduler:
        clock.advance("10s")
    [ctx] = found
    shown = [coded(row[0])[0] for row in rows("handlers.md", "field", "is")]
    public = {name for name in dir(ctx) if not name.startswith("_")}
    calls = [coded(row[0])[0].partition("(")[0] for row in rows("handlers.md", "call", "does")]
    assert {name for name in public if callable(getattr(ctx, name))} == {
        name.removeprefix("ctx.") for name in calls
    }
    assert {*shown, *calls} == {f"ctx.{name}" for name in public}
    assert (ctx.slot - ctx.previous_slot, ctx.checkpoint) == (10_000, None)


# --- how runs end ---


def ended(handler, *, stop=True, backend=None, **options):
    """Run one slot, let an hour go by or stop, and return its one attempt."""
    clock, scheduler = ManualClock(), Scheduler(backend or MemoryBackend(), catch_up=0)
    clock.attach(scheduler)
    scheduler.every("job", "10s", handler, overlap="skip", **options)
    with scheduler:
        clock.advance("10s")
        if not stop:
            clock.advance("9s")
    return scheduler.history("job")[-1]


def returns(_):
    return "a value"


def test_returns():
    run = ended(returns)
    assert (run.status, run.error) == ("success", None)
    assert "a value" not in str(run.to_dict())


def test_raises():
    for error in (ValueError("no"), SystemExit(0), KeyboardInterrupt()):

        def handler(_, error=error):
            raise error

        run = ended(handler)
        assert run.status == "failed"
        assert run.error.startswith(type(error).__name__)
        assert "in handler" in run.traceback


def test_sys_exit_ends_neither_the_process_nor_the_thread():
    scheduler = Scheduler(MemoryBackend(), catch_up=0)
    scheduler.every("leaves", "1h", lambda: sys.exit(0)).every("stays", "1h", lambda: None)
    with scheduler:
        assert scheduler.run_now("leaves").status == "failed"
        assert scheduler.run_now("stays").status == "success"


def test_what_is_around_raises():
    @contextlib.contextmanager
    def around(_):
        yield
        raise LookupError("nothing to give back")

    clock, scheduler = ManualClock(), Scheduler(MemoryBackend(), catch_up=0, around=around)
    clock.attach(scheduler)
    scheduler.every("job", "1h", lambda: None)
    with scheduler:
        run = scheduler.run_now("job")
    assert (run.status, run.error) == ("failed", "LookupError: nothing to give back")


def test_runs_past_its_timeout():
    run = ended(lambda ctx: ctx.signal.sleep("1h"), stop=False, timeout="2s")
    assert (run.status, run.duration_ms) == ("failed", 2000)
    assert run.error.startswith("TimeoutError")


def test_raises_after_stop():
    run = ended(lambda ctx: ctx.signal.sleep("1h"))
    assert (run.status, run.detail) == ("interrupted", "handed over")


def test_the_type_of_what_is_raised_does_not_matter():
    def handler(ctx):
        ctx.signal.wait()
        raise LookupError("no such page")

    run = ended(handler)
    assert (run.status, run.detail) == ("interrupted", "handed over")
    assert run.error == "LookupError: no such page"


def test_returns_after_stop():
    run = ended(lambda ctx: ctx.signal.wait())
    assert (run.status, run.detail) == ("success", "after stop")


def after_the_lease(handler):
    """Let renewals fail until the lease can't be proved; return reason and record."""
    clock, backend, reasons = ManualClock(), FaultyBackend(MemoryBackend()), []

    def noting(ctx):
        ctx.signal.wait()
        reasons.append(ctx.signal.reason)
        handler(ctx)

    scheduler = Scheduler(backend, catch_up=0, lease="3s")
    clock.attach(scheduler)
    scheduler.every("job", "1h", noting)
    with scheduler:
        clock.advance("1h")
        backend.fail("renew", times=100)
        clock.advance("10s")
        backend.heal()
        clock.advance("1s")
    return reasons, [(run.attempt, run.status) for run in scheduler.history("job")]


def test_ends_after_the_lease_was_lost():
    reasons, attempts = after_the_lease(lambda ctx: ctx.signal.raise_if_aborted())
    assert reasons[0] == "lost"
    assert attempts[-1] in [(1, "interrupted"), (1, "lost")]


def test_returns_after_the_lease_was_lost_and_nobody_took_over():
    reasons, attempts = after_the_lease(lambda _: None)
    assert (reasons, attempts) == (["lost"], [(1, "success")])


def test_the_table_has_no_other_line():
    tests = [
        test_returns,
        test_raises,
        test_runs_past_its_timeout,
        test_raises_after_stop,
        test_returns_after_stop,
        test_ends_after_the_lease_was_lost,
    ]
    assert len(ENDS) == len(tests)
