"""The log lines: what happened goes in, a level and a text come out.

No line reads a clock, a logger or a file, so every one is tested as it stands. The texts
carry no prefix; the handler that ``log=True`` brings adds ``[anarchon]``.

`write` is the only place of the package that calls a logger. Handlers and filters are user
code, which may raise or take long: so while a scheduler runs, whatever has something to say
is given a `Say` that hands the line to the thread for the log.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypeAlias

from ._durations import duration_text
from ._log_fields import INSTANCE, fields, key_fields, note_fields, printable, run_fields
from ._named import NamedTuple
from ._one_process import OneProcess
from ._texts import counted, message_of, type_name
from ._traces import traced
from ._values import RunKey, instant, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._log_fields import Fields
    from ._messages import (
        Note,
    )
    from ._runs import Run
    from ._values import (
        Finding,
        RunEvent,
    )

    Say: TypeAlias = "Callable[[Line], object]"

# Found once, while this module is loaded. `getLogger` takes the lock of all of logging, and
# Ctrl-C right after that would leave it taken for ever: no other thread could log any more.
LOGGER = logging.getLogger("anarchon")

_LONGEST_ERROR = 500


def saying(tell: Callable[[Line], object]) -> Say:
    """Return what hands lines on to `tell`, and writes those that it doesn't take."""

    def say(line: Line) -> None:
        try:
            tell(line)
        except BaseException:
            write(line)

    return say


class Line(NamedTuple):
    """One record for the log: a level of `logging`, the text, and attributes of the record."""

    level: int
    text: str
    fields: Fields | None = None

    def said_by(self, instance_id: str) -> Line:
        """Return the line with the instance that says it, unless it is about an instance."""
        told = {INSTANCE: printable(instance_id), **(self.fields or {})}
        return self._replace(fields=told)


def write(line: Line, logger: logging.Logger | None = None) -> None:
    """Log a line here and now, whatever the logger's handlers and filters raise.

    By default on the logger ``anarchon``. Only Ctrl-C in the main thread gets past.
    """
    try:
        with OneProcess():
            (logger or LOGGER).log(line.level, line.text, extra=line.fields)
    except KeyboardInterrupt:
        if threading.current_thread() is threading.main_thread():
            raise
    except BaseException:
        return


def run_line(event: RunEvent, run: Run) -> Line | None:
    """Return the line of a run event; None for ``takeover``, which `started` tells as well."""
    if event not in _TEXTS:
        return None
    level, text = _TEXTS[event]
    told = printable(f"{run.job} @ {moment(run.scheduled_at)}: {text(run)}")
    return Line(level, told, run_fields(event, run))


def _started(run: Run) -> str:
    return f"started on {run.instance_id} (attempt {run.attempt}, {run.reason})"


def _finished(run: Run) -> str:
    text = f"finished in {run.duration_ms or 0} ms"
    if run.detail == "after stop":
        return f"{text}, after stop was asked; nobody continues it"
    return f"{text}{_bracketed(run.detail)}"


def _interrupted(run: Run) -> str:
    if run.started_at is not None:
        when = f"interrupted{_after(run)}"
    else:
        when = f"interrupted before it started{_bracketed(_first_line(run.error or ''))}"
    if run.detail == "handed over":
        return f"{when}, handed over to another instance"
    return f"{when}, {run.detail}" if run.detail else when


def _failed(run: Run) -> str:
    text = f"failed{_after(run)}: {_first_line(run.error or run.detail or 'no reason given')}"
    return f"{text}\n{run.traceback.rstrip()}" if run.traceback else text


def _skipped(run: Run) -> str:
    return f"skipped{_bracketed(run.detail)}"


def _missed(run: Run) -> str:
    return f"missed{_bracketed(run.detail)}"


def _lost(run: Run) -> str:
    return f"lost{_after(run)}{_bracketed(run.detail)}"


def _after(run: Run) -> str:
    return "" if run.duration_ms is None else f" after {run.duration_ms} ms"


def _bracketed(detail: str | None) -> str:
    return f" ({detail})" if detail else ""


