"""Cron expressions: a strict reading of the text.

Every instance must name the same slots, so the text is read by the rules below and by
nothing else, down to plain numbers. Zones are no matter of this module.

Fields: ``minute hour day-of-month month day-of-week``; with six, seconds come first; with
seven, the year comes last as well. A day field is restricted unless its text is exactly
``*`` or ``?``, and two restricted day fields mean *or*.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ._durations import check_askable, shown
from ._named import NamedTuple
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LONGEST = 256
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_CYCLE_YEARS = range(2000, 2400)  # the calendar repeats after 400 years


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def span(self) -> int:
        return self.high - self.low + 1

    @property
    def top(self) -> int:
        # Weekday 7 is another name of Sunday.
        return 7 if self is _WEEKDAY else self.high


_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, _MONTH_NAMES)
_WEEKDAY = _Field("weekday", 0, 6, _WEEKDAY_NAMES)
_YEAR = _Field("year", 1970, 2099)

_ELEMENT = re.compile(r"(?:(\*)|([A-Z]+|[0-9]+)(?:-([A-Z]+|[0-9]+))?)(?:/([0-9]+))?")
_LAST_DAY = re.compile(r"L(?:-([0-9]+))?")
_NEAREST = re.compile(r"([0-9]+)W")
_NTH = re.compile(r"([A-Z]+|[0-9]+)#([0-9]+)")
_FINAL = re.compile(r"([A-Z]{3}|[0-9]+)L|L([A-Z]{3}|[0-9]+)")
_DEALT = re.compile(r"[HR](?:[(/].*)?")

Shape: TypeAlias = tuple[int, int]
"""A kind of month: the weekday of its first day (Sunday is 0) and its last day."""
_SHAPES = [(first, last) for first in range(7) for last in range(28, 32)]
# The day of a month of this shape, and something outside 1..last if there is none.
_DayRule: TypeAlias = Callable[[int, int], int]


class Days(NamedTuple):
    """A restricted day field: which days it names in each kind of month.

    It says so by numbers and by special elements, in capitals (``LW``, ``MON#1``).
    """

    numbers: tuple[int, ...]
    specials: tuple[str, ...]
    by_shape: Mapping[Shape, frozenset[int]]

    @property
    def plain(self) -> tuple[int, ...] | None:
        """The numbers, if they alone say it."""
        return None if self.specials else self.numbers


class Fields(NamedTuple):
    """An expression that was read. None stands for "all" in days, weekdays and years."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: Days | None
    months: tuple[int, ...]
    weekdays: Days | None
    years: tuple[int, ...] | None
    wildcard: bool


def parse(expression: object) -> Fields:
    """Read a cron expression.

    Raises:
        ConfigurationError: It breaks a rule of the syntax, or can never match.
    """
    subject = f"cron expression {shown(expression)}"
    try:
        fields = _fields(_split(expression))
    except _Wrong as wrong:
        raise ConfigurationError(f"{subject}: {wrong}") from None
    if not any(is_possible(days, fields) for days in day_legs(fields)):
        raise ConfigurationError(
            f"{subject}: no date ever matches it; correct the day or the month"
        )
    return fields


class _Wrong(Exception):
    """What is wrong with an expression, and what to do about it."""


def _split(expression: object) -> list[str]:
    check_askable(expression, "expression")
    if not isinstance(expression, str):
        raise _Wrong('it is not text; write it like "0 8 * * 1-5"')
    strange = next((character for character in expression if not character.isascii()), None)
    if strange is not None:
        raise _Wrong(f"it contains {shown(strange)}; use ASCII characters only")
    if len(expression) > _LONGEST:
        raise _Wrong(f"it has {len(expression)} characters; use at most {_LONGEST}")
    if "\n" in expression or "\r" in expression:
        raise _Wrong("it has more than one line; write the fields on one, with blanks between")
    text = expression.strip(" \t")
    if text.startswith("@"):
        if text.lower() not in _ALIASES:
            raise _Wrong(f"unknown alias; known are {', '.join(_ALIASES)} (intervals: every())")
        text = _ALIASES[text.lower()]
    parts = [part for part in re.split(r"[ \t]+", text) if part]
    if len(parts) not in (5, 6, 7):
        raise _Wrong(
            f"it has {len(parts)} field{'s' * (len(parts) != 1)}; write 5 (minute, hour, day of"
            " month, month, weekday), 6 (second first) or 7 (year last as well)"
        )
    return parts


def _fields(parts: list[str]) -> Fields:
    second, minute, hour, day, month, weekday, year = (
        part.upper() for part in [*["0"][: len(parts) == 5], *parts, *["*"][: len(parts) < 7]]
    )
    hours = _numbers(_HOUR, hour)
    return Fields(
        seconds=_numbers(_SECOND, second),
        minutes=_numbers(_MINUTE, minute),
        hours=hours,
        days=_days(_DAY, day, _day_rule),
        months=_numbers(_MONTH, month),
        weekdays=_days(_WEEKDAY, weekday, _weekday_rule),
        years=None if year == "*" else _numbers(_YEAR, year),
        wildcard=len(hours) == _HOUR.span or "*" in (second[0], minute[0], hour[0]),
    )


# --- one field ----------------------------------------------------------------------


def _numbers(field: _Field, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for element in text.split(","):
        found.update(_element(field, element))
    return tuple(sorted(found))


def _element(field: _Field, element: str) -> Iterable[int]:
    match = _ELEMENT.fullmatch(element)
    if match is None:
        raise _Wrong(f"{field.name} {shown(element)}: {_hint(field, element)}")
    star, first, last, step_text = match.groups()
    step = 1 if step_text is None else int(step_text)
    if step < 1:
        raise _Wrong(f"{field.name} {shown(element)}: a step is at least 1")
    if star:
        return range(field.low, field.high + 1, step)
    start = _value(field, first)
    if last is not None:
        return _range(field, element, start, _value(field, last), step)
    if step_text is None:
        return (_folded(field, start),)
    return range(_folded(field, start), field.high + 1, step)


def _hint(field: _Field, element: str) -> str:
    if not element:
        return "an element of the list is empty; remove the extra comma"
    if _DEALT.fullmatch(element):
        return "H and R mean another time on every instance; name the time"
    if element == "?":
        return "? stands alone, in a day field only; write *"
    names = f" (or {field.names[0]}-{field.names[-1]})" if field.names else ""
    more = {_DAY: ", L, L-3, LW, 15W", _WEEKDAY: ", MON#1, 5L"}.get(field, "")
    forms = f"{field.low}-{field.top}{names}, *, a-b, a/n, */n, a-b/n{more}, a list"
    return f"not understood; write {forms}"


def _value(field: _Field, text: str) -> int:
    if text in field.names:
        return field.low + field.names.index(text)
    if not text.isdigit():
        raise _Wrong(f"{field.name} {shown(text)}: {_hint(field, text)}")
    number = int(text)
    if not field.low <= number <= field.top:
        raise _Wrong(f"{field.name} {text}: out of range; write {field.low} to {field.top}")
    return number


def _folded(field: _Field, number: int) -> int:
    # Weekday 7 is Sunday, and the numbers past a field's end belong to its start.
    return (number - field.low) % field.span + field.low


def _range(field: _Field, element: str, start: int, end: int, step: int) -> Iterable[int]:
    if end < start:
        if field is _YEAR:
            raise _Wrong(f"year {shown(element)}: years can't wrap; write the earlier one first")
        end += field.span
    return (_folded(field, number) for number in range(start, end + 1, step))


# --- the two day fields -------------------------------------------------------------


def _days(field: _Field, text: str, special: Callable[[str], _DayRule | None]) -> Days | None:
    if text in ("*", "?"):
        return None
    numbers: set[int] = set()
    rules: dict[str, _DayRule] = {}
    for element in text.split(","):
        rule = special(element)
        if rule is None:
            numbers.update(_element(field, element))
        else:
            rules[element] = rule
    by_shape = {
        (first, last): frozenset(
            day
            for day in range(1, last + 1)
            if (day if field is _DAY else (first + day - 1) % 7) in numbers
            or any(rule(first, last) == day for rule in rules.values())
        )
        for first, last in _SHAPES
    }
    return Days(tuple(sorted(numbers)), tuple(rules), by_shape)


def _day_rule(element: str) -> _DayRule | None:
    if element == "LW":
        return lambda first, last: _nearest_workday(last, first, last)
    if match := _LAST_DAY.fullmatch(element):
        back = int(match[1] or 0)
        if match[1] and not 1 <= back <= 30:
            raise _Wrong(f"day of month {element}: write L-1 to L-30, or L for the last day")
        return lambda _first, last: last - back
    if match := _NEAREST.fullmatch(element):
        day = _value(_DAY, match[1])
        return lambda first, last: _nearest_workday(day, first, last)
    return None


def _nearest_workday(day: int, first: int, last: int) -> int:
    weekday = (first + day - 1) % 7
    if day > last:
        return 0
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < last else day - 2
    return day


def _weekday_rule(element: str) -> _DayRule | None:
    if match := _NTH.fullmatch(element):
        weekday, nth = _value(_WEEKDAY, match[1]), int(match[2])
        if not 1 <= nth <= 5:
            raise _Wrong(f"weekday {element}: write #1 to #5")
        return lambda first, _last: (weekday - first) % 7 + 7 * nth - 6
    if match := _FINAL.fullmatch(element):
        weekday = _value(_WEEKDAY, match[1] or match[2])
        return lambda first, last: last - (first + last - 1 - weekday) % 7
    return None


# --- which dates --------------------------------------------------------------------


def month_shape(year: int, month: int) -> Shape:
    """Return the kind of this month."""
    first, last = monthrange(year, month)
    return (first + 1) % 7, last


def day_legs(fields: Fields) -> list[Days | None]:
    """Return the day fields to walk side by side: two restricted ones mean "or"."""
    return [days for days in (fields.days, fields.weekdays) if days is not None] or [None]


def is_possible(days: Days | None, fields: Fields) -> bool:
    """Return whether such a day comes in any of the months and years."""
    return days is None or any(
        days.by_shape[month_shape(year, month)]
        for year in fields.years or _CYCLE_YEARS
        for month in fields.months
    )
