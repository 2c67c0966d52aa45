"""Runs that are asked of the whole fleet, through the store: trigger, backfill."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ._commands_answers import DONE, NOT_DONE, Answer, answering
from ._commands_orders import remark_on
from ._commands_slots import read_slot, zone_key
from ._durations import duration_text, shown
from ._texts import counted
from ._values import instant, milliseconds, moment
from .errors import ConfigurationError, JobNotFound

if TYPE_CHECKING:
    from .scheduler import Scheduler

MOST_AT_ONCE = 100  # slots, unless somebody says how many


@answering
def trigger(scheduler: Scheduler, name: str, *, data_json: str | None = None) -> Answer:
    """Ask the fleet to run a job once, now.

    Args:
        scheduler: On whose store. When it will be taken is told by one that has the job.
        name: The job.
        data_json: What the handler finds as ``ctx.data``, as JSON; None for the job's own.
    """
    data = None if data_json is None else read_json(data_json)
    remark = remark_on(scheduler, name)
    run_id = scheduler.trigger(name, data=data)
    when, more = _when(scheduler, name)
    text = f"{run_id}\n{name} is to run once, on any instance that has it{remark}\n{when}"
    return Answer(DONE, text, {"job": name, "run_id": run_id, **more})


@answering
def backfill(
    scheduler: Scheduler,
    name: str,
    *,
    first: str,
    last: str,
    limit: int = MOST_AT_ONCE,
    zone: str | None = None,
) -> Answer:
    """Ask the fleet to run past slots of a job.

    Args:
        scheduler: Where the job is defined.
        name: The job.
        first: The first instant, as `read_slot` takes it.
        last: The last instant, as well.
        limit: At most so many slots, the oldest.
        zone: The key of the zone of instants without an offset.
    """
    zone = zone_key(zone)
    first_ms, last_ms = read_slot(first, zone, "--from"), read_slot(last, zone, "--to")
    run_ids = scheduler.backfill(name, first_ms, last_ms, limit=limit)
    # Slots are the same whenever they are computed; one may have become due meanwhile.
    slots = scheduler._past_slots(name, first_ms, last_ms, len(run_ids) + 1)  # noqa: SLF001 - of this package
    runs = [
        {"run_id": run_id, "slot": slot_ms, "scheduled_at": instant(slot_ms).isoformat()}
        for run_id, slot_ms in zip(run_ids, slots, strict=False)
    ]
    data: dict[str, Any] = {"job": name, "runs": runs, "go_on_from": None}
    between = f"from {moment(instant(first_ms))} to {moment(instant(last_ms))}"
    if not runs:
        return Answer(NOT_DONE, f"{name}: no slot was due {between}, so none is asked for", data)
    when, more = _when(scheduler, name)
    ends = [moment(instant(slot_ms)) for slot_ms in (slots[0], slots[len(runs) - 1])]
    lines = [*run_ids, f"{name}: {counted(len(runs), 'slot')}, from {ends[0]} to {ends[1]}, are to"]
    lines[-1] += " run one after another, on instances that have the job"
    lines.append(when)
    if len(slots) > len(runs):
        data["go_on_from"] = slots[len(runs)]
        lines.append(f"there are more: go on with --from {moment(instant(slots[len(runs)]))}")
    return Answer(DONE, "\n".join(lines), {**data, **more})


def read_json(text: str) -> Any:
    """Return what a text of JSON says.

    Raises:
        ConfigurationError: It is no JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigurationError(
            f'the data {shown(text)} is no JSON ({error}); write it as \'{{"day": "2026-12-01"}}\''
        ) from error


def _when(scheduler: Scheduler, name: str) -> tuple[str, dict[str, Any]]:
    """Return when the fleet takes what it is asked for, as far as that is known here.

    Instances are told of it with their claim of the next slot of any job, if not before.
    """
    job = scheduler._registry.find(name)  # noqa: SLF001 - of this package
    if job is None:
        text = "with the next claim of an instance that has the job, or by its control"
        return f"it is taken {text}", {"next_slot": None, "control_ms": None}
    control_ms = scheduler._options.control_ms  # noqa: SLF001 - of this package
    slot_ms = _next_slot_ms(scheduler) if job.enabled else None
    if not job.enabled:
        text = "by no instance like this: the job is defined with enabled=False here"
    elif control_ms is not None:
        text = f"within {duration_text(control_ms)}, by control"
    elif slot_ms is not None:
        due = moment(instant(slot_ms))
        text = "with the fleet's next claim, at the latest when the next slot of its jobs is due,"
        text = f"{text} {due}; or by control"
    else:
        text = "when an instance starts, or by control: no job has any more slots"
    return f"it is taken {text}", {"next_slot": slot_ms, "control_ms": control_ms}


def _next_slot_ms(scheduler: Scheduler) -> int | None:
    """Return when the first of the jobs is due that run here."""
    found: list[int] = []
    for job in scheduler.jobs:
        if job.enabled:
            with suppress(ConfigurationError, JobNotFound):  # the others are due all the same
                found += map(milliseconds, scheduler.next_slots(job.name, 1))
    return min(found, default=None)