_TEXTS: dict[RunEvent, tuple[int, Callable[[Run], str]]] = {
    "started": (logging.INFO, _started),
    "success": (logging.INFO, _finished),
    "skipped": (logging.INFO, _skipped),
    "failure": (logging.ERROR, _failed),
    "interrupted": (logging.WARNING, _interrupted),
    "missed": (logging.WARNING, _missed),
    "lost": (logging.WARNING, _lost),
}


def note_line(note: Note) -> Line:
    """Return the line of something that only the log is told."""
    level, text = _noted(note)
    return Line(level, printable(f"{_subject(note.key)}{text}"), note_fields(note))


def _noted(note: Note) -> tuple[int, str]:
    detail = note.detail
    match note.kind:
        case "taken":
            return logging.INFO, "skipped (taken)"
        case "stuck":
            which, _, stack = detail.partition("\n")
            text = f"the handler ignores its abort signal and keeps its thread{_bracketed(which)}"
            return logging.ERROR, f"{text}\n{stack.rstrip()}" if stack else text
        case "schedule" if not detail:
            return logging.INFO, "goes on, its schedule can be computed again"
        case "schedule":
            return logging.ERROR, f"suspended, its schedule can't be computed: {detail}"
        case "late":
            return logging.WARNING, f"heartbeat late by {detail}"
        case "left":
            text = "still running when stop timed out, left behind"
            return logging.WARNING, f"{text}{_bracketed(detail)}"


def _subject(key: RunKey) -> str:
    if not key.job:
        return ""
    return f"{key.job} @ {moment(instant(key.slot_ms))}: " if key.slot_ms else f"{key.job}: "


def scheduler_started(instance_id: str, jobs: int, store: str, tzdata: str) -> Line:
    """Return the line of a scheduler that is running now."""
    what = f"{counted(jobs, 'job')}, store {store}, tzdata {tzdata}"
    text = f"scheduler started on {instance_id} ({what})"
    told = fields("scheduler_started", instance_id=instance_id, jobs=jobs, store=store)
    return Line(logging.INFO, printable(text), told)


def store_finding(finding: Finding) -> Line:
    """Return the warning about a server whose settings may cost runs."""
    text = f"store: {finding.text} (silence=({finding.name!r},))"
    return Line(logging.WARNING, printable(text), fields("store_finding", finding=finding.name))


def scheduler_stopped(instance_id: str, seconds: float, *, in_time: bool) -> Line:
    """Return the line of a scheduler that has stopped, and how long that took."""
    text = f"scheduler stopped on {instance_id}, in {seconds * 1000:.0f} ms"
    duration_ms = round(seconds * 1000)
    told = fields("scheduler_stopped", instance_id=instance_id, duration_ms=duration_ms)
    if in_time:
        return Line(logging.INFO, printable(text), told)
    return Line(logging.WARNING, printable(f"{text}; something in it did not end"), told)


def start_failed(instance_id: str, error: BaseException) -> Line:
    """Return the line of a start in the background that was given up."""
    told = fields("start_failed", instance_id=instance_id, error=error_text(error))
    text = f"scheduler could not start on {instance_id}: {error_text(error)}"
    return Line(logging.ERROR, printable(text), told)


def store_down(error: BaseException) -> Line:
    """Return the one line that an outage gets when it begins."""
    text = f"store down: {error_text(error).removesuffix('.')}; trying again until it is back"
    return Line(logging.WARNING, printable(text), fields("store_down", error=error_text(error)))


def store_up(outage_seconds: float) -> Line:
    """Return the one line that an outage gets when it is over."""
    told = fields("store_up", duration_ms=round(outage_seconds * 1000))
    return Line(logging.WARNING, f"store up again after {outage_seconds:.1f} s", told)


def clock_far(offset_seconds: float) -> Line:
    """Return the line about clocks of host and store that differ by more than a second."""
    side = "ahead of" if offset_seconds > 0 else "behind"
    text = f"the store's clock is {abs(offset_seconds):.1f} s {side} this host's"
    told = fields("clock_far", offset_ms=round(offset_seconds * 1000))
    return Line(logging.WARNING, f"{text}; slots are judged on the earlier of the two", told)


