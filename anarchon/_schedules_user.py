"""Schedule objects of others, held to the laws each time they are asked."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ._durations import shown
from ._schedules_base import EPOCH, MILLISECOND
from ._values import instant
from .errors import ConfigurationError

if TYPE_CHECKING:
    from ._schedules_base import Schedule


class Adapted:
    """A schedule object of somebody else, asked in milliseconds and checked."""

    __slots__ = ("_schedule",)

    asks_others = True

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`, in milliseconds since 1970 UTC."""
        t = instant(t_ms)
        slot = self._checked(self._schedule.next_after(t), "next_after", t)
        if slot is not None and slot <= t_ms:
            raise self._broken("next_after", t, slot, "which is not after it")
        return slot

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`, in milliseconds since 1970 UTC."""
        t = instant(t_ms)
        slot = self._checked(self._schedule.latest(t), "latest", t)
        if slot is not None and slot > t_ms:
            raise self._broken("latest", t, slot, "which is after it")
        return slot

    def __eq__(self, other: object) -> bool:
        # Other people's equality may be anything; the same object is the same schedule.
        return isinstance(other, Adapted) and self._schedule is other._schedule

    def __hash__(self) -> int:
        return id(self._schedule)

    def __repr__(self) -> str:
        return shown(self._schedule)

    def _checked(self, result: object, method: str, t: datetime) -> int | None:
        if result is None:
            return None
        if not isinstance(result, datetime) or result.utcoffset() is None:
            raise ConfigurationError(
                f"schedule {shown(self._schedule)}: {method}({t.isoformat()}) returned"
                f" {shown(result)}; return an aware datetime, or None if there is no slot"
            )
        # Rounding up keeps both laws, and no run starts before the time that was named.
        return -((EPOCH - result) // MILLISECOND)

    def _broken(self, method: str, t: datetime, slot_ms: int, how: str) -> ConfigurationError:
        law = "least slot greater than" if method == "next_after" else "greatest slot up to"
        return ConfigurationError(
            f"schedule {shown(self._schedule)}: {method}({t.isoformat()}) returned"
            f" {instant(slot_ms).isoformat()}, {how}; return the {law} the time it is given"
        )
