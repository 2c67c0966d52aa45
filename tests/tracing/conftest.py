"""Schedulers of these tests, which are stopped at their ends; and what tells of their runs."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from anarchon import MemoryBackend
from anarchon.testing import ManualClock
from tests.schedulers import maker

PATIENCE_SECONDS = 10.0


@pytest.fixture
def make():
    """Make schedulers that are stopped at the end of the test."""
    with maker(catch_up=0, lease=3, jitter=0) as make_one:
        yield make_one


@pytest.fixture
def clock():
    return ManualClock(datetime(2026, 10, 10, 12, 0, tzinfo=UTC))


class Hand:
    """A handler whose first attempt waits for its abort; `begun` says that it was called."""

    def __init__(self):
        self.begun = threading.Event()
        self.attempts = []
        self.ended = threading.Event()

    def __call__(self, ctx):
        self.attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            self.begun.set()
            ctx.signal.wait(PATIENCE_SECONDS)
            ctx.signal.raise_if_aborted()
        self.ended.set()


@pytest.fixture
def handed_over(make):
    """Run a slot on one instance until it has begun, stop that one, and let another end it."""

    def run(prepare, backend=None):
        backend, hand, last = backend or MemoryBackend(), Hand(), datetime.now(UTC)
        slot = last.replace(microsecond=last.microsecond // 1000 * 1000)
        pair = [make(backend, catch_up="1h", instance_id=name) for name in ("one", "two")]
        for scheduler in pair:
            scheduler.once("job", slot, hand)
            prepare(scheduler)
        pair[0].start()
        assert hand.begun.wait(PATIENCE_SECONDS)
        pair[1].start()
        pair[0].stop()
        assert hand.ended.wait(PATIENCE_SECONDS)
        pair[1].stop()
        assert hand.attempts == [1, 2]
        return pair

    return run
