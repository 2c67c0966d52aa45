"""Schedules made of others: the slots of either, those in a time, those not on some days.

Each keeps the laws if what it is made of does, and costs a bounded number of questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, datetime
from typing import TYPE_CHECKING

from ._durations import check_askable, shown
from ._schedules_base import Slots
from ._schedules_once import one_off_ms
from ._schedules_wall import load_zone
from ._values import instant
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._messages import SlotSource

_DAY = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Either(Slots):
    """The slots of all of several schedules."""

    __slots__ = ("_schedules", "_sources")

    def __init__(self, schedules: Iterable[object]) -> None:
        from .schedules import slot_source

        self._schedules = tuple(schedules)
        self._sources: tuple[SlotSource, ...] = tuple(map(slot_source, self._schedules))
        if len(self._sources) < 2:
            raise ConfigurationError(
                f"either(): {len(self._sources)} given; give two schedules or more"
            )

    @property
    def timezone(self) -> str | None:
        """The zone, if those that have one are in the same; intervals and the like have none."""
        return _only(self.zones)

    @property
    def zones(self) -> frozenset[str]:
        """The zones that they are in."""
        return frozenset(zone for schedule in self._schedules for zone in zones_of(schedule))

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`, in milliseconds since 1970 UTC."""
        found = [source.next_after_ms(t_ms) for source in self._sources]
        return min((slot for slot in found if slot is not None), default=None)

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`, in milliseconds since 1970 UTC."""
        found = [source.latest_ms(t_ms) for source in self._sources]
        return max((slot for slot in found if slot is not None), default=None)

    @property
    def asks_others(self) -> bool:
        """Whether it is made of a schedule of somebody else."""
        return any(getattr(source, "asks_others", False) for source in self._sources)

    def describe(self) -> str:
        """Return the words of all of them."""
        return ", or ".join(map(words_of, self._schedules))

    def _value(self) -> tuple[object, ...]:
        return self._sources

    def __repr__(self) -> str:
        """Return the call that makes this schedule."""
        return f"either({', '.join(map(repr, self._schedules))})"


class Between(Slots):
    """The slots of a schedule from one instant to another."""

    __slots__ = ("_end_ms", "_schedule", "_start_ms")

    def __init__(
        self, schedule: Slots, start: datetime | str | None, end: datetime | str | None
    ) -> None:
        self._schedule = schedule
        self._start_ms = _limit_ms(start, schedule)
        self._end_ms = _limit_ms(end, schedule)
        if start is None and end is None:
            raise ConfigurationError("between(): neither a start nor an end; give one of them")
        if not self._is_before_end(self._start_ms):
            raise ConfigurationError(
                f"between({shown(start)}, {shown(end)}): the end is not after the start"
            )

    @property
    def timezone(self) -> str | None:
        """The zone of the schedule, if it has one."""
        return _only(self.zones)

    @property
    def zones(self) -> frozenset[str]:
        """The zones that the schedule is in."""
        return zones_of(self._schedule)

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`, in milliseconds since 1970 UTC."""
        start = t_ms if self._start_ms is None else max(t_ms, self._start_ms - 1)
        slot = self._schedule.next_after_ms(start)
        return slot if self._is_before_end(slot) else None

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`, in milliseconds since 1970 UTC."""
        end = t_ms if self._end_ms is None else min(t_ms, self._end_ms - 1)
        slot = self._schedule.latest_ms(end)
        is_late_enough = slot is not None and (self._start_ms is None or slot >= self._start_ms)
        return slot if is_late_enough else None

    @property
    def asks_others(self) -> bool:
        """Whether it is made of a schedule of somebody else."""
        return self._schedule.asks_others

    def describe(self) -> str:
        """Return the words of the schedule, and from when to when."""
        start, end = self._limits()
        parts = [words_of(self._schedule), start and f"from {start}", end and f"before {end}"]
        return ", ".join(part for part in parts if part)

    def _is_before_end(self, slot_ms: int | None) -> bool:
        return slot_ms is None or self._end_ms is None or slot_ms < self._end_ms

    def _limits(self) -> tuple[str | None, str | None]:
        start, end = (
            None if ms is None else instant(ms).isoformat().replace("+00:00", "Z")
            for ms in (self._start_ms, self._end_ms)
        )
        return start, end

    def _value(self) -> tuple[object, ...]:
        return self._schedule, self._start_ms, self._end_ms

    def __repr__(self) -> str:
        """Return the call that makes this schedule."""
        start, end = self._limits()
        return f"{self._schedule!r}.between({start!r}, {end!r})"


