"""Instants as users write them, turned once into whole milliseconds."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from ._durations import check_askable, shown
from ._values import LATEST_MS, milliseconds
from .errors import ConfigurationError


def instant_ms(given: object, what: str, kind: str = "instant") -> int:
    """Return an instant in whole milliseconds since 1970 UTC, rounded down.

    Args:
        given: Such milliseconds, an aware datetime, or ISO text with an offset.
        what: The name of the argument, for the message.
        kind: What the instant is, for the message.

    Raises:
        ConfigurationError: It is none of them, or not between 1970 and 9999.
    """
    check_askable(given, what)
    found: object = given
    if isinstance(given, str):
        with suppress(ValueError):
            found = datetime.fromisoformat(given)
    if isinstance(found, datetime) and found.utcoffset() is not None:
        found = milliseconds(found)
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < LATEST_MS:
        return int(found)
    raise ConfigurationError(
        f"{what}: {shown(given)} is no {kind}; give milliseconds since 1970 UTC, an aware datetime,"
        ' or ISO text with an offset such as "2026-12-01T09:00:00Z"'
    )
