"""A cron expression in plain English, for people who check it.

The package cron-descriptor words the time of day. It reads cron in its own way, so it never
sees what a user wrote: it is given plain numbers, in the one of several equal forms that it
words without a doubt. Where there is no such form, and for dates, the words are ours. None
depends on the locale of the process.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from ._named import NamedTuple
from ._schedules_cron import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ._schedules_cron import Days, Fields

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_IF_ANY = " (if there is one)"
_NTH = ("first", "second", "third", "fourth", "fifth")
_MOST_TIMES = 6  # so many times of a day are listed
_LEAST_STEPS = 5  # fewer numbers are listed, rather than counted through
_SPECIAL_WEEKDAY = re.compile(r"([A-Z0-9]+)#([0-9]+)|L?([A-Z]{3}|[0-9]+)L?")


def cron_words(expression: str, timezone: str) -> str:
    """Return one line of English that says when a cron expression matches.

    Args:
        expression: A cron expression that is valid.
        timezone: The key of its zone, which is named unless it is UTC.

    Raises:
        ImportError: The package cron-descriptor is not installed.
    """
    fields = parse(expression)
    zone = "" if timezone == "UTC" else f" ({timezone})"
    return ", ".join([*_times(fields), *_dates(fields)]) + zone


# --- numbers ------------------------------------------------------------------------


class _Steps(NamedTuple):
    """Numbers that follow each other at one distance."""

    first: int
    last: int
    step: int


def _steps(numbers: Sequence[int]) -> _Steps | None:
    """Return how to count through the numbers, if they are many and not just a range."""
    distances = {later - sooner for sooner, later in pairwise(numbers)}
    if len(numbers) < _LEAST_STEPS or len(distances) != 1 or distances == {1}:
        return None
    return _Steps(numbers[0], numbers[-1], distances.pop())


def _runs(numbers: Sequence[int], around: range | None = None) -> list[tuple[int, int]]:
    """Return the numbers as ranges; one may run through the end of `around`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    if around and len(runs) > 1 and runs[0][0] == around[0] and runs[-1][1] == around[-1]:
        last = runs.pop()
        runs[0] = (last[0], runs[0][1])
        runs.append(runs.pop(0))
    return runs


def _spans(
    numbers: Sequence[int], name: Callable[[int], str], around: range | None = None
) -> list[str]:
    """Return names of numbers; three or more in a row become one "a through b"."""
    spans = []
    for first, last in _runs(numbers, around):
        length = (last - first) % len(around or range(last + 1)) + 1
        if length > 2:
            spans.append(f"{name(first)} through {name(last)}")
        else:
            spans += [name(first), name(last)][:length]
    return spans


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in {11, 12, 13} else ending}"


# --- the time of day ----------------------------------------------------------------


def _times(fields: Fields) -> list[str]:
    seconds, minutes, hours = fields.seconds, fields.minutes, fields.hours
    if len(seconds) * len(minutes) * len(hours) <= _MOST_TIMES:
        every_day = ["every day"] if _is_every_day(fields) else []
        return [f"at {_listed(_clock_times(fields))}", *every_day]
    base = _within_hours(seconds, minutes)
    if len(hours) == 24:
        return base
    # "Every hour, every 2 hours" would say one thing twice.
    base = [] if base == ["every hour"] and _steps(hours) else base
    return [*base, _in_hours(hours, repeated=len(seconds) > 1 or len(minutes) > 1)]


def _clock_times(fields: Fields) -> list[str]:
    return [
        _described(f"{second} {minute} {hour}", "FULL").removeprefix("at ")
        # The descriptor leaves the seconds out when they are 0.
        + ":00" * (second == 0 and fields.seconds != (0,))
        for hour in fields.hours
        for minute in fields.minutes
        for second in fields.seconds
    ]


def _within_hours(seconds: Sequence[int], minutes: Sequence[int]) -> list[str]:
    repeated = len(seconds) > 1
    steps = _steps(minutes)
    if repeated and steps:
        # "Every 10 seconds, every 5 minutes" could mean anything.
        first, last, step = steps
        inside = f"in every {_ordinal(step)} minute from minute {first} through minute {last}"
        return [_described(f"{_form(seconds)} * *", "FULL"), inside]
    is_short_list = repeated and len(minutes) < _LEAST_STEPS
    minute_form = ",".join(map(str, minutes)) if is_short_list else _form(minutes)
    return [_described(f"{_form(seconds)} {minute_form} *", "FULL")]


def _form(numbers: Sequence[int]) -> str:
    """Return seconds or minutes in the form that is worded best."""
    if len(numbers) == 60:
        return "*"
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 60
    if len(numbers) > 1 and 60 % step == 0 and numbers == tuple(range(0, 60, step)):
        return f"*/{step}"
    if steps := _steps(numbers):
        return f"{steps.first}-{steps.last}/{steps.step}"
    return ",".join(
        f"{first}-{last}"
        if last - first not in {0, 1}
        else ",".join(map(str, range(first, last + 1)))
        for first, last in _runs(numbers, range(60))
    )


