"""What swallows or wraps an abort: each line of the table on the page about handlers."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
import threading
import weakref
from multiprocessing.pool import ThreadPool

import pytest

from anarchon import Aborted, MemoryBackend, Scheduler
from anarchon.testing import ManualClock
from tests.docs.pages import rows

TABLE = rows("handlers.md", "what", "does", "do instead")


def stopped(handler, **options):
    """Stop a scheduler while a handler runs, and return how its run is recorded."""
    clock, scheduler = ManualClock(), Scheduler(MemoryBackend(), catch_up=0, **options)
    clock.attach(scheduler)
    scheduler.every("job", "10s", handler)
    with scheduler:
        clock.advance("10s")
    [run] = scheduler.history("job")
    return run.status, run.detail


SWALLOWED = ("success", "after stop")
HANDED_OVER = ("interrupted", "handed over")


def test_nothing_in_the_way():
    assert stopped(lambda ctx: ctx.signal.sleep("1h")) == HANDED_OVER


def test_except_exception_does_not_catch_it():
    def handler(ctx):
        with contextlib.suppress(Exception):
            ctx.signal.sleep("1h")

    assert stopped(handler) == HANDED_OVER


def test_except_everything():
    def bare(ctx):
        try:
            ctx.signal.sleep("1h")
        except:  # noqa: E722 - this is what the line is about
            return

    def base(ctx):
        try:
            ctx.signal.sleep("1h")
        except BaseException:
            return

    def raises_again(ctx):
        try:
            ctx.signal.sleep("1h")
        except BaseException as error:
            seen.append(type(error))
            raise

    seen: list = []
    assert (stopped(bare), stopped(base)) == (SWALLOWED, SWALLOWED)
    assert stopped(raises_again) == HANDED_OVER
    assert seen == [Aborted]


def test_suppress():
    def handler(ctx):
        with contextlib.suppress(BaseException):
            ctx.signal.sleep("1h")

    assert stopped(handler) == SWALLOWED


def test_leaving_finally():
    """As text: newer Pythons warn about each of these words in `finally`."""
    source = (
        "def handler(ctx):\n"
        "    for _ in range(2):\n"
        "        try: ctx.signal.sleep('1h')\n"
        "        finally: {}\n"
    )
    for word in ("return", "break", "continue"):
        names: dict = {}
        exec(source.format(word), names)
        assert stopped(names["handler"]) == SWALLOWED


class Deaf:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return True


def test_a_context_manager_that_returns_true():
    def handler(ctx):
        with Deaf():
            ctx.signal.sleep("1h")

    assert stopped(handler) == SWALLOWED
    assert stopped(lambda ctx: ctx.signal.sleep("1h"), around=lambda _: Deaf()) == SWALLOWED


def test_a_retry_helper():
    def handler_with(caught, calls):
        def handler(ctx):
            for _ in range(3):
                calls.append(ctx.signal.aborted)
                try:
                    return ctx.signal.sleep("1h")
                except caught:
                    continue
            return None

        return handler

    wide, narrow = [], []
    assert stopped(handler_with(BaseException, wide)) == SWALLOWED
    assert wide == [False, True, True]
    assert stopped(handler_with(Exception, narrow)) == HANDED_OVER
    assert narrow == [False]


def test_a_helper_with_except_exception_and_else():
    def handler_with(helper, done):
        def handler(ctx):
            with helper(done):
                ctx.signal.sleep("1h")

        return handler

    @contextlib.contextmanager
    def careless(done):
        try:
            yield
        except Exception:
            done.append("rolled back")
            raise
        else:
            done.append("committed")

    @contextlib.contextmanager
    def careful(done):
        try:
            yield
        except BaseException:
            done.append("rolled back")
            raise
        else:
            done.append("committed")

    neither, one = [], []
    assert stopped(handler_with(careless, neither)) == HANDED_OVER
    assert stopped(handler_with(careful, one)) == HANDED_OVER
    assert (neither, one) == ([], ["rolled back"])


def test_a_thread_pool(monkeypatch):
    """The error ends the worker thread; when it has ended, nobody is left to bring the answer."""
    ended = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: ended.set())

    def fails(_):
        raise Aborted("stop")

    with ThreadPool(2) as pool:
        answer = pool.map_async(fails, [1])
        assert ended.wait(60)
        assert pool.apply(int) == 0  # the other worker's answer, which comes the same way
        assert not answer.ready()


def test_the_signal_on_a_thread_pool():
    told = []

    def ask(ctx):
        ctx.signal.wait()
        ctx.signal.raise_if_aborted()

    def handler(ctx):
        with ThreadPool(1) as pool:
            try:
                pool.map(ask, [ctx])
            except RuntimeError as error:
                told.append(type(error))
                raise

    assert stopped(handler) == HANDED_OVER
    assert told == [RuntimeError]


def test_a_thread_of_ones_own(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def ask(signal):
        signal.wait()
        signal.raise_if_aborted()

    def drops(ctx):
        thread = threading.Thread(target=ask, args=[ctx.signal])
        thread.start()
        thread.join()

    def raises(ctx):
        drops(ctx)
        ctx.signal.raise_if_aborted()

    assert stopped(drops) == SWALLOWED
    assert stopped(raises) == HANDED_OVER


def test_a_task_group():
    caught = []

    async def ask(ctx):
        await asyncio.to_thread(ctx.signal.wait)
        ctx.signal.raise_if_aborted()

    async def handler(ctx):
        child = ask(ctx)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(child)
        except BaseException as error:
            caught.append(error)
            raise

    async def fails():
        raise RuntimeError

    async def wraps():
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(wraps())
    assert [type(error) for error in raised.value.exceptions] == [RuntimeError]
    assert stopped(handler) == HANDED_OVER
    assert caught


def test_gather_with_return_exceptions():
    async def fails():
        raise RuntimeError("aborted")

    async def gathers():
        return await asyncio.gather(fails(), return_exceptions=True)

    [value] = asyncio.run(gathers())
    assert isinstance(value, RuntimeError)


def test_except_cancelled_error():
    async def swallows(_):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def lets_it_pass(_):
        await asyncio.Event().wait()

    assert stopped(swallows) == SWALLOWED
    assert stopped(lets_it_pass) == HANDED_OVER


def test_to_thread():
    """The thread outlives the cancellation, and sees the signal of the run."""
    steps = []

    async def handler(ctx):
        def work():
            cancelled.wait(60)
            steps.append(("thread", ctx.signal.aborted))

        cancelled = threading.Event()
        try:
            await asyncio.to_thread(work)
        except asyncio.CancelledError:
            steps.append("cancelled")
            cancelled.set()
            raise

    assert stopped(handler) == HANDED_OVER
    assert steps == ["cancelled", ("thread", True)]


@pytest.mark.parametrize("install", [
    lambda base, ask: base.create_function("ask", 0, ask),
    lambda base, ask: base.set_progress_handler(ask, 1),
])  # fmt: skip
def test_functions_that_sqlite_calls(install):
    caught = []

    def ask():
        raise Aborted("stop")

    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.create_function("ask", 0, lambda: 0)
        install(base, ask)
        try:
            base.execute("SELECT ask()").fetchall()
        except Exception as error:
            caught.append(type(error))
    assert caught == [sqlite3.OperationalError]


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_on_abort_interrupts_sqlite():
    """As the table advises: a query that would never end does."""
    begun = threading.Event()

    def handler(ctx):
        with contextlib.closing(sqlite3.connect(":memory:", check_same_thread=False)) as base:
            base.set_progress_handler(begun.set, 1000)
            with ctx.signal.on_abort(base.interrupt):
                base.execute(ENDLESS).fetchall()

    scheduler = Scheduler(MemoryBackend())
    scheduler.every("job", "1h", handler, catch_up="1h")
    with scheduler:
        assert begun.wait(60)
    [run] = scheduler.history("job")
    assert (run.status, run.error) == ("interrupted", "OperationalError: interrupted")


def test_del_and_weak_references(monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: printed.append(what.exc_type))

    class Dies:
        def __del__(self):
            raise Aborted("stop")

    class Plain:
        pass

    def callback(_):
        raise Aborted("stop")

    Dies()
    watched = Plain()
    reference = weakref.ref(watched, callback)
    del watched
    assert reference() is None
    assert printed == [Aborted, Aborted]


TESTS = {
    "`except:`": test_except_everything,
    "`contextlib.suppress": test_suppress,
    "`return`, `break` or `continue` in `finally`": test_leaving_finally,
    "a context manager whose": test_a_context_manager_that_returns_true,
    "a retry helper": test_a_retry_helper,
    "a helper with `except Exception`": test_a_helper_with_except_exception_and_else,
    "`multiprocessing.pool.ThreadPool`": test_a_thread_pool,
    "a `threading.Thread`": test_a_thread_of_ones_own,
    "`asyncio.TaskGroup`": test_a_task_group,
    "`asyncio.gather(": test_gather_with_return_exceptions,
    "`except asyncio.CancelledError:`": test_except_cancelled_error,
    "`asyncio.to_thread`": test_to_thread,
    "functions that SQLite calls": test_functions_that_sqlite_calls,
    "`__del__`": test_del_and_weak_references,
}


def test_the_page_lists_what_swallows_or_wraps_an_abort():
    """Each line of the table has its test above, and each of these its line."""
    lines = [row[0] for row in TABLE]
    assert len(lines) == len(TESTS)
    for line, start in zip(lines, TESTS, strict=True):
        assert line.startswith(start)
