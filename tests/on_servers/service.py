"""A scheduler at work in this process, and what it did."""

from __future__ import annotations

import logging
import threading
import time

from anarchon import Scheduler
from tests.processes.ledger import by_slot

LEASE, HEARTBEAT = 3.0, 0.5
UNHURRIED = 15.0, 1.5


class Service:
    """A scheduler with a job each second, and one that holds a run for as long as it may.

    One that is `unhurried` has a longer lease, and calls that may take longer: for faults that
    are to be shorter than a lease, and where no call is to be too late, on a busy machine as well.
    """

    def __init__(self, backend, caplog, *, unhurried: bool = False) -> None:
        caplog.set_level(logging.INFO, "anarchon")
        self._log = caplog
        self.ran: dict[int, int] = {}
        self.news = threading.Condition()
        self.aborted: list[tuple[str, float]] = []
        self.fences: list[int] = []
        self.holds = threading.Event()
        lease, heartbeat = UNHURRIED if unhurried else (LEASE, HEARTBEAT)
        self.scheduler = Scheduler(
            backend, lease=lease, heartbeat=heartbeat, catch_up=0, log=logging.getLogger("anarchon")
        )
        self.scheduler.every("tick", "1s", self.tick)
        self.scheduler.every("hold", "1h", self.hold, catch_up="1h", overlap="allow")

    def tick(self, ctx):
        with self.news:
            self.ran[ctx.slot] = self.ran.get(ctx.slot, 0) + 1
            self.news.notify_all()

    def hold(self, ctx):
        self.fences.append(ctx.fence)
        self.holds.set()
        if ctx.signal.wait(120):
            with self.news:
                self.aborted.append((ctx.signal.reason, time.monotonic()))
                self.news.notify_all()
        ctx.signal.raise_if_aborted()

    def expect_ticks(self, count, within=15.0):
        """Wait for more slots to be run."""
        with self.news:
            enough = len(self.ran) + count
            assert self.news.wait_for(lambda: len(self.ran) >= enough, within), self.lines()

    def expect_abort(self, reason, within):
        """Wait for the long run to be told to end; return the moment."""
        with self.news:
            assert self.news.wait_for(lambda: self.aborted, within), self.lines()
        (told, at), *others = self.aborted
        assert (told, others) == (reason, [])
        return at

    def lines(self, *levels):
        return [
            record.getMessage()
            for record in self._log.records
            if not levels or record.levelname in levels
        ]

    def outages(self):
        """Return how often the store was told to be down, and up again."""
        texts = self.lines()
        return tuple(
            sum(text.startswith(word) for text in texts) for word in ("store down", "store up")
        )

    def check(self):
        """See that no slot was run twice, and that each one that ran is told as it was."""
        assert set(self.ran.values()) == {1}
        slots = by_slot(self.scheduler.history("tick", limit=1000))
        for slot in self.ran:
            assert [(run.attempt, run.status) for run in slots[slot]] == [(1, "success")]
