"""Gunicorn: a scheduler in every worker, by the hooks of ``gunicorn.conf.py``.

::

    from anarchon.contrib.gunicorn import hooks

    globals().update(hooks("app:scheduler"))  # as the last line

The hooks start the scheduler when a worker has booted, after the fork and after gevent has
patched what it patches. They stop it as soon as the worker gets SIGTERM, before its requests
drain: gunicorn calls no hook then, and what the drain leaves of `graceful_timeout` may be
too short. Whatever else ends a worker stops it in `worker_exit`, which comes before all exit
hooks and before threads are joined.
"""

from __future__ import annotations

import sys
from logging import ERROR, WARNING
from signal import SIGINT, SIGQUIT, getsignal, signal
from typing import TYPE_CHECKING, TypeAlias

from .._durations import parse_ms, shown
from .._log_lines import Line, write
from .._texts import said
from ..errors import ConfigurationError
from ._found import check_text, checked, imported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from .._durations import Duration
    from ..scheduler import Scheduler

    Hook: TypeAlias = Callable[..., None]

__all__ = ["hooks"]


def hooks(
    scheduler: Scheduler | str,
    *,
    timeout: Duration | None = None,
    own: Mapping[str, object] | None = None,
) -> dict[str, Hook]:
    """Return the hooks that run a scheduler in every worker.

    Hooks of the same names that the configuration has already are called as well: before the
    scheduler starts, and after it was stopped. Those that are defined below the call hide
    ours, which is warned about when gunicorn starts. Several schedulers have several calls.

    Args:
        scheduler: The scheduler, or text such as ``"app:scheduler"``, which each worker
            imports when it has booted. With text, a reload (SIGHUP) brings new code.
        timeout: How long handlers get to end; None for the scheduler's `exit_timeout`.
        own: Hooks of yours by name; None for those of the module that calls.

    Returns:
        The hooks by name, for ``globals().update(...)``.

    Raises:
        ConfigurationError: The scheduler is neither, or the timeout is no duration. In a
            worker, which then doesn't boot: the text leads to no scheduler.

    Threads: gunicorn's. What gunicorn calls on other threads, or in signal handlers, only
    asks the scheduler to abort its handlers and waits for nothing.
    """
    seconds = None if timeout is None else parse_ms(timeout, what="hooks(timeout)") / 1000
    mine = _Worker(scheduler, seconds)
    if own is None:
        own = sys._getframe(1).f_globals  # noqa: SLF001 - documented, in spite of its name
    made: dict[str, Hook] = {
        "post_worker_init": _Hook(mine.start, own.get("post_worker_init"), starts=True),
        "worker_int": _Hook(mine.abort, own.get("worker_int")),
        "worker_abort": _Hook(mine.abort, own.get("worker_abort")),
        "worker_exit": _ExitHook(mine.stop, own.get("worker_exit")),
    }
    watch = _Watch(made.copy())
    # Called when gunicorn starts; a name that is hidden as well leaves the other one.
    made |= {name: _Hook(watch.look, own.get(name)) for name in ("on_starting", "when_ready")}
    return made


