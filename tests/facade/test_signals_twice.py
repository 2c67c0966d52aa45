"""A stop signal that is told twice, at once, is one; later it is a second wish."""

from __future__ import annotations

import signal
import time

import pytest

from anarchon._lifecycle_signals import REPEAT_SECONDS
from tests.facade.services import finish, program, recorded

TIDY = (
    "@scheduler.every('tidy', '1h', catch_up=0)",
    "def tidy(ctx):",
    "    print('running', flush=True); entered.set()",
    "    ctx.signal.wait(60); time.sleep(0.4); ctx.signal.raise_if_aborted()",
)


WAYS = {
    "run()": ["submit_when_running('tidy')", "scheduler.run()"],
    "installed": ["scheduler.install_signal_handlers()", "begin('tidy')", "time.sleep(60)"],
}


@pytest.mark.parametrize("gap", [0.0, 0.002, 0.02])
@pytest.mark.parametrize(
    ("way", "first", "code"),
    [
        ("run()", signal.SIGTERM, 0),
        ("run()", signal.SIGINT, 0),
        ("installed", signal.SIGTERM, -signal.SIGTERM),
    ],
)
def test_a_signal_that_is_told_twice_is_one(spawn, tmp_path, way, first, code, gap):
    """As by `timeout`, which signals its child and then the group."""
    assert 4 * gap < REPEAT_SECONDS
    # In the program it is longer, since a busy machine may be slow between the two.
    longer = "from anarchon import _lifecycle_signals; _lifecycle_signals.REPEAT_SECONDS = 5"
    steps = program(longer, *TIDY, *WAYS[way])
    process = spawn(steps.replace("exit_timeout=1", "exit_timeout=10"))
    assert process.stdout.readline() == "running\n"
    process.send_signal(first)
    time.sleep(gap)
    process.send_signal(signal.SIGTERM)
    _, err, took = finish(process)
    assert (process.returncode, took < 5) == (code, True), err
    run = recorded(tmp_path, "tidy")
    assert (run.status, run.detail) == ("interrupted", "not handed over")  # a manual run never is
