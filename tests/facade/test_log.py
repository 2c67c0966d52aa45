"""The log: each line as it is promised, at its level, and shown where it was asked for."""

from __future__ import annotations

import logging
import sys
from datetime import timedelta

import pytest

from anarchon import _log_lines as lines
from anarchon._messages import (
    Note,
)
from anarchon._runs import Run
from anarchon._tzdata import tzdata_version
from anarchon._values import (
    RunKey,
    instant,
)
from anarchon.errors import BackendUnavailable
from tests.facade.helpers import until

SLOT = 1_791_633_610_000  # 2026-10-10T12:00:10Z
HEAD = "sync @ 2026-10-10T12:00:10.000Z: "


def run(status, detail=None, duration_ms=None, **more):
    started = instant(SLOT) if duration_ms is not None else None
    values = {
        "run_id": f"sync@{SLOT}",
        "job": "sync",
        "slot": SLOT,
        "scheduled_at": instant(SLOT),
        "attempt": 1,
        "status": status,
        "detail": detail,
        "instance_id": "my-laptop:41822",
        "started_at": started,
        "finished_at": started and started + timedelta(milliseconds=duration_ms),
        "duration_ms": duration_ms,
    }
    return Run(**{**values, **more})


@pytest.mark.parametrize(
    ("event", "told", "level", "text"),
    [
        (
            "started",
            run("running"),
            "INFO",
            "started on my-laptop:41822 (attempt 1, scheduled)",
        ),
        (
            "started",
            run("running", attempt=2, reason="takeover"),
            "INFO",
            "started on my-laptop:41822 (attempt 2, takeover)",
        ),
        ("success", run("success", duration_ms=203), "INFO", "finished in 203 ms"),
        (
            "success",
            run("success", "after stop", 203),
            "INFO",
            "finished in 203 ms, after stop was asked; nobody continues it",
        ),
        ("skipped", run("skipped", "overlap"), "INFO", "skipped (overlap)"),
        ("skipped", run("skipped", "paused"), "INFO", "skipped (paused)"),
        (
            "interrupted",
            run("interrupted", "handed over", 5005),
            "WARNING",
            "interrupted after 5005 ms, handed over to another instance",
        ),
        (
            "interrupted",
            run("interrupted", "not handed over", 5005),
            "WARNING",
            "interrupted after 5005 ms, not handed over",
        ),
        (
            "interrupted",
            run("interrupted", "handed over"),
            "WARNING",
            "interrupted before it started, handed over to another instance",
        ),
        (
            "failure",
            run("failed", None, 12, error="ValueError: no such table"),
            "ERROR",
            "failed after 12 ms: ValueError: no such table",
        ),
        (
            "failure",
            run("failed", "timeout", 3000, error="TimeoutError: it ran for more than 3 s"),
            "ERROR",
            "failed after 3000 ms: TimeoutError: it ran for more than 3 s",
        ),
        (
            "failure",
            run("failed", error="runner died 3 times"),
            "ERROR",
            "failed: runner died 3 times",
        ),
        ("missed", run("missed", "no free worker"), "WARNING", "missed (no free worker)"),
        ("lost", run("lost"), "WARNING", "lost"),
        ("lost", run("lost", "taken over", 70), "WARNING", "lost after 70 ms (taken over)"),
    ],
)
def test_the_line_of_a_run(event, told, level, text):
    assert lines.run_line(event, told)[:2] == (getattr(logging, level), HEAD + text)


def test_a_takeover_has_no_line_beside_that_of_its_start():
    assert lines.run_line("takeover", run("running", attempt=2)) is None


def test_a_failure_brings_its_traceback():
    told = run("failed", None, 1, error="ValueError: x", traceback="Traceback ...\nValueError: x\n")
    line = lines.run_line("failure", told)
    assert line.text == f"{HEAD}failed after 1 ms: ValueError: x\nTraceback ...\nValueError: x"


