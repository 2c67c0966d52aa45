"""From wall time to instants: what a schedule means when a zone's offset changes.

A schedule that names wall times (a cron expression, a calendar rule) is walked on naive
wall time, as if every day had 24 hours, and each wall time is then resolved here.

At a *gap* (clocks go forward) a fixed-time job that names any wall time inside gets one
slot, at the first instant after the gap; a wildcard job gets nothing extra. In an
*overlap* (clocks go back) a fixed-time job runs in the first pass only, a wildcard job
in both. Every change of offset is treated so, whatever its size or reason.

Both instants and wall times are whole seconds here: instants since 1970 UTC, wall times
as if the wall clock showed UTC. So the resolution is integer arithmetic.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from ._durations import check_askable, shown
from ._named import NamedTuple
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import tzinfo

_UTC_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH = _UTC_EPOCH.replace(tzinfo=None)
_SECOND = timedelta(seconds=1)
# Since 1970 no zone has changed its offset twice within less than a week.
_ONE_SHIFT_AT_MOST = timedelta(days=3) // _SECOND
# Keys that `zoneinfo` may open but that mean another zone on each machine, or count
# leap seconds; instances could not agree on slots with them.
_REFUSED_KEYS = ("localtime", "posixrules", "right/")
# From 2100 on each zone follows one yearly rule (the last change that the time zone data
# list by date is in 2087), and any 40 whole years hold every kind of year: the seven
# weekdays that it can begin with, leap or not. What fell into gaps so long does so for ever.
_ONE_RULE = (datetime(2100, 1, 1, tzinfo=UTC) - _UTC_EPOCH) // _SECOND
_EVERY_KIND_OF_YEAR = timedelta(days=42 * 366) // _SECOND


class Walk(Protocol):
    """The wall times that a schedule names, in order and without a zone."""

    def after(self, wall: int) -> int | None:
        """Return the least wall time greater than `wall`."""
        ...

    def before(self, wall: int) -> int | None:
        """Return the greatest wall time less than `wall`."""
        ...


class Shift(NamedTuple):
    """A change of offset at the instant `at`, from `old` to `new` (seconds east)."""

    at: int
    old: int
    new: int

    @property
    def is_gap(self) -> bool:
        """Whether wall times were left out, rather than repeated."""
        return self.new > self.old

    @property
    def first_wall(self) -> int:
        """The first wall time that the change left out or repeated."""
        return self.at + min(self.old, self.new)

    @property
    def end_wall(self) -> int:
        """The first wall time after those."""
        return self.at + max(self.old, self.new)


class Zone:
    """A time zone, asked in whole seconds. Immutable."""

    __slots__ = ("_tz",)

    def __init__(self, tz: tzinfo) -> None:
        self._tz = tz

    def offset(self, instant: int) -> int:
        """Return the offset in force at an instant."""
        moment = (_UTC_EPOCH + timedelta(seconds=instant)).astimezone(self._tz)
        return _seconds(moment.utcoffset())

    def name(self, instant: int) -> str:
        """Return the abbreviation in force at an instant, such as ``EEST``."""
        moment = (_UTC_EPOCH + timedelta(seconds=instant)).astimezone(self._tz)
        return moment.tzname() or ""

    def shifts(self, low: int, high: int) -> Iterator[Shift]:
        """Yield the changes of offset after `low` and up to `high`, in order."""
        while low < high:
            end = min(low + _ONE_SHIFT_AT_MOST, high)
            old = self.offset(low)
            if old != self.offset(end):
                end = self._change_between(low, end)
                yield Shift(end, old, self.offset(end))
            low = end

    def shift_at(self, wall: int) -> Shift | None:
        """Return the change that left out or repeated this wall time, if one did."""
        old, new = self._readings(wall)
        if old == new:
            return None
        return Shift(self._change_between(wall - max(old, new), wall - min(old, new)), old, new)

    def first_instant(self, wall: int) -> int:
        """Return when a wall time comes first; the gap's end for one that never comes."""
        old, new = self._readings(wall)
        if old < new:
            return self._change_between(wall - new, wall - old)
        return wall - old

    def last_wall(self, instant: int) -> int:
        """Return the greatest wall time that has come first by an instant."""
        wall = instant + self.offset(instant)
        shift = self.shift_at(wall)
        # In the second pass of an overlap all of its wall times have been there.
        return shift.end_wall - 1 if shift and not shift.is_gap and instant >= shift.at else wall

    def first_instant_ms(self, wall_ms: int) -> int:
        """Return the same for a wall time in milliseconds, in milliseconds."""
        wall, rest_ms = divmod(wall_ms, 1000)
        shift = self.shift_at(wall)
        # The gap's end is a whole second, whatever was asked for inside the gap.
        rest_ms = 0 if shift is not None and shift.is_gap else rest_ms
        return self.first_instant(wall) * 1000 + rest_ms

    def _readings(self, wall: int) -> tuple[int, int]:
        naive = _EPOCH + timedelta(seconds=wall)
        earlier = naive.replace(tzinfo=self._tz).utcoffset()
        later = naive.replace(tzinfo=self._tz, fold=1).utcoffset()
        return _seconds(earlier), _seconds(later)

    def _change_between(self, low: int, high: int) -> int:
        # The offset differs between the two ends; halve to where it changes.
        old = self.offset(low)
        while high - low > 1:
            middle = (low + high) // 2
            if self.offset(middle) == old:
                low = middle
            else:
                high = middle
        return high


