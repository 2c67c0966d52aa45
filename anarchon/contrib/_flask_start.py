"""Where and when the scheduler of an app starts by itself: in the process that serves.

An app is imported in many processes that don't serve: by every command of Flask's command
line, by the parent of the reloader, by the master of a server that preloads. And while it is
imported it is not complete, so that a job that began then might find half of a module. So
nothing starts there. It starts when ``flask run`` has loaded the app that it is going to serve,
when `app.run` is called in the reloader's child, and else with the first request. Whatever
serves brings one, also a command of somebody's own, and nothing else does.

The request is met in front of the app and not by `before_request`: there a function that was
registered sooner may answer by itself, or raise, and no later one is called.
"""

from __future__ import annotations

import os
import sys
import time
from functools import wraps
from logging import WARNING
from typing import TYPE_CHECKING, Any

import click
from flask.cli import ScriptInfo, run_command
from flask.helpers import get_debug_flag
from werkzeug.serving import is_running_from_reloader

from .._clock import Clock
from .._lifecycle_thread import LifeThread
from .._log_lines import Line, trouble, write
from .._texts import counted
from ._flask_settings import AUTOSTART

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from wsgiref.types import StartResponse, WSGIEnvironment

    from flask import Flask

    from ..scheduler import Scheduler

_LOAD_SECONDS = 60.0  # an app that takes longer starts its scheduler with the first request
_LOOK_SECONDS = 0.02


def plan_start(app: Flask, scheduler: Scheduler, *, autostart: bool | None) -> None:
    """Have the scheduler start where the app is served (True), or say that it doesn't (None)."""
    if autostart is False:
        return
    start = Start(app, scheduler, autostart=bool(autostart))
    _start_when_served(app, start)
    _start_in_run(app, start)
    context = click.get_current_context(silent=True)
    info = None if context is None else context.find_object(ScriptInfo)
    if not autostart or context is None or info is None:
        return
    if context.command is run_command and not _is_parent(context.params.get("reload")):
        _start_when_loaded(app, info, start)


def _is_parent(reload: bool | None) -> bool:  # noqa: FBT001 - as the command line has it
    """Return whether this is the process that only watches its child, which serves."""
    reloads = get_debug_flag() if reload is None else reload
    return reloads and not is_running_from_reloader()


class Start:
    """Starts a scheduler once in each process, or says once that nobody does."""

    def __init__(self, app: Flask, scheduler: Scheduler, *, autostart: bool) -> None:
        self._app = app
        self._scheduler = scheduler
        self._autostart = autostart
        self._pid: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether that was done, or said, in this process."""
        return self._pid == os.getpid()

    def once(self) -> None:
        """Start, if that hasn't been done in this process, and the app isn't being tested."""
        if self.is_done:
            return
        self._pid = os.getpid()
        if self._app.testing or self._scheduler.state != "idle":
            return
        if not self._autostart:
            self._say_idle()
            return
        try:
            self._scheduler.start(retry=True)
        except Exception as error:  # the site is served all the same
            write(trouble("the scheduler of the app could not start", error))

    def _say_idle(self) -> None:
        if jobs := len(self._scheduler.jobs):
            text = (
                f"this process serves {self._app.name!r}, but nothing has started its scheduler"
                f" ({counted(jobs, 'job')}); set {AUTOSTART} to True, or start it in the hooks of"
                f" the server, or set {AUTOSTART} to False if other processes run the jobs"
            )
            write(Line(WARNING, text))


def _start_when_served(app: Flask, start: Start) -> None:
    """Start with the first request that a server brings."""
    answer = app.wsgi_app

    def served(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not start.is_done and not _is_asked_by_test_client():
            start.once()
        return answer(environ, start_response)

    app.wsgi_app = served  # type: ignore[method-assign]


def _is_asked_by_test_client() -> bool:
    """Return whether this request comes from this very process, as those of tests do.

    Commands ask so as well, to freeze a site or to warm it up, and then serve nothing.
    """
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - documented, in spite of its name
    while frame is not None:
        if frame.f_globals.get("__name__") == "werkzeug.test":
            return True
        frame = frame.f_back
    return False


def _start_in_run(app: Flask, start: Start) -> None:
    """Start when `app.run` is called in the reloader's child: everything is defined by then."""
    run = app.run

    @wraps(run)
    def run_and_start(*args: Any, **options: Any) -> None:
        # Below a command of Flask's the call does nothing.
        ignored = os.environ.get("FLASK_RUN_FROM_CLI") == "true"
        if is_running_from_reloader() and not ignored:
            start.once()
        run(*args, **options)

    app.run = run_and_start  # type: ignore[method-assign]


def _start_when_loaded(app: Flask, info: ScriptInfo, start: Start) -> None:
    """Start when ``flask run`` has loaded the app, which is what calls us.

    Another app that comes with it has to be asked something first, if it is served at all.
    """

    def wait() -> None:
        until = time.monotonic() + _LOAD_SECONDS
        # There is no event for it. Without the attribute, no start by this way.
        while (loaded := getattr(info, "_loaded_app", None)) is None:
            if time.monotonic() > until:
                return
            time.sleep(_LOOK_SECONDS)
        if loaded is app:
            start.once()

    LifeThread(Clock(), wait, lambda error: write(trouble("no thread", error))).launch()
