"""Exceptions that another thread raises in ours, as libraries for timeouts do, end nothing."""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
from queue import SimpleQueue

import pytest

from anarchon import Every, Scheduler, _threads_workers
from anarchon._clock import Clock
from anarchon._lifecycle_outlet import Outlet
from anarchon._messages import Answered, Ended
from anarchon._signal import Signal, Switch
from anarchon._testing_clock import ManualClock
from anarchon._threads_handler import run_attempt
from anarchon._threads_workers import WorkerFell
from anarchon._trays import Tray
from anarchon._values import Lease, RunKey
from anarchon.backends.memory import MemoryBackend
from anarchon.testing import FaultyBackend
from tests.conftest import anarchon_threads
from tests.facade.helpers import until
from tests.threads.rig import Rig, attached, job, running
from tests.threads.test_workers import attempt


def strike(thread, error=KeyError):
    """Raise something in a thread: where it waits now, it rises when the wait ends."""
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    assert raise_in(ctypes.c_ulong(thread.ident), ctypes.py_object(error)) == 1


def named(name):
    return [thread for thread in anarchon_threads() if thread.name.startswith(name)]


class StruckOnce:
    """Does what a call does and raises once, before it or after it."""

    def __init__(self, call, moment):
        self.call = call
        self.moment = moment

    def __call__(self, *args):
        moment, self.moment = self.moment, None
        if moment == "before":
            raise KeyError(moment)
        answer = self.call(*args)
        if moment == "after":
            raise KeyError(moment)
        return answer


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_an_idle_worker_that_is_struck_takes_no_run_with_it(error, caplog):
    ran = []
    with running(job("a", lambda ctx: ran.append(ctx.slot), 10)) as rig:
        rig.clock.advance("1s")
        for n in range(1, 8):
            rig.clock.advance("10s")
            assert len(ran) == n
            (worker,) = named("anarchon-worker")
            strike(worker, error)
        rig.clock.advance("10s")
        assert len(ran) == 8
        assert rig.names() == ["started", "success"] * 8
        assert {run.attempt for _, run in rig.events()} == {1}
        assert rig.engine.stats().running == 0
    lines = [r for r in caplog.records if r.message.startswith("another thread raised this")]
    assert len(lines) == 7
    assert {r.levelno for r in lines} == {logging.WARNING}
    assert error.__name__ in lines[0].message


def test_a_strike_in_a_handler_fails_its_run_alone():
    with running(job("a", lambda ctx: strike(threading.current_thread()), 10)) as rig:
        rig.clock.advance("31s")
        assert len(rig.events("started")) == 3
        assert [event for event, _ in rig.events() if event != "started"] == ["failure"] * 3


def test_a_strike_while_the_handler_was_called_fails_the_run(monkeypatch):
    struck = StruckOnce(run_attempt, "before")
    monkeypatch.setattr(_threads_workers, "run_attempt", struck)
    with running(job("a", lambda ctx: None, 10)) as rig:
        rig.clock.advance("21s")
        assert rig.names() == ["started", "failure", "started", "success"]
        (_, run) = rig.events("failure")[0]
        assert run.error == "KeyError: 'before'"
        assert "KeyError" in run.traceback


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_strike_while_the_end_was_reported_keeps_the_end(moment):
    with running(job("a", lambda ctx: None, 10)) as rig:
        workers = rig.engine._workers
        workers._report = StruckOnce(workers._report, moment)
        rig.clock.advance("11s")
        assert workers._idle == []
        rig.clock.advance("20s")
        assert rig.names() == ["started", "success"] * 3


def test_a_worker_that_dies_without_a_word_is_noticed_within_a_heartbeat(monkeypatch):
    work, silent = _threads_workers.Workers._work, []

    def die_once(self, worker):
        if silent:
            work(self, worker)
        silent.append(worker)

    monkeypatch.setattr(_threads_workers.Workers, "_work", die_once)
    ran = []
    with running(job("a", lambda ctx: ran.append(ctx.attempt), 10)) as rig:
        rig.clock.advance("12s")
        assert ran == [1]
        rig.clock.advance("10s")
        assert ran == [1, 1]
        assert rig.names() == ["started", "success"] * 2


