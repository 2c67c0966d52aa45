"""What every test shares: no thread of anarchon is left, and outcomes can be written down."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

pytest_plugins = ["tests.servers.fixtures"]
GRACE_SECONDS = 5.0
CHECKOUT = str(Path(__file__).resolve().parent.parent)
OUTCOMES = "ANARCHON_OUTCOMES"  # a file that tests/test_ledger.py reads

if CHECKOUT not in sys.path:
    sys.path.append(CHECKOUT)


def anarchon_threads() -> list[threading.Thread]:
    """Return the live threads that anarchon made."""
    return [t for t in threading.enumerate() if t.name.startswith("anarchon-") and t.is_alive()]


@pytest.fixture(autouse=True)
def no_thread_left():
    """Fail a test that leaves a thread of anarchon behind.

    Threads that were there before (of a module's own fixture) don't count. A thread
    that is about to end gets a bounded time to do so.
    """
    before = set(anarchon_threads())
    yield
    deadline = time.monotonic() + GRACE_SECONDS
    for thread in anarchon_threads():
        if thread not in before:
            thread.join(max(0.0, deadline - time.monotonic()))
    left = sorted(t.name for t in anarchon_threads() if t not in before)
    assert not left, f"threads left behind: {', '.join(left)}"


class OutcomeWriter:
    """Appends what became of every test to a file: one JSON array a line."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A call that passed counts; so does whatever else is no pass, in any phase.
        if report.when == "call" or report.outcome != "passed":
            with self._path.open("a", encoding="utf-8") as out:
                out.write(json.dumps([report.nodeid, report.outcome]) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Write outcomes where the environment says; with xdist in the controlling process only."""
    path = os.environ.get(OUTCOMES)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(OutcomeWriter(path), "anarchon-outcomes")


def pytest_collection_finish() -> None:
    """Let no garbage collection look through thousands of collected tests again and again."""
    gc.freeze()
