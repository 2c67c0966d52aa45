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

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, cast

from ._durations import duration_text, parse_ms, shown
from ._values import instant
from .errors import ConfigurationError

if TYPE_CHECKING:
    from ._durations import Duration
    from ._messages import (
        SlotSource,
    )

MINIMUM_PERIOD_MS = 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Schedule(Protocol):
    """What a schedule object must have; times are aware, and slots are as well."""

    def next_after(self, t: datetime, /) -> datetime | None:
        """Return the least slot greater than `t`, or None if there is no more."""
        ...

    def latest(self, t: datetime, /) -> datetime | None:
        """Return the greatest slot at or before `t`, or None if there is none."""
        ...


class _Slots(ABC):
    """The public methods of a schedule, on top of those in milliseconds."""

    __slots__ = ()

    @abstractmethod
    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`, in milliseconds since 1970 UTC."""

    @abstractmethod
    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`, in milliseconds since 1970 UTC."""

    @abstractmethod
    def describe(self) -> str:
        """Return one line of plain English that says when the slots are."""

    @abstractmethod
    def _value(self) -> tuple[object, ...]:
        """Return what two equal schedules have in common."""

    def next_after(self, t: datetime) -> datetime | None:
        """Return the least slot greater than `t`, in UTC, or None if there is no more.

        Raises:
            ConfigurationError: `t` is not an aware datetime.
        """
        return _moment(self.next_after_ms(_floor_ms(t, "next_after")))

    def latest(self, t: datetime) -> datetime | None:
        """Return the greatest slot at or before `t`, in UTC, or None if there is none.

        Raises:
            ConfigurationError: `t` is not an aware datetime.
        """
        return _moment(self.latest_ms(_floor_ms(t, "latest")))

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        if type(other) is not type(self):
            return NotImplemented
        return self._value() == other._value()

    def __hash__(self) -> int:
        """Hash by value."""
        return hash((type(self), self._value()))


def _floor_ms(t: object, method: str) -> int:
    if not isinstance(t, datetime) or t.utcoffset() is None:
        raise ConfigurationError(
            f"{method}({shown(t)}): the time has no zone; give an aware datetime,"
            " such as datetime.now(timezone.utc)"
        )
    # Slots are whole milliseconds: what is after t is after its last whole millisecond.
    return (t - _EPOCH) // _MILLISECOND


def _moment(ms: int | None) -> datetime | None:
    try:
        return None if ms is None else instant(ms)
    except OverflowError:  # outside the years that datetime knows
        return None


class Every(_Slots):
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


class Cron(_Slots):
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

    __slots__ = ("_expression", "_source", "_timezone")

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


class Once(_Slots):
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


class _Adapted:
    """A schedule object of somebody else, asked in milliseconds and checked."""

    __slots__ = ("_schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def next_after_ms(self, t_ms: int) -> int | None:
        t = instant(t_ms)
        slot = self._checked(self._schedule.next_after(t), "next_after", t)
        if slot is not None and slot <= t_ms:
            raise self._broken("next_after", t, slot, "which is not after it")
        return slot

    def latest_ms(self, t_ms: int) -> int | None:
        t = instant(t_ms)
        slot = self._checked(self._schedule.latest(t), "latest", t)
        if slot is not None and slot > t_ms:
            raise self._broken("latest", t, slot, "which is after it")
        return slot

    def _checked(self, result: object, method: str, t: datetime) -> int | None:
        if result is None:
            return None
        if not isinstance(result, datetime) or result.utcoffset() is None:
            raise ConfigurationError(
                f"schedule {shown(self._schedule)}: {method}({t.isoformat()}) returned"
                f" {shown(result)}; return an aware datetime, or None if there is no slot"
            )
        # Rounding up keeps both laws, and no run starts before the time that was named.
        return -((_EPOCH - result) // _MILLISECOND)

    def _broken(self, method: str, t: datetime, slot_ms: int, how: str) -> ConfigurationError:
        law = "least slot greater than" if method == "next_after" else "greatest slot up to"
        return ConfigurationError(
            f"schedule {shown(self._schedule)}: {method}({t.isoformat()}) returned"
            f" {instant(slot_ms).isoformat()}, {how}; return the {law} the time it is given"
        )


def slot_source(schedule: object) -> SlotSource:
    """Return a schedule in the form that the core asks: in milliseconds.

    Objects without ``next_after_ms`` and ``latest_ms`` are adapted; what those return is
    then checked against the laws each time, and a breach raises `ConfigurationError`.

    Raises:
        ConfigurationError: The object has no ``next_after(t)`` and ``latest(t)``.
    """
    if isinstance(schedule, type):
        name = schedule.__name__
        raise ConfigurationError(f"schedule {name} is a class; give an object of it: {name}(...)")
    if _has(schedule, "next_after_ms", "latest_ms"):
        return cast("SlotSource", schedule)
    if _has(schedule, "next_after", "latest"):
        return _Adapted(cast("Schedule", schedule))
    raise ConfigurationError(
        f"schedule {shown(schedule)} has no next_after(t) and latest(t);"
        " give Every(...), Cron(...), Once(...) or an object with these two methods"
    )


def _has(schedule: object, *methods: str) -> bool:
    return all(callable(getattr(schedule, method, None)) for method in methods)