def test_an_idle_worker_that_died_without_a_word_is_never_used(monkeypatch):
    with running(job("a", lambda ctx: None, 10)) as rig:
        rig.clock.advance("11s")
        (worker,) = rig.engine._workers._idle
        worker.tasks.put(None)
        worker.thread.join()
        rig.clock.advance("10s")
        assert rig.names() == ["started", "success"] * 2


@pytest.fixture
def struck():
    """Workers, one of them idle and struck where it waits; and what they report."""
    words = SimpleQueue()
    workers = _threads_workers.Workers(Clock(), 2, words.put)
    assert workers.start(attempt(lambda ctx: None, 1))
    workers.heard(words.get(timeout=5))
    (worker,) = workers._idle
    strike(worker.thread)
    yield workers, words
    for thread in workers.close():
        thread.join(5)


def test_a_run_that_a_struck_worker_took_is_run_by_another(struck):
    workers, words = struck
    seen = []
    assert workers.start(attempt(lambda ctx: seen.append(threading.current_thread().name), 2))
    fell = words.get(timeout=5)
    assert isinstance(fell, WorkerFell)
    assert seen == []
    assert workers.heard(fell) is None
    assert workers.heard(words.get(timeout=5)) == Ended(Lease(RunKey("job", 2), 1))
    assert seen == ["anarchon-worker-2"]
    fell.worker.thread.join(5)


def test_it_is_given_back_when_there_is_no_thread_for_another(struck, monkeypatch):
    workers, words = struck

    def refuse(thread):
        raise RuntimeError("none left")

    assert workers.start(attempt(print, 2))
    fell = words.get(timeout=5)
    fell.worker.thread.join(5)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    lease = Lease(RunKey("job", 2), 1)
    error = "no thread could be had: none left"
    assert workers.heard(fell) == Ended(lease, error, unstarted=True)
    assert workers.refused == error


@pytest.mark.parametrize("lane", ["store", "keeper"])
@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_a_store_thread_that_is_struck_loses_no_question(lane, error):
    long, short = job("long", lambda ctx: ctx.signal.sleep(5), 10), job("short", print, 3)
    with running(long, short) as rig:
        rig.clock.advance("1s")
        (thread,) = named(f"anarchon-{lane}")
        for _ in range(20):
            rig.clock.advance("3s")
            strike(thread, error)
        rig.clock.advance("3s")
        done = [run.slot for _, run in rig.events("success") if run.job == "long"]
        assert len(done) == len(set(done)) == 5
        assert len(rig.events("success")) == 21 + 5
        assert rig.events("interrupted", "lost", "failure") == []


