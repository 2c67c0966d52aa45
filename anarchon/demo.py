"""`anarchon demo`: three real processes share jobs, and one of them is stopped, then killed.

The instances run on one SQLite file in a temporary folder, with a lease of 6 s and a
heartbeat of 1 s. The exit status is 0 when a hand-over within 2 s and a takeover within
8 s were seen, 1 when not, 2 when it could not begin, 130 after Ctrl-C. Nothing is left
behind: no process, and no file unless you ask for one.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ._demo_fleet import Fleet
from ._demo_instance import open_backend
from ._demo_screen import Screen
from ._demo_show import Died, Plan, Show
from ._demo_summary import show_summary
from ._durations import parse_ms
from ._values import Limits
from .errors import AnarchonError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from ._runs import Run

DEFAULT_MINUTES = 3.6  # and a little to stop in: less than 4 in all
_HISTORY_LIMIT = 1000


class Refused(Exception):
    """The demo can't begin like that."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the demo to a parser."""
    parser.add_argument(
        "--minutes",
        type=minutes,
        help="run this long, 0.6 at least (default: until both were shown, less than 4)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the SQLite file, and say where")
    parser.add_argument("--database", type=Path, help="use this SQLite file (and keep it)")
    for name, default in (("sync-every", "10s"), ("report-every", "30s"), ("report-work", "20s")):
        parser.add_argument(f"--{name}", default=default, help=argparse.SUPPRESS)
    parser.add_argument("--backend", help=argparse.SUPPRESS)  # module:function(database)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo as a program of its own and return its exit status."""
    parser = argparse.ArgumentParser(prog="anarchon demo", description=__doc__)
    add_options(parser)
    return run(parser.parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    """Run the demo and return its exit status; call it in the main thread."""
    if os.name != "posix":
        print(
            "The demo sends SIGTERM and SIGKILL, so it needs Linux, macOS or another POSIX system."
        )
        return 2
    try:
        plan = _plan(options)
        with _interruptible(), _database(options) as (database, folder):
            return 0 if _play(options, plan, database, folder) else 1
    except Refused as refusal:
        print(f"anarchon demo: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print("\nInterrupted: everything has been ended.", file=sys.stderr)
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)
    except BrokenPipeError:
        # Whoever read our output is gone; what the interpreter would flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _check(options: argparse.Namespace, database: Path) -> None:
    """Open the database once, before three processes say at once what is wrong with it."""
    try:
        backend = open_backend(str(database), options.backend)
        backend.open(Limits())
        backend.close()
    except AnarchonError as error:
        raise Refused(error) from error


def _play(options: argparse.Namespace, plan: Plan, database: Path, folder: Path | None) -> bool:
    _check(options, database)
    screen = Screen()
    screen.narrate(
        "Three instances of one service on one SQLite file, each with the same two jobs: "
        f"sync every {options.sync_every}, and report every {options.report_every}, with "
        f"{options.report_work} of work. The lease is 6 s, the heartbeat 1 s."
    )
    fleet = Fleet(_command(options, database, folder))
    show = Show(fleet, screen, plan)
    try:
        show.play()
        show.close()
    except Died as error:
        screen.narrate(f"The demo can't go on: {error}.")
        return False
    finally:
        with _undisturbed():
            fleet.end_all()
    histories = _histories(options, database, show.began_ms)
    return show_summary(screen, show, histories)


def _histories(options: argparse.Namespace, database: Path, since_ms: int) -> dict[str, list[Run]]:
    """Read the attempts of this show, whatever the file held before."""
    backend = open_backend(str(database), options.backend)
    read = {job: backend.history(job, limit=_HISTORY_LIMIT) for job in ("sync", "report")}
    return {job: [run for run in runs if _since(run, since_ms)] for job, runs in read.items()}


def _since(run: Run, ms: int) -> bool:
    moment = run.started_at or run.finished_at or run.scheduled_at
    return moment.timestamp() * 1000 >= ms


def _plan(options: argparse.Namespace) -> Plan:
    plan = Plan(
        report_every=parse_ms(options.report_every, what="--report-every") / 1000,
        report_work=parse_ms(options.report_work, what="--report-work") / 1000,
        limit=(options.minutes or DEFAULT_MINUTES) * 60,
        encore=options.minutes is not None,
    )
    if plan.limit < plan.least_seconds:
        least = math.ceil(plan.least_seconds / 0.6) / 100
        raise Refused(
            f"--minutes {options.minutes:g} is too short to show a hand-over and a takeover; "
            f"give {least:g} or more, or leave it out"
        )
    return plan


def _command(options: argparse.Namespace, database: Path, folder: Path | None) -> list[str]:
    command = ["--database", str(database)]
    for name in ("sync_every", "report_every", "report_work"):
        command += [f"--{name.replace('_', '-')}", getattr(options, name)]
    if options.backend is not None:
        command += ["--backend", options.backend]
    if folder is not None:
        command += ["--remove", str(folder)]
    return command


@contextlib.contextmanager
def _database(options: argparse.Namespace) -> Iterator[tuple[Path, Path | None]]:
    """Yield the file, and the folder that has to go afterwards (None: nothing has to)."""
    if options.database is not None:
        database = options.database.resolve()
        yield database, None
        print(f"The database is kept: {database}", flush=True)
        return
    folder = Path(tempfile.mkdtemp(prefix="anarchon-demo-"))
    try:
        yield folder / "demo.db", None if options.keep else folder
    finally:
        with _undisturbed():
            if options.keep:
                print(f"The database is kept: {folder / 'demo.db'}", flush=True)
            else:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does: with its clean-up."""

    def interrupt(signum: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt(signum)

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {signum: signal.signal(signum, interrupt) for signum in signals}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore further signals during a clean-up that only takes a moment."""
    before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def minutes(text: str) -> float:
    """Read a positive number of minutes."""
    with contextlib.suppress(ValueError):
        if 0 < (value := float(text)) < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is no number of minutes; give one such as 5 or 2.5")
