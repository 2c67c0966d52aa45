"""Recurrences by brute force: each day is looked at by itself, against the parts of its rule.

Only the common parts are read, in the form in which the cases are written: lines of
``NAME:VALUE`` with local times, and ``UNTIL`` in UTC if it ends in ``Z``.
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from .oracle import DAY, EPOCH, FIRST, HOUR, WallSlots, zone_of
from .reading import require

if TYPE_CHECKING:
    from collections.abc import Iterator

LAST_YEAR = 2369
WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
FIRST_ORDINAL = FIRST.toordinal()


def read_time(text: str) -> int:
    moment = datetime.strptime(text.removesuffix("Z"), "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(seconds=1)


def date_of(day: int) -> date:
    return date.fromordinal(FIRST_ORDINAL + day)


class Recurrence(WallSlots):
    def __init__(self, text: str, key: str) -> None:
        self.zone = zone_of(key)
        lines = dict(line.split(":") for line in text.splitlines())
        self.start = read_time(lines["DTSTART"])
        self.first = date_of(self.start // DAY)
        self.added = {read_time(t) for t in lines.get("RDATE", "").split(",") if t}
        self.excluded = {read_time(t) for t in lines.get("EXDATE", "").split(",") if t}
        self.parts = dict(part.split("=") for part in lines.get("RRULE", "").split(";") if part)
        self.frequency = self.parts.get("FREQ")
        if self.frequency is None:
            self.added.add(self.start)  # without a rule the first time stands for itself
        self.other_days = {wall // DAY for wall in self.added}
        self.interval = int(self.parts.get("INTERVAL", "1"))
        self.walls_of = lru_cache(maxsize=None)(self._walls_of)
        self.named = lru_cache(maxsize=None)(lambda day: self.is_named(date_of(day)))
        self.periods: dict[range, list[int]] = {}
        self._read_parts()
        self.end = self._end()
        require(any(self.walls_of(day) for day in self._all_days()))

    # --- the parts, with what DTSTART stands in for ---

    def listed(self, name: str) -> list[int]:
        return [int(n) for n in self.parts[name].split(",")] if name in self.parts else []

    def _read_parts(self) -> None:
        first, clock = self.first, self.start % DAY
        self.seconds = sorted(self.listed("BYSECOND") or [clock % 60])
        self.minutes = sorted(self.listed("BYMINUTE") or [clock // 60 % 60])
        hours = list(range(24)) if self.frequency == "HOURLY" else [clock // HOUR]
        self.hours = sorted(self.listed("BYHOUR") or hours)
        self.month_list, self.month_days = self.listed("BYMONTH"), self.listed("BYMONTHDAY")
        self.weekdays: dict[int, set[int]] = {}  # which of each weekday; 0 is every one
        for text in self.parts["BYDAY"].split(",") if "BYDAY" in self.parts else []:
            self.weekdays.setdefault(WEEKDAYS.index(text[-2:]), set()).add(int(text[:-2] or 0))
        self.positions = self.listed("BYSETPOS")
        self.week_start = WEEKDAYS.index(self.parts.get("WKST", "MO"))
        # Ordinals count in the month if there is one, and else in the year.
        self.counts_in_month = self.frequency == "MONTHLY" or bool(self.month_list)
        if not self.weekdays and not self.month_days:
            if self.frequency == "WEEKLY":
                self.weekdays = {first.weekday(): {0}}
            elif self.frequency in ("MONTHLY", "YEARLY"):
                self.month_days = [first.day]
                if self.frequency == "YEARLY":
                    self.month_list = self.month_list or [first.month]

    def _end(self) -> int:
        """Return the last wall time of the rule."""
        if "COUNT" in self.parts:
            left = int(self.parts["COUNT"])
            for day in range(self.start // DAY, (date(LAST_YEAR, 12, 31) - FIRST).days + 1):
                for wall in self.rule_walls(day):
                    left -= wall >= self.start
                    if left == 0:
                        return wall
        return (date(LAST_YEAR + 1, 1, 1) - FIRST).days * DAY - 1

    def is_early_enough(self, wall: int) -> bool:
        until = self.parts.get("UNTIL")
        if until is None:
            return wall <= self.end
        if until.endswith("Z"):
            return self.resolved(wall)[0] <= read_time(until)
        return wall <= read_time(until)

    def resolved(self, wall: int) -> list[int]:
        return self.zone.instants(wall)[:1] or [self.zone.after_gap(wall)]

    # --- days ---

    def is_named(self, day: date) -> bool:
        """Say whether BYMONTH, BYMONTHDAY and BYDAY all agree with a day."""
        if self.month_list and day.month not in self.month_list:
            return False
        if self.weekdays and not self.is_weekday(day):
            return False
        last = calendar.monthrange(day.year, day.month)[1] if self.month_days else 0
        return not self.month_days or bool({day.day, day.day - last - 1} & set(self.month_days))

    def is_weekday(self, day: date) -> bool:
        ordinals = self.weekdays.get(day.weekday(), set())
        if not ordinals or 0 in ordinals:
            return bool(ordinals)
        begin = day.replace(day=1) if self.counts_in_month else day.replace(month=1, day=1)
        months = calendar.monthrange(day.year, day.month)[1]
        length = months if self.counts_in_month else 365 + calendar.isleap(day.year)
        place = (day - begin).days
        # As many of this weekday come up to this day, and as many from it on.
        counts = {place // 7 + 1, -((length - 1 - place) // 7 + 1)}
        return bool(ordinals & counts)

    def period(self, day: date) -> range | None:
        """Return the days of the period of a day, or None if it is passed over."""
        if self.frequency == "YEARLY":
            number = day.year - self.first.year
            begin, end = date(day.year, 1, 1), date(day.year + 1, 1, 1)
        elif self.frequency == "MONTHLY":
            number = (day.year - self.first.year) * 12 + day.month - self.first.month
            begin = day.replace(day=1)
            end = begin + timedelta(days=calendar.monthrange(day.year, day.month)[1])
        elif self.frequency == "WEEKLY":
            begin, first = (
                d - timedelta((d.weekday() - self.week_start) % 7) for d in (day, self.first)
            )
            end = begin + timedelta(days=7)
            number = (begin - first).days // 7
        else:
            begin, end = day, day + timedelta(days=1)
            number = 0 if self.frequency == "HOURLY" else (day - self.first).days
        return None if number % self.interval else range((begin - FIRST).days, (end - FIRST).days)

    def rule_walls(self, day: int) -> list[int]:
        """Return the wall times of a day by the rule, whatever its beginning and its end."""
        if self.frequency is None:
            return []
        period = self.period(date_of(day)) if self.named(day) else None
        if period is None:
            return []
        if self.frequency == "HOURLY":
            start = self.start // HOUR
            turns = [h for h in self.hours if (day * 24 + h - start) % self.interval == 0]
            return [wall for h in turns for wall in self.chosen(self.within(day, [h]))]
        return self.within(day, self.hours) if not self.positions else self.picked(period, day)

    def picked(self, period: range, day: int) -> list[int]:
        """Return those that BYSETPOS chooses, of the times of a period, on a day of it."""
        if period not in self.periods:
            walls = [w for d in period if self.named(d) for w in self.within(d, self.hours)]
            self.periods[period] = self.chosen(walls)
        return [wall for wall in self.periods[period] if wall // DAY == day]

    def within(self, day: int, hours: list[int]) -> list[int]:
        return [
            day * DAY + hour * HOUR + minute * 60 + second
            for hour in hours
            for minute in self.minutes
            for second in self.seconds
        ]

    def chosen(self, walls: list[int]) -> list[int]:
        if not self.positions:
            return walls
        places = {p - 1 if p > 0 else len(walls) + p for p in self.positions}
        return [wall for place, wall in enumerate(walls) if place in places]

    def _walls_of(self, day: int) -> list[int]:
        rule = self.rule_walls(day)
        if not rule and day not in self.other_days:
            return []
        walls = {wall for wall in rule if wall >= self.start and self.is_early_enough(wall)}
        walls |= {wall for wall in self.added if wall // DAY == day}
        return sorted(walls - self.excluded)

    def _all_days(self) -> range:
        first, last = self.years()
        return range((date(first, 1, 1) - FIRST).days, (date(last, 12, 31) - FIRST).days + 1)

    def months(self) -> set[int]:
        if self.frequency is None or not self.month_list:
            return set(range(1, 13))
        return {*self.month_list, *(date_of(wall // DAY).month for wall in self.added)}

    def years(self) -> tuple[int, int]:
        extra = [date_of(wall // DAY).year for wall in self.added]
        last = self.first.year
        if self.frequency is not None:
            last = date_of(self.end // DAY).year
            if "UNTIL" in self.parts:
                last = min(last, date_of(read_time(self.parts["UNTIL"]) // DAY).year + 1)
        return min(self.first.year, *extra, 9999), max(last, *extra, 1)

    def matches(self, day: date) -> bool:
        return bool(self.walls_of((day - FIRST).days))

    def times(self, day: int, first: int, last: int) -> Iterator[int]:
        return (wall for wall in self.walls_of(day) if first <= wall <= last)
