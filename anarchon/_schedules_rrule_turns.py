"""Days of a year as the bits of a number, and which of them INTERVAL lets through.

Days are counted from 1970-01-01; bit `n` of a year is its day `n`.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._schedules_rrule import Rule

WHOLE_YEAR = (1 << 366) - 1

_DAY = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class Turns(Protocol):
    """Which days of a year INTERVAL lets through."""

    def days(self, year: int) -> int:
        """Return the days as bits."""
        ...


def turns(rule: Rule) -> Turns:
    """Return what the INTERVAL of a rule lets through; of a rule that is not hourly."""
    day = rule.start // _DAY
    if rule.frequency == "YEARLY":
        return _Years(year_of(day), rule.interval)
    if rule.frequency == "MONTHLY":
        start = date.fromordinal(day + _EPOCH_DAY)
        return _Months(start.year * 12 + start.month - 1, rule.interval)
    if rule.frequency == "WEEKLY":
        return Stride(week_of(day, rule.week_start), 7, 7 * rule.interval)
    return Stride(day, 1, rule.interval)


class _Years:
    """Every so many years."""

    def __init__(self, start: int, interval: int) -> None:
        self._start, self._interval = start, interval

    def days(self, year: int) -> int:
        return 0 if (year - self._start) % self._interval else WHOLE_YEAR


class _Months:
    """Every so many months."""

    def __init__(self, start: int, interval: int) -> None:
        self._start, self._interval = start, interval

    def days(self, year: int) -> int:
        found, first = 0, first_day(year)
        for month in range((self._start - year * 12) % self._interval, 12, self._interval):
            begin, end = month_day(year, month), month_day(year, month + 1)
            found |= (1 << (end - first)) - (1 << (begin - first))
        return found


class Stride:
    """So many days from `start` on, again each `period` days."""

    def __init__(self, start: int, length: int, period: int) -> None:
        self._start, self._length, self._period = start, length, period
        self._block = (1 << length) - 1
        self._pattern = sum(self._block << shift for shift in range(0, 366, period))

    def has(self, day: int) -> bool:
        """Say whether a day has its turn."""
        return (day - self._start) % self._period < self._length

    def days(self, year: int) -> int:
        """Return the days of a year that have their turn, as bits."""
        since = (first_day(year) - self._start) % self._period
        found = self._block >> since  # what began before this year
        if self._period - since < 366:
            found |= self._pattern << (self._period - since)
        return found & WHOLE_YEAR


def first_day(year: int) -> int:
    """Return the first day of a year, in days since 1970."""
    return date(year, 1, 1).toordinal() - _EPOCH_DAY


def month_day(year: int, month: int) -> int:
    """Return the first day of a month (January is 0, 12 the next one)."""
    return date(year + month // 12, month % 12 + 1, 1).toordinal() - _EPOCH_DAY


def year_of(day: int) -> int:
    """Return the year of a day."""
    return date.fromordinal(day + _EPOCH_DAY).year


def week_of(day: int, week_start: int) -> int:
    """Return the first day of the week of a day."""
    return day - (day + _EPOCH_DAY - 1 - week_start) % 7


def bits_up(bits: int, first: int) -> Iterator[int]:
    """Yield the set bits from `first` on."""
    bits = bits >> first << first
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def bits_down(bits: int, last: int) -> Iterator[int]:
    """Yield the set bits from `last` down."""
    bits &= (1 << (last + 1)) - 1
    while bits:
        highest = bits.bit_length() - 1
        yield highest
        bits ^= 1 << highest
