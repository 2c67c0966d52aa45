"""What the slots are, found by brute force: a second opinion that shares no code.

Everything here follows the rules of schedules as they are documented, in the plainest way:
expressions are taken apart with `split`, days are tried one after another, wall times are
listed one after another, and a zone is asked for its offset at one instant after another.
Nothing is solved, halved or resolved with `fold`.

Instants and wall times are whole seconds since 1970 (a wall time as if the clock on the wall
showed UTC), and what is asked and answered is in milliseconds.
"""

from __future__ import annotations

import calendar
import itertools
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from .reading import Refused, read, require

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = 86_400
HOUR = 3600
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = date(1970, 1, 1)
EARLIEST, LATEST = date(1, 1, 3), date(9999, 12, 29)
# The calendar repeats after 400 years, and so do the zones once they follow one rule.
FOR_EVER_DAYS = 401 * 366


# --- zones --------------------------------------------------------------------------


class Zone:
    """The offsets of a zone, asked instant by instant."""

    def __init__(self, key: str) -> None:
        try:
            self.tz = UTC if key == "UTC" else ZoneInfo(key)
        except (KeyError, ValueError, OSError):
            raise Refused from None
        self.changes = lru_cache(maxsize=None)(self._changes)
        self.offsets = lru_cache(maxsize=None)(self._offsets)

    def offset(self, instant: int) -> int:
        moment = (EPOCH + timedelta(seconds=instant)).astimezone(self.tz)
        offset = moment.utcoffset()
        return offset.days * DAY + offset.seconds

    def _changes(self, day: int) -> list[int]:
        """Return the instants of a UTC day at which another offset begins."""
        found = []
        marks = range(day * DAY, day * DAY + DAY + 1, 4 * HOUR)
        offsets = [self.offset(mark - 1) for mark in marks]
        for hours, before, after in zip(marks, offsets, offsets[1:], strict=False):
            if before != after:
                for minute in range(hours, hours + 4 * HOUR, 60):
                    if self.offset(minute - 1) != self.offset(minute + 59):
                        seconds = range(minute, minute + 60)
                        found += [s for s in seconds if self.offset(s - 1) != self.offset(s)]
        return found

    def near(self, wall_day: int) -> list[int]:
        """Return the changes that may concern the wall times of a day."""
        return [t for day in range(wall_day - 2, wall_day + 3) for t in self.changes(day)]

    def _offsets(self, wall_day: int) -> list[int]:
        """Return the offsets that may be in force at the wall times of a day."""
        start = self.offset((wall_day - 2) * DAY)
        return sorted({start, *(self.offset(t) for t in self.near(wall_day))})

    def instants(self, wall: int) -> list[int]:
        """Return the instants at which the clock shows this wall time: none, one or two."""
        offsets = self.offsets(wall // DAY)
        return sorted(wall - offset for offset in offsets if self.offset(wall - offset) == offset)

    def after_gap(self, wall: int) -> int:
        """Return the first instant after the gap that left this wall time out."""
        for t in self.near(wall // DAY):
            if t + self.offset(t - 1) <= wall < t + self.offset(t):
                return t
        raise AssertionError(f"no gap in {self.tz} holds {wall}")


zone_of = lru_cache(maxsize=None)(Zone)


# --- schedules -----------------------------------------------------------------------


class Slots:
    """What every schedule answers, on top of `between`. All in milliseconds."""

    def between(self, begin: int, end: int) -> list[int]:
        """Return the slots s with begin < s <= end."""
        raise NotImplementedError

    def next_after(self, t: int) -> int | None:
        raise NotImplementedError

    def latest(self, t: int) -> int | None:
        raise NotImplementedError


class Interval(Slots):
    def __init__(self, text: str) -> None:
        self.period, rest = 0, text
        for unit, size in (
            *(("w", 7 * DAY * 1000), ("d", DAY * 1000), ("h", HOUR * 1000)),
            *(("m", 60_000), ("s", 1000), ("ms", 1)),
        ):
            digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
            after = rest[len(digits) :].removeprefix(unit)
            # "5ms" is not five minutes and an "s".
            if digits and rest[len(digits) :].startswith(unit) and not after.startswith("s"):
                self.period += int(digits) * size
                rest = after
        require(text, not rest, 100 <= self.period <= 36_525 * DAY * 1000)

    def between(self, begin: int, end: int) -> list[int]:
        numbers = range(begin // self.period, end // self.period + 1)
        return [k * self.period for k in numbers if begin < k * self.period <= end]

    def next_after(self, t: int) -> int:
        return self.between(t, t + self.period)[0]

    def latest(self, t: int) -> int:
        return self.between(t - self.period, t)[0]


class Once(Slots):
    def __init__(self, text: str, key: str | None) -> None:
        zone = None if key is None else zone_of(key)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise Refused from None
        require(len(text) > 10, moment.microsecond % 1000 == 0, moment.tzinfo or zone)
        ms = timedelta(milliseconds=1)
        if moment.tzinfo:
            self.slot = (moment - EPOCH) // ms
        else:
            wall, rest = divmod((moment.replace(tzinfo=UTC) - EPOCH) // ms, 1000)
            found = [t * 1000 + rest for t in zone.instants(wall)]
            self.slot = found[0] if found else zone.after_gap(wall) * 1000
        require(self.slot >= 0)

    def between(self, begin: int, end: int) -> list[int]:
        return [self.slot] if begin < self.slot <= end else []

    def next_after(self, t: int) -> int | None:
        return self.slot if self.slot > t else None

    def latest(self, t: int) -> int | None:
        return self.slot if self.slot <= t else None


class WallSlots(Slots):
    """Slots at wall times. What says which is `matches` (a day) and `times_of` (inside one)."""

    zone: Zone
    wildcard = False

    def matches(self, day: date) -> bool:
        """Say whether there are wall times on this day."""
        raise NotImplementedError

    def months(self) -> set[int]:
        """Return the months that `matches` may say yes to."""
        return set(range(1, 13))

    def years(self) -> tuple[int, int]:
        """Return the first and the last year that `matches` may say yes to."""
        return 1, 9999

    def times(self, day: int, first: int, last: int) -> Iterator[int]:
        """Yield the wall times of a day that matches, from `first` to `last`."""
        raise NotImplementedError

    def walls(self, first: int, last: int) -> Iterator[int]:
        """Yield the wall times from `first` to `last`."""
        for day in range(first // DAY, last // DAY + 1):
            if self.matches(FIRST + timedelta(days=day)):
                yield from self.times(day, first, last)

    def between(self, begin: int, end: int) -> list[int]:
        return [s * 1000 for s in self._between(begin // 1000, end // 1000)]

    def _between(self, begin: int, end: int) -> list[int]:
        days = range(begin // DAY, end // DAY + 1)
        changes = [t for day in days for t in self.zone.changes(day) if begin < t <= end]
        found: set[int] = set()
        # From one change to the next the clock on the wall runs evenly.
        for a, b in itertools.pairwise([begin + 1, *changes, end + 1]):
            offset = self.zone.offset(a)
            for wall in self.walls(a + offset, b - 1 + offset):
                if self.wildcard or self.zone.instants(wall)[0] == wall - offset:
                    found.add(wall - offset)
        for t in () if self.wildcard else changes:
            gap = self.walls(t + self.zone.offset(t - 1), t + self.zone.offset(t) - 1)
            if any(True for _ in gap):
                found.add(t)
        return sorted(found)

    def next_after(self, t_ms: int) -> int | None:
        t = t_ms // 1000
        for day in self._days(t // DAY - 2, 1):
            begin, end = max(t, day * DAY - 16 * HOUR), day * DAY + 42 * HOUR
            # First a minute, then hours: an expression of every second need not be spelled out.
            hours = ((a, a + HOUR) for a in range(begin + 60, end, HOUR))
            for a, b in [(begin, begin + 60), *hours] if begin < end else []:
                if found := self._between(a, b):
                    return found[0] * 1000
        return None

    def latest(self, t_ms: int) -> int | None:
        t = t_ms // 1000
        for day in self._days(t // DAY + 2, -1):
            begin, end = day * DAY - 16 * HOUR, min(t, day * DAY + 42 * HOUR)
            hours = ((a - HOUR, a) for a in range(end - 60, begin, -HOUR))
            for a, b in [(end - 60, end), *hours] if begin < end else []:
                if found := self._between(a, b):
                    return found[-1] * 1000
        return None

    def _days(self, start: int, way: int) -> Iterator[int]:
        """Yield the days that match, from `start` on, as far as there is any sense in it."""
        years, months = self.years(), self.months()
        day = FIRST + timedelta(days=start)
        day = max(day, date(years[0], 1, 1)) if way > 0 else min(day, date(years[1], 12, 31))
        for _ in range(FOR_EVER_DAYS):
            if not EARLIEST < day < LATEST:
                return
            if (day.year > years[1]) if way > 0 else (day.year < years[0]):
                return
            if day.month in months and self.matches(day):
                yield (day - FIRST).days
            day += timedelta(days=way)


class Cron(WallSlots):
    def __init__(self, text: str, key: str) -> None:
        self.zone = zone_of(key)
        fields = read(text)
        self.fields = fields
        self.wildcard = fields.wildcard
        require(any(self.matches(day) for day in self._cycle()))

    def _cycle(self) -> Iterator[date]:
        first, last = self.fields.years[0], self.fields.years[-1]
        if self.fields.every_year:
            first, last = 2000, 2399
        months = itertools.product(range(first, last + 1), sorted(self.fields.months))
        for year, month in months:
            for day in range(1, calendar.monthrange(year, month)[1] + 1):
                yield date(year, month, day)

    def matches(self, day: date) -> bool:
        fields = self.fields
        if day.month not in fields.months:
            return False
        if not fields.every_year and day.year not in fields.years:
            return False
        return not fields.day_rules or any(rule(day) for rule in fields.day_rules)

    def months(self) -> set[int]:
        return self.fields.months

    def years(self) -> tuple[int, int]:
        years = self.fields.years
        return (1, 9999) if self.fields.every_year else (years[0], years[-1])

    def times(self, day: int, first: int, last: int) -> Iterator[int]:
        fields = self.fields
        for hour, minute in itertools.product(fields.hours, fields.minutes):
            start = day * DAY + hour * HOUR + minute * 60
            if first - 59 <= start <= last:
                for second in fields.seconds:
                    if first <= start + second <= last:
                        yield start + second


def define(kind: str, text: str, key: str | None) -> Slots:
    """Return the slots of a definition, or raise `Refused`."""
    from .recurring import Recurrence

    if kind == "interval":
        return Interval(text)
    return {"once": Once, "cron": Cron, "rrule": Recurrence}[kind](text, key)
