"""Cron expressions, taken apart by the rules with `split` and `partition` only."""

from __future__ import annotations

import calendar
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Refused(ValueError):
    """The definition breaks a rule."""


def require(*conditions: object) -> None:
    if not all(conditions):
        raise Refused


class Fields(NamedTuple):
    seconds: list[int]
    minutes: list[int]
    hours: list[int]
    months: set[int]
    years: list[int]
    every_year: bool
    day_rules: list[Callable[[date], bool]]
    wildcard: bool


ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
NO_NAMES: list[str] = []


def one(text: str, low: int, high: int, names: list[str]) -> int:
    """Read a number, or a name."""
    if text in names:
        return low + names.index(text)
    require(text.isdigit())
    require(low <= int(text) <= high)
    return int(text)


def element(text: str, low: int, high: int, names: list[str]) -> list[int]:
    """Read ``*``, ``a``, ``a-b`` or ``a/n``; weekday 7 is counted as such, and folded later."""
    base, slash, step_text = text.partition("/")
    require(step_text.isdigit() and int(step_text) > 0 if slash else True)
    top = high - 1 if names is WEEKDAYS else high
    start_text, dash, end_text = base.partition("-")
    if base == "*":
        values = range(low, top + 1)
    elif not dash:
        start = one(base, low, high, names)
        if not slash:
            return [start]
        # Weekday 7 is the same Sunday as 0, which the field begins with.
        values = range(low if start > top else start, top + 1)
    else:
        start, end = (one(part, low, high, names) for part in (start_text, end_text))
        if start <= end:
            values = range(start, end + 1)
        else:
            require(high != 2099)  # years don't wrap
            values = [*range(start, top + 1), *range(low, end + 1)]
            if start > top:
                values = range(low, end + 1)
    return list(values)[:: int(step_text or 1)]


def numbers(text: str, low: int, high: int, names: list[str] = NO_NAMES) -> set[int]:
    return {n for part in text.split(",") for n in element(part, low, high, names)}


def workday_near(day: int, year: int, month: int) -> int | None:
    last = calendar.monthrange(year, month)[1]
    workdays = [d for d in range(1, last + 1) if date(year, month, d).weekday() < 5]
    return min(workdays, key=lambda d: abs(d - day)) if day <= last else None


def last_of(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def day_of_month(text: str) -> Callable[[date], bool]:
    """Read one element of the day field."""
    if text == "L":
        return lambda day: day.day == last_of(day)
    if text == "LW":
        return lambda day: (
            day.day
            == max(d for d in range(1, last_of(day) + 1) if day.replace(day=d).weekday() < 5)
        )
    if text.startswith("L-"):
        back = one(text[2:], 1, 30, NO_NAMES)
        return lambda day: day.day == last_of(day) - back
    if text.endswith("W"):
        near = one(text[:-1], 1, 31, NO_NAMES)
        return lambda day: day.day == workday_near(near, day.year, day.month)
    listed = set(element(text, 1, 31, NO_NAMES))
    return lambda day: day.day in listed


def day_of_week(text: str) -> Callable[[date], bool]:
    """Read one element of the weekday field."""
    name, hash_sign, nth_text = text.partition("#")
    if hash_sign:
        wanted, nth = one(name, 0, 7, WEEKDAYS) % 7, one(nth_text, 1, 5, NO_NAMES)
        return lambda day: day.isoweekday() % 7 == wanted and (day.day + 6) // 7 == nth
    if "L" in text:
        wanted = one(text.removesuffix("L") if text[-1] == "L" else text[1:], 0, 7, WEEKDAYS) % 7
        return lambda day: day.isoweekday() % 7 == wanted and day.day + 7 > last_of(day)
    listed = {n % 7 for n in element(text, 0, 7, WEEKDAYS)}
    return lambda day: day.isoweekday() % 7 in listed


def day_rules(text: str, read_one: Callable[[str], Callable[[date], bool]]):
    """Read a day field; one that is not restricted has no rules."""
    return [] if text in ("*", "?") else [read_one(part) for part in text.split(",")]


def read(text: str) -> Fields:
    require(text.isascii(), len(text) <= 256)
    stripped = text.strip(" \t")
    if stripped.startswith("@"):
        require(stripped.lower() in ALIASES)
        stripped = ALIASES[stripped.lower()]
    parts = [part for blank in stripped.upper().split(" ") for part in blank.split("\t") if part]
    require(5 <= len(parts) <= 7)
    seconds_text = "0" if len(parts) == 5 else parts.pop(0)
    years_text = parts.pop() if len(parts) == 6 else "*"
    minutes_text, hours_text, days_text, months_text, weekdays_text = parts
    hours = sorted(numbers(hours_text, 0, 23))
    starred = (field.startswith("*") for field in (seconds_text, minutes_text, hours_text))
    return Fields(
        seconds=sorted(numbers(seconds_text, 0, 59)),
        minutes=sorted(numbers(minutes_text, 0, 59)),
        hours=hours,
        months=numbers(months_text, 1, 12, MONTHS),
        years=sorted(numbers(years_text, 1970, 2099)),
        every_year=years_text == "*",
        day_rules=day_rules(days_text, day_of_month) + day_rules(weekdays_text, day_of_week),
        wildcard=any(starred) or len(hours) == 24,
    )
