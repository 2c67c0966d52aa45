"""Recurrence rules: a strict reading of RFC 5545 text.

Every instance must name the same slots, so the text is read by the rules below and by
nothing else, down to plain numbers. What the rule leaves to its DTSTART (section 3.3.10 of
the RFC: the day, the time of day) is written out here, so that the walk
(``_schedules_rrule_walk.py``) needs no first date.

Times are wall times of the schedule's zone, in whole seconds as if the clock showed UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from ._durations import check_askable, shown
from ._named import NamedTuple
from ._schedules_rrule_text import EXAMPLE, Times, Wrong, properties, zone_of
from ._texts import counted
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ._schedules_rrule_text import Property
    from ._schedules_wall import Zone

Frequency: TypeAlias = Literal["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY"]

_HOURLY_YEARS = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
# The longest interval is a hundred years, as of every duration.
_INTERVALS = {"YEARLY": 100, "MONTHLY": 1200, "WEEKLY": 5217, "DAILY": 36_525, "HOURLY": 876_600}
_ORDINAL_DAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")


class Rule(NamedTuple):
    """An RRULE that was read. An empty tuple stands for "all", None for "no limit"."""

    start: int
    frequency: Frequency
    interval: int
    occurrences: int | None  # COUNT
    until: int | None
    week_start: int
    months: tuple[int, ...]
    weeks: tuple[int, ...]
    year_days: tuple[int, ...]
    month_days: tuple[int, ...]
    weekdays: tuple[tuple[int, int], ...]  # the weekday (Monday is 0), and which one (0: each)
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    positions: tuple[int, ...]


class Recurrence(NamedTuple):
    """All of a text: the rule, what it adds and leaves out, and the zone to read it in."""

    lines: tuple[str, ...]
    timezone: str
    zone: Zone
    rule: Rule | None
    added: tuple[int, ...]
    excluded: frozenset[int]


def parse(text: object, timezone: str | None) -> Recurrence:
    """Read the text of a recurrence.

    Args:
        text: The lines DTSTART, RRULE, RDATE and EXDATE of RFC 5545.
        timezone: The key of the zone, or None for the one that the text names.

    Raises:
        ConfigurationError: It breaks a rule of the syntax, or is refused.
    """
    check_askable(text, "rrule")
    if not isinstance(text, str):
        raise ConfigurationError(f"rrule: {shown(text)} is not text; {EXAMPLE}")
    try:
        return _recurrence(properties(text), timezone)
    except Wrong as wrong:
        raise ConfigurationError(f"rrule {shown(text)}: {wrong}") from None


def named_zone(text: object) -> str | None:
    """Return the zone that the DTSTART of a text names; None if it names none."""
    try:
        found = properties(text) if isinstance(text, str) else []
    except Wrong:
        return None
    return next((zone_of(p) for p in found if p.name == "DTSTART"), None)


def words(lines: tuple[str, ...], timezone: str) -> str:
    """Return what the lines of a text that was read say, on one line."""
    found = [properties(line)[0] for line in lines]
    value = {p.name: p.value for p in found}
    dates = {p.name: 0 for p in found}
    for p in found:
        dates[p.name] += p.value.count(",") + 1
    parts = [f"{value['RRULE']} from" if "RRULE" in value else "on", _written(value["DTSTART"])]
    if timezone != "UTC":
        parts.append(f"in {timezone}")
    if "RDATE" in value:
        parts.append(f"and {counted(dates['RDATE'], 'more date')}")
    if "EXDATE" in value:
        parts.append(f"except {counted(dates['EXDATE'], 'date')}")
    return " ".join(parts)


def _written(time: str) -> str:
    day = f"{time[:4]}-{time[4:6]}-{time[6:8]}"
    return (
        day if len(time) == len("20260105") else f"{day} {time[9:11]}:{time[11:13]}:{time[13:15]}"
    )


def _recurrence(given: list[Property], timezone: str | None) -> Recurrence:
    def only(name: str) -> Property | None:
        found = [p for p in given if p.name == name]
        if len(found) > 1:
            hint = "; join two schedules with either()" if name == "RRULE" else ""
            raise Wrong(f"{name} is there {len(found)} times; give one{hint}")
        return found[0] if found else None

    first, rule = only("DTSTART"), only("RRULE")
    if first is None:
        raise Wrong(
            "there is no DTSTART, so each instance would count from another time; add a line"
            ' "DTSTART:20260105T090000" with the local time of the first slot'
        )
    times = Times(first, timezone)
    (start,) = times.read(first)
    added = {wall for p in given if p.name == "RDATE" for wall in times.read(p)}
    excluded = {wall for p in given if p.name == "EXDATE" for wall in times.read(p)}
    return Recurrence(
        lines=tuple(p.line for p in given),
        timezone=times.timezone,
        zone=times.zone,
        rule=None if rule is None else _rule(rule, start, times),
        # Without a rule the first time stands for itself.
        added=tuple(sorted(added if rule is not None else {start, *added})),
        excluded=frozenset(excluded),
    )


# --- the rule -------------------------------------------------------------------------


class _Numbers(NamedTuple):
    low: int
    high: int
    signed: bool = False


_PARTS = {
    "BYSECOND": _Numbers(0, 59),
    "BYMINUTE": _Numbers(0, 59),
    "BYHOUR": _Numbers(0, 23),
    "BYMONTHDAY": _Numbers(1, 31, signed=True),
    "BYYEARDAY": _Numbers(1, 366, signed=True),
    "BYWEEKNO": _Numbers(1, 53, signed=True),
    "BYMONTH": _Numbers(1, 12),
    "BYSETPOS": _Numbers(1, 366, signed=True),
}
_KNOWN = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_PARTS)
_NOT_WITH = {
    "YEARLY": (),
    "MONTHLY": ("BYYEARDAY", "BYWEEKNO"),
    "WEEKLY": ("BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"),
    "DAILY": ("BYYEARDAY", "BYWEEKNO"),
    "HOURLY": ("BYWEEKNO",),
}


def _rule(found: Property, start: int, times: Times) -> Rule:
    if found.parameters:
        raise Wrong("RRULE takes no parameters; name the zone with DTSTART;TZID=")
    parts = dict(_parts(found.value))
    frequency = _frequency(parts.get("FREQ"), start)
    _check_together(parts, frequency)
    numbers = {name: _numbers(name, parts.get(name)) for name in _PARTS}
    weekdays = _weekdays(parts.get("BYDAY"), frequency, numbers)
    first = (_EPOCH + start * _SECOND).replace(tzinfo=None)
    implied = _implied_days(frequency, numbers, weekdays, first)
    coarser_than_hour = frequency != "HOURLY"
    until = parts.get("UNTIL")
    return Rule(
        start=start,
        frequency=frequency,
        interval=_least_one(parts, "INTERVAL", _INTERVALS[frequency]) or 1,
        occurrences=_least_one(parts, "COUNT", 10**9),
        until=None if until is None else times.until(until),
        week_start=_week_start(parts.get("WKST", "MO")),
        months=numbers["BYMONTH"] or implied.months,
        weeks=numbers["BYWEEKNO"],
        year_days=numbers["BYYEARDAY"],
        month_days=numbers["BYMONTHDAY"] or implied.month_days,
        weekdays=weekdays or implied.weekdays,
        hours=numbers["BYHOUR"] or ((first.hour,) if coarser_than_hour else ()),
        minutes=numbers["BYMINUTE"] or (first.minute,),
        seconds=numbers["BYSECOND"] or (first.second,),
        positions=numbers["BYSETPOS"],
    )


def _parts(value: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for pair in value.split(";"):
        name, _, text = pair.partition("=")
        if not pair:
            raise Wrong("RRULE: a part is empty; remove the extra semicolon")
        if name not in _KNOWN or not text:
            raise Wrong(f"RRULE: {shown(pair)} is not known; write {', '.join(_KNOWN)}, each =...")
        if name in seen:
            raise Wrong(f"RRULE: {name} is there twice; write one list, such as BYHOUR=9,17")
        seen.add(name)
        yield name, text


def _frequency(text: str | None, start: int) -> Frequency:
    if text in ("MINUTELY", "SECONDLY"):
        raise Wrong(f"FREQ={text} is finer than HOURLY; use every() or cron()")
    if text not in _NOT_WITH:
        raise Wrong(f"FREQ={text or ''} is not known; write one of {', '.join(_NOT_WITH)}")
    age = datetime.now(UTC) - (_EPOCH + start * _SECOND)
    if text == "HOURLY" and age > timedelta(days=_HOURLY_YEARS * 365.25):
        raise Wrong(
            f"FREQ=HOURLY needs a DTSTART within the last {_HOURLY_YEARS} years; write a later one"
        )
    return cast("Frequency", text)


def _check_together(parts: Mapping[str, str], frequency: Frequency) -> None:
    wrong = next((name for name in _NOT_WITH[frequency] if name in parts), None)
    if wrong is not None:
        raise Wrong(f"RRULE: {wrong} has no meaning with FREQ={frequency}; remove it")
    if "COUNT" in parts and "UNTIL" in parts:
        raise Wrong("RRULE: COUNT and UNTIL exclude each other; keep one")
    if "BYSETPOS" in parts and not any(p.startswith("BY") and p != "BYSETPOS" for p in parts):
        raise Wrong("RRULE: BYSETPOS chooses among the times of other BY parts; add one")


def _least_one(parts: Mapping[str, str], name: str, most: int) -> int | None:
    if name not in parts:
        return None
    text = parts[name]
    if not (text.isdigit() and len(text) <= 10 and 1 <= int(text) <= most):
        raise Wrong(f"RRULE: {name}={shown(text)[1:-1]} is out of range; write 1 to {most}")
    return int(text)


def _numbers(name: str, text: str | None) -> tuple[int, ...]:
    low, high, signed = _PARTS[name]
    found: set[int] = set()
    for part in [] if text is None else text.split(","):
        number = int(part) if re.fullmatch(r"[+-]?[0-9]{1,3}", part) else None
        size = abs(number) if signed and number is not None else number
        if size is None or not low <= size <= high or (part[0] in "+-" and not signed):
            ends = f", or -{high} to -{low}" if signed else ""
            raise Wrong(f"RRULE: {name}: {shown(part)} is wrong; write {low} to {high}{ends}")
        found.add(cast("int", number))
    return tuple(sorted(found))


def _weekdays(
    text: str | None, frequency: Frequency, numbers: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[int, int], ...]:
    in_month = frequency == "MONTHLY" or bool(numbers["BYMONTH"])
    most = 5 if in_month else 53
    found: set[tuple[int, int]] = set()
    for part in [] if text is None else text.split(","):
        match = _ORDINAL_DAY.fullmatch(part)
        if match is None or (match[1] and int(match[1]) == 0):
            raise Wrong(f"RRULE: BYDAY: {shown(part)} is wrong; write MO to SU, or 1MO, -1FR")
        nth = int(match[1] or 0)
        if nth and (frequency not in ("YEARLY", "MONTHLY") or numbers["BYWEEKNO"]):
            beside = "BYWEEKNO" if numbers["BYWEEKNO"] else f"FREQ={frequency}"
            raise Wrong(f"RRULE: BYDAY: {shown(part)} counts, which has no meaning with {beside}")
        if abs(nth) > most:
            unit = "month" if in_month else "year"
            raise Wrong(f"RRULE: BYDAY: {shown(part)} is wrong; no {unit} has more than {most}")
        found.add((_WEEKDAYS.index(match[2]), nth))
    return tuple(sorted(found))


def _week_start(text: str) -> int:
    if text not in _WEEKDAYS:
        raise Wrong(f"RRULE: WKST={shown(text)[1:-1]} is no weekday; write MO to SU")
    return _WEEKDAYS.index(text)


class _Implied(NamedTuple):
    months: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[tuple[int, int], ...] = ()


def _implied_days(
    frequency: Frequency,
    numbers: Mapping[str, tuple[int, ...]],
    weekdays: tuple[tuple[int, int], ...],
    first: datetime,
) -> _Implied:
    """Return what DTSTART says about the day, where the rule itself says nothing."""
    if weekdays or numbers["BYMONTHDAY"] or numbers["BYYEARDAY"]:
        return _Implied()
    if frequency == "WEEKLY" or numbers["BYWEEKNO"]:
        return _Implied(weekdays=((first.weekday(), 0),))
    if frequency == "YEARLY":
        return _Implied(months=(first.month,), month_days=(first.day,))
    return _Implied(month_days=(first.day,)) if frequency == "MONTHLY" else _Implied()
