"""Cron expressions drawn at random, each with what it means, worked out in another way."""

from __future__ import annotations

import calendar
import itertools
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st

from anarchon.errors import ConfigurationError
from anarchon.schedules import Cron

if TYPE_CHECKING:
    from datetime import date

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def refusal(expression, *zone) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Cron(expression, *zone)
    return str(caught.value)


ELEMENTS = st.sampled_from([1, 2, 3, 5, 7, 11, 13])


@st.composite
def number_fields(draw, low, high):
    """Draw a field of plain numbers: its text, and the set of what it means."""
    texts, meant = [], set()
    for _ in range(draw(st.integers(1, 2))):
        start, end = draw(st.integers(low, high)), draw(st.integers(low, high))
        step = draw(ELEMENTS)
        form = draw(st.sampled_from(["one", "range", "from", "every"]))
        if form == "one":
            text, values = f"{start}", [start]
        elif form == "from":
            text, values = f"{start}/{step}", range(start, high + 1, step)
        elif form == "every":
            text, values = f"*/{step}", range(low, high + 1, step)
        elif start <= end:
            text, values = f"{start}-{end}/{step}", range(start, end + 1, step)
        else:
            rest = [*range(start, high + 1), *range(low, end + 1)]
            text, values = f"{start}-{end}/{step}", rest[::step]
        texts.append(text)
        meant.update(values)
    return ",".join(texts), meant


def is_workday(day: date) -> bool:
    return day.weekday() < 5


def near_workday(number: int, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if number > last:
        return False
    options = [n for n in range(1, last + 1) if is_workday(day.replace(day=n))]
    # The nearest one; of two equally near there is none, as a weekend has two days.
    return day.day == min(options, key=lambda n: abs(n - number))


SPECIAL_DAYS = {
    "L": lambda day: (day + DAY).day == 1,
    "L-3": lambda day: (day + 4 * DAY).day == 1,
    "LW": lambda day: (
        is_workday(day)
        and all(
            not is_workday(later) or later.month != day.month
            for later in (day + n * DAY for n in (1, 2, 3))
        )
    ),
    "1W": lambda day: near_workday(1, day),
    "15W": lambda day: near_workday(15, day),
    "31W": lambda day: near_workday(31, day),
}
SPECIAL_WEEKDAYS = {
    "2#1": lambda day: day.isoweekday() == 2 and day.day <= 7,
    "SUN#3": lambda day: day.isoweekday() == 7 and 15 <= day.day <= 21,
    "5#5": lambda day: day.isoweekday() == 5 and day.day >= 29,
    "0L": lambda day: day.isoweekday() == 7 and (day + 7 * DAY).month != day.month,
    "LWED": lambda day: day.isoweekday() == 3 and (day + 7 * DAY).month != day.month,
}


@st.composite
def expressions(draw):
    """Draw a five-field expression: its text, what minutes it means, and on which dates."""
    minute, minutes = draw(number_fields(0, 59))
    hour, hours = draw(number_fields(0, 23))
    month, months = draw(st.one_of(st.just(("*", set(range(1, 13)))), number_fields(1, 12)))
    day_text, day_rule = draw(
        st.one_of(
            st.sampled_from([("*", None), ("?", None), *SPECIAL_DAYS.items()]),
            number_fields(1, 31).map(lambda f: (f[0], lambda day: day.day in f[1])),
        )
    )
    weekday_text, weekday_rule = draw(
        st.one_of(
            st.sampled_from([("*", None), *SPECIAL_WEEKDAYS.items()]),
            number_fields(0, 6).map(lambda f: (f[0], lambda d: d.isoweekday() % 7 in f[1])),
        )
    )
    rules = [rule for rule in (day_rule, weekday_rule) if rule]

    def on(day: date) -> bool:
        return day.month in months and (not rules or any(rule(day) for rule in rules))

    def when(wall: datetime) -> bool:
        return wall.minute in minutes and wall.hour in hours and on(wall.date())

    text = f"{minute} {hour} {day_text} {month} {weekday_text}"
    return text, sorted(itertools.product(hours, minutes)), on, when


def define(text):
    try:
        return Cron(text)
    except ConfigurationError as error:
        assert "no date ever matches" in str(error)  # noqa: PT017 - the only allowed refusal
        return None
