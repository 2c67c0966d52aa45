"""Recurrence texts drawn at random."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

NAMES = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
FREQUENCIES = ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY"]
POSITIONS = [*["1", "-1", "-1,1"] * 3, "1,2,4", "-2"]
HOURLY_YEARS = (2030, 2036)  # an hourly rule must not begin long ago
DAYS_OF = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1, "HOURLY": 1}


def written(moment: datetime) -> str:
    return moment.strftime("%Y%m%dT%H%M%S")


def recurrence(rng: Random, wall: datetime) -> str:
    """Return a text whose rule comes by a wall time."""
    frequency = rng.choice(FREQUENCIES)
    start = wall - timedelta(days=rng.choice([0, 1, 7, 30, 365, 1461]) * rng.randint(0, 3))
    year = start.year if 1971 <= start.year <= 2098 else 1999
    if frequency == "HOURLY":
        year = rng.randint(*HOURLY_YEARS)
    start = start.replace(year=year, day=min(start.day, 28 if start.month == 2 else 31))
    lines = [f"DTSTART:{written(start)}"]
    if rng.random() < 0.95:
        lines.append(f"RRULE:{';'.join(rule(rng, frequency, start, wall))}")
    for name in ("RDATE", "EXDATE"):
        if rng.random() < 0.3:
            chosen = {beside(rng, start, wall) for _ in range(rng.randint(1, 3))}
            lines.append(f"{name}:{','.join(sorted(chosen))}")
    return "\n".join(lines)


def beside(rng: Random, start: datetime, wall: datetime) -> str:
    """Return a time that may well be one of the rule's."""
    near = wall if 1971 <= wall.year <= 2098 else start
    moment = rng.choice([start, near]) + timedelta(days=rng.choice([0, 0, 1, 7, 14]))
    return written(moment.replace(minute=start.minute, second=start.second))


def rule(rng: Random, frequency: str, start: datetime, wall: datetime) -> list[str]:
    parts = [f"FREQ={frequency}"]
    if rng.random() < 0.5:
        parts.append(f"INTERVAL={rng.choice([1, 2, 3, 4, 5, 7, 13, 25])}")
    parts += day_parts(rng, frequency, wall)
    parts += time_parts(rng, wall)
    if any(part.startswith("BY") for part in parts) and rng.random() < 0.25:
        parts.append(f"BYSETPOS={rng.choice(POSITIONS)}")
    if rng.random() < 0.3:
        parts.append(f"WKST={rng.choice(NAMES)}")
    end = rng.random()
    if end < 0.2:
        parts.append(f"COUNT={rng.randint(1, 25)}")
    elif end < 0.4:
        until = start + timedelta(days=rng.randint(0, 40 * DAYS_OF[frequency]))
        parts.append(f"UNTIL={written(until)}{rng.choice(['', 'Z'])}")
    return parts


def day_parts(rng: Random, frequency: str, wall: datetime) -> list[str]:
    parts = []
    if rng.random() < 0.3:
        parts.append(f"BYMONTH={numbers(rng, 1, 12, wall.month)}")
    if frequency != "WEEKLY" and rng.random() < 0.3:
        parts.append(f"BYMONTHDAY={numbers(rng, 1, 31, rng.choice([wall.day, -1, -3]))}")
    if rng.random() < 0.45:
        counted = frequency in ("YEARLY", "MONTHLY") and rng.random() < 0.6
        names = rng.sample(NAMES, rng.randint(1, 4))
        if rng.random() < 0.5:
            names[0] = NAMES[wall.weekday()]
        ordinals = [1, 2, 3, 4, 5, -1, -2] if counted else [""]
        texts = dict.fromkeys(f"{rng.choice(ordinals)}{name}" for name in names)
        parts.append(f"BYDAY={','.join(texts)}")
    return parts


def time_parts(rng: Random, wall: datetime) -> list[str]:
    parts = []
    if rng.random() < 0.4:
        parts.append(f"BYHOUR={numbers(rng, 0, 23, wall.hour)}")
    if rng.random() < 0.3:
        parts.append(f"BYMINUTE={numbers(rng, 0, 59, wall.minute)}")
    if rng.random() < 0.15:
        parts.append(f"BYSECOND={numbers(rng, 0, 59, wall.second)}")
    return parts


def numbers(rng: Random, low: int, high: int, aim: int) -> str:
    chosen = {rng.choice([aim, rng.randint(low, high)]) for _ in range(rng.randint(1, 3))}
    return ",".join(str(number) for number in sorted(chosen))