class _Worker:
    """What happens in a worker. Text is looked up there, once, when the worker has booted."""

    def __init__(self, scheduler: Scheduler | str, seconds: float | None) -> None:
        self._seconds = seconds
        self._text = ""
        self._scheduler: Scheduler | None = None
        if isinstance(scheduler, str):
            check_text(scheduler, "hooks()")
            self._text = scheduler
        else:
            self._scheduler = checked(scheduler, "hooks()")

    def start(self, worker: object) -> None:
        """Start. From now on SIGTERM stops the scheduler, and then tells the worker."""
        if self._scheduler is None:
            try:
                self._scheduler = imported(self._text, "hooks()")
            except SyntaxError as error:
                if not _reloads(worker):
                    raise
                # As gunicorn itself, which shows the error to visitors until the file is mended.
                write(Line(ERROR, f"no job runs in this worker: {self._text} has {said(error)}"))
                return
        self._scheduler.install_signal_handlers(timeout=self._seconds)
        if type(worker).__module__ == "gunicorn.workers.gthread":
            for signum in (SIGINT, SIGQUIT):
                _Quitting(signum, lambda: self.abort(worker))
        try:
            self._scheduler.start(retry=True)
        except ConfigurationError as error:
            # Where Django's setup has failed, and gunicorn shows the error as above.
            if not _reloads(worker):
                raise
            write(Line(ERROR, f"no job runs in this worker: {said(error)}"))

    def abort(self, _worker: object) -> None:
        """Have the handlers abort, waiting for nothing: this may be a signal handler."""
        scheduler = self._scheduler
        life = None if scheduler is None else scheduler._life()  # noqa: SLF001 - of this package
        if life is not None:
            life.stop(self._limit(life.options.exit_seconds), wait=False)

    def stop(self, _server: object, _worker: object) -> None:
        """Stop, or join the stop in progress; nothing where the worker didn't come to start."""
        if (scheduler := self._scheduler) is None:
            return
        limit = self._limit(scheduler._options.exit_seconds)  # noqa: SLF001 - as above
        try:
            scheduler.stop(limit)
        except SystemExit:
            # By a signal beside the one that ends this worker, as Ctrl-C at a terminal brings: it
            # goes to master and workers, and then the master sends its own. A third is meant.
            scheduler.stop(limit)
            raise

    def _limit(self, exit_seconds: float) -> float:
        return exit_seconds if self._seconds is None else self._seconds


def _reloads(worker: object) -> bool:
    return bool(getattr(getattr(worker, "cfg", None), "reload", False))


class _Quitting:
    """Comes before the handler that a worker with threads has for SIGINT and SIGQUIT.

    That one takes the lock of its pool, which a request may be holding on the same thread just
    then, or the first of two signals, as Ctrl-C at a terminal brings them: it would wait for ever.
    So the scheduler is told first, and a signal within the other is none.
    """

    inside = False

    def __init__(self, signum: int, abort: Callable[[], None]) -> None:
        self._abort = abort
        self._theirs = getsignal(signum)
        if callable(self._theirs):
            signal(signum, self)

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        self._abort()
        if callable(self._theirs) and not _Quitting.inside:
            _Quitting.inside = True
            try:
                self._theirs(signum, frame)
            finally:
                _Quitting.inside = False


class _Watch:
    """Notices, in the master, hooks that were defined below ours and hide them."""

    def __init__(self, ours: dict[str, Hook]) -> None:
        self._ours = ours
        self._told = False

    def look(self, server: object) -> None:
        """Warn of hidden hooks, once."""
        settings = getattr(server, "cfg", None)
        hidden = [name for name, hook in self._ours.items() if not _leads_to(settings, name, hook)]
        if hidden and not self._told:
            self._told = True
            write(Line(WARNING, _warning(hidden)))


def _leads_to(settings: object, name: str, hook: Hook) -> bool:
    configured: object = getattr(settings, name, None)
    while configured is not None and configured is not hook:
        # Hooks of another scheduler, made after this one, have it as the one before theirs.
        configured = getattr(configured, "calls", None)
    return configured is hook


def _warning(hidden: list[str]) -> str:
    names = ", ".join(hidden)
    lost = "no job runs in the workers" if "post_worker_init" in hidden else "workers end badly"
    return (
        f"gunicorn's configuration defines {names} below hooks(), so that ours won't be called and"
        f" {lost}; make globals().update(hooks(...)) the last line of the file"
    )


class _Both:
    """Calls ours and theirs, what ends things whatever comes of the first of the two."""

    def __init__(self, ours: Hook, own: object, *, starts: bool = False) -> None:
        if own is not None and not callable(own):
            raise ConfigurationError(
                f"hooks(): a hook of yours is {shown(own)}, which can't be called besides ours;"
                " give the function itself"
            )
        self._ours = ours
        self._starts = starts
        self.calls = own

    def _call(self, *where: object) -> None:
        if self._starts:
            self._call_theirs(*where)
            self._ours(*where)
            return
        try:
            self._ours(*where)
        finally:
            self._call_theirs(*where)

    def _call_theirs(self, *where: object) -> None:
        if callable(self.calls):
            self.calls(*where)


class _Hook(_Both):
    """A hook of one argument."""

    def __call__(self, where: object) -> None:
        self._call(where)


class _ExitHook(_Both):
    """A hook of two, as `worker_exit` is: gunicorn counts them."""

    def __call__(self, server: object, worker: object) -> None:
        self._call(server, worker)
