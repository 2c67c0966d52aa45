"""The scheduler: what users hold in their hands.

It defines jobs (``_jobs_definitions.py``), and passes everything else on: to the life that is
going on (``_lifecycle.py``), or to the backend. What only a running scheduler needs is
imported by `start`, since most imports of this package never start one.
"""

from __future__ import annotations

import os
from functools import partial
from signal import SIGTERM
from threading import get_ident
from typing import TYPE_CHECKING, Any

from . import _lifecycle_forks
from ._clock import Clock
from ._jobs_definitions import Definitions
from ._jobs_options import make_defaults
from ._jobs_registry import Registry
from ._listening import Listeners, Listening
from ._measures import Measures
from ._scheduler_calling import Calling
from ._scheduler_commanding import Commanding
from ._scheduler_options import check_options, check_truth, limit_seconds
from ._texts import counted
from .errors import NotRunning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from logging import Logger
    from signal import Signals
    from typing import Self

    from ._durations import Duration
    from ._lifecycle import Life
    from ._lifecycle_states import State
    from .backends.base import ClaimBackend
    from .context import Context
    from .health import Health
    from .jobs import Job, OnCrash, Overlap


class Scheduler(Calling, Commanding, Definitions, Listening):
    """Runs jobs in this process, sharing them with every other instance on the same store.

    Args:
        backend: The store, such as ``SqliteBackend("jobs.db")``. Nothing connects before
            `start`.
        lease: How long a runner that gives no sign of life still holds its run; at least
            2 s and three heartbeats.
        heartbeat: How often leases are renewed and watched; None for a third of the lease.
        jitter: The default of the job option: the mean spacing of two instances' claims.
        catch_up: The default of the job option: how late the latest slot may still run.
        overlap: The default of the job option: ``"skip"`` or ``"allow"``.
        on_crash: The default of the job option: ``"takeover"`` or ``"abandon"``.
        max_attempts: The default of the job option: attempts of a run that may die.
        timeout: The default of the job option: how long an attempt may take; None for no
            limit.
        timezone: The zone of `cron` jobs that name none; None for UTC.
        workers: How many handlers may run here at once.
        data: The default of the job option: what handlers find as ``ctx.data``.
        around: A function of the context that returns a context manager, entered on the
            handler's thread around every attempt.
        enabled: False to check definitions but run nothing: `start` does nothing.
        instance_id: The name of this instance for people; None for ``host:pid``.
        log: True to show what happens on the logger ``anarchon``, or a logger to use.
        stop_on_exit: False to leave the end of the process alone.
        exit_timeout: How long the hooks at the end of the process wait for handlers.
        control: How often to look for triggered runs and backfills; None: with other calls.

    Durations are seconds, a `timedelta`, or text such as ``"10s"`` and ``"1h30m"``.

    Raises:
        ConfigurationError: An option can't be as given; the message names it.

    Every method may be called from any thread.
    """

    def __init__(  # noqa: PLR0913 - the options of a service, all but one by keyword
        self,
        backend: ClaimBackend,
        *,
        lease: Duration = 30,
        heartbeat: Duration | None = None,
        jitter: Duration = 0.02,
        catch_up: Duration = "1h",
        overlap: Overlap = "skip",
        on_crash: OnCrash = "takeover",
        max_attempts: int = 3,
        timeout: Duration | None = None,
        timezone: str | None = None,
        workers: int = 10,
        data: Any = None,
        around: Callable[[Context], AbstractContextManager[object]] | None = None,
        enabled: bool = True,
        instance_id: str | None = None,
        log: bool | Logger = False,
        stop_on_exit: bool = True,
        exit_timeout: Duration = 10,
        control: Duration | None = None,
    ) -> None:
        self._options = check_options(
            backend,
            lease=lease,
            heartbeat=heartbeat,
            workers=workers,
            around=around,
            enabled=enabled,
            instance_id=instance_id,
            log=log,
            stop_on_exit=stop_on_exit,
            exit_timeout=exit_timeout,
            control=control,
            timezone=timezone,
        )
        self._defaults = make_defaults(
            jitter=jitter,
            catch_up=catch_up,
            overlap=overlap,
            on_crash=on_crash,
            max_attempts=max_attempts,
            timeout=timeout,
            data=data,
        )
        self._timezone = timezone
        self._registry = Registry()
        _lifecycle_forks.renew_in_children(self._registry)
        self._listeners, self._measures = Listeners(), Measures()
        self._clock = Clock()
        self._lives: dict[int, Life] = {}  # by pid, so that a forked child finds none
        self._inside: set[int] = set()
        self._signals: tuple[tuple[Signals, ...], float] | None = None
        self._told_disabled = False
        self._parent: int | None = None  # the process that started it, where that is another

    def __repr__(self) -> str:
        jobs = counted(len(self.jobs), "job")
        return f"<Scheduler {self.state}, {jobs}, {self._options.backend!r}>"

    # --- asking ---

    @property
    def state(self) -> State:
        """``"idle"``, ``"starting"``, ``"running"`` or ``"stopping"``, in this process."""
        life = self._life()
        return "idle" if life is None else life.state

    @property
    def instance_id(self) -> str:
        """The name of this instance for people, as the next or the current `start` sets it."""
        life = self._life()
        return self._options.instance_id_now() if life is None else life.owner.instance_id

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs that are defined here, in the order of definition."""
        return self._registry.jobs

    def health(self) -> Health:
        """Return how this scheduler is doing; nothing is sent and nobody is waited for."""
        from .health import health_of

        return health_of(self._life(), self._options, self._clock, parent=self._parent)

    # --- the lifecycle ---

    def start(self, *, retry: bool = False) -> None:
        """Connect to the store, recover what was left behind, and run jobs from now on.

        While running it does nothing, while starting it shares the result of the start
        in progress, while stopping it waits and then starts. Whatever it raises, the
        scheduler ends up idle with everything closed.

        Args:
            retry: Return at once, in the state ``"starting"``, and try again until the
                store can be reached.

        Raises:
            BackendUnavailable: The store can't be reached; the driver's error is the cause.
            ServerTooOld: The store's server is older than the minimum.
            BackendError: What is stored can't be used.
            NotRunning: `stop` was called before the start was done; or the caller is a
                handler, a listener or a schedule of a scheduler that is stopping or
                starting, which waits for that one: call it there on a thread of your own.
            RuntimeError: This process may have no more threads or open files; give it more
                (``ulimit -u``, ``ulimit -n``). The system's error is the cause.
            ConfigurationError: `retry` is no bool; or this is the master of uWSGI.
        """
        patient = check_truth(retry, "start(retry)")
        if not self._options.enabled:
            self._tell_disabled()
            return
        if self._signals is not None:
            from . import _lifecycle_signals

            _lifecycle_signals.install(self._signals[0], self._life, self._signals[1])
        while not self._started(patient=patient):
            continue

    def stop(self, timeout: Duration | None = 30) -> None:
        """Start nothing more, abort what runs, hand it over as it ends, and disconnect.

        Stops nothing while idle and in a forked child, joins a stop in progress, cancels
        a start in progress. May be called from everywhere: a signal handler, a handler or
        a listener (which it doesn't wait for), an exit hook.

        Args:
            timeout: How long to wait for handlers; None for no limit. One that goes on
                is left behind, and taken over when its lease has run out.

        Raises:
            ConfigurationError: The timeout is no duration.
        """
        seconds = limit_seconds(timeout, "stop(timeout)")
        if (life := self._life()) is not None:
            life.stop(seconds, wait=get_ident() not in self._inside)
        self._take_signals_off()

    def wait(self, timeout: Duration | None = None) -> Signals | None:
        """Wait until the scheduler has been stopped by anybody, at most the timeout.

        In the main thread also until SIGTERM or SIGINT, which is returned; their handlers
        are replaced meanwhile, and then put back. While idle it returns None at once. In
        a handler or a listener, which a stop waits for, it returns when a stop begins.

        Raises:
            ConfigurationError: The timeout is no duration.
            RuntimeError: Called by a schedule or a ``__del__`` on the scheduler's own thread.
        """
        seconds = None if timeout is None else limit_seconds(timeout, "wait(timeout)")
        from . import _lifecycle_signals

        with _lifecycle_signals.caught() as answer:
            return _lifecycle_signals.wait(self._life(), answer, seconds)

    def run(self) -> None:
        """Start, wait for SIGTERM, SIGINT or somebody's `stop`, and stop: a whole program.

        The handlers of both signals are replaced from before the start until the end of the
        stop. A second one has its usual effect, unless it comes within a tenth of a second of
        the first: that is the same one, told twice. Raises what `start` raises.
        """
        _load()
        from . import _lifecycle_signals

        with _lifecycle_signals.program() as answer:
            try:
                self.start()
                _lifecycle_signals.wait(self._life(), answer, None)
            except NotRunning:
                return
            finally:
                self.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(self._options.exit_seconds)

    def install_signal_handlers(
        self, signals: Sequence[int] = (SIGTERM,), *, timeout: Duration | None = None
    ) -> bool:
        """Stop on these signals, beside whoever handles them already.

        The scheduler stops at once, in the background, and the handler that was there
        is called. Where there was none, the process ends by the signal when all is
        stopped; the same signal again ends it at once. The handlers stay until `stop`,
        and a later `start` in the main thread puts them in place again.

        Args:
            signals: What to listen to, at least one.
            timeout: How long handlers get; None for the scheduler's `exit_timeout`.

        Returns:
            Whether they are in place. They can't be outside the main thread, under uWSGI,
            and where something else than Python handles a signal.

        Raises:
            ConfigurationError: One of them can't be handled.
        """
        from . import _lifecycle_signals

        exit_seconds = self._options.exit_seconds
        seconds = exit_seconds if timeout is None else limit_seconds(timeout, "timeout")
        checked = _lifecycle_signals.check_signals(signals)
        installed = _lifecycle_signals.install(checked, self._life, seconds)
        self._signals = (checked, seconds) if installed else self._signals
        return installed

    # --- inside ---

    def _life(self) -> Life | None:
        life = self._lives.get(os.getpid())
        if len(self._lives) > (life is not None):
            self._parent = _lifecycle_forks.drop_foreign(self._lives, self._registry)
        return life

    def _started(self, *, patient: bool) -> bool:
        """Take part in a start; False when it has to be tried again after a stop."""
        _load()
        from ._lifecycle_requests import begin, share

        if (life := self._life()) is not None:
            return share(life, patient=patient)
        self._parent = None
        return begin(self._new_life(patient=patient), self._lives, patient=patient)

    def _new_life(self, *, patient: bool) -> Life:
        from ._lifecycle import Life

        return Life(
            self._options,
            self._registry,
            self._listeners,
            self._clock,
            patient=patient,
            measures=self._measures,
            forget=partial(_forget, self._lives),
        )

    def _defined(self, job: Job) -> None:
        self._removed(job.name)

    def _removed(self, job_name: str) -> None:
        if (life := self._life()) is not None:
            life.inbox.changed(job_name)

    def _take_signals_off(self) -> None:
        """Put back what handled signals, whoever stopped; a forked child leaves that alone."""
        if self._signals is not None and self._life() is None and self._parent is None:
            from . import _lifecycle_signals

            _lifecycle_signals.uninstall(self._life)

    def _tell_disabled(self) -> None:
        if not self._told_disabled:
            from ._log_lines import disabled, write

            self._told_disabled = True
            write(disabled(), self._options.logger)


def _forget(lives: dict[int, Life], life: Life) -> None:
    # One that was never the first to start is not there.
    if lives.get(life.pid) is life:
        del lives[life.pid]


def _load() -> None:
    """Import what only a running scheduler needs, where that can fail: in `start`.

    Raises:
        ConfigurationError: No scheduler can run here.
        RuntimeError: It can't be read.
    """
    try:
        import random  # noqa: F401 - the engine's

        from . import _lifecycle, _lifecycle_signals, _threads  # noqa: F401
        from ._lifecycle_uwsgi import refuse_master
    except (OSError, ImportError) as error:
        raise RuntimeError(
            f"the scheduler can't load what it needs to run: {error}; let this process have more"
            " open files (ulimit -n), or see that its files can be read"
        ) from error
    refuse_master()
