"""What a log record brings beside its text: every kind of line, and what JSON makes of it."""

from __future__ import annotations

import inspect
import json
import logging
import math

import pytest

from anarchon import MemoryBackend, Scheduler
from anarchon import _log_lines as lines
from anarchon._messages import Note
from anarchon._runs import Run
from anarchon._values import Finding, RunKey, instant
from anarchon.testing import FaultyBackend, ManualClock

SLOT = 1_791_633_610_000
WHEN = "2026-10-10T12:00:10.000Z"
KEY = {"job": "sync", "slot": SLOT, "scheduled_at": WHEN, "run_id": f"sync@{SLOT}"}
OWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def run(status, **more):
    return Run(f"sync@{SLOT}", "sync", SLOT, instant(SLOT), 2, status, instance_id="web:1", **more)


def of_run(event, status, **more):
    told = {"event": event, **KEY, "attempt": 2, "status": status, "reason": "scheduled"}
    return lines.run_line(event, run(status, **more)), {**told, "instance_id": "web:1", **more}


def of_note(kind, note, event, *, job="sync", slot=SLOT, **told):
    line = lines.note_line(Note(kind, RunKey(job, slot), note))
    return line, {"event": event, **(KEY if slot else {"job": job} if job else {}), **told}


LINES = {
    "started": of_run("started", "running"),
    "success": of_run("success", "success", duration_ms=203),
    "skipped": of_run("skipped", "skipped", detail="overlap"),
    "failure": of_run("failure", "failed", duration_ms=12, error="ValueError: no\nsuch table"),
    "interrupted": of_run("interrupted", "interrupted", detail="handed over"),
    "missed": of_run("missed", "missed", detail="no free worker"),
    "lost": of_run("lost", "lost", duration_ms=0),
    "taken": of_note("taken", "", "taken"),
    "stuck": of_note("stuck", "attempt 2\nFile x", "stuck", attempt=2, detail="attempt 2"),
    "left": of_note("left", "attempt 3", "left", attempt=3, detail="attempt 3"),
    "late": of_note("late", "3.2 s", "heartbeat_late", job="", slot=0, detail="3.2 s"),
    "schedule": of_note("schedule", "E: no", "schedule_failed", slot=0, detail="E: no"),
    "recovered": of_note("schedule", "", "schedule_recovered", slot=0),
    "scheduler_started": (
        lines.scheduler_started("web:1", 2, "sqlite 3.40.1", "2026a"),
        {"event": "scheduler_started", "instance_id": "web:1", "jobs": 2, "store": "sqlite 3.40.1"},
    ),
    "scheduler_stopped": (
        lines.scheduler_stopped("web:1", 0.0123, in_time=True),
        {"event": "scheduler_stopped", "instance_id": "web:1", "duration_ms": 12},
    ),
    "scheduler_stopped late": (
        lines.scheduler_stopped("web:1", 30, in_time=False),
        {"event": "scheduler_stopped", "instance_id": "web:1", "duration_ms": 30_000},
    ),
    "start_failed": (
        lines.start_failed("web:1", OSError("no")),
        {"event": "start_failed", "instance_id": "web:1", "error": "OSError: no"},
    ),
    "store_finding": (
        lines.store_finding(Finding("eviction", "it evicts")),
        {"event": "store_finding", "finding": "eviction"},
    ),
    "store_down": (
        lines.store_down(OSError("refused")),
        {"event": "store_down", "error": "OSError: refused"},
    ),
    "store_up": (lines.store_up(12.34), {"event": "store_up", "duration_ms": 12_340}),
    "clock_far": (lines.clock_far(-5.0), {"event": "clock_far", "offset_ms": -5000}),
    "clock_near": (lines.clock_near(), {"event": "clock_near"}),
    "one_off_passed": (lines.one_off_passed("sync", SLOT), {"event": "one_off_passed", **KEY}),
    "overdue": (lines.overdue(RunKey("sync", SLOT), 300.0), {"event": "overdue", **KEY}),
    "unapplied": (lines.unapplied("every()"), {"event": "unapplied"}),
    "unknown": (lines.unknown("ping(urls): no job 'x'"), {"event": "unknown"}),
    "disabled": (lines.disabled(), {"event": "disabled"}),
    "twins": (lines.twins("<Store>"), {"event": "twins", "store": "<Store>"}),
    "forked": (lines.forked(7), {"event": "forked", "pid": 7}),
    "dropped": (lines.dropped(3, "event"), {"event": "dropped", "count": 3}),
    "trouble": (
        lines.trouble("it raised", KeyError("x")),
        {"event": "trouble", "error": "KeyError: 'x'"},
    ),
    "not_stopped": (lines.not_stopped(), {"event": "not_stopped"}),
    "no_thread": (
        lines.no_thread(RuntimeError("none")),
        {"event": "no_thread", "error": "RuntimeError: none"},
    ),
}


