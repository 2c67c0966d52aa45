"""Decorators that declare jobs on methods and functions without registering them.

    class Reports:
        @every("sync", "10s")
        def sync(self, ctx): ...

    scheduler.register(Reports())

A declaration is a note on the function, which is returned unchanged; one function may
have several. Schedule and options are checked here already, the handler's signature when
`Scheduler.register` binds it to an object.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ._durations import shown
from ._jobs_arguments import scheduled, with_parentheses
from ._jobs_handlers import check_callable
from ._jobs_options import check_options
from ._named import NamedTuple
from .errors import ConfigurationError
from .schedules import Cron, Every, Once, RRule, rrule_in, slot_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ._durations import Duration
    from .jobs import JobOptions
    from .schedules import Schedule

F = TypeVar("F", bound="Callable[..., object] | classmethod[Any, Any, Any]")

_ATTRIBUTE = "__anarchon_jobs__"
_numbers = count()
# Told of each declaration when it is made, by whoever cares what becomes of them.
watchers: list[Callable[[Declaration], object]] = []


class Declaration(NamedTuple):
    """A job that waits for its object. `number` keeps the order of the source text.

    `has_zone` is False for a cron expression or a recurrence without a timezone of its own,
    which is then read in the scheduler's.
    """

    number: int
    name: str
    schedule: Schedule
    options: JobOptions
    has_zone: bool = True

    def schedule_in(self, timezone: str | None) -> Schedule:
        """Return the schedule, read in the scheduler's timezone if it has none itself."""
        if self.has_zone or timezone is None:
            return self.schedule
        if isinstance(self.schedule, RRule):
            return RRule(self.schedule.text, timezone)
        if isinstance(self.schedule, Cron):
            return Cron(self.schedule.expression, timezone)
        return self.schedule


@with_parentheses
def every(name: str, interval: Duration, **options: Unpack[JobOptions]) -> Callable[[F], F]:
    """Declare a job at every multiple of an interval since 1970-01-01T00:00Z.

    Args:
        name: The job's name; `Scheduler.register` may put a prefix in front.
        interval: Seconds, a `timedelta`, or text such as ``"10s"``.
        options: ``overlap timeout max_attempts catch_up jitter data on_crash
            expect_within pass_context replace enabled description tags``, as in `JobOptions`.

    Raises:
        ConfigurationError: The name, the interval or an option is wrong.
    """
    return _declare(name, scheduled("every", name, interval, Every), options)


@with_parentheses
def cron(
    name: str, expression: str, *, timezone: str | None = None, **options: Unpack[JobOptions]
) -> Callable[[F], F]:
    """Declare a job at the wall times of a cron expression.

    Args:
        name: The job's name; `Scheduler.register` may put a prefix in front.
        expression: As for `Cron`.
        timezone: The key of a zone; by default the scheduler's, or else UTC.
        options: As for `every`.

    Raises:
        ConfigurationError: The name, the expression, the zone or an option is wrong.
    """
    zone = "UTC" if timezone is None else timezone
    schedule = scheduled("cron", name, expression, partial(Cron, timezone=zone))
    return _declare(name, schedule, options, has_zone=timezone is not None)


@with_parentheses
def once(
    name: str, at: datetime | str, *, timezone: str | None = None, **options: Unpack[JobOptions]
) -> Callable[[F], F]:
    """Declare a job that is due one time.

    Args:
        name: The job's name; `Scheduler.register` may put a prefix in front.
        at: An aware datetime or ISO text with an offset, or without one and `timezone`.
        timezone: The key of a zone for a time without an offset.
        options: As for `every`.

    Raises:
        ConfigurationError: The name, the time, the zone or an option is wrong.
    """
    slot = scheduled("once", name, at, partial(Once, timezone=timezone))
    return _declare(name, slot, options)


@with_parentheses
def rrule(
    name: str, text: str, *, timezone: str | None = None, **options: Unpack[JobOptions]
) -> Callable[[F], F]:
    """Declare a job at the wall times of an RFC 5545 recurrence.

    Args:
        name: The job's name; `Scheduler.register` may put a prefix in front.
        text: As for `RRule`.
        timezone: The key of a zone; by default the one that DTSTART names, or else the
            scheduler's, or else UTC.
        options: As for `every`.

    Raises:
        ConfigurationError: The name, the text, the zone or an option is wrong.
    """
    make = partial(rrule_in, timezone=timezone, default=None)
    found = scheduled("rrule", name, text, make)
    return _declare(name, found, options, has_zone=timezone is not None or found.names_zone)


@with_parentheses
def schedule(name: str, schedule: Schedule, **options: Unpack[JobOptions]) -> Callable[[F], F]:
    """Declare a job at the slots of a schedule object.

    Args:
        name: The job's name; `Scheduler.register` may put a prefix in front.
        schedule: An object with ``next_after(t)`` and ``latest(t)``.
        options: As for `every`.

    Raises:
        ConfigurationError: The name, the schedule or an option is wrong.
    """
    scheduled("schedule", name, schedule, slot_source)
    return _declare(name, schedule, options)


def declarations(function: object) -> tuple[Declaration, ...]:
    """Return what was declared on a function, or on what a static or class method wraps."""
    target = _target(function)
    found = getattr(target, "__dict__", {}).get(_ATTRIBUTE, ())
    return found if isinstance(found, tuple) else ()


def _declare(
    name: str, schedule: Schedule, options: JobOptions, *, has_zone: bool = True
) -> Callable[[F], F]:
    check_options(name, options)
    declaration = Declaration(next(_numbers), name, schedule, options, has_zone)
    for tell in tuple(watchers):
        tell(declaration)

    def decorate(function: F) -> F:
        target = _target(function)
        check_callable(target, name)
        try:
            # The decorators below this one have added theirs already.
            setattr(target, _ATTRIBUTE, (declaration, *declarations(target)))
        except (AttributeError, TypeError):
            raise ConfigurationError(
                f"job {name!r}: {shown(function)} can't carry a declaration; decorate a function"
                " that calls it"
            ) from None
        return function

    return decorate


def _target(function: object) -> object:
    if isinstance(function, staticmethod | classmethod):
        return function.__func__
    return function