def _in_hours(hours: Sequence[int], *, repeated: bool) -> str:
    steps = _steps(hours)
    if steps and repeated:
        # "Every minute, every 2 hours" could mean anything.
        first, last, step = steps
        return f"in every {_ordinal(step)} hour from {first:02}:00 through {last:02}:59"
    if steps:
        is_whole_day = steps.first == 0 and steps.last + steps.step == 24
        span = "*" if is_whole_day else f"{steps.first}-{steps.last}"
        return _described(f"0 0 {span}/{steps.step}", "HOURS")
    # A single hour as a range is worded as what it is: "between 08:00 and 08:59".
    ranges = [f"{first}-{last}" for first, last in _runs(hours, range(24))]
    return _described(f"0 * {','.join(ranges)}", "HOURS")


def _described(time: str, part: Literal["FULL", "HOURS"]) -> str:
    try:
        from cron_descriptor import DescriptionTypeEnum, ExpressionDescriptor, Options
    except ImportError as error:
        raise ImportError(
            "the words of a cron expression come from the package cron-descriptor, which is not"
            " installed; install it: python -m pip install 'anarchon[describe]'"
        ) from error

    options = Options(locale_code="en_US", use_24hour_time_format=True)
    descriptor = ExpressionDescriptor(f"{time} * * * *", options)
    text = str(descriptor.get_description(DescriptionTypeEnum[part]))
    text = re.sub(r"\bat 1 (second|minute)s past", r"at 1 \1 past", text, flags=re.IGNORECASE)
    return text[:1].lower() + text[1:]


# --- dates --------------------------------------------------------------------------


def _is_every_day(fields: Fields) -> bool:
    """Return whether the two day fields together leave no day out."""
    legs = [days for days in (fields.days, fields.weekdays) if days is not None]
    return not legs or all(
        len(frozenset().union(*(leg.by_shape[shape] for leg in legs))) == shape[1]
        for shape in legs[0].by_shape
    )


def _dates(fields: Fields) -> Iterable[str]:
    if not _is_every_day(fields):
        yield _days(fields.days, fields.weekdays)
    if len(fields.months) < len(MONTHS):
        names = _spans(fields.months, lambda month: MONTHS[month - 1], range(1, 13))
        yield f"only in {_listed(names)}"
    if fields.years is not None:
        yield f"only in {_counted(fields.years, 'year')}"


def _days(days: Days | None, weekdays: Days | None) -> str:
    on_days = "" if days is None else _on_days(days)
    if weekdays is None:
        return on_days
    names = _weekday_names(weekdays)
    is_one_range = len(names) == 1 and " through " in names[0]
    on_weekdays = names[0] if is_one_range else f"on {_listed(names)}"
    if days is None:
        return on_weekdays if is_one_range else f"only {on_weekdays}"
    return f"{on_days} or {on_weekdays}"


def _on_days(days: Days) -> str:
    names = list(dict.fromkeys(map(_special_day, days.specials)))
    if days.numbers:
        noun = "" if _steps(days.numbers) else "day " if len(days.numbers) == 1 else "days "
        names.insert(0, f"{noun}{_counted(days.numbers, 'day')}")
    return f"on {_listed(names)} of the month"


def _counted(numbers: Sequence[int], noun: str) -> str:
    if steps := _steps(numbers):
        return f"every {_ordinal(steps.step)} {noun} from {steps.first} through {steps.last}"
    return _listed(_spans(numbers, str))


def _special_day(element: str) -> str:
    if element == "L":
        return "the last day"
    if element == "LW":
        return "the last weekday (Monday to Friday)"
    number = int(re.sub(r"\D", "", element))
    # Short months may have no such day, and then have no slot.
    if element.endswith("W"):
        return f"the weekday (Monday to Friday) nearest day {number}{_IF_ANY * (number > 28)}"
    distance = "" if number == 1 else f"{_IF_ANY * (number >= 28)} {number} days"
    return f"the day{distance} before the last day"


def _weekday_names(days: Days) -> list[str]:
    names = _spans(days.numbers, lambda number: WEEKDAYS[number], range(7))
    return [*names, *dict.fromkeys(map(_special_weekday, days.specials))]


def _special_weekday(element: str) -> str:
    match = _SPECIAL_WEEKDAY.fullmatch(element)
    assert match is not None, element
    nth = _NTH[int(match[2]) - 1] if match[2] else "last"
    return f"the {nth} {_weekday(match[1] or match[3])} of the month"


def _weekday(text: str) -> str:
    if text.isdigit():
        return WEEKDAYS[int(text) % 7]
    return next(name for name in WEEKDAYS if name.upper().startswith(text))