class Except(Slots):
    """The slots of a schedule that are not on some days."""

    __slots__ = ("_days", "_schedule", "_timezone", "_zone")

    def __init__(
        self, schedule: Slots, dates: Iterable[date | str], timezone: str | None = None
    ) -> None:
        self._schedule = schedule
        self._days = frozenset(_day(each) for each in _listed(dates))
        zones = zones_of(schedule)
        if timezone is None and len(zones) > 1:
            raise ConfigurationError(
                f"except_on(): the schedules are in {' and '.join(sorted(zones))}, where days begin"
                " at different times; give timezone= for the days"
            )
        self._timezone = next(iter(zones), "UTC") if timezone is None else timezone
        self._zone = load_zone(self._timezone)

    @property
    def timezone(self) -> str | None:
        """The zone of the days."""
        return self._timezone

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`, in milliseconds since 1970 UTC."""
        while (slot := self._schedule.next_after_ms(t_ms)) is not None:
            free = self._free(slot)
            if free is None:
                return slot
            t_ms = min(edge for edge in free if edge > slot) - 1
        return None

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`, in milliseconds since 1970 UTC."""
        while (slot := self._schedule.latest_ms(t_ms)) is not None:
            free = self._free(slot)
            if free is None:
                return slot
            t_ms = max(edge for edge in free if edge <= slot) - 1
        return None

    @property
    def asks_others(self) -> bool:
        """Whether it is made of a schedule of somebody else."""
        return self._schedule.asks_others

    def describe(self) -> str:
        """Return the words of the schedule, and the days."""
        days = ", ".join(self._texts()) or "no day"
        is_own = zones_of(self._schedule) == {self._timezone} or self._timezone == "UTC"
        return f"{words_of(self._schedule)}, except on {days}" + (
            "" if is_own else f" ({self._timezone})"
        )

    def _free(self, slot_ms: int) -> list[int] | None:
        """Return where the days around an excluded slot may end; None if it is not excluded.

        Days that follow each other are passed over at once.
        """
        second = slot_ms // 1000
        first = last = (second + self._zone.offset(second)) // _DAY
        if first not in self._days:
            return None
        while first - 1 in self._days:
            first -= 1
        while last + 1 in self._days:
            last += 1
        return [edge * 1000 for day in (first, last + 1) for edge in self._edges(day * _DAY)]

    def _edges(self, midnight: int) -> Iterator[int]:
        """Yield the instants at which a day begins: several if clocks go back over midnight."""
        yield self._zone.first_instant(midnight)
        for wall in (midnight - 1, midnight):
            shift = self._zone.shift_at(wall)
            if shift is not None and not shift.is_gap:
                yield shift.at
                yield midnight - shift.new

    def _texts(self) -> list[str]:
        return [date.fromordinal(day + _EPOCH_DAY).isoformat() for day in sorted(self._days)]

    def _value(self) -> tuple[object, ...]:
        return self._schedule, self._days, self._timezone

    def __repr__(self) -> str:
        """Return the call that makes this schedule."""
        return f"{self._schedule!r}.except_on({self._texts()!r}, timezone={self._timezone!r})"


def zones_of(schedule: object) -> frozenset[str]:
    """Return the keys of the zones that a schedule is in; intervals, for one, are in none."""
    found = getattr(schedule, "zones", None)
    if found is None:
        found = [getattr(schedule, "timezone", None)]
    return frozenset(zone for zone in found if type(zone) is str)


def _only(zones: frozenset[str]) -> str | None:
    return next(iter(zones)) if len(zones) == 1 else None


def words_of(schedule: object) -> str:
    """Return what a schedule says of itself, as a part of a sentence."""
    if isinstance(schedule, Either):
        return f"({schedule.describe()})"
    return schedule.describe() if isinstance(schedule, Slots) else shown(schedule)


def _limit_ms(limit: datetime | str | None, schedule: Slots) -> int | None:
    if limit is None:
        return None
    try:
        # A local time can only be read where there is no doubt about the zone.
        return one_off_ms(limit, _only(zones_of(schedule)))
    except ConfigurationError as error:
        text = (
            str(error)
            .removeprefix("one-off time ")
            .replace("or give timezone=", "since the schedule is in no zone, or in several")
        )
        raise ConfigurationError(f"between(): {text}") from None


def _listed(dates: object) -> list[object]:
    check_askable(dates, "except_on()")
    if isinstance(dates, str) or not isinstance(dates, Iterable):
        raise ConfigurationError(
            f'except_on({shown(dates)}): it is no list; give dates, such as ["2026-12-25"]'
        )
    return list(dates)


def _day(given: object) -> int:
    check_askable(given, "except_on()")
    if isinstance(given, str) and _ISO_DATE.fullmatch(given):
        with suppress(ValueError):
            given = date.fromisoformat(given)
    if not isinstance(given, date) or isinstance(given, datetime):
        raise ConfigurationError(
            f'except_on(): {shown(given)} is no date; give a date, or text such as "2026-12-25"'
        )
    return given.toordinal() - _EPOCH_DAY
