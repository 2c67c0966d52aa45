"""What is asked from inside: by handlers, listeners, schedules and whatever `__del__` runs there.

Nobody waits there for what waits for him; each call answers, does nothing, or says what to do.
"""

from __future__ import annotations

import logging
import threading
import time

import pytest

from anarchon import NotRunning
from tests.facade.helpers import LONG, PATIENCE_SECONDS, SOON, Blocked, Recorder, timed, until


def is_refused(said):
    return isinstance(said, NotRunning) and "call start() when this one has ended" in str(said)


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
