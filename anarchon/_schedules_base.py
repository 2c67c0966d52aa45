"""What every schedule has: the public methods, on top of those in milliseconds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from ._durations import check_askable, shown
from ._values import instant
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class Schedule(Protocol):
    """What a schedule object must have; times are aware, and slots are as well."""

    def next_after(self, t: datetime, /) -> datetime | None:
        """Return the least slot greater than `t`, or None if there is no more."""
        ...

    def latest(self, t: datetime, /) -> datetime | None:
        """Return the greatest slot at or before `t`, or None if there is none."""
        ...


class Slots(ABC):
    """The public methods of a schedule, on top of those in milliseconds."""

    __slots__ = ()

    @abstractmethod
    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`, in milliseconds since 1970 UTC."""

    @abstractmethod
    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`, in milliseconds since 1970 UTC."""

    @abstractmethod
    def describe(self) -> str:
        """Return one line of plain English that says when the slots are."""

    @property
    def asks_others(self) -> bool:
        """Whether it is made of a schedule of somebody else, which may be slow or wrong."""
        return False

    @abstractmethod
    def _value(self) -> tuple[object, ...]:
        """Return what two equal schedules have in common."""

    def next_after(self, t: datetime) -> datetime | None:
        """Return the least slot greater than `t`, in UTC, or None if there is no more.

        Raises:
            ConfigurationError: `t` is not an aware datetime.
        """
        return moment(self.next_after_ms(floor_ms(t, "next_after")))

    def latest(self, t: datetime) -> datetime | None:
        """Return the greatest slot at or before `t`, in UTC, or None if there is none.

        Raises:
            ConfigurationError: `t` is not an aware datetime.
        """
        return moment(self.latest_ms(floor_ms(t, "latest")))

    def between(
        self, start: datetime | str | None = None, end: datetime | str | None = None
    ) -> Slots:
        """Return this schedule with the slots from `start` on, and before `end`, alone.

        Args:
            start: An aware datetime or ISO text; one without an offset is read in the zone
                of this schedule. None for no limit.
            end: The same, and later.

        Raises:
            ConfigurationError: One of them names no instant, or the end is not later.
        """
        from ._schedules_combined import Between

        return Between(self, start, end)

    def except_on(self, dates: Iterable[date | str], timezone: str | None = None) -> Slots:
        """Return this schedule without the slots on these days.

        Args:
            dates: Dates, or ISO texts such as ``"2026-12-25"``.
            timezone: The key of the zone that says when a day begins and ends; by default
                the one that this schedule is in, or else UTC.

        Raises:
            ConfigurationError: One of them is no date, no zone of that name was found, or
                this schedule is made of several that are in different zones.
        """
        from ._schedules_combined import Except

        return Except(self, dates, timezone)

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        if type(other) is not type(self):
            return NotImplemented
        return self._value() == other._value()

    def __hash__(self) -> int:
        """Hash by value."""
        return hash((type(self), self._value()))


def floor_ms(t: object, method: str) -> int:
    """Return an aware time in whole milliseconds; `method` is who was asked.

    Raises:
        ConfigurationError: It is no aware datetime.
    """
    check_askable(t, method)
    if not isinstance(t, datetime) or t.utcoffset() is None:
        raise ConfigurationError(
            f"{method}({shown(t)}): the time has no zone; give an aware datetime,"
            " such as datetime.now(timezone.utc)"
        )
    # Slots are whole milliseconds: what is after t is after its last whole millisecond.
    return (t - EPOCH) // MILLISECOND


def moment(ms: int | None) -> datetime | None:
    """Return the time of a slot; None also for one outside the years that datetime knows."""
    try:
        return None if ms is None else instant(ms)
    except OverflowError:
        return None