def _seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else offset // _SECOND


def load_zone(key: object) -> Zone:
    """Return the zone with this `zoneinfo` key; "UTC" needs no time zone data.

    Raises:
        ConfigurationError: It is no such key, or the data are not installed.
    """
    check_askable(key, "timezone")
    if not isinstance(key, str):
        raise ConfigurationError(
            f'timezone: {shown(key)} is not the name of a zone; give text such as "Europe/Athens"'
        )
    if key == "UTC":
        return Zone(UTC)
    from zoneinfo import ZoneInfo

    try:
        found = ZoneInfo(key) if key and not key.startswith(_REFUSED_KEYS) else None
    except (KeyError, ValueError, OSError):
        found = None
    if found is None:
        raise ConfigurationError(f"timezone: no zone {shown(key)} was found; {_right_zone(key)}")
    return Zone(found)


# Such as GMT+2, UTC-05:00, CEST: what they seem to say is not what zones of that name mean.
_OFFSET_OR_LETTERS = re.compile(r"([A-Z]{1,5})? ?[+-] ?[0-9:]+|[A-Z]{2,5}", re.IGNORECASE)


def _right_zone(key: str) -> str:
    from zoneinfo import available_timezones

    keys = (known for known in available_timezones() if not known.startswith(_REFUSED_KEYS))
    known = {key.lower(): key for key in sorted(keys)}
    asked = key.strip().lower().replace(" ", "_")
    cities = [whole for whole in known if asked and whole.endswith(f"/{asked}")]
    is_unlike = asked not in known and _OFFSET_OR_LETTERS.fullmatch(key.strip())
    if is_unlike:
        return (
            "offsets and abbreviations are no zones, since they don't say when clocks change;"
            ' name a place, such as "Europe/Athens", or "UTC"'
        )
    near = [asked] if asked in known else cities or _misspelt(asked, known)
    if near:
        return f'did you mean "{known[near[0]]}"?'
    return (
        'give a name such as "Europe/Athens" or "UTC" and, if it is right, install the tzdata'
        " package"
    )


def _misspelt(asked: str, known: Mapping[str, str]) -> list[str]:
    """Return the key that was probably meant: a few letters are wrong, and not another place."""
    from difflib import get_close_matches

    return get_close_matches(asked, known, n=1, cutoff=0.8)


