"""start, stop and what lies between: states, shared starts, cancelled starts, retries."""

from __future__ import annotations

import threading
import time
from _thread import start_new_thread

import pytest

from anarchon import BackendError, BackendUnavailable, NotRunning, ServerTooOld
from anarchon._lifecycle_states import LIFECYCLE
from anarchon._lifecycle_thread import LifeThread
from tests.facade.helpers import SOON, Door, until


def in_threads(count, call):
    """Call something in several threads at once; return what each returned or raised."""
    outcomes = []
    barrier = threading.Barrier(count)

    def one():
        barrier.wait()
        try:
            outcomes.append(call())
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    return outcomes


def test_the_table_goes_round_and_ends_nowhere():
    states = {state for state, _ in LIFECYCLE} | set(LIFECYCLE.values())
    assert states == {"idle", "starting", "running", "stopping"}
    for state in states:
        reached, todo = set(), [state]
        while todo:
            here = todo.pop()
            for (source, _), target in LIFECYCLE.items():
                if source == here and target not in reached:
                    reached.add(target)
                    todo.append(target)
        assert "idle" in reached


def test_from_idle_to_running_and_back_any_number_of_times(make):
    scheduler = make()
    owners = set()
    for _ in range(3):
        assert scheduler.state == "idle"
        scheduler.start()
        assert scheduler.state == "running"
        owners.add(scheduler._life().owner.token)
        scheduler.stop()
    assert scheduler.state == "idle"
    assert len(owners) == 3  # a new owner for every start


def test_start_while_running_does_nothing(make):
    door = Door()
    scheduler = make(door)
    scheduler.start()
    scheduler.start()
    scheduler.start(retry=True)
    assert door.opened == 1


def test_ten_starts_at_once_are_one(make):
    door = Door()
    scheduler = make(door)
    assert in_threads(10, scheduler.start) == [None] * 10
    assert (scheduler.state, door.opened) == ("running", 1)
    scheduler.stop()
    assert scheduler.state == "idle"


def test_starts_at_once_share_a_failure(make):
    door = Door(failures=1)
    door.may_open.clear()
    scheduler = make(door)
    raised = []

    def start():
        with pytest.raises(BackendUnavailable) as caught:
            scheduler.start()
        raised.append(caught.value)

    threads = [threading.Thread(target=start) for _ in range(3)]
    threads[0].start()
    assert door.opening.wait(5)
    for thread in threads[1:]:
        thread.start()
    until(lambda: scheduler._life().inbox._queue.qsize() == 2, "both have joined")
    door.may_open.set()
    for thread in threads:
        thread.join(5)
    assert raised == [door.error] * 3
    assert (scheduler.state, door.opened) == ("idle", 0)


@pytest.mark.parametrize(
    "error",
    [
        BackendUnavailable("refused"),
        ServerTooOld("too old"),
        BackendError("a newer format"),
        ZeroDivisionError("a bug in a driver"),
    ],
)
def test_whatever_fails_leaves_it_idle_with_everything_closed(make, error):
    door = Door(failures=1, error=error)
    scheduler = make(door)
    with pytest.raises(type(error), match=str(error)):
        scheduler.start()
    assert scheduler.state == "idle"
    assert door.closed == 1
    scheduler.start()  # and it can be called again
    assert scheduler.state == "running"


def test_the_drivers_error_is_the_cause(make):
    error = BackendUnavailable("the store is away")
    error.__cause__ = OSError("connection refused")
    with pytest.raises(BackendUnavailable) as raised:
        make(Door(failures=1, error=error)).start()
    assert isinstance(raised.value.__cause__, OSError)


LIMITS = r"can't have the threads it needs: can't start new thread; let .* have more .*ulimit -u"


def test_a_start_that_finds_no_thread_fails_and_leaves_it_idle(make, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    scheduler = make()
    with monkeypatch.context() as patched:
        patched.setattr("anarchon._lifecycle_thread.start_new_thread", refuse)
        with pytest.raises(RuntimeError, match=LIMITS) as raised:
            scheduler.start()
    assert str(raised.value.__cause__) == "can't start new thread"
    assert scheduler.state == "idle"


@pytest.mark.parametrize("name", ["anarchon-life", "anarchon-log", "anarchon-store"])
def test_a_start_that_finds_no_further_thread_fails_the_same(make, monkeypatch, name):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    door = Door()
    scheduler = make(door)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match=LIMITS) as raised:
            scheduler.start()
    assert str(raised.value.__cause__) == "can't start new thread"
    assert scheduler.state == "idle"
    assert door.closed == door.opened


# --- stop ---


def test_stop_is_idempotent_and_does_nothing_while_idle(make):
    scheduler = make()
    scheduler.stop()
    scheduler.start()
    for _ in range(3):
        scheduler.stop()
    assert scheduler.state == "idle"


