"""run_now and submit: now, here, and never more than there are workers."""

from __future__ import annotations

import math
import threading

import pytest

from anarchon import Busy, JobNotFound, MemoryBackend, NotRunning
from anarchon.testing import FaultyBackend, ManualClock
from tests.facade.helpers import PATIENCE_SECONDS, Blocked, Door, until


def test_run_now_returns_the_record(make):
    scheduler = make()
    scheduler.every("job", "1h", lambda ctx: None, catch_up=0)
    scheduler.start()
    run = scheduler.run_now("job")
    assert (run.job, run.status, run.reason, run.manual) == ("job", "success", "manual", True)
    assert run.attempt == 1
    assert run.run_id
    # The handler has ended; the store is told of it just then.
    until(lambda: scheduler.history("job") == [run])


def test_run_now_returns_failures_as_well(make):
    scheduler = make()
    scheduler.every("job", "1h", lambda: 1 / 0, catch_up=0)
    scheduler.start()
    run = scheduler.run_now("job")
    assert (run.status, run.error) == ("failed", "ZeroDivisionError: division by zero")
    assert "ZeroDivisionError" in run.traceback


def test_submit_returns_the_run_id_without_waiting(make):
    scheduler = make()
    go_on = threading.Event()
    scheduler.every("job", "1h", lambda: go_on.wait(20), catch_up=0)
    scheduler.start()
    run_id = scheduler.submit("job")
    assert [run.run_id for run in scheduler.history("job", status="success")] == []
    go_on.set()
    until(lambda: scheduler.last_run("job", status="success") is not None)
    assert scheduler.last_run("job").run_id == run_id


def test_data_replaces_that_of_the_job_and_of_the_scheduler(make):
    seen = []
    scheduler = make(data="scheduler's")
    scheduler.every("plain", "1h", lambda ctx: seen.append(ctx.data), catch_up=0)
    scheduler.every("own", "1h", lambda ctx: seen.append(ctx.data), data="job's", catch_up=0)
    scheduler.start()
    scheduler.run_now("plain")
    scheduler.run_now("own")
    scheduler.run_now("own", data="call's")
    scheduler.run_now("own", data=None)
    assert seen == ["scheduler's", "job's", "call's", None]


@pytest.mark.parametrize("method", ["run_now", "submit"])
def test_what_can_not_be_run_is_refused(make, method):
    door = Door()
    scheduler = make(door)
    scheduler.every("job", "1h", lambda: None)
    scheduler.every("off", "1h", lambda: None, enabled=False)
    call = getattr(scheduler, method)
    with pytest.raises(JobNotFound, match="jab"):
        call("jab")
    with pytest.raises(JobNotFound, match="enabled=False"):
        call("off")
    with pytest.raises(NotRunning, match="idle"):
        call("job")
    door.may_open.clear()
    scheduler.start(retry=True)
    with pytest.raises(NotRunning, match="starting"):
        call("job")
    door.may_open.set()
    until(lambda: scheduler.state == "running")
    scheduler.remove("job")
    with pytest.raises(JobNotFound):
        call("job")


def test_no_more_manual_runs_than_workers(make):
    scheduler = make(workers=2)
    go_on = threading.Event()
    scheduler.every("job", "1h", lambda: go_on.wait(20), catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    scheduler.submit("job")
    with pytest.raises(Busy, match="2 manual runs"):
        scheduler.submit("job")
    with pytest.raises(Busy):
        scheduler.run_now("job")
    go_on.set()
    until(lambda: scheduler.health().running == 0)
    until(lambda: len(scheduler.history("job", status="success")) == 2)
    # The store has a record a moment before the scheduler hears that it has.
    until(lambda: not scheduler._life()._calls._answers)
    assert scheduler.run_now("job").status == "success"


def test_a_handler_may_call_it(make):
    scheduler = make(workers=1)
    results = []
    scheduler.every("inner", "1h", lambda: None, catch_up=0)
    scheduler.every("outer", "1h", lambda: results.append(scheduler.run_now("inner")), catch_up=0)
    scheduler.start()
    assert scheduler.run_now("outer").status == "failed"  # one worker: the inner one is too many
    scheduler.stop()
    roomy = make(workers=2)
    roomy.every("inner", "1h", lambda: None, catch_up=0)
    roomy.every("outer", "1h", lambda: results.append(roomy.run_now("inner")), catch_up=0)
    roomy.start()
    assert roomy.run_now("outer").status == "success"
    assert results[0].status == "success"


def test_a_job_defined_a_moment_ago_runs(make):
    scheduler = make()
    scheduler.start()
    for n in range(20):
        scheduler.every(f"job-{n}", "1h", lambda: None, catch_up=0)
        assert scheduler.run_now(f"job-{n}").status == "success"


def test_a_replaced_job_runs_its_new_function(make):
    scheduler = make()
    seen = []
    scheduler.every("job", "1h", lambda: seen.append("old"), catch_up=0)
    scheduler.start()
    scheduler.every("job", "1h", lambda: seen.append("new"), catch_up=0, replace=True)
    scheduler.run_now("job")
    assert seen == ["new"]


def test_a_stop_ends_the_wait_with_a_record(make):
    scheduler = make()
    results, begun = [], threading.Event()

    def wait_for_abort(ctx):
        begun.set()
        ctx.signal.wait(20)
        ctx.signal.raise_if_aborted()

    scheduler.every("job", "1h", wait_for_abort, catch_up=0)
    scheduler.start()
    waiting = threading.Thread(target=lambda: results.append(scheduler.run_now("job")))
    waiting.start()
    assert begun.wait(PATIENCE_SECONDS)
    scheduler.stop()
    waiting.join(5)
    assert results[0].status == "interrupted"
    assert results == scheduler.history("job")


def test_the_timeout_and_the_limit_of_a_stop_end_the_wait(make):
    clock = ManualClock()
    scheduler = make(lease=60)
    clock.attach(scheduler)
    blocked = Blocked()
    scheduler.every("job", "1h", blocked, timeout="50s", catch_up=0)
    scheduler.start()
    run = scheduler.run_now("job")
    blocked.wait_until_begun()
    assert (run.status, run.duration_ms) == ("failed", 50_000)
    assert run.error.startswith("TimeoutError")

    results = []
    waiting = threading.Thread(target=lambda: results.append(scheduler.run_now("job")))
    waiting.start()
    blocked.wait_until_begun()
    scheduler.stop(7)
    waiting.join(5)
    blocked.go_on.set()
    assert results[0].status == "interrupted"
    assert scheduler.state == "idle"


def test_it_runs_while_the_store_is_down_and_is_recorded_later(make):
    backend = FaultyBackend(MemoryBackend())
    scheduler = make(backend, lease=30)
    ran = threading.Event()
    scheduler.every("job", "1h", ran.set, catch_up=0)
    scheduler.start()
    backend.fail(times=math.inf)
    run_id = scheduler.submit("job")
    assert ran.wait(5)
    backend.heal()
    until(lambda: backend.inner.history("job", limit=5))
    assert backend.inner.history("job", limit=5)[0].run_id == run_id
