"""What a method can't do with its arguments, or in its state, it says in words that help."""

from __future__ import annotations

import signal
import threading
from datetime import UTC, datetime

import pytest

from anarchon import (
    BackendUnavailable,
    ConfigurationError,
    MemoryBackend,
    NotRunning,
    Run,
    Scheduler,
    SqliteBackend,
)
from anarchon import _log_lines as lines
from anarchon._lifecycle_dues import _busy
from anarchon.health import _ignore
from tests.facade.helpers import Door, until
from tests.facade.services import finish, program


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda scheduler: scheduler.stop("x"),
        lambda scheduler: scheduler.stop(-1),
        lambda scheduler: scheduler.wait("x"),
        lambda scheduler: scheduler.start(retry="yes"),
        lambda scheduler: scheduler.start(retry=None),
        lambda scheduler: scheduler.pause(duration=-1),
        lambda scheduler: scheduler.install_signal_handlers(timeout=-1),
    ],
)
def test_arguments_are_checked_in_every_state(make, running, call):
    scheduler = make()
    if running:
        scheduler.start()
    state = scheduler.state
    with pytest.raises(ConfigurationError, match=";"):
        call(scheduler)
    assert scheduler.state == state


@pytest.mark.parametrize(
    ("signals", "text"),
    [
        (15, "signals: 15 is no sequence of signals; give at least one in a tuple, such as"),
        (signal.SIGTERM, "is no sequence of signals; give at least one"),
        ((), r"signals: \(\) names no signal; give at least one"),
        ([], r"signals: \[\] names no signal; give at least one"),
        ("SIGTERM", "signals: 'SIGTERM' names no signal"),
    ],
)
def test_signals_are_several_and_at_least_one(make, signals, text):
    with pytest.raises(ConfigurationError, match=text):
        make().install_signal_handlers(signals)


def test_a_manual_run_says_why_it_can_not_be(make):
    door = Door()
    door.may_open.clear()
    starting, off, idle = make(door), make(enabled=False), make()
    for scheduler in (starting, off, idle):
        scheduler.every("job", "1h", lambda: None, catch_up=0)
    starting.start(retry=True)
    off.start()
    assert starting.state == "starting"
    with pytest.raises(NotRunning, match=r"is starting and hasn't reached its store yet; try"):
        starting.run_now("job")
    with pytest.raises(NotRunning, match=r"has enabled=False; make it with enabled=True"):
        off.submit("job")
    with pytest.raises(NotRunning, match=r"the scheduler is idle; call start\(\) first"):
        idle.run_now("job")
    door.may_open.set()
    until(lambda: starting.state == "running")
    assert starting.run_now("job").status == "success"


def test_a_forked_child_is_told_where_the_scheduler_was_started(spawn):
    process = spawn(
        program(
            "from anarchon import NotRunning",
            "import warnings; warnings.simplefilter('ignore')",
            "scheduler.start(); parent = os.getpid()",
            "if (child := os.fork()) == 0:",
            "    started = 'the scheduler was started in another process'",
            "    expected = f'{started}, {parent}; call start()'",
            "    assert scheduler.health().reasons == (f'{expected} here',), scheduler.health()",
            "    try: scheduler.run_now('job')",
            "    except NotRunning as error: assert expected in str(error), error",
            "    scheduler.start(); assert scheduler.health().ok",
            "    scheduler.stop(1)",
            "    assert scheduler.health().reasons == ('the scheduler is idle',)",
            "    os._exit(0)",
            "assert os.waitpid(child, 0)[1] == 0",
            "assert scheduler.health().reasons == ()",
        )
    )
    _, err, _ = finish(process)
    assert process.returncode == 0, err


def test_history_in_a_folder_that_is_not_there(tmp_path):
    lost = Scheduler(SqliteBackend(tmp_path / "gone" / "jobs.db"))
    for ask in (lost.history, lambda: lost.last_run("job"), lost.pause, lost.resume):
        with pytest.raises(BackendUnavailable, match=r"the folder \S+ doesn't exist; create it"):
            ask()
    (tmp_path / "file").touch()
    with pytest.raises(BackendUnavailable):
        Scheduler(SqliteBackend(tmp_path / "file" / "jobs.db")).history()
    assert Scheduler(SqliteBackend(tmp_path / "jobs.db")).history() == []
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "listener", [lambda: None, lambda a, b: None, lambda *, run: None, threading.Event().set]
)
def test_a_listener_takes_one_argument(make, listener):
    for listen in (make().on, lambda event, fn: make().on(event)(fn)):
        with pytest.raises(ConfigurationError, match=r"on\('failure'\): .* with one argument"):
            listen("failure", listener)


def test_what_can_take_one_argument_can_listen(make):
    for listener in ([].append, print, lambda run, more=1: None, lambda *all_: None, dict):
        make().on("failure", listener)


@pytest.mark.parametrize("around", [lambda: None, lambda a, b: None])
def test_around_takes_the_context(around):
    with pytest.raises(ConfigurationError, match=r"around: .* takes the context of a run"):
        Scheduler(MemoryBackend(), around=around)


def test_one_of_something_is_told_in_the_singular():
    assert lines.dropped(1, "event").text.startswith("1 event was dropped because")
    assert lines.dropped(2, "log line").text.startswith("2 log lines were dropped because")
    assert str(_busy(1)).startswith("1 manual run is going on here")
    assert str(_busy(2)).startswith("2 manual runs are going on here")
    assert (_ignore(1), _ignore(2)) == (
        "1 handler ignores its abort",
        "2 handlers ignore their abort",
    )


def test_a_run_reads_as_one_line():
    at = datetime(2026, 10, 10, 12, 0, 30, tzinfo=UTC)
    run = Run("r", "report", 0, at, 2, "failed", "timeout", "takeover", instance_id="web-1:41907")
    assert (
        str(run) == "report @ 2026-10-10T12:00:30.000Z: failed (timeout), attempt 2, on web-1:41907"
    )
    done = Run("r", "report", 0, at, 1, "success", duration_ms=203, traceback="a\nb")
    assert str(done) == "report @ 2026-10-10T12:00:30.000Z: success, attempt 1, 203 ms"
