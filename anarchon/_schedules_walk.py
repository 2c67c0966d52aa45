"""The walk over the wall times that a cron expression names.

croniter does the arithmetic of the calendar, on plain lists of numbers and on naive wall
time: it never sees a zone, nor a form that it reads in its own way. Days that numbers
can't say (``L``, ``15W``, ``5#5``) are found here, month by month, so that no search is
longer than the rarest day needs.
"""

from __future__ import annotations

from copy import copy
from datetime import MAXYEAR, MINYEAR, date, timedelta
from typing import TYPE_CHECKING, Literal, TypeGuard

from ._schedules_cron import day_legs, is_possible, month_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from croniter import croniter

    from ._schedules_cron import Days, Fields

_DAY_SECONDS = 86_400
_EPOCH_DAY = date(1970, 1, 1)


class CronWalk:
    """The wall times that an expression names. Immutable and safe from any thread."""

    __slots__ = ("_end", "_first", "_legs")

    def __init__(self, fields: Fields) -> None:
        # croniter takes a list of all the years that it knows for "any year", so the first
        # and the last one are looked after here.
        years = fields.years or (MINYEAR, MAXYEAR)
        self._first = _day_number(date(years[0], 1, 1)) * _DAY_SECONDS
        self._end = (_day_number(date(years[-1], 12, 31)) + 1) * _DAY_SECONDS
        # A leg that can never match would search for centuries each time.
        self._legs = [_leg(days, fields) for days in day_legs(fields) if is_possible(days, fields)]

    def after(self, wall: int) -> int | None:
        """Return the least wall time greater than `wall`, in seconds."""
        found = [leg.after(max(wall, self._first - 1)) for leg in self._legs]
        return min((match for match in found if self._is_inside(match)), default=None)

    def before(self, wall: int) -> int | None:
        """Return the greatest wall time less than `wall`, in seconds."""
        found = [leg.before(min(wall, self._end)) for leg in self._legs]
        return max((match for match in found if self._is_inside(match)), default=None)

    def _is_inside(self, match: int | None) -> TypeGuard[int]:
        return match is not None and self._first <= match < self._end


def _leg(days: Days | None, fields: Fields) -> _PlainLeg | _RuleLeg:
    if days is not None and days.plain is None:
        return _RuleLeg(days, fields)
    day_text = weekday_text = "*"
    if days is not None and days is fields.days:
        day_text = _listed(days.plain or (), 31)
    elif days is not None:
        weekday_text = _listed(days.plain or (), 7)
    texts = (
        _times(fields),
        day_text,
        _listed(fields.months, 12),
        weekday_text,
        *([_listed(fields.years, 0)] if fields.years else []),
    )
    return _PlainLeg(" ".join(texts))


class _PlainLeg:
    """What one croniter expression says."""

    __slots__ = ("_expression", "_parsed")

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._parsed: croniter | None = None

    def after(self, wall: int) -> int | None:
        return self._step(wall, "get_next")

    def before(self, wall: int) -> int | None:
        return self._step(wall, "get_prev")

    def _step(self, wall: int, direction: Literal["get_next", "get_prev"]) -> int | None:
        # The parsed expression is never moved itself: each step has a copy of its own.
        walker = copy(self._parsed or self._parse())
        try:
            return int(getattr(walker, direction)(float, start_time=float(wall)))
        except (ValueError, OverflowError):  # no match in this direction
            return None

    def _parse(self) -> croniter:
        from croniter import croniter

        self._parsed = croniter(
            self._expression, 0.0, second_at_beginning=True, max_years_between_matches=410
        )
        return self._parsed


class _RuleLeg:
    """Days that rules say, and the times of day that croniter finds inside one of them."""

    __slots__ = ("_by_shape", "_first", "_last", "_months", "_times", "_years")

    def __init__(self, days: Days, fields: Fields) -> None:
        self._by_shape = days.by_shape
        self._months = fields.months
        self._years = fields.years
        self._times = _PlainLeg(f"{_times(fields)} * * *")
        parts = (fields.hours, fields.minutes, fields.seconds)
        self._first = _second_of_day(*(part[0] for part in parts))
        self._last = _second_of_day(*(part[-1] for part in parts))

    def after(self, wall: int) -> int | None:
        day, second = divmod(wall, _DAY_SECONDS)
        found = self._day_from(day if second < self._last else day + 1)
        if found == day:
            return self._times.after(wall)
        return None if found is None else found * _DAY_SECONDS + self._first

    def before(self, wall: int) -> int | None:
        day, second = divmod(wall, _DAY_SECONDS)
        found = self._day_until(day if second > self._first else day - 1)
        if found == day:
            return self._times.before(wall)
        return None if found is None else found * _DAY_SECONDS + self._last

    def _day_from(self, day: int) -> int | None:
        start = _EPOCH_DAY + timedelta(days=day)
        years = self._years or range(start.year, MAXYEAR + 1)
        months = ((year, month) for year in years for month in self._months)
        for year, month in months:
            if (year, month) >= (start.year, start.month):
                found = [match for match in self._days(year, month) if match >= start]
                if found:
                    return _day_number(min(found))
        return None

    def _day_until(self, day: int) -> int | None:
        end = _EPOCH_DAY + timedelta(days=day)
        years = self._years or range(MINYEAR, end.year + 1)
        months = ((year, month) for year in reversed(years) for month in reversed(self._months))
        for year, month in months:
            if (year, month) <= (end.year, end.month):
                found = [match for match in self._days(year, month) if match <= end]
                if found:
                    return _day_number(max(found))
        return None

    def _days(self, year: int, month: int) -> list[date]:
        return [date(year, month, day) for day in self._by_shape[month_shape(year, month)]]


def _day_number(day: date) -> int:
    return (day - _EPOCH_DAY).days


def _times(fields: Fields) -> str:
    parts = ((fields.seconds, 60), (fields.minutes, 60), (fields.hours, 24))
    return " ".join(_listed(part, everything) for part, everything in parts)


def _second_of_day(hour: int, minute: int, second: int) -> int:
    return hour * 3600 + minute * 60 + second


def _listed(numbers: Iterable[int], everything: int) -> str:
    listed = [str(number) for number in numbers]
    return "*" if len(listed) == everything else ",".join(listed)
