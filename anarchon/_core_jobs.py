"""One job's slots: the next one, and the one that is due and undecided. Pure."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._messages import JobSpec
    from ._values import Reason, RunKey, Status


class Pending:
    """A slot that is due and not settled."""

    __slots__ = ("blocked_by", "key", "not_before", "reason")

    def __init__(self, key: RunKey, reason: Reason) -> None:
        self.key = key
        self.reason: Reason = reason
        self.not_before = -inf  # the store said that it is early
        self.blocked_by: RunKey | None = None  # a dead run must be closed first


class JobSlots:
    """One job's slots."""

    __slots__ = (
        "ahead",
        "catches_up",
        "fence_seen",
        "next_ms",
        "order",
        "pending",
        "retry_at",
        "spec",
        "told",
    )

    def __init__(self, spec: JobSpec, order: float) -> None:
        self.spec = spec
        self.order = order  # this instance's own, so that a fleet doesn't fight for the same
        self.next_ms: int | None = None
        self.ahead: tuple[int, int | None] | None = None  # a slot, and the one after it
        self.pending: Pending | None = None
        self.catches_up = False  # its schedule didn't say what the latest slot is
        self.retry_at = inf  # when a schedule that failed is asked again
        self.fence_seen = 0
        self.told: tuple[tuple[Status, int], ...] = ()  # the last slots told of as not run

    @property
    def period(self) -> float:
        """Seconds from the pending slot to the next."""
        if self.pending is None or self.next_ms is None:
            return inf
        return (self.next_ms - self.pending.key.slot_ms) / 1000
