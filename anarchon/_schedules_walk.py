"""The walk over the wall times that a cron expression names.

croniter does the arithmetic of the calendar, on plain lists of numbers and on naive wall
time: it never sees a zone, nor a form that it reads in its own way.
"""

from __future__ import annotations

from copy import copy
from datetime import date, timedelta
from typing import TYPE_CHECKING, Literal

from ._schedules_cron import day_legs, is_possible, month_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from croniter import croniter

    from ._schedules_cron import Days, Fields, Shape

_DAY_SECONDS = 86_400
_EPOCH_DAY = date(1970, 1, 1)


class CronWalk:
    """The wall times that an expression names. Immutable and safe from any thread."""

    __slots__ = ("_legs",)

    def __init__(self, fields: Fields) -> None:
        # A leg that can never match would search for centuries each time.
        self._legs = [_Leg(days, fields) for days in day_legs(fields) if is_possible(days, fields)]

    def after(self, wall: int) -> int | None:
        """Return the least wall time greater than `wall`, in seconds."""
        found = [leg.after(wall) for leg in self._legs]
        return min((match for match in found if match is not None), default=None)

    def before(self, wall: int) -> int | None:
        """Return the greatest wall time less than `wall`, in seconds."""
        found = [leg.before(wall) for leg in self._legs]
        return max((match for match in found if match is not None), default=None)


class _Leg:
    """One plain croniter expression, and the days that it can't say by itself."""

    __slots__ = ("_days", "_expression", "_parsed")

    def __init__(self, days: Days | None, fields: Fields) -> None:
        day_text = weekday_text = "*"
        self._days: Mapping[Shape, frozenset[int]] | None = None
        if days is not None and days.plain is None:
            # croniter proposes every day that matches in some kind of month.
            self._days = days.by_shape
            day_text = _listed(sorted(frozenset().union(*days.by_shape.values())), 31)
        elif days is not None and days is fields.days:
            day_text = _listed(days.plain or (), 31)
        elif days is not None:
            weekday_text = _listed(days.plain or (), 7)
        self._parsed: croniter | None = None
        texts = (
            _listed(fields.seconds, 60),
            _listed(fields.minutes, 60),
            _listed(fields.hours, 24),
            day_text,
            _listed(fields.months, 12),
            weekday_text,
            *([_listed(fields.years, 0)] if fields.years else []),
        )
        self._expression = " ".join(texts)

    def after(self, wall: int) -> int | None:
        while (found := self._step(wall, "get_next")) is not None:
            if self._is_match(found):
                return found
            wall = found - found % _DAY_SECONDS + _DAY_SECONDS - 1
        return None

    def before(self, wall: int) -> int | None:
        while (found := self._step(wall, "get_prev")) is not None:
            if self._is_match(found):
                return found
            wall = found - found % _DAY_SECONDS
        return None

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

    def _is_match(self, wall: int) -> bool:
        if self._days is None:
            return True
        day = _EPOCH_DAY + timedelta(days=wall // _DAY_SECONDS)
        return day.day in self._days[month_shape(day.year, day.month)]


def _listed(numbers: Iterable[int], everything: int) -> str:
    listed = [str(number) for number in numbers]
    return "*" if len(listed) == everything else ",".join(listed)
