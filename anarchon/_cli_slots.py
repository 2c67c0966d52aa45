"""The slots of a schedule as a person checks them: with the clock changes round them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ._schedules_wall import load_zone
from ._values import instant
from .schedules import Cron, Every, RRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._schedules_wall import Shift, Walk

Checkable: TypeAlias = Every | Cron | RRule
Mark: TypeAlias = Literal["gap", "first-pass", "second-pass"]

_INTERVAL = re.compile(r"[0-9]\S*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_schedule(text: str, timezone: str | None) -> Checkable:
    r"""Return the schedule that a text means.

    Args:
        text: A cron expression, an interval such as ``90m``, or RFC 5545 text with DTSTART,
            whose lines may be separated by ``\n`` in letters.
        timezone: The key of the zone; by default the one that the text names, or UTC.

    Raises:
        ConfigurationError: The text or the zone is wrong.
    """
    text = text.strip()
    if "DTSTART" in text.upper():
        return RRule(text.replace("\\n", "\n"), timezone)
    if _INTERVAL.fullmatch(text):
        return Every(text)
    return Cron(text, timezone or "UTC")


class Slot(NamedTuple):
    """A slot, in milliseconds since 1970 UTC, and how the clock stands at it.

    `left_out` is the first wall time (in seconds) of those that a gap left out and that this
    slot stands for, and the second if there is one.
    """

    slot_ms: int
    mark: Mark | None = None
    left_out: tuple[int, ...] = ()


class Calendar:
    """The slots of a schedule in a zone: its own one, or for an interval the one asked for.

    Args:
        schedule: The schedule.
        timezone: The key of the zone to show an interval in; by default UTC.

    Raises:
        ConfigurationError: No zone of that name was found.
    """

    def __init__(self, schedule: Checkable, timezone: str | None) -> None:
        self.schedule = schedule
        self.timezone = timezone or "UTC" if isinstance(schedule, Every) else schedule.timezone
        self._zone = load_zone(self.timezone)
        self._fixed = _fixed_walk(schedule)

    def after(self, t: datetime, count: int) -> list[Slot]:
        """Return the next slots; fewer if the schedule ends."""
        found: list[Slot] = []
        while len(found) < count:
            slot = self._slot(self.schedule.next_after(t))
            if slot is None:
                break
            found.append(slot)
            t = instant(slot.slot_ms)
        return found

    def latest(self, t: datetime) -> Slot | None:
        """Return the latest slot at or before a time."""
        return self._slot(self.schedule.latest(t))

    def shifts(self, earlier: Slot, later: Slot) -> list[Shift]:
        """Return the clock changes between two slots, and at the later one."""
        return list(self._zone.shifts(earlier.slot_ms // 1000, later.slot_ms // 1000))

    def local(self, slot_ms: int) -> datetime:
        """Return the local time of a slot, with its offset."""
        offset = timezone(timedelta(seconds=self._zone.offset(slot_ms // 1000)))
        return instant(slot_ms).astimezone(offset)

    def name_after(self, shift: Shift) -> str:
        """Return the abbreviation of the zone after a clock change."""
        return self._zone.name(shift.at)

    def _slot(self, moment: datetime | None) -> Slot | None:
        if moment is None:
            return None
        slot_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
        at = slot_ms // 1000
        try:
            shift = next(self._zone.shifts(at - 1, at), None)
            repeated = self._zone.shift_at(at + self._zone.offset(at))
        except OverflowError:  # the local time is past the years that datetime knows
            return None
        if shift and shift.is_gap and slot_ms % 1000 == 0:
            left_out = tuple(islice(_left_out(self._fixed, shift), 2))
            return Slot(slot_ms, "gap" if left_out else None, left_out)
        if repeated and not repeated.is_gap:
            return Slot(slot_ms, "second-pass" if at >= repeated.at else "first-pass")
        return Slot(slot_ms)


def wall_time(wall: int) -> datetime:
    """Return a wall time in seconds as a datetime without a zone."""
    return _EPOCH.replace(tzinfo=None) + timedelta(seconds=wall)


def _fixed_walk(schedule: Checkable) -> Walk | None:
    """Return the wall times that a schedule names, if those in a gap are made up for."""
    if isinstance(schedule, Cron):
        from ._schedules_cron import parse
        from ._schedules_walk import CronWalk

        fields = parse(schedule.expression)
        return None if fields.wildcard else CronWalk(fields)
    if isinstance(schedule, RRule):
        from ._schedules_rrule import parse as parse_rule
        from ._schedules_rrule_walk import RecurrenceWalk

        return RecurrenceWalk(parse_rule(schedule.text, schedule.timezone))
    return None


def _left_out(walk: Walk | None, shift: Shift) -> Iterator[int]:
    wall = shift.first_wall - 1
    while walk and (found := walk.after(wall)) is not None and found < shift.end_wall:
        yield found
        wall = found
