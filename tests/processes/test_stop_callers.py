"""`stop()` from everywhere, in processes of their own: it returns, and the run is handed over."""

from __future__ import annotations

import signal

import pytest

# Seconds, of the five: a handler that obeys takes milliseconds, the rest is a busy machine.
LONGEST = 3.0


def start(fleet, place, **scheduler):
    return fleet.start(program="stopping:stop_from", place=place, scheduler=scheduler)


def check_handed_over(fleet):
    runs = fleet.history("work")
    assert [(run.attempt, run.status, run.detail) for run in runs] == [
        (1, "interrupted", "handed over")
    ]


@pytest.mark.parametrize("place", ["thread", "main_thread"])
def test_from_a_thread(fleet, place):
    process = start(fleet, place)
    back = process.expect("back")
    assert back["state"] == "idle"
    assert back["took"] < LONGEST
    assert process.expect("left")["state"] == "idle"
    process.end()
    check_handed_over(fleet)


@pytest.mark.parametrize("place", ["handler", "own_handler", "listener"])
def test_from_code_that_the_scheduler_calls(fleet, place):
    """It isn't waited for, so what it sees is the end of everything else."""
    process = start(fleet, place)
    back = process.expect("back")
    assert back["took"] < LONGEST
    assert back["state"] in ("stopping", "idle")
    assert process.expect("left")["state"] == "idle"
    process.end()
    check_handed_over(fleet)
    if place == "handler":
        assert [run.status for run in fleet.history("stopper")] == ["success"]


@pytest.mark.parametrize("place", ["at_exit", "at_exit_beside_ours", "everywhere_at_exit"])
def test_from_exit_hooks(fleet, place):
    process = start(fleet, place, stop_on_exit=place != "at_exit")
    assert process.expect("left")["state"] in ("running", "stopping", "idle")
    back = process.expect("back")
    assert back["took"] < LONGEST
    assert back["state"] == "idle"
    process.end()
    check_handed_over(fleet)


@pytest.mark.parametrize("doing", ["sleeping", "waiting", "reading", "running_jobs"])
def test_from_a_signal_handler(fleet, doing):
    process = start(fleet, f"signal_while_{doing}")
    process.expect("ready")
    process.send(signal.SIGUSR1)
    back = process.expect("back")
    # One that interrupted a question to the store isn't waited for: the store may be locked.
    assert back["state"] == "idle" or doing == "reading"
    assert back["took"] < LONGEST
    assert process.expect("left")["state"] == "idle"
    process.end()
    check_handed_over(fleet)


def test_from_a_signal_handler_inside_start(fleet):
    process = start(fleet, "signal_while_starting")
    assert process.expect("back")["state"] == "idle"
    process.end()


def test_from_everywhere_at_once_for_many_rounds(fleet):
    """BR-056."""
    job = {"name": "stopper", "every": "1d", "catch_up": 0, "do": "cooperative"}
    process = fleet.start(job, program="stopping:stop_from", place="everywhere_at_once")
    back = process.expect("back")
    assert back["state"] == "idle"
    assert back["took"] < LONGEST
    process.end()
