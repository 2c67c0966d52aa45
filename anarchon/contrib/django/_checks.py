"""System checks: what ``manage.py check`` says about the scheduler of a project.

``anarchon.E001``: the setting is wrong, or its store can't be used; nothing will run.
``anarchon.W001``: a SQLite file, which other hosts can't share.
``anarchon.W002``: a store in memory, which other processes can't share.
``anarchon.W003``: gunicorn preloads the application, and ``wsgi.py`` starts the scheduler.
``anarchon.W004``: jobs start with runserver only (told by ``check --deploy``).
``anarchon.W005``: a job was declared, or a decorator made, and no job has come of it.
``anarchon.I001``: there are jobs, and nothing starts the scheduler (told by ``check`` and
``runserver`` only: all other commands would repeat it).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.checks import Error, Info, Warning, register  # noqa: A004 - its names

from ..._texts import message_of
from ...backends.memory import MemoryBackend
from ...backends.sqlite import SqliteBackend
from ...errors import ConfigurationError
from . import _settings
from ._checks_files import gunicorn_file, starts_in_server_modules
from ._finding import lost_jobs
from ._scheduler import project_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django.core.checks import CheckMessage

    from ._checks_files import GunicornFile

_TELLING = (["check"], ["runserver"])
_TESTING = ["test"]
_SHARED = (
    'give ANARCHON["BACKEND"] a Redis URL or the alias of a PostgreSQL database; or, if all'
    " processes of this project run on one host and always will, silence this with"
    ' SILENCED_SYSTEM_CHECKS = ["anarchon.W001"]'
)
_LOST = (
    "declarations count on the functions that are written in a module of jobs: put it above one of"
    " these; let decorators above it use functools.wraps; give no other function there the same"
    " name; register the methods of a class with scheduler.register(...), and what another module"
    " declares with scheduler.register(that_module)"
)
_HOOKS = (
    "gunicorn.conf.py: `from anarchon.contrib.gunicorn import hooks` and, as its last line,"
    ' `globals().update(hooks("anarchon.contrib.django:scheduler"))`'
)


@register("anarchon")
def check_scheduler(app_configs: Any = None, **options: Any) -> list[CheckMessage]:
    """Check the setting, the store, and what starts the scheduler."""
    del app_configs, options
    problem = _problem()
    if problem is not None:
        text = f"The scheduler can't be made, so no job runs: {message_of(problem)}"
        return [Error(text, id="anarchon.E001")]
    found = [*_of_lost_jobs(), *_of_starting()]
    if not settings.DEBUG and sys.argv[1:2] != _TESTING:  # tests turn it off
        found += _of_sharing()
    return found


@register("anarchon", deploy=True)
def check_deployed(app_configs: Any = None, **options: Any) -> list[CheckMessage]:
    """Check what matters where a project is deployed: ``manage.py check --deploy``."""
    del app_configs, options
    if _problem() is not None:
        return []
    return [*_of_serving(), *(_of_sharing() if settings.DEBUG else ())]


def _problem() -> Exception | None:
    try:
        project_scheduler()
    except (ConfigurationError, ImportError) as error:
        return error
    return None


def _of_lost_jobs() -> Iterator[CheckMessage]:
    scheduler = project_scheduler()
    for declaration, module in lost_jobs(scheduler):
        yield Warning(
            f"{module} declares the job {declaration.name!r}, and nothing has defined it, so it"
            " never runs.",
            hint=_LOST,
            id="anarchon.W005",
        )
    for form in scheduler._registry.unapplied():  # noqa: SLF001 - of this package
        yield Warning(
            f"{form} was never applied to a function, so there is no such job.",
            hint="pass a handler, or put it above a function",
            id="anarchon.W005",
        )


def _of_sharing() -> Iterable[CheckMessage]:
    backend = project_scheduler()._options.backend  # noqa: SLF001 - of this package
    if isinstance(backend, SqliteBackend):
        yield Warning(
            "The store of the jobs is a SQLite file. Processes on several hosts can't share it:"
            " each host would run every job.",
            hint=_SHARED,
            id="anarchon.W001",
        )
    if isinstance(backend, MemoryBackend):
        yield Warning(
            "The store of the jobs is in memory, so that each process runs every job.",
            hint='give ANARCHON["BACKEND"] a database or a Redis URL; memory is for tests',
            id="anarchon.W002",
        )


def _of_starting() -> Iterator[CheckMessage]:
    starts, file = starts_in_server_modules(), gunicorn_file()
    if starts and file.preloads:
        yield _of_preloading(starts, file)
    is_silent = _settings.read().autostart is not None or sys.argv[1:2] not in _TELLING
    is_served = starts or (file.has_hooks and sys.argv[1:2] != ["runserver"])
    if project_scheduler().jobs and not (is_served or is_silent):
        yield Info(
            "There are jobs, and nothing seems to start the scheduler.",
            hint=(
                'for runserver, ANARCHON = {"AUTOSTART": "server"}; for gunicorn, '
                f"{_HOOKS}; for other servers, `anarchon.contrib.django.start()` at the end of"
                " wsgi.py; as a process of its own, `manage.py anarchon run`. With"
                ' "AUTOSTART": False this is not said'
            ),
            id="anarchon.I001",
        )


def _of_preloading(starts: str, file: GunicornFile) -> CheckMessage:
    where, hint = "alone", f"start it in the workers instead: {_HOOKS}"
    if file.has_hooks:
        where, hint = "as well as in its workers", f"the hooks in {file.name} are enough"
    return Warning(
        f"{starts} starts the scheduler, and {file.name} preloads the application: it would run in"
        f" gunicorn's master process {where}.",
        hint=f"take start() out of {starts}; {hint}",
        id="anarchon.W003",
    )


def _of_serving() -> Iterator[CheckMessage]:
    starts, file = starts_in_server_modules(), gunicorn_file()
    if _settings.read().autostart == "server" and not (starts or file.has_hooks):
        yield Warning(
            'ANARCHON["AUTOSTART"] = "server" starts the scheduler with runserver only, and nothing'
            " seems to start it under another server.",
            hint=f"for gunicorn, {_HOOKS}; else `anarchon.contrib.django.start()` in wsgi.py",
            id="anarchon.W004",
        )
