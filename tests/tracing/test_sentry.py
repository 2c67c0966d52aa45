"""Failures in Sentry: once each, with their runs, the real exceptions, and scopes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentry_sdk
from sentry_sdk import init as begin
from sentry_sdk.integrations.dedupe import DedupeIntegration
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.scope import Scope
from sentry_sdk.transport import Transport

from anarchon import MemoryBackend, Run
from anarchon.contrib import _sentry_reports
from anarchon.contrib.sentry import report
from anarchon.testing import FaultyBackend, ManualClock
from tests.tracing.conftest import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent
SLOT = 1_791_633_660_000  # 2026-10-10T12:01:00Z


class Sent(Transport):
    """Keeps what would be sent."""

    def __init__(self, options=None):
        super().__init__(options)
        self.items = []

    def capture_envelope(self, envelope):
        self.items += [item.payload.json for item in envelope.items]

    @property
    def events(self):
        return [item for item in self.items if item.get("type") != "check_in"]

    @property
    def check_ins(self):
        return [item for item in self.items if item.get("type") == "check_in"]


def init(**options):
    """Begin to report, without the integrations that change the whole process."""
    sent = Sent()
    begin(
        dsn="http://key@127.0.0.1/1",
        transport=sent,
        default_integrations=False,
        integrations=[LoggingIntegration(), DedupeIntegration()],
        **options,
    )
    return sent


@pytest.fixture
def no_sentry():
    """Forget the client at the end."""
    yield
    sentry_sdk.get_client().close()
    Scope.get_global_scope().set_client(None)


@pytest.fixture
def sent(no_sentry):
    return init()


@pytest.fixture
def run_once(make, clock):
    def run(handler, scheduler=None, seconds=80, **options):
        scheduler = scheduler or make(instance_id="web:1")
        scheduler.every("job", "1m", handler, **options)
        report(scheduler)
        clock.attach(scheduler)
        with scheduler:
            clock.advance(seconds)

    return run


def fail():
    at_hand = "a local"
    raise ValueError(f"no such table, {at_hand}")


def test_a_failure_is_one_event_with_the_exception_and_the_run(run_once, sent):
    run_once(fail, tags=["money"])
    [event] = sent.events
    [value] = event["exception"]["values"]
    assert (value["type"], value["value"]) == ("ValueError", "no such table, a local")
    assert value["mechanism"] == {"type": "anarchon", "handled": False}
    [frame] = value["stacktrace"]["frames"]
    assert (frame["function"], frame["vars"]) == ("fail", {"at_hand": "'a local'"})
    assert event["level"] == "error"
    assert event["transaction"] == "job"
    assert event["tags"] == {
        "anarchon.job": "job",
        "anarchon.attempt": 1,
        "anarchon.reason": "scheduled",
        "anarchon.instance": "web:1",
    }
    told = event["contexts"]["anarchon"]
    assert told["slot"] == SLOT
    assert told["run_id"] == f"job@{SLOT}"
    assert (told["status"], told["namespace"]) == ("failed", "anarchon")
    assert told["tags"] == ["money"]
    assert "traceback" not in told


@pytest.mark.parametrize("first", ["init", "report"])
def test_init_may_come_before_or_after(make, clock, no_sentry, first):
    scheduler = make()
    scheduler.every("job", "1m", fail)
    steps = {"init": init, "report": lambda: report(scheduler)}
    got = steps.pop(first)()
    sent = next(iter(steps.values()))() or got
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
    assert len(sent.events) == 1


def test_without_init_nothing_happens(run_once):
    run_once(fail)


def test_each_attempt_has_a_scope_of_its_own(make, clock, sent):
    def first():
        sentry_sdk.set_tag("mine", "of the first")
        sentry_sdk.add_breadcrumb(message="crumb of the first")
        raise KeyError("first")

    def second():
        raise KeyError("second")

    scheduler = make(workers=1)
    scheduler.every("first", "1m", first)
    scheduler.every("second", "1m", second)
    report(scheduler)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
    events = {event["tags"]["anarchon.job"]: event for event in sent.events}
    assert events["first"]["tags"]["mine"] == "of the first"
    crumbs = [crumb["message"] for crumb in events["first"]["breadcrumbs"]["values"]]
    assert "crumb of the first" in crumbs
    assert "mine" not in events["second"]["tags"]
    crumbs = events["second"].get("breadcrumbs", {}).get("values", [])
    assert [crumb for crumb in crumbs if "first" in crumb["message"]] == []


def test_what_the_handler_captures_itself_has_the_tags_and_is_not_sent_twice(run_once, sent):
    def handler():
        sentry_sdk.capture_message("by the way")
        try:
            fail()
        except ValueError as error:
            sentry_sdk.capture_exception(error)
            raise

    run_once(handler, tags=["money"])
    said, failed = sent.events
    assert said["contexts"]["anarchon"]["tags"] == ["money"]
    assert said["message"] == "by the way"
    assert said["tags"]["anarchon.job"] == failed["tags"]["anarchon.job"] == "job"
    assert said["contexts"]["anarchon"]["slot"] == SLOT


def test_a_timeout_is_a_message_in_the_scope_of_its_attempt(run_once, sent):
    def handler(ctx):
        sentry_sdk.set_tag("mine", "yes")
        ctx.signal.sleep("50s")

    run_once(handler, timeout="5s")
    [event] = sent.events
    assert event["message"] == "job failed: TimeoutError: still running after 5 s"
    assert (event["level"], event["tags"]["mine"]) == ("error", "yes")
    assert "exception" not in event


def test_interruptions_are_no_events(handed_over, sent):
    one, two = handed_over(report)
    assert sent.events == []
    assert reports_of(one)._kept == reports_of(two)._kept == {}


def test_an_error_of_the_users_around_is_reported(make, run_once, sent):
    def around(ctx):
        raise OSError("no database")

    run_once(lambda: None, make(around=around))
    [event] = sent.events
    assert event["exception"]["values"][-1]["type"] == "OSError"


def test_a_runner_that_died_three_times_is_a_message_of_who_recorded_it(make, sent):
    """Once, though two instances look on."""
    clock, backend = ManualClock(), MemoryBackend()
    faulty = FaultyBackend(backend)
    dead = make(faulty, catch_up="1h", max_attempts=1, instance_id="dead")
    others = [make(backend, catch_up="1h", max_attempts=1, instance_id=name) for name in ("b", "c")]
    for scheduler in (dead, *others):
        scheduler.every("job", "1h", lambda ctx: ctx.signal.sleep("30m"))
        clock.attach(scheduler)
    for scheduler in others:
        report(scheduler)
    dead.start()
    clock.advance("1s")
    faulty.fail(times=10_000)
    for scheduler in others:
        scheduler.start()
    clock.advance("1m")
    [event] = sent.events
    assert event["message"] == "job failed: runner died 1 time"
    assert event["tags"]["anarchon.job"] == "job"
    assert event["contexts"]["anarchon"]["attempt"] == 1


def test_a_failure_that_could_not_be_recorded_here_is_told_once_by_who_did(make, sent):
    """A store that is away keeps the report, and the exception, until the record is written."""
    clock, backend = ManualClock(), FaultyBackend(MemoryBackend())
    scheduler = make(backend)
    scheduler.every("job", "1m", fail)
    report(scheduler)
    clock.attach(scheduler)
    with scheduler:
        backend.fail("finish", times=3)
        clock.advance("1m")
        clock.advance("20s")
    assert len(sent.events) == 1
    assert sent.events[0]["exception"]["values"][0]["type"] == "ValueError"


def test_other_errors_of_the_log_are_still_events(make, clock, sent):
    scheduler = make()
    scheduler.every("job", "1m", fail)

    @scheduler.on("failure")
    def broken(run):
        raise ZeroDivisionError

    report(scheduler)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
    logged = [event for event in sent.events if event.get("logger") == "anarchon"]
    assert len(logged) == 1
    assert "broken of 'failure' raised" in logged[0]["logentry"]["message"]
    assert len(sent.events) == 2


def reports_of(scheduler):
    return scheduler._listeners.of("failure")[0].__self__


def test_nothing_is_kept_of_what_was_recorded(make, clock, sent):
    scheduler = make()
    scheduler.every("good", "1m", lambda: None)
    scheduler.every("bad", "1m", fail)
    scheduler.every("late", "1m", lambda ctx: ctx.signal.wait(30), timeout="5s")
    report(scheduler)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("5m10s")
    assert reports_of(scheduler)._kept == {}
    assert len(sent.events) == 10


def test_of_too_many_that_wait_the_oldest_goes_without_its_exception(
    make, clock, sent, monkeypatch
):
    monkeypatch.setattr(_sentry_reports, "BOUND", 1)

    def handler(ctx):
        ctx.signal.sleep("1s")
        fail()

    scheduler = make()
    scheduler.every("one", "1m", handler).every("two", "1m", handler)
    report(scheduler)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("70s")
    assert sorted("exception" in event for event in sent.events) == [False, True]
    assert [e["message"][4:] for e in sent.events if "message" in e] == [
        "failed: ValueError: no such table, a local"
    ]


def ended(detail=None):
    return Run("job@0", "job", 0, datetime(1970, 1, 1, tzinfo=UTC), 1, "failed", detail, error="E")


def test_what_a_handler_raises_in_the_moment_of_its_timeout_is_not_why_it_failed(make, sent):
    scheduler = make()
    report(scheduler)
    reports = reports_of(scheduler)
    for run in (ended("timeout"), ended()):
        reports._kept["job@0", 1] = _sentry_reports.Kept(copy_context(), ValueError("late"))
        reports._failed(run)
    assert ["exception" in event for event in sent.events] == [False, True]


def test_what_is_raised_after_an_abort_is_not_kept(make, sent):
    """Such as that of a lost lease, which may use the run's attempts up."""
    scheduler = make()
    report(scheduler)
    reports = reports_of(scheduler)
    key = SimpleNamespace(run_id="job@0")
    start = SimpleNamespace(lease=SimpleNamespace(key=key))
    for aborted in (True, False):
        ctx = SimpleNamespace(_start=start, attempt=1, signal=SimpleNamespace(aborted=aborted))
        reports._kept["job@0", 1] = _sentry_reports.Kept(copy_context())
        reports.end(ctx, ValueError("late"))
        assert (reports._kept["job@0", 1].error is None) is aborted


