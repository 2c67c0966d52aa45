"""The scheduler of a project: its store and its options."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils.module_loading import import_string

from ..._durations import shown
from ..._scheduler_options import _around as check_around
from ..._store_urls import backend_at
from ..._texts import message_of, said, type_name
from ...backends.base import ClaimBackend
from ...errors import ConfigurationError
from ...scheduler import Scheduler
from . import _settings
from ._connections import around_run

if TYPE_CHECKING:
    from collections.abc import Iterable

APP = "anarchon.contrib.django"
_BACKEND = f'{_settings.NAME}["BACKEND"]'
_OPTIONS = f'{_settings.NAME}["OPTIONS"]'


class ProjectScheduler(Scheduler):
    """The scheduler of a project, which runs only where Django is set up, with all apps ready."""

    def start(self, *, retry: bool = False) -> None:
        """Start, as each scheduler does; see `Scheduler.start`.

        Raises:
            ConfigurationError: As well if Django isn't set up in this process. Some servers go
                on after a setup that failed, and show the error until a file is mended.
        """
        # `apps.ready` won't do: runserver sets that as well after a failure.
        if not apps.ready_event.is_set():
            raise ConfigurationError(
                "Django is not set up in this process, so handlers would find half a project: an"
                " app's ready() goes on, or has failed. The scheduler can start when all apps are"
                " ready, as at the end of wsgi.py and in a server's hooks"
            )
        super().start(retry=retry)


_made: dict[str, Scheduler] = {}  # the one of this project, once it is made


def project_scheduler() -> Scheduler:
    """Return the scheduler of the project, made by the first call. Nothing is connected.

    Any thread may call it.

    Raises:
        ConfigurationError: The setting `ANARCHON` can't be meant, Django is not set up, or this
            app is not among the installed ones.
        ImportError: The driver of the store is missing; the message names the extra.
    """
    return _made.get("one") or _made.setdefault("one", _new_scheduler())


def _new_scheduler() -> Scheduler:
    given = _settings.read()
    _check_installed()
    backend = _backend_of(given.backend, given.namespace)
    options = dict(given.options)
    known = [name for name in inspect.signature(Scheduler).parameters if name != "backend"]
    _settings.check_keys(options, known, _OPTIONS)
    options.setdefault("timezone", settings.TIME_ZONE or None)  # Django has none of its own then
    try:
        options["around"] = partial(around_run, check_around(options.get("around")))
        return ProjectScheduler(backend, **options)
    except ConfigurationError as error:
        raise ConfigurationError(f"{_OPTIONS}: {error}") from error


def _check_installed() -> None:
    """Refuse a scheduler that would start and run nothing, since no module of jobs is read."""
    if apps.apps_ready:
        if not apps.is_installed(APP):
            raise ConfigurationError(
                f'"{APP}" is not in INSTALLED_APPS, so no jobs.py is read and no job would run;'
                " add it there"
            )
    elif not apps.loading:
        raise ConfigurationError(
            "Django is not set up, so no jobs.py is read and no job would run; call django.setup()"
            " before the scheduler is used, as manage.py and wsgi.py do"
        )


# --- the store ----------------------------------------------------------------------


def _backend_of(given: object, namespace: str | None) -> ClaimBackend:
    """Return the backend: of an alias, an address, a dotted path, or the object itself."""
    if isinstance(given, str):
        name = given.strip()
        if name in _aliases():
            from ._databases import database_backend

            return database_backend(name, "anarchon" if namespace is None else namespace)
        # What may be a misspelled address goes on: nothing of it may be shown.
        if not any(mark in name for mark in ":/@="):
            return backend_at(_imported(name), what=_BACKEND, namespace=namespace)
    return backend_at(given, what=_BACKEND, namespace=namespace)


def _imported(path: str) -> object:
    """Return what a dotted path leads to, or what the function there returns."""
    if "." not in path:
        aliases = ", ".join(map(repr, _aliases()))
        raise ConfigurationError(
            f"{_BACKEND}: {shown(path)} is no alias of DATABASES; there are {aliases}. A URL of a"
            " store, a backend and a dotted path to one can be given as well"
        )
    try:
        found = import_string(path)
    except Exception as error:  # of the project's own code
        text = f"{_BACKEND}: {shown(path)} can't be imported: {_told(error)}"
        raise ConfigurationError(text) from error
    if not callable(found) or isinstance(found, ClaimBackend):
        return found
    try:
        return found()
    except Exception as error:
        raise ConfigurationError(f"{_BACKEND}: {shown(path)} raised {_told(error)}") from error


def _aliases() -> Iterable[str]:
    try:
        return tuple(connections.settings)
    except ImproperlyConfigured as error:
        raise ConfigurationError(f"DATABASES can't be used: {message_of(error)}") from error


def _told(error: Exception) -> str:
    """Return what an exception says, unless an address may be in it, with its password."""
    text = said(error)
    return type_name(error) if any(mark in text for mark in ("://", "@")) else text
