"""A dashboard: pages of jobs and runs, as a WSGI application that any web server mounts.

::

    from anarchon.web import dashboard

    board = dashboard(scheduler)   # to look at
    board = dashboard(scheduler, authorize=allowed, secret=SECRET_KEY)

It needs the extra ``anarchon[web]``, and nothing from anywhere else: no build, no other host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..contrib._found import checked

try:
    from ._app import Dashboard
except ImportError as error:
    if error.name != "jinja2":
        raise
    raise ImportError(
        "anarchon.web needs Jinja2, which is not installed; install it: python -m pip install"
        " 'anarchon[web]'",
        name=error.name,
    ) from error
from ._guard import Guard
from ._mounting import mounted

if TYPE_CHECKING:
    from .._durations import Duration
    from ..scheduler import Scheduler
    from ._guard import Authorize

__all__ = ["Dashboard", "dashboard", "mounted"]


def dashboard(
    scheduler: Scheduler,
    *,
    authorize: Authorize | None = None,
    secret: str | bytes | None = None,
    refresh: Duration = "5s",
    title: str = "Scheduled jobs",
) -> Dashboard:
    """Return a WSGI application that shows a scheduler's jobs and runs.

    It asks the scheduler and its store when a page is asked for, and does nothing in between. The
    scheduler needn't run in the same process; only "Run now" needs one that does.

    Args:
        scheduler: Whose jobs and runs are shown.
        authorize: Called with the WSGI environ of each request; it returns ``"read"`` for who may
            look, ``"act"`` for who may also run, trigger, backfill, pause, resume and cancel, and
            None for who may do neither. Without it, everybody may look and nobody may act. What
            it raises is left to the server.
        secret: What the tokens of forms are signed with: at least 16 characters or bytes, the
            same in each process that serves the dashboard, such as ``SECRET_KEY`` of Flask or
            Django. Needed with `authorize`.
        refresh: How often an open page asks for what is new; 0 turns that off.
        title: The heading of the pages.

    Raises:
        ConfigurationError: An argument can't be meant.
        ImportError: Jinja2 is not installed.

    Threads: any, several at a time.
    """
    return Dashboard(
        checked(scheduler, "dashboard(scheduler)"),
        Guard(authorize, secret),
        refresh=refresh,
        title=title,
    )
