"""The time of a one-off, read so that every instance names the same instant."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from ._durations import check_askable, shown
from ._schedules_wall import load_zone
from .errors import ConfigurationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WALL_EPOCH = _EPOCH.replace(tzinfo=None)
_MILLISECOND = timedelta(milliseconds=1)
_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:\.([0-9]+))?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_ONE_OFF = 'give an aware datetime or ISO text such as "2026-12-01T09:00:00Z"'


def one_off_ms(at: object, timezone: str | None) -> int:
    """Return the instant of a one-off in milliseconds since 1970 UTC.

    Raises:
        ConfigurationError: `at` names no instant, or not the same one on every instance.
    """
    moment = _one_off(at)
    if moment.microsecond % 1000:
        raise ConfigurationError(
            f"one-off time {shown(at)} is finer than a millisecond, as now() is: every instance"
            " must name the same instant; write the time down in the code, in whole milliseconds"
        )
    zone = None if timezone is None else load_zone(timezone)
    if moment.utcoffset() is not None:
        slot_ms = (moment - _EPOCH) // _MILLISECOND
    elif zone is None:
        raise ConfigurationError(
            f"one-off time {shown(at)} has no offset; add one (Z for UTC) or give timezone="
        )
    else:
        wall_ms = (moment.replace(tzinfo=None) - _WALL_EPOCH) // _MILLISECOND
        slot_ms = zone.first_instant_ms(wall_ms)
    if slot_ms < 0:
        raise ConfigurationError(f"one-off time {shown(at)} is before 1970; correct the year")
    return slot_ms


def _one_off(at: object) -> datetime:
    check_askable(at, "one-off time")
    if isinstance(at, datetime):
        return at
    if isinstance(at, timedelta):
        raise ConfigurationError(
            f"one-off time {at!r} counts from now, which is another instant on each instance;"
            f" {_ONE_OFF}"
        )
    if isinstance(at, date):
        raise ConfigurationError(f"one-off time {at!r} is a date without a time; {_ONE_OFF}")
    if not isinstance(at, str):
        raise ConfigurationError(f"one-off time {shown(at)} is not a time; {_ONE_OFF}")
    match = _ISO.fullmatch(at)
    try:
        moment = datetime.fromisoformat(at) if match else None
    except ValueError:
        moment = None
    if match is None or moment is None:
        raise ConfigurationError(
            f"one-off time {shown(at)} is not an ISO date with a time; {_ONE_OFF}"
        )
    # Digits after the sixth are dropped by the parser, so they count here.
    too_fine = (match[1] or "")[3:].strip("0")
    return moment.replace(microsecond=1) if too_fine else moment
