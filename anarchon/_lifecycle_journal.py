"""What a running scheduler tells: lines to the log, events to listeners.

Both go through outlets, so that whoever tells something never waits for a logging
handler or a listener. That holds for the scheduler thread, which owns the deadlines, and
for a `stop` in a signal handler, whose thread may hold the very lock that a logging
handler needs.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _log_lines as lines
from ._durations import shown
from ._lifecycle_outlet import Outlet
from ._log_lines import Line
from ._messages import Note, Overdue
from ._named import NamedTuple
from ._one_process import OneProcess
from ._threads_handler import is_awaitable
from ._tzdata import tzdata_version
from ._values import instant
from .events import StoreEvent

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ._clock import Clock
    from ._explanations import Explanation
    from ._listening import AnyListener, Listeners
    from ._measures import Measures
    from ._runs import Run
    from ._scheduler_options import Options
    from ._values import RunEvent, ServerInfo
    from .backends.base import ClaimBackend

# So many lines, and events, may wait; what comes on top is dropped and counted.
BOUND = 10_000
EVENTS_BOUND = 1000


class RunTold(NamedTuple):
    """A run event on its way to the log."""

    event: RunEvent
    run: Run


class Outage(NamedTuple):
    """Since when the store can't be reached, on both clocks, and why."""

    since: datetime
    mono: float
    error: str


Event: TypeAlias = "Run | StoreEvent | Callable[[], Explanation]"
Telling: TypeAlias = "Line | Note | Overdue | RunTold | Callable[[], Line | None]"