@pytest.mark.parametrize("lane", [0, 1], ids=["store", "keeper"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_strike_while_an_answer_was_reported_repeats_it_and_nothing_else(lane, moment):
    clock = ManualClock()
    store = FaultyBackend(attached(clock, MemoryBackend()))
    rig = Rig(clock, store, job("a", lambda ctx: ctx.signal.sleep(5), 10))
    clock.advance("1s")
    before = sum(store.calls.values())
    core, answered = rig.engine._loop._core, []
    handle = core.handle

    def note(message, now):
        if isinstance(message, Answered):
            answered.append(message.call)
        return handle(message, now)

    core.handle = note
    for _ in range(5):
        struck = rig.engine._lanes[lane]
        struck._report = StruckOnce(rig.engine._report, moment)
        clock.advance("10s")
    # Each question was put to the store once, and its answer to the core once.
    asked = sum(store.calls.values()) - before
    assert len(answered) == len({id(call) for call in answered}) == asked
    assert not any(lane._open for lane in rig.engine._lanes)
    assert rig.stop()
    assert rig.names()[:8] == ["started", "success"] * 4


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_a_scheduler_thread_that_is_struck_loses_no_word(error, caplog):
    long, short = job("long", lambda ctx: ctx.signal.sleep(5), 10), job("short", print, 3)
    with running(long, short) as rig:
        rig.clock.advance("1s")
        (thread,) = named("anarchon-scheduler")
        for _ in range(20):
            rig.clock.advance("3s")
            strike(thread, error)
        rig.clock.advance("9s")
        done = [run.slot for _, run in rig.events("success") if run.job == "long"]
        assert len(done) == len(set(done)) >= 5
        assert rig.events("interrupted", "lost", "failure") == []
        assert rig.engine.stats().running == 0
    assert f"{error.__name__}" in caplog.text


def test_a_word_comes_out_of_a_struck_wait():
    """Where nothing but the word ends the wait, it would be lost together with the wait."""
    tray, seen = Tray(), []

    def take():
        while len(seen) < 3:
            try:
                seen.append(tray.next(SimpleQueue.get))
            except KeyError:
                seen.append("struck")

    thread = threading.Thread(target=take)
    thread.start()
    tray.put(1)
    until(lambda: seen == [1])
    strike(thread)
    tray.put(2)
    thread.join(5)
    assert seen == [1, "struck", 2]


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_an_on_abort_thread_that_is_struck_calls_its_function_once(error):
    calls = []
    signal = Signal(switch := Switch(Clock()))
    with signal.on_abort(lambda: calls.append(threading.current_thread().name)):
        (thread,) = named("anarchon-abort")
        strike(thread, error)
        switch.abort(signal, "stop")
    assert calls == ["anarchon-abort"]
    with Signal(Switch(Clock())).on_abort(lambda: calls.append("again")):
        (thread,) = named("anarchon-abort")
        strike(thread, error)
    assert calls == ["anarchon-abort"]
    assert not thread.is_alive()


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_an_outlet_that_is_struck_delivers_and_ends(error):
    seen, failed = SimpleQueue(), []
    outlet = Outlet("anarchon-x", seen.put, bound=9, dropped=print, failed=failed.append)
    outlet.start()
    for n in range(20):
        outlet.put(n)
        assert seen.get(timeout=5) == n
        strike(outlet._thread, error)
    outlet.put(20)
    assert seen.get(timeout=5) == 20
    strike(outlet._thread, error)
    assert outlet.close(5)
    assert seen.empty()
    assert {type(one) for one in failed} == {error}


def strike_as_it_waits(life, error):
    """Strike a life that has come back to its inbox, from whatever it was asked for last."""

    def waits():
        return sys._current_frames()[life.ident].f_code is Clock.get.__code__

    until(waits)
    strike(life, error)


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_a_lifecycle_that_is_struck_goes_on(error):
    scheduler = Scheduler(MemoryBackend(), lease=3)
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    with scheduler:
        (life,) = named("anarchon-life")
        for _ in range(5):
            strike_as_it_waits(life, error)
            assert scheduler.run_now("job").status == "success"
        strike_as_it_waits(life, error)
    assert scheduler.state == "idle"


class Own:
    """A schedule of somebody else, so that it is asked on a thread of its own."""

    def next_after(self, t):
        return Every("10s").next_after(t)

    def latest(self, t):
        return Every("10s").latest(t)


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_a_thread_of_schedules_that_is_struck_loses_no_question(error):
    clock, ran = ManualClock(), []
    scheduler = Scheduler(MemoryBackend(), lease=6)
    scheduler.schedule("job", Own(), lambda: ran.append(clock.now()), catch_up=0)
    clock.attach(scheduler)
    with scheduler:
        for n in range(1, 10):
            clock.advance("10s")
            assert len(ran) == n
            for thread in named("anarchon-schedules"):
                strike(thread, error)
        assert scheduler.health().reasons == ()


# --- trays ---


def test_a_tray_keeps_its_first_item_until_it_is_taken():
    tray = Tray()
    tray.put(1)
    tray.put(2)
    assert (tray.first(SimpleQueue.get), tray.first(SimpleQueue.get), tray.qsize()) == (1, 1, 2)
    tray.take()
    assert (tray.first(SimpleQueue.get), tray.qsize()) == (2, 1)


def test_a_tray_that_is_never_empty_rings_no_more_than_it_holds():
    tray = Tray()
    tray.put(0)
    for n in range(100):
        tray.put(n)
        tray.first(SimpleQueue.get)
        tray.take()
    assert tray._bell.qsize() <= 2


def test_a_tray_wakes_who_waits_and_survives_a_ring_for_nothing():
    tray, seen = Tray(), []

    def take():
        for _ in range(2):
            seen.append(tray.first(SimpleQueue.get))
            tray.take()

    thread = threading.Thread(target=take)
    thread.start()
    tray._bell.put(True)
    tray.put("a")
    until(lambda: seen == ["a"])
    tray.put("b")
    thread.join(5)
    assert seen == ["a", "b"]
