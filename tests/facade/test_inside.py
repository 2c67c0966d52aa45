"""What is asked from inside: by handlers, listeners, schedules and whatever `__del__` runs there.

Nobody waits there for what waits for him; each call answers, does nothing, or says what to do.
"""

from __future__ import annotations

import gc
import logging
import threading
import time

import pytest

from anarchon import MemoryBackend, NotRunning, Scheduler
from tests.facade.helpers import PATIENCE_SECONDS, Blocked, until

SOON = 1.5  # seconds: far below any stop timeout used here, which only a deadlock would use up
LONG = 20


def timed(call):
    """Call something; return how long it took and what it returned or raised."""
    began = time.monotonic()
    try:
        said = call()
    except Exception as error:
        said = error
    return time.monotonic() - began, said


def is_refused(said):
    return isinstance(said, NotRunning) and "call start() when this one has ended" in str(said)


class Recorder:
    """Calls things one after the other, and keeps how long each took and what it said."""

    def __init__(self, *calls):
        self.calls, self.said, self.over = calls, [], threading.Event()

    def __call__(self, *_):
        if not self.said:
            for call in self.calls:
                self.said.append(timed(call))
            self.over.set()

    def results(self):
        assert self.over.wait(PATIENCE_SECONDS)
        assert max(took for took, _ in self.said) < SOON
        return [said for _, said in self.said]


class LogHandler(logging.Handler):
    """Does what a recorder does, when the log tells of a run that has ended."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def emit(self, record):
        if "finished" in record.getMessage():
            self.recorder()


@pytest.fixture(params=["listener", "logging handler"])
def recording(request, make):
    """Have calls made by a listener or a logging handler, once the first run has ended."""

    def begin(make_calls):
        logger = logging.getLogger(f"tests.inside.{id(object())}")
        logger.setLevel(logging.INFO)
        scheduler = make(log=logger)
        recorder = Recorder(*make_calls(scheduler))
        if request.param == "listener":
            scheduler.on("success", recorder)
        else:
            logger.addHandler(LogHandler(recorder))
        scheduler.every("job", "1h", lambda: None, catch_up=0)
        scheduler.start()
        scheduler.submit("job")
        return scheduler, recorder

    return begin


def closing(scheduler):
    """Wait until the life has come to its end, in which it waits for its listeners."""
    life = scheduler._life()
    until(lambda: life.inbox.closing)


# --- a listener, a logging handler ---


def test_a_listener_may_ask_anything_while_the_end_waits_for_it(recording):
    def calls(scheduler):
        return (
            lambda: scheduler.stop(LONG),
            lambda: closing(scheduler),
            lambda: scheduler.stop(LONG),
            scheduler.wait,
            lambda: scheduler.run_now("job"),
            lambda: scheduler.submit("job"),
            scheduler.start,
            lambda: scheduler.start(retry=True),
            lambda: scheduler.state,
        )

    scheduler, recorder = recording(calls)
    results = recorder.results()
    assert results[:4] == [None] * 4
    assert all(isinstance(said, NotRunning) for said in results[4:8])
    assert is_refused(results[6])
    assert is_refused(results[7])
    assert results[8] == "stopping"
    took, _ = timed(scheduler.wait)
    assert took < SOON
    assert scheduler.state == "idle"


def test_what_a_listener_asked_right_before_the_end_is_answered(recording, monkeypatch):
    """It has seen a scheduler that runs, and its request comes when nobody reads any more."""

    def calls(scheduler):
        life = scheduler._life

        def late(request):
            found = life()
            put = found.inbox.put

            def put_late(asked):
                monkeypatch.setattr(found.inbox, "put", put)
                scheduler.stop(LONG)
                closing(scheduler)
                put(asked)

            monkeypatch.setattr(found.inbox, "put", put_late)
            return request()

        return (lambda: late(lambda: scheduler.run_now("job")),)

    scheduler, recorder = recording(calls)
    assert [type(said) for said in recorder.results()] == [NotRunning]
    until(lambda: scheduler.state == "idle")


def test_a_listener_that_waits_is_told_when_a_stop_begins(recording):
    scheduler, recorder = recording(lambda scheduler: (scheduler.wait,))
    life = scheduler._life()
    until(lambda: life._awaits._inside)
    took, _ = timed(lambda: scheduler.stop(LONG))
    assert took < SOON
    assert recorder.over.wait(PATIENCE_SECONDS)


def test_a_listener_may_start_a_scheduler_that_runs_and_wait_for_a_while(recording):
    _, recorder = recording(
        lambda scheduler: (
            scheduler.start,
            lambda: scheduler.start(retry=True),
            lambda: scheduler.wait(0.01),
            lambda: scheduler.run_now("job").status,
        )
    )
    assert recorder.results() == [None, None, None, "success"]


def test_a_listener_that_waits_for_a_run_is_not_held_by_a_stop(make):
    """The handler ignores its abort, so that there will be no record."""
    scheduler, stubborn = make(), Blocked()
    recorder = Recorder(lambda: scheduler.run_now("stubborn"))
    scheduler.on("success", recorder)
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    scheduler.every("stubborn", "1h", stubborn, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    stubborn.wait_until_begun()
    began = time.monotonic()
    scheduler.stop(0.2)
    assert time.monotonic() - began < 0.2 + SOON
    assert recorder.over.wait(PATIENCE_SECONDS)
    assert scheduler.state == "idle"
    stubborn.go_on.set()


# --- a handler ---


@pytest.mark.parametrize("retry", [False, True])
def test_a_handler_can_not_wait_for_a_stop_that_waits_for_it(make, retry):
    scheduler = make()
    recorder = Recorder(lambda: scheduler.stop(LONG), lambda: scheduler.start(retry=retry))
    scheduler.every("job", "1h", recorder, pass_context=False, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    stopped, started = recorder.results()
    assert stopped is None
    assert is_refused(started)
    until(lambda: scheduler.state == "idle")
    assert scheduler.last_run("job").status == "success"


def test_an_aborted_handler_can_not_start_again(make):
    scheduler, entered, said = make(), threading.Event(), []

    def job(ctx):
        entered.set()
        ctx.signal.wait(LONG)
        said.append(timed(scheduler.start))

    scheduler.every("job", "1h", job, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    assert entered.wait(PATIENCE_SECONDS)
    took, _ = timed(lambda: scheduler.stop(LONG))
    assert took < SOON
    assert said[0][0] < SOON
    assert is_refused(said[0][1])


def test_a_handler_that_waits_goes_on_when_a_stop_begins(make):
    scheduler, entered = make(), threading.Event()
    scheduler.every("job", "1h", lambda: (entered.set(), scheduler.wait()), catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    assert entered.wait(PATIENCE_SECONDS)
    took, _ = timed(lambda: scheduler.stop(LONG))
    assert took < SOON
    assert scheduler.last_run("job").status == "success"


def test_a_handler_may_start_and_run_what_runs(make):
    scheduler = make()
    recorder = Recorder(scheduler.start, lambda: scheduler.run_now("other").status)
    scheduler.every("job", "1h", recorder, pass_context=False, catch_up=0)
    scheduler.every("other", "1h", lambda: None, catch_up=0)
    scheduler.start()
    scheduler.submit("job")
    assert recorder.results() == [None, "success"]


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
