"""Schedules: which instants are the slots of a job.

Slots are what instances agree on without talking, so a schedule is a pure function of
its arguments (and, for wall times, of the time zone data): every instance computes the
same slots, forwards and backwards. Every schedule obeys these laws, for aware `t`:

- ``next_after(t)`` is the least slot greater than `t`, ``latest(t)`` the greatest slot
  at or before `t`; None when there is none.
- ``latest(next_after(t)) == next_after(t)`` and
  ``next_after(latest(t)) == next_after(t)``.

Any object with these two methods can be a job's schedule. The classes here are
immutable, compare by value, and are safe from any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ._durations import check_askable, duration_text, parse_ms, shown
from ._schedules_base import Schedule, Slots
from ._values import instant
from .errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import datetime

    from ._durations import Duration
    from ._messages import (
        SlotSource,
    )
    from ._schedules_wall import WallSlots

__all__ = ["Cron", "Every", "Once", "RRule", "Schedule", "either", "slot_source"]

MINIMUM_PERIOD_MS = 100


class Every(Slots):
    """Slots on a fixed grid, counted from 1970-01-01T00:00Z for every period.

    Args:
        period: Seconds, a `timedelta`, or text such as ``"10s"`` or ``"1h30m"``; whole
            milliseconds, at least 100.

    Raises:
        ConfigurationError: The period is no such duration.
    """

    __slots__ = ("_period_ms",)

    def __init__(self, period: Duration) -> None:
        self._period_ms = parse_ms(
            period, what="interval", minimum_ms=MINIMUM_PERIOD_MS, exact=True
        )

    @property
    def period_ms(self) -> int:
        """The distance of two slots in milliseconds."""
        return self._period_ms

    def next_after_ms(self, t_ms: int) -> int:
        """Return the least slot greater than `t_ms`, in milliseconds since 1970 UTC."""
        return (t_ms // self._period_ms + 1) * self._period_ms

    def latest_ms(self, t_ms: int) -> int:
        """Return the greatest slot at or before `t_ms`, in milliseconds since 1970 UTC."""
        return t_ms // self._period_ms * self._period_ms

    def describe(self) -> str:
        """Return the period in words: ``every 1h30m``."""
        return f"every {duration_text(self._period_ms)}"

    def _value(self) -> tuple[object, ...]:
        return (self._period_ms,)

    def __repr__(self) -> str:
        """Return the call that makes this schedule."""
        return f"Every({duration_text(self._period_ms)!r})"


class _InZone(Slots):
    """The slots of wall times in a time zone."""

    __slots__ = ("_source", "_timezone")

    _source: WallSlots
    _timezone: str

    @property
    def timezone(self) -> str:
        """The key of the zone."""
        return self._timezone

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`, in milliseconds since 1970 UTC."""
        return self._source.next_after_ms(t_ms)

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`, in milliseconds since 1970 UTC."""
        return self._source.latest_ms(t_ms)


class Cron(_InZone):
    """Slots at the wall times that a cron expression names in a time zone.

    Where clocks change, a job at fixed times has exactly one slot: at the first instant
    after a gap that holds any of its times, and in the first pass of a repeated hour. A
    job whose second, minute or hour starts with ``*``, or whose hours are all 24, goes by
    the clock: nothing extra after a gap, and both passes of a repeated hour.

    Args:
        expression: Five fields (minute, hour, day of month, month, weekday), six with
            seconds first, seven with the year last, or an alias such as ``@daily``.
        timezone: The key of a zone, such as ``"Europe/Athens"``.

    Raises:
        ConfigurationError: The expression is wrong or can never match, or no zone of
            that name was found.
    """

    __slots__ = ("_expression",)

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        from ._schedules_cron import parse
        from ._schedules_walk import CronWalk
        from ._schedules_wall import WallSlots, load_zone

        fields = parse(expression)
        zone = load_zone(timezone)
        self._source = WallSlots(CronWalk(fields), zone, wildcard=fields.wildcard)
        self._expression = " ".join(expression.split())
        self._timezone = timezone

    @property
    def expression(self) -> str:
        """The expression, with single blanks between the fields."""
        return self._expression

    def describe(self) -> str:
        """Return the expression in English, with the zone unless it is UTC.

        Raises:
            ImportError: The extra ``anarchon[describe]`` is not installed.
        """
        from ._schedules_words import cron_words

        return cron_words(self._expression, self._timezone)

    def _value(self) -> tuple[object, ...]:
        return self._expression, self._timezone

    def __repr__(self) -> str:
        """Return the call that makes this schedule."""
        return f"Cron({self._expression!r}, timezone={self._timezone!r})"


class Once(Slots):
    """One slot.

    Args:
        at: An aware datetime, or ISO text with an offset (``2026-12-01T09:00:00Z``). A
            time without an offset is read in `timezone`: the first of two times when
            clocks go back, the first instant after the gap when they go forward.
        timezone: The key of a zone; needed for a time without an offset only.

    Raises:
        ConfigurationError: `at` names no instant, or not the same one on every instance:
            a `timedelta`, a date, a time without a zone, or one finer than a millisecond.
    """

    __slots__ = ("_slot_ms",)

    def __init__(self, at: datetime | str, timezone: str | None = None) -> None:
        from ._schedules_once import one_off_ms

        self._slot_ms = one_off_ms(at, timezone)

    @property
    def slot_ms(self) -> int:
        """The slot in milliseconds since 1970 UTC."""
        return self._slot_ms

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the slot if it is greater than `t_ms`, in milliseconds since 1970 UTC."""
        return self._slot_ms if self._slot_ms > t_ms else None

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the slot if it is at or before `t_ms`, in milliseconds since 1970 UTC."""
        return self._slot_ms if self._slot_ms <= t_ms else None

    def describe(self) -> str:
        """Return the slot in words: ``once at 2026-12-01T09:00:00Z``."""
        is_whole_second = self._slot_ms % 1000 == 0
        return f"once at {self._text('seconds' if is_whole_second else 'milliseconds')}"

    def _text(self, precision: str) -> str:
        return instant(self._slot_ms).isoformat(timespec=precision).replace("+00:00", "Z")

    def _value(self) -> tuple[object, ...]:
        return (self._slot_ms,)

    def __repr__(self) -> str:
        """Return the call that makes this schedule, with the instant in UTC."""
        return f"Once({self._text('milliseconds')!r})"


class RRule(_InZone):
    """Slots at the wall times that an RFC 5545 recurrence names in a time zone.

    Where clocks change, a rule has exactly one slot: at the first instant after a gap that
    holds any of its times, and in the first pass of a repeated hour. Slots end with the year
    2369.

    Args:
        text: The lines DTSTART (the local time that the rule counts from), RRULE, RDATE and
            EXDATE; FREQ is YEARLY, MONTHLY, WEEKLY, DAILY, or HOURLY with a DTSTART in the
            last ten years. Without an RRULE, DTSTART is a slot itself.
        timezone: The key of the zone; by default the one that DTSTART names with TZID, or
            else UTC.

    Raises:
        ConfigurationError: The text is wrong or names no slot at all, or no zone of that
            name was found.
    """

    __slots__ = ("_lines",)

    def __init__(self, text: str, timezone: str | None = None) -> None:
        from ._schedules_rrule import parse
        from ._schedules_rrule_walk import RecurrenceWalk
        from ._schedules_wall import WallSlots

        found = parse(text, timezone)
        walk = RecurrenceWalk(found)
        if walk.after(-1) is None:
            raise ConfigurationError(
                f"rrule {shown(text)}: no date ever matches it; correct the rule, UNTIL or EXDATE"
            )
        self._source = WallSlots(walk, found.zone, wildcard=False)
        self._lines = found.lines
        self._timezone = found.timezone

    @property
    def names_zone(self) -> bool:
        """Whether DTSTART names a zone, with TZID, or UTC with a Z."""
        from ._schedules_rrule import named_zone

        return named_zone(self.text) is not None

    @property
    def text(self) -> str:
        """The lines, unfolded and in capitals."""
        return "\n".join(self._lines)

    def describe(self) -> str:
        """Return the rule as it is written, and the time and the zone it counts from."""
        from ._schedules_rrule import words

        return words(self._lines, self._timezone)

    def _value(self) -> tuple[object, ...]:
        return self._lines, self._timezone

    def __repr__(self) -> str:
        """Return the call that makes this schedule."""
        return f"RRule({self.text!r}, timezone={self._timezone!r})"


def rrule_in(text: str, *, timezone: str | None, default: str | None) -> RRule:
    """Return a recurrence in a zone, or else in the one it names, or else in the default."""
    from ._schedules_rrule import named_zone

    is_free = timezone is None and default is not None and named_zone(text) is None
    return RRule(text, default if is_free else timezone)


def either(*schedules: Schedule) -> Slots:
    """Return the schedule whose slots are those of all of these.

    Args:
        schedules: Two or more; a slot that several of them have is one.

    Raises:
        ConfigurationError: There are fewer than two, or one is no schedule.
    """
    from ._schedules_combined import Either

    return Either(schedules)


def slot_source(schedule: object) -> SlotSource:
    """Return a schedule in the form that the core asks: in milliseconds.

    Objects of others are adapted; what those return is then checked against the laws each
    time, and a breach raises `ConfigurationError`.

    Raises:
        ConfigurationError: The object has no ``next_after(t)`` and ``latest(t)``.
    """
    check_askable(schedule, "schedule")
    if isinstance(schedule, Slots):
        return schedule
    if isinstance(schedule, type):
        name = schedule.__name__
        raise ConfigurationError(f"schedule {name} is a class; give an object of it: {name}(...)")
    if _has(schedule, "next_after", "latest"):
        from ._schedules_user import Adapted

        return Adapted(cast("Schedule", schedule))
    raise ConfigurationError(
        f"schedule {shown(schedule)} has no next_after(t) and latest(t);"
        " give Every(...), Cron(...), Once(...), RRule(...) or an object with these two methods"
    )


def _has(schedule: object, *methods: str) -> bool:
    return all(callable(getattr(schedule, method, None)) for method in methods)
