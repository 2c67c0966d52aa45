"""`install_signal_handlers` in programs that have a life of their own."""

from __future__ import annotations

import signal
import time

import pytest

from anarchon._lifecycle_signals import REPEAT_SECONDS
from tests.processes.fleet import LONG, soon

LEASE, HEARTBEAT = 3.0, 0.5  # as instances have them by default
# What a busy machine may take on top; even so a hand-over can't be mistaken for a lease's end.
SLACK = 1.4
EARLY = 0.7  # as late a last heartbeat may have been
HAND_OVER = 2 * HEARTBEAT + SLACK
AT_ONCE = 2.0  # nothing is waited for, and the rest is a busy machine


def start_both(fleet, before, do="cooperative", *, hold=False, **scheduler):
    job = {"name": "work", "once": soon(), "do": do, "seconds": 60}
    options = {"before": before, "hold": hold, "scheduler": scheduler}
    server = fleet.start(job, program="signalling:embedded", **options)
    assert server.expect("installed")["said"] == [True]
    server.expect("begin")
    server.expect("ready")
    return server, fleet.serve({**job, "do": "quick"})


def check_handed_over(fleet, backup, sent):
    assert backup.expect("begin", attempt=2)["at"] - sent < HAND_OVER
    backup.expect("run", event="success")
    backup.stop()
    assert fleet.attempts("work") == [(1, "interrupted"), (2, "success")]


def test_a_servers_own_handler_is_called_as_well(fleet):
    server, backup = start_both(fleet, "handler")
    sent = server.send(signal.SIGTERM)
    assert server.expect("server told")["has_frame"]
    check_handed_over(fleet, backup, sent)
    assert server.expect("left")["state"] == ["idle"]
    server.end(0)


def test_an_ignored_signal_stops_the_scheduler_and_nothing_else(fleet):
    server, backup = start_both(fleet, "ignore")
    sent = server.send(signal.SIGTERM)
    check_handed_over(fleet, backup, sent)
    # The program itself goes on, as it would have without a scheduler.
    server.send(signal.SIGTERM)
    assert server.said("left") == []
    server.kill()


def test_a_default_signal_ends_the_process_when_all_is_handed_over(fleet):
    server, backup = start_both(fleet, "default")
    sent = server.send(signal.SIGTERM)
    gone = server.end(-signal.SIGTERM)
    assert gone - sent < HAND_OVER
    assert server.said("run", event="interrupted")
    check_handed_over(fleet, backup, sent)


def test_a_stubborn_handler_delays_the_end_by_the_exit_timeout(fleet):
    server, backup = start_both(fleet, "default", "stubborn", exit_timeout=1)
    sent = server.send(signal.SIGTERM)
    gone = server.end(-signal.SIGTERM)
    assert 1 <= gone - sent < 1 + AT_ONCE
    begun = backup.expect("begin", attempt=2)
    assert LEASE - HEARTBEAT - EARLY < begun["at"] - gone < LEASE + HAND_OVER
    backup.expect("run", event="success")
    backup.stop()


def test_a_second_signal_ends_the_process_at_once(fleet):
    server, _ = start_both(fleet, "default", "stubborn")
    server.send(signal.SIGTERM)
    server.expect("ignores")
    time.sleep(2 * REPEAT_SECONDS)  # what comes sooner only repeats the first
    again = server.send(signal.SIGTERM)
    assert server.end(-signal.SIGTERM) - again < AT_ONCE
    fleet.stop()


@pytest.mark.parametrize("before", ["default", "handler"])
def test_two_schedulers_of_one_process_are_both_stopped(fleet, before):
    jobs = [{"name": name, "once": soon(), "do": "cooperative"} for name in ("a", "b")]
    several = [{"database": str(fleet.database), "jobs": [job], "log": True} for job in jobs]
    several[1]["namespace"] = "other"
    server = fleet.start(program="signalling:embedded", before=before, several=several)
    for job in jobs:
        server.expect("begin", job=job["name"])
    server.expect("ready")
    server.send(signal.SIGTERM)
    if before == "handler":
        assert server.expect("left")["state"] == ["idle", "idle"]
    server.end(0 if before == "handler" else -signal.SIGTERM)
    assert {line["job"] for line in server.said("run", event="interrupted")} == {"a", "b"}


def test_a_storm_of_signals_while_the_main_thread_asks_and_runs_jobs(fleet):
    ping = {"name": "ping", "every": "1d", "catch_up": 0}
    process = fleet.start(ping, program="signalling:storm")
    process.expect("ready")
    until, strikes = time.monotonic() + LONG, 0
    while strikes < 200 or len(process.said("run", event="success")) <= 5:
        assert time.monotonic() < until, process.report()
        process.send(signal.SIGUSR1)
        strikes += 1
        time.sleep(0.002)  # the storm itself
    process.send(signal.SIGUSR2)
    process.end(-signal.SIGUSR2)


def test_a_storm_of_the_signal_itself(fleet):
    """Every one of them asks for the same stop."""
    server, backup = start_both(fleet, "handler", hold=True)
    sent = server.send(signal.SIGTERM)
    for _ in range(100):
        server.send(signal.SIGTERM)
        time.sleep(0.001)  # the storm itself
    check_handed_over(fleet, backup, sent)
    assert server.expect("left")["state"] == ["idle"]
    server.tell()
    server.end(0)


def test_outside_the_main_thread_nothing_is_installed_and_no_signal_touched(fleet):
    """BR-059."""
    process = fleet.start(program="signalling:from_another_thread")
    ready = process.expect("ready")
    assert ready["said"] == [False]
    assert ready["default"]
    assert ready["touched"] == []
    process.end(0)
