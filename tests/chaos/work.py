"""What the processes of a chaos run have to do: their jobs, version by version, and handlers.

A `Work` can be put in the place of the plain one with `--work`; it may keep something in the
store's own database, and check that at the end.
"""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tests.chaos.checker import Violation
    from tests.chaos.story import Story


class Job(NamedTuple):
    """One job of a version: each `every_ms`, a kind of handler that takes `seconds`."""

    name: str
    every_ms: int
    do: str
    seconds: float
    overlap: str = "skip"
    on_crash: str = "takeover"
    max_attempts: int = 99
    catch_up: str = "1m"

    def options(self) -> dict:
        """Return what the scheduler is told of it."""
        return {
            "overlap": self.overlap,
            "on_crash": self.on_crash,
            "max_attempts": self.max_attempts,
            "catch_up": self.catch_up,
        }


class Work(Protocol):
    """Jobs and handlers, what they need in a store, and what must be true of it at the end.

    The driver makes one, and each process; `url` is their way to the store.
    """

    def __init__(self, url: str) -> None: ...

    def prepare(self) -> None:
        """Make what the handlers need; called once, before any process is there."""

    def jobs(self, version: int) -> list[Job]:
        """Return the jobs of a version; all versions have the same names."""

    def run(self, job: Job, ctx, lines) -> None:
        """Be the handler: tell `lines` what happens, as `Lines` says."""

    def check(self, story: Story) -> list[Violation]:
        """Say what is wrong with what the handlers left; called when all processes are gone."""


class Plain:
    """Handlers that only take time, in the ways in which handlers do."""

    def __init__(self, url: str) -> None:
        self.url = url

    def prepare(self) -> None:
        return

    def jobs(self, version: int) -> list[Job]:
        # Every second version has another schedule of two of the jobs.
        tick, long = (1000, 4000) if version % 2 == 0 else (1500, 3000)
        return [
            Job("fast", 500, "quick", 0.02, overlap="allow"),
            Job("tick", tick, "cooperative", 0.4),
            Job("long", long, "cooperative", 5.0),
            Job("beside", 2000, "cooperative", 3.0, overlap="allow"),
            Job("patient", 3000, "returning", 2.0),
            Job("stubborn", 5000, "stubborn", 4.0),
            Job("flaky", 2000, "flaky", 0.1, max_attempts=3),
            Job("careful", 3000, "cooperative", 1.0, on_crash="abandon"),
        ]

    def run(self, job: Job, ctx, lines) -> None:
        HANDLERS[job.do](ctx, lines, job.seconds)

    def check(self, story: Story) -> list[Violation]:
        return []


def work_named(name: str, url: str) -> Work:
    """Return a work by its name, `plain`, or that of another module of this package."""
    if name == "plain":
        return Plain(url)
    return importlib.import_module(f"tests.chaos.{name}").WORK(url)


# --- handlers ---


class Lines:
    """What a handler tells the ledger: `started`, `aborted` when it is so, and `ended`."""

    def __init__(self, ledger, ctx) -> None:
        self._ledger = ledger
        self._ctx = ctx
        self._about = {"job": ctx.name, "slot": ctx.slot, "attempt": ctx.attempt}

    def started(self) -> None:
        self._ledger.write("started", **self._about, fence=self._ctx.fence, why=self._ctx.reason)

    def aborted(self) -> None:
        """Tell that the signal was seen."""
        self._ledger.write("aborted", **self._about, why=self._ctx.signal.reason)

    def completing(self) -> None:
        """Tell that the success is about to be committed by the handler itself."""
        self._ledger.write("completing", **self._about)

    def ended(self, how: str) -> None:
        """Tell that the handler does nothing more, but for what `how` says: return, or raise."""
        self._ledger.write("ended", **self._about, how=how)


def quick(ctx, lines, seconds):
    """Be done before anybody could ask to stop."""
    time.sleep(seconds)
    lines.ended("returned")


def work(ctx, lines, seconds):
    """Take so long, and raise when told to stop."""
    if ctx.signal.wait(seconds):
        lines.aborted()
        lines.ended("raised")
        ctx.signal.raise_if_aborted()


def cooperative(ctx, lines, seconds):
    """Work, and raise when told to stop."""
    work(ctx, lines, seconds)
    lines.ended("returned")


def returning(ctx, lines, seconds):
    """Work, and return early when told to stop."""
    if ctx.signal.wait(seconds):
        lines.aborted()
    lines.ended("returned")


def stubborn(ctx, lines, seconds):
    """Work, and go on for a while when told to stop."""
    if ctx.signal.wait(seconds):
        lines.aborted()
        time.sleep(1.5)
        lines.ended("raised")
        ctx.signal.raise_if_aborted()
    lines.ended("returned")


def flaky(ctx, lines, seconds):
    """Fail for every fourth slot, whoever runs it."""
    work(ctx, lines, seconds)
    if ctx.slot // 2000 % 4 == 0:
        lines.ended("failed")
        raise RuntimeError("this slot fails")
    lines.ended("returned")


HANDLERS = {do.__name__: do for do in (quick, cooperative, returning, stubborn, flaky)}
