"""Stores that misbehave in one chosen way, and waiting for something to become true."""

from __future__ import annotations

import threading
import time

from anarchon import BackendUnavailable, MemoryBackend

PATIENCE_SECONDS = 10.0
LONG = 20  # seconds: a stop timeout that only a deadlock would use up
SOON = 3.0  # seconds: far below that, also where the machine is busy


def until(condition, what="it"):
    """Wait until a condition holds that another thread brings about."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not become true"
        time.sleep(0.002)


class Door(MemoryBackend):
    """A store that is shut for the first `failures` times, and can be slow to open.

    Clear `may_open` to hold those who open it; `opening` is set when somebody does.
    """

    def __init__(self, failures=0, error=None):
        super().__init__()
        self.failures = failures
        self.error = error or BackendUnavailable("nobody at home")
        self.may_open = threading.Event()
        self.may_open.set()
        self.opening = threading.Event()
        self.opened = 0
        self.closed = 0

    def open(self, limits):
        self.opening.set()
        assert self.may_open.wait(PATIENCE_SECONDS)
        if self.failures > 0:
            self.failures -= 1
            raise self.error
        self.opened += 1
        return super().open(limits)

    def close(self):
        self.closed += 1
        super().close()


class Blocked:
    """A handler that stays until it may go on; `begun` says that it was called.

    `health().running` counts a run a moment before its handler is called, and a handler
    whose signal aborts in between never is.
    """

    def __init__(self):
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self):
        self.begun.set()
        self.go_on.wait(20)

    def wait_until_begun(self):
        assert self.begun.wait(PATIENCE_SECONDS)
        self.begun.clear()


def timed(call):
    """Call something; return how long it took and what it returned or raised."""
    began = time.monotonic()
    try:
        said = call()
    except Exception as error:
        said = error
    return time.monotonic() - began, said


class Recorder:
    """Calls things one after the other, and keeps how long each took and what it said."""

    def __init__(self, *calls):
        self.calls, self.said, self.over = calls, [], threading.Event()

    def __call__(self, *_):
        if not self.said:
            for call in self.calls:
                self.said.append(timed(call))
            self.over.set()

    def results(self):
        assert self.over.wait(PATIENCE_SECONDS)
        assert max(took for took, _ in self.said) < SOON
        return [said for _, said in self.said]
