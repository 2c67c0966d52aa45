"""From `open` to `Stopped`: what is closed when, who waits for whom, and forks."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import pytest

from anarchon._clock import Clock
from anarchon._messages import (
    Stopped,
)
from anarchon._testing_clock import ManualClock
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import BackendUnavailable
from anarchon.testing import FaultyBackend
from tests.conftest import anarchon_threads
from tests.threads.rig import Rig, attached, job, running


def faulty_on(clock):
    return FaultyBackend(attached(clock, MemoryBackend()))


# --- open and start ---


@pytest.mark.parametrize("method", ["open", "prepare"])
@pytest.mark.parametrize("error", [BackendUnavailable("no"), KeyboardInterrupt()])
def test_an_opening_that_fails_closes_and_leaves_no_thread(method, error):
    clock = ManualClock()
    faulty = faulty_on(clock)
    faulty.fail(method, error=error)
    with pytest.raises(type(error)):
        Rig(clock, faulty)
    assert faulty.calls["close"] == 1
    assert anarchon_threads() == []


@pytest.mark.parametrize("refused", ["store", "keeper", "scheduler"])
def test_a_start_without_threads_closes_everything(refused, monkeypatch):
    clock = ManualClock()
    faulty = faulty_on(clock)
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == f"anarchon-{refused}":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        Rig(clock, faulty)
    assert faulty.calls["close"] == 1


def test_it_starts_the_threads_that_a_stop_needs_and_no_more():
    with running(job("a", lambda ctx: None)) as rig:
        rig.clock.advance(0)
        names = sorted(thread.name for thread in anarchon_threads())
        assert names == ["anarchon-keeper", "anarchon-scheduler", "anarchon-store"]
        assert all(thread.daemon for thread in anarchon_threads())
        rig.clock.advance("11s")
        assert "anarchon-worker-1" in {thread.name for thread in anarchon_threads()}


# --- stop ---


def test_stopped_is_told_last_when_all_is_closed_and_the_threads_have_ended():
    seen = []
    clock = ManualClock()
    faulty = faulty_on(clock)

    def tell(action):
        if isinstance(action, Stopped):
            seen.append((faulty.calls["close"], [t.name for t in anarchon_threads()]))
        told.append(action)

    told = []
    rig = Rig(clock, faulty, job("a", lambda ctx: None, 1), on_action=tell)
    clock.advance("5s")
    assert rig.stop()
    assert seen == [(1, ["anarchon-scheduler"])]
    assert isinstance(told[-1], Stopped)
    calls = sum(faulty.calls.values())
    clock.advance("60s")
    assert sum(faulty.calls.values()) == calls
    assert anarchon_threads() == []


def test_a_call_that_hangs_is_waited_for_as_long_as_it_may_take_and_closed_later():
    clock = ManualClock()
    faulty = faulty_on(clock)
    hold = faulty.hold("claim")
    rig = Rig(clock, faulty, job("a", lambda ctx: None))
    clock.advance("11s")
    assert hold.reached.is_set()
    began = clock.mono()
    assert rig.stop(2.0)
    assert rig.stopped
    assert 2.0 <= clock.mono() - began < 4.5
    assert faulty.calls["close"] == 0
    hold.release()
    deadline = time.monotonic() + 5
    while not faulty.calls["close"] and time.monotonic() < deadline:
        threading.Event().wait(0.001)
    assert faulty.calls["close"] == 1


def test_a_backend_that_fails_to_close_is_logged_and_the_end_told(caplog):
    clock = ManualClock()
    faulty = faulty_on(clock)
    faulty.fail("close", error=SystemExit("no"))
    rig = Rig(clock, faulty)
    assert rig.stop()
    assert rig.stopped
    assert "SystemExit: no" in caplog.text


def test_what_the_facade_raises_at_the_end_is_logged(caplog):
    clock = ManualClock()
    rig = Rig(clock, attached(clock, MemoryBackend()), on_action=lambda told: 1 / 0)
    assert rig.stop()
    assert "ZeroDivisionError" in caplog.text


def test_several_wait_for_the_same_end_and_late_ones_do_not_wait():
    clock = ManualClock()
    rig = Rig(clock, attached(clock, MemoryBackend()))
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(rig.engine.join(30))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    assert rig.engine.join(0) is False
    assert rig.stop()
    for thread in threads:
        thread.join(5)
    assert answers == [True] * 5
    assert rig.engine.join(0) is True


def test_whoever_waits_while_the_end_is_told_is_answered_too():
    clock = ManualClock()
    answers, threads, told = [], [], []

    def tell(action):
        told.append(action)
        if isinstance(action, Stopped):
            thread = threading.Thread(target=lambda: answers.append(rig.engine.join(600)))
            thread.start()
            threads.append(thread)
            while not rig.engine._inbox.qsize():
                pass

    rig = Rig(clock, attached(clock, MemoryBackend()), on_action=tell)
    assert rig.stop()
    threads[0].join(5)
    assert answers == [True]


def test_a_stop_can_be_asked_for_again_and_again():
    with running(job("a", lambda ctx: ctx.signal.sleep(20), 60)) as rig:
        rig.clock.advance("61s")
        for _ in range(3):
            rig.engine.stop(5.0)
        assert rig.stop()
        assert sum(isinstance(told, Stopped) for told in rig.told) == 1


def test_the_engines_own_threads_never_wait_for_it():
    answers = []

    def tell(action):
        if not answers:
            answers.append((rig.engine.is_engine_thread(), rig.engine.join(10)))
        told.append(action)

    told = []
    with running(job("a", lambda ctx: None), on_action=tell) as rig:
        rig.told = told
        assert not rig.engine.is_engine_thread()
        rig.clock.advance("11s")
    assert answers == [(True, False)]


def test_a_handler_that_ends_after_all_is_over_harms_nobody(caplog):
    gate, ended = threading.Event(), threading.Event()

    def handler(ctx):
        gate.wait(10)
        ended.set()

    with running(job("a", handler)) as rig:
        rig.clock.advance("11s")
        assert rig.stop(1.0)
        gate.set()
        assert ended.wait(5)
    assert caplog.records == []


def test_on_the_hosts_own_clock():
    ran = threading.Event()
    clock = Clock()
    rig = Rig(clock, MemoryBackend(), job("a", lambda ctx: ran.set(), 0.2))
    assert ran.wait(5)
    began = time.monotonic()
    assert rig.stop(5.0)
    assert time.monotonic() - began < 4
    assert rig.stopped
    assert rig.names()[:2] == ["started", "success"]


def test_a_signal_handler_may_ask_for_the_stop():
    rig = Rig(Clock(), MemoryBackend(), job("a", lambda ctx: None, 0.1))
    before = signal.signal(signal.SIGUSR1, lambda *_: rig.engine.stop(5.0))
    try:
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
        assert rig.engine.join(10)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert rig.stopped


# --- forks ---


def test_a_forked_child_forgets_everything_and_its_parent_goes_on():
    clock = ManualClock()
    faulty = faulty_on(clock)
    rig = Rig(clock, faulty, job("a", lambda ctx: ctx.signal.sleep(5), 10))
    clock.advance("12s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        engine = rig.engine
        engine.abandon()
        engine.stop(5.0)
        good = (
            engine.join(5.0)
            and engine.stats().running == 0
            and not engine.is_engine_thread()
            and faulty.calls["close"] == 0
        )
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    clock.advance("10s")
    assert rig.names()[:2] == ["started", "success"]
    assert rig.stop()
