"""Times, durations, schedules and texts as the pages show them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from .._commands_rows import _printable
from .._durations import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ..jobs import Job

_MILLISECOND = timedelta(milliseconds=1)
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


def span(ms: float) -> str:
    """Return a duration in two units at most: ``203 ms``, ``4.2 s``, ``3 m 20 s``, ``2 d``."""
    ms = max(ms, 0)
    if ms < 1000:
        return f"{round(ms)} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f}".removesuffix(".0") + " s"
    seconds = round(ms / 1000) * 1000
    for place, (unit_ms, unit) in enumerate(_UNITS):
        if seconds >= unit_ms:
            whole, rest = divmod(seconds, unit_ms)
            if place + 1 < len(_UNITS):
                lesser_ms, lesser = _UNITS[place + 1]
                if rest >= lesser_ms:
                    return f"{whole} {unit} {rest // lesser_ms} {lesser}"
            return f"{whole} {unit}"
    return f"{round(ms)} ms"


def stamp(when: datetime) -> str:
    """Return an instant in UTC, with milliseconds if it has any."""
    precision = "milliseconds" if when.microsecond else "seconds"
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(" ", precision)


def iso(when: datetime) -> str:
    """Return an instant as machines read it."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def relative(when: datetime, now: datetime) -> str:
    """Return how far an instant is from now: ``in 5 m``, ``3 s ago``."""
    ms = (when - now) // _MILLISECOND
    if abs(ms) < 1000:
        return "now"
    # Nobody reads the seconds of an hour.
    coarse = next((unit for unit, _ in _UNITS if abs(ms) >= 10 * unit), 1000)
    told = span(abs(ms) // coarse * coarse)
    return f"in {told}" if ms > 0 else f"{told} ago"


def printable(text: object) -> str:
    """Return a text in which nothing moves, hides or turns round what stands beside it."""
    return _printable(str(text), keep="\n\t")


def one_line(text: str) -> str:
    """Return a text in which nothing moves, in one line."""
    return _printable(text)


def schedule_words(job: Job) -> str:
    """Return the schedule of a job in words, as far as it has any."""
    describe: Callable[[], str] | None = getattr(job.schedule, "describe", None)
    if describe is not None:
        # The package for the words of cron may be missing, and a schedule may be anything.
        with suppress(Exception):
            return str(describe())
    return shown(job.schedule)
