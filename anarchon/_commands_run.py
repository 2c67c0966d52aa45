"""An instance in the foreground: what the command ``run`` is, on every command line.

It differs from `Scheduler.run` in what it says to whoever sits in front of it: that it waits for
a store which is down, and which runs keep it from ending.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from . import _lifecycle_signals as signals
from ._durations import duration_text
from ._lifecycle import FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS
from ._lifecycle_requests import Halt, Word, wait_no_more
from ._texts import counted, message_of
from ._values import moment
from .errors import BackendUnavailable, NotRunning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._lifecycle_requests import Answer
    from ._runs import Run
    from ._values import RunEvent
    from .scheduler import Scheduler

    Say = Callable[[str], object]

STOP_SECONDS = 30.0
SAY_AFTER_SECONDS = 1.0
"""So long a stop may take without a word."""

ENDS: tuple[RunEvent, ...] = ("success", "failure", "interrupted", "missed", "lost")
_MOST_NAMED = 5


def be_instance(scheduler: Scheduler, say: Say) -> None:
    """Run a scheduler until SIGTERM, Ctrl-C or somebody's `stop`; called in the main thread.

    A store that is down is waited for. A second signal, once the stop has begun, has its usual
    effect.

    Args:
        scheduler: What runs.
        say: Told, in one line each, what is waited for.

    Raises:
        AnarchonError: It can't start, for another reason.
    """
    with _watched(scheduler) as going:
        with signals.caught() as asked:
            try:
                if _started(scheduler, asked, say):
                    signals.wait(scheduler._life(), asked, None)  # noqa: SLF001 - of this package
            except NotRunning:  # somebody stopped it while it started
                return
            second = _stopped(scheduler, asked, going, say)
        if second is not None:
            signal.raise_signal(second)
        scheduler.stop(STOP_SECONDS)


def _started(scheduler: Scheduler, asked: Answer, say: Say) -> bool:
    """Start, as soon as the store is there; False if a signal comes first."""
    clock = scheduler._clock  # noqa: SLF001 - of this package
    failures = 0
    while True:
        try:
            scheduler.start()
        except BackendUnavailable as error:
            if not failures:
                say(f"waiting for the store: {' '.join(message_of(error).split())}")
        else:
            if failures:
                say("the store is there; jobs run now")
            return True
        seconds = min(FIRST_RETRY_SECONDS * 2.0 ** min(failures, 16), LONGEST_RETRY_SECONDS)
        failures += 1
        if clock.get(asked, seconds * clock.rng().uniform(0.5, 1.0)) is not None:
            return False


def _stopped(
    scheduler: Scheduler, asked: Answer, going: dict[tuple[str, int], Run], say: Say
) -> int | None:
    """Stop; say what is waited for when that takes long.

    A second signal ends the waiting, and is returned. It comes as an answer as well, so there is
    no moment at which it would be lost, or break off something else.
    """
    life = scheduler._life()  # noqa: SLF001 - of this package
    if life is None:
        return None
    life.inbox.put(Halt(STOP_SECONDS, asked))
    said = life.inbox.receive(asked, SAY_AFTER_SECONDS)
    if said is Word.TIMED_OUT:
        limit = duration_text(round(STOP_SECONDS * 1000))
        say(
            f"waiting up to {limit} for {_named(list(going.values()))}; a second Ctrl-C or"
            " SIGTERM ends at once"
        )
        said = life.inbox.receive(asked, STOP_SECONDS)
    if not isinstance(said, int):
        return None
    wait_no_more(life)
    return said


def _named(runs: list[Run]) -> str:
    if not runs:
        return "answers of the store"
    names = [f"{run.job} @ {moment(run.scheduled_at)}" for run in runs[:_MOST_NAMED]]
    more = len(runs) - _MOST_NAMED
    return ", ".join(names) + (f" and {counted(more, 'other run')}" if more > 0 else "")


@contextmanager
def _watched(scheduler: Scheduler) -> Iterator[dict[tuple[str, int], Run]]:
    """Keep the runs that go on here, by their events."""
    going: dict[tuple[str, int], Run] = {}

    def begun(run: Run) -> None:
        going[run.run_id, run.attempt] = run

    def ended(run: Run) -> None:
        going.pop((run.run_id, run.attempt), None)

    scheduler.on("started", begun)
    try:
        with listening(scheduler, ended):
            yield going
    finally:
        scheduler.off("started", begun)


@contextmanager
def listening(scheduler: Scheduler, tell: Callable[[Run], object]) -> Iterator[None]:
    """Have each end of a run told, inside the block."""
    for event in ENDS:
        scheduler.on(event, tell)
    try:
        yield
    finally:
        for event in ENDS:
            scheduler.off(event, tell)
