"""What is wrong with a store, and with the scheduler that is to use it; each with its fix."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._commands_answers import DONE, NOT_DONE, Answer, answering, in_one_line, missing_file
from ._commands_rows import finding_line
from ._named import NamedTuple
from ._texts import counted
from ._tzdata import package_version, tzdata_version
from .backends._rights import file_problem, is_missing_file, prepared
from .errors import AnarchonError, BackendError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ._values import ServerInfo
    from .scheduler import Scheduler

Level: TypeAlias = Literal["ok", "note", "wrong"]


class Finding(NamedTuple):
    """Something that was looked at; the text says what to do where it isn't ok."""

    level: Level
    name: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that is ready for JSON."""
        return self._asdict()


@answering
def examine(scheduler: Scheduler, *, called: Collection[str] = ()) -> Answer:
    """Look at the store of a scheduler, and at the scheduler itself.

    Nothing is created on a server, no job is run, and who runs already isn't disturbed.

    Args:
        scheduler: What is to run; one without jobs stands for its store alone.
        called: Which of ``start`` and ``run`` its module calls when it is imported.
    """
    rows = (*_of_import(called), *_of_scheduler(scheduler), *_of_store(scheduler), *_of_zones())
    wrong = sum(row.level == "wrong" for row in rows)
    data = {"ok": not wrong, "findings": [row.to_dict() for row in rows]}
    text = "\n".join(map(finding_line, rows))
    return Answer(NOT_DONE if wrong else DONE, text, data, rows)


# --- the scheduler -------------------------------------------------------------------


def _of_import(called: Collection[str]) -> Iterator[Finding]:
    if "start" in called:
        yield Finding(
            "wrong",
            "starts-at-import",
            "importing the module starts the scheduler: in every process that imports it, and where"
            " a server forks its workers after that, in none of them; call start() in the hook that"
            " each worker has.",
        )
    if "run" in called:
        yield Finding(
            "note",
            "runs-at-import",
            "importing the module calls run(), which commands pass over: put it below"
            ' `if __name__ == "__main__":`, so that others can import it too.',
        )


def _of_scheduler(scheduler: Scheduler) -> Iterator[Finding]:
    jobs = scheduler.jobs
    if not scheduler._options.enabled:  # noqa: SLF001 - of this package
        yield Finding("wrong", "disabled", "enabled=False: nothing runs; set it to True.")
    for form in scheduler._registry.unapplied():  # noqa: SLF001 - of this package
        text = f"{form} was never applied to a function: pass a handler, or put it above one."
        yield Finding("wrong", "unapplied", text)
    for job in jobs:
        try:
            if scheduler.next_slots(job.name, 1):
                continue
        except AnarchonError as error:
            yield Finding("wrong", "schedule", in_one_line(error))
            continue
        text = f"{job.name} has no more slots: remove it from the code once it has run."
        yield Finding("note", "no-more-slots", text)
    if jobs:
        yield Finding("ok", "jobs", counted(len(jobs), "job"))


# --- the store -----------------------------------------------------------------------


def _of_store(scheduler: Scheduler) -> Iterator[Finding]:
    options = scheduler._options  # noqa: SLF001 - of this package
    backend = options.backend
    if is_missing_file(backend):
        problem = file_problem(backend)
        text = problem or missing_file(scheduler)
        yield Finding("wrong" if problem else "note", "store", text)
        return
    try:
        info = backend.open(options.limits)
        asked = time.time()
        state = prepared(backend, options.limits.connect)
    except ConfigurationError:
        raise
    except (AnarchonError, ImportError) as error:
        yield Finding("wrong", "store", in_one_line(error))
        return
    finally:
        backend.close()
    empty = "; nothing is prepared yet, the first start() does that" if state == "empty" else ""
    text = f"{backend!r}: {info.store} {info.version}{empty}"
    if info.store == "memory":
        text = f"{text}: each process has its own, so each would run every job; name another store."
    yield Finding("wrong" if info.store == "memory" else "ok", "store", text)
    for found in info.findings:
        yield Finding("wrong", found.name, found.text)
    if info.trip is not None and not any(one.name == "clock-offset" for one in info.findings):
        yield _of_clock(info, asked)
    yield from _of_pauses(scheduler)
    if state != "empty":
        yield from _of_instances(scheduler)


def _of_clock(info: ServerInfo, asked: float) -> Finding:
    trip_ms = (info.trip or 0.0) * 1000
    host_ms = (asked - info.age) * 1000 - trip_ms / 2
    offset = round(info.store_ms - host_ms)
    side = "ahead of" if offset > 0 else "behind"
    sure = f"at most {round(trip_ms / 2) + 1} ms"
    text = f"the store's clock is {abs(offset)} ms {side} this host's (known to {sure})"
    return Finding("ok", "clock", text)


def _of_pauses(scheduler: Scheduler) -> Iterator[Finding]:
    from ._commands_orders import still_paused

    every, alone = still_paused(scheduler, None)
    if every:
        text = "every job is paused; `anarchon resume` without a name ends that."
        yield Finding("note", "paused", text)
    if alone:
        named = f"{', '.join(alone[:5])}{', …' if len(alone) > 5 else ''}"
        text = f"paused by themselves: {named}; `anarchon resume JOB` ends that."
        yield Finding("note", "paused", text)


def _of_instances(scheduler: Scheduler) -> Iterator[Finding]:
    """What those who share the store disagree about, and this process with them."""
    from ._commands_instances import concerns_of

    try:
        found = scheduler.instances()
    except BackendError as error:
        yield Finding("note", "instances", f"who is there can't be read: {in_one_line(error)}")
        return
    for concern in concerns_of(found, tzdata_version()):
        yield Finding(*concern)


# --- the process ---------------------------------------------------------------------


def _of_zones() -> Iterator[Finding]:
    edition, other = tzdata_version(), package_version()
    if edition == "unknown":
        yield Finding(
            "wrong",
            "tzdata",
            "there is no time zone database here, so only UTC works: python -m pip install tzdata.",
        )
    elif other > edition:
        yield Finding(
            "note",
            "tzdata",
            f"the host's time zone database is {edition}, and the package tzdata has {other}: bring"
            " the host's up to date, or set PYTHONTZPATH= so that the package is read.",
        )
    else:
        yield Finding("ok", "tzdata", f"the time zone database is {edition}")
    uwsgi: Any = sys.modules.get("uwsgi")
    if uwsgi is not None and not uwsgi.opt.keys() & {"enable-threads", "threads"}:
        text = "uWSGI runs without threads, so jobs stand still: set enable-threads = true."
        yield Finding("wrong", "uwsgi-threads", text)
