"""The lines of a recurrence text and the times in them: the outer syntax of RFC 5545.

What the lines say is read into plain numbers by ``_schedules_rrule.py``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ._durations import shown
from ._named import NamedTuple
from ._schedules_wall import load_zone
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._schedules_wall import Zone

FIRST_YEAR = 1970
LAST_YEAR = 2369
"""Slots lie in one cycle of the calendar, which repeats after 400 years."""
EXAMPLE = 'write lines such as "DTSTART:20260105T090000" and "RRULE:FREQ=WEEKLY;BYDAY=MO,FR"'

_LONGEST = 4096
_LAST_WRITTEN_YEAR = 2099
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_END = (datetime(LAST_YEAR, 12, 31, 23, 59, 59, tzinfo=UTC) - _EPOCH) // _SECOND

_PROPERTY = re.compile(r"(DTSTART|RRULE|RDATE|EXDATE|EXRULE)[;:]", re.IGNORECASE)
_LINE = re.compile(r"([A-Z]+)((?:;[^:;]+)*):(.*)")
_TIME = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z)?)?")


class Wrong(Exception):
    """What is wrong with a text, and what to do about it."""


# --- lines ----------------------------------------------------------------------------


class Property(NamedTuple):
    """One line: its name, its parameters and its value, in capitals."""

    name: str
    parameters: Mapping[str, str]
    value: str

    @property
    def line(self) -> str:
        """The line as one reads it."""
        parameters = "".join(f";{key}={value}" for key, value in self.parameters.items())
        return f"{self.name}{parameters}:{self.value}"


def properties(text: str) -> list[Property]:
    """Return the lines of a text; what continues on the next line is one.

    Raises:
        Wrong: A line is none of those that are known.
    """
    strange = next((character for character in text if not character.isascii()), None)
    if strange is not None:
        raise Wrong(f"it contains {shown(strange)}; use ASCII characters only")
    if len(text) > _LONGEST:
        raise Wrong(
            f"it has {len(text)} characters, more than {_LONGEST}; leave out whole days with"
            " except_on() instead of EXDATE"
        )
    return [_property(line) for line in _unfolded(text)]


def _unfolded(text: str) -> list[str]:
    # A line that begins with a blank goes on with the one before it, unless it begins a
    # property: then the text is only indented, as in the source of a program.
    lines: list[str] = []
    for raw in re.split(r"\r?\n", text):
        line = raw.strip(" \t")
        if lines and raw[:1] in (" ", "\t") and not _PROPERTY.match(line):
            lines[-1] += line
        elif line:
            lines.append(line)
    return lines


def _property(line: str) -> Property:
    found = _LINE.fullmatch(line.upper())
    if found is None or not _PROPERTY.match(line):
        raise Wrong(
            f"{shown(line)} is no DTSTART, RRULE, RDATE or EXDATE; of a calendar's export copy"
            f" these lines alone; {EXAMPLE}"
        )
    name, texts, value = found.groups()
    if name == "EXRULE":
        raise Wrong("EXRULE is no longer in the RFC; name the dates with EXDATE")
    parameters: dict[str, str] = {}
    for pair in line[len(name) : len(name) + len(texts)].split(";")[1:]:
        written, _, chosen = pair.partition("=")
        key = written.upper()
        if key.startswith("X-"):
            continue  # a program's own, without a meaning for others
        if key not in ("TZID", "VALUE") or key in parameters:
            raise Wrong(f"{name}: parameter {shown(pair)} is not known; write TZID= or VALUE=")
        # A zone's key keeps the case that it was written in.
        parameters[key] = chosen.strip('"') if key == "TZID" else chosen.upper()
    return Property(name, parameters, value)


# --- times ----------------------------------------------------------------------------


def zone_of(first: Property) -> str | None:
    """Return the key of the zone that a DTSTART names."""
    return "UTC" if first.value.endswith("Z") else first.parameters.get("TZID")


class Times:
    """Reads the times of a text, all in the zone and in the form of its DTSTART."""

    def __init__(self, first: Property, timezone: str | None) -> None:
        own = zone_of(first)
        own_zone = None if own is None else _known_zone(own)
        if own is not None and own_zone is None and timezone is None:
            raise Wrong(
                f"DTSTART: no zone {shown(own)} was found; say with timezone= which one it is,"
                ' such as "Europe/Athens"'
            )
        if timezone is not None and own_zone is not None and own != timezone:
            raise Wrong(
                f"DTSTART is in {own}, but timezone is {shown(timezone)}; write the local time of"
                " one zone, and name that one"
            )
        self.timezone = timezone or own or "UTC"
        self.zone = load_zone(self.timezone)
        # A name that only the writer's system knows stands for the zone that was given.
        self._names = {self.timezone, own}
        self._is_date = first.parameters.get("VALUE") == "DATE"

    def read(self, found: Property) -> list[int]:
        """Return the wall times of a line.

        Raises:
            Wrong: One of them is no time, or in another form or zone.
        """
        name, parameters, value = found
        if parameters.get("TZID", self.timezone) not in self._names:
            raise Wrong(
                f"{name} is in {parameters['TZID']}, DTSTART in {self.timezone}; write all times"
                " in one zone"
            )
        kind = parameters.get("VALUE", "DATE-TIME")
        if kind not in ("DATE", "DATE-TIME"):
            raise Wrong(f"{name}: VALUE={kind} is not supported; write DATE or DATE-TIME")
        if name == "DTSTART" and "," in value:
            raise Wrong(f"DTSTART: {shown(value)} is a list; give the first time alone")
        found_walls = (self._local(name, text) for text in value.split(","))
        return [wall for wall in found_walls if wall is not None]

    def until(self, text: str) -> int:
        """Return the last wall time up to a limit, which RFC 5545 has in UTC or local."""
        if not text.endswith("Z") or self.timezone == "UTC":
            return self._checked_wall("UNTIL", text)
        if self._is_date:
            raise Wrong(f"UNTIL: {shown(text)} has a time, DTSTART has none; write a date")
        # Far limits are a way to say "for ever"; no zone has an offset for them.
        return self.zone.last_wall(min(max(self._wall("UNTIL", text), 0), _END))

    def _local(self, name: str, text: str) -> int | None:
        wall = self._checked_wall(name, text)
        return self._local_of(name, text, wall) if text.endswith("Z") else wall

    def _checked_wall(self, name: str, text: str) -> int:
        wall = self._wall(name, text)
        if ("T" in text) is self._is_date:
            raise Wrong(f"{name}: {shown(text)} {self._form_wanted(name)}")
        return wall

    def _form_wanted(self, name: str) -> str:
        if name == "DTSTART" and self._is_date:
            return "has a time, but VALUE=DATE says that it is a date; remove one of them"
        if name == "DTSTART":
            return "is a date without a time; add one (T090000), or write DTSTART;VALUE=DATE:..."
        form = "a date (VALUE=DATE)" if self._is_date else "a date with a time"
        return (
            f"is of another form than DTSTART, which is {form}; write them alike, such as"
            " 20260105 or 20260105T090000"
        )

    def _local_of(self, name: str, text: str, instant: int) -> int | None:
        """Return the wall time of an instant; None for one that is no slot, to be left out."""
        wall = instant + self.zone.offset(instant)
        if self.zone.first_instant(wall) == instant:
            return wall
        if name == "RDATE":
            raise Wrong(
                f"{name}: {shown(text)} is in the second pass of an hour that comes twice in"
                f" {self.timezone}, when a recurrence has no slots; write another time"
            )
        return None

    def _wall(self, name: str, text: str) -> int:
        found = _TIME.fullmatch(text)
        try:
            parts = [int(part or 0) for part in found.groups()[:6]] if found else []
            year, month, day, hour, minute, second = parts
            moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            raise Wrong(
                f"{name}: {shown(text)} is no date and time; write 20260105T090000"
            ) from None
        if name != "UNTIL" and not FIRST_YEAR <= year <= _LAST_WRITTEN_YEAR:
            raise Wrong(
                f"{name}: year {year} is out of range; write {FIRST_YEAR} to {_LAST_WRITTEN_YEAR}"
            )
        return (moment - _EPOCH) // _SECOND


def _known_zone(key: str) -> Zone | None:
    try:
        return load_zone(key)
    except ConfigurationError:
        return None
