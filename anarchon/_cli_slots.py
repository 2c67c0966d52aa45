"""The slots of a schedule as a person checks them: with the clock changes round them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from ._cli_read import local_time
from ._named import NamedTuple
from ._schedules_wall import load_zone
from ._values import instant
from .schedules import Cron, Once, RRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._schedules_wall import Shift, Walk
    from .schedules import Schedule

Mark: TypeAlias = Literal["gap", "first-pass", "second-pass"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Slot(NamedTuple):
    """A slot, in milliseconds since 1970 UTC, and how the clock stands at it.

    `left_out` is the first wall time (in seconds) of those that a gap left out and that this
    slot stands for, and the second if there is one.
    """

    slot_ms: int
    mark: Mark | None = None
    left_out: tuple[int, ...] = ()


class Calendar:
    """The slots of a schedule in a zone: its own one, or else the one asked for.

    Args:
        schedule: The schedule.
        timezone: The key of the zone to show an interval or a one-off in; by default UTC.
        text: What the schedule was read from; it tells what time a one-off named.
        shown_in: The key of another zone than its own to show it in.

    Raises:
        ConfigurationError: No zone of that name was found.
    """

    def __init__(
        self,
        schedule: Schedule,
        timezone: str | None,
        text: str = "",
        *,
        shown_in: str | None = None,
    ) -> None:
        self.schedule = schedule
        own: str | None = getattr(schedule, "timezone", None)
        self.timezone = shown_in or own or timezone or "UTC"
        self._zone = load_zone(self.timezone)
        # Gaps of another zone's clock leave nothing out.
        self._fixed = _fixed_walk(schedule, text) if shown_in in (None, own) else None

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


class _OneWall:
    """The wall time of a one-off, to walk along."""

    def __init__(self, wall: int) -> None:
        self._wall = wall

    def after(self, wall: int) -> int | None:
        """Return the wall time if it is greater."""
        return self._wall if self._wall > wall else None

    def before(self, wall: int) -> int | None:
        """Return the wall time if it is less."""
        return self._wall if self._wall < wall else None


def _fixed_walk(schedule: Schedule, text: str) -> Walk | None:
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
    if isinstance(schedule, Once) and (wall := local_time(text)) is not None:
        return _OneWall((wall.replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1))
    return None


def _left_out(walk: Walk | None, shift: Shift) -> Iterator[int]:
    wall = shift.first_wall - 1
    while walk and (found := walk.after(wall)) is not None and found < shift.end_wall:
        yield found
        wall = found
