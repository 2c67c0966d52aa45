"""Transactions of handlers while their scheduler stops, or in a child that they forked."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

from anarchon import (
    Aborted,
    BackendUnavailable,
    NotRunning,
    Scheduler,
)
from anarchon.testing import FaultyBackend
from tests.fencing.runs import just_now, running


def test_a_stop_waits_for_a_transaction_on_a_thread_of_the_handler_s_own(postgres):
    """Its coroutine is cancelled, and its thread goes on and commits."""
    pool = ThreadPoolExecutor(1)
    inside, go_on, starts = threading.Event(), threading.Event(), []

    def transfer(ctx):
        with postgres.transaction() as connection:
            postgres.pay(connection, ctx.name, ctx.slot)
            ctx.complete(connection)
            inside.set()
            assert go_on.wait(20)

    async def pay(ctx):
        starts.append(ctx.attempt)
        await asyncio.get_running_loop().run_in_executor(pool, transfer, ctx)

    first, second = (Scheduler(postgres.backend(), lease=6, heartbeat=0.5) for _ in range(2))
    at = just_now()
    for scheduler in (first, second):
        scheduler.once("job", at, pay)
    first.start()
    assert inside.wait(20)
    second.start()
    stopping = threading.Thread(target=first.stop, args=(20,))
    stopping.start()
    time.sleep(1.5)  # so long the transaction is open after everybody else is done
    go_on.set()
    stopping.join()
    time.sleep(1.5)  # and so long somebody could start the run again
    second.stop()
    pool.shutdown()
    assert starts == [1]
    assert len(postgres.paid()) == 1
    assert postgres.bench_history() == ["success"]


def test_a_result_that_is_on_its_way_is_not_overtaken_while_the_scheduler_ends(place):
    backend = FaultyBackend(place.backend())
    on_its_way = backend.hold("finish")
    raised, ended = [], threading.Event()

    def pay(ctx):
        assert on_its_way.reached.wait(20), "its timeout is being recorded"
        stopping = threading.Thread(target=scheduler.stop, args=(0.2,))
        stopping.start()
        time.sleep(0.7)  # the loop has ended then, and only its calls are waited for
        try:
            with place.transaction() as connection:
                place.pay(connection, ctx.name, ctx.slot)
                ctx.complete(connection)
        except Aborted as aborted:
            raised.append(str(aborted))
        on_its_way.release()
        stopping.join()
        ended.set()

    scheduler = Scheduler(backend, lease=60)
    scheduler.once("job", just_now(), pay, timeout="300ms")
    scheduler.start()
    assert ended.wait(30)
    assert raised == ["the run was recorded before it was completed: roll the transaction back"]
    assert place.paid() == []
    assert place.bench_history() == ["failed"]


def test_after_a_stop_that_left_it_behind_a_handler_reaches_no_store(place):
    raised, inside, go_on, ended = [], threading.Event(), threading.Event(), threading.Event()

    def pay(ctx):
        inside.set()
        assert go_on.wait(20)
        with place.transaction() as connection:
            try:
                ctx.complete(connection)
            except BackendUnavailable as error:
                raised.append(str(error))
        ended.set()

    scheduler = Scheduler(place.backend(), lease=60)
    scheduler.once("job", just_now(), pay)
    scheduler.start()
    assert inside.wait(20)
    scheduler.stop(0.1)
    go_on.set()
    assert ended.wait(20)
    assert "is not open" in raised[0]


def status_of(ctx):
    """Complete the run and return 0; 7 when that is refused, 1 when anything else happens."""
    try:
        ctx.complete(None)
    except NotRunning:
        return 7
    except BaseException:
        return 1
    return 0


def test_a_child_that_a_handler_forked_has_no_run(sqlite_place):
    codes = []

    def pay(ctx):
        pid = os.fork()
        if pid == 0:
            os._exit(status_of(ctx))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, about threads and forks
        with running(sqlite_place.backend(), pay) as one:
            assert codes == [7]
            assert one.event == "success"