class Journal:
    """The log and the listeners of one life of a scheduler.

    Threads: any for what tells something; none of it blocks or takes a lock. `start`
    and the two that close belong to the life's own thread.
    """

    def __init__(
        self,
        options: Options,
        listeners: Listeners,
        measures: Measures,
        clock: Clock,
        instance_id: str,
    ) -> None:
        self.logger = options.logger
        self._instance_id = instance_id
        self._listeners = listeners
        self._clock = clock
        self._console = options.log is True
        self.measures = measures
        self.outage: Outage | None = None
        self._forked = False
        self._clock_far = False
        self._log: Outlet[Telling] = Outlet(
            "anarchon-log",
            self._write,
            bound=BOUND,
            dropped=lambda count: self._write(lines.dropped(count, "log line")),
            failed=lambda _: None,
        )
        self._backend = options.backend
        self._events: Outlet[tuple[str, Event]] = Outlet(
            "anarchon-events",
            self._deliver,
            bound=EVENTS_BOUND,
            dropped=lambda count: self.say(lines.dropped(count, "event")),
            failed=lambda error: self.bug("the events thread", error),
        )

    def start(self) -> None:
        """Start both threads; raises `RuntimeError` when none can be had."""
        self._log.start()
        if self._console:
            self._log.put(self._show)
        self._events.start()
        self.measures.tell(lambda meter: meter.begin(), self.bug)

    def close_events(self, timeout: float) -> bool:
        """Deliver the events that wait; return whether that was done in time."""
        told = self._events.close(timeout)
        self.measures.tell(lambda meter: meter.end(), self.bug)
        return told

    def close_log(self, timeout: float) -> bool:
        """Write the lines that wait; return whether that was done in time."""
        if self._console:
            self._log.put(self._hide)
        return self._log.close(timeout)

    def abandon(self) -> None:
        """Forget that this was shown on stderr: this is a forked child."""
        _shown_for.discard(self)

    def is_current(self) -> bool:
        """Return whether the caller is a listener or a logging handler called from here."""
        return self._events.is_current() or self._log.is_current()

    # --- what is told ---

    def run(self, event: RunEvent, run: Run) -> None:
        """Tell of a run event."""
        self._log.put(RunTold(event, run))
        self._emit(event, run)
        self.measures.tell(lambda meter: meter.run(event, run), self.bug)

    def say(self, told: Line | Note | Overdue | Callable[[], Line | None]) -> None:
        """Tell something to the log; a function is called on the log's thread.

        Of an overdue slot listeners are told as well: what the store says of it by then. After
        the end, what is left of this life has nobody else to tell: it logs by itself.
        """
        if isinstance(told, Overdue):
            self._emit("overdue", partial(_explained, self._backend, told, self._clock))
        if not self._log.put(told):
            with suppress(BaseException):
                self._write(told)

    def started(self, instance_id: str, jobs: int, info: ServerInfo) -> None:
        """Tell that a scheduler runs, and with which time zones."""

        def line() -> Line | None:
            # Their edition is read from a file, so only where somebody will see it.
            if not self.logger.isEnabledFor(logging.INFO):
                return None
            store = f"{info.store} {info.version}".strip()
            return lines.scheduler_started(instance_id, jobs, store, tzdata_version())

        self.say(line)
        for finding in info.findings:
            self.say(lines.store_finding(finding))

    def store_down(self, error: BaseException) -> None:
        """Tell that an outage has begun; nothing while one goes on."""
        if self.outage is not None:
            return
        text = lines.error_text(error)
        now = _now(self._clock)
        self.outage = Outage(now, self._clock.mono(), text)
        self.say(lines.store_down(error))
        self._emit("store_down", StoreEvent(now, text, now))

    def store_up(self) -> None:
        """Tell that the outage is over, if there was one."""
        outage, self.outage = self.outage, None
        if outage is None:
            return
        self.say(lines.store_up(self._clock.mono() - outage.mono))
        self._emit("store_up", StoreEvent(_now(self._clock), outage.error, outage.since))

    def clock(self, offset_seconds: float, *, far: bool) -> None:
        """Tell, once each, that the clocks of store and host are far apart, or near again."""
        if far != self._clock_far:
            self._clock_far = far
            self.say(lines.clock_far(offset_seconds) if far else lines.clock_near())

    def forked(self, pid: int) -> None:
        """Tell, once, that this process was forked while its scheduler runs."""
        if not self._forked:
            self._forked = True
            self.say(lines.forked(pid))

    def warn_of_fork(self, pid: int) -> None:
        """Tell, in a child whose fork Python was not told of, that nothing runs there."""
        lines.write(lines.forked(pid).said_by(self._instance_id), self.logger)

    def bug(self, where: str, error: BaseException) -> None:
        """Tell of an exception that should not have come there; it was survived."""
        self.say(lines.trouble(f"{where} raised", error))

    # --- on the two threads ---

    def _emit(self, event: str, told: Event) -> None:
        if self._listeners.of(event):
            self._events.put((event, told))

    def _deliver(self, item: tuple[str, Event]) -> None:
        event, made = item
        told: Any = made() if callable(made) else made
        for listener in self._listeners.of(event):
            try:
                with OneProcess():
                    _refuse_awaitable(listener(told))
            except BaseException as error:
                self.bug(f"listener {_name(listener)} of {event!r}", error)

    def _write(self, told: Telling) -> None:
        if isinstance(told, RunTold):
            line = lines.run_line(told.event, told.run)
        elif isinstance(told, Note):
            line = lines.note_line(told)
        elif isinstance(told, Overdue):
            line = lines.overdue(told.key, told.spec.job.expect_within)
        elif isinstance(told, Line):
            line = told
        else:
            line = told()
        if line is not None:
            lines.write(line.said_by(self._instance_id), self.logger)

    def _show(self) -> None:
        if self.logger.level == logging.NOTSET:
            self.logger.setLevel(logging.INFO)
        _shown_for.add(self)
        if not self.logger.hasHandlers():
            self.logger.addHandler(_console)

    def _hide(self) -> None:
        _shown_for.discard(self)
        if not _shown_for:
            self.logger.removeHandler(_console)
        # Another scheduler may have come in between, and counts on it.
        if _shown_for and not self.logger.hasHandlers():
            self.logger.addHandler(_console)


def _explained(store: ClaimBackend, late: Overdue, clock: Clock) -> Explanation:
    """Ask the store what became of a slot so far."""
    from ._explanations import lines_around, plan_of, told, untold

    name, slot_ms = late.key.job, late.key.slot_ms
    around, plan = lines_around(store, name, slot_ms), plan_of(late.spec.job, store)
    known = told(name, slot_ms, around, plan)
    return known or untold(name, slot_ms, around, plan, int(clock.wall() * 1000))


def _now(clock: Clock) -> datetime:
    return instant(int(clock.wall() * 1000))


class _Console(logging.Handler):
    """Writes to whatever `sys.stderr` is at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        stream = sys.stderr
        if stream is None:
            return
        try:
            stream.write(f"{self.format(record)}\n")
            stream.flush()
        except Exception:
            self.handleError(record)


_console = _Console()
_console.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
_shown_for: set[Journal] = set()


def _refuse_awaitable(result: Any) -> None:
    """Raise `TypeError` when a listener returned a coroutine, which nobody would run."""
    if is_awaitable(result):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise TypeError("it returned an awaitable, which is not run; listen with a plain function")


def _name(listener: AnyListener) -> str:
    return getattr(listener, "__qualname__", None) or shown(listener)
