"""What the words of a command line mean: which kind of schedule, and which time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from ._durations import shown
from ._schedules_wall import load_zone
from ._values import instant
from .errors import ConfigurationError
from .schedules import Cron, Every, Once, RRule

if TYPE_CHECKING:
    from collections.abc import Sequence

Checkable: TypeAlias = Every | Cron | Once | RRule

# No cron expression holds any of these.
_RECURRENCE = re.compile(r"FREQ=|RRULE|DTSTART|RDATE|EXDATE|EXRULE|BEGIN:V", re.IGNORECASE)
_EVERY = re.compile(r"every\b\s*(.*)", re.IGNORECASE | re.DOTALL)
# Amounts with units, in one word or in several, and durations of ISO 8601. No cron expression
# looks like these: its first two fields have no letters but H and R, which are refused.
_INTERVAL = re.compile(r"[0-9]\S*|(?:[0-9.,]+\s*[a-zA-Z]+\s*)+|[Pp][0-9Tt][0-9A-Za-z.,]*")
_ONE_OFF = re.compile(r"[0-9]{4}-[0-9].*|[0-9]{8}T.*", re.DOTALL)
_YEARS = (1971, 8999)  # well inside those that datetime knows


def joined(words: Sequence[str]) -> str:
    """Return the words of a schedule as one text.

    Raises:
        ConfigurationError: They are several, and not an interval; a shell makes names of files
            of what is not in quotes.
    """
    text = " ".join(words)
    if len(words) > 1 and not (_EVERY.fullmatch(text) or _INTERVAL.fullmatch(text)):
        raise ConfigurationError(
            f'it has {len(words)} words; put the schedule in quotes: "0 8 * * 1-5"'
        )
    return text


def read_schedule(text: str, timezone: str | None) -> Checkable:
    r"""Return the schedule that a text means.

    Args:
        text: A cron expression, an interval such as ``90m`` or ``every 90m``, the ISO time of
            a one-off, or RFC 5545 text, whose lines may be separated by ``\n`` in letters.
        timezone: The key of the zone; by default the one that the text names, or UTC.

    Raises:
        ConfigurationError: The text or the zone is wrong.
    """
    text = text.strip()
    if _RECURRENCE.search(text):
        return RRule(text.replace("\\n", "\n"), timezone)
    if found := _EVERY.fullmatch(text):
        return Every(found[1])
    if _ONE_OFF.fullmatch(text):
        return Once(text, timezone)
    if _INTERVAL.fullmatch(text):
        return Every(text)
    return Cron(text, timezone or "UTC")


def local_time(text: str) -> datetime | None:
    """Return the time that the text of a one-off names without an offset; None for others."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.utcoffset() is None else None


def read_moment(text: str, timezone: str | None) -> datetime:
    """Return the instant that an ISO text names, in UTC.

    Args:
        text: A date, which means its midnight, or a time, with an offset or without.
        timezone: The key of the zone in which a text without an offset is read; by default UTC.

    Raises:
        ValueError: The text is no such time; the message says what to write.
        ConfigurationError: No zone of that name was found.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{shown(text)} is no ISO date or time; write it like 2026-12-01,"
            " 2026-12-01T09:00 (in --timezone) or 2026-12-01T09:00:00Z"
        ) from None
    if not _YEARS[0] <= moment.year <= _YEARS[1]:
        raise ValueError(f"{shown(text)}: give a year from {_YEARS[0]} to {_YEARS[1]}")
    if moment.utcoffset() is not None:
        return moment.astimezone(UTC)
    wall = moment.replace(tzinfo=UTC)  # the same reading, of a clock that never changes
    wall_ms = int(wall.timestamp()) * 1000 + moment.microsecond // 1000
    return instant(load_zone(timezone or "UTC").first_instant_ms(wall_ms))
