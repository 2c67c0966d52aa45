"""A reader of the English that describes a cron expression: from the words to their meaning.

It knows nothing of cron: each phrase means here what a person would take it to mean.
"""

from __future__ import annotations

import calendar
import itertools
import re
from collections.abc import Callable
from datetime import date, timedelta

from tests.definitions.cron_examples import is_workday, near_workday

MONTHS = list(calendar.month_name)[1:]
WEEKDAYS = list(calendar.day_name)
NTH = ["first", "second", "third", "fourth", "fifth"]
DAY = timedelta(days=1)
On = Callable[[date], bool]
Times = set[tuple[int, int, int]]

CLOCK = r"[0-2][0-9]:[0-5][0-9](?::[0-5][0-9])?"
COMMA = r"(?:, and |, | and )"
NUMBERS = rf"\d+(?: through \d+)?(?:{COMMA}\d+(?: through \d+)?)*"
HOURS = r"\d\d:00 through \d\d:59"


class Text:
    """What is still to be read."""

    def __init__(self, text: str) -> None:
        self.rest = text

    def take(self, pattern: str) -> re.Match[str] | None:
        """Read a phrase with the comma after it, if it comes next."""
        match = re.match(rf"(?:{pattern})(?:, |$)", self.rest)
        if match:
            self.rest = self.rest[match.end() :]
        return match


def read(words: str) -> tuple[Times, On]:
    """Return the times of a day, and which dates are meant."""
    text = Text(words)
    times = read_times(text)
    return times, read_dates(text)


def around(first: int, last: int, size: int, step: int = 1) -> list[int]:
    """Return the numbers of a range that may run through the end."""
    return [n % size for n in range(first, last + (size if last < first else 0) + 1, step)]


def numbers(text: str, size: int) -> set[int]:
    found = set()
    for item in re.split(COMMA, text):
        first, _, last = item.partition(" through ")
        found.update(around(int(first), int(last or first), size))
    return found


# --- times ---


def read_times(text: Text) -> Times:
    if match := text.take(rf"at (?P<list>{CLOCK}(?:(?:, | and ){CLOCK})*)"):
        parts = (clock.split(":") for clock in re.split(", | and ", match["list"]))
        return {(int(p[0]), int(p[1]), int(p[2]) if p[2:] else 0) for p in parts}
    seconds, minutes, hours = read_sixty(text, "second", "minute"), read_minutes(text), None
    hours = read_hours(text)
    if seconds is None:
        assert minutes is not None or hours is not None, text.rest
        seconds, minutes = {0}, {0} if minutes is None else minutes
    elif minutes is None:
        minutes = set(range(60))
    return set(itertools.product(hours or set(range(24)), minutes, seconds))


def read_minutes(text: Text) -> set[int] | None:
    if match := text.take(
        r"in every (\d+)(?:st|nd|rd|th) minute from minute (\d+) through minute (\d+)"
    ):
        return set(range(int(match[2]), int(match[3]) + 1, int(match[1])))
    return read_sixty(text, "minute", "hour")


def read_sixty(text: Text, unit: str, whole: str) -> set[int] | None:
    """Read seconds of the minute, or minutes of the hour."""
    if text.take(f"every {unit}"):
        return set(range(60))
    if match := text.take(rf"every (\d+) {unit}s, {unit}s (\d+) through (\d+) past the {whole}"):
        return set(around(int(match[2]), int(match[3]), 60, int(match[1])))
    if match := text.take(rf"every (\d+) {unit}s"):
        assert 60 % int(match[1]) == 0, "there would be a shorter one at the end"
        return set(range(0, 60, int(match[1])))
    if match := text.take(rf"{unit}s ({NUMBERS}) past the {whole}"):
        return numbers(match[1], 60)
    if match := text.take(rf"at ({NUMBERS}) {unit}s? past the {whole}"):
        return numbers(match[1], 60)
    return None


