"""Slots as people name them, what became of them, and zones that they are shown in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._commands_answers import DONE, Answer, answering
from ._commands_rows import local_iso, local_time, printable_text
from ._durations import shown
from ._values import LATEST_MS, instant, milliseconds
from .errors import ConfigurationError, JobNotFound

if TYPE_CHECKING:
    from datetime import datetime

    from .scheduler import Scheduler


@answering
def explain(scheduler: Scheduler, name: str, slot: str, *, zone: str | None = None) -> Answer:
    """Tell what became of a slot of a job, and why.

    Args:
        scheduler: Whose store is asked. Why a slot has no record is only told by one that has
            the job.
        name: The job.
        slot: As `read_slot` takes it.
        zone: The key of a zone in which the slot is shown as well.
    """
    slot_ms, key = read_slot(slot, zone), zone_key(zone)
    try:
        told = scheduler.explain(name, slot_ms)
    except JobNotFound as error:
        if scheduler.jobs:
            raise
        raise JobNotFound(
            f"job {name!r} has no record of this slot in the store; why, can only be told where"
            " the job is defined"
        ) from error
    at = instant(told.slot)
    text = printable_text(told.text)
    if key:
        text = f"{text}\n  the slot is {local_time(at, key).isoformat(' ')} in {key}"
    return Answer(DONE, text, in_zone(told.to_dict(), at, key), (told,))


def read_slot(text: str, zone: str | None = None, what: str = "slot") -> int:
    """Return the milliseconds of a slot, or of another instant, that is given as text.

    Args:
        text: Milliseconds since 1970 UTC, or ISO text, as tables show it.
        zone: The key of the zone in which ISO text without an offset is read; None for UTC.
        what: What it is, for the message.

    Raises:
        ConfigurationError: It is neither, or there is no such zone.
    """
    from ._cli_read import read_moment

    is_number = text.isascii() and text.isdigit() and len(text) != len("20261201")
    if is_number and len(text) <= len(str(LATEST_MS)) and int(text) < LATEST_MS:
        return int(text)
    try:
        return milliseconds(read_moment(text, zone))
    except ValueError as error:
        if isinstance(error, ConfigurationError):
            raise
        kind = "slot" if what == "slot" else "instant"
        raise ConfigurationError(
            f"{what}: {shown(text)} is no {kind}; give milliseconds since 1970 UTC, or ISO text"
            f' such as "2026-12-01T09:00:00Z" (without an offset it is in {zone or "UTC"})'
        ) from None


def zone_key(zone: str | None) -> str | None:
    """Return the key of a zone that there is; None for none.

    Raises:
        ConfigurationError: There is no such zone.
    """
    if zone is not None:
        from ._schedules_wall import load_zone

        load_zone(zone)
    return zone


def in_zone(data: dict[str, Any], at: datetime, zone: str | None) -> dict[str, Any]:
    """Return data of a slot, with its local time if a zone was asked for."""
    return {**data, "local": local_iso(at, zone)} if zone else data
