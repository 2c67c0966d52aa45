"""A clock that stands still until the test moves it."""

from __future__ import annotations

import itertools
import threading
import time
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from anarchon._signal import Signal, Switch
from anarchon._testing_clock import ManualClock
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import ConfigurationError
from tests.threads.rig import Rig, attached, job, running


class Waiter:
    """A thread of an engine, as far as the clock can tell: it waits, and notes when."""

    def __init__(self, clock, *timeouts, notes=None, name=""):
        self.queue = SimpleQueue()
        self.notes = [] if notes is None else notes
        self.clock = clock
        self.timeouts = timeouts
        self.name = name
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        clock.enrol(self.thread)

    def run(self):
        for timeout in self.timeouts:
            item = self.clock.get(self.queue, timeout)
            self.notes.append((self.name, round(self.clock.mono() - 1000, 6), item))


def test_time_begins_where_it_is_told_and_moves_by_hand():
    clock = ManualClock()
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    clock.advance("1h30m")
    clock.advance(timedelta(milliseconds=5))
    clock.advance(0.25)
    assert clock.now() == datetime(2026, 1, 1, 1, 30, 0, 255_000, tzinfo=UTC)
    later = datetime(2030, 5, 6, tzinfo=UTC)
    assert ManualClock(later).now() == later
    with pytest.raises(ConfigurationError, match="no time with a zone"):
        ManualClock(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("duration", ["-1s", -1, "soon", True])
def test_time_only_moves_forward(duration):
    with pytest.raises(ConfigurationError, match="advance"):
        ManualClock().advance(duration)


def test_the_wall_steps_both_ways():
    clock = ManualClock()
    mono = clock.mono()
    for step, seconds in [("1h", 3600), ("-1h30m", -1800), (-90, -1890), (timedelta(-1), -88290)]:
        clock.step_wall(step)
        assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    assert clock.mono() == mono


def test_each_wait_ends_at_its_own_time_and_alone():
    clock, notes = ManualClock(), []
    for name, timeouts in {"a": [3, 3], "b": [1, 2], "c": [2, None]}.items():
        Waiter(clock, *timeouts, notes=notes, name=name)
    clock.advance("10s")
    assert notes == [("b", 1, None), ("c", 2, None), ("a", 3, None), ("b", 3, None), ("a", 6, None)]
    assert clock.mono() == 1010


def test_what_follows_from_a_wait_happens_before_the_next_one_ends():
    clock, notes = ManualClock(), []
    last = Waiter(clock, None, notes=notes, name="last")
    middle = Waiter(clock, notes=notes)

    class Passes(Waiter):
        def run(self):
            super().run()
            self.to.queue.put("on")

    middle = Passes(clock, None, notes=notes, name="middle")
    middle.to = last
    first = Passes(clock, 1, notes=notes, name="first")
    first.to = middle
    Waiter(clock, 1.000001, notes=notes, name="other")
    clock.advance(5)
    assert [name for name, _, _ in notes] == ["first", "middle", "last", "other"]


def test_an_item_ends_a_wait_without_any_time():
    clock = ManualClock()
    waiter = Waiter(clock, 5, 5)
    waiter.queue.put("x")
    clock.advance(0)
    assert waiter.notes == [("", 0, "x")]
    clock.advance(4)
    assert len(waiter.notes) == 1
    clock.advance(1)
    assert waiter.notes[1:] == [("", 5, None)]


def test_no_wait_is_no_wait():
    clock, queue = ManualClock(), SimpleQueue()
    assert clock.get(queue, 0) is None
    queue.put("x")
    assert clock.get(queue, -1) == "x"


def test_the_thread_that_moves_the_clock_moves_it_when_it_waits():
    clock = ManualClock()
    waiter = Waiter(clock, 3, None)
    assert clock.get(SimpleQueue(), 10) is None
    assert clock.mono() == 1010
    assert waiter.notes == [("", 3, None)]
    answer = SimpleQueue()
    waiter.queue.put(1)
    threading.Timer(0.05, answer.put, ("real",)).start()
    assert clock.get(answer, None) == "real"
    assert clock.mono() == 1010


def test_a_signal_waits_in_the_time_of_its_clock():
    clock = ManualClock()
    signal = Signal(switch := Switch(clock))
    seen = []

    def handler():
        seen.append((signal.wait(5), clock.mono()))
        seen.append((signal.wait(), clock.mono()))
        seen.append((signal.wait(), clock.mono()))

    thread = threading.Thread(target=handler, daemon=True)
    thread.start()
    clock.enrol(thread)
    clock.advance(60)
    assert seen == [(False, 1005)]
    switch.abort(signal, "stop")
    clock.advance(0)
    assert seen == [(False, 1005), (True, 1060), (True, 1060)]
    thread.join(5)


def test_a_handler_blocked_on_something_else_costs_a_moment_and_no_more():
    gate = threading.Event()
    with running(job("a", lambda ctx: gate.wait(10))) as rig:
        rig.clock.advance("10s")
        began = time.monotonic()
        rig.clock.advance("30s")
        assert time.monotonic() - began < 5
        assert rig.names().count("started") == 1
        gate.set()
        rig.clock.advance(0)
        assert rig.names()[-1] == "success"


def test_what_runs_on_a_clock_does_not_move_it():
    errors = []

    def handler(ctx):
        try:
            rig.clock.advance(1)
        except RuntimeError as error:
            errors.append(str(error))

    with running(job("a", handler)) as rig:
        rig.clock.advance("11s")
    assert errors == ["only the test moves the clock, not what runs on it"]


def test_a_step_back_of_the_wall_runs_no_slot_twice():
    slots = []
    with running(job("a", lambda ctx: slots.append(ctx.slot), 10)) as rig:
        rig.clock.advance("65s")
        rig.clock.step_wall("-30s")
        rig.clock.advance("65s")
        rig.clock.step_wall("10m")
        rig.clock.advance("65s")
    assert len(slots) == len(set(slots))
    steps = [(b - a) // 1000 for a, b in itertools.pairwise(slots)]
    # Ten minutes at once are one gap, never a burst.
    assert sorted(set(steps)) == [10, steps[steps.index(max(steps))]]
    assert 580 <= max(steps) <= 620


def test_a_step_forward_is_noticed_within_a_minute():
    with running(job("a", lambda ctx: None, 3600, catch_up_ms=120_000)) as rig:
        rig.clock.advance("10s")
        ran = len(rig.names())
        rig.clock.step_wall("59m45s")
        rig.clock.advance("59s")
        assert len(rig.names()) == ran
        rig.clock.advance("2s")
        assert rig.names()[ran:] == ["started", "success"]


def test_the_same_test_goes_the_same_way():
    def story():
        clock, log = ManualClock(), []
        store = attached(clock, MemoryBackend())

        def handler(ctx):
            log.append((round(clock.mono(), 6), ctx.slot, ctx.instance_id))
            ctx.signal.sleep(1.7)

        rigs = [Rig(clock, store, job("a", handler, 1), job("b", handler, 3), name=n) for n in "ab"]
        clock.advance("20s")
        assert all([rig.stop() for rig in rigs])  # noqa: C419 - all of them have to stop
        return log

    first = story()
    assert len(first) > 10
    assert story() == first


def test_attach_reaches_through_wrappers_and_wants_an_idle_scheduler():
    clock, store = ManualClock(), MemoryBackend()
    wrapper = SimpleNamespace(inner=SimpleNamespace(inner=store))
    scheduler = SimpleNamespace(
        state="idle", _clock=None, _options=SimpleNamespace(backend=wrapper)
    )
    clock.attach(scheduler)
    assert scheduler._clock is clock
    assert store._time.wall_ms() == 1_767_225_600_000
    clock.advance("1500ms")
    assert store._time.wall_ms() == 1_767_225_601_500
    assert store._time.lease_ms() == 1_001_500
    scheduler.state = "running"
    with pytest.raises(RuntimeError, match="before start"):
        clock.attach(scheduler)