class Json(logging.Formatter):
    """Shows what JSON formatters show: the message, and whatever `logging` doesn't know."""

    def format(self, record):
        more = {name: value for name, value in vars(record).items() if name not in OWN}
        return json.dumps({"message": record.getMessage(), **more})


class Kept(logging.Handler):
    def __init__(self):
        super().__init__()
        self.setFormatter(Json())
        self.shown = []

    def emit(self, record):
        self.shown.append(json.loads(self.format(record)))


@pytest.fixture
def log():
    logger, kept = logging.getLogger("tests.tracing.fields"), Kept()
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(kept)
    yield logger
    logger.removeHandler(kept)


@pytest.mark.parametrize("name", LINES)
def test_a_line_brings_what_is_known(name, log):
    line, told = LINES[name]
    lines.write(line, log)
    expected = {f"anarchon_{key}": value for key, value in told.items()}
    assert log.handlers[0].shown == [{"message": line.text, **expected}]


def test_that_is_every_kind_of_line_and_no_name_is_one_of_loggings():
    made = [
        name
        for name, function in inspect.getmembers(lines, inspect.isfunction)
        if function.__module__ == lines.__name__
        and inspect.signature(function).return_annotation == "Line"
    ]
    assert set(made) - {"note_line"} <= set(LINES)
    for line, _ in LINES.values():
        assert not set(line.fields) & OWN
        assert all(name.startswith("anarchon_") for name in line.fields)


def test_a_line_without_fields_is_written(log):
    lines.write(lines.Line(logging.WARNING, "of an extension"), log)
    assert log.handlers[0].shown == [{"message": "of an extension"}]


def test_values_are_such_as_every_stream_can_take():
    line = lines.run_line("failure", run("failed", error="E: nul \0 lone \ud800"))
    assert line.fields["anarchon_error"] == "E: nul \\x00 lone \\ud800"
    assert lines.disabled().said_by("lone \ud800").fields["anarchon_instance_id"].isascii()


def test_a_real_scheduler_tells_runs_and_says_who_speaks(log):
    backend, clock = FaultyBackend(MemoryBackend()), ManualClock()
    scheduler = Scheduler(backend, catch_up=0, instance_id="web:1", log=log)
    scheduler.every("good", "1m", lambda: None)
    scheduler.every("bad", "1m", lambda: 1 / 0)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
        backend.fail(times=math.inf)
        clock.advance("1m")
        backend.heal()
        clock.advance("1m")
    shown = log.handlers[0].shown
    assert {line["anarchon_instance_id"] for line in shown} == {"web:1"}
    events = {line["anarchon_event"] for line in shown}
    assert {"scheduler_started", "started", "success", "failure", "store_down", "store_up"} < events
    [failed] = [
        line
        for line in shown
        if line["anarchon_event"] == "failure" and line["anarchon_slot"] == 1767225660000
    ]
    assert failed["anarchon_error"] == "ZeroDivisionError: division by zero"
    assert failed["message"].startswith("bad @ 2026-01-01T00:01:00.000Z: failed after 0 ms")
    assert (failed["anarchon_job"], failed["anarchon_attempt"]) == ("bad", 1)