def clock_near() -> Line:
    """Return the line about clocks that agree again."""
    text = "the clocks of the store and of this host agree again"
    return Line(logging.WARNING, text, fields("clock_near"))


def one_off_passed(name: str, slot_ms: int) -> Line:
    """Return the line about a one-off that is too long ago to be caught up."""
    text = f"{name} @ {moment(instant(slot_ms))}: its time passed longer ago than catch_up allows"
    text = f"{text}, so it does not run; remove it from the code"
    told = {**fields("one_off_passed"), **key_fields(RunKey(name, slot_ms))}
    return Line(logging.WARNING, printable(text), told)


def unapplied(form: str) -> Line:
    """Return the line about a decorator that was made but put on nothing."""
    text = f"{form} was never applied to a function, so there is no such job; pass a handler"
    text = f"{text}, or put it above a function"
    return Line(logging.WARNING, printable(text), fields("unapplied"))


def unknown(text: str) -> Line:
    """Return the line about a job that was named somewhere but is not defined."""
    return Line(logging.WARNING, printable(text), fields("unknown"))


def doubtful(forms: Iterable[str], texts: Iterable[str]) -> list[Line]:
    """Return the lines about jobs that somebody may think are there."""
    return [*map(unapplied, forms), *map(unknown, texts)]


def disabled() -> Line:
    """Return the line of a scheduler that was told not to run."""
    text = "enabled=False: no job runs in this process"
    return Line(logging.WARNING, text, fields("disabled"))


def overdue(key: RunKey, within: float) -> Line:
    """Return the line about a slot that nobody has finished in time."""
    limit = duration_text(round(within * 1000))
    return Line(
        logging.WARNING,
        printable(f"{_subject(key)}overdue: nobody has finished it within {limit}"),
        {**fields("overdue"), **key_fields(key)},
    )


def twins(store: str) -> Line:
    """Return the line about two schedulers of one process that race each other."""
    text = f"another scheduler of this process runs on the same store and namespace ({store})"
    fix = "was a module imported under two names? give one of them another namespace if both are"
    return Line(logging.WARNING, f"{text}; {fix} meant to be", fields("twins", store=store))


def forked(pid: int) -> Line:
    """Return the line about a fork of a process whose scheduler, in `pid`, runs."""
    return Line(
        logging.WARNING,
        f"forked while the scheduler runs: the jobs stay with pid {pid}; where a child should run"
        " them, call start() there after the fork (gunicorn: post_worker_init, uWSGI: @postfork)",
        fields("forked", pid=pid),
    )


def dropped(count: int, what: str) -> Line:
    """Return the line about events or lines that nobody will see."""
    were = "was" if count == 1 else "were"
    text = f"{counted(count, what)} {were} dropped because too many waited"
    text = f"{text}; is one of their receivers stuck?"
    return Line(logging.WARNING, text, fields("dropped", count=count))


def trouble(what: str, error: BaseException, level: int = logging.ERROR) -> Line:
    """Return the line of an exception that was survived, with its traceback."""
    text = f"{what}\n{traced(error)}".rstrip()
    return Line(level, printable(text), fields("trouble", error=error_text(error)))


def not_stopped() -> Line:
    """Return the line of a core that was asked to stop and didn't."""
    text = "the scheduler's core didn't stop in time; it is left"
    return Line(logging.ERROR, text, fields("not_stopped"))


def no_thread(error: BaseException) -> Line:
    """Return the line of handlers that can't be called, told once until one can be."""
    text = f"no thread for a handler: {message_of(error)}"
    return Line(logging.WARNING, printable(text), fields("no_thread", error=error_text(error)))


def error_text(error: BaseException) -> str:
    """Return the type and the first line of an exception, whatever its ``str()`` does."""
    first = _first_line(message_of(error))
    return f"{type_name(error)}: {first}" if first else type_name(error)


def _first_line(text: str) -> str:
    first = text.strip().split("\n", 1)[0].rstrip()
    return first if len(first) <= _LONGEST_ERROR else f"{first[: _LONGEST_ERROR - 3]}..."
