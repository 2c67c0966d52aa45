"""The threads of handlers: reused, replaced, and never waited for."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from anarchon._clock import Clock
from anarchon._messages import (
    Ended,
    JobSpec,
    StartRun,
)
from anarchon._signal import Switch
from anarchon._threads_handler import Attempt
from anarchon._threads_workers import Workers
from anarchon._values import (
    Lease,
    RunKey,
    Terms,
)
from anarchon.context import Context
from tests.threads.rig import Every


@pytest.fixture
def ended():
    return SimpleQueue()


@pytest.fixture
def workers(ended):
    workers = Workers(Clock(), 2, ended.put)
    yield workers
    for thread in workers.close():
        thread.join(5)


def attempt(handler, n=1, manual=""):
    lease = Lease(RunKey("job", n, manual), 1)
    spec = JobSpec("job", Every(10), Terms(6000, 1000, 3, True, 0), 0.02, None)
    switch = Switch(Clock())
    context = Context(StartRun(lease, "scheduled", 1, None, spec), "me", switch, None)
    return Attempt(lease, context, switch, handler, True, None)


def run(workers, ended, handler, n=1, manual=""):
    """Run a handler to its end, and return the worker's word."""
    assert workers.start(attempt(handler, n, manual))
    done = ended.get(timeout=5)
    workers.heard(done)
    return done


def test_an_idle_worker_is_used_again(workers, ended):
    names = []
    for n in range(5):
        run(workers, ended, lambda ctx: names.append(threading.current_thread().name), n)
    assert names == ["anarchon-worker-1"] * 5


def test_there_are_as_many_threads_as_attempts_and_no_more_idle_ones_than_workers(workers, ended):
    gate = threading.Event()
    for n in range(4):
        assert workers.start(attempt(lambda ctx: gate.wait(5), n))
    gate.set()
    done = [ended.get(timeout=5) for _ in range(4)]
    for word in done:
        workers.heard(word)
    for word in done[2:]:
        word.worker.thread.join(5)
    assert [word.worker.thread.is_alive() for word in done] == [True, True, False, False]


def test_a_manual_run_has_a_thread_that_ends_with_it(workers, ended):
    done = run(workers, ended, lambda ctx: None, manual="m")
    done.worker.thread.join(5)
    assert not done.worker.thread.is_alive()
    assert done.worker.thread.name == "anarchon-manual-1"


def test_an_abort_reaches_its_attempt_and_no_other(workers, ended):
    begun = threading.Barrier(3)
    reasons = {}

    def handler(ctx):
        begun.wait(5)
        ctx.signal.wait(0.2 if ctx.slot == 2 else 5)
        reasons[ctx.slot] = ctx.signal.reason

    first, second = attempt(handler, 1), attempt(handler, 2)
    workers.start(first)
    workers.start(second)
    begun.wait(5)
    workers.abort(first.lease, "cancel")
    workers.abort(Lease(RunKey("job", 3), 1), "stop")
    for _ in range(2):
        workers.heard(ended.get(timeout=5))
    assert reasons == {1: "cancel", 2: None}


def test_the_stack_of_a_handler_is_the_users_part_alone(workers, ended):
    gate, begun = threading.Event(), threading.Event()

    def dig(ctx):
        begun.set()
        gate.wait(5)

    workers.start(attempt(dig))
    begun.wait(5)
    stack = workers.stack_of(RunKey("job", 1))
    assert "in dig" in stack
    assert "anarchon/_" not in stack
    assert workers.stack_of(RunKey("job", 2)) == ""
    gate.set()
    workers.heard(ended.get(timeout=5))
    assert workers.stack_of(RunKey("job", 1)) == ""


def test_no_thread_is_no_start_and_said_once_until_there_is_one(
    workers, ended, monkeypatch, caplog
):
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda thread: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            workers.start(attempt(print))

        def refuse(thread):
            raise RuntimeError("can't create new thread at interpreter shutdown")

        patch.setattr(threading.Thread, "start", refuse)
        assert not workers.start(attempt(print))
        assert not workers.start(attempt(print, 2))
    assert caplog.text.count("interpreter shutdown") == 1
    assert run(workers, ended, lambda ctx: None, 3).ended == Ended(Lease(RunKey("job", 3), 1))


def test_an_attempt_is_let_go_when_it_has_ended(workers, ended):
    import gc
    import weakref

    gc.disable()
    try:
        one = attempt(lambda ctx: None)
        watch = weakref.ref(one.context)
        workers.start(one)
        del one
        workers.heard(ended.get(timeout=5))
        assert watch() is None
    finally:
        gc.enable()
