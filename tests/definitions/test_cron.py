"""Cron expressions and zones: what is read, and what is refused."""

from __future__ import annotations

import sys
import zoneinfo
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from anarchon._schedules_cron import parse
from anarchon.schedules import Cron
from tests.definitions.cron_examples import at, refusal


@pytest.mark.parametrize(
    ("text", "seconds", "minutes"),
    [
        ("5 * * * *", [0], [5]),
        ("05 * * * *", [0], [5]),
        ("*/20 * * * *", [0], [0, 20, 40]),
        ("*/90 * * * *", [0], [0]),
        ("50/5 * * * *", [0], [50, 55]),
        ("10-20/5 * * * *", [0], [10, 15, 20]),
        ("5-5 * * * *", [0], [5]),
        ("58-2 * * * *", [0], [0, 1, 2, 58, 59]),
        ("50-10/7 * * * *", [0], [4, 50, 57]),
        ("3,1,2,1-2 * * * *", [0], [1, 2, 3]),
        ("7 1-3 * * * *", [7], [1, 2, 3]),
        ("*/30 0 * * * * 2030", [0, 30], [0]),
    ],
)
def test_numbers_of_a_field(text, seconds, minutes):
    # BR-097
    fields = parse(text)
    assert (list(fields.seconds), list(fields.minutes)) == (seconds, minutes)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0", [0]),
        ("7", [0]),
        ("SUN", [0]),
        ("sun-sat", [0, 1, 2, 3, 4, 5, 6]),
        ("mon-fri", [1, 2, 3, 4, 5]),
        ("5-7", [0, 5, 6]),
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("7-2", [0, 1, 2]),
        ("fri-mon", [0, 1, 5, 6]),
        ("sat-tue/2", [1, 6]),
        ("5-1", [0, 1, 5, 6]),
        ("7/3", [0, 3, 6]),
        ("4/2", [4, 6]),
        ("7-7", [0]),
        ("*/2", [0, 2, 4, 6]),
    ],
)
def test_weekdays(text, numbers):
    # BR-096
    assert parse(f"0 0 * * {text}").weekdays.plain == tuple(numbers)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("nov-feb", [1, 2, 11, 12]), ("Jan,JUL", [1, 7]), ("dec/3", [12]), ("9-3/3", [3, 9, 12])],
)
def test_months(text, numbers):
    assert parse(f"0 0 1 {text} *").months == tuple(numbers)


@pytest.mark.parametrize(
    ("text", "wildcard"),
    [
        ("30 2 * * *", False),
        ("0 */2 * * *", True),
        ("*/5 2 * * *", True),
        ("* * 2 * * *", True),
        ("0 0-23 * * *", True),
        ("0 12-11 * * *", True),
        ("0 0-22 * * *", False),
        ("1,2,*/30 4 * * *", False),
        ("0-59 2 * * *", False),
        ("0 2 * * * ", False),
        ("* 30 2 * * *", True),
        ("@hourly", True),
        ("@daily", False),
    ],
)
def test_wildcard_jobs_and_jobs_at_fixed_times(text, wildcard):
    assert parse(text).wildcard is wildcard


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (None, "it is not text; write it like"),
        (5, "it is not text; write it like"),
        ("", "it has 0 fields; write 5 (minute, hour, day of month, month, weekday), 6"),
        ("*", "it has 1 field; write 5"),
        ("* * * *", "it has 4 fields; write 5"),
        ("* * * * * * * *", "it has 8 fields; write 5"),
        ("\u0660 0 * * *", "it contains '\u0660'; use ASCII characters only"),
        ("0\u00a00 * * *", "; use ASCII characters only"),
        ("0," * 130 + "0 * * * *", "it has 269 characters; use at most 256"),
        ("0 8 * * *\n", "it has more than one line; write the fields on one"),
        ("0 8 * L *", "month 'L': not understood"),
        ("0 8 last * *", "a/n, */n, a-b/n, L, L-3, LW, 15W, a list"),
        ("0 8 * * sun#-1", "a-b/n, MON#1, 5L, a list"),
        ("0 0 * *\n*", "it has more than one line"),
        ("0 0 * * *\n", "it has more than one line"),
        ("@reboot", "unknown alias; known are @yearly, @annually"),
        ("@every 5m", "(intervals: every())"),
        ("60 * * * *", "minute 60: out of range; write 0 to 59"),
        ("* 24 * * *", "hour 24: out of range; write 0 to 23"),
        ("* * 0 * *", "day of month 0: out of range; write 1 to 31"),
        ("* * * 13 *", "month 13: out of range; write 1 to 12"),
        ("* * * * 8", "weekday 8: out of range; write 0 to 7"),
        ("0 * * * * * 2100", "year 2100: out of range; write 1970 to 2099"),
        ("* * * * * * 2030-2028", "years can't wrap; write the earlier one first"),
        ("*/0 * * * *", "minute '*/0': a step is at least 1"),
        ("1,,2 * * * *", "an element of the list is empty; remove the extra comma"),
        ("? * * * *", "? stands alone, in a day field only; write *"),
        ("0 0 ?,1 * *", "? stands alone, in a day field only; write *"),
        ("0 0 ?/2 * *", "day of month '?/2': not understood"),
        ("R * * * *", "H and R mean another time on every instance; name the time"),
        ("H/15 * * * *", "H and R mean another time on every instance; name the time"),
        ("H(0-29) * * * *", "H and R mean another time on every instance; name the time"),
        ("h * * * *", "H and R mean another time on every instance; name the time"),
        ("mon * * * *", "minute 'MON': not understood; write 0-59, *, a-b"),
        ("0 0 * jan-foo *", "month 'FOO': not understood; write 1-12 (or JAN-DEC)"),
        ("0 0 * * L", "weekday 'L': not understood"),
        ("0 0 L * L", "weekday 'L': not understood"),
        ("0 0 L-0 * *", "day of month L-0: write L-1 to L-30, or L for the last day"),
        ("0 0 L-31 * *", "day of month L-31: write L-1 to L-30"),
        ("0 0 WL * *", "day of month 'WL': not understood"),
        ("0 0 32W * *", "day of month 32: out of range"),
        ("0 0 1-5W * *", "day of month '1-5W': not understood"),
        ("0 0 * * 1#0", "weekday 1#0: write #1 to #5"),
        ("0 0 * * 1#6", "weekday 1#6: write #1 to #5"),
        ("0 0 * * 1-3#2", "weekday '1-3#2': not understood"),
        ("0 0 * * 9#1", "weekday 9: out of range"),
        ("0 0 * * janL", "weekday 'JAN': not understood"),
        ("0 0 1#1 * *", "day of month '1#1': not understood"),
        ("1 -2 * * *", "hour '-2': not understood"),
        ("1- * * * *", "minute '1-': not understood"),
        ("1--2 * * * *", "minute '1--2': not understood"),
        ("*-5 * * * *", "minute '*-5': not understood"),
        ("5/ * * * *", "minute '5/': not understood"),
        ("*/-5 * * * *", "minute '*/-5': not understood"),
        ("1.5 * * * *", "minute '1.5': not understood"),
        ("0 0 30 2 *", "no date ever matches it; correct the day or the month"),
        ("0 0 31 4,6,9,11 *", "no date ever matches it"),
        ("0 0 0 29 2 * 2025-2027", "no date ever matches it"),
        ("0 0 L-30 2,4 *", "no date ever matches it"),
        ("0 0 30W 2 *", "no date ever matches it"),
        ("0 0 0 * 2 1#5 2027", "no date ever matches it"),
    ],
)
def test_what_is_refused(expression, words):
    # BR-097, BR-136
    message = refusal(expression)
    assert message.startswith("cron expression ")
    assert words in message