def read_hours(text: Text) -> set[int] | None:
    if match := text.take(r"every (\d+) hours, between (\d\d):00 and (\d\d):59"):
        return set(range(int(match[2]), int(match[3]) + 1, int(match[1])))
    if match := text.take(r"every (\d+) hours"):
        assert 24 % int(match[1]) == 0, "there would be a shorter one at the end"
        return set(range(0, 24, int(match[1])))
    if match := text.take(r"in every (\d+)(?:st|nd|rd|th) hour from (\d\d):00 through (\d\d):59"):
        return set(range(int(match[2]), int(match[3]) + 1, int(match[1])))
    every = text.take("every hour")
    if match := text.take(r"between (\d\d):00 and (\d\d):59"):
        return set(around(int(match[1]), int(match[2]), 24))
    if match := text.take(rf"at ({HOURS}(?:{COMMA}{HOURS})*)"):
        return numbers(match[1].replace(":00", "").replace(":59", ""), 24)
    return set(range(24)) if every else None


# --- dates ---


def read_dates(text: Text) -> On:
    days, *limits = re.split(r"(?:^|, )(?=only in )", text.rest)
    rules = [read_days(days)] if days not in {"", "every day"} else []
    for limit in limits:
        rules.append(read_limit(limit.removeprefix("only in ")))
    return lambda day: all(rule(day) for rule in rules)


def read_limit(text: str) -> On:
    if match := re.fullmatch(r"every (\d+)(?:st|nd|rd|th) year from (\d+) through (\d+)", text):
        years = range(int(match[2]), int(match[3]) + 1, int(match[1]))
        return lambda day: day.year in years
    if text[0].isdigit():
        years = numbers(text, 10_000)
        return lambda day: day.year in years
    months = named(text, MONTHS)
    return lambda day: day.month - 1 in months


def named(text: str, names: list[str]) -> set[int]:
    return numbers(re.sub("|".join(names), lambda m: str(names.index(m[0])), text), len(names))


def read_days(text: str) -> On:
    if not text.startswith("on "):
        return read_weekdays(text.removeprefix("only on "))
    of_month, weekdays = re.fullmatch(r"on (.*?) of the month(?: or (?:on )?(.*))?", text).groups()
    rules = [read_day(item) for item in re.split(", | and ", re.sub("^days? ", "", of_month))]
    if weekdays:
        rules.append(read_weekdays(weekdays))
    return lambda day: any(rule(day) for rule in rules)


LAST_DAYS = {
    "the last day": lambda day: (day + DAY).day == 1,
    "the last weekday (Monday to Friday)": lambda day: day.day == last_workday(day),
    "the day before the last day": lambda day: (day + 2 * DAY).day == 1,
}


def read_day(text: str) -> On:
    if match := re.fullmatch(r"(\d+)(?: through (\d+))?", text):
        return lambda day: int(match[1]) <= day.day <= int(match[2] or match[1])
    if match := re.fullmatch(r"every (\d+)(?:st|nd|rd|th) day from (\d+) through (\d+)", text):
        days = range(int(match[2]), int(match[3]) + 1, int(match[1]))
        return lambda day: day.day in days
    if text in LAST_DAYS:
        return LAST_DAYS[text]
    if match := re.fullmatch(
        r"the day( \(if there is one\))? (\d+) days before the last day", text
    ):
        assert bool(match[1]) == (int(match[2]) >= 28)
        return lambda day: day.day == length(day) - int(match[2])
    match = re.fullmatch(
        r"the weekday \(Monday to Friday\) nearest day (\d+)( \(if there is one\))?", text
    )
    assert bool(match[2]) == (int(match[1]) > 28)
    return lambda day: near_workday(int(match[1]), day)


def length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def last_workday(day: date) -> int:
    return max(n for n in range(20, length(day) + 1) if is_workday(day.replace(day=n)))


def read_weekdays(text: str) -> On:
    special = rf"the ({'|'.join(NTH)}|last) ({'|'.join(WEEKDAYS)}) of the month"
    rules = [read_nth(nth, name) for nth, name in re.findall(special, text)]
    plain = re.sub(rf"(?:^|, | and ){special}", "", text)
    weekdays = named(plain, WEEKDAYS) if plain else set()
    return lambda day: day.weekday() in weekdays or any(rule(day) for rule in rules)


def read_nth(nth: str, name: str) -> On:
    weekday = WEEKDAYS.index(name)
    if nth == "last":
        return lambda day: day.weekday() == weekday and day.day > length(day) - 7
    week = NTH.index(nth)
    return lambda day: day.weekday() == weekday and (day.day - 1) // 7 == week
