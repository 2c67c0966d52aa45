"""The walk over the wall times that a recurrence names.

dateutil says which days of one year a rule means; how years, months, weeks, days and hours
repeat is arithmetic, done here. Asking dateutil for the slots themselves would walk from
DTSTART each time, which takes seconds for a rule that began years ago.

A year is a number whose bit `n` is its day `n`. Years of one shape (the weekday of their
first day, their length, and the length of the year before) have the same days in a rule, so
each shape is computed once. An INTERVAL is a second such number, which is moved to the
year. One year is one step of the walk, and a walk has at most 400.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import MAXYEAR, datetime
from math import gcd
from typing import TYPE_CHECKING, Protocol, overload

from ._schedules_rrule_text import LAST_YEAR
from ._schedules_rrule_turns import (
    Stride,
    bits_down,
    bits_up,
    first_day,
    month_day,
    turns,
    week_of,
    year_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ._schedules_rrule import Recurrence, Rule

_DAY = 86_400


class RecurrenceWalk:
    """The wall times of a recurrence. Immutable and safe from any thread."""

    __slots__ = ("_added", "_excluded", "_rule")

    def __init__(self, found: Recurrence) -> None:
        rule = None if found.rule is None else RuleWalk(found.rule)
        # A rule that can never match would search for centuries each time.
        self._rule = None if rule is None or rule.after(-1) is None else rule
        # Nothing is looked for more than once on behalf of a date that is left out anyway.
        self._added = tuple(wall for wall in found.added if wall not in found.excluded)
        self._excluded = found.excluded

    def after(self, wall: int) -> int | None:
        """Return the least wall time greater than `wall`, in seconds."""
        found: int | None = wall
        while found is not None:
            found = self._least_after(found)
            if found not in self._excluded:
                break
        return found

    def before(self, wall: int) -> int | None:
        """Return the greatest wall time less than `wall`, in seconds."""
        found: int | None = wall
        while found is not None:
            found = self._greatest_before(found)
            if found not in self._excluded:
                break
        return found

    def _least_after(self, wall: int) -> int | None:
        found = None if self._rule is None else self._rule.after(wall)
        place = bisect_right(self._added, wall)
        if place == len(self._added):
            return found
        return self._added[place] if found is None else min(found, self._added[place])

    def _greatest_before(self, wall: int) -> int | None:
        found = None if self._rule is None else self._rule.before(wall)
        place = bisect_left(self._added, wall)
        if place == 0:
            return found
        return self._added[place - 1] if found is None else max(found, self._added[place - 1])


class RuleWalk:
    """The wall times of a rule alone. Immutable and safe from any thread."""

    __slots__ = ("_begin", "_end", "_pattern")

    def __init__(self, rule: Rule) -> None:
        self._pattern = _pattern(rule)
        self._begin = rule.start
        self._end = (first_day(LAST_YEAR + 1) * _DAY) - 1
        if rule.until is not None:
            self._end = min(self._end, rule.until)
        if rule.occurrences is not None:
            self._end = self._nth(rule.occurrences)

    def after(self, wall: int) -> int | None:
        """Return the least wall time greater than `wall`, in seconds."""
        day, second = divmod(max(wall + 1, self._begin), _DAY)
        if day > self._end // _DAY:
            return None
        for year in range(year_of(day), year_of(self._end // _DAY) + 1):
            first = first_day(year)
            for found in bits_up(self._pattern.days(year), max(day - first, 0)):
                times = self._pattern.times(first + found)
                # Only the first day is asked for from the middle on.
                place = bisect_left(times, second) if first + found == day else 0
                if place < len(times):
                    wall = (first + found) * _DAY + times[place]
                    return wall if wall <= self._end else None
        return None

    def before(self, wall: int) -> int | None:
        """Return the greatest wall time less than `wall`, in seconds."""
        day, second = divmod(min(wall - 1, self._end), _DAY)
        if day < self._begin // _DAY:
            return None
        for year in range(year_of(day), year_of(self._begin // _DAY) - 1, -1):
            first = first_day(year)
            for found in bits_down(self._pattern.days(year), min(day - first, 365)):
                times = self._pattern.times(first + found)
                place = bisect_right(times, second) if first + found == day else len(times)
                if place > 0:
                    wall = (first + found) * _DAY + times[place - 1]
                    return wall if wall >= self._begin else None
        return None

    def _nth(self, count: int) -> int:
        # COUNT is an end that has to be found once; it is the last slot if there are fewer.
        day, second = divmod(self._begin, _DAY)
        for year in range(year_of(day), LAST_YEAR + 1):
            first = first_day(year)
            if day < first and count > (whole := self._pattern.count(year)):
                count -= whole
                continue
            for found in bits_up(self._pattern.days(year), max(day - first, 0)):
                times = self._pattern.times(first + found)
                place = bisect_left(times, second) if first + found == day else 0
                if place + count <= len(times):
                    return (first + found) * _DAY + times[place + count - 1]
                count -= len(times) - place
        return self._end


# --- what repeats ---------------------------------------------------------------------


class _Pattern(Protocol):
    """Which days of a year a rule means, and which times of such a day."""

    def days(self, year: int) -> int:
        """Return the days of a year as bits; each has a time."""
        ...

    def times(self, day: int, /) -> Sequence[int]:
        """Return the times of a day that has some, in seconds and in order."""
        ...

    def count(self, year: int) -> int:
        """Return how many times all days of a year have together."""
        ...


def _pattern(rule: Rule) -> _Pattern:
    if rule.frequency == "HOURLY":
        return _Hourly(rule)
    if rule.positions and rule.frequency != "DAILY":
        return _Picked(rule)
    return _Plain(rule)


class _Plain:
    """The same times on every day."""

    def __init__(self, rule: Rule) -> None:
        self._shapes = _Shapes(rule)
        self._turns = turns(rule)
        times = _Sums([hour * 3600 for hour in rule.hours], _within_hour(rule))
        self._times = _picked(times, rule.positions)

    def days(self, year: int) -> int:
        return self._shapes.days(year) & self._turns.days(year) if self._times else 0

    def times(self, _day: int) -> Sequence[int]:
        return self._times

    def count(self, year: int) -> int:
        return self.days(year).bit_count() * len(self._times)


class _Hourly:
    """Each hour of the day comes on days of its own."""

    def __init__(self, rule: Rule) -> None:
        self._shapes = _Shapes(rule)
        self._times = _picked(_within_hour(rule), rule.positions)
        start_day, start_hour = divmod(rule.start // 3600, 24)
        common = gcd(24, rule.interval)
        period = rule.interval // common
        # The hour `h` of the day `d` has its turn when 24 d + h = start_hour, modulo interval.
        self._hours = [
            (hour * 3600, Stride(start_day + turn, 1, period))
            for hour in rule.hours or range(24)
            if (start_hour - hour) % common == 0
            for turn in [(start_hour - hour) // common * pow(24 // common, -1, period) % period]
        ]

    def days(self, year: int) -> int:
        found = 0
        for _, stride in self._hours:
            found |= stride.days(year)
        return self._shapes.days(year) & found if self._times else 0

    def times(self, day: int) -> Sequence[int]:
        return _Sums([hour for hour, stride in self._hours if stride.has(day)], self._times)

    def count(self, year: int) -> int:
        days = self._shapes.days(year)
        hours = sum((days & stride.days(year)).bit_count() for _, stride in self._hours)
        return hours * len(self._times)


class _Picked:
    """The times that BYSETPOS chooses among those of each year, month or week."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._shapes = _Shapes(rule)
        self._turns = turns(rule)
        self._times = _Sums([hour * 3600 for hour in rule.hours], _within_hour(rule))
        self._known: dict[int, Mapping[int, Sequence[int]]] = {}

    def days(self, year: int) -> int:
        turns, first, found = self._turns.days(year), first_day(year), 0
        for period in self._periods(year) if turns else ():
            # A period has its turn as a whole.
            has_turn = turns >> max(period[0] - first, 0) & 1
            for day in self._chosen(period) if has_turn else ():
                if first <= day < first_day(year + 1):
                    found |= 1 << (day - first)
        return found & turns

    def times(self, day: int) -> Sequence[int]:
        year = year_of(day)
        return next(
            chosen[day]
            for period in self._periods(year)
            if day in period
            for chosen in [self._chosen(period)]
        )

    def count(self, year: int) -> int:
        first = first_day(year)
        return sum(len(self.times(first + bit)) for bit in bits_up(self.days(year), 0))

    def _periods(self, year: int) -> Iterator[range]:
        first, end = first_day(year), first_day(year + 1)
        if self._rule.frequency == "YEARLY":
            yield range(first, end)
        elif self._rule.frequency == "MONTHLY":
            for month in range(12):
                yield range(month_day(year, month), month_day(year, month + 1))
        else:
            for monday in range(week_of(first, self._rule.week_start), end, 7):
                yield range(monday, monday + 7)

    def _chosen(self, period: range) -> Mapping[int, Sequence[int]]:
        # A week may begin in one year and end in the next.
        days = sorted(
            first + bit
            for year in {year_of(period[0]), year_of(period[-1])}
            for first in [first_day(year)]
            for named in [self._shapes.days(year) & (1 << (period.stop - first)) - 1]
            for bit in bits_up(named, max(period[0] - first, 0))
        )
        return {days[place]: times for place, times in self._places(len(days)).items()}

    def _places(self, days: int) -> Mapping[int, Sequence[int]]:
        """Return which of so many days are chosen, and their times."""
        if days not in self._known:
            chosen: dict[int, list[int]] = {}
            total = days * len(self._times)
            for place in sorted({p - 1 if p > 0 else total + p for p in self._rule.positions}):
                if 0 <= place < total:
                    day, time = divmod(place, len(self._times))
                    chosen.setdefault(day, []).append(self._times[time])
            self._known[days] = chosen
        return self._known[days]