@pytest.mark.parametrize(
    "zone",
    [
        *[
            "",
            "Europe/Nowhere",
            "../etc/passwd",
            "/etc/localtime",
            "Europe",
            "europe/berlin ",
            "\0",
        ],
        *["localtime", "posixrules", "right/UTC", "EST5EDT4,M3", "UTC+2", "\ud800", "a" * 300],
    ],
)
def test_what_is_no_zone(zone):
    # BR-122
    message = refusal("0 8 * * *", zone)
    assert message.startswith("timezone: no zone ")
    fixes = ("install the tzdata package", "did you mean", "name a place")
    assert any(fix in message for fix in fixes)


@pytest.mark.parametrize(
    ("zone", "meant"),
    [
        ("europe/athens", "Europe/Athens"),
        ("Athens", "Europe/Athens"),
        ("new york", "America/New_York"),
        ("Europe/Athen", "Europe/Athens"),
        ("utc", "UTC"),
        ("europe/berlin ", "Europe/Berlin"),
    ],
)
def test_a_zone_that_is_nearly_right_is_suggested(zone, meant):
    assert f'did you mean "{meant}"?' in refusal("0 8 * * *", zone)
    assert "UTC" in refusal("0 8 * * *", "Nowhere/At/All")


@pytest.mark.parametrize(
    "zone", ["GMT+2", "UTC-05:00", "gmt -3", "+01:00", "CEST", "AEST", "bst", "XYZ"]
)
def test_offsets_and_abbreviations_are_no_zones_and_nothing_is_guessed(zone):
    message = refusal("0 8 * * *", zone)
    assert "offsets and abbreviations are no zones" in message
    assert "did you mean" not in message


@pytest.mark.parametrize("zone", [None, 5, UTC, ZoneInfo("Europe/Berlin")])
def test_a_zone_is_given_by_its_name(zone):
    assert "is not the name of a zone; give text such as" in refusal("0 8 * * *", zone)


@pytest.fixture
def no_zone_data(monkeypatch):
    """A slim image: no zones of the system, and no tzdata package."""
    loaded = [name for name in sys.modules if name.startswith("tzdata.")]
    for name in ["tzdata", *loaded]:
        monkeypatch.setitem(sys.modules, name, None)
    zoneinfo.reset_tzpath(to=[])
    ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath()
    ZoneInfo.clear_cache()


@pytest.mark.usefixtures("no_zone_data")
def test_without_time_zone_data_utc_works_and_others_say_what_is_missing():
    # BR-122
    assert Cron("0 8 * * *").next_after(at("2026-01-01T00:00:00Z")) == at("2026-01-01T08:00:00Z")
    assert refusal("0 8 * * *", "Europe/Berlin") == (
        "timezone: no zone 'Europe/Berlin' was found; give a name such as"
        ' "Europe/Athens" or "UTC" and, if it is right, install the tzdata package'
    )
