"""Schedules in words: every description says what the schedule does, and reads well."""

from __future__ import annotations

import calendar
import itertools
import json
import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings

from anarchon._schedules_cron import month_shape, parse
from anarchon.schedules import Cron, Every, Once
from tests.definitions.cron_examples import define, expressions, number_fields
from tests.definitions.english import read

DATA = Path(__file__).parent.parent / "data"
VECTORS = json.loads((DATA / "schedules.json").read_text())
EXPRESSIONS = sorted(
    {v["expr"] for v in VECTORS if v["kind"] == "cron" and not v.get("error", False)}
)
# Two leap years among them, and months that begin with each weekday.
DATES = [date(2024, 1, 1) + timedelta(days=n) for n in range(365 * 6)]
SHAPES = {day: month_shape(day.year, day.month) for day in DATES}


@pytest.mark.parametrize(
    ("period", "words"),
    [("1h30m", "every 1h30m"), (10, "every 10s"), ("250ms", "every 250ms"), ("7d", "every 7d")],
)
def test_an_interval(period, words):
    assert Every(period).describe() == words


def test_a_single_slot():
    assert Once("2026-12-01T11:00+02:00").describe() == "once at 2026-12-01T09:00:00Z"
    assert Once("2026-12-01T09:00:00.250Z").describe() == "once at 2026-12-01T09:00:00.250Z"


BY_HAND = [
    tuple(part.strip() for part in line.split("|"))
    for line in (DATA / "words.txt").read_text().splitlines()
    if "|" in line
]


def test_enough_is_checked_by_hand():
    assert len(BY_HAND) >= 60


@pytest.mark.parametrize(("expression", "words"), BY_HAND)
def test_the_words_are_those_checked_by_hand(expression, words):
    assert Cron(expression).describe() == words


def test_the_zone_is_named_unless_it_is_utc():
    assert Cron("0 8 * * 1-5", "UTC").describe() == "at 08:00, Monday through Friday"
    words = Cron("0 8 * * 1-5", "Europe/Athens").describe()
    assert words == "at 08:00, Monday through Friday (Europe/Athens)"


# --- meaning ---


def meaning(fields) -> tuple[set, list]:
    """Return the times of a day and the dates, from the fields as the schedule walks them."""
    times = set(itertools.product(fields.hours, fields.minutes, fields.seconds))
    legs = [days.by_shape for days in (fields.days, fields.weekdays) if days]
    dates = [
        day
        for day in DATES
        if day.month in fields.months
        and (fields.years is None or day.year in fields.years)
        and (not legs or any(day.day in leg[SHAPES[day]] for leg in legs))
    ]
    return times, dates


@pytest.mark.parametrize("expression", EXPRESSIONS + [expression for expression, _ in BY_HAND])
def test_the_words_mean_what_the_expression_means(expression):
    words = Cron(expression).describe()
    times, on = read(words)
    assert (times, [day for day in DATES if on(day)]) == meaning(parse(expression)), words
    assert words.isprintable()


@settings(max_examples=60, deadline=None)
@given(expressions())
def test_words_of_random_expressions(example):
    expression, wall_times, meant_on, _ = example
    schedule = define(expression)
    if schedule is None:
        return
    times, on = read(schedule.describe())
    assert sorted(times) == [(hour, minute, 0) for hour, minute in wall_times]
    some = DATES[: 366 + 365]
    assert [day for day in some if on(day)] == [day for day in some if meant_on(day)]


@settings(max_examples=50, deadline=None)
@given(number_fields(0, 59), number_fields(0, 59), number_fields(0, 23), number_fields(1970, 2099))
def test_words_of_random_expressions_with_seconds_and_years(second, minute, hour, year):
    fields = [second, minute, hour]
    years_text = re.sub(r"(\d{4})-(\d{4})", lambda m: "-".join(sorted(m.groups())), year[0])
    text = " ".join([*(field[0] for field in fields), "1 1 *", years_text])
    times, on = read(Cron(text).describe())
    assert times == set(itertools.product(hour[1], minute[1], second[1]))
    firsts = [date(year, 1, 1) for year in range(1970, 2100)]
    assert tuple(day.year for day in firsts if on(day)) == parse(text).years


def test_the_reader_notices_what_is_wrong():
    times, on = read(
        "every 15 minutes, between 08:00 and 09:59, on day 13 of the month or on Friday"
    )
    assert (len(times), (9, 45, 0) in times, (10, 0, 0) in times) == (8, True, False)
    assert (on(date(2026, 3, 13)), on(date(2026, 3, 6)), on(date(2026, 4, 13))) == (True,) * 3
    assert not on(date(2026, 4, 14))


# --- surroundings ---


def test_the_words_are_english_whatever_the_locale_says(monkeypatch):
    monkeypatch.setattr(calendar, "day_name", ["lundi"] * 7)
    monkeypatch.setattr(calendar, "month_name", ["janvier"] * 13)
    for name in ("LC_ALL", "LANG", "LANGUAGE"):
        monkeypatch.setenv(name, "de_DE.UTF-8")
    monkeypatch.setattr("locale.getlocale", lambda *_: ("de_DE", "UTF-8"))
    words = Cron("30 20 * jul 5").describe()
    assert words == "at 20:30, only on Friday, only in July"


def test_no_locale_at_all_is_no_warning(monkeypatch):
    monkeypatch.setattr("locale.getlocale", lambda *_: (None, None))
    assert Cron("0 20 * * *").describe() == "at 20:00, every day"


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cron_descriptor", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'anarchon[describe]'")):
        Cron("0 8 * * *").describe()
    assert Every("10s").describe() == "every 10s"


def test_defining_needs_no_words(tmp_path):
    program = (
        "import sys; from anarchon.schedules import Cron; Cron('0 8 * * *');"
        " print([name for name in sys.modules if 'descriptor' in name or 'words' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
