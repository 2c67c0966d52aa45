"""Which slots somebody should have finished by now, and doesn't seem to have. Pure.

A job may say within what time a slot is to be finished. Each instance counts that time for every
slot that falls due, and forgets the slots of which it hears that they ended. Of what is left the
store knows more: it is asked once for each, and lets one instance tell.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from ._values import RunKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._messages import JobSpec, Now
    from ._values import Status

# So many slots of a job are waited for; in between none is added, so that a long time to finish
# in costs as much as a short one.
MOST_EXPECTED = 100


class Expectations:
    """The slots that are to be finished, by when, and those that the store is to be asked of."""

    def __init__(self, *, on: bool) -> None:
        self._on = on  # else there is nobody to ask
        self._open: dict[str, dict[int, int]] = {}  # of each job: slot and by when, oldest first
        self._heap: list[tuple[int, str, int]] = []
        self.late: dict[str, RunKey] = {}  # of each job the newest, until the store has answered

    def expect(self, spec: JobSpec, slot_ms: int) -> None:
        """Wait for a slot that falls due, if its job says how long."""
        if spec.expect_ms is None or not self._on:
            return
        slots = self._open.setdefault(spec.name, {})
        if slot_ms not in slots and len(slots) < MOST_EXPECTED:
            slots[slot_ms] = slot_ms + spec.expect_ms
            heapq.heappush(self._heap, (slots[slot_ms], spec.name, slot_ms))

    def ended(self, key: RunKey, status: Status, detail: str | None = None) -> None:
        """A run has ended, so that nobody waits for it; unless nobody has finished the slot."""
        if key.manual or status in ("missed", "lost") or detail == "overlap":
            return
        self._open.get(key.job, {}).pop(key.slot_ms, None)
        self.asked(key)

    def forget(self, name: str) -> None:
        """Wait for no slot of a job."""
        self._open.pop(name, None)
        self.late.pop(name, None)

    def clear(self) -> None:
        """Wait for nothing."""
        self._open.clear()
        self._heap.clear()
        self.late.clear()

    def collect(self, now: Now) -> None:
        """Let those be late whose time has passed; of a job the newest counts."""
        while (first := self._first()) is not None and first[0] <= now.wall_ms:
            _, name, slot_ms = heapq.heappop(self._heap)
            del self._open[name][slot_ms]
            known = self.late.get(name)
            if known is None or known.slot_ms < slot_ms:
                self.late[name] = RunKey(name, slot_ms)

    def asked(self, key: RunKey) -> None:
        """The store need not be asked of a slot any more."""
        if self.late.get(key.job) == key:
            del self.late[key.job]

    def wakeups(self, now: Now) -> Iterator[float]:
        """Yield the monotonic instant at which the next one is late."""
        if (first := self._first()) is not None:
            yield now.mono + (first[0] - now.wall_ms) / 1000

    def _first(self) -> tuple[int, str, int] | None:
        while self._heap:
            _, name, slot_ms = self._heap[0]
            if slot_ms in self._open.get(name, ()):
                return self._heap[0]
            heapq.heappop(self._heap)
        return None
