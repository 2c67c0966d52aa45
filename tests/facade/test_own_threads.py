"""Calls on threads of a scheduler's own: by schedules and by objects that go there.

And threads are told by what they are, not by their names.
"""

from __future__ import annotations

import gc
import threading

import pytest

from anarchon import MemoryBackend, Scheduler
from tests.facade.helpers import LONG, PATIENCE_SECONDS, SOON, Blocked, Recorder, timed, until

# --- schedules, and objects that go on threads of our own ---


class Schedule:
    """Does something when it is asked for its next slot."""

    def __init__(self, recorder):
        self.recorder = recorder

    def next_after(self, t):
        self.recorder()

    def latest(self, t):
        return None


def calls_that_wait(scheduler):
    return (
        lambda: scheduler.run_now("job"),
        lambda: scheduler.submit("job"),
        scheduler.wait,
        scheduler.start,
        lambda: scheduler.stop(LONG),
    )


def check_own(results):
    refused, rest = results[:3], results[3:]
    for said in refused:
        assert type(said) is RuntimeError
        assert "on a thread of your own" in str(said)
    assert rest == [None, None]


def test_a_schedule_waits_for_nothing(make):
    scheduler = make()
    recorder = Recorder(*calls_that_wait(scheduler))
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    scheduler.start()
    scheduler.schedule("asking", Schedule(recorder), lambda: None)
    check_own(recorder.results())
    until(lambda: scheduler.state == "idle")


class Goes:
    """Does something when it goes, on whatever thread that is."""

    def __init__(self, recorder, threads):
        self.recorder, self.threads = recorder, threads

    def poll(self): ...

    def __del__(self):
        self.threads.append(threading.current_thread().name)
        self.recorder()


def let_go_in_the_engine(scheduler, goes):
    """The core is the last that has the job."""
    scheduler.every("goes", "1h", goes.poll, catch_up=0)
    core = scheduler._life().engine._loop._core
    until(lambda: "goes" in core._specs)
    del goes
    scheduler.remove("goes")


def let_go_in_the_life(scheduler, goes):
    """An answer that nobody waits for any more is dropped with what it holds."""
    life = scheduler._life()
    keep = life._jobs.keep

    def kept(engine, names):
        kept.goes = None
        keep(engine, names)

    kept.goes = goes
    life._jobs.keep = kept
    del goes
    scheduler.every("new", "1h", lambda: None, catch_up=0)


@pytest.mark.parametrize(
    ("let_go", "name"),
    [(let_go_in_the_engine, "anarchon-scheduler"), (let_go_in_the_life, "anarchon-life")],
)
def test_an_object_that_goes_on_a_thread_of_ours_waits_for_nothing(make, let_go, name):
    scheduler, threads = make(), []
    recorder = Recorder(*calls_that_wait(scheduler))
    scheduler.every("job", "365d", lambda: None, catch_up=0)
    scheduler.start()
    let_go(scheduler, Goes(recorder, threads))
    check_own(recorder.results())
    gc.collect()
    assert threads == [name]
    until(lambda: scheduler.state == "idle")


# --- threads are told by what they are ---


def test_a_thread_of_somebody_elses_may_have_any_name(make):
    """It waits for handlers as every other thread does."""
    scheduler, entered, ended = make(), threading.Event(), []

    def job(ctx):
        entered.set()
        ctx.signal.wait(LONG)
        ended.append(scheduler.state)

    scheduler.every("job", "1h", job, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    assert entered.wait(PATIENCE_SECONDS)
    states = []
    thread = threading.Thread(
        target=lambda: (scheduler.stop(LONG), states.append(scheduler.state)),
        name="anarchon-watchdog",
    )
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert (ended, states) == (["stopping"], ["idle"])


def stop_in_a_handler(other, recorder):
    other.every("stopper", "1h", recorder, pass_context=False, catch_up=0)
    other.start()
    other.submit("stopper")


def stop_in_a_listener(other, recorder):
    other.every("stopper", "1h", lambda: None, catch_up=0)
    other.on("success", recorder)
    other.start()
    other.submit("stopper")


def stop_in_a_schedule(other, recorder):
    other.start()
    other.schedule("stopper", Schedule(recorder), lambda: None)


def stop_at_an_abort(other, recorder):
    def job(ctx):
        with ctx.signal.on_abort(recorder):
            ctx.signal.wait(LONG)

    other.every("stopper", "1h", job, timeout=0.1, catch_up=0)
    other.start()
    other.submit("stopper")


@pytest.mark.parametrize(
    "begin", [stop_in_a_handler, stop_in_a_listener, stop_in_a_schedule, stop_at_an_abort]
)
def test_what_is_inside_one_scheduler_is_outside_another(make, begin):
    """So it waits until that other one has stopped."""
    scheduler, other = make(), Scheduler(MemoryBackend(), lease=3)
    scheduler.every("job", "1h", lambda ctx: ctx.signal.wait(LONG), catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    until(lambda: scheduler.health().running == 1)
    recorder = Recorder(lambda: scheduler.stop(LONG), lambda: scheduler.state)
    begin(other, recorder)
    try:
        assert recorder.results() == [None, "idle"]
    finally:
        other.stop(2)


def test_the_threads_of_an_ended_life_are_outside_the_next(make):
    """A handler that was left behind has its part in the new life, as anybody has."""
    scheduler, left, said = make(), Blocked(), []

    def job():
        left()
        said.append(timed(lambda: (scheduler.stop(LONG), scheduler.state)[1]))

    scheduler.every("job", "1h", job, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    left.wait_until_begun()
    scheduler.stop(0)
    scheduler.start()
    left.go_on.set()
    until(lambda: said)
    assert said[0][0] < SOON
    assert said[0][1] == "idle"
