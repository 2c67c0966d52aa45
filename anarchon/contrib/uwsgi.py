"""uWSGI: a scheduler in every worker.

::

    from anarchon.contrib.uwsgi import attach

    attach(scheduler)  # where the application is made

The master imports the application and forks, and a thread doesn't survive a fork. So the
scheduler starts when a worker has been forked; with ``lazy-apps`` the import itself happens in
the worker, and it starts at once. It stops by ``uwsgi.atexit``: signal handlers of Python are
never called under uWSGI, and uWSGI itself finishes requests first.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from logging import WARNING
from typing import TYPE_CHECKING, Any

from .._durations import parse_ms
from .._log_lines import Line, trouble, write
from ._found import checked

if TYPE_CHECKING:
    from .._durations import Duration
    from ..scheduler import Scheduler

__all__ = ["attach"]


def attach(scheduler: Scheduler, *, timeout: Duration | None = None) -> bool:
    """Start a scheduler in each worker of uWSGI, and stop it when the worker ends.

    Called while the application is imported. Mules and spoolers start nothing. What is in
    ``uwsgi.post_fork_hook`` and ``uwsgi.atexit`` already is still called, and what it raises
    keeps nothing from starting. Several schedulers have several calls. Elsewhere than under
    uWSGI, as in a command line or a test, it does nothing.

    Args:
        scheduler: What to start, with ``retry=True``: workers serve though the store is down.
        timeout: How long handlers get to end; None for the scheduler's `exit_timeout`.

    Returns:
        Whether this is uWSGI.

    Raises:
        ConfigurationError: That is no scheduler, or the timeout is no duration.
    """
    checked(scheduler, "attach()")
    exit_seconds = scheduler._options.exit_seconds  # noqa: SLF001 - of this package
    seconds = exit_seconds if timeout is None else parse_ms(timeout, what="attach(timeout)") / 1000
    uwsgi = _module()
    if uwsgi is None:
        return False
    _warn_without_threads(uwsgi)
    start = partial(_start, uwsgi, scheduler, seconds)
    if uwsgi.worker_id() > 0:
        start()  # with lazy-apps: the hook was over before this import
    else:
        _after_fork(uwsgi, start)
    return True


def _module() -> Any:
    try:
        return import_module("uwsgi")
    except ImportError:
        return None


def _after_fork(uwsgi: Any, start: partial[None]) -> None:
    """Have a function called in each worker, besides what was to be called there."""
    hooks = [getattr(uwsgi, "post_fork_hook", None)]
    with suppress(Exception):
        # Its import puts a hook in place of any other: better now than later. It has none
        # without a master, and a package of uWSGI may come without it.
        import_module("uwsgidecorators")
        if uwsgi.post_fork_hook is not hooks[0]:
            hooks.append(uwsgi.post_fork_hook)

    def start_in_worker() -> None:
        if uwsgi.worker_id() > 0:  # mules and spoolers are forked as well
            start()

    def after_fork() -> None:
        # Each is called, whatever becomes of those before it. What they raise is uWSGI's to log.
        with ExitStack() as calls:
            calls.callback(start_in_worker)
            for hook in reversed(hooks):
                if hook is not None:
                    calls.callback(hook)

    uwsgi.post_fork_hook = after_fork


def _start(uwsgi: Any, scheduler: Scheduler, seconds: float) -> None:
    """Start in a worker. What ended with it before is still called, after the stop."""
    before = getattr(uwsgi, "atexit", None)

    def at_exit() -> None:
        try:
            scheduler.stop(seconds)
        finally:
            if before is not None:
                before()

    uwsgi.atexit = at_exit
    try:
        scheduler.start(retry=True)
    except Exception as error:  # the site is served all the same, and other schedulers run
        write(trouble("a scheduler could not start in this worker", error))


def _warn_without_threads(uwsgi: Any) -> None:
    """Warn where threads of Python may stand still between requests."""
    if uwsgi.opt.keys() & {"enable-threads", "threads"}:
        return
    text = "uWSGI runs without enable-threads: in some versions threads stand still between"
    fix = "requests, and with them the jobs and their heartbeats; set enable-threads = true"
    write(Line(WARNING, f"{text} {fix}"))
