"""What is ordered of the whole fleet, through the store: pause, resume, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._commands_answers import DONE, NOT_DONE, Answer, answering, is_known
from ._commands_slots import read_slot
from ._durations import duration_text, parse_ms
from ._values import instant, moment
from .errors import BackendError

if TYPE_CHECKING:
    from .scheduler import Scheduler

_MOST_ASKED = 500  # jobs
_UNKNOWN = "; the store has no record of a job of this name"


@answering
def pause(scheduler: Scheduler, name: str | None = None, *, duration: str | None = None) -> Answer:
    """Stop starts of a job, or of all jobs, on every instance.

    Args:
        scheduler: On whose store.
        name: The job; None for every job.
        duration: For how long, such as ``"1h30m"``; None for until `resume`.
    """
    ms = None
    if duration is not None:
        ms = parse_ms(duration, what="for how long", minimum_ms=1, allow_zero=False)
    remark = remark_on(scheduler, name)
    scheduler.pause(name, duration=None if ms is None else ms / 1000)
    until = "until it is resumed" if ms is None else f"for {duration_text(ms)}"
    whose = "every job" if name is None else name
    text = f"{whose} is paused on every instance, {until}{remark}"
    return Answer(DONE, text, {"job": name, "paused": True, "duration_ms": ms})


@answering
def resume(scheduler: Scheduler, name: str | None = None) -> Answer:
    """End a pause of a job, or (None) the one of every job."""
    remark = remark_on(scheduler, name)
    scheduler.resume(name)
    every, alone = still_paused(scheduler, name)
    if name is None:
        text = "the pause of every job is over"
        if alone:
            text = f"{text}; paused by themselves are still: {', '.join(alone)}"
        return Answer(DONE, text, {"job": None, "paused": False, "still_paused": alone})
    if every:
        remark = f"{remark}, but there is a pause of every job: resume without a name ends it"
    return Answer(DONE, f"{name} is resumed{remark}", {"job": name, "paused": every})


@answering
def cancel(scheduler: Scheduler, name: str, slot: str, *, zone: str | None = None) -> Answer:
    """End the run of a slot wherever it goes on.

    Args:
        scheduler: On whose store.
        name: The job.
        slot: As `read_slot` takes it.
        zone: The key of the zone of a slot without an offset.
    """
    slot_ms = read_slot(slot, zone)
    run = f"{name} @ {moment(instant(slot_ms))}"
    cancelled = scheduler.cancel(name, slot_ms)
    data = {"job": name, "slot": slot_ms, "cancelled": cancelled}
    if cancelled:
        text = f"{run}: cancelled; where it runs, it is told at its next heartbeat"
        return Answer(DONE, text, data)
    remark = remark_on(scheduler, name)
    return Answer(NOT_DONE, f"{run}: no such run is open{remark}", data)


def still_paused(scheduler: Scheduler, name: str | None) -> tuple[bool, list[str]]:
    """Return whether every job is paused, and which ones are by themselves."""
    from .backends._pauses import pauses_in

    names = [name] if name is not None else [job.name for job in scheduler.jobs][:_MOST_ASKED]
    try:
        found = scheduler._ask(lambda store: pauses_in(store, names))  # noqa: SLF001 - of this package
    except BackendError:  # what was ordered is done all the same
        found = None
    return (False, []) if found is None else (found.every, sorted(found.jobs))


def remark_on(scheduler: Scheduler, name: str | None) -> str:
    """Return what to say of a name that nobody knows; raises where it is surely misspelled."""
    return "" if is_known(scheduler, name) else _UNKNOWN
