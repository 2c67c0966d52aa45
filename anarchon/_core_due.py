"""When the next slot of each job is due. Pure.

There may be very many jobs, so what is due first is at the top of a heap. Its entries may be
out of date: what counts is the job's own `next_ms`.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from ._core_line import SPARE

if TYPE_CHECKING:
    from ._core_jobs import JobSlots


class NextSlots:
    """The next slots of all jobs, the soonest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, JobSlots]] = []
        self._pushed = 0  # breaks ties, so that jobs are never compared

    def __len__(self) -> int:
        """Return how many entries there are, those that are out of date included."""
        return len(self._heap)

    def push(self, job: JobSlots, due_ms: int, *, jobs: int) -> None:
        """Have a job's next slot fall due then; there are so many jobs in all."""
        job.next_ms = due_ms
        self._pushed += 1
        heapq.heappush(self._heap, (due_ms, self._pushed, job))
        if len(self._heap) > 2 * jobs + SPARE:
            self._heap = [entry for entry in self._heap if entry[2].next_ms == entry[0]]
            heapq.heapify(self._heap)

    def first(self) -> tuple[int, JobSlots] | None:
        """Return what is due first, and whose it is."""
        while self._heap:
            due_ms, _, job = self._heap[0]
            if job.next_ms == due_ms:
                return due_ms, job
            heapq.heappop(self._heap)
        return None

    def soonest(self) -> tuple[int, int | None] | None:
        """Return what is due first, and the slot after it of the same job, if that is known."""
        if (first := self.first()) is None:
            return None
        due_ms, job = first[0], first[1]
        return due_ms, job.ahead[1] if job.ahead is not None and job.ahead[0] == due_ms else None

    def pop_due(self, wall_ms: int) -> tuple[int, JobSlots] | None:
        """Take out what is due by now, if anything is."""
        found = self.first()
        if found is None or found[0] > wall_ms:
            return None
        heapq.heappop(self._heap)
        return found

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
