"""Flask: a scheduler for an app, configured by the app, whose handlers find `current_app`.

::

    from flask import Flask
    from anarchon.contrib.flask import Anarchon

    app = Flask(__name__)
    app.config["ANARCHON_BACKEND"] = "sqlite:///jobs.db"
    app.config["ANARCHON_AUTOSTART"] = True
    jobs = Anarchon(app)

    @jobs.every("sync", "10s")
    def sync(): ...
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from flask import Flask, current_app, has_app_context

from .._durations import shown
from .._jobs_declared import declared_jobs
from .._jobs_definitions import Definitions, _prefixed
from .._jobs_options import make_defaults
from .._jobs_registry import Addition, Registry
from .._lifecycle_forks import renew_in_children
from .._listening import Listeners, Listening
from .._named import NamedTuple
from ..errors import ConfigurationError
from ..scheduler import Scheduler
from ..schedules import Cron, RRule
from ._flask_cli import group
from ._flask_settings import made_scheduler, settings_of
from ._flask_start import plan_start
from ._found import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Self

    from ..context import Context
    from ..jobs import JobOptions
    from ..schedules import Schedule

    Around = Callable[[Context], AbstractContextManager[object]]

__all__ = ["Anarchon"]

NAME = "anarchon"


class _Unsaid(str):
    """The zone of a schedule that names none: UTC, unless the scheduler has another one."""

    __slots__ = ()


class _Definition(NamedTuple):
    """A job as it was defined, so that each scheduler adds its own defaults and its zone."""

    name: str
    schedule: Schedule
    handler: object
    options: JobOptions

    def on(self, scheduler: Scheduler) -> Addition:
        """Return the job as that scheduler would have it; nothing is defined."""
        schedule = _in_zone(self.schedule, scheduler._timezone)  # noqa: SLF001 - of this package
        return scheduler._addition(self.name, schedule, self.handler, self.options)  # noqa: SLF001


class Anarchon(Definitions, Listening):
    """The scheduler of a Flask app.

    Jobs are defined and events listened to as on a `Scheduler`, before `init_app` as well:
    ``every``, ``cron``, ``once``, ``rrule``, ``schedule``, ``register``, ``remove``, ``on``.
    Each handler runs in the app's context, and the ``around`` of the options in that.

    `init_app` reads the app's config, adds the commands ``flask anarchon ...``, and puts the
    `Scheduler` into ``app.extensions["anarchon"]``. It starts nothing. With
    ``ANARCHON_AUTOSTART`` the scheduler starts in the process that serves the app, and in no
    other one; without, whoever serves starts it, as the hooks for gunicorn and uWSGI do.

    Args:
        app: The app, or None where a factory will call `init_app`.
        scheduler: A scheduler to use, in place of one that the config describes.

    Raises:
        ConfigurationError: The config of the app can't be meant; the message names the key.
        ImportError: The driver of the store is missing; the message names the extra.

    Threads: any, as on a `Scheduler`; `init_app` where the app is made.
    """

    def __init__(self, app: Flask | None = None, scheduler: Scheduler | None = None) -> None:
        self._given = None if scheduler is None else checked(scheduler, "Anarchon(scheduler)")
        self._latest: Scheduler | None = None
        self._definitions: dict[str, _Definition] = {}
        self._carried: set[str] = set()  # defined for an app before the latest one
        self._registry = Registry()
        renew_in_children(self._registry)
        self._defaults = make_defaults()
        self._timezone = _Unsaid("UTC")
        self._listeners = Listeners() if self._given is None else self._given._listeners  # noqa: SLF001
        if app is not None:
            self.init_app(app)

    def __repr__(self) -> str:
        return f"<Anarchon {'without an app' if self._latest is None else repr(self._latest)}>"

    if not TYPE_CHECKING:  # for a type checker the names are simply not there

        def __getattr__(self, name: str) -> object:
            """Say where a method of the scheduler is; called for names that aren't here."""
            if hasattr(Scheduler, name) and not name.startswith("_"):
                text = (
                    f"the extension has no {name!r}, its scheduler has; write jobs.scheduler.{name}"
                )
            else:
                text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=self)

    def init_app(self, app: Flask) -> None:
        """Give an app its scheduler, with the jobs that are defined so far.

        Jobs that are defined later belong to this app, and to those that come after it.
        A second app, as factories make them in tests, gets a scheduler of its own.

        Args:
            app: The app; its config is read here, and never again.

        Raises:
            ConfigurationError: The config can't be meant, or the app has a scheduler already.
            ImportError: The driver of the store is missing; the message names the extra.
        """
        if not isinstance(app, Flask):
            raise ConfigurationError(f"init_app(): {shown(app)} is no Flask app; give the app")
        if NAME in app.extensions:
            raise ConfigurationError(f"the app {app.name!r} has a scheduler already; call it once")
        if self._given is not None and self._latest is not None:
            raise ConfigurationError(
                "one scheduler can't serve two apps; leave Anarchon(scheduler=...) out, so that"
                " each app gets one of its own"
            )
        settings = settings_of(app.config, has_scheduler=self._given is not None)
        scheduler = self._given or made_scheduler(settings)
        self._define_on(scheduler, _in_app(app, scheduler._options.around))  # noqa: SLF001 - of this package
        scheduler._listeners = self._listeners  # noqa: SLF001
        _share_forms(self._registry, scheduler._registry)  # noqa: SLF001
        if self._latest is not None:
            self._carried = set(self._definitions)
        self._latest = app.extensions[NAME] = scheduler
        app.cli.add_command(group)
        plan_start(app, scheduler, autostart=settings.autostart)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler of `current_app`, or else of the latest app.

        Raises:
            ConfigurationError: There is no app yet.
        """
        found: Scheduler | None = current_app.extensions.get(NAME) if has_app_context() else None
        found = found or self._latest
        if found is None:
            raise ConfigurationError(
                "there is no scheduler before init_app(app); call that first, or define jobs on"
                " the extension itself"
            )
        return found

    def register(self, obj: object, prefix: str = "") -> Self:
        """Define the jobs that were declared on an object's methods or in a module.

        See `Scheduler.register`.
        """
        return self._define_all(
            [
                _Definition(
                    _prefixed(prefix, declaration.name),
                    declaration.schedule_in(self._timezone),
                    handler,
                    declaration.options,
                )
                for declaration, handler in declared_jobs(obj)
            ]
        )

    def remove(self, name: str) -> bool:
        """Remove a job from the latest app, and from those to come; False when neither has it.

        See `Scheduler.remove`.
        """
        latest = self._latest
        kept = () if latest is None else latest.jobs  # let go of when no lock is held
        with self._registry.order:
            there = latest is not None and latest.remove(name)
            here = super().remove(name)
        del kept
        return here or there

    # --- what the definitions call ---

    def _define_job(
        self, name: str, schedule: Schedule, handler: object, options: JobOptions
    ) -> Self:
        return self._define_all([_Definition(name, schedule, handler, options)])

    def _removed(self, job_name: str) -> None:
        self._definitions.pop(job_name, None)
        self._carried.discard(job_name)

    # --- inside ---

    def _define_all(self, given: list[_Definition]) -> Self:
        """Define all of these jobs, here and for the latest app, or none and nowhere."""
        ours = [self._addition(*one) for one in given]
        names = [job.name for job, _ in ours]
        latest = self._latest
        theirs = [] if latest is None else [one.on(latest) for one in given]
        kept = self._registry.jobs + (() if latest is None else latest.jobs)  # as in `remove`
        with self._registry.order:
            if latest is not None:
                # It alone knows which names are taken: jobs may come and go without us there. A
                # factory defines its jobs once for each app.
                again = {name for name in self._carried if names.count(name) == 1}
                latest._add(  # noqa: SLF001 - of this package
                    [Addition(job, replace or job.name in again) for job, replace in theirs]
                )
                ours = [Addition(job, replace=True) for job, _ in ours]
            self._add(ours)
            self._definitions.update(zip(names, given, strict=True))
            self._carried.difference_update(names)
        del kept
        return self

    def _define_on(self, scheduler: Scheduler, around: Around) -> None:
        """Give a scheduler the jobs that are defined so far, or leave it as it was."""
        additions = [one.on(scheduler) for one in list(self._definitions.values())]
        before = scheduler._options  # noqa: SLF001 - of this package
        scheduler._options = before._replace(around=around)  # noqa: SLF001
        try:
            scheduler._add(additions)  # noqa: SLF001
        except ConfigurationError:
            scheduler._options = before  # noqa: SLF001
            raise


def _share_forms(ours: Registry, theirs: Registry) -> None:
    """Have the scheduler warn, when it starts, of decorators that were made but never applied."""
    theirs._forms.update(ours._forms)  # noqa: SLF001 - of this package
    ours._forms = theirs._forms  # noqa: SLF001


def _in_zone(schedule: Schedule, timezone: str | None) -> Schedule:
    """Return a schedule in the scheduler's zone, if it names none itself."""
    zone = "UTC" if timezone is None else timezone
    if isinstance(schedule, Cron) and isinstance(schedule.timezone, _Unsaid):
        return Cron(schedule.expression, zone)
    if isinstance(schedule, RRule) and isinstance(schedule.timezone, _Unsaid):
        return RRule(schedule.text, zone)
    return schedule


def _in_app(app: Flask, around: Around | None) -> Around:
    """Return what is entered around each attempt: the app's context, and in it the user's own."""

    @contextmanager
    def entered(ctx: Context) -> Iterator[None]:
        with app.app_context():
            if around is None:
                yield
            else:
                with around(ctx):
                    yield

    return entered
