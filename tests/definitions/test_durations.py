"""Durations: what they mean, what is refused, and with which words."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon._durations import MAXIMUM_MS, duration_text, parse_ms, shown
from anarchon.errors import ConfigurationError

DAY_MS = 86_400_000


def refusal(value, **rules) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_ms(value, what="lease", **rules)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        (1, 1000),
        (10, 10_000),
        (0.25, 250),
        (0.1 + 0.2, 300),
        (1.1 * 3, 3300),
        (1 / 3, 333),
        (2 / 3, 667),
        (1e-9, 1),
        (0.0004, 1),
        (36_525 * 86_400, MAXIMUM_MS),
        (36_525 * 86_400.0, MAXIMUM_MS),
        (timedelta(0), 0),
        (timedelta(seconds=1.5), 1500),
        (timedelta(days=2, microseconds=499), 2 * DAY_MS),
        (timedelta(microseconds=1500), 2),
        (timedelta(microseconds=1), 1),
        ("0s", 0),
        ("0h0ms", 0),
        ("250ms", 250),
        ("10s", 10_000),
        ("007s", 7000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("2d", 2 * DAY_MS),
        ("1w", 7 * DAY_MS),
        ("1w2d3h4m5s6ms", 788_645_006),
        ("1m1ms", 60_001),
        ("90m", 5_400_000),
    ],
)
def test_a_duration_in_whole_milliseconds(value, ms):
    result = parse_ms(value, what="lease")
    assert result == ms
    assert type(result) is int


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "10", "s", "ms", "10 s", " 10s", "10s ", "10s\n", "10x", "10S", "1H", "1.5h"],
        *["1,5h", "+10s", "-5s", "1e3s", "0x10s", "1_000s", "NaNs", "infs", "abc", "10s 5"],
        *[
            "30m1h",
            "1s1s",
            "5ms1s",
            "1h-30m",
            "\u0661\u0660s",
            "10\u017f",
            "1\u00b2s",
            "9" * 16 + "s",
        ],
    ],
)
def test_text_of_another_form_is_refused(text):
    message = refusal(text)
    assert message.startswith(f"lease: {shown(text)} ")
    assert '"250ms", "10s"' in message


@pytest.mark.parametrize(
    "value", [None, True, False, 1j, b"10s", ["10s"], object(), ConfigurationError]
)
def test_other_types_are_refused(value):
    message = refusal(value)
    assert message.startswith("lease: ")
    assert "is not a duration; give seconds (10 or 0.5), a timedelta, or text" in message


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "lease: nan is not a number; give seconds"),
        (float("inf"), "lease: inf is more than 100 years; give a shorter time"),
        (float("-inf"), "lease: -inf is negative; give seconds"),
        (-1, "lease: -1 is negative; give seconds"),
        (-0.0001, "lease: -0.0001 is negative"),
        (-1e300, "lease: -1e+300 is negative"),
        (timedelta(microseconds=-1), "is negative; give seconds"),
        (timedelta(days=-1), "is negative; give seconds"),
        (10**12, "lease: 1000000000000 is more than 100 years; give a shorter time"),
        (1e300, "lease: 1e+300 is more than 100 years"),
        (36_525 * 86_400 + 0.001, "is more than 100 years"),
        (timedelta.max, "is more than 100 years"),
        ("36526d", "lease: '36526d' is more than 100 years; give a shorter time"),
        ("999999999999999w", "is more than 100 years"),
    ],
)
def test_what_is_out_of_range_is_refused(value, words):
    assert words in refusal(value)


def test_a_number_that_python_will_not_print_is_refused_as_well():
    assert "lease: <int object> is more than 100 years" in refusal(10**5000)
    assert "lease: <int object> is negative" in refusal(-(10**5000))


def test_zero_is_fine_unless_there_is_a_minimum():
    assert parse_ms(0, what="jitter") == 0
    assert "lease: 0 is too short" in refusal(0, minimum_ms=2000)
    assert parse_ms(0, what="control", minimum_ms=100, allow_zero=True) == 0
    assert 'lease: 0 is too short; give at least "1ms"' in refusal(0, allow_zero=False)


@pytest.mark.parametrize("value", [1.999, "1s", timedelta(milliseconds=1999)])
def test_a_minimum_holds(value):
    assert refusal(value, minimum_ms=2000) == (f'lease: {value!r} is too short; give at least "2s"')
    assert parse_ms(2, what="lease", minimum_ms=2000) == 2000


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (1 / 3, 'round it, for example to "333ms"'),
        (0.1005, 'round it, for example to "100ms"'),
        (0.0004, 'round it, for example to "1ms"'),
        (timedelta(microseconds=100_500), 'round it, for example to "100ms"'),
    ],
)
def test_exact_durations_are_not_rounded(value, fix):
    message = refusal(value, exact=True)
    assert message == f"lease: {value!r} is not a whole number of milliseconds; {fix}"


@pytest.mark.parametrize("value", [0.1 + 0.2, 1.1 * 3, 0.7, 86_400 * 400 + 0.1])
def test_the_noise_of_a_float_is_no_fraction(value):
    assert parse_ms(value, what="interval", exact=True) == round(value * 1000)


@given(st.integers(0, MAXIMUM_MS))
def test_every_millisecond_survives_each_form(ms):
    assert parse_ms(duration_text(ms), what="x", exact=True) == ms
    assert parse_ms(timedelta(milliseconds=ms), what="x", exact=True) == ms
    assert parse_ms(ms / 1000, what="x", exact=True) == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (60_000, "1m"),
        (5_400_000, "1h30m"),
        (90_061_001, "1d1h1m1s1ms"),
        (14 * DAY_MS, "14d"),
    ],
)
def test_the_text_of_a_duration(ms, text):
    assert duration_text(ms) == text


def test_what_is_shown_is_short_and_never_raises():
    class Sulky:
        def __repr__(self):
            raise RuntimeError("no")

    assert shown(Sulky()) == "<Sulky object>"
    assert shown("x" * 1000) == "'" + "x" * 76 + "..."
    assert shown("10s") == "'10s'"