def test_an_error_of_any_kind_gets_one_line_that_every_stream_can_take():
    told = run("failed", None, 1, error="E: nul \0 lone \ud800 é\nsecond line " + "x" * 9999)
    text = lines.run_line("failure", told).text
    text.encode("utf-8")
    assert text == f"{HEAD}failed after 1 ms: E: nul \\x00 lone \\ud800 é"
    long = lines.run_line("failure", run("failed", None, 1, error="x" * 9999)).text
    assert len(long) < 600


@pytest.mark.parametrize(
    ("note", "level", "text"),
    [
        (Note("taken", RunKey("sync", SLOT)), "INFO", HEAD + "skipped (taken)"),
        (
            Note("left", RunKey("sync", SLOT)),
            "WARNING",
            HEAD + "still running when stop timed out, left behind",
        ),
        (Note("late", RunKey("", 0), "3.2 s"), "WARNING", "heartbeat late by 3.2 s"),
        (
            Note("schedule", RunKey("sync", 0), "ValueError: no"),
            "ERROR",
            "sync: suspended, its schedule can't be computed: ValueError: no",
        ),
        (
            Note("stuck", RunKey("sync", SLOT), 'attempt 1\nFile "x.py", line 1\n'),
            "ERROR",
            (
                f"{HEAD}the handler ignores its abort signal and keeps its thread (attempt 1)\n"
                'File "x.py", line 1'
            ),
        ),
    ],
)
def test_the_line_of_a_note(note, level, text):
    assert lines.note_line(note)[:2] == (getattr(logging, level), text)


def test_the_lines_of_the_scheduler_and_the_store():
    started = lines.scheduler_started("web:1", 2, "sqlite 3.40.1", "2026a")
    assert started[:2] == (
        logging.INFO,
        "scheduler started on web:1 (2 jobs, store sqlite 3.40.1, tzdata 2026a)",
    )
    assert "(1 job, " in lines.scheduler_started("web:1", 1, "memory", "2026a").text
    stopped = lines.scheduler_stopped("web:1", 0.0123, in_time=True)
    assert stopped[:2] == (logging.INFO, "scheduler stopped on web:1, in 12 ms")
    assert lines.scheduler_stopped("web:1", 30, in_time=False).level == logging.WARNING
    down = lines.store_down(OSError("refused\nsecond line"))
    assert down[:2] == (
        logging.WARNING,
        "store down: OSError: refused; trying again until it is back",
    )
    whole = lines.store_down(BackendUnavailable("It is gone. Bring it back."))
    assert "Bring it back; trying again" in whole.text
    assert lines.store_up(12.34)[:2] == (logging.WARNING, "store up again after 12.3 s")
    assert "5.0 s ahead of" in lines.clock_far(5.0).text
    assert "5.0 s behind" in lines.clock_far(-5.0).text


def test_an_error_whose_text_can_not_be_had_has_a_line():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert "Mute" in lines.store_down(Mute()).text
    assert "KeyError" in lines.store_down(KeyError()).text


def test_the_edition_of_the_time_zones_is_found(monkeypatch, tmp_path):
    assert tzdata_version()[:2] == "20"
    (tmp_path / "tzdata.zi").write_text("# version 2031z\n")
    monkeypatch.setattr("zoneinfo.TZPATH", (str(tmp_path / "no"), str(tmp_path)))
    assert tzdata_version() == "2031z"
    monkeypatch.setattr("zoneinfo.TZPATH", ())
    assert tzdata_version()[:2] == "20"  # of the package
    monkeypatch.setitem(sys.modules, "tzdata", None)
    assert tzdata_version() == "unknown"


# --- where the lines go ---


def test_a_logger_that_was_given_is_used_as_it_is(make, caplog):
    logger = logging.getLogger("tests.facade.own")
    before = (logger.level, list(logger.handlers))
    scheduler = make(log=logger)
    scheduler.every("sync", "1h", lambda: None, catch_up=0)
    with caplog.at_level(logging.INFO), scheduler:
        scheduler.run_now("sync")
    assert (logger.level, list(logger.handlers)) == before
    assert {r.name for r in caplog.records} == {"tests.facade.own"}
    assert any(r.message.endswith("(attempt 1, manual)") for r in caplog.records)


