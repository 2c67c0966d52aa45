"""The part of the scheduler that defines jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack, overload

from ._durations import shown
from ._jobs_arguments import scheduled, with_parentheses
from ._jobs_declared import declared_jobs
from ._jobs_handlers import Handler
from ._jobs_options import check_options
from ._jobs_registry import Addition, checked_text
from ._listening import UNSET
from .errors import ConfigurationError
from .schedules import Cron, Every, Once, rrule_in, slot_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Self

    from ._durations import Duration
    from ._jobs_options import Defaults
    from ._jobs_registry import Registry
    from .jobs import Job, JobOptions
    from .schedules import Schedule

F = TypeVar("F", bound=Handler)


class Definitions:
    """The methods of a scheduler that define jobs.

    Each may be called before and after `start`, from any thread. With a handler they
    return the scheduler, so that calls chain; without one they are decorators that
    return the function unchanged.

    The host sets the three attributes below, and overrides `_check`, `_defined` and `_removed`
    to learn of changes; the last two are called one at a time, in the order of the changes.
    """

    _registry: Registry
    _defaults: Defaults
    _timezone: str | None

    def _check(self, job: Job) -> None:
        """Raise `ConfigurationError` for a job that can't be had here; called before the change."""

    def _defined(self, job: Job) -> None:
        """A job was added or put in the place of another; called after the change."""

    def _removed(self, job_name: str) -> None:
        """A job was removed; called after the change."""

    @overload
    def every(
        self, name: str, interval: Duration, handler: Handler, **options: Unpack[JobOptions]
    ) -> Self: ...
    @overload
    def every(
        self, name: str, interval: Duration, **options: Unpack[JobOptions]
    ) -> Callable[[F], F]: ...
    @with_parentheses
    def every(
        self,
        name: str,
        interval: Duration,
        handler: Handler = UNSET,
        **options: Unpack[JobOptions],
    ) -> Self | Callable[[F], F]:
        """Run a job at every multiple of an interval since 1970-01-01T00:00Z.

        Args:
            name: 1 to 200 printable characters, the same on every instance.
            interval: Seconds, a `timedelta`, or text such as ``"10s"``; whole
                milliseconds, at least 100.
            handler: A function of the context, or of nothing; plain or ``async def``.
            options: ``overlap timeout max_attempts catch_up jitter data on_crash
                expect_within pass_context replace enabled description tags``, as in `JobOptions`.

        Raises:
            ConfigurationError: Something can't be as given; nothing was defined.
        """
        schedule = scheduled("every", name, interval, Every)
        return self._define("every", name, schedule, handler, options)

    @overload
    def cron(
        self,
        name: str,
        expression: str,
        handler: Handler,
        *,
        timezone: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Self: ...
    @overload
    def cron(
        self,
        name: str,
        expression: str,
        *,
        timezone: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[F], F]: ...
    @with_parentheses
    def cron(
        self,
        name: str,
        expression: str,
        handler: Handler = UNSET,
        *,
        timezone: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Self | Callable[[F], F]:
        """Run a job at the wall times of a cron expression.

        Args:
            name: 1 to 200 printable characters, the same on every instance.
            expression: Five fields, six with seconds first, seven with the year last, or
                an alias; as for `Cron`.
            handler: A function of the context, or of nothing; plain or ``async def``.
            timezone: The key of a zone; by default the scheduler's, or else UTC.
            options: As for `every`.

        Raises:
            ConfigurationError: Something can't be as given; nothing was defined.
        """
        zone = self._timezone if timezone is None else timezone
        schedule = scheduled(
            "cron", name, expression, partial(Cron, timezone="UTC" if zone is None else zone)
        )
        return self._define("cron", name, schedule, handler, options)

    @overload
    def once(
        self,
        name: str,
        at: datetime | str,
        handler: Handler,
        *,
        timezone: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Self: ...
    @overload
    def once(
        self,
        name: str,
        at: datetime | str,
        *,
        timezone: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[F], F]: ...
    @with_parentheses
    def once(
        self,
        name: str,
        at: datetime | str,
        handler: Handler = UNSET,
        *,
        timezone: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Self | Callable[[F], F]:
        """Run a job one time.

        Args:
            name: 1 to 200 printable characters, the same on every instance.
            at: An aware datetime or ISO text with an offset, the same instant on every
                instance; without an offset, `timezone` is needed.
            handler: A function of the context, or of nothing; plain or ``async def``.
            timezone: The key of a zone for a time without an offset.
            options: As for `every`.

        Raises:
            ConfigurationError: Something can't be as given; nothing was defined.
        """
        schedule = scheduled("once", name, at, partial(Once, timezone=timezone))
        return self._define("once", name, schedule, handler, options)

    @overload
    def rrule(
        self,
        name: str,
        text: str,
        handler: Handler,
        *,
        timezone: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Self: ...
    @overload
    def rrule(
        self,
        name: str,
        text: str,
        *,
        timezone: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[F], F]: ...
    @with_parentheses
    def rrule(
        self,
        name: str,
        text: str,
        handler: Handler = UNSET,
        *,
        timezone: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Self | Callable[[F], F]:
        """Run a job at the wall times of an RFC 5545 recurrence.

        Args:
            name: 1 to 200 printable characters, the same on every instance.
            text: The lines DTSTART, RRULE, RDATE and EXDATE; as for `RRule`.
            handler: A function of the context, or of nothing; plain or ``async def``.
            timezone: The key of a zone; by default the one that DTSTART names, or else
                the scheduler's, or else UTC.
            options: As for `every`.

        Raises:
            ConfigurationError: Something can't be as given; nothing was defined.
        """
        make = partial(rrule_in, timezone=timezone, default=self._timezone)
        return self._define("rrule", name, scheduled("rrule", name, text, make), handler, options)

    @overload
    def schedule(
        self, name: str, schedule: Schedule, handler: Handler, **options: Unpack[JobOptions]
    ) -> Self: ...
    @overload
    def schedule(
        self, name: str, schedule: Schedule, **options: Unpack[JobOptions]
    ) -> Callable[[F], F]: ...
    @with_parentheses
    def schedule(
        self,
        name: str,
        schedule: Schedule,
        handler: Handler = UNSET,
        **options: Unpack[JobOptions],
    ) -> Self | Callable[[F], F]:
        """Run a job at the slots of a schedule object.

        Args:
            name: 1 to 200 printable characters, the same on every instance.
            schedule: An object with ``next_after(t)`` and ``latest(t)``, which must give
                the same slots on every instance.
            handler: A function of the context, or of nothing; plain or ``async def``.
            options: As for `every`.

        Raises:
            ConfigurationError: Something can't be as given; nothing was defined.
        """
        scheduled("schedule", name, schedule, slot_source)
        return self._define("schedule", name, schedule, handler, options)

    def register(self, obj: object, prefix: str = "") -> Self:
        """Define the jobs that were declared on an object's methods or in a module.

        Of an object: its decorated methods, inherited ones as well. A method that
        overrides a decorated one takes its place, and its declaration too if it has none
        itself. Of a module: the decorated functions that were written in it. A single
        decorated function may be given as well.

        Args:
            obj: The object, module or function.
            prefix: Text to put in front of each job's name.

        Raises:
            ConfigurationError: It is a class, declares nothing, or one of its jobs is
                refused; then none was defined.
        """
        additions = []
        for declaration, handler in declared_jobs(obj):
            options = declaration.options
            schedule = declaration.schedule_in(self._timezone)
            name = _prefixed(prefix, declaration.name)
            additions.append(self._addition(name, schedule, handler, options))
        self._add(additions)
        return self

    def remove(self, name: str) -> bool:
        """Stop scheduling and watching a job here; False when there is none of this name.

        A run in progress here finishes, records stay, and other instances go on.

        Raises:
            ConfigurationError: The name is no text.
        """
        return self._registry.remove(checked_text(name), self._removed)

    def _define(
        self, form: str, name: str, schedule: Schedule, handler: object, options: JobOptions
    ) -> Self | Callable[[F], F]:
        if handler is not UNSET:
            return self._define_job(name, schedule, handler, options)
        check_options(name, options)
        registry, mark = self._registry, object()
        registry.expect(mark, f"@{form}({name!r}, ...) on {shown(schedule)}")

        def decorate(function: F) -> F:
            registry.applied(mark)
            self._define_job(name, schedule, function, options)
            return function

        return decorate

    def _define_job(
        self, name: str, schedule: Schedule, handler: object, options: JobOptions
    ) -> Self:
        self._add([self._addition(name, schedule, handler, options)])
        return self

    def _addition(
        self, name: str, schedule: Schedule, handler: object, options: JobOptions
    ) -> Addition:
        from .jobs import build_job

        job = build_job(name, schedule, handler, options, self._defaults)
        self._check(job)
        return Addition(job, options.get("replace", False))

    def _add(self, additions: list[Addition]) -> None:
        self._registry.add_all(additions, self._defined)


def _prefixed(prefix: object, name: str) -> str:
    if not isinstance(prefix, str):
        raise ConfigurationError(f"prefix {shown(prefix)} is not text; give a str")
    return prefix + name