def test_a_sentry_that_raises_is_told_once_and_handlers_run(run_once, sent, caplog, monkeypatch):
    def broken():
        raise OSError("no scope")

    monkeypatch.setattr(sentry_sdk, "isolation_scope", broken)
    ran = threading.Event()
    run_once(ran.set, seconds=200)
    assert ran.is_set()
    assert [r.message.splitlines()[0] for r in caplog.records] == [
        "a run could not be given a scope of Sentry's"
    ]


DEFAULTS = """
    import sentry_sdk
    from sentry_sdk.transport import Transport
    from anarchon import MemoryBackend, Scheduler
    from anarchon.contrib.sentry import report

    class Sent(Transport):
        def capture_envelope(self, envelope):
            for item in envelope.items:
                print(item.payload.json["exception"]["values"][0]["type"])

    scheduler = Scheduler(MemoryBackend(), catch_up=0)
    scheduler.every("job", "1h", lambda: 1 / 0)
    report(scheduler)
    sentry_sdk.init(dsn="http://key@127.0.0.1/1", transport=Sent())
    with scheduler:
        scheduler.run_now("job")
"""


def test_with_the_integrations_that_are_the_default(tmp_path):
    """That of logging would make an event of the log line, and that of threading of the thread."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DEFAULTS)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=6 * PATIENCE_SECONDS,
    )
    assert done.stdout == "ZeroDivisionError\n", done.stderr