def test_a_host_that_has_set_up_logging_keeps_its_set_up(make, caplog):
    logger = logging.getLogger("anarchon")
    logger.setLevel(logging.ERROR)
    scheduler = make(log=True)
    scheduler.every("bad", "1h", lambda: 1 / 0, catch_up=0)
    with scheduler:
        scheduler.run_now("bad")
    try:
        assert logger.level == logging.ERROR
        assert logger.handlers == []  # pytest's own handlers are above
        assert [r.levelname for r in caplog.records] == ["ERROR"]
    finally:
        logger.setLevel(logging.NOTSET)


def test_a_slow_logging_handler_holds_up_nothing(make):
    import threading

    go_on, seen = threading.Event(), []

    class Slow(logging.Handler):
        def emit(self, record):
            go_on.wait(20)
            seen.append(record.getMessage())

    logger = logging.getLogger("tests.facade.slow_log")
    logger.setLevel(logging.INFO)
    handler = Slow()
    logger.addHandler(handler)
    scheduler = make(log=logger)
    scheduler.every("sync", "1h", lambda: None, catch_up=0)
    scheduler.start()
    assert scheduler.run_now("sync").status == "success"
    assert seen == []
    go_on.set()
    scheduler.stop()
    until(lambda: seen[-1:] and seen[-1].startswith("scheduler stopped"))
    logger.removeHandler(handler)


PROGRAM = """
    import sys, logging
    from anarchon import MemoryBackend, Scheduler
    log = {"True": True, "False": False}[sys.argv[1]]
    scheduler = Scheduler(MemoryBackend(), lease=3, log=log, instance_id="web:1")
    scheduler.every("good", "1h", lambda: None, catch_up=0)
    scheduler.every("bad", "1h", lambda: 1 / 0, catch_up=0)
    for _ in range(2):
        with scheduler:
            scheduler.run_now(sys.argv[2])
    logger = logging.getLogger("anarchon")
    print(logger.level, logger.handlers)
    twin = Scheduler(MemoryBackend(), lease=3, log=True)
    with twin, scheduler:
        pass
    print(logger.handlers)
"""


def test_log_true_shows_everything_on_stderr_and_stop_ends_that(spawn):
    out, err = spawn(PROGRAM, True, "good").communicate(timeout=30)
    assert out.splitlines() == ["20 []", "[]"]
    shown = err.splitlines()
    assert all(line.startswith("[anarchon] ") for line in shown)
    assert len([line for line in shown if " @ " in line and "finished in" in line]) == 2
    assert len([line for line in shown if "scheduler started on web:1 (2 jobs" in line]) == 3


def test_log_false_is_silent_while_all_is_well(spawn):
    program = PROGRAM.split("twin", maxsplit=1)[0]
    out, err = spawn(program, False, "good").communicate(timeout=30)
    assert (out.splitlines(), err) == (["0 []"], "")


def test_log_false_still_shows_the_traceback_of_a_failing_handler(spawn):
    program = PROGRAM.split("twin", maxsplit=1)[0]
    _, err = spawn(program, False, "bad").communicate(timeout=30)
    assert err.count("ZeroDivisionError: division by zero\nTraceback (most recent call last)") == 2
    assert "started" not in err


def test_the_lines_of_a_whole_run(make, caplog):
    scheduler = make(instance_id="web:1")
    scheduler.every("sync", "1h", lambda: None, catch_up=0)
    with caplog.at_level(logging.INFO, "anarchon"), scheduler:
        scheduler.run_now("sync")
        until(lambda: any("finished" in r.message for r in caplog.records))
    texts = [r.message for r in caplog.records]
    assert texts[0].startswith("scheduler started on web:1 (1 job, store memory")
    assert texts[1].endswith("started on web:1 (attempt 1, manual)")
    assert " finished in " in texts[2]
    assert texts[3].startswith("scheduler stopped on web:1, in ")
    assert len(texts) == 4
