"""The pending slots in the order in which they are offered to the store.

Pure. First comes the slot whose job is due again soonest; equals are in a random order of
this instance's own, so that a fleet doesn't fight for the same. Entries of the heaps may
be out of date: what counts is whether the job still has that pending slot.
"""

from __future__ import annotations

import heapq
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._core_jobs import JobSlots, Pending

# So many out-of-date entries a heap may have beside as many as it has good ones.
SPARE = 64


class Line:
    """The pending slots; those that the store found early stand aside."""

    def __init__(self) -> None:
        self.waiting: dict[str, JobSlots] = {}  # the jobs whose pending slot isn't early
        self._order: list[tuple[float, float, int, Pending, JobSlots]] = []
        self._early: list[tuple[float, int, Pending, JobSlots]] = []  # by when they are not
        self._count = 0  # breaks ties, so that slots are never compared

    def enter(self, job: JobSlots, pending: Pending) -> None:
        """Let a slot be offered."""
        self.waiting[job.spec.name] = job
        again = inf if job.next_ms is None else job.next_ms
        self._count += 1
        heapq.heappush(self._order, (again, job.order, self._count, pending, job))
        if len(self._order) > 2 * len(self.waiting) + len(self._early) + SPARE:
            self._order = [entry for entry in self._order if entry[4].pending is entry[3]]
            heapq.heapify(self._order)

    def leave(self, job: JobSlots) -> None:
        """Offer the job's slot no longer."""
        self.waiting.pop(job.spec.name, None)

    def drop(self, job: JobSlots) -> None:
        """Have the job without a pending slot."""
        job.pending = None
        self.leave(job)

    def stand_aside(self, job: JobSlots, pending: Pending, mono: float) -> None:
        """Offer a slot that the store found early at this instant, not before."""
        pending.not_before = mono
        self._count += 1
        heapq.heappush(self._early, (mono, self._count, pending, job))
        self.leave(job)

    def collect(self, mono: float) -> None:
        """Let the slots come back that are early no longer."""
        while self._early and self._early[0][0] <= mono:
            _, _, pending, job = heapq.heappop(self._early)
            if job.pending is pending:
                self.waiting[job.spec.name] = job

    def first(
        self, most: int, may_claim: Callable[[JobSlots], bool]
    ) -> list[tuple[JobSlots, Pending]]:
        """Return at most so many slots that may be claimed."""
        chosen: list[tuple[JobSlots, Pending]] = []
        passed = []
        while self._order and len(chosen) < most:
            entry = heapq.heappop(self._order)
            pending, job = entry[3:]
            if job.pending is pending:
                passed.append(entry)
                if may_claim(job):
                    chosen.append((job, pending))
        for entry in passed:
            heapq.heappush(self._order, entry)
        return chosen

    def clear(self) -> None:
        """Forget everything."""
        self.waiting.clear()
        self._order.clear()
        self._early.clear()

    def wakeups(self) -> Iterator[float]:
        """Yield the monotonic instant at which the next slot is early no longer."""
        if self._early:
            yield self._early[0][0]
