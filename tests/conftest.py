"""What every test shares: afterwards no thread of anarchon is left."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

GRACE_SECONDS = 5.0
CHECKOUT = str(Path(__file__).resolve().parent.parent)

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