class WallSlots:
    """The slots of a walk in a zone. Immutable, pure and safe from any thread."""

    __slots__ = ("_walk", "_wildcard", "_zone")

    def __init__(self, walk: Walk, zone: Zone, *, wildcard: bool) -> None:
        self._walk = walk
        self._zone = zone
        self._wildcard = wildcard

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`."""
        find = self._next_wildcard if self._wildcard else self._next_fixed
        try:
            slot = find(t_ms // 1000)
        except OverflowError:  # beyond the years that datetime knows
            return None
        return None if slot is None else slot * 1000

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`."""
        find = self._latest_wildcard if self._wildcard else self._latest_fixed
        try:
            slot = find(t_ms // 1000)
        except OverflowError:
            return None
        return None if slot is None else slot * 1000

    def _overlap(self, wall: int) -> Shift | None:
        shift = self._zone.shift_at(wall)
        return None if shift is None or shift.is_gap else shift

    # A fixed-time job: each wall time has one instant, and later wall times never have
    # earlier ones. So it is enough to start the walk at the right wall time.

    def _next_fixed(self, t: int) -> int | None:
        wall = t + self._zone.offset(t)
        overlap = self._overlap(wall)
        in_second_pass = overlap is not None and t >= overlap.at
        start = overlap.end_wall - 1 if overlap and in_second_pass else wall
        while (found := self._walk.after(start)) is not None:
            slot = self._zone.first_instant(found)
            if slot > t:
                return slot
            start = found
        return None

    def _latest_fixed(self, t: int) -> int | None:
        wall = t + self._zone.offset(t)
        overlap = self._overlap(wall)
        in_second_pass = overlap is not None and t >= overlap.at
        end = overlap.end_wall if overlap and in_second_pass else wall + 1
        while (found := self._walk.before(end)) is not None:
            slot = self._zone.first_instant(found)
            if slot <= t:
                return slot
            end = found
        return None

    # A wildcard job: the walk goes on in both passes of an overlap, so the pass that `t`
    # is not in may hold a nearer slot than the walk's own direction.

    def _next_wildcard(self, t: int) -> int | None:
        wall = t + self._zone.offset(t)
        slot = self._next_real(wall, t)
        overlap = self._overlap(wall)
        if overlap is not None and t < overlap.at:
            again = self._walk.after(overlap.first_wall - 1)
            if again is not None and again < overlap.end_wall:
                second = again - overlap.new
                return second if slot is None else min(slot, second)
        return slot

    def _next_real(self, start: int, t: int) -> int | None:
        lost_since = None
        while (found := self._walk.after(start)) is not None:
            shift = self._zone.shift_at(found)
            if shift is None:
                return self._zone.first_instant(found)
            if not shift.is_gap:
                first = found - shift.old
                return first if first > t else found - shift.new
            lost_since = lost_since or max(found, _ONE_RULE)
            if found - lost_since > _EVERY_KIND_OF_YEAR:
                return None
            start = max(found, shift.end_wall - 1)
        return None

    def _latest_wildcard(self, t: int) -> int | None:
        wall = t + self._zone.offset(t)
        slot = self._latest_real(wall + 1, t)
        overlap = self._overlap(wall)
        if overlap is not None and t >= overlap.at:
            again = self._walk.before(overlap.end_wall)
            if again is not None and again >= overlap.first_wall:
                first = again - overlap.old
                return first if slot is None else max(slot, first)
        return slot

    def _latest_real(self, end: int, t: int) -> int | None:
        lost_since = None
        while (found := self._walk.before(end)) is not None:
            shift = self._zone.shift_at(found)
            if shift is None:
                return self._zone.first_instant(found)
            if not shift.is_gap:
                second = found - shift.new
                return second if second <= t else found - shift.old
            lost_since = lost_since or found
            end = min(found, shift.first_wall)
            if end > _ONE_RULE and lost_since - end > _EVERY_KIND_OF_YEAR:
                end = _ONE_RULE
        return None
