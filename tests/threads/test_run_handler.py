"""What one attempt comes to, whatever its handler does."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import threading
import types
import weakref

import pytest

from anarchon._clock import Clock
from anarchon._messages import (
    Ended,
    JobSpec,
    StartRun,
)
from anarchon._signal import Switch
from anarchon._texts import LIMIT_BYTES
from anarchon._threads_handler import Attempt, run_attempt
from anarchon._values import (
    Lease,
    RunKey,
    Terms,
)
from anarchon.context import Context
from anarchon.errors import Aborted
from tests.threads.rig import Every

LEASE = Lease(RunKey("job", 1_800_000_000_000), 1)


def attempt(handler, *, with_context=True, around=None):
    spec = JobSpec("job", Every(10_000), Terms(6000, 1000, 3, True, 0), 0.02, None)
    switch = Switch(Clock())
    start = StartRun(LEASE, "scheduled", 1, None, spec)
    context = Context(start, "me", switch, None)
    return Attempt(LEASE, context, switch, handler, with_context, around)


def run(handler, **options):
    return run_attempt(attempt(handler, **options))


def abort(ctx, reason="stop"):
    ctx.signal._switch.abort(ctx.signal, reason)


class Sneaky(BaseException):
    pass


class Mute(Exception):
    def __str__(self):
        raise SystemExit("no words")


def raising(error):
    def handler(ctx):
        raise error

    return handler


# --- plain functions ---


def test_a_handler_that_returns():
    assert run(lambda ctx: "ignored") == Ended(LEASE)


def test_a_handler_without_a_context():
    seen = []
    assert run(lambda: seen.append(1), with_context=False) == Ended(LEASE)
    assert seen == [1]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such table"), "ValueError: no such table"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (Sneaky("x"), "Sneaky: x"),
        (Mute(), "Mute: (no text: its str() raised SystemExit)"),
        (ExceptionGroup("many", [ValueError(1)]), "ExceptionGroup: many (1 sub-exception)"),
    ],
)
def test_whatever_it_raises_is_recorded(error, text):
    ended = run(raising(error))
    assert ended.error == text
    assert not ended.aborted
    assert not ended.unstarted
    assert "in handler" in ended.traceback
    assert "anarchon/_threads_handler.py" not in ended.traceback


@pytest.mark.parametrize(
    "message", ["a\x00b", "\ud800", "x" * 5_000_000, "\N{PILE OF POO}" * 100_000, "\x00" * 100_000]
)
def test_every_text_can_be_stored(message):
    ended = run(raising(ValueError(message)))
    for text in (ended.error, ended.traceback):
        assert len(text.encode()) <= LIMIT_BYTES
        assert "\x00" not in text
    assert ended.error.startswith("ValueError: ")
    assert "in handler" in ended.traceback


def test_a_recursion_without_end():
    def forever(ctx):
        return forever(ctx)

    ended = run(forever)
    assert ended.error.startswith("RecursionError")
    assert len(ended.traceback.encode()) <= LIMIT_BYTES


def test_an_abort_is_told_from_an_error():
    def obeys(ctx):
        abort(ctx)
        ctx.signal.raise_if_aborted()

    def fails(ctx):
        abort(ctx)
        raise ValueError("while stopping")

    assert run(obeys).aborted
    assert run(raising(Aborted("mine"))).aborted
    ended = run(fails)
    assert not ended.aborted
    assert ended.error == "ValueError: while stopping"


def test_a_handler_whose_signal_aborted_first_is_not_called():
    called = []
    late = attempt(called.append)
    abort(late.context)
    assert run_attempt(late) == Ended(LEASE, unstarted=True)
    assert called == []


def test_each_attempt_has_a_fresh_context_of_variables():
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("outside")
    seen = []

    def handler(ctx):
        seen.append(variable.get())
        variable.set("inside")

    run(handler)
    run(handler)
    assert seen == ["unset", "unset"]
    assert variable.get() == "outside"


def test_the_run_belongs_to_the_thread_that_runs_it():
    def handler(ctx):
        ctx.signal.raise_if_aborted()
        threads.append(threading.get_ident())
        abort(ctx)
        ctx.signal.sleep(0)

    threads = []
    out = []
    thread = threading.Thread(target=lambda: out.append(run(handler)))
    thread.start()
    thread.join(5)
    assert out[0].aborted
    assert threads == [thread.ident]


# --- around ---


def test_around_is_entered_around_the_call():
    steps = []

    @contextlib.contextmanager
    def around(ctx):
        steps.append(("enter", ctx.name))
        try:
            yield
        finally:
            steps.append("exit")

    async def handler(ctx):
        await asyncio.sleep(0)
        steps.append("call")

    assert run(handler, around=around) == Ended(LEASE)
    assert steps == [("enter", "job"), "call", "exit"]


def test_around_sees_what_the_handler_raised_and_may_swallow_it():
    assert run(raising(ValueError()), around=lambda _: contextlib.suppress(ValueError)) == Ended(
        LEASE
    )

    async def fail(ctx):
        raise ValueError

    assert run(fail, around=lambda _: contextlib.suppress(ValueError)) == Ended(LEASE)


@pytest.mark.parametrize("around", [lambda ctx: None, lambda ctx: 1 / 0])
def test_an_around_that_fails_fails_the_attempt_uncalled(around):
    called = []
    assert run(called.append, around=around).error
    assert called == []


def test_around_that_fails_at_the_end_fails_the_attempt():
    @contextlib.contextmanager
    def around(ctx):
        yield
        raise OSError("no commit")

    assert run(lambda ctx: None, around=around).error == "OSError: no commit"


# --- awaitables ---


async def later(ctx):
    await asyncio.sleep(0)
    return "ignored"


@pytest.mark.parametrize(
    "handler",
    [
        later,
        functools.partial(later),
        lambda ctx: types.coroutine(lambda: (yield))(),
    ],
    ids=["lambda", "partial", "generator-based"],
)
def test_an_awaitable_result_is_run_to_its_end(handler):
    assert run(handler) == Ended(LEASE)


def test_any_object_with_an_await_is_run():
    seen = []

    class Later:
        def __await__(self):
            seen.append(1)
            return iter(())

    assert run(lambda ctx: Later()) == Ended(LEASE)
    assert seen == [1]


def test_each_run_has_an_event_loop_of_its_own():
    loops = []

    async def handler(ctx):
        loops.append(asyncio.get_running_loop())

    run(handler)
    run(handler)
    assert loops[0] is not loops[1]
    assert all(loop.is_closed() for loop in loops)


def test_what_a_coroutine_raises_is_recorded():
    async def handler(ctx):
        await asyncio.sleep(0)
        raise SystemExit("enough")

    ended = run(handler)
    assert ended.error == "SystemExit: enough"
    assert "in handler" in ended.traceback
    assert "asyncio" not in ended.traceback


def test_a_task_of_a_coroutine_that_exits_fails_the_attempt():
    async def exits():
        raise SystemExit(4)

    async def handler(ctx):
        await asyncio.create_task(exits())

    assert run(handler).error == "SystemExit: 4"
    assert run(later) == Ended(LEASE)


@pytest.mark.parametrize("when", ["before", "during"])
def test_an_abort_cancels_the_coroutine(when):
    steps = []

    async def handler(ctx):
        if when == "before":
            abort(ctx)
        else:
            threading.Timer(0.02, abort, (ctx,)).start()
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("cleaned")

    ended = run(handler)
    assert ended.aborted
    assert steps == ["cleaned"]


def test_a_coroutine_may_swallow_its_cancellation():
    async def handler(ctx):
        abort(ctx)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    assert run(handler) == Ended(LEASE)


def test_a_cancellation_of_its_own_is_a_failure():
    ended = run(raising(asyncio.CancelledError()))
    assert ended.error == "CancelledError"
    assert not ended.aborted


def test_an_abort_after_the_end_finds_a_closed_loop():
    late = attempt(later)
    assert run_attempt(late) == Ended(LEASE)
    abort(late.context)


def test_an_async_generator_is_refused():
    async def handler(ctx):
        yield 1

    ended = run(handler)
    assert ended.error.startswith("TypeError: the handler returned an async generator")


def test_a_generator_that_never_ran_is_refused():
    def handler(ctx):
        yield 1

    def begun():
        generator = handler(None)
        next(generator)
        return generator

    assert run(handler).error.startswith("TypeError: the handler returned a generator")
    assert run(begun, with_context=False) == Ended(LEASE)


# --- memory ---


class Big:
    """Something in a handler's frame."""


@pytest.mark.parametrize("kind", ["plain", "async", "async aborted"])
def test_no_cycle_keeps_the_frames_of_a_failed_handler(kind):
    watched = []

    def plain(ctx):
        big = Big()
        watched.append(weakref.ref(big))
        raise ValueError(1)

    async def awaiting(ctx):
        big = Big()
        watched.append(weakref.ref(big))
        if kind == "async aborted":
            abort(ctx)
        await asyncio.sleep(0)
        raise ValueError(2)

    run(later)  # what asyncio keeps for itself, it keeps once
    gc.collect()
    gc.disable()
    try:
        assert run(plain if kind == "plain" else awaiting).error
        assert watched[0]() is None
    finally:
        gc.enable()