def test_stops_at_once_all_return_after_the_end(make):
    door = Door()
    scheduler = make(door)
    for _ in range(5):
        scheduler.start()
        states = in_threads(8, lambda: (scheduler.stop(), scheduler.state)[1])
        assert states == ["idle"] * 8
    assert door.closed == door.opened == 5


def test_a_second_stop_waits_only_as_long_as_it_wants(make):
    go_on = threading.Event()
    scheduler = make()
    started = threading.Event()
    scheduler.every("stubborn", "1h", lambda: (started.set(), go_on.wait(20)))
    scheduler.start()
    scheduler.submit("stubborn")
    assert started.wait(5)
    first = threading.Thread(target=scheduler.stop, args=(20,))
    first.start()
    until(lambda: scheduler.state == "stopping")
    scheduler.stop(0.0)  # comes back although the first one still waits
    assert scheduler.state == "stopping"
    go_on.set()
    first.join(5)
    assert scheduler.state == "idle"


def test_stop_cancels_a_start_in_progress(make):
    door = Door()
    door.may_open.clear()
    scheduler = make(door)
    raised = []

    def start():
        with pytest.raises(NotRunning) as caught:
            scheduler.start()
        raised.append(caught.value)

    starting = threading.Thread(target=start)
    starting.start()
    assert door.opening.wait(5)
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    door.may_open.set()
    stopping.join(5)
    starting.join(5)
    assert len(raised) == 1
    assert scheduler.state == "idle"
    assert door.closed == door.opened


def test_a_stop_does_not_wait_longer_than_it_may_for_a_start(make):
    door = Door()
    door.may_open.clear()
    scheduler = make(door)
    scheduler.start(retry=True)
    assert door.opening.wait(5)
    scheduler.stop(0.0)
    assert scheduler.state in ("starting", "stopping")
    door.may_open.set()
    until(lambda: scheduler.state == "idle")
    assert door.closed == door.opened


def test_a_stop_that_interrupts_a_start_before_it_could_begin_does_not_wait(make, monkeypatch):
    """As in a signal handler: the start goes on only when the stop has returned."""
    scheduler = make()
    took = []

    def interrupted(function, arguments):
        began = time.monotonic()
        scheduler.stop(20)
        took.append(time.monotonic() - began)
        start_new_thread(function, arguments)

    monkeypatch.setattr("anarchon._lifecycle_thread.start_new_thread", interrupted)
    with pytest.raises(NotRunning):
        scheduler.start()
    assert took[0] < SOON
    assert scheduler.state == "idle"


def test_a_start_that_fails_at_once_fails_only_once(make, monkeypatch):
    """Its creator must get the failure, however late it comes to wait for it."""
    launch = LifeThread.launch
    scheduler = make(Door(failures=1))

    def launch_and_linger(thread):
        launch(thread)
        until(lambda: scheduler.state == "idle")

    monkeypatch.setattr(LifeThread, "launch", launch_and_linger)
    with pytest.raises(BackendUnavailable):
        scheduler.start()


def test_whoever_calls_start_starts_no_thread_under_a_lock(make, monkeypatch):
    """A signal handler that interrupts `Thread.start` would keep its lock."""
    here, start, callers = threading.get_ident(), threading.Thread.start, []

    def watched(thread):
        callers.append(threading.get_ident())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", watched)
    scheduler = make()
    scheduler.start()
    scheduler.stop()
    assert callers
    assert here not in callers


def test_start_while_stopping_waits_and_then_starts(make):
    go_on, started = threading.Event(), threading.Event()
    door = Door()
    scheduler = make(door)
    scheduler.every("slow", "1h", lambda: (started.set(), go_on.wait(20)))
    scheduler.start()
    scheduler.submit("slow")
    assert started.wait(5)
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    until(lambda: scheduler.state == "stopping")
    starting = threading.Thread(target=scheduler.start)
    starting.start()
    starting.join(0.05)
    assert starting.is_alive()  # it waits
    go_on.set()
    starting.join(5)
    stopping.join(5)
    assert (scheduler.state, door.opened, door.closed) == ("running", 2, 1)


def test_with_starts_and_stops(make):
    scheduler = make()
    with scheduler as entered:
        assert entered is scheduler
        assert scheduler.state == "running"
    assert scheduler.state == "idle"


def test_jobs_defined_while_a_start_is_going_on_run(make):
    door = Door()
    door.may_open.clear()
    scheduler = make(door)
    scheduler.every("old", "1h", lambda: None)
    scheduler.every("gone", "1h", lambda: None)
    scheduler.start(retry=True)
    assert door.opening.wait(5)
    scheduler.every("new", "1h", lambda: None)
    scheduler.remove("gone")
    door.may_open.set()
    until(lambda: scheduler.state == "running")
    assert scheduler.run_now("old").status == "success"
    assert scheduler.run_now("new").status == "success"
    assert "gone" not in scheduler._life()._jobs
