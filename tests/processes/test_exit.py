"""BR-020, BR-021: the interpreter ends in every way, with handlers that obey and that don't.

The lease is six heartbeats, so a hand-over can't be mistaken for a lease that ran out.
"""

from __future__ import annotations

import signal
import time
from typing import NamedTuple

import pytest

from tests.processes.fleet import soon
from tests.processes.ledger import check_tellings

LEASE, HEARTBEAT = 3.0, 0.5  # as instances have them by default
# What a busy machine may take on top; even so a hand-over can't be mistaken for a lease's end.
SLACK = 1.4
EARLY = 0.7  # as late a last heartbeat may have been
HAND_OVER = 2 * HEARTBEAT + SLACK
AT_ONCE = 2.0  # nothing is waited for, and the rest is a busy machine
EXIT_TIMEOUT = 1.0


class Way(NamedTuple):
    """A way to end: the signal that makes it so, the exit status, and what stderr then has."""

    name: str
    signum: int | None
    status: int
    stderr: str

    def __str__(self) -> str:
        return self.name.removeprefix("by_")


TRACEBACK = r"Traceback \(most recent call last\):\n(  .*\n)+"
WAYS = [
    Way("by_return", None, 0, ""),
    Way("by_stop", None, 0, ""),
    Way("by_sys_exit", None, 3, ""),
    Way("by_exception", None, 1, rf"{TRACEBACK}RuntimeError: raised by the test\n"),
    Way("by_ctrl_c", signal.SIGINT, -signal.SIGINT, rf"{TRACEBACK}KeyboardInterrupt\n"),
    Way("by_handler", signal.SIGTERM, 4, ""),
    Way("by_return_with_other_threads", None, 0, ""),
]
NO_HOOK = Way("by_default", signal.SIGTERM, -signal.SIGTERM, "")


def start_both(fleet, way, do):
    """Start a runner of one long run that will end in that way, and a backup."""
    job = {"name": "work", "once": soon(), "do": do, "seconds": 60}
    runner = fleet.start(
        job,
        program="ending:leave",
        way=way.name,
        log=True,
        scheduler={"exit_timeout": EXIT_TIMEOUT},
    )
    runner.expect("begin", attempt=1)
    backup = fleet.serve({**job, "do": "quick"})
    return runner, backup


def leave(runner, way):
    """Let the runner end; return when that began, and when it was gone."""
    if way.signum is None:
        runner.tell()
        began = runner.expect("leaves")["at"]
    else:
        runner.expect("ready")
        began = runner.send(way.signum)
    return began, runner.end(way.status, stderr=way.stderr)


def check_takeover(fleet, backup, ends):
    backup.expect("run", event="success", attempt=2)
    backup.stop()
    assert fleet.attempts("work") == [(1, ends), (2, "success")]
    check_tellings(fleet, "work")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_handler_that_obeys_is_handed_over(fleet, way):
    runner, backup = start_both(fleet, way, "cooperative")
    began, gone = leave(runner, way)
    assert gone - began < EXIT_TIMEOUT + AT_ONCE
    assert runner.said("end")[0]["abort"] == "stop"
    begun = backup.expect("begin", attempt=2)
    assert begun["reason"] == "takeover"
    assert begun["at"] - began < HAND_OVER
    check_takeover(fleet, backup, "interrupted")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_handler_that_does_not_is_left_to_its_lease(fleet, way):
    runner, backup = start_both(fleet, way, "stubborn")
    began, gone = leave(runner, way)
    assert EXIT_TIMEOUT <= gone - began < EXIT_TIMEOUT + AT_ONCE
    assert runner.said("ignores")[0]["abort"] == "stop"
    begun = backup.expect("begin", attempt=2)
    # It was renewed for as long as the stop waited for it.
    assert LEASE - HEARTBEAT - EARLY < begun["at"] - gone < LEASE + HAND_OVER
    check_takeover(fleet, backup, "lost")


@pytest.mark.parametrize("do", ["cooperative", "stubborn"])
def test_without_any_hook_the_lease_runs_out(fleet, do):
    """SIGTERM ends a program that handles no signals as SIGKILL would."""
    runner, backup = start_both(fleet, NO_HOOK, do)
    began, gone = leave(runner, NO_HOOK)
    assert gone - began < AT_ONCE
    begun = backup.expect("begin", attempt=2)
    assert LEASE - HEARTBEAT - EARLY < begun["at"] - gone < LEASE + HAND_OVER
    check_takeover(fleet, backup, "lost")


def test_a_second_ctrl_c_ends_the_waiting_for_a_stubborn_handler(fleet):
    job = {"name": "work", "once": soon(), "do": "stubborn", "seconds": 60}
    runner = fleet.start(job, program="ending:leave", way="by_ctrl_c")
    runner.expect("begin")
    runner.expect("ready")
    runner.send(signal.SIGINT)
    runner.expect("ignores")
    again = runner.send(signal.SIGINT)
    gone = runner.end(-signal.SIGINT, stderr=r"(?s)Traceback .*KeyboardInterrupt:?\s+")
    assert gone - again < AT_ONCE


def test_a_start_in_progress_delays_no_exit(fleet):
    process = fleet.start(
        program="ending:leave", way="by_return", retry=True, database="/nowhere/at/all.db"
    )
    process.tell()
    left = process.expect("leaves")
    assert left["state"] == "starting"
    assert process.end() - left["at"] < AT_ONCE


def test_an_idle_scheduler_delays_no_exit(fleet):
    process = fleet.start(
        {"name": "tick", "every": "1h", "catch_up": 0}, program="ending:leave", way="by_return"
    )
    began = time.monotonic()
    process.tell()
    left = process.expect("leaves")
    assert left["state"] == "running"
    assert process.end() - left["at"] < AT_ONCE
    assert began < left["at"]
