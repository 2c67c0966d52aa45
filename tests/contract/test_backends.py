"""The contract of backends, on every store and wrapper of this package."""

from __future__ import annotations

from anarchon.backends.memory import MemoryBackend
from anarchon.backends.sqlite import SqliteBackend
from anarchon.testing import BackendContract, ClaimOnly, FaultyBackend, LeaseBackendContract


class OnAClockMovedByHand:
    """Leases are judged by a clock that can't step; slots by one that can."""

    lease_clock = "steady"
    clock_can_be_set = True
    clock_stands_still = True


class TestMemory(OnAClockMovedByHand, LeaseBackendContract):
    def make_backend(self, folder):
        return MemoryBackend()


class TestMemoryWithAClockThatSteps(LeaseBackendContract):
    """The rules for stores on other machines, whose clock judges leases and may step."""

    lease_clock = "may step"
    clock_can_be_set = True
    clock_stands_still = True

    def make_backend(self, folder):
        backend = MemoryBackend()
        backend._steady = False
        return backend


class TestSqlite(OnAClockMovedByHand, LeaseBackendContract):
    def make_backend(self, folder):
        return SqliteBackend(folder / "jobs.db", synchronous="NORMAL")


class TestFaulty(OnAClockMovedByHand, LeaseBackendContract):
    """Without a fault the wrapper changes nothing."""

    def make_backend(self, folder):
        return FaultyBackend(MemoryBackend())


class TestClaimOnly(OnAClockMovedByHand, BackendContract):
    def make_backend(self, folder):
        return ClaimOnly(MemoryBackend(), lost_after=30)
