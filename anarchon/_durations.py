"""Durations as users write them, turned once into whole milliseconds."""

from __future__ import annotations

import re
from datetime import timedelta
from math import isnan
from typing import TypeAlias

from ._texts import said
from .errors import ConfigurationError

Duration: TypeAlias = float | str | timedelta
"""Seconds, a `timedelta`, or text such as ``"250ms"``, ``"10s"`` or ``"1h30m"``."""

_UNITS = {
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}
_TEXT = re.compile("".join(rf"(?:([0-9]{{1,15}}){unit})?" for unit in _UNITS))
_MILLISECOND = timedelta(milliseconds=1)
_SHOWN_LENGTH = 80

MAXIMUM_MS = 36_525 * _UNITS["d"]
"""The longest duration: a hundred years."""

_FORMS = 'give seconds (10 or 0.5), a timedelta, or text such as "250ms", "10s" or "1h30m"'


def parse_ms(
    value: object,
    *,
    what: str,
    minimum_ms: int = 0,
    allow_zero: bool | None = None,
    exact: bool = False,
) -> int:
    """Return a duration in whole milliseconds.

    Args:
        value: Seconds as int or float, a `timedelta`, or text of ASCII digits with a
            unit (``ms s m h d w``), once or several times, the largest unit first.
        what: The words that name the value in an error, such as ``"lease"``.
        minimum_ms: The least duration that is accepted.
        allow_zero: Whether zero is accepted as well; by default it is when there is
            no minimum.
        exact: Refuse fractions of a millisecond instead of rounding them. What is
            above zero never becomes zero by rounding.

    Raises:
        ConfigurationError: The value is of another type or form, negative, not a
            number, too short, or longer than a hundred years.
    """
    check_askable(value, what)
    if isinstance(value, str):
        ms = _text_ms(value, what)
    elif isinstance(value, timedelta):
        whole, rest = divmod(value, _MILLISECOND)
        ms = _whole_ms(whole, rest / _MILLISECOND, f"{what}: {value!r}", exact=exact)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        ms = _number_ms(value, what, exact=exact)
    else:
        raise ConfigurationError(f"{what}: {shown(value)} is not a duration; {_FORMS}")
    zero_is_fine = minimum_ms == 0 if allow_zero is None else allow_zero
    if not (ms == 0 and zero_is_fine):
        _check_range(ms, f"{what}: {shown(value)}", max(minimum_ms, 1))
    return ms


def _text_ms(text: str, what: str) -> int:
    found = _TEXT.fullmatch(text)
    if not text or found is None:
        raise ConfigurationError(
            f"{what}: {shown(text)} is not a duration; write ASCII digits and a unit"
            ' (ms, s, m, h, d, w), the largest first and without blanks: "250ms", "10s", "1h30m"'
        )
    amounts = zip(found.groups(), _UNITS.values(), strict=True)
    return sum(int(digits) * unit_ms for digits, unit_ms in amounts if digits)


def _number_ms(seconds: float, what: str, *, exact: bool) -> int:
    if isinstance(seconds, float) and isnan(seconds):
        raise ConfigurationError(f"{what}: {seconds!r} is not a number; {_FORMS}")
    if not 0 <= seconds <= MAXIMUM_MS:
        # Far outside in any unit: the range check says so, and nothing overflows here.
        return MAXIMUM_MS + 1 if seconds > 0 else -1
    if isinstance(seconds, int):
        return seconds * 1000
    product = seconds * 1000
    nearest = round(product)
    # What a float can't say exactly is no fraction: 0.1 + 0.2 seconds are 300 ms.
    noise = max(1e-6, product * 1e-15)
    if nearest and abs(product - nearest) <= noise:
        return nearest
    return _whole_ms(int(product), product % 1, f"{what}: {seconds!r}", exact=exact)


def _whole_ms(whole: int, rest: float, subject: str, *, exact: bool) -> int:
    if whole < 0 or not rest:
        return whole
    if exact:
        raise ConfigurationError(
            f"{subject} is not a whole number of milliseconds; round it,"
            f' for example to "{max(whole, 1)}ms"'
        )
    return max(whole + (rest >= 0.5), 1)


def _check_range(ms: int, subject: str, minimum_ms: int) -> None:
    if ms < 0:
        raise ConfigurationError(f"{subject} is negative; {_FORMS}")
    if ms > MAXIMUM_MS:
        raise ConfigurationError(f"{subject} is more than 100 years; give a shorter time")
    if ms < minimum_ms:
        least = duration_text(minimum_ms)
        raise ConfigurationError(f'{subject} is too short; give at least "{least}"')


def duration_text(ms: int) -> str:
    """Return the text that `parse_ms` reads as `ms`, in days at most: ``"1h30m"``."""
    parts = []
    for unit, unit_ms in _UNITS.items():
        if unit != "w":
            count, ms = divmod(ms, unit_ms)
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts) or "0s"


def check_askable(value: object, what: str) -> None:
    """Refuse an object that can't even be asked what it is, as a lazy proxy of nothing.

    Raises:
        ConfigurationError: It names the value and the fix.
    """
    try:
        isinstance(value, _Nothing)
    except Exception as error:
        raise ConfigurationError(
            f"{what}: {shown(value)} can't be asked what it is ({said(error)}); pass the object"
            " itself, not something that stands for it"
        ) from error


class _Nothing:
    """The class of no object, so that `isinstance` has to ask the object."""


def shown(value: object) -> str:
    """Return the `repr` of a value for a message: short, and never raising."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__} object>"
    return text if len(text) <= _SHOWN_LENGTH else f"{text[: _SHOWN_LENGTH - 3]}..."