class _Shapes:
    """The days that the BY parts of a rule mean, by the shape of the year."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._known: dict[tuple[int, int, int], int] = {}

    def days(self, year: int) -> int:
        first = first_day(year)
        shape = (first % 7, first_day(year + 1) - first, first - first_day(year - 1))
        if shape not in self._known:
            self._known[shape] = self._computed(year)
        return self._known[shape]

    def _computed(self, year: int) -> int:
        from dateutil.rrule import YEARLY, rrule, weekday

        rule = self._rule
        # Ordinals such as 1MO count in the month where months are named or the unit.
        every_month = range(1, 13) if rule.frequency == "MONTHLY" else None
        found = rrule(
            YEARLY,
            dtstart=datetime(year, 1, 1),  # noqa: DTZ001 - dateutil never sees a zone
            until=datetime(year, 12, 31),  # noqa: DTZ001
            # Without a day to compare with `until`, dateutil goes on to the year 9999.
            interval=MAXYEAR,
            wkst=rule.week_start,
            bymonth=rule.months or every_month,
            byweekno=rule.weeks or None,
            byyearday=rule.year_days or None,
            # All days by name, or else dateutil takes the day of its `dtstart`.
            bymonthday=rule.month_days or range(1, 32),
            byweekday=[weekday(day, nth or None) for day, nth in rule.weekdays] or None,
        )
        return sum(1 << (day.timetuple().tm_yday - 1) for day in found)


# --- times of a day ------------------------------------------------------------------


def _within_hour(rule: Rule) -> Sequence[int]:
    return _Sums([minute * 60 for minute in rule.minutes], rule.seconds)


class _Sums(Sequence[int]):
    """All sums of one of each, in order, without making them: there may be 86,400."""

    def __init__(self, coarse: Sequence[int], fine: Sequence[int]) -> None:
        self._coarse, self._fine = coarse, fine

    def __len__(self) -> int:
        return len(self._coarse) * len(self._fine)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        high, low = divmod(place, len(self._fine))
        return self._coarse[high] + self._fine[low]


def _picked(times: Sequence[int], positions: Sequence[int]) -> Sequence[int]:
    if not positions:
        return times
    places = {p - 1 if p > 0 else len(times) + p for p in positions}
    return [times[place] for place in sorted(places) if 0 <= place < len(times)]
